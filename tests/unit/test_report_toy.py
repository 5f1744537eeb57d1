"""The page of a study that has nothing of Subversion: other axes, other subjects, a metric of which more is
better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unit.html_tree import Element, grids, parse, rows
from vcsbench import metrics
from vcsbench.config.study import Study
from vcsbench.metrics.metric import HIGH, MORE, Metric
from vcsbench.report.markdown import to_markdown
from vcsbench.report.page import build_page
from vcsbench.report.results import Results

MB = 250.0
SECONDS = {"cp": 0.5, "rsync": 1.0, "tar": 0.8}
COLD = 4.0
THROUGHPUT = Metric(
    name="mb_per_s",
    title="Throughput",
    unit="MB/s",
    reading="Throughput in MB/s, from the median of the rounds.",
    quantity="throughput",
    needs=("elapsed_s",),
    value=lambda part: MB / part["elapsed_s"],
    better=HIGH,
    words=MORE,
)
LAYOUT = {"rows": ["tool"], "columns": ["cache"]}
COMPARE = {"axis": "tool", "baseline": "cp", "candidates": ["rsync"]}
STUDY = Study(
    name="copying",
    title="Ways to copy a tree",
    source="Made up.",
    axes={"tool": list(SECONDS), "cache": ["cold", "hot"]},
    block=["cache"],
    given=["cache"],
    noise_class=["tool"],
    lead=["throughput"],
    commands={"copy": {"argv": "{tool} {tree} {target}", "reads": "tree", "work": "tree"}},
    tables={
        "elapsed": {"metric": "elapsed_s", **LAYOUT},
        "throughput": {"metric": "mb_per_s", **LAYOUT},
        "cp-vs-rsync": {"compare": COMPARE, "rows": [], "columns": ["cache"]},
        "cp-vs-rsync-throughput": {
            "compare": {**COMPARE, "metric": "mb_per_s"},
            "rows": [],
            "columns": ["cache"],
        },
    },
)


def seconds(tool: str, cache: str) -> float:
    return SECONDS[tool] * (COLD if cache == "cold" else 1.0)


def cells(study: Study) -> list[dict[str, str]]:
    axes = {axis: values for axis, values in study.axes.items() if isinstance(values, list)}
    points = [{"tool": tool, "cache": cache} for tool in SECONDS for cache in ("cold", "hot")]
    kept = [p for p in points if "cache" in axes or p["cache"] == "hot"]
    return [
        {a: p[a] for a in axes} | {"cell": "/".join(p[a] for a in axes), "skip": ""} for p in kept
    ]


def results_of(study: Study) -> Results:
    grid = cells(study)
    empty = {
        "low": None,
        "high": None,
        "ratio": None,
        "n": 5.0,
        "flags": "",
        "withheld": "",
        "call": "",
    }
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, table in study.tables.items():
        metric = metrics.metric_in(table)
        tables[name] = []
        for cell in grid:
            keys = {axis: cell[axis] for axis in study.axes}
            value = {t: seconds(t, cell.get("cache", "hot")) for t in SECONDS}
            value = {t: metric.value({"elapsed_s": s}) for t, s in value.items()}
            if not table.get("compare"):
                tables[name].append(keys | empty | {"value": value[cell["tool"]]})
            elif cell["tool"] == "rsync":
                del keys["tool"]
                ratio = value["cp"] / value["rsync"]
                said = {"ratio": ratio, "low": 0.97 * ratio, "high": 1.03 * ratio, "call": "slower"}
                sides = {"baseline": "cp", "candidate": "rsync", "value": 100 * (ratio - 1)}
                tables[name].append(keys | empty | sides | said)
    runs = [
        {
            **cell,
            "round": float(n),
            "elapsed_s": seconds(cell["tool"], cell.get("cache", "hot")) * (1 + n / 50),
        }
        | {
            "flags": "",
            "work": '{"files":1000}',
            "started_at": f"2026-11-21T07:0{n}:00Z",
            "host": "here",
        }
        for n in range(1, 6)
        for cell in grid
    ]
    contexts = [
        {
            "axes": {axis: run[axis] for axis in study.axes},
            "round": run["round"],
            "started_at": run["started_at"],
            "argv_template": "{tool} {tree} {target}",
            "host": {"name": "here", "cores": 2, "virtualized": ""},
            "tree": {"name": "linux", "description": "a tree like Linux", "files": 21500},
            "runs": [{}],
        }
        for run in runs
    ]
    advised = [
        {"cache": cache, "confident": True, "choose": "cp", "sentences": ["Fastest: cp."]}
        for cache in ("cold", "hot")
    ]
    return Results(
        study,
        {axis: list(values) for axis, values in study.axes.items()},
        grid=grid,
        measurements=runs,
        tables=tables,
        noise=[
            {"tool": "cp", "twins": 1.0, "rounds": 5.0}
            | dict.fromkeys(("differed", "chance", "spread", "within", "twin_sd"), 1.05)
        ],
        advice={"recommendations": advised if "cache" in study.axes else advised[:1]},
        contexts=contexts,
    )


@pytest.fixture(autouse=True)
def throughput(monkeypatch: pytest.MonkeyPatch) -> None:
    known = metrics.metric_of
    monkeypatch.setattr(
        metrics, "metric_of", lambda name: THROUGHPUT if name == "mb_per_s" else known(name)
    )


@pytest.fixture
def page() -> Element:
    return parse(build_page(results_of(STUDY)))


def test_nothing_of_subversion_is_said(page: Element) -> None:
    text = page.all("main")[0].text.lower()
    for word in (
        "repositor",
        "subversion",
        "server config",
        "revision",
        "access",
        "svn",
        "vs httpd",
    ):
        assert word not in text, word
    assert page.all("p", class_="summary")[0].text.startswith(
        "6 cells in 5 rounds of copy on linux, on the machine here, 21 November 2026"
    )


def test_setting_tells_blocks_commands_and_subjects_of_the_study(page: Element) -> None:
    setting = page.by_id("setting")
    facts = {d.all("dt")[0].text: d.all("dd")[0].text for d in setting.all("dl")[0].all("div")}
    assert "blocks (the cells that agree on cache)" in facts["Order"]
    assert facts["copy"] == "{tool} {tree} {target}"
    assert facts["Tree"] == "linux: a tree like Linux"
    assert [th.text for th in setting.all("table")[0].all("th")] == ["Tree", "Files"]


def test_what_leads_comes_first_among_tables_and_charts(page: Element) -> None:
    names = [s.all("h3")[0].text for s in page.by_id("tables").all("section", class_="table")]
    assert names == ["throughput", "elapsed", "cp-vs-rsync", "cp-vs-rsync-throughput"]
    charts = [h.text for h in page.by_id("charts").all("h3")]
    assert charts == [
        "Throughput",
        "Elapsed time",
        "cp-vs-rsync",
        "cp-vs-rsync-throughput",
        "Drift over the rounds",
    ]


def test_more_is_better_where_the_metric_says_so(page: Element) -> None:
    less, more = page.by_id("table-cp-vs-rsync"), page.by_id("table-cp-vs-rsync-throughput")
    assert "above 0, rsync is faster" in less.text
    assert (
        "(throughput cp ÷ throughput rsync" in more.text and "below 0, rsync is higher" in more.text
    )
    assert [s.text for s in more.all("span", class_="end")] == ["cp higher", "rsync higher"]
    for section, text in ((less, "\N{MINUS SIGN}50"), (more, "+100")):
        [hot] = [td for td in section.all("tbody")[0].all("td") if td.text == text][-1:]
        assert "x5" in hot.classes  # cp is the better one in either
    assert "Left of 0, rsync is higher" in page.by_id("charts").text
    assert rows(grids(page, "throughput", "Measured")[0])["cp"][1].text == "500"
    assert "Throughput in MB/s" in page.by_id("table-throughput").text


def test_ratio_chart_colours_the_better_side_of_each_metric(page: Element) -> None:
    for name in ("cp-vs-rsync", "cp-vs-rsync-throughput"):
        script = page.by_id(f"chart-{name}").all("script")[0].text
        assert '"call": "baseline"' in script and '"call": "candidate"' not in script


def test_markdown_says_the_same_as_the_page(page: Element) -> None:
    name = "cp-vs-rsync-throughput"
    order = {axis: list(values) for axis, values in STUDY.axes.items()}
    table = results_of(STUDY).tables[name]
    text = to_markdown(
        name,
        STUDY.tables[name],
        [{"table": name, "within": None, "detectable": None, **row} for row in table],
        order,
        {},
    )
    assert "below 0, rsync is higher." in text
    assert "below 0, rsync is higher." in page.by_id(f"table-{name}").text


def test_advice_is_told_by_what_is_given(page: Element) -> None:
    lines = page.by_id("advice").all("tbody")[0].all("tr")
    assert [line.all("th")[0].text for line in lines] == ["cold", "hot"]


def test_limits_are_those_of_its_axes(page: Element) -> None:
    quality = page.by_id("quality").text
    assert "Cold means cold" in quality and "loopback" not in quality
    assert "cp" in quality and "1,000 files" in quality


def test_one_axis_alone_and_no_block_make_a_page() -> None:
    tables = {"elapsed": {"metric": "elapsed_s", "rows": ["tool"], "columns": []}}
    alone = replace(
        STUDY,
        axes={"tool": list(SECONDS)},
        block=[],
        given=[],
        noise_class=[],
        lead=[],
        tables=tables,
    )
    page = parse(build_page(results_of(alone)))
    assert [h.text for h in page.by_id("charts").all("h3")] == [
        "Elapsed time",
        "Drift over the rounds",
    ]
    assert "inside a round, cells in a random order" in page.by_id("setting").text
    assert page.by_id("advice").all("tbody")[0].all("th")[0].text == "all cells"
    assert list(rows(grids(page, "elapsed", "Measured")[0])) == list(SECONDS)
    assert "Cold means cold" not in page.by_id("quality").text
