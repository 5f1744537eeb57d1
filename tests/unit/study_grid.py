"""Studies of the default configuration: their grids, or parts of them, and their published numbers."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from project import DEFAULT, ROOT
from vcsbench.axes.axis import Environment
from vcsbench.config.configuration import merge_configurations
from vcsbench.config.validation import read_yaml
from vcsbench.plan.grid import CellSpec, make_grid
from vcsbench.run.environment_reader import open_environment
from vcsbench.run.study_params import StudyParams
from vcsbench.statistics.aggregation import read_published
from vcsbench.statistics.tables import make_table


def merge(base: Any, over: Mapping[str, Any]) -> Any:
    """Return the configuration `base` with the keys of `over`, as two files have them."""
    return merge_configurations([copy.deepcopy(base), over])


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


def published_numbers(study: str) -> pd.DataFrame:
    of = StudyParams(study, ROOT, None)
    return read_published(of.published_files, of.axes, of.by, of.metadata)


def published_table(study: str, name: str) -> pd.DataFrame:
    frame, of = published_numbers(study), StudyParams(study, ROOT, None).definition
    order = {axis: list(dict.fromkeys(frame[axis])) for axis in of.axes}
    return make_table(frame, name, of.tables[name], order, of.block)
