"""Numbers that a reader would ask about: a hot cell that is slower than the cold one, server caches that do
not help, runs that the network keeps waiting, rounds that disagree; and where the time went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import mean, median

from vcsbench import words
from vcsbench.axes.cache import promises
from vcsbench.evidence.flags import is_invalid
from vcsbench.plan.grid import originals
from vcsbench.report.records import Record, grouped_by
from vcsbench.report.results import Results

# By so much slower at least, and in so many of the rounds: less is what noise does every day.
SLOWER, MOST, ENOUGH_ROUNDS = 1.05, 0.8, 3
# A round, and all others of its cell.
DISAGREES = 1.5
NO_HELP = "cache-ineffective"
# Linux delays an acknowledgement for 40 ms, of which a run may use some to compute.
DELAY_S = 0.02
SHOWN = 10


@dataclass(frozen=True)
class Spent:
    """Where the time of a cell or a round went, in seconds; None where that is not known. `waiting_s` is what
    neither client nor server computed: below 0 where both did at once for longer than they waited."""

    elapsed_s: float
    client_s: float | None
    server_s: float | None

    @property
    def waiting_s(self) -> float | None:
        """Elapsed, but for what client and server computed."""
        if self.client_s is None:
            return None
        return self.elapsed_s - self.client_s - (self.server_s or 0.0)


@dataclass(frozen=True)
class Odd:
    """An odd number: of which cell, what of it, and the sides that are held against each other, by name."""

    cell: str
    says: str
    sides: Mapping[str, Spent]

    @property
    def spent(self) -> list[tuple[str, list[str]]]:
        """Of each side its name, and seconds elapsed, of the client, of the server, and waiting, as text."""
        return [
            (name, [_text(s) for s in (of.elapsed_s, of.client_s, of.server_s, of.waiting_s)])
            for name, of in self.sides.items()
        ]


@dataclass(frozen=True)
class OddKind:
    """What is odd in the same way: the most striking first, and how many more there are."""

    title: str
    advice: str
    found: list[Odd]
    more: int


Rounds = dict[int, Spent]
Cells = dict[str, Rounds]


def odd_numbers(results: Results) -> list[OddKind]:
    """What is odd about a study's measurements, in kinds."""
    timed = [row for row in originals(results.measurements) if row["elapsed_s"] is not None]
    counted = [row for row in timed if not is_invalid(row["flags"])]
    of_cells = grouped_by(counted, lambda row: row["cell"])
    cells = {cell: rounds_of(rows) for cell, rows in of_cells.items()}
    axes = {cell: {a: rows[0][a] for a in results.study.axes} for cell, rows in of_cells.items()}
    promised = {c["cell"]: promises(c) for c in results.contexts if c.get("cell") in cells}
    pairs = list(_warmer(axes, promised))
    kept = _slower([pair for pair in pairs if not _is(promised, pair, "os")], axes, cells)
    kinds = {
        "Hot, and slower than cold": (
            "What the caches save is less than what they, or two programs that compute at once, cost.",
            _slower([pair for pair in pairs if _is(promised, pair, "os")], axes, cells),
        ),
        "A server that is kept, and slower than a new one": (
            "Its caches cost more than they save: give them more memory, or less.",
            [odd for odd in kept if all(of.server_s is not None for of in odd.sides.values())],
        ),
        "Server caches that do not help": (
            "In most runs the kept server read as much again as when it was new: its cache holds too little.",
            _helpless(of_cells, cells),
        ),
        "Runs that wait for an acknowledgement": (
            "TCP delays one for 40 ms where nothing is to be sent back, and a server may wait for it with "
            "the end of its answer. Whether it does is a matter of how the answer falls into pieces, not "
            "of how much work it was: a ratio of such a cell and another may be that of waiting.",
            _delayed(of_cells),
        ),
        "Rounds that disagree": (
            "One round is far from all others: see what disturbed it, or which copy it was on.",
            _disagreeing(cells),
        ),
    }
    return [
        OddKind(title, advice, found[:SHOWN], max(0, len(found) - SHOWN))
        for title, (advice, odd) in kinds.items()
        if (found := list(odd))
    ]


def rounds_of(rows: Sequence[Record]) -> Rounds:
    """Where the time of each round of a cell went, of the measurements' rows of that cell."""
    numbers = grouped_by(rows, lambda row: int(row["round"]))
    return {number: _spent(runs) for number, runs in numbers.items()}


def _spent(runs: Sequence[Record]) -> Spent:
    client = [(_number(run, "user_s"), _number(run, "system_s")) for run in runs]
    known = [user + system for user, system in client if user is not None and system is not None]
    server = [seconds for run in runs if (seconds := _number(run, "server_cpu_s")) is not None]
    return Spent(
        median(float(run["elapsed_s"]) for run in runs),
        mean(known) if known else None,
        mean(server) if server else None,
    )


def _number(row: Record, name: str) -> float | None:
    value = row.get(name)
    return None if value in (None, "") else float(value)


def _warmer(
    axes: Mapping[str, dict[str, str]], promised: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """The pairs of cells that differ in one axis only, by which the second has warmer caches."""
    for name in dict.fromkeys(axis for of in axes.values() for axis in of):
        alike = grouped_by(axes, lambda cell: tuple((axes[cell] | {name: ""}).values()))  # noqa: B023
        for cells in alike.values():
            for pair in combinations(cells, 2):
                for cold, hot in (pair, pair[::-1]):
                    if _warmth(promised.get(cold, {})) < _warmth(promised.get(hot, {})):
                        yield cold, hot


def _warmth(promised: Mapping[str, str]) -> tuple[bool, bool]:
    """Of those with the same promise of the OS's caches, a kept server's are warmer than a new one's."""
    hot = promised.get("os") == "hot"
    return hot, hot and promised.get("server") == "kept"


def _is(promised: Mapping[str, Mapping[str, str]], pair: tuple[str, str], key: str) -> bool:
    return promised[pair[0]].get(key) != promised[pair[1]].get(key)


def _slower(
    pairs: Iterable[tuple[str, str]], axes: Mapping[str, Mapping[str, str]], cells: Cells
) -> list[Odd]:
    found = []
    for cold, hot in pairs:
        sides = {
            _apart(axes[one], axes[other]): typical(cells[one])
            for one, other in ((hot, cold), (cold, hot))
        }
        shared = cells[cold].keys() & cells[hot].keys()
        slower = [n for n in shared if cells[hot][n].elapsed_s > cells[cold][n].elapsed_s]
        ratio = typical(cells[hot]).elapsed_s / typical(cells[cold]).elapsed_s
        if len(shared) >= ENOUGH_ROUNDS and len(slower) >= MOST * len(shared) and ratio > SLOWER:
            times = f"{words.significant(ratio)} times as long"
            says = f"{times}, and longer in {len(slower)} of {len(shared)} rounds"
            found.append((ratio, Odd(hot, says, sides)))
    return _largest_first(found)


def _apart(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    return " ".join(value for axis, value in one.items() if value != other[axis])


def typical(rounds: Rounds) -> Spent:
    """The medians over rounds of where the time went."""
    client = [of.client_s for of in rounds.values() if of.client_s is not None]
    server = [of.server_s for of in rounds.values() if of.server_s is not None]
    return Spent(
        median(of.elapsed_s for of in rounds.values()),
        median(client) if client else None,
        median(server) if server else None,
    )


def _helpless(of_cells: Mapping[str, Sequence[Record]], cells: Cells) -> Iterator[Odd]:
    for cell, rows in of_cells.items():
        flagged = [row for row in rows if NO_HELP in row["flags"].split()]
        if 2 * len(flagged) > len(rows):
            says = f"in {len(flagged)} of {len(rows)} runs"
            yield Odd(cell, says, {"all rounds": typical(cells[cell])})


def _delayed(of_cells: Mapping[str, Sequence[Record]]) -> list[Odd]:
    """The cells whose runs take longer where an acknowledgement was delayed, or all wait for one."""
    found = []
    for cell, rows in of_cells.items():
        of_runs = grouped_by(rows, lambda row: bool(_number(row, "delayed_acks")))
        delayed, others = of_runs.get(True, []), of_runs.get(False, [])
        if len(delayed) < ENOUGH_ROUNDS:
            continue
        sides = {"delayed": _spent(delayed)}
        waits_s = sides["delayed"].waiting_s or 0.0
        if others:
            sides["not delayed"] = _spent(others)
            waits_s = sides["delayed"].elapsed_s - sides["not delayed"].elapsed_s
        if waits_s > DELAY_S:
            says = f"in {len(delayed)} of {len(rows)} runs"
            found.append((waits_s / sides["delayed"].elapsed_s, Odd(cell, says, sides)))
    return _largest_first(found)


def _disagreeing(cells: Cells) -> list[Odd]:
    found = []
    for cell, rounds in cells.items():
        if len(rounds) < ENOUGH_ROUNDS:
            continue
        usual = typical(rounds)
        number, worst = max(rounds.items(), key=lambda one: one[1].elapsed_s)
        others = {n: of for n, of in rounds.items() if n != number}
        ratio = worst.elapsed_s / max(of.elapsed_s for of in others.values())
        if ratio > DISAGREES:
            says = f"round {number} took {words.significant(ratio)} times as long as the slowest other one"
            sides = {f"round {number}": worst, "median": usual}
            found.append((ratio, Odd(cell, says, sides)))
    return _largest_first(found)


def _largest_first(found: Iterable[tuple[float, Odd]]) -> list[Odd]:
    return [odd for _, odd in sorted(found, key=lambda one: -one[0])]


def _text(seconds: float | None) -> str:
    return "" if seconds is None else words.fixed(seconds, 3)
