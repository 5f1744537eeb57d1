"""The page of a study: what it holds, in which order, and that it says what is absent."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import pytest

from unit.html_tree import Element, grids, parse, rows
from unit.report_files import default_grid, make_files, results_of
from unit.synthetic import AXES, SyntheticStudy
from vcsbench.report.page import build_page
from vcsbench.report.results import Results

SECTIONS = ["answer", "findings", "data", "advice", "tables", "charts", "setting", "quality"]
SMALL = {**AXES, "command": ["log"], "ra": ["svn"], "cache": ["cold", "hot-svn"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return make_files(tmp_path_factory.mktemp("whole"), skip=default_grid, twins=1)


@pytest.fixture(scope="module")
def whole(made: SyntheticStudy) -> Results:
    return results_of(made)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Eight cells over svn, from cold disks and hot server caches."""
    return results_of(make_files(tmp_path_factory.mktemp("small"), axes=SMALL, skip=default_grid))


@pytest.fixture(scope="module")
def page(whole: Results) -> str:
    return build_page(whole)


@pytest.fixture(scope="module")
def tree(page: str) -> Element:
    return parse(page)


def test_sections_stand_in_order_and_are_linked(tree: Element) -> None:
    main = tree.all("main")[0]
    ids = [child.attributes["id"] for child in main.children if isinstance(child, Element)]
    assert ids == SECTIONS
    linked = [link.attributes["href"] for link in tree.all("nav")[0].all("a")]
    assert linked == [f"#{name}" for name in SECTIONS if name != "data"]


def test_findings_on_other_repositories_than_the_users_stand_behind_all_advice(
    small: Results,
) -> None:
    page = parse(build_page(replace(small, own="/srv/mine")))
    ids = [c.attributes["id"] for c in page.all("main")[0].children if isinstance(c, Element)]
    assert ids[:4] == ["answer", "data", "advice", "findings"]
    assert "about other repositories than yours" in page.by_id("findings").text


def test_the_quality_of_the_data_is_said_in_a_line(tree: Element) -> None:
    said = tree.by_id("data").text
    assert "72 of 72 cells measured; none failed; " in said and "18 cells measured twice" in said


def test_what_was_left_out_and_the_flags_are_named_in_that_line(small: Results) -> None:
    runs = [{**row, "flags": ""} for row in small.measurements]
    assert (
        "no run left out; no flags"
        in parse(build_page(replace(small, measurements=runs))).by_id("data").text
    )
    runs[0] = {**runs[0], "flags": "warm short"}
    runs[1] = {**runs[1], "flags": "short"}
    said = parse(build_page(replace(small, measurements=runs))).by_id("data").text
    assert f"1 of {len(runs)} runs left out, not being what the label says" in said
    assert "flags: short on 2 runs and warm on 1 run" in said


def test_the_page_opens_with_a_card_for_each_question(small: Results) -> None:
    card = {
        **{"axis": "packing", "ask": "Pack <it>?", "kind": "yes", "answer": "yes", "said": "So."},
        **{"gain": "svn log cold, log.", "parts": ["cold"], "costs": ["None."]},
        "do": [{"value": "pack", "command": "svnadmin pack REPO", "note": "Not `upgrade`."}],
        "cases": [
            {"where": where, "better": "pack", "worse": "nopack", "call": "faster"}
            | {"ratio": 2.0, "low": 1.5, "high": 2.5}
            for where in ("cold", "hot-svn")
        ],
    }
    page = parse(build_page(replace(small, advice={**small.advice, "cards": [card]})))
    (shown,) = page.by_id("answer").all("article")
    assert (
        shown.all("h3")[0].text == "Pack <it>?" and shown.all("p", class_="told")[0].text == "yes"
    )
    assert [code.text for code in shown.all("code")] == ["svnadmin pack REPO", "upgrade"]
    assert "2.00 (1.50 to 2.50)" in shown.all("tbody")[0].text
    explained = [word.text for word in shown.all("abbr")]
    assert explained == ["svn", "log", "cold"]  # each where it is first met, and only there
    assert "svnserve" in shown.all("abbr")[0].attributes["title"]
    words = [one.text for one in page.by_id("answer").all("dt")]
    assert {"log", "svn", "ruby", "f6", "pack", "cold", "round", "twin"} <= set(words)
    assert "http" not in words  # the grid has none of it


def test_summary_says_what_where_and_when(tree: Element) -> None:
    assert tree.all("p", class_="summary")[0].text == (
        "72 cells, 18 of them twice, in 5 rounds of log and export on ruby (13 % of its "
        "published size), on the machine workstation, 21 November 2026, 07:00\N{EN DASH}07:07 UTC."
    )


def test_summary_says_how_often_cells_were_measured_where_that_differs(small: Results) -> None:
    seldom = small.measurements[0]["cell"]
    rows = [row for row in small.measurements if row["cell"] != seldom or row["round"] <= 3]
    page = parse(build_page(replace(small, measurements=rows)))
    assert "8 cells in 3 to 5 rounds of" in page.all("p", class_="summary")[0].text


def test_advice_has_a_line_for_each_access_command_and_cache(tree: Element) -> None:
    lines = tree.by_id("advice").all("tbody")[0].all("tr")
    assert [line.all("th")[0].text for line in lines] == [
        f"{ra}, {command}, {cache}"
        for ra in ("http", "svn", "file")
        for command in ("log", "export")
        for cache in ("cold", "hot-os", "hot-svn")
    ]
    assert {line.all("td")[0].text for line in lines} == {"f7 pack"}


def test_findings_have_verdicts_intervals_and_the_scale(tree: Element) -> None:
    finding = tree.by_id("finding-cold-packed-f7-log")
    verdict, statement, table, expected, published, measured = finding.all("td")
    assert verdict.text == "reproducedscale < 1"
    assert statement.text.startswith("Reading the log of a packed repository")
    link = table.all("a")[0].attributes["href"]
    assert link.startswith("#table-f6-vs-f7-log-")
    row = tree.by_id(link.removeprefix("#"))
    assert row.all("th")[0].text.endswith("pack")
    assert not row.all("th")[0].text.endswith("nopack")
    assert (expected.text, published.text) == ("1.8 to 4.0", "2.83")
    assert re.fullmatch(r"[12]\.\d\d[12]\.\d\d to [12]\.\d\d", measured.text)
    assert "ruby has 13 % of its published size" in tree.by_id("findings").text


def test_every_link_within_the_page_leads_somewhere(tree: Element) -> None:
    def walk(element: Element) -> list[Element]:
        below = [child for child in element.children if isinstance(child, Element)]
        return [element, *(found for child in below for found in walk(child))]

    elements = walk(tree)
    ids = [e.attributes["id"] for e in elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    links = {e.attributes.get("href", "") for e in elements if e.tag == "a"}
    inside = {link.removeprefix("#") for link in links if link.startswith("#")}
    assert len(inside) > 15
    assert inside <= set(ids)


def test_expectations_stand_after_the_findings_where_there_are_any(
    tree: Element, small: Results
) -> None:
    assert not [s for s in tree.all("section") if s.attributes.get("id") == "expectations"]
    check = {
        "id": "hot-log",
        "where": {"cache": "hot-svn", "packing": "pack"},
        "level": "elapsed_s",
        "expect": {"over": "max", "at_most": 2},
    }
    row = {
        **{"id": "hot-log", "statement": "Under 2 s.", "expected": "at most 2", "published": ""},
        **{"measured": "0.512", "low": 0.5, "high": 0.53, "verdict": "holds", "why": ""},
    }
    page = parse(build_page(replace(small, expectations=[row], checks={"hot-log": check})))
    assert [link.text for link in page.all("nav")[0].all("a")][1:4] == [
        *["Findings", "Expectations", "Advice"]
    ]
    cells = page.by_id("expectation-hot-log").all("td")
    assert [cell.text for cell in cells] == [
        *["holds", "Under 2 s.", "elapsed", "at most 2", "0.510.50 to 0.53"]
    ]
    link = cells[2].all("a")[0].attributes["href"].removeprefix("#")
    assert link.startswith("table-elapsed-log-")
    assert page.by_id(link).tag == "tr"


def test_no_scale_is_mentioned_at_the_published_one(small: Results) -> None:
    contexts = [{**c, "repository": {**c["repository"], "scale": 1}} for c in small.contexts]
    findings = parse(build_page(replace(small, contexts=contexts))).by_id("findings")
    assert "scale" not in findings.text


def test_grid_shows_the_tables_numbers_with_interval_and_n(tree: Element, whole: Results) -> None:
    log, export = grids(tree, "f6-vs-f7", "Measured")
    assert list(rows(log)) == [
        f"{ra} {p}" for ra in ("http", "svn", "file") for p in ("nopack", "pack")
    ]
    cell = rows(export)["svn pack"][0]
    row = next(
        row
        for row in whole.tables["f6-vs-f7"]
        if (row["command"], row["ra"], row["packing"], row["cache"])
        == ("export", "svn", "pack", "cold")
    )
    ratio, low, high = (100 * (row[name] - 1) for name in ("ratio", "low", "high"))
    assert cell.text.rstrip("†‡") == f"+{ratio:.0f}"
    said = f"+{ratio:.0f} %, 95 % interval +{low:.0f} to +{high:.0f} %"
    assert cell.attributes["title"].startswith(said)
    assert "n = 5" in cell.attributes["title"]
    assert "y5" in cell.classes or "y4" in cell.classes


def test_grid_has_its_columns_under_joined_headings(tree: Element) -> None:
    head = grids(tree, "elapsed", "Measured")[0].all("thead")[0]
    assert [th.text for th in head.all("th")] == [
        "cold",
        "hot-os",
        "hot-svn",
        "slow",
        "slow",
        "fast",
    ]


def test_published_grid_stands_beside_in_the_same_layout(tree: Element) -> None:
    for measured, published in zip(
        grids(tree, "nopack-vs-pack", "Measured"),
        grids(tree, "nopack-vs-pack", "Published"),
        strict=False,
    ):
        assert list(rows(measured)) == list(rows(published))
        headings = [
            [th.text for th in grid.all("thead")[0].all("th")] for grid in (measured, published)
        ]
        assert headings[0] == headings[1]
    log = rows(grids(tree, "nopack-vs-pack", "Published")[0])
    assert log["svn f7"][0].text == "+1192"
    captions = [c.text for c in tree.by_id("table-elapsed").all("figcaption")]
    assert (
        "Published 2014, 2 cores, 4 GB, spinning disks behind iSCSI, Windows Server 2012"
        in captions
    )


def test_whole_published_table_can_be_unfolded(tree: Element) -> None:
    whole = tree.by_id("table-f6-vs-f7").all("details", class_="whole")[0]
    assert [h.text for h in whole.all("h4")] == ["log", "null-log", "export", "null-export"]
    assert len(rows(whole.all("table")[0])) == 12


def test_tables_link_to_their_files_and_hold_them(tree: Element, made: SyntheticStudy) -> None:
    links = tree.by_id("table-f6-vs-f7").all("p", class_="reading")[0].all("a")
    csv, csv_inside, markdown, markdown_inside = (link.attributes for link in links)
    page = made.results.parent / "reports" / "page.html"
    for outside, inside in ((csv, csv_inside), (markdown, markdown_inside)):
        file = (page.parent / outside["href"]).resolve()
        held = base64.b64decode(inside["href"].partition("base64,")[2])
        assert held == file.read_bytes()
        assert inside["download"] == f"fsfs-san-2014-f6-vs-f7{file.suffix}"


def test_measurements_can_be_taken_from_the_page(tree: Element, made: SyntheticStudy) -> None:
    link = tree.all("a", download="fsfs-san-2014-measurements.csv.gz")[0]
    held = gzip.decompress(base64.b64decode(link.attributes["href"].partition("base64,")[2]))
    assert held == (made.results / "measurements" / "fsfs-san-2014.csv").read_bytes()


def test_limits_and_caveats_are_told(small: Results) -> None:
    grid = [{**row, "command": "null-export"} for row in small.grid]
    quality = parse(build_page(replace(small, grid=grid))).by_id("quality").text
    assert "null-export: Over svn, null-export does less work in the client" in quality
    assert "cold for this system's page cache" in quality and "guest-cold" not in quality
    assert "https" in quality


def test_cold_is_guest_cold_where_there_is_a_hypervisor(small: Results) -> None:
    host = {**small.contexts[0]["host"], "virtualized": "QEMU"}
    contexts = [{**context, "host": host} for context in small.contexts]
    quality = parse(build_page(replace(small, contexts=contexts))).by_id("quality").text
    assert "Measured in a guest (QEMU): cold is guest-cold." in quality


def test_everything_from_outside_is_escaped(small: Results) -> None:
    evil = "<img src=x onerror=alert(1)></script><b>&amp;"
    failure = {"cell": evil, "round": 1.0, "reason": evil}
    contexts = [
        {**c, "repository": {"name": evil}, "server_files": {evil: evil}, "argv_template": evil}
        for c in small.contexts[:1]
    ]
    grid = [{**row, "repo": evil, "skip": evil} for row in small.grid]
    runs = [{**row, "repo": evil, "flags": evil} for row in small.measurements]
    findings = [{**row, "statement": evil} for row in small.findings]
    tables = {name: [{**row, "repo": evil} for row in rows] for name, rows in small.tables.items()}
    results = replace(
        small,
        study=replace(small.study, title=evil, source=evil),
        failures=[failure],
        contexts=contexts,
        grid=grid,
        measurements=runs,
        findings=findings,
        tables=tables,
        advice={
            "recommendations": [
                {"command": evil, "confident": False, "choose": evil, "sentences": [evil]}
            ]
        },
    )
    tree = parse(build_page(results))  # a script that ends too early leaves tags unclosed
    assert not [element for element in tree if element.tag == "img"]
    assert tree.all("h1")[0].text == evil
    assert evil in tree.by_id("setting").text


def test_nothing_outside_of_the_page_is_needed(tree: Element) -> None:
    for element in tree:
        assert element.tag not in ("link", "img", "iframe", "object", "base"), element.tag
        assert "src" not in element.attributes
        target = element.attributes.get("href", "")
        assert not re.match(r"(?:[a-z]+:)?//", target), target
    style = tree.all("style")[0].text
    assert "url(" not in style
    assert "@import" not in style
    policy = tree.all("meta", **{"http-equiv": "Content-Security-Policy"})[0].attributes["content"]
    assert policy.startswith("default-src 'none'")


def test_same_results_make_the_same_page(small: Results) -> None:
    assert build_page(small) == build_page(small)


def test_setting_describes_machine_repositories_and_servers(small: Results) -> None:
    contexts = [
        {**c, "server_files": {"svnserve.args": f"--memory {c['axes']['config']}"}}
        for c in small.contexts
    ]
    setting = parse(build_page(replace(small, contexts=contexts))).by_id("setting")
    facts = {d.all("dt")[0].text: d.all("dd")[0].text for d in setting.all("dl")[0].all("div")}
    assert facts["How much"].startswith("40 cell-rounds with 40 timed runs: 5 rounds over 3 copies")
    assert facts["Machine"].startswith("workstation: A processor, 2 cores, 4.00 GiB of memory")
    assert facts["Programs"] == "hyperfine 2.0.0, svn 1.14.2, vcsbench 0.1.0"
    assert facts["Repository"] == "ruby: generated, scale 0.1304"
    configurations = {d.all("summary")[0].text: d.text for d in setting.all("details")}
    assert sorted(configurations) == ["fast", "slow"]
    assert "svnserve.args --memory fast" in configurations["fast"]


def numbers_of(tree: Element, name: str) -> dict[str, str]:
    """What a chart's tooltips say, by panel and line."""
    script = tree.by_id(f"chart-{name}").all("script")[0].text
    points = json.loads(script)["data"]["values"]
    return {f"{p['panel']} {p['line']}": f"{p['pct']} {p['interval']}" for p in points}


def test_grid_tooltip_and_chart_show_one_number_and_the_published_reduction_is_named(
    small: Results,
) -> None:
    # The quotient of medians says -5 %, the mean of the rounds' quotients +7 %.
    said = {"value": -5.0, "ratio": 1.07, "low": 1.02, "high": 1.123}
    rows_of = small.tables["f6-vs-f7"]
    tables = {**small.tables, "f6-vs-f7": [{**row, **said} for row in rows_of]}
    tree = parse(build_page(replace(small, tables=tables)))
    shown = rows(grids(tree, "f6-vs-f7", "Measured")[0])["pack"][0]
    assert shown.text.rstrip("†‡") == "+7~"  # too noisy to say
    assert shown.attributes["title"].startswith("+7.0 %, 95 % interval +2.0 to +12 %, n = 5")
    assert set(numbers_of(tree, "f6-vs-f7-log").values()) == {"+7.0 +2.0 to +12"}
    reduced = tree.by_id("table-f6-vs-f7").all("details", class_="reduced")[0]
    assert reduced.all("figcaption")[0].text.startswith("Measured, reduced as published")
    assert {td.text for td in reduced.all("tbody")[0].all("td")} == {"\N{MINUS SIGN}5"}
    reading = tree.by_id("table-f6-vs-f7").all("p", class_="reading")[0].text
    assert "Measured: the geometric mean of the rounds' quotients" in reading
    assert "reduced as published: the quotient of medians" in reading


def test_all_numbers_of_a_page_agree_in_grid_tooltip_and_chart(tree: Element) -> None:
    for name in ("f6-vs-f7", "nopack-vs-pack"):
        charted: list[str] = []
        for command in ("log", "export"):
            charted += numbers_of(tree, f"{name}-{command}").values()
        cells = [
            td
            for grid in grids(tree, name, "Measured")
            for row in rows(grid).values()
            for td in row
        ]
        titles = [
            re.match(r"(\S+) %, 95 % interval (.+?) %, n", td.attributes["title"]) for td in cells
        ]
        assert sorted(f"{m.group(1)} {m.group(2)}" for m in titles if m) == sorted(charted)
        for td, said in zip(cells, titles, strict=True):
            assert said and td.text.rstrip("†‡")[:2] == said.group(1)[:2]


def test_a_table_of_which_the_grid_has_no_cell_has_no_section(tree: Element) -> None:
    names = [s.all("h3")[0].text for s in tree.by_id("tables").all("section", class_="table")]
    assert "f7-vs-f8" not in names and "f6-vs-f7" in names
    assert "No cell that was measured tells f7-vs-f8" in tree.by_id("tables").text


def test_advice_names_the_tables_that_compare_what_there_is_no_choice_of(tree: Element) -> None:
    lead = tree.by_id("advice").all("p", class_="lead")[0]
    assert lead.text.startswith("For each ra, command and cache apart")
    assert [a.attributes["href"] for a in lead.all("a")] == ["#table-http-vs-ra"]
