"""The page of a study: one data object in one template.

A page is a single HTML file. The same results give the same page at any time and place.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcsbench import words
from vcsbench.advice.cards import PICTOGRAMS, axis_label, value_label
from vcsbench.advice.decision import Row
from vcsbench.axes import axis_of
from vcsbench.config.study import Study
from vcsbench.metrics import metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import answers, charts
from vcsbench.report.citation import Citation, citation_of
from vcsbench.report.details import details
from vcsbench.report.quality_section import quality_of
from vcsbench.report.results import (
    Results,
    Rows,
    grouped_by,
    name_of,
    unique,
    varying,
)
from vcsbench.report.setup_section import Setup, distances_of, setup_of
from vcsbench.report.table_sections import (
    Download,
    PlainTable,
    TableSection,
    download,
    table_sections,
)
from vcsbench.report.terminal import budget_sentences

ASSETS = Path(__file__).parents[2] / "report"
# The page's script, in this order: each part uses the parts before it.
SCRIPTS = ("state", "tables", "detail", "page")
# The index shows these of each finding, and reads these from the head of a page.
FINDING_KEYS = (
    *("id", "statement", "verdict", "expected", "published", "measured", "interval", "of"),
)


@dataclass(frozen=True)
class Plot:
    """A drawing of lines, with the names of its lines."""

    title: str
    drawing: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Page:
    """All data of a page.

    `packed_answers` and `packed_details` are JSON for the script, `absent` are tables without a measured
    cell, `budget` has sentences, `quality` tables and `remarks` sentences on the quality of the data.
    """

    study: Study
    own_repository: str
    incomplete: str
    facts: Mapping[str, str]
    header: Sequence[str]
    picks: Sequence[answers.Pick]
    cards: Sequence[answers.CardView]
    packed_answers: str
    overview: answers.Overview | None
    findings: Sequence[answers.FindingView]
    expectations: Sequence[answers.FindingView]
    scaled: Mapping[str, float]
    situations: Sequence[answers.SituationRow]
    less_work: Sequence[str]
    min_effect: str
    tables: Sequence[TableSection]
    absent: Sequence[str]
    measured_where: str
    published_where: str
    plots: Sequence[Plot]
    history: PlainTable | None
    budget: Sequence[str]
    setup: Setup
    remarks: Sequence[str]
    quality: Sequence[PlainTable]
    limits: Sequence[str]
    raw: Download | None
    packed_details: str
    glossary: Mapping[str, str]
    citation: Citation


def build_page(results: Results, assets: Path = ASSETS) -> str:
    """Return the page as text; `assets` has the template, the style and the script."""
    return render("report.html.jinja", {"page": page_of(results)}, assets)


def render(template: str, model: Mapping[str, object], assets: Path = ASSETS) -> str:
    """Return a filled template. All text is escaped unless the template marks it as safe."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(assets),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [(assets / "script" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    style = (assets / "style.css").read_text(encoding="utf-8")
    labels = {"label": value_label, "pictograms": PICTOGRAMS, "words": words}
    template_ = environment.get_template(template)
    return template_.render(**model, **labels, style=style, script="\n".join(scripts))


def pack(content: Mapping[str, object]) -> str:
    """Return JSON, packed by gzip, in base64. The same content gives the same text."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def page_of(results: Results) -> Page:
    """Return the data of a page."""
    study, measured = results.study, originals(results.measurements)
    distances = distances_of(results.contexts, study)
    setup, tables = setup_of(results, distances), table_sections(results, distances)
    findings, expectations = (
        answers.finding_views(rows, checks, study.tables, tables)
        for rows, checks in (
            (results.findings, results.definitions),
            (results.expectations, results.checks),
        )
    )
    cards = answers.card_views(results.advice.cards)
    picks = answers.picks_of(results, cards)
    labels = {
        axis: {"": axis_label(axis), **{value: value_label(axis, value) for value in values}}
        for axis, values in results.order.items()
    }
    packed = {"picks": [pick.axis for pick in picks], "labels": labels}
    packed["cards"] = answers.answers_by_picks(cards, picks)
    facts = _facts(results, setup, findings)
    published = study.published.scale if study.published else None
    shown = {table.name for table in tables}
    year = re.search(r"(?:19|20)\d\d", f"{study.name} {study.source}")
    where = [str(setup.last.year)] if setup.last else []
    quality, remarks = quality_of(results)
    return Page(
        study=study,
        own_repository=results.own_repository,
        incomplete=_incomplete(results, facts),
        facts=facts,
        header=_header(results, setup, measured),
        picks=picks,
        cards=cards,
        packed_answers=pack(packed),
        overview=answers.overview_of(cards, results.order),
        findings=findings,
        expectations=expectations,
        scaled={n: scale for n, scale in setup.scales.items() if scale < (published or 0)},
        situations=answers.situation_rows(results),
        less_work=results.advice.less_work,
        min_effect=f"{results.advice.min_effect_pct:g} %",
        tables=tables,
        absent=[name for name in study.tables if name not in shown],
        measured_where=", ".join([words.enumeration(setup.host_names), *where]),
        published_where=", ".join(
            filter(
                None, [year and year.group(), study.published.machine if study.published else ""]
            )
        ),
        plots=plots_of(results),
        history=history_table(results.history),
        budget=list(budget_sentences(results.account)) if results.account else [],
        setup=setup,
        remarks=remarks,
        quality=quality,
        limits=_limits(results, setup),
        raw=_raw_download(results),
        packed_details=pack(details(results, tables)) if measured else "",
        glossary=_glossary(results),
        citation=citation_of(results, setup),
    )


def _header(results: Results, setup: Setup, measured: Rows) -> list[str]:
    """Return two lines: the repository and its storage; the machine, the time and the number of runs."""
    if not measured:
        return ["Nothing has been measured."]
    parts = [setup.header[1]]
    if setup.first and setup.last:
        duration = words.duration((setup.last - setup.first).total_seconds())
        parts.append(f"{words.day(setup.last)}, {duration}")
    cells = words.count_of(len({row["cell"] for row in measured}), "combination")
    runs = words.count_of(len(results.measurements), "timed run")
    parts.append(f"{cells}, {runs}")
    return [line for line in (setup.header[0], "; ".join(filter(None, parts))) if line]


def _incomplete(results: Results, facts: Mapping[str, str]) -> str:
    parts = []
    if results.failures:
        parts.append(f"{words.count_of(len(results.failures), 'cell-round')} failed")
    if skipped := int(facts["skipped"]):
        parts.append(f"{words.count_of(skipped, 'combination')} cannot be measured here")
    return words.enumeration(parts)


def _facts(
    results: Results, setup: Setup, findings: Sequence[answers.FindingView]
) -> dict[str, str]:
    """Return the facts in the head of the page, which the index reads."""
    grid, measured = originals(results.grid), originals(results.measurements)
    rows = [{name: getattr(view, name) for name in FINDING_KEYS} for view in findings]
    return {
        "study": results.study.name,
        "title": results.study.title,
        "date": setup.last.strftime("%Y-%m-%dT%H:%MZ") if setup.last else "",
        "host": words.enumeration(setup.host_names),
        "cells": str(len(grid)),
        "measured": str(len({row["cell"] for row in measured})),
        "skipped": str(sum(1 for cell in grid if cell["skip"])),
        "failures": str(len(results.failures)),
        "findings": json.dumps(rows),
    }


def _limits(results: Results, setup: Setup) -> list[str]:
    study = results.study
    measured = {study.command_name(row) for row in results.grid}
    commands = [(n, c.caveat) for n, c in study.commands.items() if n in measured and c.caveat]
    limits = [text for axis in study.axes for text in axis_of(axis).limits(sorted(setup.guests))]
    hosts = "Numbers of different machines, published ones included, are shown side by side only."
    return [*(f"{name}: {caveat}" for name, caveat in commands), *limits, hosts]


def _glossary(results: Results) -> dict[str, str]:
    """Return the meaning of each value in the grid, in the order of the axes, then of other words."""
    meanings: dict[str, str] = {}
    for axis in results.order:
        for value in unique(row.get(axis, "") for row in results.grid):
            if meaning := results.glossary.of(axis, value):
                meanings[value_label(axis, value)] = meaning
    return {word: m.replace("`", "") for word, m in {**results.glossary.others, **meanings}.items()}


def plots_of(results: Results) -> list[Plot]:
    """Return the lines over saved baselines, and over a number such as the clients of an export."""
    study, plots = results.study, []
    times = [time["name"] for time in results.history.get("times", [])]
    points = results.history.get("points", [])
    if len(times) > 1:
        shown = varying(points, [axis for axis in results.order if axis not in study.block])
        for block, rows in grouped_by(points, lambda row: name_of(row, study.block)).items():
            title = f"Elapsed seconds over time: {block}"
            plots.append(_plot(title, rows, "time", times, shown))
    for name, definition in study.tables.items():
        over = definition.get("over")
        rows = [r for r in results.tables.get(name, []) if words.is_number(r.get("value"))]
        if over and rows:
            present = {row[over] for row in rows}
            along = [value for value in results.order[over] if value in present]
            shown = varying(rows, [axis for axis in results.order if axis != over])
            title = f"{name} ({metric_in(definition).unit}) by {over}"
            plots.append(_plot(title, rows, over, along, shown))
    return [plot for plot in plots if plot.drawing]


def _plot(title: str, rows: Rows, over: str, along: Sequence[str], shown: Sequence[str]) -> Plot:
    by_line = grouped_by(rows, lambda row: name_of(row, shown) or "all cells")
    series = []
    for members in by_line.values():
        values = {row[over]: row["value"] for row in members}
        series.append([values.get(place) for place in along])
    return Plot(title, charts.line_plot(series, along, title), list(by_line))


def history_table(history: Row) -> PlainTable | None:
    """Return the saved baselines and this run as a table; None for fewer than two."""
    rows = []
    for time in history.get("times", []):
        first, last = (words.moment(time[name]) for name in ("first", "last"))
        before, changed = time["before"], "; ".join(time["changed"])
        calls = ", ".join(f"{number} {call}" for call, number in time["calls"].items() if number)
        period = words.period(first, last) if first and last else ""
        hosts = words.enumeration(unique(time["hosts"]))
        calls = calls or ("not comparable" if before else "")
        changed = changed or ("nothing known" if before else "")
        rows.append((time["name"], period, hosts, before, calls, changed))
    heads = ["Saved", "Measured", "Host", "Compared with", "Comparisons", "Changed"]
    return PlainTable("Saved baselines", heads, rows) if len(rows) > 1 else None


def _raw_download(results: Results) -> Download | None:
    """Return every timed run as a compressed file inside the page."""
    path = f"measurements/{results.study.name}.csv"
    if path not in results.texts:
        return None
    content = gzip.compress(results.texts[path].encode(), 9, mtime=0)
    return download(path, "application/gzip", content, f"{results.study.name}-measurements.csv.gz")
