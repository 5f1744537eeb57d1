"""A study's runs as its tables need them: what several tables need alike is made once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare import selection
from vcsbench.compare.noise import SILENT, Noise, noise_of
from vcsbench.compare.reduction import (
    MEAN,
    MEDIAN,
    as_reduced,
    by_cell,
    by_round,
    is_measured,
    side_by_side,
    told_apart,
)
from vcsbench.compare.statistic import STATISTIC
from vcsbench.metrics import COUNT, Metric


@dataclass(eq=False)
class Reduced:
    """The rows that tables are about, and what they are reduced to. `order` has what tells cells apart, the
    axes and what stands beside them, with the values of each in order."""

    frame: pd.DataFrame
    order: Mapping[str, list[str]]
    block: Sequence[str]
    _rounds: dict[str, pd.DataFrame] = field(default_factory=dict)
    _cells: dict[str, pd.DataFrame] = field(default_factory=dict)
    _noise: dict[str, Noise] = field(default_factory=dict)

    def rounds(self, reduce: str, metric: Metric) -> pd.DataFrame:
        """A row per cell, host and round (reduction.by_round), with the metric."""
        if reduce not in self._rounds:
            self._rounds[reduce] = by_round(self.frame, [*self.order], reduce)
        return _with_metric(self._rounds[reduce], metric)

    def cells(self, reduce: str, metric: Metric) -> pd.DataFrame:
        """A row per cell (reduction.by_cell), with the metric."""
        rounds = self.rounds(reduce, metric)
        if metric.name not in self._rounds[reduce]:
            return by_cell(rounds, [*self.order], reduce)
        if reduce not in self._cells:
            self._cells[reduce] = by_cell(rounds, [*self.order], reduce)
        return self._cells[reduce]

    def noise(self, metric: Metric) -> Noise:
        """The noise of the rows in a metric; none of published numbers."""
        if not is_measured(self.frame):
            return SILENT
        if metric.name not in self._noise:
            means = self.rounds(MEAN, metric)
            self._noise[metric.name] = noise_of(
                self.frame, [*self.order], self.block, metric, means
            )
        return self._noise[metric.name]


class Reductions:
    """A frame of the measurements, or of published numbers, for all tables that are made of it."""

    def __init__(
        self, frame: pd.DataFrame, order: Mapping[str, list[str]], block: Sequence[str]
    ) -> None:
        """`order` has the study's axes and their values in order; cells that agree on the axes of `block` are
        measured side by side."""
        self._whole = Reduced(frame, order, block)
        self._made: dict[str, Reduced] = {}

    def of(self, definition: Mapping[str, Any]) -> Reduced:
        """The rows that a table is about."""
        told = ["where", "by", "each", *["reduce"] * (STATISTIC in self._whole.frame)]
        key = json.dumps([definition.get(name) for name in told])
        if key not in self._made:
            self._made[key] = self._selected(definition)
        return self._made[key]

    def _selected(self, definition: Mapping[str, Any]) -> Reduced:
        whole = self._whole
        frame = whole.frame
        if STATISTIC not in definition.get("by", ()):
            frame = as_reduced(frame, definition.get("reduce", MEDIAN))
        frame = selection.where(frame, definition.get("where", {}))
        frame, by = told_apart(frame, definition.get("by", []))
        if each := definition.get("each"):
            frame, by = side_by_side(frame, each), {**by, COUNT: list(each)}
        return Reduced(frame, {**whole.order, **by}, whole.block)


def _with_metric(rounds: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """The frame with a metric's column, empty where nothing tells it."""
    return rounds if metric.name in rounds else rounds.assign(**{metric.name: np.nan})
