"""The grid of a study: its cells, in the order of its axes, each with the reason if it is skipped."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

from vcsbench.config.configuration import Config
from vcsbench.config.study import Study
from vcsbench.errors import UserError
from vcsbench.plan import twins

# A block is the cells of one round that agree on these axes: they run next to each other.
BLOCK_AXES = ("command", "repo", "cache")


@dataclass(frozen=True)
class Cell:
    """One point of the grid. `axes` has "" for an axis that does not apply; `skip` is "" or a reason."""

    study: str
    path: str
    axes: dict[str, str]
    skip: str = ""


def make_grid(
    config: Config, study: Study, why_skip: Callable[[Mapping[str, str]], str]
) -> list[Cell]:
    """The cells that the configuration wants of a study, in the order of the study's axes; a twin
    stands behind its original.

    `why_skip` says for a cell's axes why this machine cannot measure it, or "".
    """
    values = axis_values(config, study)
    wanted: dict[str, dict[str, str]] = {}
    for axes in _points(config, study, values):
        path = "/".join(value or "-" for value in axes.values())
        wanted.setdefault(path, axes)
    if not wanted:
        raise UserError(
            f"{config.where(['grid', study.name])}: `grid.{study.name}` leaves no cell to measure; "
            f"take something out of its `exclude`"
        )
    rank = {axis: {value: i for i, value in enumerate(["", *values[axis]])} for axis in values}
    order = sorted(wanted.items(), key=lambda item: [rank[a][v] for a, v in item[1].items()])
    return _with_twins(
        [Cell(study.name, path, axes, why_skip(axes)) for path, axes in order],
        config["twins"],
        config["seed"],
    )


def _with_twins(cells: list[Cell], per_class: int, seed: int) -> list[Cell]:
    """The cells with a twin behind some of those that are not skipped."""
    twice = twins.chosen({cell.path: cell.axes for cell in cells if not cell.skip}, per_class, seed)
    return [
        one
        for cell in cells
        for one in (cell, *([replace(cell, path=twins.twin_of(cell.path))] * (cell.path in twice)))
    ]


def axis_values(config: Config, study: Study) -> dict[str, list[str]]:
    """All values that each axis of the study may have here."""
    named = {"repositories": list(config.repositories), "servers": config.servers}
    return {
        axis: named[values] if isinstance(values, str) else values
        for axis, values in study.axes.items()
    }


def _points(config: Config, study: Study, values: Mapping[str, list[str]]) -> list[dict[str, str]]:
    grid = config["grid"][study.name]
    parts = {
        kind: [_part(config, study, values, kind, i) for i in range(len(grid.get(kind, [])))]
        for kind in ("include", "exclude")
    }
    points = []
    for part in parts["include"]:
        for combination in product(*(part.get(axis, values[axis]) for axis in values)):
            axes = dict(zip(values, combination, strict=True))
            if not any(_within(axes, excluded) for excluded in parts["exclude"]):
                without = study.commands[axes["command"]].get("without", [])
                points.append({a: "" if a in without else v for a, v in axes.items()})
    return points


def _within(axes: Mapping[str, str], part: Mapping[str, list[str]]) -> bool:
    return all(axes[axis] in allowed for axis, allowed in part.items())


def _part(
    config: Config, study: Study, values: Mapping[str, list[str]], kind: str, index: int
) -> dict[str, list[str]]:
    part: dict[str, list[str]] = {}
    for axis, wanted in config["grid"][study.name][kind][index].items():
        keys = ["grid", study.name, kind, index, axis]
        if axis not in values:
            raise UserError(
                f"{config.where(keys)}: `grid.{study.name}.{kind}[{index}].{axis}`: the study has no "
                f"such axis; it has {', '.join(values)}"
            )
        part[axis] = [wanted] if isinstance(wanted, str) else list(wanted)
        if axis == "repo" and config["repository"] is not None:
            part[axis] = values[axis]  # the user's repository stands for whichever the grid names
        for value in part[axis]:
            if value not in values[axis]:
                raise UserError(
                    f"{config.where(keys)}: `grid.{study.name}.{kind}[{index}].{axis}`: {value!r} has "
                    f"no definition; {_defined_in(study, axis)} has {', '.join(values[axis])}"
                )
    return part


def _defined_in(study: Study, axis: str) -> str:
    places = {"repositories": "`repositories`", "servers": "config/servers"}
    values = study.axes[axis]
    if axis == "build":
        return "`builds`"
    return places[values] if isinstance(values, str) else f"config/studies/{study.name}.yaml"


def run_order(cells: list[Cell], rounds: int, seed: int) -> dict[tuple[str, str, int], int]:
    """The position of each cell-round, from 0: rounds one after another, blocks within a round and
    cells within a block in a random order. A cell's place does not depend on how many rounds follow."""
    order: dict[tuple[str, str, int], int] = {}
    for number in range(1, rounds + 1):
        shuffler = random.Random(f"{seed}/{number}")
        blocks: dict[tuple[str, ...], list[Cell]] = {}
        for cell in cells:
            key = (cell.study, *(cell.axes.get(axis, "") for axis in BLOCK_AXES))
            blocks.setdefault(key, []).append(cell)
        keys = sorted(blocks)
        shuffler.shuffle(keys)
        for key in keys:
            block = sorted(blocks[key], key=lambda cell: cell.path)
            shuffler.shuffle(block)
            for cell in block:
                order[cell.study, cell.path, number] = len(order)
    return order
