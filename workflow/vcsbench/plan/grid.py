"""Make the grid of a study: its cells, their duplicates, and the cells that measure fixed cost."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from vcsbench.axes import axis_of, measured_values
from vcsbench.axes.axis import Environment
from vcsbench.axes.cache_states import CACHE_AXIS, warmest_first
from vcsbench.config.configuration import EMPTY
from vcsbench.config.study import Study, matches_cell, path_part

# A duplicate has its original's path with this suffix. Tables use originals only; the difference of the two
# is systematic noise.
DUPLICATE = "~2"
# The published studies have up to 1,620.
MOST_CELLS = 50_000

REPOSITORY_AXIS, FORMAT_AXIS, PACKING_AXIS = "repo", "format", "packing"
# Fixed cost does not depend on the storage of a repository and on the contents of memory.
NOT_FIXED = {
    *(REPOSITORY_AXIS, CACHE_AXIS, FORMAT_AXIS, PACKING_AXIS),
    *("storage", "filesystem", "reflink", "pristines"),
}
EMPTY_FORMATS = ("f8", "f7")

AxisValues = Mapping[str, str]
WhySkip = Callable[[AxisValues], str]
Row = TypeVar("Row", bound=Mapping[str, object])


@dataclass(frozen=True)
class CellSpec:
    """One point of the grid. `axes` has "" for an axis that does not apply; `skip` is "" or a reason."""

    study: str
    path: str
    axes: dict[str, str]
    skip: str = ""


def make_grid(env: Environment, study: Study, why_skip: WhySkip) -> list[CellSpec]:
    """Return the cells of a study in the order of its axes, each duplicate after its original, then the
    fixed-cost cells.

    `why_skip` returns why this machine cannot measure a cell with the given axes, or "".
    """
    config, values = env.config, measured_values(study, env)
    points: dict[str, dict[str, str]] = {}
    for axes in _points(env, study, values):
        points.setdefault(_path(axes), axes)
    if not points:
        text = "no cell is left. Take something out of its `exclude`."
        raise config.error(["grid", study.name], text)
    rank = {axis: {value: i for i, value in enumerate(["", *values[axis]])} for axis in values}
    order = sorted(points.items(), key=lambda item: [rank[a][v] for a, v in item[1].items()])
    cells = [CellSpec(study.name, path, axes, why_skip(axes)) for path, axes in order]
    measured = {cell.path: cell.axes for cell in cells if not cell.skip}
    settings = config.settings
    twice = _chosen_duplicates(measured, study.variance_group, settings.duplicates, settings.seed)
    grid = []
    for cell in cells:
        grid.append(cell)
        if cell.path in twice:
            grid.append(replace(cell, path=cell.path + DUPLICATE))
    if settings.server:
        return grid
    fixed = fixed_cost_points(study, measured.values(), values.get(CACHE_AXIS, []), why_skip)
    return grid + [CellSpec(study.name, _path(axes), axes) for axes in fixed]


def _path(axes: AxisValues) -> str:
    return "/".join(path_part(value) for value in axes.values())


def _points(
    env: Environment, study: Study, values: Mapping[str, list[str]]
) -> list[dict[str, str]]:
    grid = env.config.settings.grid[study.name]
    include, exclude = (
        [_entry(env, study, values, (kind, i), e) for i, e in enumerate(getattr(grid, kind))]
        for kind in ("include", "exclude")
    )
    points = []
    for index, entry in enumerate(include):
        number = math.prod(len(entry.get(axis, values[axis])) for axis in values)
        if number > MOST_CELLS:
            text = f"has {number:,} combinations of values. Name values of more axes: at most {MOST_CELLS:,}."
            raise env.config.error(["grid", study.name, "include", index], text)
        for combination in product(*(entry.get(axis, values[axis]) for axis in values)):
            axes = dict(zip(values, combination, strict=True))
            if any(matches_cell(axes, part) for part in exclude):
                continue
            command = study.command(axes)
            if not matches_cell(axes, command.restrict_to or {}):
                continue
            axes |= dict.fromkeys(command.inapplicable_axes or [], "")
            points.append({a: v if axis_of(a).applies(axes) else "" for a, v in axes.items()})
    return points


def _entry(
    env: Environment,
    study: Study,
    values: Mapping[str, list[str]],
    place: tuple[str, int],
    configured: Mapping[str, str | list[str]],
) -> dict[str, list[str]]:
    entry: dict[str, list[str]] = {}
    for axis, named in configured.items():
        keys: list[str | int] = ["grid", study.name, *place, axis]
        if axis not in values:
            text = f"the study has no such axis. It has {', '.join(values)}."
            raise env.config.error(keys, text)
        names = [named] if isinstance(named, str) else list(named)
        entry[axis] = axis_of(axis).select(names, values[axis], env)
        for value in entry[axis]:
            if value not in values[axis]:
                source = axis_of(axis).defined_in(study)
                raise env.config.error(
                    keys, f"{value!r} has no definition. {source} has {', '.join(values[axis])}."
                )
    return entry


def is_duplicate(path: str) -> bool:
    return path.endswith(DUPLICATE)


def originals(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not is_duplicate(str(row["cell"]))]


def variance_class(axes: AxisValues, variance_group: Sequence[str]) -> tuple[str, ...]:
    return tuple(axes.get(axis, "") for axis in variance_group)


def _chosen_duplicates(
    cells: Mapping[str, AxisValues], variance_group: Sequence[str], per_class: int, seed: int
) -> set[str]:
    """Return the paths of the cells with a duplicate: `per_class` of each class.

    They have the smallest digests of seed and path, so a new cell replaces at most one of them.
    """
    draws = {path: hashlib.sha256(f"{seed}/{path}".encode()).digest() for path in cells}
    classes: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(cells, key=draws.__getitem__):
        classes.setdefault(variance_class(cells[path], variance_group), []).append(path)
    return {path for paths in classes.values() for path in paths[:per_class]}


def is_fixed_cost(axes: AxisValues) -> bool:
    return axes.get(REPOSITORY_AXIS) == EMPTY


def fixed_cost_points(
    study: Study, cells: Iterable[AxisValues], caches: Sequence[str], why_skip: WhySkip
) -> list[dict[str, str]]:
    """Return the axis values of fixed-cost cells: the commands on an empty repository.

    Cells that differ only in the axes NOT_FIXED share one. A command that fails there, or that this machine
    cannot measure there, has none. `caches` are the values of the axis `cache`.
    """
    chosen: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for axes in cells:
        key = tuple((axis, value) for axis, value in axes.items() if axis not in NOT_FIXED)
        fails = study.command(axes).fixed_cost is False
        if fails or not axes.get(REPOSITORY_AXIS) or key in chosen:
            continue
        choices = {
            REPOSITORY_AXIS: [EMPTY],
            PACKING_AXIS: ["nopack"],
            FORMAT_AXIS: [axes.get(FORMAT_AXIS, ""), *EMPTY_FORMATS],
            CACHE_AXIS: [*warmest_first(caches), axes.get(CACHE_AXIS, "")],
        }
        values = (choices[axis] if axis in choices and v else [v] for axis, v in axes.items())
        points = (dict(zip(axes, point, strict=True)) for point in product(*values))
        if point := next((point for point in points if not why_skip(point)), None):
            chosen[key] = point
    return list(chosen.values())
