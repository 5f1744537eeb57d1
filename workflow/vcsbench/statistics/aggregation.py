"""Read published numbers; aggregate runs to rounds and rounds to cells.

Times are geometric means of runs and rounds, which scatter by a tenth to a sixth less than medians.
Counts, which may be 0, are medians. A table may ask for the best or worst run.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from vcsbench.config.definitions import NO_METADATA, PublishedMetadata, read_published_rows
from vcsbench.config.study import axis_values
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import COUNT, LOW, METRICS, Column, Metric
from vcsbench.plan import grid as grids
from vcsbench.statistics.comparisons import MEDIAN, STATISTIC

MEAN, BEST = "mean", "best"
FIXED_SHARE = "fixed_share"
# Published numbers are treated as one round on one host.
ONE_PUBLISHED_ROUND: dict[str, str | float] = {
    "host": "",
    "round": 1.0,
    "flags": "",
    "work": "published",
    "started_at": "",
    FIXED_SHARE: np.nan,
}
# The suffix of the columns with half of the last digit of a published number.
ROUNDING = "_rounding"


def read_published(
    paths: Sequence[str | Path],
    axes: Sequence[str],
    by: Sequence[str] = (),
    metadata: PublishedMetadata = NO_METADATA,
) -> pd.DataFrame:
    """Return published numbers of one or several files as a frame with a row per published cell.

    A row is `{"command": "log", "format": "f7", "elapsed_s": 2.4, "elapsed_s_rounding": 0.05}`: text in the
    columns `axes` and `by`, and of each metric the number and half of its last digit. `metadata` has facts
    that the files lack, such as an axis value of a file. Raise UserError if a file is damaged or has no rows.
    """
    keys = [*axes, *by]
    records = []
    for rows in read_published_rows(paths, axes, by, metadata).values():
        records += [_published_record(row, keys) for row in rows]
    frame = pd.DataFrame(records)
    number_columns = [name for name in frame if name not in keys]
    # A study may publish the times of a cell in one file, and its counts in another. first() joins the rows
    # without loss, because read_published_rows() refuses a number that two files have.
    if frame.duplicated(keys).any():
        frame = frame.groupby(keys, sort=False, as_index=False)[number_columns].first()
    return frame[[*keys, *number_columns]]


def _published_record(row: Mapping[str, str], keys: Sequence[str]) -> dict[str, str | float]:
    """Return a row of text with numbers: `"elapsed_s": "2.4"` becomes 2.4, with `elapsed_s_rounding` 0.05."""
    record: dict[str, str | float] = {}
    for name, text in row.items():
        if name in keys:
            record[name] = text
        else:
            record[name] = float(text or "nan")
            record[f"{name}{ROUNDING}"] = half_of_last_digit(text)
    return record


def half_of_last_digit(text: str) -> float:
    """Return the largest rounding error of a printed number: 0.05 for `0.2`, 50 for `1.5e3`; NaN for ""."""
    if not text:
        return math.nan
    # The power of ten of the last digit: -1 for `0.2`, 2 for `1.5e3`.
    exponent = Decimal(text).as_tuple().exponent
    return float(f"0.5e{exponent}")


def is_measured(frame: pd.DataFrame) -> bool:
    """Return False for published numbers, which are aggregated already."""
    return "flags" in frame.columns


def rows_of_statistic(frame: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Return the published rows of a statistic, such as `median`, and of all statistics (column "").

    A frame of measurements, which has no column `statistic`, is returned as it is.
    """
    if STATISTIC not in frame:
        return frame
    return frame[frame[STATISTIC].isin(["", statistic])]


def rows_where(frame: pd.DataFrame, where: Mapping[str, object]) -> pd.DataFrame:
    """Return the rows with these values of axes: `{"command": ["log", "export"], "cache": "cold"}`."""
    for axis, values in where.items():
        frame = frame[frame[axis].isin(axis_values(values))]
    return frame


def add_key_columns(
    frame: pd.DataFrame, by: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Turn the columns `by` into text; return the frame, and the different values of each column in order.

    The column `clients` with 10.0 and 2.0 gives `{"clients": ["2", "10"]}`. If all rows have a number, the
    values are ordered by size, otherwise by their first row. A column that the frame lacks becomes "" in all
    rows, and its list of values is [].
    """
    order: dict[str, list[str]] = {}
    for name in by:
        column = frame[name] if name in frame else pd.Series(np.nan, frame.index)
        texts = column.map(_text_of)
        frame = frame.assign(**{name: texts})
        # A word becomes NaN, and with one NaN, the column cannot be ordered by size.
        numbers = pd.to_numeric(column, errors="coerce")
        rows_by_size = numbers.sort_values(kind="stable").index
        ordered_texts = texts[rows_by_size] if numbers.notna().all() else texts
        order[name] = [text for text in dict.fromkeys(ordered_texts) if text]
    return frame, order


def _text_of(value: object) -> str:
    """Return the text of a value as a person writes it: `3` and `0.02` for 3.0 and 0.02, "" for NaN."""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.12g}"
    return str(value)


def pivot_metrics(frame: pd.DataFrame, each: Sequence[str]) -> pd.DataFrame:
    """Return each row once for each metric of `each`, for a table with several counts next to each other.

    With `each` ["reads", "renames"], a row with 412 reads and 3 renames becomes two: (count: reads, counts:
    412) and (count: renames, counts: 3).
    """
    runs = add_metrics(frame)
    frames = []
    for name in each:
        counts = runs.get(name, np.nan)
        frames.append(runs.assign(**{"counts": counts, COUNT: name}))
    return pd.concat(frames, ignore_index=True)


def by_round(frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell, host and round, in which the runs of the round are reduced to one value.

    `frame` has a row per run, or per published cell. `reduce` is `mean` (geometric), `median`, `best` or
    `worst`. Invalid runs and duplicates do not count. A round without a valid run has no row.

    A row is `{"format": "f7", "host": "host#1a2b", "round": 1, "elapsed_s": 2.4, "flags": "throttled",
    "started_at": "2026-...", "fixed_share": 0.1, "work": '{"revisions": 6000}'}`, with a column for each
    metric and its parts (add_metrics). `fixed_share` is the share of start-up in the time. All rounds of a
    cell get the same `work`: a line for each different work of these rounds.
    """
    if not is_measured(frame):
        return add_metrics(frame).assign(**ONE_PUBLISHED_ROUND)
    return _aggregate_rounds(frame[~_is_duplicate(frame)], [*axes, "host", "round"], reduce)


def duplicates_by_round(
    frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEAN
) -> pd.DataFrame:
    """Return the rows of by_round() of the duplicates only, with their path in the column `cell`.

    A duplicate and its original have the same values of axes, so only the path distinguishes the two.
    """
    # Without paths, no row is a duplicate. The result still needs the column.
    if "cell" not in frame:
        frame = frame.assign(cell="")
    return _aggregate_rounds(frame[_is_duplicate(frame)], ["cell", *axes, "host", "round"], reduce)


def _is_duplicate(frame: pd.DataFrame) -> pd.Series:
    if "cell" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["cell"].map(grids.is_duplicate).astype(bool)


def valid_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose evidence does not contradict their label, with the columns of metrics."""
    is_invalid = frame["flags"].map(flags.is_invalid).astype(bool)
    return add_metrics(frame[~is_invalid])


def _aggregate_rounds(frame: pd.DataFrame, keys: list[str], reduce: str) -> pd.DataFrame:
    """Return a row per cell, host and round, with all valid runs of the round reduced to one value.

    `frame` has a row per run. `keys` are the columns that identify a cell, and `host` and `round`. Rows are
    in the order in which the combinations of keys first appear.
    """
    runs = valid_runs(frame)
    # A frame may lack these columns.
    unknown_values: dict[str, str | float] = {"work": "", "started_at": "", FIXED_SHARE: np.nan}
    for name, unknown in unknown_values.items():
        if name not in runs:
            runs = runs.assign(**{name: unknown})
    # _aggregate() computes geometric means from columns of logarithms.
    if reduce == MEAN:
        runs = _with_logs(runs)
    # A study that groups its tables by `host` or `round` has this column twice in `keys`. pandas cannot group
    # by a column twice.
    keys = list(dict.fromkeys(keys))
    rounds = _aggregate(runs, group_rows(runs, keys), reduce).reset_index()
    # A cell must not be compared if its rounds did different work. So the column `work` of each row gets the
    # different works of all rounds of the cell, a line each. Two lines in any row then refuse the cell.
    cell_keys = [key for key in keys if key not in ("host", "round")]
    works_of_cells = group_rows(rounds, cell_keys)["work"].transform(same_work.join_works)
    return rounds.assign(work=works_of_cells)


def by_cell(rounds: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell: its rows of by_round(), reduced to one value by the statistic `reduce`.

    The result has the same columns, but no round, and `hosts` (separated by blanks) instead of `host`. A
    metric of several parts is computed from its reduced parts: the client's CPU share is the median of the
    CPU times divided by the median of the elapsed times.
    """
    if reduce == MEAN:
        rounds = _with_logs(rounds)
    groups = group_rows(rounds, axes)
    hosts = groups["host"].agg(lambda names: " ".join(sorted(set(names))))
    return _aggregate(rounds, groups, reduce).assign(hosts=hosts).reset_index()


def pair_rows(
    frame: pd.DataFrame, axis: str, sides: Sequence[str], on: Sequence[str]
) -> pd.DataFrame:
    """Join each row of the baseline with the row of the candidate that has equal values in the columns `on`.

    `sides` are the values of `axis`: the baseline, then the candidate. Example: the axis `format`, the sides
    ["f6", "f7"] and `on` ["command"] join the two rows of log to `{"command": "log", "elapsed_s_baseline":
    2.4, "elapsed_s_candidate": 1.2, ...}`. Each column that is not in `on` becomes two columns, also the axis
    itself. A row without its counterpart is left out.
    """
    baseline, candidate = (frame[frame[axis] == side] for side in sides)
    # An axis may be the host or the round, and merge() needs each column once.
    on = list(dict.fromkeys(on))
    # Without columns, each row of the baseline is joined with each row of the candidate.
    how: Literal["inner", "cross"] = "inner" if on else "cross"
    suffixes = ("_baseline", "_candidate")
    return baseline.merge(candidate, how=how, on=on or None, suffixes=suffixes)


def add_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with a column for each metric, and for each part of it that is aggregated separately.

    A metric that was published itself, such as a percentage without its times, stays as it is. A metric whose
    columns (`needs`) are missing is left out. Example: a run with the elapsed time 2.0 s, the user time 0.4 s
    and the system time 0.1 s gets `client_cpu_pct/cpu_s` 0.5, `client_cpu_pct/elapsed_s` 2.0 and
    `client_cpu_pct` 25.0.
    """
    added: dict[str, Column] = {}
    for metric in METRICS.values():
        # A column with the name of the metric is the published metric itself, unless the metric is computed
        # from a column of its own name, as elapsed_s is.
        is_published_itself = metric.name in frame and metric.name not in metric.needs
        if is_published_itself:
            continue
        if any(name not in frame for name in metric.needs):
            continue
        columns = {name: frame[name] for name in metric.needs}
        parts = {name: compute(columns) for name, compute in metric.parts.items()}
        if len(parts) > 1:
            # Parts are aggregated separately, but the metric must combine numbers of the same runs. So a run
            # that lacks a needed number gets NaN in all parts of the metric.
            has_all = frame[[*metric.needs]].notna().all(axis=1)
            parts = {name: pd.Series(part).where(has_all) for name, part in parts.items()}
        for name, part in parts.items():
            added[_part_column(metric, name)] = part
        added[metric.name] = metric.value(parts)
    # All columns are added at once, because pandas is slow with many columns that were added one by one.
    return pd.DataFrame(dict(frame.items()) | added, index=frame.index)


def _part_column(metric: Metric, part: str) -> str:
    return f"{metric.name}/{part}"


def _aggregate(frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str) -> pd.DataFrame:
    """Return a row per group of rows, with each metric reduced by the statistic `reduce` (_reduce_metric).

    `frame` has the columns of add_metrics(). A group is the runs of a round, or the rounds of a cell.
    """
    values: dict[str, Column] = {
        "flags": groups["flags"].agg(" ".join),
        "started_at": groups["started_at"].first(),
        FIXED_SHARE: groups[FIXED_SHARE].max(),
        "work": groups["work"].agg(same_work.join_works),
    }
    for metric in METRICS.values():
        if metric.name in frame:
            values |= _reduce_metric(metric, frame, groups, reduce)
    # The index has the keys of the groups. Callers turn it into columns.
    return pd.DataFrame(values, index=groups.size().index)


def _reduce_metric(
    metric: Metric, frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str
) -> dict[str, Column]:
    """Return the column of a metric, reduced to a value per group of rows, and the columns of its parts.

    The client's CPU share has two parts, CPU time and elapsed time. With `median` or `mean`, each part is
    reduced, and the metric is computed from the results. Example: the medians 0.5 s and 2.0 s give the
    columns `client_cpu_pct/cpu_s` 0.5, `client_cpu_pct/elapsed_s` 2.0 and `client_cpu_pct` 25.0. Only the
    metric itself is reduced with `best` or `worst`, and if `frame` lacks the parts.
    """
    if reduce not in (MEDIAN, MEAN):
        # The best CPU time may be of another run than the best elapsed time. So the best percentage is not
        # computed from the two: it is the value of a single run.
        best, worst = ("min", "max") if metric.better == LOW else ("max", "min")
        return {metric.name: groups[metric.name].agg(best if reduce == BEST else worst)}
    part_columns = {part: _part_column(metric, part) for part in metric.parts}
    has_parts = all(column in frame for column in part_columns.values())
    # A study may publish a percentage, but not the times from which it is computed. The percentage gets the
    # median even with `mean`, because _with_logs() adds logarithms of parts only.
    if not has_parts:
        return {metric.name: groups[metric.name].agg("median")}
    reduced: dict[str, Column] = {}
    reduced_parts: dict[str, Column] = {}
    for part, column in part_columns.items():
        reduced_parts[part] = _reduce_part(column, frame, groups, reduce)
        reduced[column] = reduced_parts[part]
    reduced[metric.name] = metric.value(reduced_parts)
    return reduced


def _reduce_part(
    column: str, frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str
) -> pd.Series:
    """Return the median, or the geometric mean (`mean`), of a part of a metric, with a value per group.

    A count gets the median even with `mean`: one 0 among the counts would make their geometric mean 0.
    """
    # _with_logs() has added this column, unless the part is a count.
    log_column = _log_column(column)
    if reduce == MEAN and log_column in frame:
        return pd.Series(np.exp(groups[log_column].mean()))
    return pd.Series(groups[column].median())


def _log_column(column: str) -> str:
    return f"log {column}"


def _with_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the logarithm of each part of each metric that is no count: `log <metric>/<part>`."""
    logs = {}
    # The logarithm of a time that was rounded to 0 is minus infinity, and the geometric mean becomes 0. That
    # is right, so numpy must not warn.
    with np.errstate(divide="ignore"):
        for metric in METRICS.values():
            if metric.exact:
                continue
            for part in metric.parts:
                column = _part_column(metric, part)
                if column in runs:
                    logs[_log_column(column)] = np.log(runs[column].astype(float))
    return pd.concat([runs, pd.DataFrame(logs, index=runs.index)], axis=1)
