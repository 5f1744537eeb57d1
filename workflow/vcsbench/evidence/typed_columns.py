"""Read the CSV files of results: the only place where their texts become numbers.

This module imports neither numpy nor pandas, because pages are made without them.
"""

import math
from collections.abc import Collection, Iterable
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.evidence.column_names import NUMBER_COLUMNS
from vcsbench.files import read_csv

# By the name of a column: the values of all rows.
TypedColumns = dict[str, list[str] | list[float]]


def is_number_column(name: str, texts: Collection[str] = ()) -> bool:
    """Return True for a column of numbers, unless it is one of the columns that stay `texts`."""
    return name in NUMBER_COLUMNS and name not in texts


def read_columns(
    path: str | Path,
    remedy: str,
    required: Iterable[str] = (),
    complete: Collection[str] = (),
    texts: Collection[str] = (),
) -> TypedColumns:
    """Return the columns of a CSV file: NUMBER_COLUMNS as floats (NaN if empty), all others as text.

    The columns `texts` stay text. Raise UserError with `remedy` if the file is missing or no CSV, if one of
    the columns `required` is missing, if a text is no number, and if a number of the columns `complete` is
    missing or infinite.
    """
    heading, rows = read_csv(path, remedy, columns=required)
    columns: TypedColumns = {}
    for place, name in enumerate(heading):
        column_texts = [row[place] for row in rows]
        if not is_number_column(name, texts):
            columns[name] = column_texts
            continue
        numbers = [_parse_number(text) for text in column_texts]
        for text, number in zip(column_texts, numbers, strict=True):
            if number is None or (name in complete and not math.isfinite(number)):
                raise UserError(f"{path}: `{name}`: {text!r} is not a number. {remedy}")
        columns[name] = [number for number in numbers if number is not None]
    return columns


def _parse_number(text: str) -> float | None:
    """Return the number in a field, NaN for an empty one. Return None for a text that is no number."""
    if not text:
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    # No file has the text `nan`: unknown numbers are written as empty fields.
    return None if math.isnan(number) else number
