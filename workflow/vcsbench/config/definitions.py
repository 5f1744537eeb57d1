"""Define and read findings and expectations, and published numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Required

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict  # in Python 3.11, typing has no docstrings for pydantic

from vcsbench import words
from vcsbench.config.models import (
    RENAMED_VALUES,
    MetricName,
    Name,
    Text,
    definition,
    exactly_one,
    fits_pattern,
    unknown_name,
)
from vcsbench.config.study import RUN_COLUMNS, axis_values
from vcsbench.config.validation import read_mapping, validate
from vcsbench.errors import UserError
from vcsbench.files import read_rows
from vcsbench.metrics import COUNTS, METRICS

PUBLISHED_BYTES = 16 << 20
CORRECT_PUBLISHED = "Correct the file, or `published.numbers` of the study."
# The columns of published numbers: metrics, and the columns that metrics are computed from.
PUBLISHED_COLUMNS = list(
    dict.fromkeys(
        column
        for metric in METRICS.values()
        for column in (metric.name, *metric.needs)
        if column != COUNTS
    )
)
Scalar = str | int | float
Bound = Annotated[float, Field(ge=-1e12, le=1e12)]


@definition
class SidesDefinition(TypedDict, total=False):
    """The key `compare` of a finding."""

    axis: Text
    """The compared axis."""
    baseline: Scalar
    """Its value in the numerator."""
    candidate: Scalar
    """Its value in the denominator."""
    metric: MetricName
    """The metric (default: elapsed_s)."""
    to: Name
    """A saved baseline to compare with: elapsed(saved) / elapsed(now); 0.952 is 5 % slower."""


def _with_sides(compare: SidesDefinition) -> SidesDefinition:
    """Return the sides. Raise ValueError unless they are a saved baseline, or two values of an axis."""
    if "to" in compare:
        for name in compare:
            if name != "to":
                raise ValueError(f"`{name}` excludes `to`. Remove one of them.")
        return compare
    for name in ("axis", "baseline", "candidate"):
        if name not in compare:
            raise ValueError(f"`{name}` is missing. `compare` needs axis, baseline and candidate.")
    if compare["baseline"] == compare["candidate"]:
        raise ValueError("`baseline` and `candidate` are equal. Compare two values.")
    return compare


@definition
class BoundsDefinition(TypedDict, total=False):
    """The key `expect` of a finding."""

    over: Required[Literal["mean", "min", "max"]]
    """Of several cells or pairs: their mean (of ratios the geometric mean), or the least or greatest of them.
    Each is a mean over the rounds."""
    at_least: Bound
    """The lower bound. It is used as it is: a bound from a published number includes the uncertainty of the
    number's last digit."""
    at_most: Bound
    """The upper bound, as `at_least`."""
    direction: Literal["faster", "slower", "equal", "not faster"]
    """Instead of bounds, for a statement without a number: the candidate's direction. As in tables, a
    difference below `min_effect_pct` is neither `faster` nor `slower`, however certain it is; a count has no
    such margin. Needs `compare`."""


def _with_bound(expect: BoundsDefinition) -> BoundsDefinition:
    """Return the bounds. Raise ValueError unless they are a direction, or numbers in the right order."""
    bounds = expect.keys() & {"at_least", "at_most"}
    if "direction" in expect and bounds:
        raise ValueError(f"`direction` excludes `{min(bounds)}`. Remove one of them.")
    if "direction" not in expect and not bounds:
        raise ValueError("has no bound. Add `at_least`, `at_most` or `direction`.")
    if expect.get("at_least", -math.inf) > expect.get("at_most", math.inf):
        raise ValueError("`at_least` is above `at_most`. Exchange the two.")
    return expect


@definition
class FindingDefinition(TypedDict, total=False):
    """A finding or an expectation."""

    id: Required[Name]
    """A short name, once in a study."""
    statement: Required[Text]
    """The statement, in a sentence."""
    where: dict[str, Scalar | Annotated[list[Scalar], Field(min_length=1)]]
    """The cells of the finding: axes of the study, each with a value or a list of values. An axis that is
    left out (for example the repository) takes all that are measured."""
    level: MetricName
    """The metric whose own values are checked, by its name in workflow/vcsbench/metrics.py."""
    compare: Annotated[SidesDefinition, AfterValidator(_with_sides)]
    """Instead of `level`: the compared sides. The value is metric(baseline) / metric(candidate): above 1 the
    candidate is faster. Needs `axis`, `baseline` and `candidate`, or `to`."""
    expect: Required[Annotated[BoundsDefinition, AfterValidator(_with_bound)]]
    """The bounds: `at_least`, `at_most` or both; or a `direction`."""
    source: Annotated[Text, fits_pattern("https?://.+", "begin with http:// or https://")]
    """The address of the statement, if the study has none."""
    since: Annotated[Text, fits_pattern("[0-9]+[.][0-9]+", "be two numbers and a dot")]
    """The first version of the measured programs that the statement is about, in quotation marks: "2.44"."""
    until: Annotated[Text, fits_pattern("[0-9]+[.][0-9]+", "be two numbers and a dot")]
    """The first later version that the statement is not about: "2.44" for "before 2.44"."""
    allow_inconclusive: bool
    """An expectation only: `check` accepts an inconclusive result."""
    allow_not_measured: bool
    """An expectation only: `check` accepts that nothing of it was measured."""


def _with_ratio_for_direction(finding: FindingDefinition) -> FindingDefinition:
    if "direction" in finding["expect"] and "compare" not in finding:
        raise ValueError(
            "`expect.direction` needs `compare`. Use `at_least` or `at_most` for a `level`."
        )
    return finding


def _with_versions_in_order(finding: FindingDefinition) -> FindingDefinition:
    """Return the finding. Raise ValueError if it is about no version: from `since`, and before `until`."""
    if "since" in finding and words.is_at_least(finding["since"], finding.get("until", "")):
        raise ValueError("`since` is not before `until`. Use an earlier version, or remove one.")
    return finding


Finding = Annotated[
    FindingDefinition,
    exactly_one("compare", "level"),
    AfterValidator(_with_ratio_for_direction),
    AfterValidator(_with_versions_in_order),
]
# None if a value may have any name.
AxisChoices = Mapping[str, Sequence[str] | None]


def read_expectations(
    paths: Sequence[str | Path],
    study: str,
    axes: AxisChoices,
    baselines: Sequence[str] | None = None,
) -> list[FindingDefinition]:
    """Return the expectations, or published findings, about a study in the files at `paths`.

    `axes` has the values that each axis may have. `baselines` are the names of the saved baselines; with
    None, baselines are not checked. Raise UserError for an unknown key, axis or metric, and for an id that is
    there twice. A value that no cell has, or a baseline that is not saved, is also an error: the expectation
    would never be checked.
    """
    expectation_by_id: dict[str, FindingDefinition] = {}
    for path in paths:
        definitions_by_study = read_definitions(str(path))
        for index, expectation in enumerate(definitions_by_study.get(study, [])):
            error_start = f"{path}: `{study}[{index}]`"
            _check_cells(expectation, error_start, axes)
            if baselines is not None:
                _check_baseline(expectation, error_start, baselines)
            name = expectation["id"]
            if name in expectation_by_id:
                raise UserError(f"{error_start}: the id `{name}` is there twice. Rename one.")
            expectation_by_id[name] = expectation
    return list(expectation_by_id.values())


@cache
def read_definitions(path: str) -> dict[str, list[FindingDefinition]]:
    """Return the findings or expectations of a file by study. Raise UserError for a wrong one.

    A missing `where` becomes {}, which selects all cells: {"merge": [{"id": "x", "where": {}, ...}]}.
    """
    content: Any = read_mapping(Path(path))
    # This call is made only for its errors. Its result has a bound of 2 as 2.0, but the integer is printed.
    validate(content, dict[str, list[Finding]], lambda _keys: path)
    return {
        study: [{"where": {}} | each for each in findings] for study, findings in content.items()
    }


def _check_cells(finding: FindingDefinition, error_start: str, axes: AxisChoices) -> None:
    """Raise UserError for an axis that the study lacks, or a value that no cell has.

    The error begins with `error_start`: "my.yaml: `merge[0]`".
    """
    selected: list[tuple[str, object]] = list(finding["where"].items())
    compare = finding.get("compare", {})
    # A comparison with a saved baseline names no axis.
    if "axis" in compare:
        selected.append((compare["axis"], [compare["baseline"], compare["candidate"]]))
    for axis, values in selected:
        unknown_axis = unknown_name([axis], axes)
        if unknown_axis:
            raise UserError(f"{error_start}: the study has no axis {unknown_axis}")
        choices = axes[axis]
        # An axis of repositories may have any value, because another run may have other repositories.
        if choices is None:
            continue
        unknown_value = unknown_name(axis_values(values), choices)
        if unknown_value:
            raise UserError(f"{error_start}: `{axis}` has no value {unknown_value}")


def _check_baseline(
    expectation: FindingDefinition, error_start: str, saved_names: Sequence[str]
) -> None:
    """Raise UserError for a baseline that is not saved, unless the expectation allows that."""
    compare = expectation.get("compare", {})
    if "to" not in compare:
        return
    name = compare["to"]
    if name in saved_names or expectation.get("allow_not_measured"):
        return
    names = ", ".join(saved_names) or "none is saved"
    raise UserError(
        f"{error_start}: `compare.to`: no saved baseline {name!r} of this study ({names}). "
        f"Correct the name, save it by `make baseline NAME={name}`, or add `allow_not_measured: true`."
    )


@dataclass(frozen=True)
class PublishedMetadata:
    """The facts of a study's definition that the rows of its published numbers lack.

    `fixed` has axis values of a whole file, by path: {"f7.csv": {"format": "f7"}}. `inapplicable` has the
    axes that a command lacks: {"dump": ["access"]}. Commands are the values of `command_axis`.
    """

    fixed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    inapplicable: Mapping[str, Sequence[str]] = field(default_factory=dict)
    command_axis: str = "command"


NO_METADATA = PublishedMetadata()


def read_published_rows(
    paths: Sequence[str | Path],
    axes: Sequence[str],
    by: Sequence[str] = (),
    metadata: PublishedMetadata = NO_METADATA,
) -> dict[str, list[dict[str, str]]]:
    """Return the rows of files of published numbers: `{"f7.csv": [{"command": "log", "elapsed_s": "2.4"}]}`.

    A row has the `axes` and the further columns `by` ("" if missing), and numbers as text ("" if nothing was
    published). Raise UserError for an unknown column, an axis without a column, a file without rows, a value
    on an axis that the command lacks, a number that cannot be read, and a number that is there twice.
    """
    # The columns that identify a cell.
    cell_columns = [*axes, *by]
    raw_rows = {str(path): _read_published_file(path, cell_columns) for path in paths}
    # All rows of a file have the same columns, and _read_published_file() refuses a file without rows.
    columns = {column for rows in raw_rows.values() for column in rows[0]}
    columns.update(axis for values in metadata.fixed.values() for axis in values)
    for axis in axes:
        # One file may lack an axis, such as `access` in a file of dumps. If all files lack the axis, that is
        # a mistake.
        if raw_rows and axis not in columns:
            raise UserError(
                f"{', '.join(raw_rows)}: the column `{axis}`, an axis of the study, is missing. Add it, or "
                f"its value in `published.numbers`."
            )
    files: dict[str, list[dict[str, str]]] = {}
    for path, rows in raw_rows.items():
        files[path] = [_complete_row(path, row, cell_columns, metadata) for row in rows]
    _check_unique(files, cell_columns)
    return files


def _read_published_file(path: str | Path, cell_columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a file, with the present names of axes and values.

    Raise UserError for a file without rows, and for an unknown column.
    """
    rows = []
    for row in read_rows(path, CORRECT_PUBLISHED, PUBLISHED_BYTES):
        # RENAMED_VALUES has former axes, which are headings, and former values, which are texts.
        renamed = {}
        for name, text in row.items():
            renamed[RENAMED_VALUES.get(name, name)] = RENAMED_VALUES.get(text, text)
        rows.append(renamed)
    if not rows:
        raise UserError(f"{path}: the file has no rows. {CORRECT_PUBLISHED}")
    # A dict, because the error lists each possible column once, in this order.
    columns = dict.fromkeys([*cell_columns, *PUBLISHED_COLUMNS, *RUN_COLUMNS])
    unknown = unknown_name(rows[0], columns)
    if unknown:
        raise UserError(f"{path}: no axis or metric has the name of the column {unknown}")
    return rows


def _complete_row(
    path: str, row: Mapping[str, str], cell_columns: Sequence[str], metadata: PublishedMetadata
) -> dict[str, str]:
    """Return a row of a file with all columns that identify a cell ("" if missing), and its numbers as text.

    Raise UserError for a value on an axis that the command lacks, and for a number that cannot be read or is
    below 0.
    """
    cell_values = _cell_values(path, row, cell_columns, metadata)
    cell_name = _cell_name([*cell_values.values()])
    numbers = {}
    for metric in PUBLISHED_COLUMNS:
        # A table may group its rows by a column of numbers. Then `cell_values` has its text already.
        if metric not in row or metric in cell_columns:
            continue
        text = row[metric]
        if text and not _is_number(text):
            raise UserError(
                f"{path}: `{metric}`: {text!r} is not a number, or is below 0 ({cell_name}). Correct it."
            )
        numbers[metric] = text
    return cell_values | numbers


def _cell_values(
    path: str, row: Mapping[str, str], cell_columns: Sequence[str], metadata: PublishedMetadata
) -> dict[str, str]:
    """Return the values that identify the cell of a row, for all `cell_columns`: {"command": "log", ...}.

    A value comes from the row or, if the row has none, from `metadata.fixed`, which holds for the whole file.
    """
    command = row.get(metadata.command_axis, "")
    inapplicable_axes = metadata.inapplicable.get(command, ())
    values = {column: row.get(column, "") for column in cell_columns}
    # On an axis that its command lacks, a cell has no value, also none of the whole file.
    for axis in inapplicable_axes:
        if values[axis]:
            raise UserError(
                f"{path}: `{axis}`: {values[axis]!r} in a row of {command}, which has no such axis. "
                f"Leave it empty."
            )
    for axis, value in metadata.fixed.get(path, {}).items():
        if axis not in inapplicable_axes and not values[axis]:
            values[axis] = value
    return values


def _check_unique(
    files: Mapping[str, Sequence[Mapping[str, str]]], cell_columns: Sequence[str]
) -> None:
    """Raise UserError for two rows of a cell in one file, or a number of a cell that is in two files.

    Two files may have different metrics of one cell.
    """
    # By cell and metric: {("log", "f7", "elapsed_s"): "f7.csv"}.
    path_of_number: dict[tuple[str, ...], str] = {}
    for path, rows in files.items():
        cells: set[tuple[str, ...]] = set()
        for row in rows:
            cell = tuple(row[column] for column in cell_columns)
            if cell in cells:
                raise UserError(
                    f"{path}: {_cell_name(cell)} is there twice. Keep one row for each cell."
                )
            cells.add(cell)
            for metric, text in row.items():
                if metric in cell_columns or not text:
                    continue
                cell_and_metric = (*cell, metric)
                if cell_and_metric in path_of_number:
                    other_path = path_of_number[cell_and_metric]
                    raise UserError(
                        f"{path}: `{metric}` of {_cell_name(cell)} is also in {other_path}. "
                        f"Remove one of the two."
                    )
                path_of_number[cell_and_metric] = path


def _cell_name(cell: Sequence[str]) -> str:
    return "/".join(value or "-" for value in cell)


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False
