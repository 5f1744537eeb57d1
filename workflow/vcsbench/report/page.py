"""The page of a study: one data object for one template, and one HTML file with all that it needs inside."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from vcsbench import words
from vcsbench.advice.labels import PICTOGRAMS, axis_label, case_label, factor, seconds, value_label
from vcsbench.evidence import same_work
from vcsbench.metrics import metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import answers, builds, quality, svg
from vcsbench.report import setting as settings
from vcsbench.report.answers import CardView, Overview, Pick
from vcsbench.report.budget import Budget, budget_of
from vcsbench.report.citation import Citation, citation
from vcsbench.report.details import details, packed
from vcsbench.report.distances import distances
from vcsbench.report.findings import FindingView, findings_of
from vcsbench.report.noise import NoiseRow, noise_rows, noise_sentence
from vcsbench.report.odd import OddKind, odd_numbers
from vcsbench.report.records import Record, distinct, grouped_by, name_of, varying
from vcsbench.report.rendering import ASSETS, render
from vcsbench.report.results import Results
from vcsbench.report.sections import Download, TableSection, download, table_sections
from vcsbench.report.setting import Setting, nodes_of, summarise

# The index shows these of each finding.
OF_FINDINGS = ("id", "statement", "verdict", "expected", "published", "measured", "interval", "of")


@dataclass(frozen=True)
class SituationRow:
    """A line of the table of situations, as text; `where` is for the filter."""

    where: Mapping[str, str]
    label: str
    best: str
    seconds: str
    gain: str
    equal: str
    note: str


@dataclass(frozen=True)
class Plot:
    """A drawing of lines, with the names of its lines."""

    title: str
    drawing: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Quality:
    """The quality of the data: noise, flags, failures, skipped cells, other work, limits."""

    sentences: Sequence[str]
    noise: Sequence[NoiseRow]
    noise_sentence: str
    failures: Sequence[Record]
    failure_reasons: Mapping[str, Sequence[str]]
    skips: Mapping[str, Sequence[str]]
    flagged: Sequence[quality.Flagged]
    set_aside: Sequence[quality.SetAside]
    work_axes: Sequence[str]
    work_done: Sequence[quality.Done]
    odd: Sequence[OddKind]
    fixed_cost: Sequence[tuple[str, str]]
    limits: Sequence[str]


@dataclass(frozen=True)
class Setup:
    """What was measured where."""

    setting: Setting
    nodes: Sequence[str]
    builds: Sequence[builds.Ran]
    same_builds: Sequence[str]
    commands: Sequence[tuple[str, str]]
    distances: Mapping[str, Sequence[str]]
    versions: Sequence[tuple[str, str]]
    clearing: Sequence[str]
    fsfs_settings: Sequence[str]


@dataclass(frozen=True)
class Page:
    """All that the template of a page reads."""

    study: Any
    own: str
    found: Sequence[str]
    header: Sequence[str]
    incomplete: str
    facts: Mapping[str, Any]
    cite: Citation
    picks: Sequence[Pick]
    cards: Sequence[CardView]
    answers: str
    overview: Overview | None
    findings: Sequence[FindingView]
    expectations: Sequence[FindingView]
    scaled: Sequence[tuple[str, float]]
    situations: Sequence[SituationRow]
    less_work: Sequence[str]
    min_effect: str
    tables: Sequence[TableSection]
    tables_absent: Sequence[str]
    measured_where: str
    published_where: str
    plots: Sequence[Plot]
    history: Sequence[Mapping[str, str]]
    budget: Budget | None
    setup: Setup
    quality: Quality
    raw: Download | None
    details: str
    glossary: Sequence[tuple[str, str]] = field(default_factory=list)


def build_page(results: Results, assets: Path = ASSETS) -> str:
    """Return the page as text; `assets` has the template, the style and the script.

    The same results give the same page at any time and in any place.
    """
    model = {"page": page_of(results), "label": value_label, "pictograms": PICTOGRAMS}
    return render("report.html.jinja", model, assets)


def page_of(results: Results) -> Page:
    """Return the data of a page."""
    study, setting = results.study, summarise(results.contexts, results.study)
    tables = table_sections(results)
    findings = findings_of(results.findings, results.definitions, study.tables, tables)
    expectations = findings_of(results.expectations, results.checks, study.tables, tables)
    cards = answers.cards_of(results)
    picks = answers.picks_of(results, cards)
    by_picks = answers.answers_by_picks(cards, picks)
    facts = facts_of(results, setting, findings)
    scale = study.published.scale if study.published else None
    return Page(
        study=study,
        own=results.own,
        found=results.found,
        header=header_of(results, setting),
        incomplete=_incomplete(results, facts),
        facts=facts,
        cite=citation(results, setting),
        picks=picks,
        cards=cards,
        answers=packed(
            {
                "picks": [pick.axis for pick in picks],
                "cards": by_picks,
                "labels": {
                    axis: {"": axis_label(axis), **{v: value_label(axis, v) for v in values}}
                    for axis, values in results.order.items()
                },
            }
        ),
        overview=answers.overview_of(cards, results.order),
        findings=findings,
        expectations=expectations,
        scaled=setting.subjects.smaller(scale),
        situations=situations_of(results),
        less_work=results.advice.get("less_work", []),
        min_effect=f"{results.advice.get('min_effect_pct', 10):g} %",
        tables=tables,
        tables_absent=[n for n in results.tables_in_order if n not in {t.name for t in tables}],
        measured_where=_measured_where(setting),
        published_where=_published_where(results),
        plots=plots_of(results),
        history=history_rows(results.history),
        budget=budget_of(results.account),
        setup=_setup(results, setting),
        quality=_quality(results, setting),
        raw=raw_download(results),
        details=packed(details(results, tables)) if results.measurements else "",
        glossary=words_of(results),
    )


def header_of(results: Results, setting: Setting) -> list[str]:
    """Return two lines: the repository and its storage; the machine, the time and the number of runs."""
    if not results.measurements:
        return ["Nothing has been measured."]
    subjects = [s for s in setting.subjects.headlines if s]
    storage = distinct(_kind_of_storage(c) for c in results.contexts if c.get("storage"))
    first = ", ".join([*subjects, *(f"on {words.enumeration(storage)}" for _ in storage[:1])])
    versions = dict(settings.version_list(setting))
    program = f"Subversion {versions['svn']}" if "svn" in versions else ""
    machines = [f"on {words.enumeration(setting.machines)}"] if setting.machines else []
    measured = {row["cell"] for row in originals(results.measurements)}
    parts = [" ".join(filter(None, [program, *machines]))]
    if setting.first and setting.last:
        minutes = words.duration((setting.last - setting.first).total_seconds())
        parts.append(f"{words.day(setting.last)}, {minutes}")
    runs = words.count_of(len(results.measurements), "timed run")
    parts.append(f"{words.count_of(len(measured), 'combination')}, {runs}")
    return [line for line in (first, "; ".join(filter(None, parts))) if line]


def _kind_of_storage(context: Record) -> str:
    storage = context["storage"]
    kinds = {True: "spinning disk", False: "SSD or virtual disk"}
    kind = kinds.get(storage.get("rotational"), "")
    return " ".join(filter(None, [storage.get("filesystem"), f"({kind})" if kind else ""]))


def _incomplete(results: Results, facts: Mapping[str, Any]) -> str:
    parts = []
    if results.failures:
        parts.append(f"{words.count_of(len(results.failures), 'cell-round')} failed")
    if facts["skipped"]:
        parts.append(f"{words.count_of(facts['skipped'], 'combination')} cannot be measured here")
    return words.enumeration(parts)


def facts_of(
    results: Results, setting: Setting, findings: Sequence[FindingView] = ()
) -> dict[str, Any]:
    """Return the facts in the head of the page, which the index reads."""
    measured = {row["cell"] for row in originals(results.measurements)}
    grid = originals(results.grid)
    told = [{name: getattr(one, name) for name in OF_FINDINGS} for one in findings]
    return {
        "study": results.study.name,
        "title": results.study.title,
        "date": setting.last.strftime("%Y-%m-%dT%H:%MZ") if setting.last else "",
        "host": words.enumeration(setting.host_names),
        "cells": len(grid),
        "measured": len(measured),
        "skipped": sum(1 for cell in grid if cell["skip"]),
        "failures": len(results.failures),
        "findings": json.dumps(told),
    }


def situations_of(results: Results) -> list[SituationRow]:
    """Return the best choice in each situation, as text."""
    found = results.advice.get("situations", [])
    told = varying([one["where"] for one in found], results.order)
    rows = []
    for one in found:
        best, gain = one["best"], one["gain"]
        note = f"{one['why_not']}." if one["why_not"] else ""
        for other in one["other_work"]:
            note += f" Not compared: {_choice(other['axes'])} ({other['reason']})."
        rows.append(
            SituationRow(
                where={axis: value for axis, value in one["where"].items() if value},
                label=case_label(one["where"], told),
                best=_choice(best),
                seconds=seconds(one["seconds"]) if one["seconds"] else "",
                gain=factor(gain) if gain else "",
                equal="; ".join(map(_choice, one["equal"])),
                note=note.strip(),
            )
        )
    return rows


def _choice(axes: Mapping[str, str]) -> str:
    return ", ".join(value_label(axis, value) for axis, value in axes.items())


def _setup(results: Results, setting: Setting) -> Setup:
    values = [value for known in results.order.values() for value in known]
    return Setup(
        setting=setting,
        nodes=[*nodes_of(results.contexts, results.study), *results.moved],
        builds=builds.ran(results.contexts, values),
        same_builds=builds.same(results.contexts, values),
        commands=settings.commands_as_timed(setting, results.study.commands),
        distances=distances(results.contexts, results.study),
        versions=settings.version_list(setting),
        clearing=settings.clearing_sentences(setting),
        fsfs_settings=settings.settings_sentences(setting.fsfs_settings),
    )


def _quality(results: Results, setting: Setting) -> Quality:
    study, measurements = results.study, results.measurements
    axes = same_work.work_axes(study.axes)
    commands = distinct(filter(None, map(study.command_name, results.grid)))
    few, many = quality.split_flags(quality.flagged(measurements), len(measurements))
    return Quality(
        sentences=many,
        noise=noise_rows(results.noise, study.variance_group),
        noise_sentence=noise_sentence(results.noise),
        failures=results.failures,
        failure_reasons=quality.reasons(results.failures, "reason"),
        skips=quality.reasons(results.grid, "skip"),
        flagged=few,
        set_aside=quality.set_aside(measurements),
        work_axes=axes,
        work_done=quality.work_done(measurements, axes),
        odd=odd_numbers(results),
        fixed_cost=fixed_cost_of(results),
        limits=[
            *quality.caveats(study.commands, commands),
            *quality.limits(study.axes, setting.guests),
        ],
    )


def fixed_cost_of(results: Results) -> list[tuple[str, str]]:
    """Return the median time of each command on the empty repository, by its case."""
    found = []
    told = varying(results.fixed_cost, list(results.order))
    for runs in grouped_by(results.fixed_cost, lambda row: row["cell"]).values():
        times = [run["elapsed_s"] for run in runs if words.is_number(run["elapsed_s"])]
        if times:
            found.append((case_label(runs[0], told), seconds(median(times))))
    return found


def words_of(results: Results) -> list[tuple[str, str]]:
    """Return the meaning of each value in the grid, in the order of the axes, then of other words."""
    found: dict[str, str] = {}
    for axis in results.order:
        for value in dict.fromkeys(row.get(axis, "") for row in results.grid):
            if meaning := results.glossary.of(axis, value):
                found[value_label(axis, value)] = meaning.replace("`", "")
    others = {w: m.replace("`", "") for w, m in results.glossary.others.items() if w not in found}
    return [*found.items(), *others.items()]


def _measured_where(setting: Setting) -> str:
    year = f"{setting.last.year}" if setting.last else ""
    return ", ".join(filter(None, [words.enumeration(setting.host_names), year]))


def _published_where(results: Results) -> str:
    study = results.study
    if not study.published:
        return ""
    year = re.search(r"(?:19|20)\d\d", f"{study.name} {study.source}")
    return ", ".join(filter(None, [year and year.group(), study.published.machine]))


def plots_of(results: Results) -> list[Plot]:
    """Return the lines over saved baselines, and over a number such as the clients of an export."""
    study, found = results.study, []
    times = [time["name"] for time in results.history.get("times", [])]
    points = results.history.get("points", [])
    if len(times) > 1:
        told = varying(points, [axis for axis in results.order if axis not in study.block])
        for block, rows in grouped_by(points, lambda row: name_of(row, study.block)).items():
            found.append(_plot(f"Elapsed seconds over time: {block}", rows, "time", times, told))
    for name, definition in study.tables.items():
        over = definition.get("over")
        rows = [r for r in results.tables.get(name, []) if words.is_number(r.get("value"))]
        if over and rows:
            along = [value for value in results.order[over] if value in {row[over] for row in rows}]
            told = varying(rows, [axis for axis in results.order if axis != over])
            unit = metric_in(definition).unit
            found.append(_plot(f"{name} ({unit}) by {over}", rows, over, along, told))
    return [plot for plot in found if plot.drawing]


def _plot(
    title: str, rows: Sequence[Record], over: str, along: Sequence[str], told: Sequence[str]
) -> Plot:
    by_line = grouped_by(rows, lambda row: name_of(row, told) or "all cells")
    series = []
    for members in by_line.values():
        values = {row[over]: row["value"] for row in members}
        series.append([values.get(place) for place in along])
    return Plot(title, svg.line_plot(series, along, title), list(by_line))


def history_rows(history: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the saved baselines and this run as rows of text; none for fewer than two."""
    times = history.get("times", [])
    return [_history_row(time) for time in times] if len(times) > 1 else []


def _history_row(time: Mapping[str, Any]) -> dict[str, str]:
    first, last = (words.moment(time[name]) for name in ("first", "last"))
    calls = ", ".join(f"{number} {call}" for call, number in time["calls"].items() if number)
    return {
        "name": time["name"],
        "when": words.period(first, last) if first and last else "",
        "host": words.enumeration(distinct(time["hosts"])),
        "vcsbench": time["vcsbench"],
        "before": time["before"],
        "calls": calls or ("not comparable" if time["before"] else ""),
        "changed": "; ".join(time["changed"]) or ("nothing known" if time["before"] else ""),
    }


def raw_download(results: Results) -> Download | None:
    """Return every timed run as a compressed file inside the page."""
    path = f"measurements/{results.study.name}.csv"
    if path not in results.texts:
        return None
    content = gzip.compress(results.texts[path].encode(), 9, mtime=0)
    name = f"{results.study.name}-measurements.csv.gz"
    return download("CSV", path, "application/gzip", content, name)
