"""The grid that the default configuration has of a study, or parts of one laid over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vcsbench.axes.axis import Environment
from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.plan.grid import CellSpec, make_grid
from vcsbench.run.project import open_environment

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"


def study_grid(
    study: str, *include: dict[str, Any], **over: Any
) -> tuple[Environment, list[CellSpec]]:
    """What there is here, and the cells, none of them skipped."""
    grid = {"grid": {study: {"include": list(include)}}} if include else {}
    raw = merge(read_yaml(DEFAULT), {"studies": [study], "duplicates": 0, **grid, **over})
    here = open_environment(raw, ROOT, [DEFAULT])
    return here, make_grid(here, here.config.studies[study], lambda axes: "")
