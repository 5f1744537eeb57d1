"""The sections of a page with a study's tables: grids, legends, keys, downloads and details."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, mean, median
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import (
    change,
    change_between,
    factor,
    value_label,
)
from vcsbench.advice.decision import EQUAL, NOISY, SMALL, Row, compares_times, outcome_of
from vcsbench.config.models import Thresholds
from vcsbench.config.study import Study
from vcsbench.evidence.flags import FLAGS, is_invalid
from vcsbench.metrics import DEFAULT, Metric, metric_in, metric_of, names
from vcsbench.plan.grid import originals
from vcsbench.report import grids
from vcsbench.report.grids import Grid, Layout, Point
from vcsbench.report.results import Results, Rows, cell_names, grouped_by, unique_values, values_in
from vcsbench.report.terminal import configfiles_of, variables_of
from vcsbench.statistics.contract import is_exact

KEY = {
    "≈": "equal: the difference is shown to be below the smallest effect worth noting",
    "~": "undecided: too noisy",
    "s": "too small to compare: mostly start-up (hatched)",
    "=": "the same binaries under two names (A/A test)",
    "?": "undecided: too few rounds",
}
PER_CENT = ("+150", "per cent, as published: cards print it as the factor 2.5x")
# From here on, cards print a factor in place of per cent.
LARGE_PCT = 19.5
BAR = ("▁", "its length is the number's share of the largest one in the table")
GREY = ("grey", "equal or undecided; colours: the scale above, for differences")
NOTHING = ("·", "not in the grid, or not published")
DEVIATION = ("† ‡", "a run is over 10 or 20 % from its cell's median (the switch above shows it)")
CACHES = {"cold": ("□", "cold"), "hot-os": ("◧", "OS cache warm")}
CACHES |= dict.fromkeys(("hot", "hot-svn"), ("■", "server cache warm, too"))
MARKS = {
    **dict(CACHES.values()),
    "● ○ ◌": "in a picture, with its 95 % interval: a result; undecided; too small to compare",
    "◇": "in the picture of a finding: the published value",
    words.EN_DASH: "in the overview: not in the grid, skipped or failed",
    "grey band": "in a plot of a card: differences below the smallest effect worth noting",
    "blue, orange": "the candidate is faster, the baseline is faster; darker: by more",
    **KEY,
    **dict([PER_CENT, GREY, BAR, NOTHING, *grids.ABSENT.values(), DEVIATION]),
}
REDUCTIONS = {"median": "medians", "best": "the best runs", "worst": "the worst runs"}
CORRECTED = (
    "The interval is of this number alone. The call is corrected for all comparisons of its table, "
    "because some are far out by chance."
)


class PlainTable(NamedTuple):
    """A table of texts; a list of texts is folded. Columns from `numbers_from` are aligned right."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Sequence[str]]]
    numbers_from: int = 99
    note: str = ""
    is_folded: bool = False


class Download(NamedTuple):
    """A file next to the page, and its content as a data URL."""

    path: str
    data: str
    name: str


def download(results: Results, path: str, name: str, is_packed: bool = False) -> Download | None:
    if path not in results.texts:
        return None
    content, kind = results.texts[path].encode(), "text/csv;charset=utf-8"
    if is_packed:
        content, kind = gzip.compress(content, 9, mtime=0), "application/gzip"
    data = base64.b64encode(content).decode()
    return Download(f"../results/{path}", f"data:{kind};base64,{data}", name)


class SideBySide(NamedTuple):
    """A measured and a published grid in the same layout; either may be missing."""

    title: str
    measured: Grid | None
    published: Grid | None


class Legend(NamedTuple):
    """The colours of a table: style, and the deviation at which each begins."""

    left: str
    swatches: Sequence[tuple[str, str]]
    right: str


@dataclass(frozen=True)
class TableSection:
    """A table of the study.

    `legend` exists if it compares `baseline` with values of the axis `compared`. `whole` is the published
    table if the pairs show a part of it. `withheld`
    maps reasons to places without a number.
    """

    name: str
    title: str
    anchor: str
    reading: str
    legend: Legend | None
    pairs: Sequence[SideBySide]
    whole: Sequence[Grid]
    not_measured: str
    nothing_published: str
    withheld: Mapping[str, Sequence[str]]
    download: Download | None
    notes: Sequence[str]
    axes: tuple[str, ...]
    compared: str
    baseline: str
    key: Sequence[tuple[str, str]]

    @property
    def compares(self) -> bool:
        return self.legend is not None


def table_sections(results: Results, distances: Mapping[str, Sequence[str]]) -> list[TableSection]:
    """Return a section per table, featured ones first, without tables that have no cell in the grid."""
    tables = unique_values([*results.study.featured_tables, *results.study.tables])
    sections = [_section(results, name, distances) for name in tables]
    measured = [s for s in sections if s.not_measured or any(pair.measured for pair in s.pairs)]
    return measured if results.grid else sections


def _section(results: Results, name: str, distances: Mapping[str, Sequence[str]]) -> TableSection:
    study, definition = results.study, results.study.tables[name]
    layout, rows = grids.layout_of(definition, results.order), results.tables.get(name, [])
    metric, compare = metric_in(definition), definition.get("compare")
    expected = grids.expected_rows(
        definition, list(study.axes), results.grid, results.failures, results.measurements
    )
    has_published = prints_as_published(results, name)
    points = grids.measured_points(definition, rows, expected, in_words=not has_published)
    published = [
        grids.numbered_point(definition, row, "published", True)
        for row in results.published.get(name, [])
        if words.is_number(row["value"])
    ]

    def grids_of(points: Sequence[Point]) -> list[Grid]:
        return grids.make_grids(
            points if compare else grids.with_numbers(points, layout, metric.unit), layout
        )

    reasons = {point.reason for point in points if point.kind != "skipped"}
    missing = reasons.pop() if len(reasons) == 1 and metric.exact else ""
    pairs = _pairs([] if missing else points, published, grids_of, layout, study)
    shown = sum(p.kind == "published" for x in pairs if x.published for p in x.published.points)
    commands = {study.command_name(row) for row in rows}
    has_cards = bool(compare and compares_times(definition, str(compare.get("axis"))))
    return TableSection(
        name=name,
        title=title_of(definition),
        anchor=f"table-{words.slug(name)}",
        reading=_reading(definition, layout.caption(points or published), has_published),
        legend=_legend(definition, has_published),
        pairs=pairs,
        whole=grids_of(published) if shown < len(published) else [],
        withheld={
            reason: [layout.label(point.keys) for point in of]
            for reason, of in grouped_by(points, lambda point: point.reason).items()
            if reason and not missing
        },
        not_measured=missing,
        nothing_published="" if published else _nothing_published(results, name),
        download=download(results, f"tables/{study.name}/{name}.csv", f"{study.name}-{name}.csv"),
        notes=[
            *results.notes.get(name, ()),
            *(text for command, of in distances.items() if command in commands for text in of),
        ],
        axes=layout.axes,
        compared=layout.compared,
        baseline=compare["baseline"] if compare else "",
        key=_key(points, bool(compare), has_cards and has_published),
    )


def _pairs(
    measured: Sequence[Point],
    published: Sequence[Point],
    grids_of: Callable[[Sequence[Point]], list[Grid]],
    layout: Layout,
    study: Study,
) -> list[SideBySide]:
    if not measured:
        return [SideBySide(grid.title, None, grid) for grid in grids_of(published)]
    theirs = grouped_by(published, lambda point: values_in(point.keys, layout.rest))
    pairs = []
    for grid in grids_of(measured):
        same = theirs.get(tuple(grid.of.values()), [])
        near = (
            grids.matching(same, grid.points, layout, study.axes_of("repositories")) if same else []
        )
        shown = any(point.kind == "published" for point in near)
        pairs.append(SideBySide(grid.title, grid, grids_of(near)[0] if shown else None))
    return pairs


def _reading(definition: Row, caption: str, has_published: bool) -> str:
    metric, reduction = metric_in(definition), definition.get("reduce", "median")
    if not definition.get("compare"):
        text = f"{metric.title}, in {metric.unit}: the {reduction} of all runs."
        text = metric.reading if reduction == "median" else text
        means = (
            "Cards print geometric means: click a number for both."
            if metric.name == DEFAULT
            else ""
        )
        return " ".join(filter(None, [text, means, caption]))
    x, y = _sides(definition)
    if not has_published:
        return f"{y} against {x}: the geometric mean of the rounds' ratios. {caption}".strip()
    above = "above" if metric.gain > 0 else "below"
    ratio = f"{metric.quantity} {x} ÷ {metric.quantity} {y}"
    text = f"100 {words.TIMES} ({ratio} {words.MINUS} 1), in per cent: "
    text += f"{above} 0, {y} {metric.words.is_better}."
    text += " Measured: the geometric mean of the rounds' ratios."
    return f"{text} Published: the ratio of {REDUCTIONS[reduction]}. {caption}".strip()


def _sides(definition: Row) -> tuple[str, str]:
    compare = definition["compare"]
    first, *others = (
        value_label(compare["axis"], value)
        for value in (compare["baseline"], *compare["candidates"])
    )
    return first, " or ".join(others)


def title_of(definition: Row) -> str:
    """Return `Elapsed time: not packed against packed`."""
    text = metric_in(definition).title
    if not definition.get("compare"):
        reduction = definition.get("reduce", "")
        return f"{text}, {reduction}" if reduction in ("best", "worst") else text
    first, others = _sides(definition)
    return f"{text}: {first} against {others if others.count(' or ') < 2 else 'others'}"


def _legend(definition: Row, has_published: bool) -> Legend | None:
    if not definition.get("compare"):
        return None
    metric = metric_in(definition)
    left, right = (f"{side} {metric.words[0]}" for side in _sides(definition))
    steps = [*(1 / f for f in reversed(grids.COLOUR_STEPS)), *grids.COLOUR_STEPS]
    swatches = [
        (grids.colour_of(100 * (step - 1), metric.gain), words.percentage(100 * (step - 1)))
        if has_published
        else (grids.colour_of(100 * (step - 1), metric.gain), factor(max(step, 1 / step)))
        for step in steps
    ]
    swatches.insert(len(grids.COLOUR_STEPS), ("", ""))
    return Legend(left, swatches[:: metric.gain], right)


def _key(points: Sequence[Point], compares: bool, has_cards: bool) -> list[tuple[str, str]]:
    marks = {mark for point in points for mark in point.mark}
    kinds = {point.kind for point in points}
    caches = {point.keys.get("cache", "") for point in points}
    key = unique_values(text for cache, text in CACHES.items() if cache in caches)
    key += [(mark, meaning) for mark, meaning in KEY.items() if mark in marks]
    is_large = any(abs(point.value or 0.0) >= LARGE_PCT for point in points)
    key += [PER_CENT] if has_cards and is_large else []
    key += [GREY] if compares else [BAR]
    key.append(NOTHING)
    key += [text for kind, text in grids.ABSENT.items() if kind in kinds]
    if any(point.deviation for point in points):
        key.append(DEVIATION)
    return key


def prints_as_published(results: Results, name: str) -> bool:
    """Return True if a table prints its numbers as published ones."""
    is_of_study = bool(results.study.published) and name not in results.notes
    return is_of_study and results.study.tables[name].get("published", True) is not False


def _nothing_published(results: Results, name: str) -> str:
    if name in results.notes:
        return "A saved baseline has no published numbers."
    if not results.study.published:
        return ""
    if not prints_as_published(results, name):
        return "The study published nothing for this table."
    return "The published table does not exist yet. Run: make published-tables"


def details(results: Results, sections: Sequence[TableSection]) -> dict[str, Row]:
    """Return the details of all numbers, for JSON.

    `runs` has a list per column (round, flags, and each metric of a table). A cell has its first run and
    its number of runs in these lists. `tables` has by anchor the numbers by their axis values.
    """
    given = variables_of(results.provenance.get("command", ""))
    names_ = cell_names(results)
    of_cells = grouped_by(originals(results.measurements), lambda row: row["cell"])
    runs = [run for rows in of_cells.values() for run in rows]
    metrics = {m.name: m for s in sections for m in [metric_in(results.study.tables[s.name])]}
    counted = [
        m for m in map(metric_of, names()) if m.exact and any(metric_value(m, r) for r in runs)
    ]
    cells: dict[str, Row] = {}
    start = 0
    for cell, rows in of_cells.items():
        values = [[metric_value(metric, run) for run in rows] for metric in counted]
        cells[cell] = {
            "words": names_.get(cell, cell),
            "spent": [_short(value) for value in times_of(rows)],
            "counted": [_short(_median(value)) for value in values],
            "evidence": evidence_sentences(rows, results.thresholds),
            "rounds": len({run["round"] for run in rows}),
            "runs": [start, len(rows)],
        }
        start += len(rows)
    columns = {name: [_short(metric_value(m, run)) for run in runs] for name, m in metrics.items()}
    flags = [run["flags"] for run in runs]
    return {
        "of": {
            "own": results.own_repository,
            "tree": given.get("TREE", ""),
            "study": results.study.name,
            "args": (arguments := given.get("ARGS", "")),
            "files": configfiles_of(arguments),
        },
        "counted": {metric.title: metric.unit for metric in counted},
        "cells": cells,
        "runs": {"round": [int(run["round"]) for run in runs], "flags": flags, **columns},
        "tables": {s.anchor: _numbers_of(s, results.study.tables[s.name]) for s in sections},
    }


def metric_value(metric: Metric, run: Row) -> float | None:
    if not all(words.is_number(run.get(name)) for name in metric.needs):
        return None
    try:
        value = metric.value({name: part(run) for name, part in metric.parts.items()})
    except ZeroDivisionError:
        return None
    return float(value) if words.is_number(value) else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _short(value: float | None) -> float | None:
    return float(f"{value:.4g}") if words.is_number(value) else None


def _numbers_of(section: TableSection, definition: Row) -> Row:
    metric, numbers = metric_in(definition), {}
    unit = "%" if section.compares else metric.unit
    for pair in section.pairs:
        published = {
            tuple(point.keys.items()): f"{point.text} {unit}"
            for point in (pair.published.points if pair.published else [])
            if point.kind == "published"
        }
        for point in pair.measured.points if pair.measured else []:
            if point.row is not None and point.cells and not definition.get("by"):
                numbers["/".join(map(str, values_in(point.keys, section.axes)))] = {
                    "cells": point.cells,
                    # A change in words has its unit.
                    "text": point.text if point.text[-1:].isalpha() else f"{point.text} {unit}",
                    "sentences": number_sentences(point, definition),
                    "published": published.get(tuple(point.keys.items()), ""),
                }
    return {
        "name": section.title,
        "metric": metric.name,
        "title": metric.title,
        "unit": metric.unit,
        "compares": section.compares,
        "compared": section.compared,
        "baseline": section.baseline,
        "numbers": numbers,
    }


def number_sentences(point: Point, definition: Row) -> list[str]:
    row, metric = point.row or {}, metric_in(definition)
    rounds = words.count_of(int(row["n"] or 0), "round")
    if not definition.get("compare"):
        reduction = definition.get("reduce", "median")
        return [f"{words.with_unit(row['value'], metric.unit)}, the {reduction} over {rounds}."]
    candidate = value_label(definition["compare"]["axis"], row["candidate"])
    quotient = f"{metric.quantity} {_sides(definition)[0]} ÷ {metric.quantity} {candidate}"
    ratio = 1 + (point.value or 0.0) / 100
    changes, outcome = grids.change_words(metric), outcome_of(row)
    text, number = f"{candidate}: {change(ratio, changes)}", words.significant(ratio)
    if not grids.has_interval(row):
        return [f"{text}, over {rounds}; too few for an interval. {quotient} = {number}."]
    calls = [f"{candidate} {metric.words.verb}{row.get('call')}."]
    if outcome in (EQUAL, SMALL, *grids.UNDECIDED):
        undecided = "undecided: " if outcome in grids.UNDECIDED else ""
        calls = [f"{undecided}{outcome}.".capitalize()]
    if is_exact(row):
        return [f"{text}, exact: all {rounds} count the same. {quotient} = {number}.", *calls]
    interval = change_between(row["low"], row["high"], changes)
    sentences = [
        f"{text} (95 % interval {interval}), over {rounds}. {quotient} = {number}.",
        *calls,
    ]
    if outcome == NOISY and not row["low"] <= 1 <= row["high"]:
        sentences.append(CORRECTED)
    if words.is_number(row.get("detectable")):
        sentences.append(f"The smallest detectable difference is {factor(row['detectable'])}.")
    return sentences


def evidence_sentences(runs: Rows, thresholds: Row) -> list[str]:
    ways = unique_values(filter(None, (run.get("cache_cleared_by") for run in runs)))
    by = f"The caches were cleared before a run, by {words.enumeration(ways)}."
    sentences = [by if ways else "No cache was cleared before a run."]
    shares = [
        f"{_between(numbers, _percentage)} {when} a run"
        for when in ("before", "after")
        if (numbers := _column(runs, f"resident_{when}"))
    ]
    if shares:
        sentences.append(f"Share of its files in memory: {', '.join(shares)}.")
    if read := _column(runs, "device_bytes"):
        size = _between(read, words.size)
        sentences.append(f"Client and server read {size} from devices in a run.")
    if ages := _column(runs, "server_age_s"):
        same = {run.get("server_same") for run in runs} == {"True"}
        after = "; after each run it was the same process" if same else ""
        age = _between(ages, words.significant)
        sentences.append(f"The server was {age} s old when a run began{after}.")
        if late := sum(number > 0 for number in _column(runs, "delayed_acks")):
            of = f"In {late} of {words.count_of(len(runs), 'run')}"
            sentences.append(f"{of} TCP delayed an acknowledgement by 40 ms.")
    flags = [flag for run in runs for flag in run["flags"].split()]
    for flag in unique_values(flags):
        meaning = flag_sentence(flag, thresholds)
        sentences.append(f"{flag}, {words.count_of(flags.count(flag), 'run')}: {meaning}")
    return sentences


def flag_sentence(flag: str, thresholds: Row) -> str:
    """Return the explanation of a flag, with the values of the thresholds that it names."""
    text = FLAGS[flag].sentence.strip() if flag in FLAGS else "This flag has no explanation."
    values = {**Thresholds().model_dump(), **thresholds}
    for name in re.findall(r"`(\w+)`", text):
        text = text.replace(f"`{name}`", f"{name} ({values[name]})" if name in values else name)
    return text.replace("`", "")


def _column(runs: Rows, column: str) -> list[float]:
    values = (run.get(column) for run in runs)
    return [float(value) for value in values if value not in (None, "")]


def _between(numbers: Sequence[float], written: Callable[[float], str]) -> str:
    return " to ".join(unique_values(map(written, (min(numbers), max(numbers)))))


def _percentage(share: float) -> str:
    return f"{words.significant(100 * share, 2)} %"


def times_of(rows: Rows) -> list[float | None]:
    """Return the median of elapsed seconds over rounds, their geometric mean as in cards, and the medians
    of client, server and waiting seconds; None if unknown.

    Waiting is the time that neither client nor server computed, below 0 if both computed at once.
    """
    valid = (r for r in rows if (r["elapsed_s"] or 0) > 0 and not is_invalid(r["flags"]))
    rounds = grouped_by(valid, lambda row: row["round"])
    if not rounds:
        return []
    parts: list[tuple[float, float | None, float | None]] = []
    for runs in rounds.values():
        cpu = [_column([run], "user_s") + _column([run], "system_s") for run in runs]
        client = [sum(pair) for pair in cpu if len(pair) == 2]
        server = _column(runs, "server_cpu_s")
        elapsed = median(_column(runs, "elapsed_s"))
        parts.append((elapsed, mean(client) if client else None, mean(server) if server else None))
    elapsed_s, client_s, server_s = map(_median, zip(*parts, strict=True))
    waiting_s = None
    if elapsed_s is not None and client_s is not None:
        waiting_s = elapsed_s - client_s - (server_s or 0.0)
    mean_s = geometric_mean(geometric_mean(_column(of, "elapsed_s")) for of in rounds.values())
    return [elapsed_s, mean_s, client_s, server_s, waiting_s]
