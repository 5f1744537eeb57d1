"""Quality of the data: marks, flags, failures, what was left out, and the limits of it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.axes import axis_of
from vcsbench.evidence import samework
from vcsbench.evidence.flags import FLAGS, Flag, has_false_label

Record = Mapping[str, Any]

OTHER_HOSTS = """Numbers from different machines, the published ones among them, are shown side by
side and never divided by one another."""


@dataclass(frozen=True)
class Reason:
    """Cells that share a reason, in the order of the grid."""

    text: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Flagged:
    """A flag, what it means, how many runs carry it, and in which cells; those with a false label
    are not in the tables."""

    flag: str
    sentence: str
    false_label: bool
    runs: int
    cells: tuple[str, ...]


def reasons(rows: Iterable[Record], reason: str) -> list[Reason]:
    """Group rows that have a `cell` by the text in another column, the most frequent first."""
    cells: dict[str, dict[str, None]] = {}
    for row in rows:
        if row[reason]:
            cells.setdefault(row[reason], {})[row["cell"]] = None
    groups = [Reason(text, tuple(names)) for text, names in cells.items()]
    return sorted(groups, key=lambda group: -len(group.cells))


def flagged(measurements: Iterable[Record]) -> list[Flagged]:
    """Each flag among the measured runs with its sentence, the most frequent first."""
    runs: dict[str, int] = {}
    cells: dict[str, dict[str, None]] = {}
    for row in measurements:
        for flag in str(row["flags"]).split():
            runs[flag] = runs.get(flag, 0) + 1
            cells.setdefault(flag, {})[row["cell"]] = None
    unknown = Flag("This flag has no explanation.", "")
    return [
        Flagged(flag, known.sentence.strip(), known.false_label, runs[flag], tuple(cells[flag]))
        for flag in sorted(runs, key=lambda flag: (-runs[flag], flag))
        for known in [FLAGS.get(flag, unknown)]
    ]


@dataclass(frozen=True)
class SetAside:
    """Attempts that were set aside for a false label: the label's flag with its sentence, how many
    cell-rounds were measured again for it, and in which cells."""

    flag: str
    sentence: str
    rounds: int
    cells: tuple[str, ...]


def set_aside(measurements: Iterable[Record]) -> list[SetAside]:
    """Why cell-rounds were measured again within their round, the most frequent first."""
    found: dict[str, dict[tuple[str, Any], None]] = {}
    for row in measurements:
        for flag in str(row.get("set_aside") or "").replace(",", "").split():
            found.setdefault(flag, {})[row["cell"], row["round"]] = None
    return [
        SetAside(flag, FLAGS[flag].says, len(rounds), tuple(dict.fromkeys(c for c, _ in rounds)))
        for flag, rounds in sorted(found.items(), key=lambda item: -len(item[1]))
    ]


@dataclass(frozen=True)
class Done:
    """What most runs did that agree on the axes which change the work, and how many did that and how many did
    not; "" where as many did something else, or nothing tells."""

    values: tuple[str, ...]
    what: str
    runs: int
    others: int


def work_axes(axes: Iterable[str]) -> list[str]:
    """The axes of which another value may make a command do something else."""
    return [axis for axis in axes if axis_of(axis).changes_work]


def work_done(measurements: Iterable[Record], axes: Iterable[str]) -> list[Done]:
    """What was done for each of the values of work_axes, in the order of the measurements."""
    named = list(axes)
    works: dict[tuple[str, ...], dict[int, str]] = {}
    for number, row in enumerate(measurements):
        if not has_false_label(str(row["flags"])):
            key = tuple(row.get(axis, "") for axis in named)
            works.setdefault(key, {})[number] = row.get("work", "")
    found = []
    for values, runs in works.items():
        same = samework.alike(runs)
        what = samework.told(runs[min(same)]) if same else ""
        found.append(Done(values, what, len(same), len(runs) - len(same)))
    return found


def caveats(commands: Mapping[str, Mapping[str, Any]], measured: Sequence[str]) -> list[str]:
    """The caveats of the commands that were measured."""
    return [
        f"{name}: {command['caveat']}"
        for name, command in commands.items()
        if name in measured and command.get("caveat")
    ]


def limits(axes: Iterable[str], guests: Iterable[str]) -> list[str]:
    """What a study with these axes says nothing about; `guests` are the hypervisors that it ran under."""
    under = sorted(guests)
    return [*(said for axis in axes for said in axis_of(axis).limits(under)), OTHER_HOSTS]
