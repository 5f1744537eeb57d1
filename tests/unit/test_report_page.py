"""The page of a study: its data, its parts, and what the reader's picks show."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unit.html_tree import Element, parse
from unit.report_files import default_grid, make_files, results_of
from unit.synthetic import AXES
from vcsbench.report import svg
from vcsbench.report.findings import findings_of
from vcsbench.report.page import Page, build_page, page_of
from vcsbench.report.results import Results


def skip(axes: dict[str, str]) -> str:
    return default_grid(axes) or ("no httpd" if axes["ra"] == "http" else "")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """f7 takes half of f6, packed 0.8, svn 0.8 of http; http exports failed once."""
    failed = [("export/svn/ruby/f6/nopack/slow/cold", 2)]
    return results_of(
        make_files(tmp_path_factory.mktemp("page"), skip=default_grid, twins=1, failed=failed)
    )


@pytest.fixture(scope="module")
def page(results: Results) -> Page:
    return page_of(results)


@pytest.fixture(scope="module")
def tree(results: Results) -> Element:
    return parse(build_page(results))


def test_page_of_the_same_results_is_the_same(results: Results) -> None:
    assert build_page(results) == build_page(results)


def test_page_asks_for_nothing_from_outside(results: Results) -> None:
    text = build_page(results)
    assert "default-src 'none'" in text
    assert not re.findall(r"""(?:src|href)=["']?https?:""", text)


def test_cards_have_the_known_values_and_factors(page: Page) -> None:
    found = {view.card.question.axis: view.answer for view in page.cards}
    assert found["format"].value == "f7" and "2.0x faster, never slower" in found["format"].effect
    assert found["packing"].short == "yes" and found["ra"].value == "svn"


def test_cards_text_chart_and_times_have_the_same_ratio(page: Page) -> None:
    view = next(view for view in page.cards if view.card.question.axis == "format")
    for row in (row for row in view.rows if row.outcome == "candidate"):
        shown = float(re.search(r"([\d.]+)x", row.text).group(1))  # type: ignore[union-attr]
        before, after = (float(t.split()[0]) for t in row.times.split(" → "))
        assert before / after == pytest.approx(shown, rel=0.06)
        assert row.text in row.drawing


def test_findings_have_a_picture_and_reversed_ones_come_first(results: Results) -> None:
    rows = [
        {**row, "published": 0.5, "measured": 2.0, "low": 1.8, "high": 2.2, "verdict": "differs"}
        if row["id"] == "hot-log-packing-penalty"
        else row
        for row in results.findings
    ]
    found = findings_of(rows, results.definitions, results.study.tables, [])
    assert found[0].id == "hot-log-packing-penalty"
    assert found[0].news == "Reversed: packed was 2.0x slower, and is now 2.0x faster."
    assert all("<svg" in one.picture for one in found if one.measured)
    assert [one.rank for one in found] == sorted(one.rank for one in found)


def test_finding_that_does_not_exclude_1_is_not_reversed(results: Results) -> None:
    row = results.findings[0] | {"published": 0.5, "measured": 1.1, "low": 0.9, "high": 1.4}
    (found,) = findings_of([row], results.definitions, results.study.tables, [])
    assert found.news == ""


def test_picks_have_the_axes_of_a_reader_and_their_labels(page: Page) -> None:
    picks = {pick.axis: pick for pick in page.picks}
    assert list(picks) == ["ra", "format", "packing", "config"]
    assert ("nopack", "not packed") in picks["packing"].values
    assert {pick.preset for pick in page.picks} == {""}


def test_picks_of_a_repository_of_ones_own_are_preset(results: Results) -> None:
    own = page_of(replace(results, own="/srv/repo"))
    assert {pick.axis: pick.preset for pick in own.picks} == {
        "ra": "",
        "format": "f6",
        "packing": "nopack",
        "config": "slow",
    }


def answer(page: Page, axis: str, **picks: str) -> list[str]:
    data = json.loads(gzip.decompress(base64.b64decode(page.answers)))
    card = data["cards"][f"card-{axis}"]
    found: list[str] = card["answers"][
        card["by"]["|".join(picks.get(a, "") for a in data["picks"])]
    ]
    return found


def test_answers_by_picks_equal_the_rule_on_the_fitting_cases(page: Page) -> None:
    view = next(view for view in page.cards if view.card.question.axis == "packing")
    for picks in ({}, {"ra": "http"}, {"ra": "svn", "format": "f6", "packing": "nopack"}):
        expected = view.card.answer_for(picks) if picks else view.answer
        assert answer(page, "packing", **picks) == [
            expected.kind,
            expected.short,
            expected.sentence,
            expected.value,
        ]


def test_overview_has_a_square_per_question_command_and_cache(page: Page) -> None:
    assert page.overview
    assert len(page.overview.columns) == 3
    square = next(s for q, c, s in page.overview.rows if (q, c) == ("Format?", "log"))[0]
    assert square.style == "candidate" and square.text == "f7 2.0x"


def test_situations_have_the_best_combination_and_its_gain(page: Page) -> None:
    row = next(r for r in page.situations if r.where == _where("log", "svn", "cold"))
    assert row.label == "cold log over svn" and row.best.startswith("f7, packed")
    assert row.gain == "2.5x"


def _where(command: str, ra: str, cache: str) -> dict[str, str]:
    return {"command": command, "ra": ra, "repo": "ruby", "cache": cache}


def test_header_has_two_lines_with_the_sizes_of_the_run(page: Page) -> None:
    assert len(page.header) == 2
    assert "6 000 revisions" in page.header[0].replace("\u202f", " ")
    assert "72 combinations" in page.header[1] and "Subversion 1.14.2" in page.header[1]


def test_tables_have_a_key_for_each_mark_that_they_show(page: Page) -> None:
    for table in page.tables:
        marks = {
            m for pair in table.pairs if pair.measured for p in pair.measured.points for m in p.mark
        }
        assert marks <= {sign for sign, _ in table.key}
        assert "·" in {sign for sign, _ in table.key}


def test_flags_of_nearly_all_runs_are_one_sentence(results: Results) -> None:
    runs = [
        {**run, "flags": "outlier-10" if n else "outlier-20"}
        for n, run in enumerate(results.measurements)
    ]
    found = page_of(replace(results, measurements=runs)).quality
    assert len(found.sentences) == 1 and "outlier-10" in found.sentences[0]
    assert [one.word for one in found.flagged] == ["outlier-20"]


def test_row_with_mostly_fixed_cost_is_hatched_and_without_colour(results: Results) -> None:
    small = [{**row, "fixed_share": 0.7} for row in results.tables["f6-vs-f7"]]
    changed = replace(results, tables={**results.tables, "f6-vs-f7": small})
    table = next(t for t in page_of(changed).tables if t.name == "f6-vs-f7")
    points = [p for pair in table.pairs if pair.measured for p in pair.measured.points]
    assert all(p.is_small and p.colour == "same" for p in points if p.value is not None)
    assert "s" in {sign for sign, _ in table.key}


def test_page_with_nothing_measured_has_all_sections(results: Results) -> None:
    nothing: dict[str, Any] = {
        name: [] for name in ("measurements", "contexts", "noise", "failures")
    }
    empty = parse(build_page(replace(results, **nothing, advice={}, tables={}, account={})))
    for name in ("answer", "findings", "situations", "tables", "setup", "quality"):
        assert empty.by_id(name).tag == "section"


def test_page_escapes_what_comes_from_results(results: Results) -> None:
    evil = "<script>alert(1)</script>"
    failures = [{**results.failures[0], "reason": evil}]
    notes = [{**results.findings[0], "statement": evil, "why": evil}]
    text = build_page(replace(results, failures=failures, findings=notes))
    assert evil not in text


def test_failures_and_skips_are_named_with_their_reason(tree: Element) -> None:
    assert "svnserve did not answer within 10 s" in tree.by_id("quality").text


def test_axis_of_a_picture_holds_all_values_and_cuts_at_the_widest() -> None:
    axis = svg.Axis.over([0.5, 2.0, 500.0, float("nan"), 0.0])
    assert axis.low < 0.5 and axis.high < 40
    assert svg.MARGIN <= axis.x(0.5) < axis.x(1) < axis.x(2) < axis.x(900) <= svg.WIDTH


def test_line_plot_breaks_where_a_value_is_missing() -> None:
    drawing = svg.line_plot([[1.0, None, 2.0, 3.0]], ["a", "b", "c", "d"], "x")
    (path,) = re.findall(r'<path class="line c0" d="([^"]*)"', drawing)
    assert path.count("M") == 2 and path.count("L") == 1


@pytest.mark.slow
def test_page_of_2500_cell_rounds_is_below_3_megabytes(tmp_path: Path) -> None:
    assert len(build_page(results_of(make_files(tmp_path, rounds=18))).encode()) < 3_000_000


def test_cells_of_the_empty_repository_are_in_no_table_and_give_the_fixed_cost(
    tmp_path: Path,
) -> None:
    made = make_files(tmp_path, axes={**AXES, "repo": ["ruby", "empty"]}, skip=default_grid)
    row = "log,http,empty,f6,nopack,slow,cold"
    header = f"cell,{','.join(AXES)},run,elapsed_s"
    (made.results / "fixed-cost").mkdir()
    rows = "\n".join(f"a,{row},{n},{0.01 * n}" for n in (1, 2, 3))
    (made.results / "fixed-cost" / f"{made.name}.csv").write_text(f"{header}\n{rows}\n")
    found = page_of(results_of(made))
    assert found.facts["cells"] == 72 and [t for _, t in found.quality.fixed_cost] == ["0.020 s"]
    measured = [pair.measured for table in found.tables for pair in table.pairs if pair.measured]
    assert {point.keys["repo"] for grid in measured for point in grid.points} == {"ruby"}
