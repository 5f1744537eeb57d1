"""Quality of the data: marks, flags, failures, what was left out, and the limits of it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vcsbench.axes.table import axis_of
from vcsbench.config.study_models import Command
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, Flag, is_invalid
from vcsbench.report.records import Record, distinct, grouped_by, values_of

OTHER_HOSTS = """Numbers from different machines, the published ones among them, are shown side by
side and never divided by one another."""
UNKNOWN = Flag("This flag has no explanation.", "")


@dataclass(frozen=True)
class Flagged:
    """A flag, how many runs carry it, and in which cells."""

    word: str
    flag: Flag
    runs: int
    cells: list[str]


@dataclass(frozen=True)
class SetAside:
    """Attempts that were set aside for a false label: the label's flag with its sentence, how many
    cell-rounds were measured again for it, and in which cells."""

    flag: str
    sentence: str
    rounds: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """What most runs did that agree on the axes which change the work, and how many did that and how many did
    not; "" where as many did something else, or nothing tells."""

    values: tuple[str, ...]
    what: str
    runs: int
    others: int


def reasons(rows: Iterable[Record], reason: str) -> dict[str, list[str]]:
    """The texts in a column of rows that have a `cell`, with the cells, the most frequent first."""
    found = {
        text: distinct(row["cell"] for row in of_text)
        for text, of_text in grouped_by(rows, lambda row: row[reason]).items()
        if text
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def flagged(measurements: Iterable[Record]) -> list[Flagged]:
    """Each flag among the measured runs, the most frequent first."""
    carried = ((word, row["cell"]) for row in measurements for word in row["flags"].split())
    found = [
        Flagged(word, FLAGS.get(word, UNKNOWN), len(runs), distinct(cell for _, cell in runs))
        for word, runs in grouped_by(carried, lambda pair: pair[0]).items()
    ]
    return sorted(found, key=lambda one: (-one.runs, one.word))


# Flags of more runs than this share concern the run as a whole.
NEARLY_ALL = 0.8


def split_flags(found: Sequence[Flagged], runs: int) -> tuple[list[Flagged], list[str]]:
    """Return the flags of some runs, and a sentence for each flag of nearly all runs."""
    few = [one for one in found if one.runs <= NEARLY_ALL * runs or one.flag.is_invalid]
    many = [one for one in found if one not in few]
    return few, [
        f"{one.flag.sentence.strip().replace('`', '')} ({one.word}, {one.runs} of {runs} runs)"
        for one in many
    ]


def set_aside(measurements: Iterable[Record]) -> list[SetAside]:
    """Why cell-rounds were measured again within their round, the most frequent first."""
    again = distinct(
        (word, row["cell"], row["round"])
        for row in measurements
        for word in (row.get("set_aside") or "").replace(",", "").split()
    )
    found = [
        SetAside(
            word, FLAGS[word].message, len(rounds), tuple(distinct(cell for _, cell, _ in rounds))
        )
        for word, rounds in grouped_by(again, lambda one: one[0]).items()
    ]
    return sorted(found, key=lambda one: -one.rounds)


def work_done(measurements: Iterable[Record], axes: Sequence[str]) -> list[Done]:
    """What was done for each of the values of same_work.work_axes, in the order of the measurements."""
    counted = [row for row in measurements if not is_invalid(row["flags"])]
    found = []
    for values, rows in grouped_by(counted, lambda row: values_of(row, axes)).items():
        runs = {number: row.get("work", "") for number, row in enumerate(rows)}
        same = same_work.majority(runs)
        what = same_work.figures_of(runs[min(same)]) if same else ""
        found.append(Done(values, what, len(same), len(runs) - len(same)))
    return found


def caveats(commands: Mapping[str, Command], measured: Sequence[str]) -> list[str]:
    """The caveats of the commands that were measured."""
    return [
        f"{name}: {command.caveat}"
        for name, command in commands.items()
        if name in measured and command.caveat
    ]


def limits(axes: Iterable[str], guests: Iterable[str]) -> list[str]:
    """What a study with these axes says nothing about; `guests` are the hypervisors that it ran under."""
    under = sorted(guests)
    return [*(said for axis in axes for said in axis_of(axis).limits(under)), OTHER_HOSTS]
