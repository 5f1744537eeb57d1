"""The picks of a page, which are values that a reader chooses in the form "What I have".

The module also lists the operations and situations for which the page has answers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from vcsbench.advice import labels
from vcsbench.advice.cards import OtherWork, Situation
from vcsbench.advice.effects import is_benchmark
from vcsbench.axis_names import (
    BUILD_AXIS,
    CACHE_AXIS,
    CLIENTS_AXIS,
    COMMAND_AXIS,
    FORMAT_AXIS,
)
from vcsbench.codes import WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.formats import AS_IS
from vcsbench.plan.grid import AxisValues
from vcsbench.report.answers import CardView
from vcsbench.report.results import Results, unique_values, values_in, varying
from vcsbench.statistics import texts

# Nobody "has" a state of the caches, a number of clients, or a build, so these axes are no picks.
COMPARED_AXES = (CACHE_AXIS, CLIENTS_AXIS, BUILD_AXIS)
# The words in a study for the axes whose first value is the present state of a user's own repository.
STATE_WORDS = ("formats", "packings")
# The page contains a table of answers for each combination of picks, so more would make it too large.
MAX_COMBINATIONS = 300


@dataclass(frozen=True)
class Pick:
    """An axis of the form "What I have", in which a reader chooses one of its values, or any.

    `values` has each value with its label: `("nopack", "not packed")`. `preset` is the value that is chosen
    at first, "" for any value.
    """

    axis: str
    label: str
    values: Sequence[tuple[str, str]]
    preset: str


@dataclass(frozen=True)
class SituationRow:
    """A situation with its label, and with the axis values that the page filters it by (`where`).

    A situation has values that are given, such as the command and the access, and the best combination of the
    other values.
    """

    label: str
    where: AxisValues
    situation: Situation
    # Why no combination is best, "" if one is.
    why_not: str
    # The values of each combination that did other work, and how the work differs.
    other_work: Sequence[tuple[AxisValues, str]]


def find_picks(results: Results, cards: Sequence[CardView]) -> list[Pick]:
    """Return the axes on which a reader can choose the value that he has, in the order of the study.

    They are the axes with at least two values that can be measured here. Left out are the command, the
    repository, and COMPARED_AXES, such as the state of the caches. The list ends before there are more than
    300 combinations of picks. Return [] if all cards are aggregates: their answers are over all cells.
    """
    if all(view.card.question.aggregate for view in cards):
        return []
    study = results.study
    left_out = {*COMPARED_AXES, study.command_axis, *study.axes_of("repositories")}
    measurable = [cell for cell in results.grid if not cell.get("skip")]
    picks = []
    combinations = 1
    for axis, values_in_order in results.order.items():
        measurable_values = {cell.get(axis) for cell in measurable}
        values = [value for value in values_in_order if value in measurable_values]
        if axis in left_out or len(values) < 2:
            continue
        # A reader picks one of the values, or none.
        combinations *= len(values) + 1
        if combinations > MAX_COMBINATIONS:
            break
        own_value = _find_own_value(results, axis)
        pick = Pick(
            axis=axis,
            label=labels.axis_label(axis),
            values=[(value, labels.value_label(axis, value)) for value in values],
            # The form begins with the values of the user's own repository, as far as they are known.
            preset=own_value if own_value in values else "",
        )
        picks.append(pick)
    return picks


def _find_own_value(results: Results, axis: str) -> str:
    """Return the value that the user's own repository has on an axis, "" if it is unknown.

    Only its format and packing can be known. They are the first values of their axes: `as-is` (an exact
    copy of the repository) stands before f7 and f8, and the repository's own packing before all others.
    """
    # A dump file, or a repository at a URL, cannot be copied: nothing shows its format and packing.
    has_copy = bool(results.own_repository) and AS_IS in results.order.get(FORMAT_AXIS, ())
    # The file of the study has a word for all values of such an axis, `format: formats`.
    is_format_or_packing = results.study.axes.get(axis) in STATE_WORDS
    return results.order[axis][0] if has_copy and is_format_or_packing else ""


def find_operations(results: Results, cards: Sequence[CardView]) -> list[AxisValues]:
    """Return the operations that the cards compare, in the order of the grid.

    An operation is a command with a state of the caches: `{"command": "log", "cache": "cold"}`. Aggregate
    cards do not count: a card on builds, for example, has one answer over all operations. Nobody runs
    svnbench, a test program, at work. So the result has its operations only if no other one is compared.
    """
    axes = [axis for axis in results.order if axis in (results.study.command_axis, CACHE_AXIS)]
    # The values of the compared operations, such as ("log", "cold").
    compared: set[tuple[str, ...]] = set()
    for view in cards:
        if not view.card.question.aggregate:
            compared.update(values_in(row.where, axes) for row in view.rows)
    operations = []
    # Many cells have the same operation, because they differ on other axes.
    for values in unique_values(values_in(cell, axes) for cell in results.grid):
        if values in compared:
            operations.append(_without_empty(dict(zip(axes, values, strict=True))))
    run_at_work = [operation for operation in operations if not is_benchmark(operation)]
    return run_at_work or operations


def list_command_lines(
    operations: Sequence[AxisValues], commands: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return the timed command of each operation, by the operation's label: `{"cold log": "svn log -v URL"}`.

    `commands` has names and command lines, where words in braces differ between cells: `("log", "{svn} log -v
    {url}")`. An operation without a command line gets "".
    """
    command_lines = dict(commands)
    lines = {}
    for operation in operations:
        command_line = command_lines.get(operation.get(COMMAND_AXIS, ""), "")
        # The program `{svn}` becomes `svn`, and a later word `{url}` becomes `URL`.
        program, _, rest = command_line.partition(" ")
        arguments = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), rest)
        label = labels.case_label(operation, shown=list(operation))
        lines[label] = f"{program.strip('{}')} {arguments}".strip()
    return lines


def label_situations(results: Results) -> list[SituationRow]:
    """Return each situation of the advice with a label, such as `cold log over http`.

    A situation is a case (its `where`, such as a cold log) with the values to choose from in it. One with a
    single choice, such as one format, is left out. A label has the axes on which the situations differ.
    """
    situations = [
        situation
        for situation in results.advice.situations
        if situation.why is not WhyNoBest.ONE_CHOICE
    ]
    label_axes = varying([situation.where for situation in situations], results.order)
    rows = []
    for situation in situations:
        label = labels.case_label(situation.where, label_axes)
        # The page shows the rows that fit the values which the reader has picked: "http" hides a row of svn.
        # An axis that does not apply to the situation ("") must hide no row, so it is left out.
        where = _without_empty(situation.where)
        why_not = texts.NO_BEST[situation.why] if situation.why else ""
        other_work = [(other.values, describe_other_work(other)) for other in situation.other_work]
        rows.append(SituationRow(label, where, situation, why_not, other_work))
    return rows


def describe_other_work(other: OtherWork) -> str:
    """Return how the work of a choice differs: `9 files against 10`, or why it cannot be compared."""
    if other.compared:
        return same_work.difference(other.work, other.compared)
    # The reason names neither a command nor a cell, because both names are "".
    refusal = same_work.refusal("", {"": other.work})
    assert refusal
    return refusal.reason


def _without_empty(where: AxisValues) -> AxisValues:
    """Return the values without those that are "": an axis that does not apply to a cell has this value."""
    return {axis: value for axis, value in where.items() if value}
