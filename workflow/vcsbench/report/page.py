"""The page of a study, one data object in one template, and the index of the pages in a folder.

A page is a single HTML file. The same results give the same page at any time and place.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import PICTOGRAMS, axis_label, case_label, seconds, value_label
from vcsbench.advice.decision import Row
from vcsbench.axes.table import axis_of
from vcsbench.config.study import Study
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import FLAGS, Flag, is_invalid
from vcsbench.metrics import metric_in
from vcsbench.plan.grid import originals
from vcsbench.report import answers, charts
from vcsbench.report.details import details
from vcsbench.report.grids import Download, PlainTable, TableSection, download, table_sections
from vcsbench.report.results import (
    Results,
    Rows,
    grouped_by,
    name_of,
    unique,
    values_in,
    varying,
)
from vcsbench.report.setup_section import Citation, Setup, citation_of, distances_of, setup_of
from vcsbench.report.terminal import budget_sentences
from vcsbench.statistics.contract import DIFFERS, INCONCLUSIVE, NOT_MEASURED, REPRODUCED

ASSETS = Path(__file__).parents[2] / "report"
# The page's script, in this order: each part uses the parts before it.
SCRIPTS = ("state", "tables", "detail", "page")
# Flags of more runs than this share are a sentence on the run as a whole.
NEARLY_ALL = 0.8
# The index shows these of each finding, and reads these from the head of a page.
FINDING_KEYS = (
    *("id", "statement", "verdict", "expected", "published", "measured", "interval", "of"),
)
CALLS = (
    "Intervals are 95 %. Calls are corrected for all comparisons of a table together (Holm): at most 5 of "
    "100 tables without any difference have a call. docs/statistics.md explains the method."
)
HEAD_CHARACTERS = 65536
PREFIX = "vcsbench:"
TEXTS = ("study", "title", "date", "host")
NUMBERS = ("cells", "measured", "skipped", "failures")
VERDICTS = (REPRODUCED, DIFFERS, INCONCLUSIVE, NOT_MEASURED)


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
    few, remarks = _flag_table(results.measurements)
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
        remarks=[_validity(results.measurements), CALLS, noise_sentence(results.noise), *remarks],
        quality=[table for table in [few, *_quality(results)] if table.rows],
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


def _quality(results: Results) -> list[PlainTable]:
    """Return tables on the quality of the data: what failed, what is invalid, noise, fixed cost."""
    axes = same_work.work_axes(results.study.axes)
    budget = [
        (name, *(str(n[k]) for k in ("comparisons", "different", "alike")))
        for name, n in results.account.get("tables", {}).items()
    ]
    heads = ["Cells", "Duplicates", "Rounds", "Differ by (%)", "Chance alone (%)"]
    heads += ["Rounds scatter (%)", "Runs scatter (%)"]
    reason = ["Reason", "Cells"]
    return [
        PlainTable("Failed rounds", reason, _reasons(results.failures, "reason")),
        PlainTable("Not measurable here", reason, _reasons(results.grid, "skip")),
        PlainTable("Measured again", reason, set_aside(results.measurements)),
        PlainTable("Noise", heads, noise_rows(results), 1, is_folded=True),
        PlainTable(
            "Fixed cost",
            ["Case", "Time"],
            _fixed_cost(results),
            1,
            "The time of the same command on an empty repository: start, connection and handshake. "
            "Each delayed acknowledgement of TCP in a run adds 40 ms to the fixed cost of its cell.",
            is_folded=True,
        ),
        PlainTable(
            "Work of the commands",
            [*map(str.capitalize, axes), "Output", "Runs", "Runs with other output"],
            work_done(results.measurements, axes),
            len(axes) + 1,
            "Only cells with equal output are compared.",
            is_folded=True,
        ),
        PlainTable(
            "Comparisons by table",
            ["Table", "All", "Different", "Equal"],
            budget,
            1,
            is_folded=True,
        ),
        PlainTable(
            "Time by step",
            ["Step", "Rounds", "Time"],
            _time_rows(results.account),
            1,
            is_folded=True,
        ),
    ]


def _reasons(rows: Rows, column: str) -> list[tuple[str, list[str]]]:
    """Return the texts in a column with their cells, the most frequent first."""
    groups = grouped_by((row for row in rows if row[column]), lambda row: row[column])
    cells = {text: unique(row["cell"] for row in of) for text, of in groups.items()}
    return sorted(cells.items(), key=lambda item: -len(item[1]))


def set_aside(measurements: Rows) -> list[tuple[str, list[str]]]:
    """Return why cell-rounds were measured again within their round, the most frequent first."""
    again = unique(
        (flag, row["cell"], row["round"])
        for row in measurements
        for flag in (row.get("set_aside") or "").replace(",", "").split()
    )
    groups = grouped_by(again, lambda attempt: attempt[0])
    rows = [
        (f"{flag}: {FLAGS[flag].message}", unique(cell for _, cell, _ in of))
        for flag, of in groups.items()
    ]
    return sorted(rows, key=lambda row: -len(row[1]))


def _flag_table(measurements: Rows) -> tuple[PlainTable, list[str]]:
    """Return the table of flags of some runs, and a sentence for each flag of nearly all runs."""
    carried = ((word, row["cell"]) for row in measurements for word in row["flags"].split())
    groups = grouped_by(carried, lambda pair: pair[0])
    rows, sentences = [], []
    for word, runs in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        flag = FLAGS.get(word, Flag("This flag has no explanation.", ""))
        meaning, number = flag.sentence.strip().replace("`", ""), words.grouped(len(runs))
        if len(runs) > NEARLY_ALL * len(measurements) and not flag.is_invalid:
            sentences.append(f"{meaning} ({word}, {number} of {len(measurements)} runs)")
            continue
        invalid = " Invalid runs: not in the tables." if flag.is_invalid else ""
        rows.append((word, meaning + invalid, unique(cell for _, cell in runs), number))
    return PlainTable("Flags", ["Flag", "Meaning", "Cells", "Runs"], rows, 3), sentences


def work_done(measurements: Rows, axes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each combination of the work axes the output of most runs, and how many agree."""
    valid = [row for row in measurements if not is_invalid(row["flags"])]
    rows = []
    for values, of in grouped_by(valid, lambda row: values_in(row, axes)).items():
        works = {number: row.get("work", "") for number, row in enumerate(of)}
        same = same_work.majority(works)
        output = same_work.figures_of(works[min(same)]) if same else "unknown"
        rows.append((*values, output, str(len(same)), str(len(works) - len(same))))
    return rows


def noise_rows(results: Results) -> list[tuple[str, ...]]:
    """Return the noise of each class of cells as text, ratios in per cent."""
    return [
        (
            name_of(row, results.study.variance_group) or "all cells",
            *(f"{row[name] or 0:.0f}" for name in ("twins", "rounds")),
            *(_percent(row[name]) for name in ("differed", "chance", "spread", "within")),
        )
        for row in results.noise
    ]


def _validity(measurements: Rows) -> str:
    """Return a sentence on the number of valid and invalid runs."""
    invalid = sum(is_invalid(row["flags"]) for row in measurements)
    whole = words.count_of(len(measurements), "timed run")
    return (
        f"{whole}: {invalid} invalid and not in the tables." if invalid else f"{whole}, all valid."
    )


def noise_sentence(noise: Rows) -> str:
    """Return the difference between duplicates in a sentence."""
    known = [row for row in noise if words.is_number(row["twin_sd"])]
    if not known:
        return (
            "No cell has a duplicate with at least two rounds, so the systematic noise is unknown "
            "and nothing is called a difference. Set duplicates to 1 or more."
        )
    twins = words.count_of(int(sum(row["twins"] or 0 for row in known)), "cell")
    if known[0]["twin_sd"] == 1:
        return f"{twins} have a duplicate. It differs by no more than the rounds scatter."
    return (
        f"{twins} have a duplicate. It differs by {_percent(known[0]['twin_sd'])} % (standard "
        "deviation) beyond the scatter of the rounds. The error of every comparison includes that."
    )


def _percent(ratio: float | None) -> str:
    return words.significant(100 * (ratio - 1), 2) if words.is_number(ratio) else ""


def _fixed_cost(results: Results) -> list[tuple[str, str]]:
    """Return the median time of each command on the empty repository, by its case."""
    shown, rows = varying(results.fixed_cost, list(results.order)), []
    for runs in grouped_by(results.fixed_cost, lambda row: row["cell"]).values():
        times = [run["elapsed_s"] for run in runs if words.is_number(run["elapsed_s"])]
        rows += [(case_label(runs[0], shown), seconds(median(times)))] if times else []
    return rows


def _time_rows(account: Row) -> list[tuple[str, ...]]:
    if not account:
        return []
    spent, blocks = account["spent_s"], account["blocks"]
    rows = [("preparation", "", spent["preparation"])]
    rows += [(f"measuring {b['block']}", str(b["rounds"]), b["seconds"]) for b in blocks]
    rows += [("waiting between cell-rounds", "", spent["waiting"])]
    whole = spent["measuring"] + spent["waiting"]
    share = f"{100 * account['timed_s'] / whole:.0f} % of measuring and waiting" if whole else ""
    rows.append((f"timed runs: {share}", "", account["timed_s"]))
    return [(what, rounds, words.duration(time)) for what, rounds, time in rows]


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


class StudyFindings(NamedTuple):
    """A study with its name, title, and findings as their file has them."""

    name: str
    title: str
    findings: Sequence[Row]


@dataclass(frozen=True)
class StudyVerdicts:
    """The verdicts on a study's findings by its report; `file` is "" without a report."""

    study: StudyFindings
    file: str
    findings: Sequence[Row]

    @property
    def counts(self) -> str:
        """Return how many findings have each verdict."""
        return verdict_counts(self.findings)


def verdict_counts(findings: Iterable[Row]) -> str:
    """Return `3 reproduced, 2 differ`, in order, without verdicts that do not occur."""
    counts = Counter(finding["verdict"] for finding in findings)
    plural = {DIFFERS: "differ"}
    texts = [(counts[v], v if counts[v] == 1 else plural.get(v, v)) for v in [*VERDICTS, *counts]]
    return ", ".join(unique(f"{number} {verdict}" for number, verdict in texts if number))


@dataclass(frozen=True)
class Entry:
    """A report: the name of its file and the facts in its head."""

    file: str
    facts: Mapping[str, str]

    @property
    def when(self) -> str:
        """Return the day of the last measurement; "" if nothing was measured."""
        time = words.moment(self.facts["date"])
        return words.day(time) if time else ""

    @property
    def verdicts(self) -> str:
        """Return how many findings have each verdict."""
        return verdict_counts(json.loads(self.facts["findings"]))


class _HeadParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts = {**dict.fromkeys(TEXTS, ""), "findings": "[]"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "meta" and name.startswith(PREFIX):
            self.facts[name.removeprefix(PREFIX)] = given.get("content") or ""


def read_entries(folder: Path) -> list[Entry]:
    """Return the reports among the folder's HTML files, newest first."""
    entries = []
    for path in sorted(folder.glob("*.html")):
        parser = _HeadParser()
        with path.open(encoding="utf-8", errors="replace") as file:
            parser.feed(file.read(HEAD_CHARACTERS))
        is_report = all(parser.facts.get(name, "").isdigit() for name in NUMBERS)
        if is_report and path.name != "index.html":
            entries.append(Entry(path.name, parser.facts))
    return sorted(entries, key=lambda entry: entry.facts["date"], reverse=True)


def build_index(
    entries: Iterable[Entry], studies: Iterable[StudyFindings] = (), assets: Path = ASSETS
) -> str:
    """Return the index as text: the reports, and the verdicts on the findings of all studies."""
    entries = list(entries)
    by_study = {entry.facts["study"]: entry for entry in entries}
    verdicts = []
    for study in studies:
        entry = by_study.get(study.name)
        known = {row["id"]: row for row in json.loads(entry.facts["findings"])} if entry else {}
        unknown = {**dict.fromkeys(FINDING_KEYS, ""), "verdict": NOT_MEASURED}
        rows = [
            {**unknown, "statement": f["statement"], **known.get(f["id"], {})}
            for f in study.findings
        ]
        verdicts.append(StudyVerdicts(study, entry.file if entry else "", rows))
    findings = [finding for study_ in verdicts for finding in study_.findings]
    model = {
        "entries": entries,
        "studies": verdicts,
        "measured": sum(bool(study.file) for study in verdicts),
        "all": len(findings),
        "counts": verdict_counts(findings),
    }
    return render("index.html.jinja", model, assets)
