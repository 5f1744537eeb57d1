"""Same work: only cells that did the same are compared, and whoever is refused hears what differs.

What a run did stands in the column `work` of the measurements, as JSON that is equal where the work is;
what several runs did is their different works, a line each (`several`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from vcsbench.axes import axis_of
from vcsbench.measure.work.kind import APART

OTHER, UNKNOWN = REFUSED = "other-work", "work-unknown"
# The order in which figures are told; others stand between these and the last.
FIRST = ("revisions", "paths", "changes", "nodes", "files", "directories", "symlinks", "lines")
LAST = ("bytes_in_files", "bytes")
NAMES = {"paths": "changed paths", "msg_lines": "lines of messages", "bytes_in_files": "bytes"}
DIGEST = "digest"
# Of these kinds of work, the timed run writes what the run that was read wrote. On real runs over every
# access hyperfine's and its hook's own output made 90 to 93 bytes of difference.
PRINTING = ("log", "dump", "stdout")
WRITTEN_TOLERANCE_BYTES = 1024
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Refusal:
    """Why cells are not compared: the flag, and a sentence without its full stop."""

    flag: str
    reason: str


def work_axes(axes: Iterable[str]) -> list[str]:
    """The axes of which another value may make a command do something else."""
    return [axis for axis in axes if axis_of(axis).changes_work]


def name_of(cell: Mapping[Any, Any], axes: Iterable[str]) -> str:
    """What a cell's work goes by: its value of the first of the axes that change what is done."""
    return next((str(cell[axis]) for axis in work_axes(axes)), "")


def subject_axis(axes: Iterable[str]) -> str:
    """The axis that says what a command works on: the last of those that change what is done; "" without."""
    return next(reversed(work_axes(axes)), "")


def several(works: Iterable[str]) -> str:
    """What several runs did; each of `works` is what one or several did."""
    return "\n".join(sorted({line for work in works for line in work.split("\n")}))


def refusal(command: str, sides: Mapping[str, str]) -> Refusal | None:
    """Why the cells of a command are not compared; None where all did the same.

    `sides` maps what tells the cells apart (a value of the compared axis) to what each did.
    """
    prefix = f"{command}: " if command else ""
    different = _rounds_differ(sides) or _sides_differ(sides)
    if different:
        return Refusal(OTHER, prefix + different)
    unknown = [name for name, work in sides.items() if "" in work.split("\n")]
    if unknown:
        return Refusal(UNKNOWN, f"{prefix}nothing tells what {' and '.join(unknown) or 'it'} did")
    return None


def _rounds_differ(sides: Mapping[str, str]) -> str:
    for name, work in sides.items():
        known = [line for line in work.split("\n") if line]
        if len(known) > 1:
            whose = f"the rounds of {name}" if name else "the rounds"
            return f"{whose} did not all do the same: {difference(known[0], known[1])}"
    return ""


def _sides_differ(sides: Mapping[str, str]) -> str:
    # A side with an unknown run has an empty line.
    known = {name: work.strip() for name, work in sides.items() if work.strip()}
    first = next(iter(known), "")
    for name, work in known.items():
        if work != known[first]:
            return difference(known[first], work, (first, name))
    return ""


def difference(one: str, other: str, names: tuple[str, str] = ("", "")) -> str:
    """Which figures of two works differ: `5,987 revisions against 5,000`."""
    figures: list[dict[str, int | str]] = [json.loads(one), json.loads(other)]
    if any(APART in work for work in figures):
        return "one of them is there to be another work"
    if figures[0].keys() != figures[1].keys():
        return "what they did is told in different ways"
    said: list[str] = []
    for figure in _counted(figures[0]):
        values = [f"{work[figure]:,}" for work in figures]
        if values[0] != values[1]:
            first, second = (f" ({name})" if name and not said else "" for name in names)
            said.append(f"{values[0]} {_name(figure)}{first} against {values[1]}{second}")
    if said:
        return ", ".join(said)
    between = f"{names[0]} and {names[1]}: " if all(names) else ""
    return f"{between}as many of all that is counted, but names or contents differ"


def is_apart(work: str) -> bool:
    """Whether a work is another than all others by design; `work` is what one or several did."""
    return f'"{APART}"' in work


def told(work: str) -> str:
    """What a run did, in words: `6,000 revisions, 19,012 changed paths`."""
    figures: dict[str, int | str] = json.loads(work)
    return ", ".join(f"{figures[figure]:,} {_name(figure)}" for figure in _counted(figures))


def _counted(figures: Mapping[str, int | str]) -> list[str]:
    return sorted(figures.keys() - {DIGEST, APART}, key=_rank)


def _name(figure: str) -> str:
    return NAMES.get(figure, figure.replace("_", " "))


def wrote_otherwise(run: Mapping[str, Any], context: Mapping[str, Any]) -> bool:
    """Whether a timed run of a command that prints wrote more or less than the one that was read.

    `run` is the run's part of the context. What svnbench prints it does not print when it is timed.
    """
    told = context.get("work", {})
    if told.get("kind") not in PRINTING or "captured_io" not in told:
        return False
    written = run.get("certificate", {}).get("client_wchar")
    if written is None:
        return False
    return bool(abs(written - told["captured_io"]["wchar"]) > WRITTEN_TOLERANCE_BYTES)


def _rank(figure: str) -> tuple[int, str]:
    if figure in FIRST:
        return FIRST.index(figure) - len(FIRST), figure
    return (1 + LAST.index(figure) if figure in LAST else 0), figure


def by_reason(withheld: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, list[str]]:
    """The reasons for which numbers are withheld, each with the places (axis values) that it is of."""
    found: dict[str, list[str]] = {}
    for reason, keys in withheld:
        found.setdefault(reason, []).append(" ".join(filter(None, keys.values())))
    return found


def alike(works: Mapping[Key, str]) -> set[Key]:
    """Those that did what most did. None, where as many did something else or nothing is known."""
    counted = Counter(work for work in works.values() if work and "\n" not in work).most_common(2)
    if not counted or (len(counted) > 1 and counted[0][1] == counted[1][1]):
        return set()
    return {key for key, work in works.items() if work == counted[0][0]}
