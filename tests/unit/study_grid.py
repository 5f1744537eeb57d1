"""Grids of the studies in the default configuration, or of parts of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vcsbench.axes.axis import Environment
from vcsbench.config.configuration import merge
from vcsbench.config.validation import read_yaml
from vcsbench.plan.grid import CellSpec, make_grid
from vcsbench.run.project import open_environment

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "config.yaml"


def study_environment(study: str, *include: dict[str, Any], **over: Any) -> Environment:
    """Return the environment of a study with these parts as its grid and `over` as further keys."""
    grid = {"grid": {study: {"include": list(include)}}} if include else {}
    raw = merge(read_yaml(DEFAULT), {"studies": [study], "duplicates": 0, **grid, **over})
    return open_environment(raw, ROOT, [DEFAULT])


def study_grid(
    study: str,
    *include: dict[str, Any],
    why_skip: Callable[[Mapping[str, str]], str] = lambda axes: "",
    **over: Any,
) -> tuple[Environment, list[CellSpec]]:
    environment = study_environment(study, *include, **over)
    return environment, make_grid(environment, environment.config.studies[study], why_skip)
