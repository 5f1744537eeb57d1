"""Twins: which cells get one, where it stands, and that nothing but noise is made of it."""

from __future__ import annotations

import pandas as pd
import pytest

from unit.synthetic import make_study
from unit.test_grid import BLOCKS, STUDY, cells, here
from unit.test_tables import AXES, ELAPSED, FORMATS, frame_of, table_of
from vcsbench.evidence.measurements import collect, read_grid
from vcsbench.plan.grid import duplicate_of, is_duplicate, make_grid, original_of, variance_class
from vcsbench.plan.order import run_order

CLASS = ["command", "cache", "ra"]
LOG = {"command": "log", "format": ["f6", "f7"], "config": "slow", "cache": ["cold", "hot-os"]}


def twins_among(grid):
    return [cell.path for cell in grid if is_duplicate(cell.path)]


@pytest.mark.parametrize("per_class", [1, 2])
def test_make_grid_duplicates_per_class(per_class):
    grid = cells(LOG, duplicates=per_class)
    found = [cell for cell in grid if is_duplicate(cell.path)]
    classes = [variance_class(cell.axes, CLASS) for cell in found]
    assert sorted(classes) == sorted(
        [*{variance_class(cell.axes, CLASS) for cell in grid}] * per_class
    )
    for cell in found:
        before = grid[grid.index(cell) - 1]
        assert (before.path, before.axes) == (original_of(cell.path), cell.axes)


def test_make_grid_duplicates_0_has_none():
    assert twins_among(cells(LOG, duplicates=0)) == []


def test_make_grid_small_class_is_duplicated_whole():
    grid = cells({**LOG, "format": "f6", "packing": "pack", "ra": "svn"}, duplicates=9)
    assert len(grid) == 4


def test_make_grid_duplicates_depend_on_seed():
    assert twins_among(cells(LOG)) != twins_among(cells(LOG, seed=2, duplicates=1))
    assert twins_among(cells(LOG, duplicates=1)) == twins_among(cells(LOG, duplicates=1))


def test_make_grid_new_value_keeps_other_duplicates():
    before = {cell.path for cell in cells(LOG, duplicates=1)}
    after = {cell.path for cell in cells({**LOG, "format": ["f6", "f7", "f8"]}, duplicates=1)}
    added = {original_of(path) for path in after - before}
    assert added
    assert added.isdisjoint(before)


def test_make_grid_skipped_cell_has_no_duplicate():
    made = here(LOG)
    grid = make_grid(
        made, made.config.studies[STUDY], lambda axes: "no" if axes["ra"] == "http" else ""
    )
    assert len(twins_among(grid)) == 4
    assert not any(cell.skip for cell in grid if is_duplicate(cell.path))


def test_run_order_duplicate_is_in_block_of_original():
    grid = cells(LOG, duplicates=1)
    order = run_order(grid, BLOCKS, 3, 1)
    for cell in grid:
        if is_duplicate(cell.path):
            for number in (1, 2, 3):
                places = [
                    order[c.study, c.path, number]
                    for c in grid
                    if (c.axes["command"], c.axes["cache"]) == ("log", cell.axes["cache"])
                ]
                assert max(places) - min(places) == len(places) - 1
                assert order[cell.study, cell.path, number] in places


def test_run_order_with_duplicates_more_rounds_keep_positions():
    grid = cells(LOG, duplicates=1)
    few, many = run_order(grid, BLOCKS, 3, 1), run_order(grid, BLOCKS, 8, 1)
    assert {key: many[key] for key in few} == few


def test_run_order_within_block_differs_by_round():
    grid = cells(LOG, duplicates=1)
    order = run_order(grid, BLOCKS, 2, 1)
    first, second = (
        [path for _, path, n in sorted(order, key=order.__getitem__) if n == number]
        for number in (1, 2)
    )
    assert first != second
    assert sorted(first) == sorted(second)


def test_tables_have_no_duplicates(tmp_path):
    plain = frame_of(tmp_path / "plain", noise=0.01)
    frame = frame_of(tmp_path / "twins", noise=0.01, twins=1)
    assert frame["cell"].map(is_duplicate).sum() == 5 * 18
    # Made of other random numbers: but as many rows, and no row over more rounds than there are.
    for definition in (FORMATS, ELAPSED):
        ours = table_of(frame, definition)
        assert len(ours) == len(table_of(plain, definition))
        assert set(ours["n"]) == {5}
    # A twin that took ever so long changes no number but errors.
    wild = frame.assign(elapsed_s=frame["elapsed_s"].mask(frame["cell"].map(is_duplicate), 100.0))
    pd.testing.assert_frame_equal(table_of(wild, ELAPSED), table_of(frame, ELAPSED))
    same = ["value", "ratio", "n"]
    changed = table_of(wild, FORMATS)
    pd.testing.assert_frame_equal(changed[same], table_of(frame, FORMATS)[same])
    assert set(changed["call"]) == {"too noisy to say"}


def test_failures_name_failed_duplicate(tmp_path):
    twin = duplicate_of("log/http/ruby/f6/nopack/slow/cold")
    study = make_study(tmp_path, twins=1, failed=[(twin, 2)], rounds=2)
    axes, grid = read_grid(study.grid)
    exports = [path for path in study.exports if study.results.joinpath(path).exists()]
    logs = study.results / "logs" / "cells" / study.name
    [failure] = collect(axes, grid, 2, exports, logs).failures
    assert (failure["cell"], failure["round"]) == (twin, 2)
    assert list(AXES) == axes
