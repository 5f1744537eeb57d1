"""What is told of a run: where it comes from, its unit, and which of two values is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

# A column of a frame (pandas' Series), or a single number: what a metric computes with.
Column = Any
Columns = Mapping[str, Column]

LOW, HIGH = "low", "high"


class Words(NamedTuple):
    """What is said of values: of a better and a worse one, of the best and the worst, and how a factor
    goes on: `1.3 times as fast as`; `verb` is what the first four need before them to be said of something
    (nothing where they have a verb of their own)."""

    better: str
    worse: str
    best: str
    worst: str
    as_good: str
    verb: str = "is "

    @property
    def is_better(self) -> str:
        """`is faster`, `reads less`."""
        return self.verb + self.better


LESS = Words("lower", "higher", "lowest", "highest", "as low as")
MORE = Words("higher", "lower", "highest", "lowest", "as high as")
READS = Words("reads less", "reads more", "reads least", "reads most", "as little as", "")


# How metrics that strace counts say it.
COUNTED = (
    "Counted once for each cell, in a run of its own under strace, of client and server together."
)


def less_often(verb: str, as_good: str = "as few") -> Words:
    """What is said of how often something is done: `opens less often`."""
    less, more, least, most = (f"{verb} {how} often" for how in ("less", "more", "least", "most"))
    return Words(less, more, least, most, as_good, "")


def _only(parts: Columns) -> Column:
    (value,) = parts.values()
    return value


@dataclass(frozen=True)
class Metric:
    """One metric. Its file is called after it, and so is its column in reduced frames.

    `parts` are what is reduced (over runs to a round, over rounds to a cell), each computed from the columns
    of the measurements that `needs` names; `value` makes the metric of the reduced parts. So the client's CPU
    share is a quotient of medians, as published, and not a median of quotients. Where nothing else is said,
    the parts are those columns themselves, and the value is the only one.
    `better` says which of two values is the better one; `words`, where LESS or MORE are not what people
    say. An `exact` metric counts what is done, which neither time nor noise changes (compare.exact), `once`
    in a run of its own for all rounds of a cell; `fewer` says of it that there is less, with a place for how
    many times: `reads {} fewer bytes`. `reading` says in a sentence what a table of it holds, `quantity`
    what is divided in a table that compares: `elapsed X / elapsed Y`.
    """

    name: str
    title: str
    unit: str
    reading: str
    quantity: str
    needs: tuple[str, ...]
    parts: Mapping[str, Callable[[Columns], Column]] = field(default_factory=dict)
    value: Callable[[Columns], Column] = _only
    better: str = LOW
    exact: bool = False
    once: bool = False
    fewer: str = ""
    words: Words = LESS

    def __post_init__(self) -> None:
        if not self.parts:
            object.__setattr__(self, "parts", {name: itemgetter(name) for name in self.needs})
        if self.better == HIGH and self.words is LESS:
            object.__setattr__(self, "words", MORE)

    @property
    def gain(self) -> int:
        """1 where a ratio baseline / candidate above 1 says that the candidate is the better one, else -1."""
        return 1 if self.better == LOW else -1

    @property
    def calls(self) -> tuple[str, str]:
        """What the candidate of a ratio baseline / candidate above 1 is called, and of one below."""
        better, worse = self.words.better, self.words.worse
        return (better, worse) if self.better == LOW else (worse, better)
