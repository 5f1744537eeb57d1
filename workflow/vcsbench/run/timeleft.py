"""How long the cell-rounds that are left will take, by what those took that were measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

# Before so many cell-rounds have ended, nothing is said.
FEW = 5


class TimeLeft:
    """Cell-rounds of the same kind (their block) take about as long. Moments are seconds of one clock."""

    def __init__(self) -> None:
        self._left: Counter[Hashable] = Counter()
        self._took: defaultdict[Hashable, list[float]] = defaultdict(list)
        self._began = self._last = 0.0

    def expect(self, kinds: Iterable[Hashable]) -> None:
        """These cell-rounds are still to be measured."""
        self._left = Counter(kinds)

    def begin(self, now: float) -> None:
        """A cell-round begins."""
        self._began = self._began or now

    def end(self, kind: Hashable, seconds: float, now: float) -> None:
        """A cell-round has ended, after so many seconds."""
        self._left[kind] -= 1
        self._took[kind].append(seconds)
        self._last = now

    def seconds(self, now: float) -> float | None:
        """How long all that are left will take; None where that is not known: a few have to have ended, and
        of half of those that are left some of their kind."""
        took = [seconds for some in self._took.values() for seconds in some]
        left = +self._left
        known = sum(number for kind, number in left.items() if kind in self._took)
        if len(took) < FEW or 2 * known < left.total():
            return None
        mean = sum(took) / len(took)
        means = {kind: sum(some) / len(some) for kind, some in self._took.items()}
        ahead = sum(number * means.get(kind, mean) for kind, number in left.items())
        # What comes between them is a part of the time, and several may run side by side.
        pace = (self._last - self._began) / sum(took)
        return max(0.0, ahead * pace - (now - self._last))
