"""The page of a study, one HTML file from one template, and the index of pages in a folder.

The same results give the same page at any time and place.
"""

import base64
import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import (
    SLIGHT,
    axis_label,
    case_label,
    factor,
    seconds,
    value_label,
)
from vcsbench.advice.steps import combinations_of
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.advice.wishes import find_wishes
from vcsbench.axes import axis_of
from vcsbench.axes.cache_states import cache_state, pictograms
from vcsbench.codes import Result, StopReason
from vcsbench.evidence.flags import is_invalid
from vcsbench.external import open_regular
from vcsbench.plan.grid import originals
from vcsbench.plan.result_state import OUTDATED
from vcsbench.report import answers, charts, summary
from vcsbench.report.card_rows import row_key
from vcsbench.report.change_costs import make_estimate, measured_work
from vcsbench.report.finding_tables import make_reversed_table
from vcsbench.report.findings_section import (
    MEANINGS,
    FindingFacts,
    FindingView,
    finding_views,
    reason_lines,
)
from vcsbench.report.page_charts import charts_of
from vcsbench.report.pick_answers import choose_operations, make_pick_answers
from vcsbench.report.picks import (
    MAX_COMBINATIONS,
    Pick,
    find_operations,
    find_picks,
    label_situations,
)
from vcsbench.report.quality_section import details, noise_verdict, quality_of, runs_text
from vcsbench.report.results import Results, cell_names, grouped_by, unique_values, values_label
from vcsbench.report.setup_section import (
    Setup,
    bibtex_of,
    citation_of,
    compared_setup,
    setup_of,
)
from vcsbench.report.table_sections import (
    PlainTable,
    TableSection,
    make_download,
    make_title,
    table_sections,
)
from vcsbench.statistics import comparisons, texts

ASSETS = Path(__file__).parents[2] / "report"
# In this order: each script uses those before it.
SCRIPTS = ("state", "tables", "charts", "detail", "page")
ENDED = {
    StopReason.ALL_DECIDED: "The measuring ended because all comparisons are answered or too small.",
    StopReason.TIME_IS_UP: "The measuring ended because the {minutes} of this study were over.",
    StopReason.UNREACHABLE: "The measuring ended because more rounds cannot answer the rest.",
}
OWN_REPOSITORY = "make report REPO=/path/to/repository"
HEAD_CHARACTERS = 65536
FACTS = re.compile(r'<meta name="vcsbench:facts" content="([^"]*)">')


@dataclass(frozen=True)
class PageFacts:
    """The facts in the head of a page, which the index reads: texts, numbers of cells, and findings."""

    study: str
    title: str
    date: str
    host: str
    cells: int
    measured: int
    skipped: int
    failures: int
    findings: list[FindingFacts]


PAGE_FACTS = TypeAdapter(PageFacts)


def build_page(results: Results) -> str:
    """Return the page of a study without its charts."""
    return page_text(page_of(results), {})


def build_page_with_charts(results: Results, folder: Path) -> str:
    """Return the page of a study, and write its charts into a folder."""
    page = page_of(results)
    drawn = list(page["charts"].values())
    svgs = charts.draw(drawn)
    charts.write_charts(drawn, svgs, folder)
    return page_text(page, svgs)


def page_text(page: Mapping[str, Any], svgs: Mapping[str, str]) -> str:
    """Return the page from its data and the SVG of each chart. Without a chart it needs no Vega."""
    scripts = [page_script()]
    images = {name: charts.image_url(svg) for name, svg in svgs.items()}
    if images:
        scripts.insert(0, charts.script_bundle())
    return render("report.html.jinja", {"page": {**page, "images": images}}, scripts)


def page_script() -> str:
    """Return the script of a study's page."""
    return "\n".join((ASSETS / "script" / f"{name}.js").read_text("utf-8") for name in SCRIPTS)


def render(template: str, model: Mapping[str, object], scripts: Sequence[str] = ()) -> str:
    """Fill a template. All text is escaped unless the template marks it as safe."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    # The policy of the page allows no attribute `style`.
    style += "".join(f".bar{share} {{ --bar: {share}%; }}\n" for share in range(1, 101))
    return environment.get_template(template).render(
        **model,
        label=value_label,
        values_label=values_label,
        case_label=case_label,
        factor=factor,
        seconds=seconds,
        row_key=row_key,
        verdict_counts=summary.verdict_counts,
        words=words,
        pictograms=pictograms(),
        slight=SLIGHT,
        policy=content_policy(scripts, [style]),
        style=style,
        scripts=scripts,
    )


def content_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a Content-Security-Policy that allows these inline scripts and styles, by their digests.

    A script that a text of the results or a browser's extension injects does not run, and no request is made.
    """
    policy = ["default-src 'none'"]
    for directive, contents in (("script-src", scripts), ("style-src", styles)):
        digests = (hashlib.sha256(content.encode()).digest() for content in contents)
        allowed = " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests) or "'none'"
        policy.append(f"{directive} {allowed}")
    # default-src does not cover the last two.
    return "; ".join([*policy, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def packed_json(content: Mapping[str, object]) -> str:
    """Return gzipped JSON in base64. The same content gives the same text."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def page_of(results: Results) -> dict[str, Any]:
    """Return the data of a page. `packed_details` is JSON for the script."""
    study, measured = results.study, originals(results.measurements)
    setup, tables = setup_of(results), table_sections(results)
    findings = finding_views(results, results.findings, results.definitions, tables)
    cards = answers.make_card_views(results)
    picks = find_picks(results, cards)
    page_charts = charts_of(results, cards, findings, [pick.axis for pick in picks])
    facts = _facts(results, setup, findings)
    given = summary.variables_of(results.provenance.get("command", ""), study.name)
    steps = [*summary.next_steps(results, given)]
    saved = {**given, "NAME": "before", "ARGS": summary.configfiles_of(given.get("ARGS", ""))}
    quality, remarks = quality_of(results)
    return {
        "study": study,
        "advice": results.advice,
        "own_repository": results.own_repository,
        "own_command": "" if results.own_repository else OWN_REPOSITORY,
        "commands": {
            "report": summary.command_of(given),
            "baseline": summary.command_of(saved, "baseline"),
            "check": summary.command_of(given, "check"),
        },
        "incomplete": _incomplete(results, facts, summary.command_of(given)),
        "facts": facts,
        "cells": defaultdict(str, cell_names(results)),
        "header": _header(results, setup, facts.measured),
        **_answers(results, cards, picks),
        **_findings(results, setup, findings, tables),
        **_tables(results, setup, tables),
        "noise": noise_verdict(results.account),
        "charts": {chart.name: chart for chart in page_charts},
        "lines": [c.name for c in page_charts if c.name.startswith(("level", "history"))],
        "specifications": {chart.name: chart.spec for chart in page_charts},
        "history": history_table(results.history),
        "budget": _time(results.account),
        "uncertain": _uncertain(results, sum(len(view.rows) for view in cards), steps),
        "next_steps": steps if measured else [],
        "setup": setup,
        "remarks": remarks,
        "quality": quality,
        "limits": _limits(results, setup),
        "raw": make_download(
            results, f"measurements/{study.name}.csv", f"{study.name}-measurements.csv.gz"
        ),
        "packed_details": packed_json(details(results, tables)) if measured else "",
        "words": _glossary(results),
        "citation": citation_of(results, setup),
        "bibtex": bibtex_of(results, setup),
        "meta": {"facts": PAGE_FACTS.dump_json(facts).decode()},
    }


def _answers(
    results: Results, cards: Sequence[answers.CardView], picks: Sequence[Pick]
) -> dict[str, Any]:
    limit = f"{results.advice.min_effect_pct:g} %"
    values = {pick.axis: [value for value, _ in pick.values] for pick in picks}
    combinations = combinations_of(originals(results.grid), values, MAX_COMBINATIONS)
    operations = choose_operations(find_operations(results, cards))
    value_labels = {
        axis: {"": axis_label(axis), **{value: value_label(axis, value) for value in known}}
        for axis, known in results.order.items()
    }
    estimate = make_estimate(results)
    is_everywhere = answers.is_disturbed_everywhere(results)
    wishes = []
    if results.own_repository:
        current = {pick.axis: pick.preset for pick in picks if pick.preset}
        wishes = find_wishes(results.advice, current, measured_work(results))
    return {
        "wishes": wishes,
        "threshold": f"A difference below {limit} is no reason to change.",
        "min_effect": limit,
        "picks": picks,
        "estimate": estimate if any(view.costs for view in cards) else None,
        "labels": value_labels,
        "cards": cards,
        "pick_answers": make_pick_answers(
            results.advice, combinations, list(values), operations, not is_everywhere
        ),
        "has_operations": bool(operations),
        "situations": label_situations(results),
        "disturbed": summary.count_disturbed(results.advice.cards),
        "disturbed_everywhere": is_everywhere,
    }


def _findings(
    results: Results,
    setup: Setup,
    findings: Sequence[FindingView],
    tables: Sequence[TableSection],
) -> dict[str, Any]:
    return {
        "condition": _condition(results, setup) if findings else "",
        "reversed": make_reversed_table(results, tables) if findings else None,
        "findings": findings,
        "verdicts": grouped_by(findings, lambda view: view.verdict),
        "meanings": MEANINGS,
        "reasons": reason_lines([(view.verdict, view.steps) for view in findings]),
        "expectations": finding_views(results, results.expectations, results.checks, tables),
        "compared": compared_setup(setup, results.study),
    }


def _tables(results: Results, setup: Setup, tables: Sequence[TableSection]) -> dict[str, Any]:
    study, shown = results.study, {table.name for table in tables}
    year = re.search(r"(?:19|20)\d\d", f"{study.name} {study.source}")
    origin = [year.group() if year else "", study.published.machine if study.published else ""]
    where = [words.enumeration(setup.host_names), *([str(setup.last.year)] if setup.last else [])]
    return {
        "tables": tables,
        "absent": [make_title(table) for name, table in study.tables.items() if name not in shown],
        "measured_where": ", ".join(where),
        "published_where": ", ".join(filter(None, origin)),
    }


def _header(results: Results, setup: Setup, measured: int) -> list[str]:
    if not measured:
        is_old = any(row["reason"] == OUTDATED for row in results.failures)
        return ["No result is up to date." if is_old else "Nothing has been measured."]
    conditions = setup.conditions
    where = []
    version = ", ".join(answers.list_build_versions(results)) or conditions.subversion
    if version:
        where.append(f"Subversion {version}")
    if conditions.machine:
        where.append(f"on {conditions.machine}")
    time = ""
    if setup.first and setup.last:
        time = words.duration((setup.last - setup.first).total_seconds())
        # From the preparation to the report, as the limit in minutes.
        if account := results.account:
            time = f"{words.duration(account['taken_s'])} with preparation and report"
        time = f"{words.day(setup.last)}, {time}"
    runs = runs_text(results.measurements, " (a command with all its settings)")
    what = conditions.repositories
    if conditions.storage:
        what = ", ".join(filter(None, [what, f"on {conditions.storage}"]))
    return [*filter(None, [what, "; ".join(filter(None, [" ".join(where), time, runs]))])]


def _condition(results: Results, setup: Setup) -> str:
    """Return a sentence on cold commands if the study was published with other storage or more revisions."""
    published, here = results.study.published, setup.conditions.storage
    repositories = [context["repository"] for context in results.contexts]
    is_cold = any(cache_state(row.get("cache")).is_cold for row in results.measurements)
    if results.own_repository or not (published and here and is_cold):
        return ""
    other = f"other storage (published: {published.storage})"
    is_smaller = any(of.get("scale", 1.0) < published.scale for of in repositories)
    changes = [other] * (published.storage not in here) + ["a larger repository"] * is_smaller
    largest = max((int(of.get("youngest") or 0) for of in repositories), default=0)
    of = f" with {words.count_of(largest, 'revision')}" if largest else ""
    text = f"{' or '.join(changes)} changes the gains of cold commands"
    return f"Measured on {here}{of}. {text[0].upper()}{text[1:]}:" if changes else ""


def _incomplete(results: Results, facts: PageFacts, command: str) -> str:
    phrases, reasons = [], [row["reason"] for row in results.failures]
    if old := reasons.count(OUTDATED):
        cells = f"{words.count_of(old, 'cell-round')} left out ({texts.OUTDATED})"
        phrases.append(f"{cells}, `{command}` measures them again")
    if failed := len(reasons) - old:
        phrases.append(f"{words.count_of(failed, 'cell-round')} failed")
    runs = grouped_by(originals(results.measurements), lambda run: run["cell"]).values()
    if invalid := sum(all(is_invalid(run["flags"]) for run in of) for of in runs):
        phrases.append(f"all runs of {words.count_of(invalid, 'cell')} are invalid")
    if facts.skipped:
        phrases.append(f"{words.count_of(facts.skipped, 'cell')} cannot be measured here")
    return words.enumeration(phrases)


def _uncertain(results: Results, in_cards: int, steps: Sequence[summary.NextStep]) -> list[str]:
    """Return sentences on the comparisons without an answer."""
    account, counts = results.account, summary.count_results(results.account)
    if not counts[Result.TOO_SMALL] + counts[Result.UNDECIDED]:
        return []
    scatter = account.get("scatter_pct") or 0.0
    is_noisy = counts[Result.UNDECIDED] and scatter > comparisons.NOISY_PCT
    why = f" (runs of a cell scatter by {scatter:.2g} %)" if is_noisy else ""
    sentences = [f"Over all cases, answered: {summary.results_text(account)}{why}."]
    if (rest := counts.total() - in_cards) > 0:
        sentences.append(f"{rest} of all are in tables only, not in cards.")
    if counts[Result.TOO_SMALL]:
        sentences.append("Too small: mostly start-up; a larger repository or scale answers it.")
    has_more_rounds = any(step.name == summary.MORE_ROUNDS for step in steps)
    if counts[Result.UNDECIDED] and not has_more_rounds:
        sentences.append("More rounds of up to a day answer no more.")
    return sentences


def _facts(results: Results, setup: Setup, views: Sequence[FindingView]) -> PageFacts:
    grid, measured = originals(results.grid), originals(results.measurements)
    return PageFacts(
        study=results.study.name,
        title=results.study.title,
        date=setup.last.strftime("%Y-%m-%dT%H:%MZ") if setup.last else "",
        host=words.enumeration(setup.host_names),
        cells=len(grid),
        measured=len({row["cell"] for row in measured}),
        skipped=sum(1 for cell in grid if cell["skip"]),
        failures=len(results.failures),
        findings=list(views),
    )


def _time(account: Row) -> list[str]:
    sentences = []
    if spent := account.get("spent_s"):
        by_step = {step: round(seconds) for step, seconds in spent.items()}
        rest = round(account["taken_s"]) - sum(by_step.values())
        steps = [f"{step} {words.group_digits(seconds)} s" for step, seconds in by_step.items()]
        sentences.append(
            f"All sessions took {words.duration(account['taken_s'])}: {', '.join(steps)} (between "
            f"cell-rounds), start and report about {rest} s. The timed runs are "
            f"{words.group_digits(round(account['timed_s']))} s of the measuring."
        )
    if summary.count_results(account).total() and (ended := ENDED.get(account.get("why", ""))):
        sentences.append(ended.format(minutes=words.duration(60 * account["minutes"])))
    return sentences


def _limits(results: Results, setup: Setup) -> list[str]:
    study = results.study
    measured = {study.command_name(row) for row in results.grid}
    commands = [f"{n}: {c.caveat}" for n, c in study.commands.items() if n in measured and c.caveat]
    limits = []
    for axis in study.axes:
        if values := unique_values(filter(None, (row.get(axis, "") for row in results.grid))):
            limits += axis_of(axis).limits(values, sorted(setup.guests))
    hosts = "Times of different machines, published ones included, are shown side by side only. "
    hosts += "Verdicts compare ratios and shares."
    return [*commands, *limits, hosts]


def _glossary(results: Results) -> dict[str, str]:
    meanings: dict[str, str] = {}
    if results.findings or results.expectations:
        meanings = {texts.VERDICTS[verdict]: meaning for verdict, meaning in MEANINGS.items()}
    vocabulary = load_vocabulary()
    meanings |= vocabulary.terms
    for axis in results.order:
        for value in unique_values(row.get(axis, "") for row in results.grid):
            if meaning := vocabulary.value(axis, value).meaning:
                label = value_label(axis, value)
                named = f" ({value} in commands and files)" if label != value else ""
                meanings[label] = f"{meaning}{named}"
    return {word: meaning.replace("`", "") for word, meaning in meanings.items()}


def history_table(history: Row) -> PlainTable | None:
    """Return a table of the saved baselines and this run; None for fewer than two."""
    rows = []
    for time in history.get("times", []):
        first, last = (words.moment(time[name]) for name in ("first", "last"))
        before, changed = time["before"], "; ".join(time["changed"])
        numbers = {texts.CALLS[call]: n for call, n in time["calls"].items() if n}
        calls = ", ".join(f"{number} {call}" for call, number in numbers.items())
        period = words.period(first, last) if first and last else ""
        hosts = words.enumeration(unique_values(time["hosts"]))
        calls = calls or ("not comparable" if before else "")
        changed = changed or ("nothing known" if before else "")
        rows.append((time["name"], period, hosts, before, calls, changed))
    heads = ["Saved", "Measured", "Host", "Compared with", "Comparisons", "Changed"]
    return PlainTable("Saved baselines", heads, rows) if len(rows) > 1 else None


def read_entries(folder: Path) -> dict[str, PageFacts | None]:
    """Return the facts of each page in a folder by its file, the newest one first.

    They are None if another version wrote them in another form. A file without facts is no page.
    """
    entries: dict[str, PageFacts | None] = {}
    for path in sorted(folder.glob("*.html")):
        with open(open_regular(path), encoding="utf-8", errors="replace") as file:
            match = FACTS.search(file.read(HEAD_CHARACTERS))
        if match and path.name != "index.html":
            entries[path.name] = None
            with suppress(ValidationError):
                entries[path.name] = PAGE_FACTS.validate_json(unescape(match[1]))
    return dict(sorted(entries.items(), key=lambda of: of[1].date if of[1] else "", reverse=True))


def build_index(
    entries: dict[str, PageFacts | None], studies: Iterable[tuple[str, str, Sequence[Row]]] = ()
) -> str:
    """Return the index. `studies` are the name, the title and the findings of each study."""
    pages = {facts.study: (file, facts) for file, facts in reversed(entries.items()) if facts}
    views: list[dict[str, Any]] = []
    for name, title, findings in studies:
        file, facts = pages.get(name, ("", None))
        known = {finding.id: finding for finding in facts.findings} if facts else {}
        rows = [known.get(f["id"]) or FindingFacts(f["id"], f["statement"]) for f in findings]
        views.append({"name": name, "title": title, "file": file, "findings": rows})
    return render("index.html.jinja", {"entries": entries, "studies": views})
