"""The section of a page on findings: verdicts, possible reasons with their tests, a row each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median
from typing import NamedTuple, cast

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, change, factor, value_label
from vcsbench.config.definitions import FindingDefinition
from vcsbench.evidence.flags import is_invalid
from vcsbench.metrics import DEFAULT, metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import charts
from vcsbench.report.finding_steps import DIFFERENT, Step, addable_parts, reason_steps
from vcsbench.report.grids import Point, change_words
from vcsbench.report.quality_section import (
    APART_NOTE,
    apart_cells,
    is_one_sided,
    metric_value,
    times_of,
)
from vcsbench.report.results import Results, Rows, grouped_by
from vcsbench.report.table_sections import PlainTable, TableSection
from vcsbench.statistics import contract
from vcsbench.statistics.baselines import table_name

MEANINGS = {
    contract.REVERSED: "the other side is faster now",
    contract.DIFFERS: "the measured interval is outside the expected range",
    contract.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    contract.INCONCLUSIVE: "the interval crosses an end of the range",
    contract.REPRODUCED: "the interval is inside the range",
    contract.NOT_MEASURED: "",
}
MAX_REVERSED = 5
_STYLES = {contract.TOO_SMALL: "small", contract.INCONCLUSIVE: "undecided"}
_PARTS = ("CPU time of the client", "CPU time of the server", "waiting (for storage or network)")


@dataclass(frozen=True)
class FindingView:
    """A finding or an expectation as the page shows it.

    `is_ours` is True if vcsbench chose the expected range, because the statement has no number.
    `steps` are its reasons (of a finding that differs, the possible ones), `notes` other remarks. `news`
    is what changed since it was published, `picture` SVG, `ratio` the value in words, `of` its pairs or
    cells, and `anchor` the row of its table.
    """

    id: str
    statement: str
    verdict: str
    expected: str
    is_ours: bool
    published: str
    measured: str
    interval: str
    ratio: str
    of: str
    steps: Sequence[Step]
    notes: Sequence[str]
    table: str
    anchor: str
    news: str
    picture: str

    @property
    def rank(self) -> int:
        return [*MEANINGS, self.verdict].index(self.verdict)


class VerdictCount(NamedTuple):
    """A line of the summary: a verdict, its number and meaning, and the reasons with their numbers."""

    verdict: str
    number: int
    meaning: str
    why: str


def summary_of(views: Sequence[FindingView]) -> list[VerdictCount]:
    lines = []
    for verdict, members in grouped_by(views, lambda view: view.verdict).items():
        reasons = Counter(label for view in members for label in {s.label: 0 for s in view.steps})
        why = ", ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
        is_clear = verdict in (contract.REPRODUCED, contract.TOO_SMALL)
        meaning = MEANINGS.get(verdict, "")
        lines.append(VerdictCount(verdict, len(members), meaning, "" if is_clear else why))
    return lines


def finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file, news first. `definitions` maps an id to its check."""
    sections_by_name = {section.name: section for section in sections}
    views, apart = [], apart_cells(results)
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
            expected = _range(bounds, unit)
        verdict = contract.verdict_for_reader(row)
        steps, notes = reason_steps(results, definition, row, verdict, addable)
        of = [row.get("over", ""), _groups_text(results, definition, unit)]
        pairs = _pairs(where, section) if section else []
        if verdict == contract.REPRODUCED:
            limit = results.advice.min_effect_pct
            notes.insert(0, _unlike_published(row, definition, pairs, limit))
        if section and pairs:
            # The table may have the sides exchanged.
            is_same = section.baseline == str(
                definition["compare"].get("baseline", section.baseline)
            )
            of.append(_pairs_text(definition, pairs, is_same))
            if any(is_one_sided(point, apart) for point in pairs):
                notes.append(APART_NOTE)
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
            measured=measured,
            interval=_range(interval, unit) if interval else "",
            ratio=_ratio_text(row, definition),
            of="; ".join(filter(None, of)),
            steps=steps,
            notes=[*filter(None, notes)],
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


def reversed_table(results: Results, sections: Sequence[TableSection]) -> PlainTable | None:
    """Return the largest called differences whose published ratio is on the other side by more than 10 %,
    which no finding covers. Return None without any."""
    tables = [table_of(of, results.study.tables) for of in results.definitions.values()]
    rows = []
    pairs = [(section, pair) for section in sections if section.compared for pair in section.pairs]
    for section, pair in pairs:
        known = pair.published.points if pair.published else []
        theirs = {(*p.keys.items(),): 1 + p.value / 100 for p in known if p.value is not None}
        where = [where for name, where in tables if name == section.name]
        for point in pair.measured.points if pair.measured else []:
            row, was = point.row or {}, theirs.get((*point.keys.items(),))
            if was is None or point.is_small or not contract.is_difference(row.get("call") or ""):
                continue
            now = row["ratio"]
            if (was if now < 1 else 1 / was) <= 1.1 or any(_overlap(w, point.keys) for w in where):
                continue
            keys = {axis: value for axis, value in point.keys.items() if axis != "candidate"}
            sides = " ÷ ".join(value_label(section.compared, row[side]) for side in contract.SIDES)
            interval = _range([row["low"], row["high"]], "x")
            texts = (_written(was, "x"), _written(now, "x"), interval)
            rows.append((abs(math.log(now)), (f"{case_label(keys, [*keys])}: {sides}", *texts)))
    rows.sort(key=lambda row: -row[0])
    some = f", the largest {MAX_REVERSED}" if len(rows) > MAX_REVERSED else ""
    pairs_are = words.count_of(len(rows), "more comparison", "more comparisons")
    title = f"Reversed in the tables: {pairs_are} that no finding covers{some}"
    texts_ = [texts for _, texts in rows[:MAX_REVERSED]]
    heads = [
        "Ratio of times: above 1x, the second value is faster",
        "Published",
        "Measured",
        "95 % interval",
    ]
    return PlainTable(title, heads, texts_, 1) if rows else None


def _unit(definition: Row) -> str:
    unit = "x" if definition.get("compare") else metric_in(definition).unit if definition else ""
    return unit if unit in ("x", "%") else f" {unit}".rstrip()


def _range(bounds: Sequence[float | None], unit: str) -> str:
    low, high = (None if bound is None else _written(bound, unit) for bound in bounds)
    if low is None or high is None:
        return f"at most {high}" if low is None else f"at least {low}"
    return f"{low} to {high}"


def _ratio_text(row: Row, definition: Row) -> str:
    """Return `time of f6 ÷ time of f7: above 1x, f7 is faster`, or the quantity of a level."""
    compare = definition.get("compare") or {}
    if not definition or "candidate" not in compare:
        return str(row.get("unit") or "") if compare else metric_in(definition).title
    metric = metric_in(definition)
    first, second = (value_label(compare["axis"], compare[s]) for s in ("baseline", "candidate"))
    is_better = metric.words.is_better if metric.gain > 0 else f"{metric.words.verb}lower"
    ratio = f"{metric.quantity} {first} ÷ {metric.quantity} {second}"
    measured = _number(row.get("measured"))
    here = f" (here {second} {change(measured, change_words(metric))})" if measured else ""
    return f"{ratio}: above 1x, {second} {is_better}{here}"


def _pairs(where: Row, section: TableSection) -> list[Point]:
    points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
    points = [p for p in points if p.row and not p.is_small and _overlap(where, p.keys)]
    return [p for p in points if p.row and words.is_number(p.row.get("ratio"))]


def _pairs_text(definition: Row, pairs: Sequence[Point], is_same: bool) -> str:
    """Return `pairs 0.94x to 2.90x, mixed: 5 faster, 3 undecided`; "" for fewer than two pairs."""
    rows = [point.row or {} for point in pairs]
    if len(rows) < 2 or (definition.get("expect") or {}).get("over") != contract.MEDIAN:
        return ""
    turned = {} if is_same else {"faster": "slower", "slower": "faster"}
    ratios = [row["ratio"] if is_same else 1 / row["ratio"] for row in rows]
    calls = Counter(turned.get(call := row.get("call") or "too few rounds", call) for row in rows)
    mixed = ", mixed" if len(calls) > 1 else ""
    texts = ", ".join(f"{n} {contract.WORDS.get(call, call)}" for call, n in calls.items())
    return f"pairs {_range([min(ratios), max(ratios)], 'x')}{mixed}: {texts}"


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
            text = ", ".join(f"{label} {_range(ends, unit)}" for *ends, label in ranges)
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
    return f"{head}: published {_written(numbers[0], 'x')}, {here}."


def _news(row: Row, definition: Row) -> str:
    compare, published = definition.get("compare") or {}, _number(row.get("published"))
    if "candidate" not in compare or not published:
        return ""
    first, second = ("faster", "slower") if published > 1 else ("slower", "faster")
    was, now = (factor(max(v, 1 / v)) for v in (published, float(row["measured"])))
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
    is_short = 0.1 <= abs(number) < 10
    return f"{words.fixed(number, 2) if is_short else words.significant(number)}{unit}"


def _anchor(where: Row, section: TableSection) -> str:
    for row in (row for pair in section.pairs if pair.measured for row in pair.measured.rows):
        for point in row.points:
            if point and point.value is not None and _overlap(where, point.keys):
                return f"{section.anchor}-{row.slug}"
    return section.anchor


def _overlap(where: Row, other: Row) -> bool:
    shared = where.keys() & other.keys()
    return all(
        {*contract.axis_values(where[axis])} & {*contract.axis_values(other[axis])}
        for axis in shared
    )


def table_of(definition: Row, tables: Mapping[str, Row]) -> tuple[str, Row]:
    """Return the table of a finding's comparison, otherwise of its metric, and its axis values.

    The table may have the sides exchanged. Its name is "" if no table fits.
    """
    where, comparison = dict(definition.get("where") or {}), definition.get("compare") or {}
    if "to" in comparison:
        name = table_name(comparison["to"])
        return (name if name in tables else ""), where
    metric, sides = metric_in(definition), [comparison.get("baseline"), comparison.get("candidate")]
    levels = []
    for name, table in tables.items():
        compare = table.get("compare") or {}
        if not compare and (metric_in(table) is metric or metric.name in table.get("each", ())):
            levels.append(name)
        if not compare or compare["axis"] != comparison.get("axis"):
            continue
        for baseline, candidate in (sides, sides[::-1]) if metric_in(table) is metric else ():
            if compare["baseline"] == baseline and candidate in compare["candidates"]:
                return name, {**where, "candidate": candidate}
    if comparison:
        where[comparison["axis"]] = sides
    fitting = (name for name in levels if _overlap(where, tables[name].get("where", {})))
    return next(fitting, next(iter(levels), "")), where
