"""The tables of a page: rows laid out as grids, and the details behind each number."""

import re
from dataclasses import replace
from itertools import product
from statistics import geometric_mean

import pytest

from project import ROOT
from unit.report_files import make_files, results_of
from vcsbench import words
from vcsbench.advice.labels import axis_label
from vcsbench.evidence.flags import Flag
from vcsbench.metrics import METRICS
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.report import grids, table_points
from vcsbench.report.cell_details import collect_details
from vcsbench.report.expected_rows import ExpectedRow, expected_rows
from vcsbench.report.grids import PointKind
from vcsbench.report.page import build_page
from vcsbench.report.table_sections import MARK_MEANINGS, make_title, table_sections

ORDER = {
    "command": ["log", "dump"],
    "access": ["http", "svn"],
    "repo": ["ruby", "bsd"],
    "format": ["f6", "f7"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os"],
}
ELAPSED = {
    "metric": "elapsed_s",
    "rows": ["access", "repo", "format"],
    "columns": ["cache", "config"],
}
COMPARE = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
RATIO = {"compare": COMPARE, "rows": ["access", "repo"], "columns": ["cache", "config"]}
PLAIN = {"command": "log", "access": "svn", "repo": "ruby", "config": "slow", "cache": "cold"}
LAYOUT = grids.make_layout(ELAPSED, ORDER)
CELL = "log/http/ruby/f6/nopack/slow/cold"


def point(value=1.0, **keys):
    return grids.Point({**PLAIN, "format": "f6", **keys}, PointKind.MEASURED, value)


def points(**axes):
    """Return a point for each combination of values."""
    return [point(**dict(zip(axes, values, strict=True))) for values in product(*axes.values())]


def labels(grid):
    texts = ([row.group, *(label.text for label in row.labels)] for row in grid.rows)
    return [" ".join(filter(None, of_row)) for of_row in texts]


def row(**values):
    usual = {"value": 10.0, "ratio": 1.1, "low": 1.05, "high": 1.15, "n": 5.0, "flags": ""}
    return {**usual, "call": "faster", "result": "different", "detectable": 1.08, **values}


def test_grid_follows_the_order_of_the_study_with_joined_headings():
    axes = {"access": ["svn", "http"], "format": ["f7", "f6"]}
    found = points(**axes, cache=["cold", "hot-os"], config=["fast", "slow"])
    (grid,) = grids.make_grids(found[:-1], LAYOUT)
    assert labels(grid) == ["http f6", "http f7", "svn f6", "svn f7"]
    assert [(h.text, h.span) for h in grid.headings[0]] == [("cold", 2), ("hot-os", 2)]
    assert [heading.text for heading in grid.headings[1]] == ["slow", "fast"] * 2
    assert grid.block_starts == [True, False, True, False] and grid.constant == [("repo", "ruby")]
    assert len(grid.points) == 15 and None in grid.rows[0].points


def test_measured_points_get_the_published_number_of_their_place():
    published = points(repo=["ruby", "bsd"], format=["f6", "f7"], cache=["cold", "hot-os"])
    measured = [point(), point(format="f8"), point(repo="my-own")]
    near = grids.attach_published(measured, published, LAYOUT)
    assert [p.published.keys if p.published else None for p in near] == [point().keys, None, None]
    # A row of a table without comparisons has an empty candidate. A failed cell has no row.
    (failed,) = grids.attach_published([point(None)], [point(2.0, candidate="")], LAYOUT)
    assert failed.published.value == 2.0


def test_numbers_of_a_column_share_decimals_and_bars_the_largest():
    found = [point(2.5), point(10.0, format="f7"), point(0.25, cache="hot-os")]
    shown = [(p.text, p.bar) for p in grids.format_numbers(found, LAYOUT, "s")]
    assert shown == [("2.5", 25), ("10.0", 100), ("0.25", 2)]


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([422.1, 103.9], "s", 0),
        ([13.4, 5.0], "s", 1),  # as published: to one decimal
        ([0.6321, 3.0], "s", 3),
        ([0.001234], "s", 3),
        ([60.2, 3.1], "%", 0),
        *((values, "s", 0) for values in ([5.0, 12.0], [], [0.0])),
    ],
)
def test_decimals_of_a_column(values, unit, expected):
    assert words.decimals(values, unit) == expected


def test_measured_points_only_differences_have_a_colour():
    keys = {**PLAIN, "candidate": "f7"}
    rows = [
        {**keys, **row(ratio=1.22)},
        {**keys, "command": "dump", **row(ratio=1.22, low=0.9, call="equal")},
        # Counts that are equal in all rounds.
        {**keys, "command": "cat", **row(ratio=0.99, low=0.99, high=0.99, call="equal")},
    ]
    points = table_points.measured_points(RATIO, rows, [])
    found = [(p.colour, p.text, p.mark) for p in points]
    assert found == [("y3", "+22", ""), ("same", "+22", "="), ("same", "\N{MINUS SIGN}1.0", "=")]
    # Readers do not see the words of the CSV files.
    assert [p.title.rstrip(".").split(". ")[2] for p in points[:2]] == ["f7 is faster", "Equal"]


def test_measured_points_of_few_rounds_have_a_mark_with_a_decided_call():
    rows = [{**PLAIN, "candidate": "f7", **row(n=3.0, flags=Flag.LOW_N)}]
    (shown,) = table_points.measured_points(RATIO, rows, [])
    assert (shown.mark, shown.colour) == ("n", "y2")
    assert Flag.LOW_N in MARK_MEANINGS[shown.mark]


@pytest.mark.parametrize(
    ("metric", "reduce", "expected"),
    [
        ("elapsed_s", {}, "Elapsed time"),
        ("elapsed_s", {"reduce": "best"}, "Elapsed time, best"),
        # Without `reduce`, a time is a mean, and a count is a median.
        ("elapsed_s", {"reduce": "median"}, "Elapsed time, median"),
        ("call_mib", {"reduce": "median"}, "Read by system calls"),
    ],
)
def test_title_of_a_table_names_a_statistic_that_is_no_default(metric, reduce, expected):
    assert make_title({**ELAPSED, "metric": metric, **reduce}) == expected


def test_grid_with_one_candidate_names_its_axis():
    layout = grids.Layout(("candidate", "access"), ("cache",), (), {}, "config")
    keys = {"candidate": "fast", "cache": "cold"}
    points = [
        grids.Point({**keys, "access": access}, PointKind.MEASURED) for access in ("http", "svn")
    ]
    assert grids.make_grids(points, layout)[0].constant == [("config", "fast")]


def test_expected_rows_pair_cells_with_skips_failures_and_flags():
    def cell(fmt, cache):
        skip = "no root" if (fmt, cache) == ("f6", "cold") else ""
        return {"cell": f"{fmt}/{cache}", "format": fmt, "cache": cache, "skip": skip}

    pairs = [(f, c) for c in ("cold", "hot-os") for f in ("f6", "f7")] + [("f7", "hot-server")]
    grid = [cell(*pair) for pair in pairs]
    failures = [{"cell": "f7/hot-os", "round": 2.0, "reason": "broken"}]
    runs = [{"cell": "f6/hot-os", "flags": "cache-not-cold too-short"}]
    rows = {"grid": grid, "failures": failures, "measurements": runs}
    cold, hot = expected_rows(RATIO, ["format", "cache"], **rows)
    assert cold.keys == {"cache": "cold", "candidate": "f7"}
    assert (cold.cells, cold.skip) == (("f6/cold", "f7/cold"), "no root")
    assert (hot.failures, hot.flags) == (("round 2: broken",), ("cache-not-cold",))


@pytest.mark.parametrize(
    ("reasons", "is_outdated", "is_unmeasured"),
    [
        ([], False, False),
        ([OUTDATED, OUTDATED], True, False),
        ([UNMEASURED], False, True),
        ([OUTDATED, UNMEASURED], False, True),
        # A round failed, whatever the others are.
        (["broken", UNMEASURED], False, False),
        (["broken", OUTDATED], False, False),
    ],
)
def test_expected_rows_tell_failed_rounds_from_those_still_to_measure(
    reasons, is_outdated, is_unmeasured
):
    cell = {"cell": "f6/cold", "format": "f6", "cache": "cold", "skip": ""}
    failures = [
        {"cell": "f6/cold", "round": float(number), "reason": reason}
        for number, reason in enumerate(reasons, 1)
    ]
    (found,) = expected_rows(
        ELAPSED, ["format", "cache"], grid=[cell], failures=failures, measurements=[]
    )
    assert (found.is_outdated, found.is_unmeasured) == (is_outdated, is_unmeasured)


def test_caption_keeps_the_letters_of_a_name():
    layout = grids.Layout(("path_authz",), ("cache",), (), {})
    found = [
        grids.Point({"path_authz": value, "cache": "cold"}, PointKind.MEASURED)
        for value in ("on", "off")
    ]
    assert layout.caption(found) == f"Rows: {axis_label('path_authz')}."
    assert axis_label("path_authz") != axis_label("path_authz").lower()


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        ({"skip": "no root"}, PointKind.SKIPPED),
        ({"failures": ("round 1: broken",)}, PointKind.FAILED),
        ({"failures": ("round 1: outdated",), "is_outdated": True}, PointKind.OUTDATED),
        ({"failures": ("round 1: none",), "is_unmeasured": True}, PointKind.UNMEASURED),
        ({"failures": ("round 1: broken",), "flags": ("cache-not-cold",)}, PointKind.WITHHELD),
        ({}, PointKind.WITHHELD),
    ],
)
def test_measured_points_of_a_cell_without_a_row_have_the_kind_of_their_reason(reasons, kind):
    (shown,) = table_points.measured_points(ELAPSED, [], [ExpectedRow(PLAIN, **reasons)])
    assert (shown.kind, shown.value, shown.keys) == (kind, None, PLAIN)


@pytest.mark.parametrize(
    ("empty", "places", "left_out"),
    [
        ([], 4, (0, 0)),
        ([("f6", "cold"), ("f6", "hot-os")], 2, (1, 0)),
        ([("f6", "cold"), ("f7", "cold")], 2, (0, 1)),
        # The row and the column of the only number are shown.
        ([("f6", "cold"), ("f6", "hot-os"), ("f7", "cold")], 1, (1, 1)),
        ([("f6", "cold"), ("f7", "hot-os")], 4, (0, 0)),
        ([*product(["f6", "f7"], ["cold", "hot-os"])], 0, (2, 0)),
    ],
)
def test_rows_and_columns_without_a_number_are_left_out_and_counted(empty, places, left_out):
    found = [
        point(None if (fmt, cache) in empty else 1.0, format=fmt, cache=cache)
        for fmt, cache in product(["f6", "f7"], ["cold", "hot-os"])
    ]
    shown, counted = grids.leave_out_empty(found, LAYOUT)
    assert (len(shown), counted) == (places, grids.LeftOut(*left_out))


def test_style_has_no_scroll_box_in_the_page():
    style = (ROOT / "workflow/report/style.css").read_text()
    assert not re.search(r"overflow(-[xy])?: *(auto|scroll|hidden)", style)
    # The dialog with the runs of a number lies above the page.
    limited = re.findall(r"^(.*) {.*max-height", style, re.MULTILINE)
    assert limited == ["#detail"]


@pytest.fixture(scope="module")
def results(whole_study):
    return results_of(whole_study)


@pytest.fixture(scope="module")
def sections(results):
    return table_sections(results)


@pytest.fixture(scope="module")
def known(results, sections):
    return dict(collect_details(results, sections))


def test_details_of_a_cell_have_its_runs_and_times(results, known):
    start, count = known["cells"][CELL]["runs"]
    rows = [row for row in results.measurements if row["cell"] == CELL]
    assert known["runs"]["round"][start : start + count] == [1, 2, 3, 4, 5]
    elapsed = known["runs"]["elapsed_s"][start : start + count]
    assert elapsed == [float(f"{row['elapsed_s']:.4g}") for row in rows]
    whole, client, server, waiting = known["cells"][CELL]["spent"]
    assert whole == pytest.approx(geometric_mean(elapsed), rel=1e-3)
    assert client == pytest.approx(0.6 * whole, rel=0.01)
    assert waiting == pytest.approx(whole - client - server, rel=0.01)
    spoilt = [{**row, "flags": "cache-not-cold"} for row in rows if row["round"] == 1]
    others = [row for row in results.measurements if row not in rows or row["round"] > 1]
    with_spoilt = replace(results, measurements=[*others, *spoilt])
    valid = collect_details(with_spoilt, [])["cells"][CELL]["spent"]
    assert valid[0] == pytest.approx(geometric_mean(elapsed[1:]), rel=1e-3)
    own = replace(results, own_repository="/srv/mine")
    assert [collect_details(r, [])["of"]["own"] for r in (results, own)] == ["", "/srv/mine"]


def test_details_of_a_cell_count_its_valid_runs_by_round(results):
    usual = next(row for row in results.measurements if row["cell"] == CELL)
    flags = "cache-not-cold"
    read = [(1.0, 1, ""), (1.0, 1, ""), (1.0, 1, ""), (2.0, 4, ""), (3.0, 64, flags)]
    runs = [
        {**usual, "round": number, "device_bytes": mib << 20, "flags": text}
        for number, mib, text in read
    ]
    details = collect_details(replace(results, measurements=runs), [])
    place = list(details["counted"]).index(METRICS["device_mib"].title)
    assert details["cells"][CELL]["counted"][place] == 2.5
    # A count of invalid runs only is no count of the dialog.
    spoilt = [{**run, "flags": flags} for run in runs]
    assert not collect_details(replace(results, measurements=spoilt), [])["counted"]


def test_numbers_of_tables_have_their_cells(sections, known):
    for section in sections:
        for cells in (p.cells for p in section.measured_points if p.value is not None):
            assert len(cells) == (2 if section.compares else 1)
            assert {*cells} <= known["cells"].keys()


def test_title_of_a_comparison_has_ratio_interval_and_call(sections):
    section = next(s for s in sections if s.name == "nopack-vs-pack")
    point = next(p for p in section.measured_points if p.cells[:1] == (CELL,))
    assert point.cells[1] == CELL.replace("nopack", "pack")
    for part in ("packed: 1.3x faster", "= 1.2", "interval 1.2", "packed is faster."):
        assert part in point.title


@pytest.mark.slow
def test_page_of_2500_cell_rounds_is_below_3_megabytes(tmp_path):
    results = results_of(make_files(tmp_path, rounds=18))
    assert len({(row["cell"], row["round"]) for row in results.measurements}) >= 2500
    assert len(build_page(results).encode()) < 3_000_000
