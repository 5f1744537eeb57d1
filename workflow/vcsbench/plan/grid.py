"""Make the grid of a study: its cells, their duplicates, and the cells that measure fixed cost."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, TypeVar

from vcsbench import axis_names
from vcsbench.axes import axis_of, measured_values
from vcsbench.axes.axis import Environment
from vcsbench.axes.cache_states import warmest_first
from vcsbench.config.configuration import EMPTY
from vcsbench.config.study import Command, Study, axis_values, matches_cell, path_part

# A duplicate is a second cell with the axes of another one, its original. It is measured like any other cell,
# and has the path of its original with this suffix. Tables use originals only. A difference between the two
# is no effect of an axis, so it shows the noise between cells.
DUPLICATE = "~2"
# The published studies have up to 1,620.
MOST_CELLS = 50_000

# Fixed cost is the same for all values of these axes: it depends neither on the storage of a repository nor
# on the contents of memory.
SAME_FIXED_COST = {
    axis_names.REPOSITORY_AXIS,
    axis_names.CACHE_AXIS,
    axis_names.FORMAT_AXIS,
    axis_names.PACKING_AXIS,
    axis_names.STORAGE_AXIS,
    axis_names.FILESYSTEM_AXIS,
    axis_names.REFLINK_AXIS,
    axis_names.PRISTINES_AXIS,
    axis_names.UPKEEP_AXIS,
    axis_names.REFS_AXIS,
    axis_names.REF_STORAGE_AXIS,
}
EMPTY_FORMATS = ("f8", "f7")
# The restricted commands that an error names.
MOST_REASONS = 3

# By axis: {"command": "log", "cache": "cold"}. An axis that does not apply has "".
AxisValues = Mapping[str, str]
WhySkip = Callable[[AxisValues], str]
Row = TypeVar("Row", bound=Mapping[str, object])


@dataclass(frozen=True)
class CellSpec:
    """One point of the grid.

    `path` has the values of the axes, for example "log/ruby/f7/svn/cold". `axes` has "" for an axis that does
    not apply. `skip` is the reason why the cell is not measured here, or "".
    """

    study: str
    path: str
    axes: dict[str, str]
    skip: str = ""


def make_grid(env: Environment, study: Study, why_skip: WhySkip) -> list[CellSpec]:
    """Return the cells of a study, also those that are skipped here.

    First come the cells of the configured grid, in the order of the values of its axes. Some are followed by
    their duplicate. The cells on the empty repository, which measure fixed cost, are last. `why_skip` returns
    why this machine cannot measure a cell with given values of axes; "" if it can. Raise UserError if the
    configuration of the grid is wrong, or excludes all cells.
    """
    settings = env.config.settings
    # In the order of the study: {"command": ["log", "export"], "format": ["f7"]}.
    values = measured_values(study, env)
    # A point has the values of one cell: {"command": "log", "format": "f7"}.
    points = _read_points(env, study, values)
    cells = []
    for axes in _sort_points(points, values):
        cells.append(CellSpec(study.name, _path(axes), axes, skip=why_skip(axes)))
    measured = {cell.path: cell.axes for cell in cells if not cell.skip}
    duplicated = _choose_duplicates(
        measured, study.variance_group, settings.duplicates, settings.seed
    )
    grid = []
    for cell in cells:
        grid.append(cell)
        if cell.path in duplicated:
            grid.append(replace(cell, path=cell.path + DUPLICATE))
    # A server on another machine has no empty repository.
    if not settings.server:
        caches = values.get(axis_names.CACHE_AXIS, [])
        for axes in fixed_cost_points(study, measured.values(), caches, why_skip):
            grid.append(CellSpec(study.name, _path(axes), axes))
    return grid


def _sort_points(
    points: Iterable[dict[str, str]], values: Mapping[str, list[str]]
) -> list[dict[str, str]]:
    """Return the points in the order of the values of their first axis, then of the second axis, and so on.

    `values` has the values of each axis in their order. The value "", of an axis that does not apply, comes
    first. Equal points are in the result once.
    """
    # By axis, the place of each value: {"format": {"": 0, "f6": 1, "f7": 2}}.
    ranks: dict[str, dict[str, int]] = {}
    for axis, names in values.items():
        ranks[axis] = {value: rank for rank, value in enumerate(["", *names])}

    def ranks_of_point(axes: AxisValues) -> list[int]:
        # All points have the axes in the same order.
        return [ranks[axis][value] for axis, value in axes.items()]

    # Equal points have the same path.
    point_by_path = {_path(axes): axes for axes in points}
    return sorted(point_by_path.values(), key=ranks_of_point)


def _path(axes: AxisValues) -> str:
    return "/".join(path_part(value) for value in axes.values())


def _read_points(
    env: Environment, study: Study, values: Mapping[str, list[str]]
) -> list[dict[str, str]]:
    """Return the points of a study's grid: the axis values of each cell that the configuration selects.

    A point is, for example, {"command": "log", "format": "f7"}. A part of `include`, such as {"format":
    ["f6"]}, stands for all points with this format, and with any of the `values` on all other axes. Points
    are left out if a part of `exclude` matches them, or if the `restrict_to` of their command forbids them. A
    point that two parts include is in the result twice.

    Raise UserError for a wrong or too large part, for a part that `restrict_to` alone has emptied, and if no
    point is left.
    """
    grid = env.config.settings.grid[study.name]
    excluded_parts = []
    for index, configured in enumerate(grid.exclude):
        excluded_parts.append(_read_part(env, study, values, ("exclude", index), configured))
    points: list[dict[str, str]] = []
    has_excluded = False
    for index, configured in enumerate(grid.include):
        keys: list[str | int] = ["grid", study.name, "include", index]
        part = _read_part(env, study, values, ("include", index), configured)
        # The values of the part's points on each axis of the study.
        choices = {axis: part.get(axis, values[axis]) for axis in values}
        # After a slip in the configuration, there may be millions of points.
        number = math.prod(len(names) for names in choices.values())
        if number > MOST_CELLS:
            text = f"has {number:,} combinations of values. Name values of more axes: at most {MOST_CELLS:,}."
            raise env.config.error(keys, text)
        selection = _select_points(study, choices, excluded_parts)
        # A part that has forbidden points only is a mistake. A part with excluded points may be empty.
        has_other_points = bool(selection.points) or selection.has_excluded
        if selection.restricted and not has_other_points:
            raise env.config.error(keys, _why_restricted(selection.restricted))
        points += selection.points
        has_excluded = has_excluded or selection.has_excluded
    if not points:
        remedy = "Take something out of its `exclude`" if has_excluded else "Name other values"
        raise env.config.error(["grid", study.name], f"no cell is left. {remedy}.")
    return points


class _Selection(NamedTuple):
    """The points of a part of a grid that are measured, and the reasons why others are left out.

    - `has_excluded`: a part of `exclude` matches some points.
    - `restricted`: the commands whose `restrict_to` forbids some points, by their names.
    """

    points: list[dict[str, str]]
    has_excluded: bool
    restricted: dict[str, Command]


def _select_points(
    study: Study,
    choices: Mapping[str, Sequence[str]],
    excluded_parts: Sequence[Mapping[str, list[str]]],
) -> _Selection:
    """Return the points with one of the `choices` on each axis, without excluded and forbidden ones."""
    points = []
    has_excluded = False
    restricted: dict[str, Command] = {}
    for combination in product(*choices.values()):
        axes = dict(zip(choices, combination, strict=True))
        if any(matches_cell(axes, excluded) for excluded in excluded_parts):
            has_excluded = True
            continue
        command = study.command(axes)
        if command.restrict_to is not None and not matches_cell(axes, command.restrict_to):
            restricted[study.command_name(axes)] = command
            continue
        points.append(_without_inapplicable(study, command, axes))
    return _Selection(points, has_excluded, restricted)


def _without_inapplicable(study: Study, command: Command, axes: AxisValues) -> dict[str, str]:
    """Return the axis values of a cell with "" for each axis that does not apply to the cell.

    The command names some of these axes. Others do not apply because of other values: over the access `file`
    there is no network, also if `access` is no axis of the study, but one of its defaults.
    """
    inapplicable = list(command.inapplicable_axes or ())
    values = {**axes, **dict.fromkeys(inapplicable, "")}
    # As in draft_recipe(), the cell's values replace defaults, but its empty values do not.
    chosen = {axis: value for axis, value in values.items() if value}
    effective = {**values, **study.defaults, **(command.defaults or {}), **chosen}
    inapplicable += [axis for axis in values if not axis_of(axis).applies(effective)]
    return values | dict.fromkeys(inapplicable, "")


def _why_restricted(commands: Mapping[str, Command]) -> str:
    """Return the sentences on a part of a grid whose commands have no cell with its values.

    For example: "requests is measured with committers 0 only (`restrict_to`). Name such values, or ...".
    """
    reasons = []
    for name, command in commands.items():
        limits = []
        for axis, selected in (command.restrict_to or {}).items():
            limits.append(f"{axis} {', '.join(axis_values(selected))}")
        reasons.append(f"{name} is measured with {' and '.join(limits)} only (`restrict_to`)")
    listed = reasons[:MOST_REASONS]
    if len(reasons) > MOST_REASONS:
        listed.append(f"and {len(reasons) - MOST_REASONS} more")
    return f"{'; '.join(listed)}. Name such values, or remove this part."


def _read_part(
    env: Environment,
    study: Study,
    values: Mapping[str, list[str]],
    place: tuple[str, int],
    configured: Mapping[str, str | list[str]],
) -> dict[str, list[str]]:
    """Return one part of a grid with a list of values for each axis that it names.

    {"format": "f7", "cache": ["hot"]} becomes {"format": ["f7"], "cache": ["hot"]}. `values` has all values
    of the study's axes. `place` is the list of the grid that has the part, and the index in this list, such
    as ("include", 0). Raise UserError for an axis or value that `values` lacks.
    """
    part: dict[str, list[str]] = {}
    for axis, configured_values in configured.items():
        keys: list[str | int] = ["grid", study.name, *place, axis]
        if axis not in values:
            text = f"the study has no such axis. It has {', '.join(values)}."
            raise env.config.error(keys, text)
        names = axis_values(configured_values)
        # The axis replaces a name that stands for a value on this machine: `current` becomes f8, for example.
        part[axis] = axis_of(axis).select(names, values[axis], env)
        for value in part[axis]:
            if value not in values[axis]:
                source = axis_of(axis).defined_in(study)
                text = f"{value!r} has no definition. {source} has {', '.join(values[axis])}."
                raise env.config.error(keys, text)
    return part


def is_duplicate(path: str) -> bool:
    return path.endswith(DUPLICATE)


def originals(rows: Iterable[Row]) -> list[Row]:
    """Return the rows without the duplicates' rows."""
    return [row for row in rows if not is_duplicate(str(row["cell"]))]


def values_on_axes(axes: AxisValues, names: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a cell on the axes `names`: ("log", "cold"); "" for an axis that it lacks."""
    return tuple(axes.get(name, "") for name in names)


def _choose_duplicates(
    cells: Mapping[str, AxisValues], variance_group: Sequence[str], per_class: int, seed: int
) -> set[str]:
    """Return the paths of the cells that get a duplicate: `per_class` cells of each class.

    A class has the cells with the same values on the axes `variance_group`: their times scatter alike. The
    cells with the smallest digests of seed and path are chosen. So the choice looks random, and a cell that
    is added to the grid replaces at most one chosen cell of its class.
    """
    digests = {path: hashlib.sha256(f"{seed}/{path}".encode()).digest() for path in cells}
    classes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for path in sorted(cells, key=lambda path: digests[path]):
        classes[values_on_axes(cells[path], variance_group)].append(path)
    chosen: set[str] = set()
    for paths in classes.values():
        chosen.update(paths[:per_class])
    return chosen


def is_fixed_cost(axes: AxisValues) -> bool:
    return axes.get(axis_names.REPOSITORY_AXIS) == EMPTY


def fixed_cost_points(
    study: Study, cells: Iterable[AxisValues], caches: Sequence[str], why_skip: WhySkip
) -> list[dict[str, str]]:
    """Return the axis values of the cells that measure the fixed cost of `cells`.

    Fixed cost is the time of the same command on an empty repository. It does not depend on the axes
    SAME_FIXED_COST, such as format and cache state. So cells that differ only there share one cell of fixed
    cost. That cell may have any format, and any of the cache states `caches`. Of these candidates, the best
    one that this machine can measure is taken. If it can measure none, the fixed cost is not measured.
    """
    # By the values of a cell on all other axes than SAME_FIXED_COST: {(("command", "log"), ...): {...}}.
    point_by_group: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for axes in cells:
        group = tuple((axis, value) for axis, value in axes.items() if axis not in SAME_FIXED_COST)
        if group in point_by_group:
            continue
        if not _has_fixed_cost(study.command(axes), axes):
            continue
        for candidate in _fixed_cost_candidates(axes, caches):
            is_measurable = not why_skip(candidate)
            if is_measurable:
                point_by_group[group] = candidate
                break
    return list(point_by_group.values())


def _has_fixed_cost(command: Command, axes: AxisValues) -> bool:
    """Return True if a cell has a fixed cost that its command shows on an empty repository."""
    # With `fixed_cost: false`, the command fails there, for example.
    if command.fixed_cost is False:
        return False
    # Traffic has a fixed duration, and each of its requests includes the start of a client.
    if command.traffic is not None:
        return False
    # A cell without a repository has no empty one in its place.
    return bool(axes.get(axis_names.REPOSITORY_AXIS))


def _fixed_cost_candidates(axes: AxisValues, caches: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield axis values to measure the fixed cost of a cell (on an empty repository), the best ones first."""
    # The values to try on some axes, the best first; all other axes keep the cell's value. An empty
    # repository has nothing to pack. In git, vcsbench makes it with one pack and packed refs.
    values_to_try = {
        axis_names.REPOSITORY_AXIS: [EMPTY],
        axis_names.PACKING_AXIS: ["nopack"],
        axis_names.FORMAT_AXIS: [axes.get(axis_names.FORMAT_AXIS, ""), *EMPTY_FORMATS],
        axis_names.UPKEEP_AXIS: ["one-pack"],
        axis_names.REFS_AXIS: ["as-is"],
        axis_names.REF_STORAGE_AXIS: ["packed"],
        # Times with warm caches scatter least.
        axis_names.CACHE_AXIS: [*warmest_first(caches), axes.get(axis_names.CACHE_AXIS, "")],
    }
    choices = []
    for axis, value in axes.items():
        # An axis that does not apply to the cell ("") does not apply to its fixed cost either.
        is_replaced = axis in values_to_try and value != ""
        choices.append(values_to_try[axis] if is_replaced else [value])
    for combination in product(*choices):
        yield dict(zip(axes, combination, strict=True))
