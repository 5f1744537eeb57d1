"""Read published numbers; aggregate runs to rounds and rounds to cells.

Cells have medians, as published, or the best or worst run if a table asks for it. Comparisons use the
geometric mean of the runs of a round: it scatters by a tenth to a sixth less than the median.
"""

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
from vcsbench.metrics import COUNT, LOW, METRICS, Column
from vcsbench.plan import grid as grids
from vcsbench.statistics.comparisons import MEDIAN, STATISTIC

MEAN, BEST = "mean", "best"
FIXED_SHARE = "fixed_share"
NO_ROUNDS: dict[str, str | float] = {
    "host": "",
    "round": 1.0,
    "flags": "",
    "work": "published",
    "started_at": "",
    FIXED_SHARE: np.nan,
}


def read_published(
    paths: Sequence[str | Path], axes: Sequence[str], by: Sequence[str] = (), **metadata: Any
) -> pd.DataFrame:
    """Return published numbers of one or several files as a frame.

    Columns: the axes, `by` (other keys of rows; text, "" if missing), and one per metric (NaN if nothing was
    published). Rows of one cell in two files are merged. `metadata` are further arguments of
    read_published_rows, which checks the files.
    """
    keys, files = [*axes, *by], read_published_rows(paths, axes, by, **metadata)
    frame = pd.DataFrame(
        {name: text if name in keys else float(text or "nan") for name, text in row.items()}
        for rows in files.values()
        for row in rows
    )
    metrics = [name for name in frame if name not in keys]
    if frame.duplicated(keys).any():
        frame = frame.groupby(keys, sort=False, as_index=False)[metrics].first()
    return frame[[*keys, *metrics]]


def is_measured(frame: pd.DataFrame) -> bool:
    """Return False for published numbers, which are aggregated already."""
    return "flags" in frame.columns


def rows_of_statistic(frame: pd.DataFrame, statistic: str) -> pd.DataFrame:
    if STATISTIC not in frame:
        return frame
    return frame[frame[STATISTIC].isin(["", statistic])]


def rows_where(frame: pd.DataFrame, where: Mapping[str, object]) -> pd.DataFrame:
    for axis, values in where.items():
        frame = frame[frame[axis].isin(axis_values(values))]
    return frame


def add_key_columns(
    frame: pd.DataFrame, by: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the frame with the columns `by` as text, and their values in order.

    These columns identify rows as axes do. A missing one is "". Numbers are ordered by size.
    """
    order: dict[str, list[str]] = {}
    for name in by:
        known = frame[name] if name in frame else pd.Series(np.nan, frame.index)
        numbers, texts = pd.to_numeric(known, errors="coerce"), known.map(_text_of)
        frame = frame.assign(**{name: texts})
        values = texts[numbers.sort_values(kind="stable").index] if numbers.notna().all() else texts
        order[name] = [*dict.fromkeys(filter(None, values))]
    return frame, order


def _text_of(value: object) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.12g}"
    return str(value)


def pivot_metrics(frame: pd.DataFrame, each: Sequence[str]) -> pd.DataFrame:
    """Return the rows once per metric: COUNT has its name, `counts` its value."""
    runs = add_metrics(frame)
    frames = [runs.assign(**{"counts": runs.get(name, np.nan), COUNT: name}) for name in each]
    return pd.concat(frames, ignore_index=True)


def by_round(frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell, host and round, without duplicates and invalid runs.

    `frame` has measurements or published numbers; `axes` identify its cells. Columns: axes, host,
    round, metrics and their parts, flags, started_at (of the first run), fixed_share, and work
    (same_work.join_works of all rounds of the cell).
    """
    if not is_measured(frame):
        return add_metrics(frame).assign(**NO_ROUNDS)
    return _aggregate_rounds(frame[~_is_duplicate(frame)], [*axes, "host", "round"], reduce)


def duplicates_by_round(
    frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEAN
) -> pd.DataFrame:
    if "cell" not in frame:
        frame = frame.assign(cell="")
    return _aggregate_rounds(frame[_is_duplicate(frame)], ["cell", *axes, "host", "round"], reduce)


def _is_duplicate(frame: pd.DataFrame) -> pd.Series:
    if "cell" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["cell"].map(grids.is_duplicate).astype(bool)


def valid_runs(frame: pd.DataFrame) -> pd.DataFrame:
    return add_metrics(frame[~frame["flags"].map(flags.is_invalid).astype(bool)])


def _aggregate_rounds(frame: pd.DataFrame, keys: list[str], reduce: str) -> pd.DataFrame:
    runs = valid_runs(frame)
    missing: dict[str, str | float] = {"work": "", "started_at": "", FIXED_SHARE: np.nan}
    runs = runs.assign(**{name: runs.get(name, empty) for name, empty in missing.items()})
    runs = _with_logs(runs) if reduce == MEAN else runs
    keys = [*dict.fromkeys(keys)]  # an axis may be the host or the round
    rounds = _aggregate(runs, group_rows(runs, keys), reduce).reset_index()
    of_cells = group_rows(rounds, [key for key in keys if key not in ("host", "round")])["work"]
    return rounds.assign(work=of_cells.transform(same_work.join_works))


def by_cell(rounds: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell.

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

    Each other column is there twice: <column>_baseline and <column>_candidate.
    """
    on = [*dict.fromkeys(on)]  # an axis may be the host or the round
    baseline, candidate = (frame[frame[axis] == name] for name in names)
    how: Literal["inner", "cross"] = "inner" if on else "cross"
    suffixes = ("_baseline", "_candidate")
    return baseline.merge(candidate, how=how, on=on or None, suffixes=suffixes)


def add_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    added: dict[str, Column] = {}
    for metric in METRICS.values():
        is_published = metric.name in frame and metric.name not in metric.needs
        if set(metric.needs) <= set(frame.columns) and not is_published:
            columns = {name: frame[name] for name in metric.needs}
            parts = {part: compute(columns) for part, compute in metric.parts.items()}
            if len(parts) > 1:
                # A part counts only where the others are known, so that all have the same runs.
                is_known = frame[[*metric.needs]].notna().all(axis=1)
                parts = {part: pd.Series(of).where(is_known) for part, of in parts.items()}
            added |= {f"{metric.name}/{part}": column for part, column in parts.items()}
            added[metric.name] = metric.value(parts)
    # At once: pandas is slow with many columns that were added one by one.
    return pd.DataFrame(dict(frame.items()) | added, index=frame.index)


def _aggregate(frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str) -> pd.DataFrame:
    values: dict[str, Column] = {
        "flags": groups["flags"].agg(" ".join),
        "started_at": groups["started_at"].first(),
        FIXED_SHARE: groups[FIXED_SHARE].max(),
        "work": groups["work"].agg(same_work.join_works),
    }
    for metric in (METRICS[name] for name in METRICS if name in frame):
        columns = {part: f"{metric.name}/{part}" for part in metric.parts}
        if reduce not in (MEDIAN, MEAN):
            smallest = (metric.better == LOW) == (reduce == BEST)
            values[metric.name] = groups[metric.name].agg("min" if smallest else "max")
        elif all(column in frame for column in columns.values()):
            parts = {part: _centre(frame, groups, name, reduce) for part, name in columns.items()}
            values |= {columns[part]: column for part, column in parts.items()}
            values[metric.name] = metric.value(parts)
        else:
            values[metric.name] = groups[metric.name].agg("median")
    return pd.DataFrame(values, index=groups.size().index)


def _centre(frame: pd.DataFrame, groups: DataFrameGroupBy, column: str, reduce: str) -> pd.Series:
    if reduce == MEAN and f"log {column}" in frame:
        return pd.Series(np.exp(groups[f"log {column}"].mean()))
    return pd.Series(groups[column].median())


def _with_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Add logarithms of the parts of noisy metrics; a rounded time of 0 gives a mean of 0."""
    noisy = [metric for metric in METRICS.values() if not metric.exact]
    columns = [f"{metric.name}/{part}" for metric in noisy for part in metric.parts]
    with np.errstate(divide="ignore"):
        logs = {f"log {c}": np.log(runs[c].astype(float)) for c in columns if c in runs}
    return pd.concat([runs, pd.DataFrame(logs, index=runs.index)], axis=1)
