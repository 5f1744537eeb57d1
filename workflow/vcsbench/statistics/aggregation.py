"""Read published numbers; aggregate runs to rounds and rounds to cells.

Cells have medians, as published, or the best or worst run if a table asks for it. Comparisons use the
geometric mean of the runs of a round: it scatters by a tenth to a sixth less than the median.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from vcsbench.config.definitions import read_published_rows
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
    paths: Sequence[str | Path], axes: Sequence[str], by: Sequence[str] = (), **metadata: Any
) -> pd.DataFrame:
    """Return published numbers of one or several files as a frame.

    Columns: the axes, `by` (other keys of rows; text, "" if missing), and two per metric: the number (NaN if
    nothing was published), and with the suffix ROUNDING half of its last digit. `metadata` are further
    arguments of read_published_rows, which checks the files.
    """
    keys = [*axes, *by]
    records = []
    for rows in read_published_rows(paths, axes, by, **metadata).values():
        for row in rows:
            record: dict[str, str | float] = {}
            for name, text in row.items():
                if name in keys:
                    record[name] = text
                else:
                    record[name] = float(text or "nan")
                    record[f"{name}{ROUNDING}"] = half_of_last_digit(text)
            records.append(record)
    frame = pd.DataFrame(records)
    metrics = [name for name in frame if name not in keys]
    # A study may publish the times of a cell in one file, and its counts in another.
    if frame.duplicated(keys).any():
        frame = frame.groupby(keys, sort=False, as_index=False)[metrics].first()
    return frame[[*keys, *metrics]]


def half_of_last_digit(text: str) -> float:
    """Return the error of a rounded number: 0.05 for `0.2`, which can be 0.15 to 0.25, and 0.5 for `13`."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -len(decimals) if text else math.nan


def is_measured(frame: pd.DataFrame) -> bool:
    """Return False for published numbers, which are aggregated already."""
    return "flags" in frame.columns


def rows_of_statistic(frame: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Return the published rows of a statistic, and those without any, which are of all statistics."""
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
    """Return the frame with the columns `by` as text, and their values in order.

    These columns identify rows as axes do, and axes are text. A missing column is "". Numbers are ordered by
    size: 2 stands before 10. Other values stay in the order of the rows.
    """
    order: dict[str, list[str]] = {}
    for name in by:
        column = frame[name] if name in frame else pd.Series(np.nan, frame.index)
        numbers = pd.to_numeric(column, errors="coerce")
        texts = column.map(_text_of)
        frame = frame.assign(**{name: texts})
        if numbers.notna().all():
            texts = texts[numbers.sort_values(kind="stable").index]
        order[name] = [text for text in dict.fromkeys(texts) if text]
    return frame, order


def _text_of(value: object) -> str:
    """Return the text of a value as a person writes it: `3` and `0.02` for 3.0 and 0.02, "" for NaN."""
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.12g}"
    return str(value)


def pivot_metrics(frame: pd.DataFrame, each: Sequence[str]) -> pd.DataFrame:
    """Return the rows once per metric, for a table of several counts next to each other.

    The column COUNT has the name of the metric, `counts` its value: a row with 412 reads and 3 renames
    becomes (count: reads, counts: 412) and (count: renames, counts: 3).
    """
    runs = add_metrics(frame)
    frames = []
    for name in each:
        counts = runs.get(name, np.nan)
        frames.append(runs.assign(**{"counts": counts, COUNT: name}))
    return pd.concat(frames, ignore_index=True)


def by_round(frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell, host and round, without duplicates and invalid runs.

    `frame` has measurements or published numbers; `axes` identify its cells. `reduce` is MEAN (geometric),
    MEDIAN, BEST or `worst`. Columns: axes, host, round, metrics and their parts, flags, started_at (of the
    first run), fixed_share, and work (same_work.join_works of all rounds of the cell).
    """
    if not is_measured(frame):
        return add_metrics(frame).assign(**ONE_PUBLISHED_ROUND)
    return _aggregate_rounds(frame[~_is_duplicate(frame)], [*axes, "host", "round"], reduce)


def duplicates_by_round(
    frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEAN
) -> pd.DataFrame:
    """Return the rows of by_round of the duplicates only, with their path in the column `cell`."""
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
    """Return a row per combination of `keys`, in their first order."""
    runs = valid_runs(frame)
    missing: dict[str, str | float] = {"work": "", "started_at": "", FIXED_SHARE: np.nan}
    runs = runs.assign(**{name: runs.get(name, empty) for name, empty in missing.items()})
    if reduce == MEAN:
        runs = _with_logs(runs)
    # An axis may be the host or the round, and a column can be grouped by once only.
    keys = list(dict.fromkeys(keys))
    rounds = _aggregate(runs, group_rows(runs, keys), reduce).reset_index()
    # Each round gets the works of all rounds, because a cell whose rounds did different work is not compared.
    cell_keys = [key for key in keys if key not in ("host", "round")]
    works = group_rows(rounds, cell_keys)["work"]
    return rounds.assign(work=works.transform(same_work.join_works))


def by_cell(rounds: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell from the rows of by_round.

    A metric of several parts is computed from its aggregated parts. Columns: axes, metrics and their
    parts, hosts, flags (separated by spaces), fixed_share, work.
    """
    groups = group_rows(rounds, axes)
    hosts = groups["host"].agg(lambda hosts: " ".join(sorted(set(hosts))))
    return _aggregate(rounds, groups, reduce).assign(hosts=hosts).reset_index()


def pair_rows(
    frame: pd.DataFrame, axis: str, names: Sequence[str], on: Sequence[str]
) -> pd.DataFrame:
    """Return rows of two values of an axis next to each other, matched by the columns `on`.

    Each other column is there twice: <column>_baseline and <column>_candidate. A row without its
    counterpart is left out.
    """
    baseline, candidate = (frame[frame[axis] == name] for name in names)
    # An axis may be the host or the round.
    on = list(dict.fromkeys(on))
    # pandas joins by no column only if it is asked for all combinations.
    how: Literal["inner", "cross"] = "inner" if on else "cross"
    suffixes = ("_baseline", "_candidate")
    return baseline.merge(candidate, how=how, on=on or None, suffixes=suffixes)


def add_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    """Return runs with a column for each metric that has its columns, and for each part of it.

    A part is `<metric>/<part>`: `client_cpu_pct/cpu_s`. A published metric, such as a percentage whose
    times were not published, stays as it is.
    """
    added: dict[str, Column] = {}
    for metric in METRICS.values():
        is_published = metric.name in frame and metric.name not in metric.needs
        has_columns = set(metric.needs) <= set(frame.columns)
        if is_published or not has_columns:
            continue
        columns = {name: frame[name] for name in metric.needs}
        parts = {name: compute(columns) for name, compute in metric.parts.items()}
        if len(parts) > 1:
            # A part counts only where the others are known, so that all have the same runs.
            has_all = frame[[*metric.needs]].notna().all(axis=1)
            parts = {name: pd.Series(part).where(has_all) for name, part in parts.items()}
        for name, part in parts.items():
            added[_part_column(metric, name)] = part
        added[metric.name] = metric.value(parts)
    # At once: pandas is slow with many columns that were added one by one.
    return pd.DataFrame(dict(frame.items()) | added, index=frame.index)


def _part_column(metric: Metric, part: str) -> str:
    return f"{metric.name}/{part}"


def _aggregate(frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str) -> pd.DataFrame:
    """Return a row per group, with the metrics and their parts reduced by a statistic."""
    values: dict[str, Column] = {
        "flags": groups["flags"].agg(" ".join),
        "started_at": groups["started_at"].first(),
        FIXED_SHARE: groups[FIXED_SHARE].max(),
        "work": groups["work"].agg(same_work.join_works),
    }
    for metric in METRICS.values():
        if metric.name not in frame:
            continue
        columns = {part: _part_column(metric, part) for part in metric.parts}
        has_parts = all(column in frame for column in columns.values())
        if reduce not in (MEDIAN, MEAN):
            # The best run is one run, so its metric is not computed from parts of several runs.
            is_smallest = (metric.better == LOW) == (reduce == BEST)
            values[metric.name] = groups[metric.name].agg("min" if is_smallest else "max")
        elif has_parts:
            parts = {}
            for part, column in columns.items():
                parts[part] = _centre(frame, groups, column, reduce)
                values[column] = parts[part]
            values[metric.name] = metric.value(parts)
        else:
            # A published metric without its parts.
            values[metric.name] = groups[metric.name].agg("median")
    return pd.DataFrame(values, index=groups.size().index)


def _centre(frame: pd.DataFrame, groups: DataFrameGroupBy, column: str, reduce: str) -> pd.Series:
    """Return the geometric mean of a noisy column if MEAN is asked for, otherwise the median."""
    log_column = _log_column(column)
    if reduce == MEAN and log_column in frame:
        return pd.Series(np.exp(groups[log_column].mean()))
    return pd.Series(groups[column].median())


def _log_column(column: str) -> str:
    return f"log {column}"


def _with_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with the logarithms of the parts of noisy metrics."""
    logs = {}
    # The logarithm of a time that was rounded to 0 is minus infinity. The mean of the runs is 0 then.
    with np.errstate(divide="ignore"):
        for metric in METRICS.values():
            # Counts keep their median: it is a count again, and a count may be 0.
            if metric.exact:
                continue
            for part in metric.parts:
                column = _part_column(metric, part)
                if column in runs:
                    logs[_log_column(column)] = np.log(runs[column].astype(float))
    return pd.concat([runs, pd.DataFrame(logs, index=runs.index)], axis=1)
