"""A user's mix of commands: how many of a hundred are which."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench.config.models import WorkloadPart
from vcsbench.config.study import Study, load_study
from vcsbench.errors import UserError

WHOLE = 100.0
Mix = Mapping[str, float] | Sequence[WorkloadPart]


def entries_of(mix: Mix | None, study: Study) -> list[dict[str, Any]]:
    """Return the parts of a workload: `name`, `weight` in per cent, and `where`, the axes of its cells.

    Return [] without a workload, or if the study lacks an axis of it.
    """
    parts = _parts(mix, study.command_axis) if mix else []
    if not isinstance(mix, Mapping) and any(set(part["where"]) - set(study.axes) for part in parts):
        return []
    return [{"name": " ".join(part["where"].values()), **part} for part in parts]


def _parts(mix: Mix, axis: str) -> list[dict[str, Any]]:
    """The parts of a mix, each with its weight and the values of axes; commands alone are of `axis`."""
    if isinstance(mix, Mapping):
        return [{"weight": float(weight), "where": {axis: name}} for name, weight in mix.items()]
    return [{"weight": part.weight, "where": dict(part.where)} for part in mix]


def check_mix(mix: Mix | None, root: Path, where: str) -> None:
    """Raise a UserError where the weights are not 100 in all, or something is named that no study has;
    `where` is the file that says it."""
    if not mix:
        return
    parts = _parts(mix, "command")
    total = math.fsum(part["weight"] for part in parts)
    if not math.isclose(total, WHOLE, abs_tol=0.01):
        raise UserError(
            f"{where}: `workload`: the weights are {total:g} in all; make them 100 (per cent)"
        )
    if len({frozenset(part["where"]) for part in parts}) > 1:
        raise UserError(f"{where}: `workload`: say of each part the same axes in `where`")
    if len({frozenset(part["where"].items()) for part in parts}) < len(parts):
        raise UserError(f"{where}: `workload`: two parts are about the same cells; make them one")
    studies = [load_study(path) for path in sorted((root / "config" / "studies").glob("*.yaml"))]
    axes = sorted({axis for study in studies for axis in study.axes})
    commands = sorted({name for study in studies for name in study.commands})
    for part in parts:
        for axis, value in part["where"].items():
            if axis not in axes:
                raise UserError(
                    f"{where}: `workload`: no study has an axis {axis}; they have {', '.join(axes)}"
                )
            if axis == "command" and value not in commands:
                raise UserError(
                    f"{where}: `workload`: no study measures the command {value}; they measure "
                    f"{', '.join(commands)}"
                )
