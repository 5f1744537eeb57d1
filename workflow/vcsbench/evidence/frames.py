"""Read and write frames as CSV files. Axis values stay text, even if they look like numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from vcsbench.errors import UserError
from vcsbench.files import write_text


def read_frame(path: str | Path | TextIO, numbers: Collection[str] = ()) -> pd.DataFrame:
    """Return a CSV file: the columns `numbers` as floats (NaN if empty), all others as text.

    Raises UserError if the file is missing, is no CSV, or has text in a column of numbers.
    """
    try:
        # A repository may have the name `NA` or `007`.
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (ValueError, pd.errors.ParserError) as error:
        raise UserError(f"{path}: is not a CSV file with a heading: {error}") from None
    for name in frame.columns.intersection(list(numbers)):
        frame[name] = _as_numbers(frame[name], path)
    return frame


def _as_numbers(column: pd.Series, path: str | Path | TextIO) -> pd.Series:
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    for text in column[numbers.isna() & (column != "")]:
        raise UserError(f"{path}: `{column.name}`: {text!r} is not a number")
    return numbers


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file: UTF-8, LF, numbers unrounded, an empty field for a missing value."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def in_order(
    frame: pd.DataFrame, order: Mapping[str, Sequence[str]], by: Iterable[str]
) -> pd.DataFrame:
    """Sort rows by columns with an order of values: empty values first, unknown ones last."""
    ranks = pd.DataFrame(index=frame.index)
    for name in by:
        known = {value: rank for rank, value in enumerate(["", *order[name]])}
        ranks[name] = frame[name].map(known).fillna(len(known))
    if ranks.columns.empty:
        return frame
    return frame.loc[ranks.sort_values(list(ranks.columns), kind="stable").index]


def grouped(frame: pd.DataFrame, keys: Iterable[str]) -> Any:
    """Group rows by columns, in the order of their first rows; one group without columns."""
    return frame.groupby(list(keys) or np.zeros(len(frame)), sort=False, dropna=False)
