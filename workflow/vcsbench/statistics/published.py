"""Read the published numbers of a study."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence.frames import read_frame

# Axis values of all rows of a file that has no column for the axis, by path.
FixedValues = Mapping[str, Mapping[str, str]]


def read_published(
    paths: Sequence[str | Path],
    axes: Sequence[str],
    by: Sequence[str] = (),
    said: FixedValues | None = None,
    without: Mapping[str, Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Return published numbers of one or several files as a frame.

    Columns: the axes, `by` (other keys of rows; text, "" if missing), and one per metric (NaN if nothing
    was published). Rows of one cell in two files are merged. `said` has the axis values of a whole file;
    they do not apply to the commands for which `without` names the axis. Raises UserError if no file has an
    axis, a metric is no number, or a file has a cell twice.
    """
    keys, said, without = [*axes, *by], said or {}, without or {}
    frames = {str(path): _read(Path(path), keys) for path in paths}
    for axis in axes:
        if not any(axis in one for one in (*frames.values(), *said.values())):
            raise UserError(
                f"{', '.join(frames)}: has no column `{axis}`, which the study has as an axis"
            )
    whole = [_filled(frame, keys, said.get(path, {}), without) for path, frame in frames.items()]
    for path, frame in zip(frames, whole, strict=True):
        twice = frame[frame.duplicated(keys)]
        if not twice.empty:
            cell = "/".join(value or "-" for value in twice.iloc[0][keys])
            raise UserError(f"{path}: {cell} stands there twice; keep one row for each cell")
    frame = pd.concat(whole)
    metrics = [name for name in frame if name not in keys]
    if frame.duplicated(keys).any():
        frame = frame.groupby(keys, sort=False, as_index=False)[metrics].first()
    return frame[[*keys, *metrics]].reset_index(drop=True)


def _filled(
    frame: pd.DataFrame,
    keys: Sequence[str],
    said: Mapping[str, str],
    without: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """Return the rows of a file with a column for each key."""
    frame = frame.assign(**{key: "" for key in keys if key not in frame})
    commands = frame["command"] if "command" in frame else pd.Series("", index=frame.index)
    for axis, value in said.items():
        applies = ~commands.map(lambda name, axis=axis: axis in without.get(name, ())).astype(bool)
        frame[axis] = frame[axis].mask((frame[axis] == "") & applies, value)
    return frame


def _read(path: Path, keys: Sequence[str]) -> pd.DataFrame:
    with path.open(newline="", encoding="utf-8") as file:
        columns = next(csv.reader(file), [])
    if not columns:
        raise UserError(f"{path}: has no column `{keys[0]}`, which the study has as an axis")
    if {"metric", "value"} <= {*columns}:
        return _pivot(read_frame(path, ["value"]))
    return read_frame(path, [name for name in columns if name not in keys])


def _pivot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a column per metric from a file with a row per value."""
    metrics = list(dict.fromkeys(frame["metric"]))
    values = {name: frame["value"].where(frame["metric"] == name) for name in metrics}
    return frame.drop(columns=["metric", "value"]).assign(**values)
