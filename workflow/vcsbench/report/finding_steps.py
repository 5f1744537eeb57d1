"""The reasons of findings, and what to do about each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.terminal import command_with, seconds_of_rounds, variables_of, verdict_counts
from vcsbench.statistics import comparisons, verdicts

DIFFERENT = (verdicts.REVERSED, verdicts.DIFFERS)
# Of a finding that differs, if no condition other than published explains it.
NO_REASON = "no-reason"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
NOT_IN_GRID = "not-in-grid"
LARGER_HELPS = ("scale", "fixed-cost")
# What to do about a reason, with and without a command. The test of a build or storage names its action.
WITH_COMMAND = {
    **dict.fromkeys(LARGER_HELPS, "measure at a larger scale"),
    "other-storage": "measure on the published storage",
    **dict.fromkeys(["needs-rounds", "low-n"], "measure more rounds"),
    NOT_IN_GRID: "add the cells, left out by default so that a run fits its minutes",
}
WITHOUT_COMMAND = {
    "fixed-cost": "measure a larger repository",
    "newer-version": "cannot be tested here: the study builds has no such cells",
    "same-machine": "measure with a server on another machine (key server, docs/working-copies.md)",
    "other-system": "cannot be tested here: servers run on Linux",
    "fewer-cells": "measure the other cells (config/full.yaml)",
    NOT_IN_GRID: "name their values in the configuration (key grid, config/README.md)",
    NO_REASON: "repeat the run on another machine",
    "on-bound": "nothing: the true value is at an end of the range",
    "partial": "nothing: the value is of the measured cells",
    "no-duplicates": "set duplicates to 1 or more",
    "not-in-turns": "measure both sides again (--forcerun cell)",
    "hosts-differ": "measure both sides on one machine",
    "no-result": "see Failed rounds and Flags below Quality",
    "no-baseline": "save a baseline first",
}
IN_ITS_ROW = "see the cause in its row"
LONGER = "longer than this run (make plan estimates it)"
# A part of the grid: the values of axes.
Part = Mapping[str, list[str]]


class Step(NamedTuple):
    """A reason of a verdict: its code, label and text, and the command that tests it after `before`, or "".

    `takes` is the duration of the test in words. `run` starts the run of a `test`. Steps whose tests differ
    only in `cells` have one command.
    """

    code: str
    label: str
    text: str
    before: str = ""
    command: str = ""
    takes: str = ""
    test: verdicts.ReasonTest | None = None
    run: str = ""


class ReasonLine(NamedTuple):
    """A reason, the number of its findings by verdict, and what to do: texts, each with a command or ""."""

    label: str
    findings: str
    tests: Sequence[tuple[str, str]]


def reason_steps(
    results: Results, definition: Row, row: Row, verdict: str, addable: Sequence[Part]
) -> tuple[list[Step], list[str]]:
    """Return the reasons of a verdict, and other remarks. `addable` are parts of the grid (addable_parts)."""
    given = variables_of(results.provenance.get("command", ""), results.study.name)
    steps: list[Step] = []
    reasons = row.get("reasons") or ()
    # Files of older versions have only the text.
    notes = [f"{row['why']}."] if row.get("why") and not reasons else []
    for reason in reasons:
        label, _, text = reason.sentence.partition(": ")
        step = Step(reason.code, label, text)
        if reason.code == "all-published":
            continue
        if verdict in DIFFERENT and reason.code not in verdicts.POSSIBLE:
            notes += [f"{reason.sentence}."] if reason.code != "reversed" else []
            continue
        if reason.code in ("low-n", "needs-rounds"):
            number = f"{reason.values['needed']:.0f}"
            seconds = seconds_of_rounds(results.account, int(number))
            step = step._replace(
                text=text.replace(f"`rounds: {number}`", f"{number} in all"),
                command=command_with(given, f"--config rounds={number}"),
                takes=f"{words.duration(seconds)} more" if seconds else "",
            )
        elif reason.code == NOT_IN_GRID:
            part = _part_to_add(results, definition)
            named = [[value_label(axis, v) for v in values] for axis, values in part.items()]
            step = step._replace(text=", ".join(map(" or ".join, named)))
            if part in addable:
                command, takes = _command_to_add(results, addable, given)
                step = step._replace(command=command, takes=takes)
        elif test := reason.test:
            run = command_with({**given, "STUDY": test.study}, f"--configfile {test.file}")
            taken = results.account.get("taken_s") if reason.code in LARGER_HELPS else None
            step = step._replace(
                before=test.before,
                command=test.command(run),
                takes=f"up to {words.duration(verdicts.LARGER * taken)}" if taken else LONGER,
                test=test,
                run=run,
            )
        steps.append(step)
    if verdict in DIFFERENT and not steps:
        steps.append(Step(NO_REASON, "no reason known", NOTHING_EXPLAINS))
    return steps, notes


def addable_parts(results: Results, rows: Rows, definitions: Mapping[str, Row]) -> list[Part]:
    """Return the cells of the findings that are not in the grid, if the configuration has their values."""
    if not _grid_of(results):
        return []
    parts = [
        _part_to_add(results, definitions.get(row["id"], {}))
        for row in rows
        if any(reason.code == NOT_IN_GRID for reason in row.get("reasons") or ())
    ]
    order = results.order
    return [p for p in parts if p and all({*values} <= {*order[a]} for a, values in p.items())]


def _grid_of(results: Results) -> Row:
    grids = (results.provenance.get("config") or {}).get("grid") or {}
    return grids.get(results.study.name) or {}


def _part_to_add(results: Results, definition: Row) -> Part:
    compare = definition.get("compare") or {}
    sides = [compare.get("baseline"), compare.get("candidate")]
    where = {**(definition.get("where") or {}), **({compare["axis"]: sides} if all(sides) else {})}
    return {axis: comparisons.axis_values(v) for axis, v in where.items() if axis in results.order}


def _command_to_add(
    results: Results, parts: Sequence[Part], given: Mapping[str, str]
) -> tuple[str, str]:
    """Return the command that adds parts to the grid, and its duration in words, "" if unknown."""
    include, order = _grid_of(results).get("include", []), results.order
    content = json.dumps({"grid": {results.study.name: {"include": [*include, *parts]}}})
    run = command_with(given, "--configfile more.yaml")
    known = {tuple(cell.get(axis, "") for axis in order) for cell in results.grid}
    here = {axis: {values[at] for values in known} for at, axis in enumerate(order)}
    cells = {c for part in parts for c in product(*({**here, **part}[axis] for axis in order))}
    seconds = cell_seconds(results) * len(cells - known)
    taken = f"up to {words.duration(seconds)}" if seconds else ""
    return f"printf '%s\\n' {shlex.quote(content)} >more.yaml && {run}", taken


def cell_seconds(results: Results) -> float:
    """Return the seconds in which a new cell gets as many rounds as each cell has, 0 if unknown."""
    spent, blocks = results.account.get("spent_s", {}), results.account.get("blocks", [])
    cell_rounds = len({(row["cell"], row["round"]) for row in results.measurements})
    if not (spent and blocks and cell_rounds):
        return 0.0
    seconds = (spent["measuring"] + spent["waiting"]) / cell_rounds
    return round(seconds * min(block["rounds"] for block in blocks), 1)


def reason_lines(findings: Sequence[tuple[str, Sequence[Step]]]) -> list[ReasonLine]:
    """Return what to do about each reason and its different commands, the reason with most findings first.

    `findings` are verdicts and steps.
    """
    groups = grouped_by(
        ((number, verdict, step) for number, (verdict, of) in enumerate(findings) for step in of),
        lambda item: item[2].label,
    )
    lines = []
    for label, members in groups.items():
        verdicts = {number: verdict for number, verdict, _ in members}
        steps = [step for *_, step in members if step.command]
        same = grouped_by(steps, _without_cells).values()
        tests = [(_action_of(of[0]), _joined_command(of)) for of in same]
        nothing = [(WITHOUT_COMMAND.get(members[0][2].code, IN_ITS_ROW), "")]
        counts = verdict_counts(verdicts.values())
        lines.append((len(verdicts), ReasonLine(label, counts, tests or nothing)))
    return [line for _, line in sorted(lines, key=lambda item: -item[0])]


def _without_cells(step: Step) -> object:
    return replace(step.test, cells="") if step.test else step.command


def _joined_command(steps: Sequence[Step]) -> str:
    """Return the command of steps that differ in the cells to measure, with the cells of all."""
    step = steps[0]
    if not step.test:
        return step.command
    cells = ", ".join(unique_values(other.test.cells for other in steps if other.test))
    return replace(step.test, cells=cells).command(step.run)


def _action_of(step: Step) -> str:
    parts = [": ".join(filter(None, [WITH_COMMAND.get(step.code), step.before])) or "test it"]
    return "; ".join([*parts, *([f"takes {step.takes}"] if step.takes else [])])
