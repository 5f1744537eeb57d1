"""The grid: its cells with their duplicates, their order, and the recipes that a larger grid keeps."""

from collections import Counter
from types import SimpleNamespace

import pytest

from unit.study_grid import DEFAULT, ROOT, study_environment, study_grid
from vcsbench.__main__ import _find_cell
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.plan.grid import (
    DUPLICATE,
    CellSpec,
    is_duplicate,
    is_fixed_cost,
    make_grid,
    values_on_axes,
)
from vcsbench.plan.order import run_order
from vcsbench.plan.recipe import draft_recipe
from vcsbench.run.project import Project

STUDY = "fsfs-san-2014"
WORKING_COPIES = "working-copy-2012"
BLOCKS = {STUDY: ["command", "repo", "cache"]}
CLASS = ["command", "cache", "access"]
LOG = {"command": "log", "format": ["f6", "f7"], "config": "slow", "cache": ["cold", "hot-os"]}
COLD_LOG = {"command": "log", "config": "slow", "cache": "cold", "format": "f6"}


def cells(*include, **over):
    """Return the cells without fixed-cost cells."""
    _, grid = study_grid(STUDY, *include, **over)
    return [cell for cell in grid if not is_fixed_cost(cell.axes)]


def test_make_grid_paths_follow_axis_order_with_dash_for_inapplicable_axis():
    paths = [cell.path for cell in cells({**COLD_LOG, "access": "http"})]
    assert paths == [f"log/http/ruby/f6/{packing}/slow/cold" for packing in ("nopack", "pack")]
    (cell,) = cells({**COLD_LOG, "command": "dump", "packing": "pack"})
    assert (cell.path, cell.axes["access"]) == ("dump/-/ruby/f6/pack/slow/cold", "")


def test_make_grid_overlapping_parts_and_exclude():
    part = {"command": "log", "format": "f6", "packing": "pack", "config": "slow"}
    twice = cells(part, {**part, "cache": "cold"})
    assert len(twice) == len({cell.path for cell in twice}) == 9
    exclude = [{"access": "http", "cache": ["cold", "hot-os"]}]
    assert len(cells(grid={STUDY: {"include": [part], "exclude": exclude}})) == 7
    with pytest.raises(UserError, match="no cell"):
        cells(grid={STUDY: {"include": [LOG], "exclude": [{"command": "log"}]}})


UPDATE = {"command": "update-null", "repo": "small", "filesystem": "ext4", "reflink": "on"}


def test_make_grid_part_without_a_value_of_restrict_to_is_refused():
    why = r"include\[0\]`: update-null is measured with reflink off only \(`restrict_to`\)\. Name"
    with pytest.raises(UserError, match=why):
        study_grid(WORKING_COPIES, UPDATE)
    # Another command of the part has cells.
    _, grid = study_grid(WORKING_COPIES, {**UPDATE, "command": ["checkout", "update-null"]})
    assert {cell.axes["command"] for cell in grid} == {"checkout"}
    # What `exclude` removed is no fault of the part.
    grid = {WORKING_COPIES: {"include": [UPDATE], "exclude": [UPDATE]}}
    with pytest.raises(UserError, match=r"no cell is left\. Take .* `exclude`\."):
        study_grid(WORKING_COPIES, grid=grid)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ("svn", {(network, level) for network in ("loopback", "far") for level in ("off", "on")}),
        ("http", {("loopback", ""), ("far", "")}),
        ("file", {("", "")}),
    ],
)
def test_make_grid_default_access_decides_on_axes_of_the_network(access, expected):
    part = {"command": "checkout", "repo": "small", "filesystem": "ext4", "reflink": "off"}
    environment = study_environment(WORKING_COPIES, {**part, "pristines": "stored"})
    study = environment.config.studies[WORKING_COPIES]
    # The study has the access as a default.
    axes = {**study.axes, "network": ["loopback", "far"], "wire_compression": ["off", "on"]}
    changed = {"axes": axes, "defaults": {**study.defaults, "access": access}}
    grid = make_grid(environment, study.model_copy(update=changed), lambda axes: "")
    assert {(cell.axes["network"], cell.axes["wire_compression"]) for cell in grid} == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"cash": "cold"}, r"include\[0\]\.cash`: the study has no such axis"),
        ({"cache": "warm"}, r"'warm' .* config/studies/fsfs-san-2014\.yaml has cold"),
        ({"config": "turbo"}, "'turbo' .* config/servers has"),
        ({"repo": "kde"}, "'kde' .* `repositories` has ruby"),
    ],
)
def test_make_grid_undefined_value_is_user_error(part, expected):
    with pytest.raises(UserError, match=expected):
        cells(part)


@pytest.mark.parametrize(
    ("repositories", "rounds", "expected"),
    [
        (5000, 1, r"include\[0\]`: has 120,000 combinations"),
        (10, 10_000, "`rounds`: [0-9,]+ cell-rounds are too many"),
    ],
)
def test_grid_that_no_run_can_plan_is_refused(repositories, rounds, expected):
    ruby = {"source": "generated", "profile": "ruby", "scale": 0.01, "seed": 1}
    over = {"repositories": {f"r{n}": ruby for n in range(repositories)}, "rounds": rounds}
    grid = {STUDY: {"include": [{**LOG, "packing": ["nopack", "pack"]}]}}
    with pytest.raises(UserError, match=expected):
        Project({**read_yaml(DEFAULT), **over, "grid": grid}, ROOT, [DEFAULT])


@pytest.mark.parametrize(
    ("name", "is_skipped"),
    [("log/svn", True), ("s/log/svn", True), ("xlog/svn", False), ("other/log/svn", False)],
)
def test_name_of_a_skipped_cell_is_its_path_with_or_without_its_study(name, is_skipped):
    grids = {"s": [CellSpec("s", "log/svn", {}, "no svnserve")]}
    with pytest.raises(UserError) as caught:
        _find_cell(SimpleNamespace(grids=grids, cell_by_key={}), name)
    assert ("no svnserve" in str(caught.value)) is is_skipped


# Duplicates


@pytest.mark.parametrize("per_class", [1, 2])
def test_make_grid_duplicates_follow_originals_in_each_class(per_class):
    grid = cells(LOG, duplicates=per_class, why_skip=lambda axes: "no" * (axes["access"] == "http"))
    assert not any(cell.skip for cell in grid if is_duplicate(cell.path))
    grid = cells(LOG, duplicates=per_class)
    assert grid != cells(LOG, duplicates=per_class, seed=2)
    duplicates = [cell for cell in grid if is_duplicate(cell.path)]
    classes = {values_on_axes(cell.axes, CLASS) for cell in grid}
    counts = Counter(values_on_axes(cell.axes, CLASS) for cell in duplicates)
    assert counts == dict.fromkeys(classes, per_class)
    for cell in duplicates:
        before = grid[grid.index(cell) - 1]
        assert (before.path, before.axes) == (cell.path.removesuffix(DUPLICATE), cell.axes)


def test_make_grid_new_value_keeps_other_duplicates():
    before = {cell.path for cell in cells(LOG, duplicates=1)}
    after = {cell.path for cell in cells({**LOG, "format": ["f6", "f7", "f8"]}, duplicates=1)}
    added = {path.removesuffix(DUPLICATE) for path in after - before}
    assert added and added.isdisjoint(before)


# Order


def test_run_order_is_seeded_and_keeps_positions_of_earlier_rounds():
    grid = cells(duplicates=1)
    order = run_order(grid, BLOCKS, 3, seed=1)
    assert order == run_order(list(reversed(grid)), BLOCKS, 3, seed=1)
    assert order != run_order(grid, BLOCKS, 3, seed=2)
    many = run_order(grid, BLOCKS, 5, seed=1)
    assert {key: many[key] for key in order} == order
    assert sorted(order.values()) == list(range(3 * len(grid)))


# Recipes


@pytest.mark.parametrize(("runs", "expected"), [("auto", [1, 4, 4]), (2, [2, 2, 2])])
def test_draft_recipe_runs_and_warmups_depend_on_cache(runs, expected):
    environment = study_environment(STUDY, runs=runs)
    axes = {"command": "export", "repo": "ruby", "format": "f7", "packing": "pack"}
    study = environment.config.studies[STUDY]

    def parts(access, cache):
        point = {**axes, "access": access, "config": "slow", "cache": cache}
        return draft_recipe(study, point, environment)

    recipes = [parts("svn", cache) for cache in ("cold", "hot-os", "hot-server")]
    assert [recipe["runs"] for recipe in recipes] == expected
    # The default of a cache state must not change recipes.
    assert not any("runs" in recipe["state"] for recipe in recipes)
    warmups = [parts(access, "hot-server")["state"]["warmup"] for access in ("svn", "http", "file")]
    assert warmups == [2, 2, 1]
