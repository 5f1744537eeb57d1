"""The page of a study: one HTML file with all that it needs inside."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.compare.bounds import matches
from vcsbench.evidence import samework
from vcsbench.evidence.flags import has_false_label
from vcsbench.metrics import DEFAULT, metric_in
from vcsbench.plan.twins import is_twin, original_of, originals
from vcsbench.report import builds, cards, quality
from vcsbench.report import setting as settings
from vcsbench.report.bought import bought
from vcsbench.report.charts.bars import exact_charts, spent_charts
from vcsbench.report.charts.counts import count_charts
from vcsbench.report.charts.drift import drift_charts
from vcsbench.report.charts.history import history_charts, history_rows
from vcsbench.report.charts.levels import level_charts
from vcsbench.report.charts.over import over_charts
from vcsbench.report.charts.panels import ChartGroup
from vcsbench.report.charts.published import published_charts
from vcsbench.report.charts.ratios import ratio_charts
from vcsbench.report.citation import citation
from vcsbench.report.details import details, packed
from vcsbench.report.distances import distances
from vcsbench.report.firstmet import FirstMet
from vcsbench.report.grids import layout_of
from vcsbench.report.noise import noise_rows, noise_sentence
from vcsbench.report.odd import odd_numbers
from vcsbench.report.readings import LEGEND, LEGEND_OF_CALLS
from vcsbench.report.records import Record, distinct, values_of, varying
from vcsbench.report.rendering import ASSETS, bundle_beside, render
from vcsbench.report.results import Results
from vcsbench.report.sections import Download, download, table_sections
from vcsbench.report.setting import Setting, nodes_of, summarise
from vcsbench.report.verdicts import verdicts

# What the index says of each finding.
OF_FINDINGS = ("id", "statement", "verdict", "expected", "published", "measured", "interval", "of")


def build_page(results: Results, assets: Path = ASSETS) -> str:
    """The whole page as text; `assets` has the template, the style and the page's own script.

    The same results give the same page: nothing in it depends on when or where it is made.
    """
    with bundle_beside() as bundle:
        return render("report.html.jinja", _model(results, bundle), assets)


def _model(results: Results, bundle: Callable[[], str]) -> dict[str, Any]:
    study, setting = results.study, summarise(results.contexts, results.study)
    charts, tables = chart_groups(results), table_sections(results)
    scale = (study.published or {}).get("scale")
    findings = verdicts(results.findings, results.definitions, study.tables, tables)
    model: dict[str, Any] = {
        "study": study,
        "found": results.found,
        "summary": summary(results, setting),
        "facts": facts(results, setting, findings),
        "findings": findings,
        "expectations": verdicts(results.expectations, results.checks, study.tables, tables),
        "bought": bought(results.account),
        "scaled": setting.subjects.smaller(scale),
        "tables": tables,
        "tables_absent": [n for n in results.tables_in_order if n not in {t.name for t in tables}],
        "published_where": published_where(results),
        "measured_where": measured_where(setting),
        "marks": LEGEND,
        "marks_of_calls": LEGEND_OF_CALLS,
        "charts": charts,
        "details": packed(details(results, tables)) if results.measurements else "",
        "raw": raw_download(results),
        "cite": citation(results, setting),
        "history": history_rows(results.history),
        "history_unread": results.history.get("unread", []),
        "bundle": bundle() if charts else "",
    }
    model |= advice_about(results) | _about_answers(results)
    model |= _about_setting(results, setting) | _about_quality(results, setting)
    model["quality"] = cards.quality_line(results, model["facts"], model["flagged"])
    return model


def _about_answers(results: Results) -> dict[str, Any]:
    """The cards, and the words that they are said in."""
    return {
        "cards": cards.cards_of(results),
        "glossary": cards.words_of(results),
        "explain": cards.explain(cards.meanings_of(results)),
        "plain": cards.explain({}),
        "met": FirstMet(results.glossary),
        "own": results.own,
    }


def _about_setting(results: Results, setting: Setting) -> dict[str, Any]:
    values = [value for known in results.order.values() for value in known]
    return {
        "setting": setting,
        "nodes": [*nodes_of(results.contexts, results.study), *results.moved],
        "builds": builds.ran(results.contexts, values),
        "same_builds": builds.same(results.contexts, values),
        "commands": settings.commands_as_timed(setting, results.study.commands),
        "distances": distances(results.contexts, results.study),
        "versions": settings.version_list(setting),
        "clearing": settings.clearing_sentences(setting),
        "settings": settings.settings_sentences(setting.fsfs_settings),
    }


def _about_quality(results: Results, setting: Setting) -> dict[str, Any]:
    study, measurements = results.study, results.measurements
    axes = samework.work_axes(study.axes)
    return {
        "noise": noise_rows(results.noise, study.variance_group),
        "noise_said": noise_sentence(results.noise),
        "failures": results.failures,
        "failure_reasons": quality.reasons(results.failures, "reason"),
        "skips": quality.reasons(results.grid, "skip"),
        "work_axes": axes,
        "work_done": quality.work_done(measurements, axes),
        "flagged": quality.flagged(measurements),
        "set_aside": quality.set_aside(measurements),
        "odd": odd_numbers(results),
        "caveats": quality.caveats(study.commands, commands_of(results)),
        "limits": quality.limits(study.axes, setting.guests),
    }


def commands_of(results: Results) -> list[str]:
    """The commands that the grid has, in its order."""
    return distinct(filter(None, map(results.study.command_name, results.grid)))


def advice_about(results: Results) -> dict[str, Any]:
    """What tells the recommendations apart: the axes of which there is no choice and that have several
    values, each recommendation's values of them, and the tables that compare such an axis."""
    items: Sequence[Record] = results.advice.get("recommendations", [])
    given = results.advice.get("given", results.study.scenario_axes)
    told = varying(items, given) or given
    elsewhere = [
        name
        for name, table in results.study.tables.items()
        if (table.get("compare") or {}).get("axis") in told and results.tables.get(name)
    ]
    return {
        "advice": results.advice,
        "advice_for": [", ".join(filter(None, values_of(i, told))) or "all cells" for i in items],
        "advice_told": told,
        "advice_elsewhere": elsewhere,
    }


def facts(results: Results, setting: Setting, findings: Sequence[Record] = ()) -> dict[str, Any]:
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
        "findings": json.dumps([{name: one[name] for name in OF_FINDINGS} for one in findings]),
    }


def summary(results: Results, setting: Setting) -> str:
    """What was measured where and when, in a line."""
    names = {row["cell"] for row in results.measurements}
    if not names:
        return "Nothing has been measured."
    measured = {original_of(name) for name in names}
    rounds: dict[str, set[Any]] = {}
    for row in results.measurements:
        rounds.setdefault(row["cell"], set()).add(row["round"])
    numbers = [len(of_cell) for of_cell in rounds.values()]
    again = sum(map(is_twin, names))
    twice = f", {words.grouped(again)} of them twice," if again else ""
    often = words.count_between(min(numbers), max(numbers), "round")
    said = f"{words.count_of(len(measured), 'cell')}{twice} in {often}"
    for before, found in (
        (" of", commands_of(results)),
        (" on", [_with_share(name, setting) for name in setting.subjects.names]),
        (", on the machine" + "s" * (len(setting.host_names) > 1), setting.host_names),
    ):
        said += f"{before} {words.enumeration(found)}" if found else ""
    if setting.first and setting.last:
        said += f", {words.period(setting.first, setting.last)}"
    return f"{said}."


def _with_share(name: str, setting: Setting) -> str:
    """A subject, and which part of the published one it is: what is said of it holds at that size."""
    share = setting.subjects.scales.get(name, 1.0)
    return f"{name} ({100 * share:.2g} % of its published size)" if share < 1 else name


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
    """The charts of each table, those of the tables that lead first, then the drift; what has no chart is
    left out."""
    study, groups = results.study, []
    counted, lines = originals(results.measurements), set()
    for name in results.tables_in_order:
        definition = study.tables[name]
        layout, metric = layout_of(definition, results.order), metric_in(definition)
        rows = results.tables.get(name, [])
        if "each" in definition:
            said = results.published.get(name, [])
            groups.append(count_charts(name, metric.title, rows, said, layout))
        if metric.exact:  # every run of a cell would be the same point
            if "each" not in definition and not definition.get("compare"):
                groups.append(exact_charts(name, metric, rows, layout))
            continue
        about = [row for row in counted if matches(row, definition.get("where", {}))]
        lines |= set(layout.rows)
        if definition.get("compare"):
            groups.append(ratio_charts(name, definition, rows, layout))
        elif over := definition.get("over"):
            groups.append(over_charts(name, over, metric, about, rows, layout, results.ceiling))
        else:
            groups.append(level_charts(name, metric, about, rows, layout))
            if metric.name == DEFAULT:
                kept = [row for row in about if not has_false_label(row["flags"])]
                groups.append(spent_charts(name, kept, layout, definition.get("by", ())))
    groups.append(published_charts(study.tables, results.tables, results.published))
    lined = [axis for axis in study.block if axis in lines]
    groups.append(history_charts(results.history, results.order, study.block))
    groups.append(drift_charts(results.measurements, results.order, study.block, lined))
    return [group for group in groups if group.charts]


def raw_download(results: Results) -> Download | None:
    """Every timed run, packed (it is most of the data), to keep with the page."""
    path = f"measurements/{results.study.name}.csv"
    if path not in results.texts:
        return None
    packed = gzip.compress(results.texts[path].encode(), 9, mtime=0)
    return download(
        "CSV", path, "application/gzip", packed, f"{results.study.name}-measurements.csv.gz"
    )
