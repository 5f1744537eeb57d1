"""Read the published numbers of a study."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence.measurements import read_frame

# Axis values of all rows of a file that has no column for the axis, by path.
FixedValues = Mapping[str, Mapping[str, str]]


def read_published(
    paths: Sequence[str | Path],
    axes: Sequence[str],
    by: Sequence[str] = (),
    fixed: FixedValues | None = None,
    inapplicable: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Return published numbers of one or several files as a frame.

    Columns: the axes, `by` (other keys of rows; text, "" if missing), and one per metric (NaN if nothing
    was published). Rows of one cell in two files are merged. `fixed` has the axis values of a whole file, by
    path; `inapplicable` has by command the axes that they do not apply to. Raise UserError if no file has an
    axis, a metric is no number, or a file has a cell twice.
    """
    keys, fixed, inapplicable = [*axes, *by], fixed or {}, inapplicable or {}
    frames = {str(path): _read(Path(path), keys) for path in paths}
    for axis in axes:
        if not any(axis in names for names in (*frames.values(), *fixed.values())):
            raise UserError(
                f"{', '.join(frames)}: the column `{axis}`, an axis of the study, is missing. Add it."
            )
    whole = [
        _filled(frame, keys, fixed.get(path, {}), inapplicable) for path, frame in frames.items()
    ]
    for path, frame in zip(frames, whole, strict=True):
        twice = frame[frame.duplicated(keys)]
        if not twice.empty:
            cell = "/".join(value or "-" for value in twice.iloc[0][keys])
            raise UserError(f"{path}: {cell} is there twice. Keep one row for each cell.")
    frame = pd.concat(whole)
    metrics = [name for name in frame if name not in keys]
    if frame.duplicated(keys).any():
        frame = frame.groupby(keys, sort=False, as_index=False)[metrics].first()
    return frame[[*keys, *metrics]].reset_index(drop=True)


def _filled(
    frame: pd.DataFrame,
    keys: Sequence[str],
    fixed: Mapping[str, str],
    inapplicable: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """Return the rows of a file with a column for each key."""
    frame = frame.assign(**{key: "" for key in keys if key not in frame})
    commands = frame["command"] if "command" in frame else pd.Series("", index=frame.index)
    for axis, value in fixed.items():
        applies = ~commands.map(lambda name, axis=axis: axis in inapplicable.get(name, ())).astype(
            bool
        )
        frame[axis] = frame[axis].mask((frame[axis] == "") & applies, value)
    return frame


def _read(path: Path, keys: Sequence[str]) -> pd.DataFrame:
    with path.open(newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file), [])
    if not columns:
        raise UserError(
            f"{path}: the column `{keys[0]}`, an axis of the study, is missing. Add it."
        )
    if {"metric", "value"} <= {*columns}:
        return _pivot(read_frame(path, ["value"]))
    return read_frame(path, [name for name in columns if name not in keys])


def _pivot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a column per metric from a file with a row per value."""
    metrics = list(dict.fromkeys(frame["metric"]))
    values = {name: frame["value"].where(frame["metric"] == name) for name in metrics}
    return frame.drop(columns=["metric", "value"]).assign(**values)
