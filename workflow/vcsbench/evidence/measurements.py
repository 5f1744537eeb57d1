"""Read and write measurements, a CSV file per study with a row per timed run, and other CSV files as frames.

Axis values stay text, even if they look like numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import pandas as pd

from vcsbench.errors import UserError
from vcsbench.evidence import run_columns
from vcsbench.evidence.column_names import TIMES
from vcsbench.external import open_regular
from vcsbench.files import read_rows, write_text
from vcsbench.metrics import NEEDED_COLUMNS

NUMBERS = (
    "round", "run", *TIMES, "fixed_cost_s", "fixed_share", "sync_s", "scale", "waited_s",
    "cell_round_s", *run_columns.COUNT_COLUMNS, *run_columns.CLIENT_COLUMNS,
    *run_columns.TRAFFIC_COLUMNS, *run_columns.TRACE_COLUMNS, *run_columns.SPACE_COLUMNS,
    # The columns of a new metric are numbers without an entry here.
    *NEEDED_COLUMNS,
)  # fmt: skip
RESTORE = "Restore the file, or make it again."


def read_frame(path: str | Path | TextIO, numbers: Collection[str] = ()) -> pd.DataFrame:
    """Return the rows of a CSV file: the columns `numbers` as floats (NaN if empty), all others as text.

    `numbers` may have names that the file does not have. `path` may be an open file. Raise UserError if the
    file is missing, is no CSV, or has text in a column of numbers.
    """
    try:
        with _open_csv(path) as csv_file:
            # All columns are read as text: a repository may have the name `NA` or `007`.
            frame = pd.read_csv(csv_file, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {RESTORE}") from None
    except (ValueError, pd.errors.ParserError) as error:
        reason = f"is not a CSV file with a heading: {error}"
        raise UserError(f"{path}: {reason}. {RESTORE}") from None

    columns = dict(frame.items())
    for name in frame.columns.intersection(list(numbers)):
        columns[name] = _parse_numbers(frame[name], path)
    # The frame is made once, from all columns. pandas gets slow if many columns of a frame are replaced one
    # by one.
    return pd.DataFrame(columns)


def _parse_numbers(texts: pd.Series, path: str | Path | TextIO) -> pd.Series:
    """Return a column of texts as floats. Raise UserError with the path for a text that is no number."""
    numbers = pd.to_numeric(texts, errors="coerce").astype(float)
    # An empty field is a missing value (NaN), and any other text without a number is a fault.
    faulty_texts = texts[numbers.isna() & (texts != "")]
    if len(faulty_texts):
        raise UserError(
            f"{path}: `{texts.name}`: {faulty_texts.iloc[0]!r} is not a number. {RESTORE}"
        )
    return numbers


def _open_csv(path: str | Path | TextIO) -> AbstractContextManager[BinaryIO | TextIO]:
    """Return a file for a `with` statement, which closes it. An open text file stays the caller's."""
    if isinstance(path, str | Path):
        # open_regular() returns a descriptor, which open() closes.
        return open(open_regular(path), "rb")
    return nullcontext(path)


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
    # For each row: the places of its values in these lists.
    ranks = pd.DataFrame(index=frame.index)
    for name in by:
        rank_of_value = {value: rank for rank, value in enumerate(["", *order[name]])}
        # A value that is not in `order` gets the last rank.
        ranks[name] = frame[name].map(rank_of_value).fillna(len(rank_of_value))
    # Without columns, there is nothing to sort by.
    if ranks.columns.empty:
        return frame
    return frame.loc[ranks.sort_values(list(ranks.columns), kind="stable").index]


def group_rows(frame: pd.DataFrame, keys: Iterable[str]) -> Any:
    """Return pandas' groups of rows with equal values of the columns `keys`; one group without keys."""
    # pandas refuses an empty list of keys. An array of zeros, one for each row, makes a single group.
    return frame.groupby(list(keys) or np.zeros(len(frame)), sort=False, dropna=False)


def read_grid(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the axes of a grid and its rows. Raise UserError if it is damaged."""
    rows = read_rows(path, "Delete the file, and run again.", columns=("cell", "skip"))
    if not rows:
        return [], []
    axes = [name for name in rows[0] if name not in ("cell", "skip")]
    return axes, rows


def read_measurements(path: str | Path | TextIO) -> pd.DataFrame:
    """Return the measurements of a study.

    Raise UserError like read_frame(), and for a run without cell, host, round, number or start.
    """
    frame = read_frame(path, NUMBERS)
    # All computations need these columns. read_frame() has raised UserError for a text in place of a number.
    for name in ("cell", "host", "round", "run", "started_at"):
        is_complete = name in frame
        if is_complete and name in NUMBERS:
            # An empty field of a number is NaN, and `inf` is a number, too.
            is_complete = bool(np.isfinite(frame[name]).all())
        if not is_complete:
            raise UserError(f"{path}: `{name}` is missing. {RESTORE}")
    return frame


def read_back(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return measurements of collect() as read_measurements() would read them back from their CSV file.

    Numbers become floats (NaN if unknown), and all other values text ("" if unknown). The decision on more
    rounds is made before the file is written, by code that reads such frames.
    """
    columns: dict[Any, Any] = {}
    for name, column in measurements.items():
        if name in NUMBERS:
            columns[name] = pd.to_numeric(column, errors="coerce").astype(float)
        else:
            columns[name] = ["" if pd.isna(value) else str(value) for value in column]
    return pd.DataFrame(columns)
