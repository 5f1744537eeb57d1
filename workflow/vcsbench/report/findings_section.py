"""The section of a page on findings: verdicts, possible reasons with their tests, a row each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple, cast

from vcsbench import words
from vcsbench.advice.cards import LESS_WORK, has_less_work
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import at_least_1, factor, times, times_between, value_label
from vcsbench.config.definitions import FindingDefinition
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import DEFAULT, metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import charts
from vcsbench.report.answers import rare_flags
from vcsbench.report.finding_steps import (
    DIFFERENT,
    PUBLISHED_OVER_ALL,
    Step,
    addable_parts,
    reason_steps,
)
from vcsbench.report.grids import Point
from vcsbench.report.quality_section import metric_value, times_of
from vcsbench.report.results import (
    Results,
    Rows,
    grouped_by,
    unique_values,
    values_in,
    values_label,
    varying,
)
from vcsbench.report.table_sections import TableSection, overlaps, table_of
from vcsbench.statistics import contract

MEANINGS = {
    contract.REVERSED: "the other side is faster now",
    contract.DIFFERS: "the measured interval is outside the expected range",
    contract.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    contract.INCONCLUSIVE: "the interval crosses an end of the range",
    contract.REPRODUCED: "the interval is inside the range",
    contract.NOT_MEASURED: "the grid has no such cell, or it was skipped or failed",
}
MAX_NAMED = 3
_STYLES = {contract.TOO_SMALL: "small", contract.INCONCLUSIVE: "undecided"}
_PARTS = ("CPU time of the client", "CPU time of the server", "waiting (for storage or network)")


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


class VerdictCount(NamedTuple):
    """A line of the summary: a verdict, its number and meaning, and the id of its first finding."""

    verdict: str
    number: int
    meaning: str
    first: str


def summary_of(views: Sequence[FindingView]) -> list[VerdictCount]:
    groups = grouped_by(views, lambda view: view.verdict)
    return [VerdictCount(v, len(of), MEANINGS.get(v, ""), of[0].id) for v, of in groups.items()]


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
        verdict = contract.verdict_for_reader(row)
        steps, notes = reason_steps(results, definition, row, verdict, addable)
        of = [row.get("over", ""), _groups_text(results, definition, unit)]
        pairs = _pairs(where, section) if section else []
        note, flags = _flags(results, definition, rare)
        if verdict == contract.REPRODUCED:
            limit = results.advice.min_effect_pct
            notes.insert(0, _unlike_published(row, definition, pairs, limit))
        if section and pairs:
            # The table may have the sides exchanged.
            is_same = section.baseline == str(
                definition["compare"].get("baseline", section.baseline)
            )
            of[0] = _pairs_text(definition, pairs, is_same, [*results.order]) or of[0]
            if verdict in DIFFERENT:
                ratio = float(row["measured"])
                notes.insert(0, _where_time_goes(results, definition, pairs, is_same, ratio))
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
            of="; ".join(filter(None, of)),
            steps=steps,
            notes=[*filter(None, notes)],
            note=note,
            flags=flags,
            table=section.title if section else "",
            anchor=_anchor(where, section) if section else "",
            news=_news(row, definition) if verdict == contract.REVERSED else "",
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
    for sentence, _ in contract.read_reasons(row.get("why") or ""):
        if sentence.startswith(PUBLISHED_OVER_ALL):
            count, _, value = sentence.removeprefix(PUBLISHED_OVER_ALL).partition(": ")
            number = _number(value.removesuffix(unit))
            text = value if number is None else _written(number, unit)
            return (
                "" if text == _written(row["published"], unit) else f"all{count} published: {text}"
            )
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


def _pairs(where: Row, section: TableSection) -> list[Point]:
    points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
    points = [p for p in points if p.row and not p.is_small and overlaps(where, p.keys)]
    return [p for p in points if p.row and words.is_number(p.row.get("ratio"))]


def _pairs_text(definition: Row, pairs: Sequence[Point], is_same: bool, axes: Sequence[str]) -> str:
    """Return `4 pairs, 0.94x to 2.9x, mixed: svn faster in 3 (export, log), slower in 1 (dump)`.

    Pairs have the values that separate the calls, or the values of all varying axes. Return "" for fewer than
    two pairs.
    """
    rows = [point.row or {} for point in pairs]
    if len(rows) < 2 or (definition.get("expect") or {}).get("over") != contract.MEDIAN:
        return ""
    ratios = [row["ratio"] if is_same else 1 / row["ratio"] for row in rows]
    text = f"{len(rows)} pairs, {_range(min(ratios), max(ratios), 'x')}"
    turned = {} if is_same else {"faster": "slower", "slower": "faster"}
    few = "too few rounds"
    undecided = (contract.TOO_NOISY, few)
    calls = grouped_by(pairs, lambda point: (point.row or {}).get("call") or few)
    calls = dict(sorted(calls.items(), key=lambda item: item[0] in undecided))
    if len(calls) == 1:
        return text
    shown = varying([point.keys for point in pairs], axes)
    sides = {a: [{point.keys[a] for point in of} for of in calls.values()] for a in shown}
    separate = (a for a, of in sides.items() if sum(map(len, of)) == len(set().union(*of)))
    shown = [axis] if (axis := next(separate, "")) else shown
    parts = []
    for call, of in calls.items():
        labels = unique_values(values_label(point.keys, shown) for point in of)
        named = [*labels[:MAX_NAMED], *["others"] * (len(labels) > MAX_NAMED)]
        word = turned.get(call, call)
        named_ = "; ".join(filter(None, named))
        parts.append(
            f"{contract.WORDS.get(word, word)} in {len(of)}{f' ({named_})' if named_ else ''}"
        )
    is_mixed = len({*calls}.difference(undecided)) > 1
    compare = definition["compare"]
    label = value_label(compare["axis"], compare["candidate"]) if "candidate" in compare else ""
    return f"{text}, {'mixed: ' if is_mixed else ''}{f'{label} '.lstrip()}{', '.join(parts)}"


def _flags(results: Results, definition: Row, shown: set[str]) -> tuple[str, list[str]]:
    """Return the flags of a finding's pairs or cells in the words of cards, and the names of the flags."""
    compare = definition.get("compare") or {}
    axis, sides = compare.get("axis", ""), [compare.get(side, "") for side in contract.SIDES]
    where = {a: v for a, v in (definition.get("where") or {}).items() if a in results.order}
    where |= {axis: sides} if all(sides) else {}
    axes = [a for a in results.order if not all(sides) or a != axis]
    runs = [
        run
        for run in originals(results.measurements)
        if contract.matches_cell(run, where) and not is_invalid(run["flags"])
    ]
    found = []
    for of in grouped_by(runs, lambda run: values_in(run, axes)).values():
        both = [[run for run in of if run[axis] == side] for side in sides] if all(sides) else [of]
        if all(both):
            found.append((" ".join(run["flags"] for run in of), both))
    labels = [value_label(axis, side) for side in sides] if all(sides) else [""]
    disturbed, texts = charts.flag_texts(found, labels, shown)
    less = unique_values(run["command"] for run in runs if has_less_work(axis, run))
    less = [f"{' or '.join(less)}: {LESS_WORK}"] if less and "svn" in sides else []
    names = [text.partition(" ")[0] for text in texts]
    return "; ".join(filter(None, [*less, disturbed, *texts])), names


def _where_time_goes(
    results: Results, definition: Row, pairs: Sequence[Point], is_same: bool, ratio: float
) -> str:
    """Return the part of the time with at least half of the difference between both sides, or "".

    Times are means over the pairs that have the part: access by file has no server. Waiting is unknown if
    client and server computed at once.
    """
    compare = definition["compare"]
    if "candidate" not in compare or metric_in(definition).name != DEFAULT:
        return ""
    runs = grouped_by(results.measurements, lambda row: row["cell"])
    order = 1 if is_same else -1
    times = [[times_of(runs.get(cell, [])) for cell in pair.cells[::order]] for pair in pairs]
    times = [pair for pair in times if len(pair) == 2 and all(pair)]
    labels = [value_label(compare["axis"], compare[side]) for side in ("baseline", "candidate")]
    largest, text = 0.5, ""
    # The first two times are of the whole.
    for at, name in enumerate(_PARTS, 2):
        known = [[(of[0], of[at]) for of in pair] for pair in times]
        known = [pair for pair in known if None not in [part for _, part in pair]]
        if not known or (at == 4 and any((part or 0.0) < 0 for pair in known for _, part in pair)):
            continue
        (all_1, part_1), (all_2, part_2) = (
            map(mean, zip(*side, strict=True)) for side in zip(*known, strict=True)
        )
        whole = all_1 - all_2
        if whole * math.log(ratio) <= 0 or (share := (part_1 - part_2) / whole) < largest:
            continue
        spent = zip((part_1, part_2), labels, strict=True)
        both = ", ".join(f"{words.significant(time, 2)} s with {label}" for time, label in spent)
        some = f"{len(known)} of " if len(known) < len(pairs) else ""
        over = f", mean of {some}{len(pairs)} pairs" if len(pairs) > 1 else ""
        largest, text = share, f"Most of the difference is {name}: {both}{over}."
    return text


def _groups_text(results: Results, definition: Row, unit: str) -> str:
    """Return `mixed: packed 85 % to 89 %, not packed 35 % to 65 %`, the axis that separates the cells of a
    level best; "" if none does, or if all its values are on one side of the expected range."""
    if not definition or definition.get("compare"):
        return ""
    metric, where = metric_in(definition), definition.get("where") or {}
    runs = [r for r in originals(results.measurements) if contract.matches_cell(r, where)]
    cells = []
    for rows in grouped_by(runs, lambda row: row["cell"]).values():
        values = [metric_value(metric, row) for row in rows if not is_invalid(row["flags"])]
        if known := [value for value in values if value is not None]:
            cells.append((rows[0], median(known)))
    best, text = 0.0, ""
    for axis in results.order:
        groups = grouped_by(cells, lambda cell: str(cell[0].get(axis, "")))  # noqa: B023
        ranges = [
            (min(levels), max(levels), value_label(axis, value))
            for value, of in groups.items()
            for levels in [[level for _, level in of]]
        ]
        ranges.sort(reverse=True)
        gaps = [above[0] - below[1] for above, below in pairwise(ranges)]
        sides = {
            contract.side_of(cast(FindingDefinition, definition), end)
            for *ends, _ in ranges
            for end in ends
        }
        if gaps and len(sides) > 1 and min(gaps) > best:
            best = min(gaps)
            text = ", ".join(f"{label} {_range(low, high, unit)}" for low, high, label in ranges)
    return f"mixed: {text}" if text else ""


def _unlike_published(
    row: Row, definition: Row, pairs: Sequence[Point], min_effect_pct: float
) -> str:
    """Return a sentence if a value is in the expected range, but the difference is larger than published or
    on the other side."""
    compare = definition.get("compare") or {}
    numbers = [_number(row.get(name)) for name in ("published", "measured", "low", "high")]
    if "candidate" not in compare or not all(numbers):
        return ""
    was, now, low, high = (math.log(number or 1.0) for number in numbers)
    is_between = min(0.0, was) <= now <= max(0.0, was)
    if low <= was <= high or is_between or abs(now - was) <= math.log1p(min_effect_pct / 100):
        return ""
    is_other = was * now < 0 and abs(was) > math.log1p(min_effect_pct / 100)
    head = "Inside the range, but on the other side" if is_other else "Reproduced, and more"
    is_better = (now > 0) == (metric_in(definition).gain > 0)
    winner = value_label(compare["axis"], compare["candidate" if is_better else "baseline"])
    calls = [(point.row or {}).get("call") for point in pairs]
    undecided = sum(call in (None, "", contract.TOO_NOISY) for call in calls)
    open_ = f" ({words.count_of(undecided, 'pair')} undecided)" if undecided else ""
    here = f"measured {factor(math.exp(abs(now)))} in favour of {winner}{open_}"
    return f"{head}: published {times(math.exp(was))}, {here}."


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
