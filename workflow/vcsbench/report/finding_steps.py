"""The steps that test the reasons of findings: commands, and one command for several findings."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.terminal import command_with, seconds_of_rounds, variables_of
from vcsbench.statistics import contract

DIFFERENT = (contract.REVERSED, contract.DIFFERS)
# Of a finding that differs, if no condition other than published explains it.
NO_REASON = "no reason known"
NOT_IN_GRID = contract.SENTENCES["not-in-grid"].partition(": ")[0]
PUBLISHED_OVER_ALL = contract.SENTENCES["all-published"].partition(" {")[0]
OUTSIDE_DEFAULT = "left out of the default configuration, so that a run fits its minutes"
# What a reason's test shows, and its duration.
OUTCOMES = {
    "smaller scale": "a value closer to the published one supports it, and the test takes {larger}",
    "other storage": "a value closer to the published one supports it, and the test takes {longer}",
    "newer Subversion": "a value closer to the published one supports it, and the test takes {longer}",
}
LONGER = "longer than this run (make plan estimates it)"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
_MANY_ROUNDS = re.compile(r"\brounds=(\d+)")
# The cells that an older build measures, too.
_INCLUDED = re.compile(r"\binclude: \[(\{.*\})\](?=\}\}\})")
_ROUNDS = re.compile(r"`rounds: (\d+)`")
_RUN = re.compile(r"make report STUDY=(\S+)(?: ARGS='([^']*)')?$")
# A part of the grid: the values of axes.
Part = Mapping[str, list[str]]


class Step(NamedTuple):
    """A reason of a verdict: its label and text, and the command that tests it after `before`, or ""."""

    label: str
    text: str
    before: str = ""
    command: str = ""


def reason_steps(
    results: Results, definition: Row, row: Row, verdict: str, addable: Sequence[Part]
) -> tuple[list[Step], list[str]]:
    """Return the reasons of a verdict, and other remarks. `addable` are parts of the grid (addable_parts)."""
    given = variables_of(results.provenance.get("command", ""), results.study.name)
    reasons = contract.read_reasons(row.get("why") or "")
    steps: list[Step] = []
    notes = []
    for sentence, test in reasons:
        label, _, text = sentence.partition(": ")
        before, _, command = test.rstrip("`").partition("`")
        if sentence.startswith(PUBLISHED_OVER_ALL):
            notes.append(f"{sentence[:1].upper()}{sentence[1:]}.")
        elif verdict in DIFFERENT and not contract.is_possible(sentence):
            notes += [f"{sentence}."] if label != contract.REVERSED else []
        elif number := _ROUNDS.search(sentence):
            seconds = seconds_of_rounds(results.account, int(number[1]))
            more = f", {words.duration(seconds)} more" if seconds else ""
            command = command_with(given, f"--config rounds={number[1]}")
            text = text.replace(number[0], f"{number[1]} in all")
            steps.append(Step(label, f"{text}{more}", "", command))
        else:
            if label == NOT_IN_GRID:
                part = _part_to_add(results, definition)
                named = [[value_label(axis, v) for v in values] for axis, values in part.items()]
                text = ", ".join(map(" or ".join, named))
                if part in addable:
                    command, takes = _command_to_add(results, addable, given)
                    text = f"{text}; {OUTSIDE_DEFAULT}{takes}"
            elif found := _RUN.search(command):
                of_study = {**given, "STUDY": found[1]}
                command = f"{command[: found.start()]}{command_with(of_study, found[2] or '')}"
                taken = results.account.get("taken_s")
                larger = f"up to {words.duration(contract.LARGER * taken)}" if taken else LONGER
                if outcome := OUTCOMES.get(label):
                    text = f"{text}; {outcome.format(larger=larger, longer=LONGER)}"
            if label == "newer Subversion" and not command:
                text = f"{text}; the study builds has no such cells, so no command tests it"
            steps.append(Step(label, text, before.strip(" ,"), command))
    if verdict in DIFFERENT and not steps:
        steps.append(Step(NO_REASON, NOTHING_EXPLAINS))
    return steps, notes


def addable_parts(results: Results, rows: Rows, definitions: Mapping[str, Row]) -> list[Part]:
    """Return the cells of the findings that are not in the grid, if the configuration has their values."""
    if not _grid_of(results):
        return []
    lacking = [r for r in rows if (r.get("why") or "").startswith(f"{NOT_IN_GRID}: ")]
    parts = [_part_to_add(results, definitions.get(row["id"], {})) for row in lacking]
    order = results.order
    return [p for p in parts if p and all({*values} <= {*order[a]} for a, values in p.items())]


def _grid_of(results: Results) -> Row:
    grids = (results.provenance.get("config") or {}).get("grid") or {}
    return grids.get(results.study.name) or {}


def _part_to_add(results: Results, definition: Row) -> Part:
    compare = definition.get("compare") or {}
    sides = [compare.get("baseline"), compare.get("candidate")]
    where = {**(definition.get("where") or {}), **({compare["axis"]: sides} if all(sides) else {})}
    return {axis: contract.axis_values(v) for axis, v in where.items() if axis in results.order}


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
    taken = f"; takes up to {words.duration(seconds)}" if seconds else ""
    return f"printf '%s\\n' {shlex.quote(content)} >more.yaml && {run}", taken


def cell_seconds(results: Results) -> float:
    """Return the seconds in which a new cell gets as many rounds as each cell has, 0 if unknown."""
    spent, blocks = results.account.get("spent_s", {}), results.account.get("blocks", [])
    cell_rounds = len({(row["cell"], row["round"]) for row in results.measurements})
    if not (spent and blocks and cell_rounds):
        return 0.0
    seconds = (spent["measuring"] + spent["waiting"]) / cell_rounds
    return round(seconds * min(block["rounds"] for block in blocks), 1)


def share_commands(
    findings: Sequence[Sequence[Step]],
) -> tuple[list[list[Step]], list[Step]]:
    """Return the steps of findings without the commands of several findings, and a step for each of those.

    A reason has one command for all of its findings: with the cells of all of them, or the fewest rounds.
    """
    with_command = [step for of in findings for step in of if step.command]
    groups = grouped_by(with_command, _form_of)
    several = {form: steps for form, steps in groups.items() if len(steps) > 1}
    shared = [_shared_step(steps) for steps in several.values()]
    others = [
        [
            step._replace(
                text=f"{step.text.partition('; ')[0]} (command above)", before="", command=""
            )
            if _form_of(step) in several
            else step
            for step in of
        ]
        for of in findings
    ]
    return others, shared


def _form_of(step: Step) -> str:
    """Return the command without what differs between findings: their cells and rounds."""
    return _MANY_ROUNDS.sub("rounds=", _INCLUDED.sub("include: []", step.command))


def _shared_step(steps: Sequence[Step]) -> Step:
    first, label = steps[0], " and ".join(unique_values(step.label for step in steps))
    effects = [step.text.partition("; ")[2] for step in steps]
    parts = [words.count_of(len(steps), "finding"), next(filter(None, effects), "")]
    command = first.command
    if _MANY_ROUNDS.search(command):
        command = min((s.command for s in steps), key=lambda c: int(_MANY_ROUNDS.findall(c)[0]))
        if len({step.command for step in steps}) > 1:
            parts.append("enough for one of them, put in the number of another for it")
    cells = unique_values(found[1] for step in steps if (found := _INCLUDED.search(step.command)))
    if cells:
        command = _INCLUDED.sub(lambda _: f"include: [{', '.join(cells)}]", command)
    return Step(label, "; ".join(filter(None, parts)), first.before, command)
