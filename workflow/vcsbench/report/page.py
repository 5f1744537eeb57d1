"""The page of a study: one HTML file with all that it needs inside."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.plan.twins import is_twin, original_of, originals
from vcsbench.report import builds, colours, quality
from vcsbench.report import setting as settings
from vcsbench.report.charts.drift import drift_charts
from vcsbench.report.charts.elapsed import elapsed_charts
from vcsbench.report.charts.panels import ChartGroup
from vcsbench.report.charts.ratios import ratio_charts
from vcsbench.report.grids import Layout, layout_of
from vcsbench.report.marks import LEGEND
from vcsbench.report.noise import noise_rows, noise_sentence
from vcsbench.report.results import Results
from vcsbench.report.sections import Download, table_sections, value_order
from vcsbench.report.setting import Setting, summarise
from vcsbench.report.verdicts import verdicts

ASSETS = Path(__file__).parents[2] / "report"


def build_page(results: Results, assets: Path = ASSETS) -> str:
    """The whole page as text; `assets` has the template, the style and the page's own script.

    The same results give the same page: nothing in it depends on when or where it is made.
    """
    setting = summarise(results.contexts)
    charts = chart_groups(results)
    tables = table_sections(results)
    model = {
        "study": results.study,
        "summary": summary(results, setting),
        "facts": facts(results, setting),
        "advice": results.advice,
        "several_repos": len(setting.repositories) > 1,
        "findings": verdicts(results.findings, results.definitions, results.study.tables, tables),
        "expectations": verdicts(
            results.expectations, results.expected, results.study.tables, tables
        ),
        "scaled": settings.smaller_scales(setting, (results.study.published or {}).get("scale")),
        "setting": setting,
        "builds": builds.ran(results.contexts, list(results.study.axes.get("build", []))),
        "same_builds": builds.same(results.contexts, list(results.study.axes.get("build", []))),
        "commands": settings.commands_as_timed(setting, list(results.study.commands)),
        "versions": settings.version_list(setting),
        "clearing": settings.clearing_sentences(setting),
        "tables": tables,
        "published_where": published_where(results),
        "measured_where": measured_where(setting),
        "legend": colours.legend(),
        "marks": LEGEND,
        "class_of": colours.class_of,
        "charts": charts,
        "noise": noise_rows(results.noise),
        "noise_said": noise_sentence(results.noise),
        "failures": results.failures,
        "failure_reasons": quality.by_reason(results.failures, "reason"),
        "skips": quality.by_reason(results.grid, "skip"),
        "work_done": quality.work_done(results.measurements),
        "flagged": quality.flagged(results.measurements),
        "set_aside": quality.set_aside(results.measurements),
        "caveats": quality.caveats(results.study.commands, commands_of(results)),
        "limits": quality.limits(results.study.axes, setting.guests),
        "raw": raw_download(results),
        "words": words,
        "bundle": chart_bundle() if charts else "",
    }
    return render("report.html.jinja", model, assets)


def render(template: str, model: Mapping[str, Any], assets: Path = ASSETS) -> str:
    """Fill a template of the folder; everything that is not marked safe is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(assets),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (assets / "style.css").read_text(encoding="utf-8")
    script = (assets / "page.js").read_text(encoding="utf-8")
    return environment.get_template(template).render(**model, style=style, script=script)


def chart_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, safe inside a script element."""
    import vl_convert

    # Without a snippet of ours it makes `vegaEmbed` global; its stub wants one all the same.
    libraries = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return re.sub(r"<(?=/script|!--)", r"\\x3c", libraries, flags=re.IGNORECASE)


def commands_of(results: Results) -> list[str]:
    """The commands that the grid has, in its order."""
    return list(dict.fromkeys(cell.get("command", "") for cell in results.grid))


def facts(results: Results, setting: Setting) -> dict[str, Any]:
    """What the index of all reports says of this one; the page carries it in its head."""
    measured = {row["cell"] for row in originals(results.measurements)}
    grid = originals(results.grid)
    return {
        "study": results.study.name,
        "title": results.study.title,
        "date": setting.last.strftime("%Y-%m-%dT%H:%MZ") if setting.last else "",
        "host": words.enumeration(setting.host_names),
        "cells": len(grid),
        "measured": len(measured),
        "skipped": sum(1 for cell in grid if cell["skip"]),
        "failures": len(results.failures),
    }


def summary(results: Results, setting: Setting) -> str:
    """What was measured where and when, in a line."""
    names = {row["cell"] for row in results.measurements}
    measured = {original_of(name) for name in names}
    if not measured:
        return "Nothing has been measured."
    rounds = len({row["round"] for row in results.measurements})
    commands = words.enumeration([c for c in commands_of(results) if c])
    repos = words.enumeration(
        list(dict.fromkeys(row["repo"] for row in results.grid if row.get("repo")))
    )
    again = sum(map(is_twin, names))
    twice = f", {words.grouped(again)} of them twice," if again else ""
    parts = [
        f"{words.count_of(len(measured), 'cell')}{twice} in {words.count_of(rounds, 'round')}",
        f"of {commands}" if commands else "",
        f"on {repos}" if repos else "",
        f"at {words.enumeration(setting.host_names)}" if setting.host_names else "",
    ]
    when = ""
    if setting.first and setting.last:
        when = f", {words.period(setting.first, setting.last)}"
    return " ".join(filter(None, parts)) + when + "."


def measured_where(setting: Setting) -> str:
    """The label over measured grids."""
    names = words.enumeration(setting.host_names)
    year = f"{setting.last.year}" if setting.last else ""
    return ", ".join(filter(None, [names, year]))


def published_where(results: Results) -> str:
    """The label over published grids: the year, which a study's name ends in, and the machine."""
    if not results.study.published:
        return ""
    year = re.search(r"(?:19|20)\d\d", f"{results.study.name} {results.study.source}")
    return ", ".join(filter(None, [year and year.group(), results.study.published["machine"]]))


def chart_groups(results: Results) -> list[ChartGroup]:
    """The charts by kind; a kind without a chart is left out."""
    study, order = results.study, value_order(results)
    measurements = [row for row in results.measurements if row["elapsed_s"]]
    groups = [elapsed_charts(originals(measurements), elapsed_layout(results, order))]
    for name, definition in study.tables.items():
        if compare := definition.get("compare"):
            rows = results.tables.get(name, [])
            groups.append(ratio_charts(name, compare, rows, layout_of(definition, order)))
    groups.append(drift_charts(measurements, order))
    return [group for group in groups if group.charts]


def elapsed_layout(results: Results, order: Mapping[str, list[str]]) -> Layout:
    """The layout of the study's table of elapsed times; without one, a panel per cache state."""
    for definition in results.study.tables.values():
        if definition.get("metric") == "elapsed_s":
            return layout_of(definition, order)
    columns = [axis for axis in order if axis == "cache"]
    rows = [axis for axis in order if axis not in ("command", *columns)]
    return layout_of({"rows": rows, "columns": columns}, order)


def raw_download(results: Results) -> Download | None:
    """Every timed run, packed (it is most of the data), to keep with the page."""
    path = f"measurements/{results.study.name}.csv"
    if path not in results.texts:
        return None
    packed = base64.b64encode(gzip.compress(results.texts[path].encode(), 9, mtime=0)).decode()
    uri = f"data:application/gzip;base64,{packed}"
    return Download("CSV", f"../results/{path}", uri, f"{results.study.name}-measurements.csv.gz")
