"""The section of a page on findings: verdicts, possible reasons with the runs that test them, a row each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.answer_texts import LESS_WORK, has_less_work
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import change, times, times_between, value_label
from vcsbench.axes.cache_states import cache_state
from vcsbench.codes import Call, ReasonCode, Verdict
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.metrics import metric_in
from vcsbench.report.answers import shown_flags
from vcsbench.report.card_rows import flag_texts
from vcsbench.report.charts import FindingDot
from vcsbench.report.finding_tables import find_table, overlaps
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.summary import verdict_counts
from vcsbench.report.table_sections import TableSection
from vcsbench.statistics import comparisons, texts, verdicts

MEANINGS = {
    Verdict.REVERSED: "the other side is faster now",
    Verdict.GONE: "an effect was published, and there is none here",
    Verdict.WEAKER: "the effect is smaller than published",
    Verdict.STRONGER: "the effect is larger than published",
    Verdict.FAILS: "the measured interval is outside the expected range",
    Verdict.MIXED: "its pairs disagree by more than the margin",
    Verdict.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    Verdict.UNDECIDED: "the interval crosses an end of the range",
    Verdict.REPRODUCED: "the interval is inside the range",
    Verdict.HOLDS: "the interval is inside the range",
    Verdict.NOT_MEASURED: "the grid has no such cell, or it was skipped, failed or invalid",
}
# Verdicts that possible reasons can explain.
DIFFERENT = (Verdict.REVERSED, Verdict.GONE, Verdict.WEAKER, Verdict.STRONGER, Verdict.FAILS)
NO_REASON = "no reason known"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
REPEAT = "Repeat the run on another machine."


class Step(NamedTuple):
    """A reason of a verdict in words, and what to do about it."""

    code: str
    label: str
    text: str
    action: str = ""


class ReasonLine(NamedTuple):
    """A reason, the number of its findings by verdict, and what to do."""

    label: str
    findings: str
    action: str


@dataclass(frozen=True)
class FindingFacts:
    """A finding in the head of a page, as texts."""

    id: str
    statement: str
    verdict: str = Verdict.NOT_MEASURED
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
    of more pairs or cells than measured. `news` has the changes since it was published, `dot` is its
    place in the plot of findings, None if it is no factor, `ratio` the value in words, `of` its
    pairs or cells, and `anchor` the row of its table.
    """

    is_ours: bool
    published_all: str
    ratio: str
    of: str
    is_different: bool
    steps: Sequence[Step]
    notes: Sequence[str]
    note: str
    flags: Sequence[str]
    table: str
    anchor: str
    news: str
    dot: FindingDot | None


def finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file, news first. `definitions` maps an id to its check."""
    views, shown = [], shown_flags(results)
    for row in rows:
        definition = definitions.get(row["id"], {})
        expect = definition.get("expect") or {}
        bounds = [expect.get(name) for name in ("at_least", "at_most")]
        table, where = find_table(definition, results.study.tables)
        section = next((section for section in sections if section.name == table), None)
        unit = f" {metric_in(definition).unit}".rstrip() if definition else ""
        unit = "x" if definition.get("compare") else unit
        interval = None if None in (row["low"], row["high"]) else (row["low"], row["high"])
        expected = row["expected"] if bounds == [None, None] else _expected(bounds, unit)
        published, measured = (_written(row[name], unit) for name in ("published", "measured"))
        verdict = row["verdict"]
        steps, notes = reason_steps(row)
        is_measured = verdict != Verdict.NOT_MEASURED
        note, flags = _flags(results, definition, shown) if is_measured else ("", [])
        of = row.get("over", "")
        if section and expect.get("over") == "mean":
            of = _pairs_text(definition, section, where) or of
        interval_text = _range(*interval, unit) if interval else ""
        dot = None
        # Only factors share an axis.
        if unit == "x" and row["measured"] and is_measured:
            texts_of_dot = {"expected": expected, "published": published or "not published"}
            texts_of_dot |= {"measured": measured, "interval": interval_text or "none"}
            dot = FindingDot(
                label=row["statement"],
                verdict=row["verdict"],
                expected_low=bounds[0],
                expected_high=bounds[1],
                published=row["published"],
                measured=row["measured"],
                low=row["low"],
                high=row["high"],
                texts=texts_of_dot,
            )
        view = FindingView(
            id=row["id"],
            statement=row["statement"],
            verdict=verdict,
            expected=expected,
            published=published,
            measured=measured,
            interval=interval_text,
            is_ours=bool(expect.get("ours")),
            published_all=_published_all(row, unit),
            ratio=_ratio_text(row, definition),
            of=of,
            is_different=verdict in DIFFERENT,
            steps=steps,
            notes=notes,
            note=note,
            flags=flags,
            table=section.title if section else "",
            anchor=_anchor(where, section) if section else "",
            news=_news(row, definition) if verdict == Verdict.REVERSED else "",
            dot=dot,
        )
        views.append(view)
    return sorted(views, key=lambda view: [*MEANINGS, view.verdict].index(view.verdict))


def reason_steps(row: Row) -> tuple[list[Step], list[str]]:
    """Return the reasons of a verdict, the most likely one first, and other remarks."""
    steps: list[Step] = []
    notes = []
    for reason in row.get("reasons") or ():
        text = texts.reason_text(reason)
        label, _, facts = text.partition(": ")
        if reason.code == ReasonCode.ALL_PUBLISHED:
            continue
        if row["verdict"] in DIFFERENT and reason.code not in verdicts.EXPLAINING:
            notes.append(f"{text}.")
            continue
        steps.append(Step(reason.code, label, facts, texts.ACTIONS.get(reason.code, "")))
    if row["verdict"] in DIFFERENT and not steps:
        steps.append(Step(NO_REASON, NO_REASON, NOTHING_EXPLAINS, REPEAT))
    return steps, notes


def _cells_of(results: Results, definition: Row) -> dict[str, list[str]]:
    """Return the axis values of a finding's cells."""
    compare = definition.get("compare") or {}
    sides = [compare.get(side) for side in comparisons.SIDES]
    where = {**(definition.get("where") or {}), **({compare["axis"]: sides} if all(sides) else {})}
    return {axis: axis_values(v) for axis, v in where.items() if axis in results.order}


def reason_lines(findings: Sequence[tuple[str, Sequence[Step]]]) -> list[ReasonLine]:
    """Return what to do about each reason, the one with most findings first.

    `findings` are verdicts and steps.
    """
    verdicts_of: dict[str, list[str]] = {}
    actions: dict[str, str] = {}
    for verdict, steps in findings:
        for label, same in grouped_by(steps, lambda step: step.label).items():
            verdicts_of.setdefault(label, []).append(verdict)
            actions[label] = same[0].action
    labels = sorted(verdicts_of, key=lambda label: -len(verdicts_of[label]))
    return [
        ReasonLine(label, verdict_counts(verdicts_of[label]), actions[label]) for label in labels
    ]


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
        if reason.code == ReasonCode.ALL_PUBLISHED:
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
    compare = definition.get("compare") or {}
    points = [p for p in section.measured_points if not p.is_small and overlaps(where, p.keys)]
    rows = [p.row for p in points if p.row and words.is_number(p.row.get("ratio"))]
    if len(rows) < 2:
        return ""
    # The table may have the sides exchanged.
    is_same = section.baseline == str(compare.get("baseline", section.baseline))
    ratios = [row["ratio"] if is_same else 1 / row["ratio"] for row in rows]
    text = f"{len(rows)} pairs, {_range(min(ratios), max(ratios), 'x')}"
    turned = {} if is_same else {Call.FASTER: Call.SLOWER, Call.SLOWER: Call.FASTER}
    calls: Counter[str] = Counter()
    for row in rows:
        call = row.get("call") or Call.UNDECIDED
        calls[turned.get(call, call)] += 1
    if len(calls) == 1:
        return text
    undecided = [call for call in (Call.BOUNDED, Call.UNDECIDED) if call in calls]
    called = [call for call in calls if call not in undecided]
    outcomes = [f"{texts.CALLS[Call(call)]} in {calls[call]}" for call in (*called, *undecided)]
    label = value_label(compare["axis"], compare["candidate"]) if "candidate" in compare else ""
    mixed = "mixed: " if len(called) > 1 else ""
    return f"{text}, {mixed}{f'{label} '.lstrip()}{', '.join(outcomes)}"


def _flags(results: Results, definition: Row, shown: set[str]) -> tuple[str, list[str]]:
    """Return the flags of a finding's runs in the words of cards, and the names of the flags."""
    cells, compare = _cells_of(results, definition), definition.get("compare") or {}
    runs = [run for run in results.valid_runs if matches_cell(run, cells)]
    flags = (flag for run in runs for flag in run["flags"].split())
    is_warm = all(cache_state(run.get("cache")).is_hot for run in runs)
    disturbed, flag_names = flag_texts(flags, shown, is_warm, runs)
    of_access = runs if "svn" in compare.values() else ()
    less = unique_values(run["command"] for run in of_access if has_less_work(compare["axis"], run))
    less = [f"{' or '.join(less)}: {LESS_WORK}"] if less else []
    return "; ".join(filter(None, [*less, disturbed, *flag_names])), flag_names


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
