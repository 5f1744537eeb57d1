"""The grid of a study: its cells, in the order of its axes, each with the reason if it is skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from vcsbench.axes import axis_of
from vcsbench.axes.here import Here
from vcsbench.axes.values import measured_values
from vcsbench.config.renamed import GRID
from vcsbench.config.study import Study
from vcsbench.config.study_models import Command
from vcsbench.errors import UserError
from vcsbench.plan import twins
from vcsbench.plan.fixed_cost import fixed_cost_points


@dataclass(frozen=True)
class Cell:
    """One point of the grid. `axes` has "" for an axis that does not apply; `skip` is "" or a reason."""

    study: str
    path: str
    axes: dict[str, str]
    skip: str = ""


def make_grid(here: Here, study: Study, why_skip: Callable[[Mapping[str, str]], str]) -> list[Cell]:
    """The cells that the configuration wants of a study, in the order of the study's axes; a twin
    stands behind its original.

    `why_skip` says for a cell's axes why this machine cannot measure it, or "".
    """
    config, values = here.config, measured_values(study, here)
    wanted: dict[str, dict[str, str]] = {}
    for axes in _points(here, study, values):
        path = "/".join(in_path(value) for value in axes.values())
        wanted.setdefault(path, axes)
    if not wanted:
        raise UserError(
            f"{config.where(['grid', study.name])}: `grid.{study.name}` leaves no cell to measure; "
            f"take something out of its `exclude`"
        )
    rank = {axis: {value: i for i, value in enumerate(["", *values[axis]])} for axis in values}
    order = sorted(wanted.items(), key=lambda item: [rank[a][v] for a, v in item[1].items()])
    cells = [Cell(study.name, path, axes, why_skip(axes)) for path, axes in order]
    measured = {cell.path: cell.axes for cell in cells if not cell.skip}
    fixed = fixed_cost_points(study, measured.values(), values.get("cache", []), why_skip)
    of_fixed_cost = [
        Cell(study.name, "/".join(map(in_path, axes.values())), axes) for axes in fixed
    ]
    twice = twins.chosen(
        measured, study.variance_group, config.settings.duplicates, config.settings.seed
    )
    both = [
        one
        for cell in cells
        for one in (cell, *([replace(cell, path=twins.twin_of(cell.path))] * (cell.path in twice)))
    ]
    return both + of_fixed_cost


def _points(here: Here, study: Study, values: Mapping[str, list[str]]) -> list[dict[str, str]]:
    grid = here.config.settings.grid[study.name]
    parts = {
        kind: [_part(here, study, values, kind, i) for i in range(len(getattr(grid, kind)))]
        for kind in ("include", "exclude")
    }
    points = []
    for part in parts["include"]:
        for combination in product(*(part.get(axis, values[axis]) for axis in values)):
            axes = dict(zip(values, combination, strict=True))
            if not any(_within(axes, excluded) for excluded in parts["exclude"]):
                command = study.command(axes)
                if is_meant(axes, command.restrict_to or {}):
                    points.append(_applying(axes, command))
    return points


def in_path(value: str) -> str:
    """An axis value as it stands in a cell's path: `log -v` as log-v, and - where the axis does not apply."""
    return re.sub(" +-*", "-", value) or "-"


def is_meant(axes: Mapping[str, str], only: Mapping[str, Sequence[str]]) -> bool:
    """Whether something that is said of cells with some values of axes only is said of one with these; an
    axis that does not apply to it does not keep it out."""
    return all(not axes[axis] or axes[axis] in allowed for axis, allowed in only.items())


def _applying(axes: Mapping[str, str], command: Command) -> dict[str, str]:
    """The values, "" for the axes that do not apply."""
    without = command.inapplicable_axes or []
    left = {axis: "" if axis in without else value for axis, value in axes.items()}
    return {axis: value if axis_of(axis).applies(left) else "" for axis, value in left.items()}


def _within(axes: Mapping[str, str], part: Mapping[str, list[str]]) -> bool:
    return all(axes[axis] in allowed for axis, allowed in part.items())


def _part(
    here: Here, study: Study, values: Mapping[str, list[str]], kind: str, index: int
) -> dict[str, list[str]]:
    config, part = here.config, dict[str, list[str]]()
    for axis, wanted in getattr(config.settings.grid[study.name], kind)[index].items():
        keys = ["grid", study.name, kind, index, axis]
        if axis not in values:
            raise UserError(
                f"{config.where(keys)}: `grid.{study.name}.{kind}[{index}].{axis}`: the study has no "
                f"such axis; it has {', '.join(values)}"
            )
        named = [wanted] if isinstance(wanted, str) else list(wanted)
        of = axis_of(axis)
        part[axis] = of.wanted(named, values[axis], here)
        for value in part[axis]:
            if value not in values[axis]:
                new = f" (now `{GRID[value]}`)" if value in GRID else ""
                raise UserError(
                    f"{config.where(keys)}: `grid.{study.name}.{kind}[{index}].{axis}`: {value!r}{new} has "
                    f"no definition; {of.defined_in(study.axes[axis], study)} has "
                    f"{', '.join(values[axis])}"
                )
    return part
