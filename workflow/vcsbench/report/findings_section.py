"""The section of a page on findings: verdicts, possible reasons with the runs that test them, a row each."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import LESS_WORK, has_less_work
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import change, times, times_between, value_label
from vcsbench.axes.client_server import BUILD_AXIS
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.metrics import metric_in
from vcsbench.report import charts
from vcsbench.report.answers import shown_flags
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.summary import command_with, seconds_of_rounds, variables_of, verdict_counts
from vcsbench.report.table_sections import TableSection, overlaps, table_of
from vcsbench.statistics import comparisons, verdicts

MEANINGS = {
    verdicts.REVERSED: "the other side is faster now",
    verdicts.DIFFERS: "the measured interval is outside the expected range",
    comparisons.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    verdicts.INCONCLUSIVE: "the interval crosses an end of the range",
    verdicts.REPRODUCED: "the interval is inside the range",
    verdicts.NOT_MEASURED: "the grid has no such cell, or it was skipped, failed or invalid",
}
_STYLES = {comparisons.TOO_SMALL: "small", verdicts.INCONCLUSIVE: "undecided"}
DIFFERENT = (verdicts.REVERSED, verdicts.DIFFERS)
# Of a finding that differs, if no condition other than published explains it.
NO_REASON = "no-reason"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
NOT_IN_GRID = "not-in-grid"
LARGER_HELPS = ("scale", "fixed-cost")
NEEDS_ROUNDS = ("needs-rounds", "low-n")
# What to do about a reason, with and without a command. The test of a build or storage names its action.
WITH_COMMAND = {
    **dict.fromkeys(LARGER_HELPS, "measure at a larger scale"),
    "other-storage": "measure on the published storage",
    **dict.fromkeys(NEEDS_ROUNDS, "measure more rounds"),
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
    "incomplete": "see Failed rounds and Flags below Quality",
    "no-result": "see Failed rounds and Flags below Quality",
    "no-baseline": "save a baseline first",
}
IN_ITS_ROW = "see the cause in its row"
LONGER = "longer than this run (make plan estimates it)"


class Step(NamedTuple):
    """A reason of a verdict, and what to do about it.

    `run` is the command of a run, which a `test` prepares; `takes` is its duration in words, `rounds` its
    number of rounds.
    """

    code: str
    label: str
    text: str
    run: str = ""
    takes: str = ""
    rounds: int = 0
    test: verdicts.ReasonTest | None = None

    @property
    def before(self) -> str:
        return self.test.before if self.test else ""

    @property
    def command(self) -> str:
        return self.test.command(self.run) if self.test else self.run

    @property
    def action(self) -> str:
        if not self.run:
            return WITHOUT_COMMAND.get(self.code, IN_ITS_ROW)
        what = ": ".join(filter(None, [WITH_COMMAND.get(self.code), self.before])) or "test it"
        what += f", {self.rounds} in all" if self.rounds else ""
        return f"{what}; takes {self.takes}" if self.takes else what


class ReasonLine(NamedTuple):
    """A reason, the number of its findings by verdict, and what to do: texts, each with a command or ""."""

    label: str
    findings: str
    tests: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class FindingFacts:
    """A finding in the head of a page, as texts."""

    id: str
    statement: str
    verdict: str = verdicts.NOT_MEASURED
    expected: str = ""
    published: str = ""
    measured: str = ""
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class FindingView(FindingFacts):
    """A finding or an expectation as the page shows it.

    `is_ours` is True if vcsbench chose the expected range, because the statement has no number.
    `steps` are its reasons (of a finding that differs, the possible ones), `notes` other remarks. `note` has
    the flags of its runs in the words of cards, `flags` their names. `published_all` is the published value
    of more pairs or cells than measured. `news` has the changes since it was published, `picture` SVG,
    `ratio` the value in words, `of` its pairs or cells, and `anchor` the row of its table.
    """

    is_ours: bool
    published_all: str
    ratio: str
    of: str
    steps: Sequence[Step]
    notes: Sequence[str]
    note: str
    flags: Sequence[str]
    table: str
    anchor: str
    news: str
    picture: str


def finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file, news first. `definitions` maps an id to its check."""
    views, shown = [], shown_flags(results)
    command_to_add = _command_to_add(results, rows, definitions)
    for row in rows:
        definition = definitions.get(row["id"], {})
        expect = definition.get("expect") or {}
        bounds = [expect.get(name) for name in ("at_least", "at_most")]
        table, where = table_of(definition, results.study.tables)
        section = next((section for section in sections if section.name == table), None)
        unit = f" {metric_in(definition).unit}".rstrip() if definition else ""
        unit = "x" if definition.get("compare") else unit
        interval = None if None in (row["low"], row["high"]) else (row["low"], row["high"])
        expected = row["expected"] if bounds == [None, None] else _expected(bounds, unit)
        published, measured = (_written(row[name], unit) for name in ("published", "measured"))
        verdict = verdicts.verdict_for_reader(row)
        steps, notes = reason_steps(results, definition, row, verdict, command_to_add)
        is_measured = verdict != verdicts.NOT_MEASURED
        note, flags = _flags(results, definition, shown) if is_measured else ("", [])
        of = row.get("over", "")
        if section and expect.get("over") == comparisons.MEDIAN:
            of = _pairs_text(definition, section, where) or of
        picture = charts.finding_picture(
            *(bounds, row["published"], row["measured"], interval),
            f"expected {expected}, measured {measured}",
            _STYLES.get(verdict, ""),
            unit,
        )
        interval_text = _range(*interval, unit) if interval else ""
        texts = row["id"], row["statement"], verdict, expected, published, measured, interval_text
        view = FindingView(
            *texts,
            is_ours=bool(expect.get("ours")),
            published_all=_published_all(row, unit),
            ratio=_ratio_text(row, definition),
            of=of,
            steps=steps,
            notes=notes,
            note=note,
            flags=flags,
            table=section.title if section else "",
            anchor=_anchor(where, section) if section else "",
            news=_news(row, definition) if verdict == verdicts.REVERSED else "",
            picture=picture,
        )
        views.append(view)
    return sorted(views, key=lambda view: [*MEANINGS, view.verdict].index(view.verdict))


def reason_steps(
    results: Results, definition: Row, row: Row, verdict: str, command_to_add: tuple[str, str]
) -> tuple[list[Step], list[str]]:
    """Return the reasons of a verdict, and other remarks. `command_to_add` is of _command_to_add."""
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
            notes += [f"{reason.sentence}."] * (reason.code != "reversed")
            continue
        if reason.code in NEEDS_ROUNDS:
            rounds = int(f"{reason.values['needed']:.0f}")
            seconds = seconds_of_rounds(results.account, rounds)
            step = step._replace(
                text=text.replace(f"`rounds: {rounds}`", f"{rounds} in all"),
                rounds=rounds,
                run=command_with(given, f"--config rounds={rounds}"),
                takes=f"{words.duration(seconds)} more" if seconds else "",
            )
        elif reason.code == NOT_IN_GRID:
            cells = _cells_of(results, definition)
            named = [" or ".join(value_label(a, v) for v in values) for a, values in cells.items()]
            step = step._replace(text=", ".join(named))
            if _can_be_added(results, cells):
                step = step._replace(run=command_to_add[0], takes=command_to_add[1])
        elif test := reason.test:
            taken = results.account.get("taken_s") if reason.code in LARGER_HELPS else None
            step = step._replace(
                run=command_with({**given, "STUDY": test.study}, f"--configfile {test.file}"),
                takes=f"up to {words.duration(verdicts.LARGER * taken)}" if taken else LONGER,
                test=test,
            )
        steps.append(step)
    if verdict in DIFFERENT and not steps:
        steps.append(Step(NO_REASON, "no reason known", NOTHING_EXPLAINS))
    return steps, notes


def _cells_of(results: Results, definition: Row) -> dict[str, list[str]]:
    """Return the axis values of a finding's cells."""
    compare = definition.get("compare") or {}
    sides = [compare.get(side) for side in comparisons.SIDES]
    where = {**(definition.get("where") or {}), **({compare["axis"]: sides} if all(sides) else {})}
    return {axis: axis_values(v) for axis, v in where.items() if axis in results.order}


def _can_be_added(results: Results, cells: Mapping[str, list[str]]) -> bool:
    """Return True if the configuration of the run has all values of some cells.

    A study can name builds that the configuration lacks. A run refuses those.
    """
    measured = {cell.get(BUILD_AXIS, "") for cell in results.grid}
    known = {**results.order, BUILD_AXIS: {*results.configured("builds"), *measured}}
    has_all = all({*values} <= {*known[axis]} for axis, values in cells.items())
    return bool(results.grid_settings and cells) and has_all


def _command_to_add(
    results: Results, rows: Rows, definitions: Mapping[str, Row]
) -> tuple[str, str]:
    """Return the command that adds the cells of all findings that are not in the grid.

    The second value is its duration in words, "" if it is unknown.
    """
    lacking = (
        _cells_of(results, definitions.get(row["id"], {}))
        for row in rows
        if any(reason.code == NOT_IN_GRID for reason in row.get("reasons") or ())
    )
    added: list[dict[str, list[str]]] = []
    for cells in lacking:
        if cells not in added and _can_be_added(results, cells):
            added.append(cells)
    include, order = results.grid_settings.get("include", []), results.order
    content = json.dumps({"grid": {results.study.name: {"include": [*include, *added]}}})
    given = variables_of(results.provenance.get("command", ""), results.study.name)
    run = command_with(given, "--configfile more.yaml")
    known = {tuple(cell.get(axis, "") for axis in order) for cell in results.grid}
    here = {axis: {values[at] for values in known} for at, axis in enumerate(order)}
    new = {c for cells in added for c in product(*({**here, **cells}[axis] for axis in order))}
    seconds = cell_seconds(results) * len(new - known)
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
    """Return what to do about each reason, the one with most findings first.

    `findings` are verdicts and steps. Tests that differ only in their cells have one command.
    """
    known = (
        (number, verdict, step) for number, (verdict, of) in enumerate(findings) for step in of
    )
    lines = []
    for label, members in grouped_by(known, lambda item: item[2].label).items():
        by_number = {number: verdict for number, verdict, _ in members}
        steps = sorted((step for *_, step in members), key=lambda step: step.rounds)
        runs = grouped_by(
            (step for step in steps if step.run),
            lambda step: (step.run, step.test and replace(step.test, cells="")),
        )
        tests = []
        for (_, test), same in runs.items():
            cells = ", ".join(unique_values(step.test.cells for step in same if step.test))
            joined = same[0]._replace(test=test and replace(test, cells=cells))
            tests.append((joined.action, joined.command))
        counts = verdict_counts(by_number.values())
        line = ReasonLine(label, counts, tests or [(steps[0].action, "")])
        lines.append((len(by_number), line))
    return [line for _, line in sorted(lines, key=lambda item: -item[0])]


def _expected(bounds: Sequence[float | None], unit: str) -> str:
    low, high = ("" if bound is None else f"{bound:.12g}{unit}" for bound in bounds)
    return f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"


def _range(low: float, high: float, unit: str) -> str:
    if unit == "x":
        return times_between(low, high)
    return " to ".join(unique_values(_written(end, unit) for end in (low, high)))


def _written(number: object, unit: str) -> str:
    if not words.is_number(number):
        return ""
    return times(number) if unit == "x" else f"{words.significant(number)}{unit}"


def _published_all(row: Row, unit: str) -> str:
    """Return `all 24 pairs: 0.74x`, "" if all published pairs were measured, or have the same value."""
    for reason in row.get("reasons") or ():
        if reason.code == "all-published":
            text = _written(reason.values.get("value"), unit)
            if text != _written(row["published"], unit):
                return f"all {reason.values['published']} published: {text}"
    return ""


def _ratio_text(row: Row, definition: Row) -> str:
    """Return `time of f6 ÷ time of f7: above 1x, f7 is faster`, or the quantity of a level."""
    compare = definition.get("compare") or {}
    if not definition or "candidate" not in compare:
        return str(row.get("unit") or "") if compare else metric_in(definition).title
    metric = metric_in(definition)
    first, second = (value_label(compare["axis"], compare[side]) for side in comparisons.SIDES)
    is_better = metric.words.is_better if metric.gain > 0 else f"{metric.words.verb}lower"
    ratio = f"{metric.quantity} {first} ÷ {metric.quantity} {second}"
    return f"{ratio}: above 1x, {second} {is_better}"


def _pairs_text(definition: Row, section: TableSection, where: Row) -> str:
    """Return `4 pairs, 0.94x to 2.9x, mixed: svn faster in 3, slower in 1`, "" for fewer than two pairs."""
    compare, few = definition.get("compare") or {}, "too few rounds"
    points = [p for p in section.measured_points if not p.is_small and overlaps(where, p.keys)]
    rows = [p.row for p in points if p.row and words.is_number(p.row.get("ratio"))]
    if len(rows) < 2:
        return ""
    # The table may have the sides exchanged.
    is_same = section.baseline == str(compare.get("baseline", section.baseline))
    ratios = [row["ratio"] if is_same else 1 / row["ratio"] for row in rows]
    text = f"{len(rows)} pairs, {_range(min(ratios), max(ratios), 'x')}"
    turned = {} if is_same else {"faster": "slower", "slower": "faster"}
    calls = Counter(row.get("call") or few for row in rows)
    if len(calls) == 1:
        return text
    known = {call: comparisons.CALL_LABELS.get(call, turned.get(call, call)) for call in calls}
    undecided = [call for call in (comparisons.TOO_NOISY, few) if call in calls]
    called = [call for call in calls if call not in undecided]
    outcomes = [f"{known[call]} in {calls[call]}" for call in (*called, *undecided)]
    label = value_label(compare["axis"], compare["candidate"]) if "candidate" in compare else ""
    mixed = "mixed: " if len(called) > 1 else ""
    return f"{text}, {mixed}{f'{label} '.lstrip()}{', '.join(outcomes)}"


def _flags(results: Results, definition: Row, shown: set[str]) -> tuple[str, list[str]]:
    """Return the flags of a finding's runs in the words of cards, and the names of the flags."""
    cells, compare = _cells_of(results, definition), definition.get("compare") or {}
    runs = [run for run in results.valid_runs if matches_cell(run, cells)]
    flags = (flag for run in runs for flag in run["flags"].split())
    is_hot = all(charts.is_hot(run.get("cache") or "") for run in runs)
    disturbed, texts = charts.flag_texts(flags, shown, is_hot, runs)
    of_access = runs if "svn" in compare.values() else ()
    less = unique_values(run["command"] for run in of_access if has_less_work(compare["axis"], run))
    less = [f"{' or '.join(less)}: {LESS_WORK}"] if less else []
    return "; ".join(filter(None, [*less, disturbed, *texts])), texts


def _news(row: Row, definition: Row) -> str:
    compare, published = definition.get("compare") or {}, row["published"]
    if "candidate" not in compare or not published:
        return ""
    was, now = (change(row[name]) for name in ("published", "measured"))
    label = value_label(compare["axis"], compare["candidate"])
    return f"{label[:1].upper()}{label[1:]}: {was} as published, {now} here."


def _anchor(where: Row, section: TableSection) -> str:
    rows = (row for pair in section.pairs if pair.measured for row in pair.measured.rows)
    for row in rows:
        if any(p and p.value is not None and overlaps(where, p.keys) for p in row.points):
            return f"{section.anchor}-{row.slug}"
    return section.anchor
