"""Read and write measurements, a CSV file per study with a row per timed run, and other CSV files as frames.

Axis values stay text, even if they look like numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.evidence.column_names import NUMBER_COLUMNS, RUN_COLUMNS_NEEDED, RUN_NUMBERS
from vcsbench.evidence.typed_columns import TypedColumns, is_number_column, read_columns
from vcsbench.files import read_rows, write_text

RESTORE = "Restore the file, or make it again."


def read_frame(path: str | Path, texts: Collection[str] = ()) -> pd.DataFrame:
    """Return the rows of a CSV file: columns of numbers as floats (NaN if empty), all others as text.

    The columns `texts` stay text, also if they are numbers elsewhere. Raise UserError if the file is missing,
    is no CSV, or has text in a column of numbers.
    """
    return _make_frame(read_columns(path, RESTORE, texts=texts), texts)


def _make_frame(columns: TypedColumns, texts: Collection[str] = ()) -> pd.DataFrame:
    series = {}
    for name, values in columns.items():
        # Without rows, pandas cannot find out the type of a column.
        series[name] = pd.Series(values, dtype=float if is_number_column(name, texts) else str)
    return pd.DataFrame(series)


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file: UTF-8, LF, numbers unrounded, an empty field for a missing value."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def in_order(
    frame: pd.DataFrame, order: Mapping[str, Sequence[str]], by: Iterable[str]
) -> pd.DataFrame:
    """Return the rows of a frame, sorted by the columns `by`, not by the alphabet but as `order` lists them.

    With `order` {"format": ["f6", "f10"]} and `by` ["format"], rows of f6 come before rows of f10. A value ""
    (a setting that does not apply to the row) comes first, and a value that is not in `order` last. Rows with
    equal values keep their order.
    """
    ranks = pd.DataFrame(index=frame.index)
    for name in by:
        rank_of_value = {value: rank for rank, value in enumerate(["", *order[name]])}
        ranks[name] = frame[name].map(rank_of_value).fillna(len(rank_of_value))
    if ranks.columns.empty:
        return frame
    return frame.loc[ranks.sort_values(list(ranks.columns), kind="stable").index]


def group_rows(frame: pd.DataFrame, keys: Iterable[str]) -> Any:
    """Return pandas' groups of rows with equal values of the columns `keys`; one group without keys."""
    # pandas refuses an empty list of keys. An array of zeros makes a single group.
    return frame.groupby(list(keys) or np.zeros(len(frame)), sort=False, dropna=False)


def read_grid(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the axes of a grid and its rows. Raise UserError if it is damaged."""
    rows = read_rows(path, "Delete the file, and run again.", columns=("cell", "skip"))
    if not rows:
        return [], []
    axes = [name for name in rows[0] if name not in ("cell", "skip")]
    return axes, rows


def read_measurements(path: str | Path) -> pd.DataFrame:
    """Return the measurements of a study.

    Raise UserError like read_frame(), for a file without one of RUN_COLUMNS_NEEDED, and for a run without a
    round or number.
    """
    return _make_frame(read_columns(path, RESTORE, RUN_COLUMNS_NEEDED, complete=RUN_NUMBERS))


def read_back(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return measurements of collect() as read_measurements() would read them back from their CSV file.

    The decision on more rounds is made before the file is written, by code that reads such frames.
    """
    columns: dict[Any, Any] = {}
    for name, column in measurements.items():
        if name in NUMBER_COLUMNS:
            columns[name] = pd.to_numeric(column, errors="coerce").astype(float)
        else:
            columns[name] = ["" if pd.isna(value) else str(value) for value in column]
    return pd.DataFrame(columns)
