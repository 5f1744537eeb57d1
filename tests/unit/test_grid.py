"""The grid: its cells with their duplicates, their order, and the recipes that a larger grid keeps."""

import pytest

from unit.study_grid import DEFAULT, ROOT, merge, study_environment, study_grid
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.plan.grid import DUPLICATE, is_duplicate, is_fixed_cost, variance_class
from vcsbench.plan.plan import run_order
from vcsbench.plan.recipe import parts_of
from vcsbench.run.project import Project

STUDY = "fsfs-san-2014"
BLOCKS = {STUDY: ["command", "repo", "cache"]}
CLASS = ["command", "cache", "ra"]
LOG = {"command": "log", "format": ["f6", "f7"], "config": "slow", "cache": ["cold", "hot-os"]}
COLD_LOG = {"command": "log", "config": "slow", "cache": "cold", "format": "f6"}


def cells(*include, **over):
    """Return the cells without fixed-cost cells."""
    _, grid = study_grid(STUDY, *include, **over)
    return [cell for cell in grid if not is_fixed_cost(cell.axes)]


def duplicates_of(grid):
    return [cell.path for cell in grid if is_duplicate(cell.path)]


def test_make_grid_paths_follow_axis_order_with_dash_for_inapplicable_axis():
    paths = [cell.path for cell in cells({**COLD_LOG, "ra": "http"})]
    assert paths == [f"log/http/ruby/f6/{packing}/slow/cold" for packing in ("nopack", "pack")]
    (cell,) = cells({**COLD_LOG, "command": "dump", "packing": "pack"})
    assert (cell.path, cell.axes["ra"]) == ("dump/-/ruby/f6/pack/slow/cold", "")


def test_make_grid_overlapping_parts_and_exclude():
    part = {"command": "log", "format": "f6", "packing": "pack", "config": "slow"}
    twice = cells(part, {**part, "cache": "cold"})
    assert len(twice) == len({cell.path for cell in twice}) == 9
    exclude = [{"ra": "http", "cache": ["cold", "hot-os"]}]
    assert len(cells(grid={STUDY: {"include": [part], "exclude": exclude}})) == 7
    with pytest.raises(UserError, match="no cell"):
        cells(grid={STUDY: {"include": [LOG], "exclude": [{"command": "log"}]}})


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"cash": "cold"}, "include[0].cash`: the study has no such axis"),
        ({"cache": "warm"}, "'warm' has no definition; config/studies/fsfs-san-2014.yaml has cold"),
        ({"config": "turbo"}, "'turbo' has no definition; config/servers has"),
        ({"repo": "kde"}, "'kde' has no definition; `repositories` has ruby"),
        ({"repo": ["ruby"] * 99_000}, "include[0].repo`: '['ruby', "),
    ],
)
def test_make_grid_undefined_value_is_user_error(part, expected):
    with pytest.raises(UserError) as caught:
        cells(part)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("repositories", "rounds", "expected"),
    [
        (5000, 1, r"include\[0\]`: has 120,000 combinations of values\."),
        (10, 10_000, r"`rounds`: [0-9,]+ cell-rounds are too many to plan\."),
    ],
)
def test_grid_that_no_run_can_plan_is_refused(repositories, rounds, expected):
    ruby = {"source": "generated", "profile": "ruby", "scale": 0.01, "seed": 1}
    over = {"repositories": {f"r{n}": ruby for n in range(repositories)}, "rounds": rounds}
    grid = {STUDY: {"include": [{**LOG, "packing": ["nopack", "pack"]}]}}
    with pytest.raises(UserError, match=expected):
        Project({**read_yaml(DEFAULT), **over, "grid": grid}, ROOT, [DEFAULT])


# Duplicates


@pytest.mark.parametrize("per_class", [1, 2])
def test_make_grid_duplicates_follow_originals_in_each_class(per_class):
    grid = cells(LOG, duplicates=per_class)
    duplicates = [cell for cell in grid if is_duplicate(cell.path)]
    classes = {variance_class(cell.axes, CLASS) for cell in grid}
    assert sorted(variance_class(cell.axes, CLASS) for cell in duplicates) == sorted(
        [*classes] * per_class
    )
    for cell in duplicates:
        before = grid[grid.index(cell) - 1]
        assert (before.path, before.axes) == (cell.path.removesuffix(DUPLICATE), cell.axes)


def test_make_grid_duplicates_depend_on_seed_and_number():
    first = duplicates_of(cells(LOG, duplicates=1))
    assert first == duplicates_of(cells(LOG, duplicates=1))
    assert first != duplicates_of(cells(LOG, seed=2, duplicates=1))
    assert duplicates_of(cells(LOG, duplicates=0)) == []
    # A small class is duplicated whole.
    assert len(cells({**LOG, "format": "f6", "packing": "pack", "ra": "svn"}, duplicates=9)) == 4


def test_make_grid_new_value_keeps_other_duplicates():
    before = {cell.path for cell in cells(LOG, duplicates=1)}
    after = {cell.path for cell in cells({**LOG, "format": ["f6", "f7", "f8"]}, duplicates=1)}
    added = {path.removesuffix(DUPLICATE) for path in after - before}
    assert added and added.isdisjoint(before)


def test_make_grid_skipped_cell_has_no_duplicate():
    grid = cells(LOG, duplicates=1, why_skip=lambda axes: "no" if axes["ra"] == "http" else "")
    assert len(duplicates_of(grid)) == 4
    assert not any(cell.skip for cell in grid if is_duplicate(cell.path))


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

PART = {
    **{"command": "log", "ra": ["file", "svn"], "format": "f7", "packing": "nopack"},
    **{"config": "slow", "cache": ["cold", "hot-svn"]},
}


def jobs(part, rounds=2):
    """Return the recipe and the input files of each cell-round."""
    grid = {STUDY: {"include": [{**part}]}}
    keys = {"studies": [STUDY], "grid": grid, "rounds": rounds, "duplicates": 0, "minutes": None}
    project = Project(merge(read_yaml(DEFAULT), keys), ROOT, [DEFAULT])
    return {
        (path, number): (project.plan.recipe_json(study, path), *project.records(study, path))
        for study, path, number in project.plan.order
        if "/empty/" not in path
    }


def test_recipes_new_axis_value_or_round_keeps_others(monkeypatch):
    monkeypatch.chdir(ROOT)
    before, after = jobs(PART), jobs({**PART, "format": ["f7", "f8"]})
    assert len(before) == 8
    assert {key: after[key] for key in before} == before
    added = {path for path, _ in after.keys() - before.keys()}
    assert len(added) == 4 and all("/f8/" in path for path in added)
    longer = jobs(PART, rounds=3)
    assert {key: longer[key] for key in before} == before
    assert [number for _, number in longer.keys() - before.keys()] == [3] * 4


def parts(ra, cache, command="log", **over):
    environment = study_environment(STUDY, **over)
    axes = {"command": command, "ra": ra, "repo": "ruby", "format": "f7", "packing": "pack"}
    axes |= {"config": "slow", "cache": cache}
    return parts_of(environment.config.studies[STUDY], axes, environment)


@pytest.mark.parametrize(("runs", "expected"), [("auto", [1, 4, 4]), (2, [2, 2, 2])])
def test_parts_of_runs_auto_depends_on_cache(runs, expected):
    recipes = [parts("svn", c, "export", runs=runs) for c in ("cold", "hot-os", "hot-svn")]
    assert [recipe["runs"] for recipe in recipes] == expected
    # The default of a cache state must not change recipes.
    assert not any("runs" in recipe["state"] for recipe in recipes)


@pytest.mark.parametrize(("cache", "expected"), [("hot-svn", [2, 2, 1]), ("hot-os", [1, 1, 1])])
def test_parts_of_without_server_has_one_warmup(cache, expected):
    states = [parts(ra, cache)["state"] for ra in ("svn", "http", "file")]
    assert [state["warmup"] for state in states] == expected
    assert not any("warmup_of_server" in state for state in states)
