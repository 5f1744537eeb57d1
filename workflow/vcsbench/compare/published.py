"""The published numbers of a study, as the frame that tables and findings are made of."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence.frames import read_frame


def read_published(
    paths: Sequence[str | Path], axes: Sequence[str], by: Sequence[str] = ()
) -> pd.DataFrame:
    """Published numbers, of one file or several with rows of their own: a column per axis and for each of
    `by`, which tell rows apart like axes (text, "" where one does not apply, or its file has no column for
    it), and one per metric (NaN where nothing was published).

    Raises a UserError where no file has a column for an axis, a metric is no number or a row stands twice.
    """
    keys = [*axes, *by]
    frames = [_read(Path(path), keys) for path in paths]
    files = ", ".join(map(str, paths))
    for axis in axes:
        if not any(axis in frame for frame in frames):
            raise UserError(f"{files}: has no column `{axis}`, which the study has as an axis")
    frame = pd.concat([f.assign(**{key: "" for key in keys if key not in f}) for f in frames])
    twice = frame[frame.duplicated(keys)]
    if not twice.empty:
        cell = "/".join(value or "-" for value in twice.iloc[0][keys])
        raise UserError(f"{files}: {cell} stands there twice; keep one row for each cell")
    metrics = [name for name in frame if name not in keys]
    return frame[[*keys, *metrics]].reset_index(drop=True)


def _read(path: Path, keys: Sequence[str]) -> pd.DataFrame:
    with path.open(newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file), [])
    if not columns:
        raise UserError(f"{path}: has no column `{keys[0]}`, which the study has as an axis")
    return read_frame(path, [name for name in columns if name not in keys])
