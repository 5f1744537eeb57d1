"""Grids: the rows of a table, laid out by its definition."""

from __future__ import annotations

from typing import Any

from vcsbench.report.grids import (
    Grid,
    Point,
    expected_rows,
    layout_of,
    make_grids,
    matching,
    measured_points,
    with_numbers,
)

ORDER = {
    "command": ["log", "dump"],
    "ra": ["http", "svn"],
    "repo": ["ruby", "bsd"],
    "format": ["f6", "f7"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os"],
}
ELAPSED = {"metric": "elapsed_s", "rows": ["ra", "repo", "format"], "columns": ["cache", "config"]}
COMPARE = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
RATIO = {"compare": COMPARE, "rows": ["ra", "repo"], "columns": ["cache", "config"]}
PLAIN = {"command": "log", "ra": "svn", "repo": "ruby", "config": "slow", "cache": "cold"}
LAYOUT = layout_of(ELAPSED, ORDER)


def point(value: float = 1.0, **keys: str) -> Point:
    return Point({**PLAIN, "format": "f6", **keys}, "measured", value)


def points(**axes: list[str]) -> list[Point]:
    """Return a point for each combination of values."""
    found: list[dict[str, str]] = [{}]
    for axis, values in axes.items():
        found = [{**keys, axis: value} for keys in found for value in values]
    return [point(**keys) for keys in found]


def labels(grid: Grid) -> list[str]:
    rows = [(group.title, row) for group in grid.groups for row in group.rows]
    return [" ".join(filter(None, [t, *(label.text for label in row.labels)])) for t, row in rows]


def row(**values: Any) -> dict[str, Any]:
    usual = {"value": 10.0, "ratio": 1.1, "low": 1.05, "high": 1.15, "n": 5.0, "flags": ""}
    return {**usual, "call": "faster", "within": 1.15, "detectable": 1.08, **values}


def test_grid_has_values_in_the_order_of_the_study() -> None:
    found = points(ra=["svn", "http"], format=["f7", "f6"], config=["fast", "slow"])
    (grid,) = make_grids(found, LAYOUT)
    assert labels(grid) == ["http f6", "http f7", "svn f6", "svn f7"]
    assert [heading.text for heading in grid.headings[1]] == ["slow", "fast"]
    assert grid.constant == [("repo", "ruby")]


def test_headings_join_equal_neighbours_and_mark_blocks() -> None:
    (grid,) = make_grids(points(cache=["cold", "hot-os"], config=["slow", "fast"]), LAYOUT)
    assert [(h.text, h.span) for h in grid.headings[0]] == [("cold", 2), ("hot-os", 2)]
    assert grid.starts == [True, False, True, False]


def test_axes_in_neither_rows_nor_columns_have_a_grid_per_value() -> None:
    grids = make_grids([point(command="dump", ra=""), point()], LAYOUT)
    assert [grid.title for grid in grids] == ["log", "dump"]


def test_repeated_labels_are_marked_except_the_last_axis() -> None:
    found = points(ra=["http", "svn"], repo=["ruby", "bsd"], format=["f6", "f7"])
    (grid,) = make_grids(found, LAYOUT)
    repeated = [[label.repeated for label in row.labels] for row in grid.groups[1].rows]
    assert repeated == [[False, False], [True, False], [False, False], [True, False]]


def test_place_without_a_cell_is_empty() -> None:
    (grid,) = make_grids([point(), point(cache="hot-os", format="f7"), point(format="f7")], LAYOUT)
    assert grid.groups[0].rows[0].points[1] is None and len(grid.points) == 3


def test_several_candidates_are_rows_and_a_single_one_is_in_no_title() -> None:
    single = Point({**PLAIN, "candidate": "f7"}, "measured", 1.0)
    (grid,) = make_grids([single], layout_of(RATIO, ORDER))
    assert grid.title == "log"
    compare = {"axis": "ra", "baseline": "http", "candidates": ["svn", "file"]}
    layout = layout_of({**RATIO, "compare": compare, "rows": ["candidate", "repo"]}, ORDER)
    (grid,) = make_grids([point(candidate=c) for c in ("file", "svn")], layout)
    assert labels(grid) == ["svn", "file"]


def test_matching_takes_the_places_of_the_measured_points() -> None:
    published = points(repo=["ruby", "bsd"], format=["f6", "f7"], cache=["cold", "hot-os"])
    near = matching(published, [point(), point(format="f8")], LAYOUT, ["repo"])
    assert [p.kind for p in near] == ["measured", "unpublished"]
    own = points(repo=["my-own"], format=["f6", "f7"])
    (grid,) = make_grids(matching(published, own, LAYOUT, ["repo"]), LAYOUT)
    assert labels(grid) == ["ruby f6", "ruby f7", "bsd f6", "bsd f7"]


def test_numbers_of_a_column_share_decimals_and_bars_the_largest() -> None:
    found = [point(2.5), point(10.0, format="f7"), point(0.25, cache="hot-os")]
    shown = with_numbers(found, LAYOUT, "s")
    assert [p.text for p in shown] == ["2.5", "10.0", "0.25"]
    assert [p.bar for p in shown] == [25.0, 100.0, 2.5]


def test_only_differences_have_a_colour() -> None:
    keys = {"ra": "svn", "repo": "ruby", "config": "slow", "cache": "cold", "candidate": "f7"}
    rows = [
        {"command": "log", **keys, **row(ratio=1.22)},
        {"command": "dump", **keys, **row(ratio=1.22, low=0.9, call="no difference shown")},
    ]
    clear, equal = measured_points(RATIO, rows, [])
    assert (clear.colour, equal.colour, clear.text, equal.text) == ("y3", "same", "+22", "+22")
    assert (clear.mark, equal.mark) == ("", "≈")


def test_expected_rows_pair_cells_with_skips_failures_and_flags() -> None:
    def cell(fmt: str, cache: str) -> dict[str, str]:
        skip = "no root" if (fmt, cache) == ("f6", "cold") else ""
        return {"cell": f"{fmt}/{cache}", "format": fmt, "cache": cache, "skip": skip}

    pairs = [(f, c) for c in ("cold", "hot-os") for f in ("f6", "f7")] + [("f7", "hot-svn")]
    grid = [cell(*pair) for pair in pairs]
    failures = [{"cell": "f7/hot-os", "round": 2.0, "reason": "it broke"}]
    runs = [{"cell": "f6/hot-os", "flags": "cache-not-cold too-short"}]
    cold, hot = expected_rows(RATIO, ["format", "cache"], grid, failures, runs)
    assert cold.keys == {"cache": "cold", "candidate": "f7"}
    assert (cold.cells, cold.skip) == (("f6/cold", "f7/cold"), "no root")
    assert (hot.failures, hot.flags) == (("round 2: it broke",), ("cache-not-cold",))


def test_rows_of_a_table_with_more_keys_are_points_each() -> None:
    grid = [{"cell": "log/f6", "command": "log", "format": "f6", "skip": ""}]
    expected = expected_rows({"metric": "elapsed_s"}, ["command", "format"], grid, [], [])
    rows = [row(command="log", format="f6", run=str(run), value=float(run)) for run in (1, 2)]
    rows.append(row(command="log", format="f6", run="3", value=None))
    found = measured_points({"metric": "elapsed_s", "by": ["run"]}, rows, expected)
    assert [(p.keys["run"], p.kind) for p in found] == [
        *[("1", "measured"), ("2", "measured"), ("3", "withheld")]
    ]
