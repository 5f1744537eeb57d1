"""Grids: a table's rows laid out as the study's definition says."""

from __future__ import annotations

from typing import Any

from vcsbench.report.grids import Grid, Point, layout_of, make_grids, matching, with_numbers
from vcsbench.report.points import measured_points
from vcsbench.report.wanted import wanted_rows
from vcsbench.statistics.contract import keys_of

ORDER = {
    "command": ["log", "dump"],
    "ra": ["http", "svn"],
    "repo": ["ruby", "bsd"],
    "format": ["f6", "f7"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os"],
}
ELAPSED: dict[str, Any] = {
    "metric": "elapsed_s",
    "rows": ["ra", "repo", "format"],
    "columns": ["cache", "config"],
}
RATIO: dict[str, Any] = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    "rows": ["ra", "repo"],
    "columns": ["cache", "config"],
}


def point(**keys: str) -> Point:
    whole = {
        "command": "log",
        "ra": "svn",
        "repo": "ruby",
        "format": "f6",
        "config": "slow",
        "cache": "cold",
    }
    return Point({**whole, **keys}, "measured", 1.0)


def labels(grid: Grid) -> list[str]:
    return [
        " ".join(filter(None, [group.title, *(label.text for label in row.labels)]))
        for group in grid.groups
        for row in group.rows
    ]


def row(**values: Any) -> dict[str, Any]:
    usual = {"value": 10.0, "ratio": 1.1, "low": 1.05, "high": 1.15, "n": 5.0, "flags": ""}
    usual |= {"call": "faster", "within": 1.15, "detectable": 1.08}
    return {**usual, **values}


def test_values_stand_in_the_studys_order_whatever_that_of_the_rows() -> None:
    points = [
        point(ra=ra, format=f, config=config)
        for ra in ("svn", "http")
        for f in ("f7", "f6")
        for config in ("fast", "slow")
    ]
    [grid] = make_grids(points, layout_of(ELAPSED, ORDER))
    assert labels(grid) == ["http f6", "http f7", "svn f6", "svn f7"]
    assert [heading.text for heading in grid.headings[1]] == ["slow", "fast"]
    assert grid.constant == [("repo", "ruby")]


def test_headings_join_neighbours_and_blocks_begin_with_them() -> None:
    points = [point(cache=c, config=k) for c in ("cold", "hot-os") for k in ("slow", "fast")]
    [grid] = make_grids(points, layout_of(ELAPSED, ORDER))
    assert [(h.text, h.span) for h in grid.headings[0]] == [("cold", 2), ("hot-os", 2)]
    assert grid.starts == [True, False, True, False]


def test_one_grid_per_remaining_axis_value() -> None:
    grids = make_grids([point(command="dump", ra=""), point()], layout_of(ELAPSED, ORDER))
    assert [grid.title for grid in grids] == ["log", "dump"]


def test_repeated_labels_are_marked_but_never_the_last() -> None:
    points = [
        point(ra=ra, repo=r, format=f)
        for ra in ("http", "svn")
        for r in ("ruby", "bsd")
        for f in ("f6", "f7")
    ]
    [grid] = make_grids(points, layout_of(ELAPSED, ORDER))
    repeated = [[label.repeated for label in row.labels] for row in grid.groups[1].rows]
    assert repeated == [[False, False], [True, False], [False, False], [True, False]]


def test_place_without_a_cell_is_empty() -> None:
    points = [point(), point(cache="hot-os", format="f7"), point(format="f7")]
    [grid] = make_grids(points, layout_of(ELAPSED, ORDER))
    assert grid.groups[0].rows[0].points[1] is None
    assert len(grid.points) == 3


def test_only_candidate_is_not_in_titles_but_several_are_rows() -> None:
    keys = {"command": "log", "ra": "svn", "repo": "ruby", "config": "slow", "cache": "cold"}
    [grid] = make_grids(
        [Point({**keys, "candidate": "f7"}, "measured", 1.0)], layout_of(RATIO, ORDER)
    )
    assert grid.title == "log"
    several = {
        "compare": {"axis": "ra", "baseline": "http", "candidates": ["svn", "file"]},
        "rows": ["candidate", "repo"],
        "columns": ["cache", "config"],
    }
    points = [
        Point({**keys, "format": "f6", "candidate": c}, "measured", 1.0) for c in ("file", "svn")
    ]
    [grid] = make_grids(points, layout_of(several, ORDER))
    assert labels(grid) == ["svn", "file"]


def test_published_grid_takes_the_measured_ones_rows_and_columns() -> None:
    layout = layout_of(ELAPSED, ORDER)
    published = [
        point(repo=r, format=f, cache=c)
        for r in ("ruby", "bsd")
        for f in ("f6", "f7")
        for c in ("cold", "hot-os")
    ]
    [whole] = make_grids(published, layout)
    [ours] = make_grids([point(), point(format="f8")], layout)
    [beside] = make_grids(matching(whole, ours, layout, ["repo"]), layout)
    assert labels(beside) == ["f6", "f8"]
    assert [p.kind for p in beside.points] == ["measured", "unpublished"]
    [own] = make_grids([point(repo="my-own"), point(repo="my-own", format="f7")], layout)
    [beside] = make_grids(matching(whole, own, layout, ["repo"]), layout)
    assert labels(beside) == ["ruby f6", "ruby f7", "bsd f6", "bsd f7"]


def test_numbers_of_a_column_share_decimals_and_bars_a_scale() -> None:
    points = [
        Point(point(format=f, cache=c).keys, "measured", value)
        for f, c, value in (("f6", "cold", 2.5), ("f7", "cold", 10.0), ("f6", "hot-os", 0.25))
    ]
    [grid] = make_grids(points, layout_of(ELAPSED, ORDER))
    shown = {(p.keys["format"], p.keys["cache"]): p for p in with_numbers(grid, "s").points}
    assert {key: p.text for key, p in shown.items()} == {
        ("f6", "cold"): "2.5",
        ("f7", "cold"): "10.0",
        ("f6", "hot-os"): "0.25",
    }
    assert [shown["f6", "cold"].bar, shown["f7", "cold"].bar] == [25.0, 100.0]


def test_only_differences_are_coloured() -> None:
    keys = {"ra": "svn", "repo": "ruby", "config": "slow", "cache": "cold", "candidate": "f7"}
    rows = [
        {"command": "log", **keys, **row(ratio=1.22)},
        {"command": "dump", **keys, **row(ratio=1.22, low=0.9, call="no difference shown")},
    ]
    clear, unclear = measured_points(RATIO, rows, [])
    assert (clear.colour, unclear.colour) == ("y3", "same")
    assert clear.text == unclear.text == "+22"
    assert keys_of(rows[0]) == {"command": "log", **keys}


def test_wanted_rows_pair_cells_and_carry_what_befell_either() -> None:
    axes = ["format", "cache"]
    grid = [
        {
            "cell": f"{f}/{c}",
            "format": f,
            "cache": c,
            "skip": "no root" if (f, c) == ("f6", "cold") else "",
        }
        for c in ("cold", "hot-os", "hot-svn")
        for f in ("f6", "f7")
        if (f, c) != ("f6", "hot-svn")
    ]
    failures = [{"cell": "f7/hot-os", "round": 2.0, "reason": "it broke"}]
    runs = [{"cell": "f6/hot-os", "flags": "cache-not-cold too-short"}]
    cold, hot = wanted_rows(RATIO, axes, grid, failures, runs)
    assert cold.keys == {"cache": "cold", "candidate": "f7"}
    assert (cold.cells, cold.skip) == (("f6/cold", "f7/cold"), "no root")
    assert (hot.failures, hot.false) == (("round 2: it broke",), ("cache-not-cold",))


def test_rows_that_a_table_tells_apart_beside_its_axes_are_points_each() -> None:
    grid = [{"cell": "log/f6", "command": "log", "format": "f6", "skip": ""}]
    wanted = wanted_rows({"metric": "elapsed_s"}, ["command", "format"], grid, [], [])
    rows = [row(command="log", format="f6", run=str(run), value=float(run)) for run in (1, 2)]
    rows.append(row(command="log", format="f6", run="3", value=None))
    points = measured_points({"metric": "elapsed_s", "by": ["run"]}, rows, wanted)
    assert [(p.keys["run"], p.kind) for p in points] == [
        *[("1", "measured"), ("2", "measured"), ("3", "withheld")]
    ]
