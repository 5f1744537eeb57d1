"""What a page says of what is not there: skipped, failed, left out, not measured, not published."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.html_tree import Element, grids, parse, rows
from unit.report_files import default_grid, default_study, make_files, order_of, results_of
from unit.synthetic import AXES
from vcsbench.report.page import build_page
from vcsbench.report.results import Results

SMALL = {**AXES, "command": ["log"], "ra": ["svn"], "cache": ["cold", "hot-svn"]}
NO_HTTPD = "there is no httpd with mod_dav_svn here"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Element:
    """Without httpd; packed logs from hot server caches failed over svn, and one export in round 2;
    cold packed exports over file were warm."""
    failed = [(f"log/svn/ruby/{f}/pack/fast/hot-svn", n) for f in ("f6", "f7") for n in range(1, 6)]
    warm = {"command": "export", "ra": "file", "packing": "pack", "cache": "cold"}
    made = make_files(
        tmp_path_factory.mktemp("broken"),
        skip=lambda axes: default_grid(axes) or (NO_HTTPD if axes["ra"] == "http" else ""),
        failed=[*failed, ("export/svn/ruby/f6/nopack/slow/hot-os", 2)],
        flags=lambda axes, n: ["warm"] if warm.items() <= axes.items() else [],
    )
    return parse(build_page(results_of(made)))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Only what was published, and nothing measured."""
    results = results_of(make_files(tmp_path_factory.mktemp("published"), axes=SMALL, rounds=1))
    return Results(results.study, results.order, published=results.published)


def test_skipped_failed_and_left_out_cells_say_why(broken: Element) -> None:
    log, export = grids(broken, "elapsed", "Measured")
    skipped = rows(log)["http nopack f6"][0]
    assert skipped.text == "n/a"
    assert skipped.attributes["title"] == f"not measured: {NO_HTTPD}"
    failed = rows(log)["svn pack f7"][2]
    assert failed.text == "failed"
    assert "round 5: svnserve did not answer within 10 s." in failed.attributes["title"]
    left_out = rows(export)["file pack f6"][0]
    assert left_out.text == "left out"
    assert left_out.attributes["title"] == "flagged warm; see Marks and flags"


def test_a_failed_round_is_told_beside_the_others(broken: Element) -> None:
    cell = rows(grids(broken, "elapsed", "Measured")[1])["svn nopack f6"][1]
    assert "n = 4; round 2: svnserve did not answer within 10 s." in cell.attributes["title"]
    assert "?" in cell.text  # under 5 rounds


def test_compared_cells_are_absent_with_either_side(broken: Element) -> None:
    log = rows(grids(broken, "nopack-vs-pack", "Measured")[0])
    assert [cell.text for cell in log["http f6"]] == ["n/a", "n/a", "n/a"]
    assert log["svn f6"][2].text == "failed"


def test_quality_lists_failures_skips_and_flags(broken: Element) -> None:
    quality = broken.by_id("quality")
    _, failures, rounds, skips, flags, _done = (
        table.all("tbody")[0] for table in quality.all("table")
    )
    reason, cells = failures.all("tr")[0].all("td")
    assert reason.text == "svnserve did not answer within 10 s."
    assert [li.text for li in cells.all("li")] == [
        "log/svn/ruby/f6/pack/fast/hot-svn",
        "log/svn/ruby/f7/pack/fast/hot-svn",
        "export/svn/ruby/f6/nopack/slow/hot-os",
    ]
    assert len(rounds.all("tr")) == 11
    reason, cells = skips.all("tr")[0].all("td")
    assert reason.text == NO_HTTPD
    assert len(cells.all("li")) == 24
    warm = next(row for row in flags.all("tr") if row.all("code")[0].text == "warm")
    assert "A cold run began with the repository's pages in memory." in warm.text
    assert "These runs are not in the tables." in warm.text
    assert warm.all("td")[2].text == "10"


def test_head_of_the_page_names_what_is_missing(broken: Element) -> None:
    said = broken.all("p", class_="summary")[1].text
    assert said == "11 cell-rounds failed and 24 cells cannot be measured here: why."


def test_nothing_measured_still_makes_a_page_with_the_published_tables(
    published: Results,
) -> None:
    tree = parse(build_page(published))
    assert tree.all("p", class_="summary")[0].text == "Nothing has been measured."
    assert not grids(tree, "elapsed", "Measured")
    assert len(grids(tree, "elapsed", "Published")) == 4
    assert not tree.all("figure", class_="chart")
    for name in ("advice", "findings", "setting", "charts"):
        assert tree.by_id(name).all("p", class_="absent")


def test_nothing_at_all_still_makes_a_page() -> None:
    study = default_study("fsfs-ssd-2014")
    tree = parse(build_page(Results(study, order_of(study, {}))))
    for name in ("advice", "findings", "setting", "tables", "charts", "quality"):
        assert tree.by_id(name).text
    assert "No cell failed." in tree.by_id("quality").text
    assert "the target `published` makes it" in tree.by_id("table-elapsed").text


def test_only_failures_make_a_page(tmp_path: Path) -> None:
    cells = [
        f"log/svn/ruby/{f}/{p}/{config}/{cache}"
        for f in ("f6", "f7")
        for p in ("nopack", "pack")
        for config, cache in (("slow", "cold"), ("fast", "hot-svn"))
    ]
    failed = [(cell, number) for cell in cells for number in (1, 2)]
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2, failed=failed)
    tree = parse(build_page(results_of(made)))
    assert "Nothing has been measured." in tree.text
    assert "16 cell-rounds failed" in tree.text
    shown = rows(grids(tree, "elapsed", "Measured")[0])
    assert {cell.text for cell in shown["nopack f6"]} == {"failed"}
