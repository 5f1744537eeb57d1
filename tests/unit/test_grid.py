"""The grid: its cells, their order, and the reason for each that is skipped."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from vcsbench.axes.axis import Environment
from vcsbench.axes.client_server import why_lacking
from vcsbench.config.builds import ON_PATH
from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.plan.grid import CellSpec, is_fixed_cost, make_grid
from vcsbench.plan.order import run_order
from vcsbench.plan.recipe import parts_of
from vcsbench.run.project import open_environment

ROOT = Path(__file__).parent.parent.parent
DEFAULT = ROOT / "config" / "config.yaml"
STUDY = "fsfs-san-2014"


BLOCKS = {STUDY: ["command", "repo", "cache"]}


def here(*include: dict[str, Any], exclude: Any = (), **over: Any) -> Environment:
    """The default configuration with these parts as its grid, on this machine."""
    grid = (
        {"grid": {STUDY: {"include": list(include), "exclude": list(exclude)}}} if include else {}
    )
    return open_environment(merge(read_yaml(DEFAULT), {**grid, **over}), ROOT, [DEFAULT])


def cells(*include: dict[str, Any], **over: Any) -> list[CellSpec]:
    """The cells without twins, unless `over` wants them."""
    made = here(*include, **{"duplicates": 0, **over})
    grid = make_grid(made, made.config.studies[STUDY], lambda axes: "")
    return [cell for cell in grid if not is_fixed_cost(cell.axes)]


def test_make_grid_default_has_compared_values() -> None:
    grid = cells()
    assert 48 <= len(grid) <= 84
    for axis, wanted in {
        "command": {"log", "export"},
        "ra": {"http", "svn", "file"},
        "format": {"f6", "f7"},
        "packing": {"nopack", "pack"},
        "config": {"slow", "fast"},
        "cache": {"cold", "hot-os", "hot-svn"},
    }.items():
        assert {cell.axes[axis] for cell in grid} >= wanted
    # The server's settings are asked about where they make most of a difference.
    others = [c.axes for c in grid if c.axes["command"] not in ("log", "export")]
    assert {axes["command"] for axes in others} == {"null-export"}
    assert {axes["config"] for axes in others} == {"slow", "medium", "fast"}


def test_make_grid_paths_follow_axis_order() -> None:
    grid = cells(
        {"command": "log", "ra": "http", "format": "f6", "config": "slow", "cache": "cold"}
    )
    assert [cell.path for cell in grid] == [
        "log/http/ruby/f6/nopack/slow/cold",
        "log/http/ruby/f6/pack/slow/cold",
    ]


def test_make_grid_inapplicable_axis_is_dash_in_path() -> None:
    grid = cells(
        {"command": "dump", "format": "f6", "packing": "pack", "config": "slow", "cache": "cold"}
    )
    assert [(cell.path, cell.axes["ra"]) for cell in grid] == [
        ("dump/-/ruby/f6/pack/slow/cold", "")
    ]


def test_make_grid_overlapping_parts_and_exclude() -> None:
    part = {"command": "log", "format": "f6", "packing": "pack", "config": "slow"}
    twice = cells(part, {**part, "cache": "cold"})
    assert len(twice) == len({cell.path for cell in twice}) == 9
    assert len(cells(part, exclude=[{"ra": "http", "cache": ["cold", "hot-os"]}])) == 7


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"cash": "cold"}, "include[0].cash`: the study has no such axis"),
        ({"cache": "warm"}, "'warm' has no definition; config/studies/fsfs-san-2014.yaml has cold"),
        ({"config": "turbo"}, "'turbo' has no definition; config/servers has"),
        ({"repo": "kde"}, "'kde' has no definition; `repositories` has ruby"),
    ],
)
def test_make_grid_undefined_value_is_one_sentence(part: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as caught:
        cells(part)
    assert said in str(caught.value)


def test_make_grid_empty_is_error() -> None:
    with pytest.raises(UserError, match="no cell is left"):
        cells({"command": "log"}, exclude=[{"command": "log"}])


def test_run_order_is_seeded_and_by_block() -> None:
    grid = cells()
    order = run_order(grid, BLOCKS, 3, seed=1)
    assert order == run_order(list(reversed(grid)), BLOCKS, 3, seed=1)
    assert order != run_order(grid, BLOCKS, 3, seed=2)
    assert sorted(order.values()) == list(range(3 * len(grid)))
    last = {n: max(at for (_, _, r), at in order.items() if r == n) for n in (1, 2, 3)}
    first = {n: min(at for (_, _, r), at in order.items() if r == n) for n in (1, 2, 3)}
    assert last[1] < first[2] and last[2] < first[3]
    by_path = {cell.path: cell for cell in grid}
    for number in (1, 2, 3):
        ranked = sorted((at, path) for (_, path, r), at in order.items() if r == number)
        blocks = [
            tuple(by_path[p].axes[a] for a in ("command", "repo", "cache")) for _, p in ranked
        ]
        changes = sum(a != b for a, b in pairwise(blocks))
        assert changes == len(set(blocks)) - 1, "a block's cells run next to each other"


def test_run_order_more_rounds_keep_earlier_positions() -> None:
    grid = cells()
    few, more = run_order(grid, BLOCKS, 2, 1), run_order(grid, BLOCKS, 4, 1)
    assert all(more[key] == at for key, at in few.items())


def test_make_grid_without_httpd_skips_http_only() -> None:
    deployed = Machine(deployed=True)
    assert "mod_dav_svn" in why_lacking(ON_PATH, deployed, "{svn} log", "httpd")
    assert why_lacking(ON_PATH, deployed, "{svn} log", "svnserve") == ""


def test_parts_of_runs_auto_depends_on_cache() -> None:
    def runs(cache: str, runs: int | str, command: str = "export") -> int:
        made = here(runs=runs)
        study = made.config.studies[STUDY]
        axes = {"command": command, "ra": "svn", "repo": "ruby", "format": "f7"}
        axes |= {"packing": "pack", "config": "slow", "cache": cache}
        parts = parts_of(study, axes, made)
        assert "runs" not in parts["state"], "what the state would say makes no cell stale"
        return int(parts["runs"])

    assert [runs(cache, "auto") for cache in ("cold", "hot-os", "hot-svn")] == [1, 4, 4]
    assert [runs(cache, 2) for cache in ("cold", "hot-os", "hot-svn")] == [2, 2, 2]


def test_parts_of_without_server_has_one_warmup() -> None:
    there = here()
    axes = {"command": "log", "repo": "ruby", "format": "f7", "packing": "pack", "config": "fast"}
    study = there.config.studies[STUDY]

    def warmup(ra: str, cache: str) -> int:
        state: dict[str, Any] = parts_of(study, {**axes, "ra": ra, "cache": cache}, there)["state"]
        assert "warmup_of_server" not in state
        return int(state["warmup"])

    assert [warmup(ra, "hot-svn") for ra in ("svn", "http", "file")] == [2, 2, 1]
    assert [warmup(ra, "hot-os") for ra in ("svn", "http", "file")] == [1, 1, 1]
