"""The published numbers of a study, as the frame that tables and findings are made of."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence.frames import read_frame


def read_published(path: str | Path, axes: Sequence[str]) -> pd.DataFrame:
    """Published numbers: a column per axis (text, "" where it does not apply) and one per metric
    (NaN where nothing was published); a row per cell.

    Raises a UserError where an axis has no column, a metric is no number or a cell stands twice.
    """
    with Path(path).open(newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file), [])
    missing = [axis for axis in axes if axis not in columns]
    if missing:
        raise UserError(f"{path}: has no column `{missing[0]}`, which the study has as an axis")
    metrics = [name for name in columns if name not in axes]
    frame = read_frame(path, metrics)[[*axes, *metrics]]
    twice = frame[frame.duplicated(list(axes))]
    if not twice.empty:
        cell = "/".join(value or "-" for value in twice.iloc[0][list(axes)])
        raise UserError(f"{path}: {cell} stands there twice; keep one row for each cell")
    return frame
