"""The section of a page on findings: verdicts, possible reasons with their tests, a row each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice.cards import LESS_WORK, has_less_work
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import at_least_1, factor, times, times_between, value_label
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import charts
from vcsbench.report.answers import rare_flags
from vcsbench.report.finding_steps import Step, addable_parts, reason_steps
from vcsbench.report.results import Results, Rows, unique_values
from vcsbench.report.table_sections import TableSection, overlaps, table_of
from vcsbench.statistics import comparisons, verdicts

MEANINGS = {
    verdicts.REVERSED: "the other side is faster now",
    verdicts.DIFFERS: "the measured interval is outside the expected range",
    comparisons.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    verdicts.INCONCLUSIVE: "the interval crosses an end of the range",
    verdicts.REPRODUCED: "the interval is inside the range",
    verdicts.NOT_MEASURED: "the grid has no such cell, or it was skipped or failed",
}
_STYLES = {comparisons.TOO_SMALL: "small", verdicts.INCONCLUSIVE: "undecided"}


@dataclass(frozen=True)
class FindingView:
    """A finding or an expectation as the page shows it.

    `is_ours` is True if vcsbench chose the expected range, because the statement has no number.
    `steps` are its reasons (of a finding that differs, the possible ones), `notes` other remarks. `note` has
    the flags of its runs in the words of cards, `flags` their names. `published_all` is the published value
    of more pairs or cells than those measured. `news` is what changed since it was published, `picture` SVG,
    `ratio` the value in words, `of` its pairs or cells, and `anchor` the row of its table.
    """

    id: str
    statement: str
    verdict: str
    expected: str
    is_ours: bool
    published: str
    published_all: str
    measured: str
    interval: str
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

    @property
    def rank(self) -> int:
        return [*MEANINGS, self.verdict].index(self.verdict)


def finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file, news first. `definitions` maps an id to its check."""
    sections_by_name = {section.name: section for section in sections}
    views, rare = [], rare_flags(results.advice.cards)
    addable = addable_parts(results, rows, definitions)
    for row in rows:
        definition = definitions.get(row["id"], {})
        table, where = table_of(definition, results.study.tables)
        section = sections_by_name.get(table)
        low, high = (_number(row.get(name)) for name in ("low", "high"))
        interval = (low, high) if low is not None and high is not None else None
        bounds = [_number((definition.get("expect") or {}).get(k)) for k in ("at_least", "at_most")]
        unit = _unit(definition)
        expected, published, measured = (
            _written(row[name], unit) for name in ("expected", "published", "measured")
        )
        if any(bound is not None for bound in bounds):
            expected = _expected(bounds, unit)
        verdict = verdicts.verdict_for_reader(row)
        steps, notes = reason_steps(results, definition, row, verdict, addable)
        is_measured = verdict != verdicts.NOT_MEASURED
        note, flags = _flags(results, definition, rare) if is_measured else ("", [])
        of = row.get("over", "")
        if section and (definition.get("expect") or {}).get("over") == comparisons.MEDIAN:
            of = _pairs_text(definition, section, where) or of
        view = FindingView(
            id=row["id"],
            statement=row["statement"],
            verdict=verdict,
            expected=expected,
            is_ours=bool((definition.get("expect") or {}).get("ours")),
            published=published,
            published_all=_published_all(row, unit),
            measured=measured,
            interval=_range(*interval, unit) if interval else "",
            ratio=_ratio_text(row, definition),
            of=of,
            steps=steps,
            notes=notes,
            note=note,
            flags=flags,
            table=section.title if section else "",
            anchor=_anchor(where, section) if section else "",
            news=_news(row, definition) if verdict == verdicts.REVERSED else "",
            picture=charts.finding_picture(
                bounds,
                _number(row["published"]),
                _number(row["measured"]),
                interval,
                f"expected {expected}, measured {measured}",
                _STYLES.get(verdict, ""),
                unit,
            ),
        )
        views.append(view)
    return sorted(views, key=lambda view: view.rank)


def _unit(definition: Row) -> str:
    unit = "x" if definition.get("compare") else metric_in(definition).unit if definition else ""
    return unit if unit == "x" else f" {unit}".rstrip()


def _expected(bounds: Sequence[float | None], unit: str) -> str:
    low, high = (None if bound is None else f"{bound:g}{unit}" for bound in bounds)
    if low is None or high is None:
        return f"at most {high}" if low is None else f"at least {low}"
    return f"{low} to {high}"


def _range(low: float, high: float, unit: str) -> str:
    if unit == "x":
        return times_between(low, high)
    return " to ".join(unique_values(_written(end, unit) for end in (low, high)))


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
    first, second = (value_label(compare["axis"], compare[s]) for s in ("baseline", "candidate"))
    is_better = metric.words.is_better if metric.gain > 0 else f"{metric.words.verb}lower"
    ratio = f"{metric.quantity} {first} ÷ {metric.quantity} {second}"
    return f"{ratio}: above 1x, {second} {is_better}"


def _pairs_text(definition: Row, section: TableSection, where: Row) -> str:
    """Return `4 pairs, 0.94x to 2.9x, mixed: svn faster in 3, slower in 1`, "" for fewer than two pairs."""
    compare, few = definition.get("compare") or {}, "too few rounds"
    points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
    points = [p for p in points if p.row and not p.is_small and overlaps(where, p.keys)]
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
    undecided = (comparisons.TOO_NOISY, few)
    called = [call for call in calls if call not in undecided]
    known = {call: comparisons.WORDS.get(call, turned.get(call, call)) for call in calls}
    parts = [f"{known[c]} in {calls[c]}" for c in (*called, *(c for c in undecided if c in calls))]
    label = value_label(compare["axis"], compare["candidate"]) if "candidate" in compare else ""
    mixed = "mixed: " if len(called) > 1 else ""
    return f"{text}, {mixed}{f'{label} '.lstrip()}{', '.join(parts)}"


def _flags(results: Results, definition: Row, shown: set[str]) -> tuple[str, list[str]]:
    """Return the flags of a finding's runs in the words of cards, and the names of the flags."""
    compare = definition.get("compare") or {}
    axis, sides = compare.get("axis", ""), [compare.get(side, "") for side in comparisons.SIDES]
    where = {a: v for a, v in (definition.get("where") or {}).items() if a in results.order}
    where |= {axis: sides} if all(sides) else {}
    runs = [
        run
        for run in originals(results.measurements)
        if comparisons.matches_cell(run, where) and not is_invalid(run["flags"])
    ]
    caches = {run.get("cache") or "" for run in runs}
    flags = (flag for run in runs for flag in run["flags"].split())
    is_hot = all(map(charts.is_hot, caches))
    disturbed, texts = charts.flag_texts(flags, shown, is_hot, runs)
    less = unique_values(run["command"] for run in runs if has_less_work(axis, run))
    less = [f"{' or '.join(less)}: {LESS_WORK}"] if less and "svn" in sides else []
    return "; ".join(filter(None, [*less, disturbed, *texts])), texts


def _news(row: Row, definition: Row) -> str:
    compare, published = definition.get("compare") or {}, _number(row.get("published"))
    if "candidate" not in compare or not published:
        return ""
    first, second = ("faster", "slower") if published > 1 else ("slower", "faster")
    was, now = (factor(at_least_1(v)) for v in (published, float(row["measured"])))
    label = value_label(compare["axis"], compare["candidate"])
    return f"{label[:1].upper()}{label[1:]}: {was} {first} as published, {now} {second} here."


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _written(value: object, unit: str) -> str:
    number = _number(value)
    if number is None:
        return "" if value is None else str(value)
    return times(number) if unit == "x" else f"{words.significant(number)}{unit}"


def _anchor(where: Row, section: TableSection) -> str:
    for row in (row for pair in section.pairs if pair.measured for row in pair.measured.rows):
        for point in row.points:
            if point and point.value is not None and overlaps(where, point.keys):
                return f"{section.anchor}-{row.slug}"
    return section.anchor
