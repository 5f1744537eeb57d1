"""Aggregate runs to rounds and rounds to cells.

Cells have medians, as published, or the best or worst run if a table asks for it. Comparisons use the
geometric mean of the runs of a round, because it scatters by a tenth to a sixth less than the median of a
few runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.measurements import grouped
from vcsbench.metrics import COUNT, LOW, Metric, metric_of, names
from vcsbench.plan import grid as grids
from vcsbench.statistics.contract import STATISTIC, values_of

if TYPE_CHECKING:
    from pandas.api.typing import DataFrameGroupBy

    from vcsbench.metrics import Column

MEDIAN, BEST, WORST = "median", "best", "worst"
MEAN = "mean"  # Counts have the median here, too.
_CENTRES = (MEDIAN, MEAN)
_LOG = "log {}"

FIXED_SHARE = "fixed_share"

# Published numbers have no rounds: they count as one round on a nameless machine.
NO_ROUNDS: dict[str, str | float] = {
    "host": "",
    "round": 1.0,
    "flags": "",
    "work": "published",
    "not_counted": "",
    FIXED_SHARE: np.nan,
}


def is_measured(frame: pd.DataFrame) -> bool:
    """Return True if the frame has single rounds; published numbers are aggregated already."""
    return "round" in frame.columns


def rows_of_statistic(frame: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Return the published numbers of a statistic; all rows if the frame names none."""
    if STATISTIC not in frame:
        return frame
    return frame[frame[STATISTIC].isin(["", statistic])]


def rows_where(frame: pd.DataFrame, where: Mapping[str, object]) -> pd.DataFrame:
    """Return the rows of the cells that `where` selects."""
    for axis, values in where.items():
        frame = frame[frame[axis].isin(values_of(values))]
    return frame


def add_key_columns(
    frame: pd.DataFrame, by: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the frame with the columns `by` as text, and their values in order.

    These columns identify rows as axes do. A missing one is "". Numbers are ordered by size.
    """
    frame = frame.assign(**{name: "" for name in by if name not in frame})
    frame = frame.assign(**{name: frame[name].map(_text) for name in by})
    order = {name: list(dict.fromkeys(frame[name])) for name in by}
    for values in order.values():
        if all(value.isdigit() for value in values):
            values.sort(key=int)
    return frame, order


def _text(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def pivot_metrics(frame: pd.DataFrame, each: Sequence[str]) -> pd.DataFrame:
    """Return the rows once per metric: COUNT has its name, `counts` its value.

    `not_counted` has the reason if the value is missing.
    """
    runs = add_metrics(frame)
    why = runs["not_counted"] if "not_counted" in runs else pd.Series("", index=runs.index)
    parts = [
        runs.assign(
            **{COUNT: name},
            counts=runs.get(name, np.nan),
            not_counted=why.map(lambda text, name=name: _reason_as_json(text, name)),
        )
        for name in each
    ]
    return pd.concat(parts, ignore_index=True)


def _reason_as_json(not_counted: object, name: str) -> str:
    reason = run_columns.why_not_counted(not_counted, [name])
    return json.dumps({"counts": reason}) if reason else ""


def by_round(frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell, host and round, without duplicates and invalid runs.

    `frame` has measurements or published numbers; `axes` identify its cells. Columns: axes, host, round,
    metrics and their parts, flags, not_counted (of the first run), fixed_share, and work (same_work.several
    of all rounds of the cell).
    """
    if not is_measured(frame):
        return add_metrics(frame).assign(**NO_ROUNDS)
    return _aggregate_rounds(frame[~_is_duplicate(frame)], [*axes, "host", "round"], reduce)


def duplicates_by_round(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return the rounds of the duplicates, as they are compared, with their `cell`."""
    if "cell" not in frame:
        frame = frame.assign(cell="")
    return _aggregate_rounds(frame[_is_duplicate(frame)], ["cell", *axes, "host", "round"], MEAN)


def _is_duplicate(frame: pd.DataFrame) -> pd.Series:
    if "cell" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["cell"].map(grids.is_duplicate).astype(bool)


def valid_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose evidence agrees with their label, duplicates included, with metrics."""
    return add_metrics(frame[~frame["flags"].map(flags.is_invalid).astype(bool)])


def _aggregate_rounds(frame: pd.DataFrame, keys: list[str], reduce: str) -> pd.DataFrame:
    runs = valid_runs(frame)
    runs = runs.assign(**{name: runs.get(name, "") for name in ("work", "not_counted")})
    runs = runs.assign(**{FIXED_SHARE: runs.get(FIXED_SHARE, np.nan)})
    runs = _with_logs(runs) if reduce == MEAN else runs
    groups = grouped(runs, keys)
    rounds = _aggregate_metrics(runs, groups, reduce)
    rounds["flags"] = groups["flags"].agg(" ".join)
    rounds["not_counted"] = groups["not_counted"].first()
    rounds[FIXED_SHARE] = groups[FIXED_SHARE].max()
    rounds["work"] = groups["work"].agg(same_work.several)
    rounds = rounds.reset_index()
    of_cells = grouped(rounds, [key for key in keys if key not in ("host", "round")])["work"]
    return rounds.assign(work=of_cells.transform(same_work.several))


def by_cell(rounds: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """Return a row per cell.

    A metric of several parts is computed from its aggregated parts. Columns: axes, metrics and their parts,
    n (rounds), hosts, flags (separated by spaces), not_counted, fixed_share, work.
    """
    groups = grouped(rounds, axes)
    cells = _aggregate_metrics(rounds, groups, reduce).assign(
        n=groups.size(),
        hosts=groups["host"].agg(lambda hosts: " ".join(sorted(set(hosts)))),
        flags=groups["flags"].agg(" ".join),
        not_counted=groups["not_counted"].first(),
        fixed_share=groups[FIXED_SHARE].max(),
        work=groups["work"].first(),
    )
    return cells.reset_index()


def pair_rows(
    frame: pd.DataFrame, axis: str, names: Sequence[str], on: Sequence[str]
) -> pd.DataFrame:
    """Return rows of two values of an axis next to each other, matched by the columns `on`.

    Each other column is there twice: <column>_baseline and <column>_candidate.
    """
    baseline, candidate = (frame[frame[axis] == name] for name in names)
    suffixes = ("_baseline", "_candidate")
    if not on:
        return baseline.merge(candidate, how="cross", suffixes=suffixes)
    return baseline.merge(candidate, on=list(on), suffixes=suffixes)


def add_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with each metric that its columns allow, and the metric's parts."""
    added: dict[str, Column] = {}
    for metric in map(metric_of, names()):
        is_published = metric.name in frame and metric.name not in metric.needs
        if set(metric.needs) <= set(frame.columns) and not is_published:
            columns = {name: frame[name] for name in metric.needs}
            parts = {part: compute(columns) for part, compute in metric.parts.items()}
            added |= {_column(metric, part): column for part, column in parts.items()}
            added[metric.name] = metric.value(parts)
    return frame.assign(**added)


def _column(metric: Metric, part: str) -> str:
    return f"{metric.name}/{part}"


def _aggregate_metrics(frame: pd.DataFrame, groups: DataFrameGroupBy, reduce: str) -> pd.DataFrame:
    values: dict[str, Column] = {}
    for metric in (metric_of(name) for name in names() if name in frame):
        columns = {part: _column(metric, part) for part in metric.parts}
        if reduce in _CENTRES and all(column in frame for column in columns.values()):
            parts = {part: _centre(frame, groups, name, reduce) for part, name in columns.items()}
            values |= {columns[part]: column for part, column in parts.items()}
            values[metric.name] = metric.value(parts)
        else:
            values[metric.name] = groups[metric.name].agg(_function(metric, reduce))
    return pd.DataFrame(values, index=groups.size().index)


def _centre(frame: pd.DataFrame, groups: DataFrameGroupBy, column: str, reduce: str) -> pd.Series:
    """Return the median, or the geometric mean of columns with logarithms."""
    log = _LOG.format(column)
    if reduce == MEAN and log in frame:
        return pd.Series(np.exp(groups[log].mean()))
    return pd.Series(groups[column].median())


def _with_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """Add logarithms of the parts of noisy metrics; a rounded time of 0 gives a mean of 0."""
    noisy = [metric for metric in map(metric_of, names()) if not metric.exact]
    columns = [_column(metric, part) for metric in noisy for part in metric.parts]
    with np.errstate(divide="ignore"):
        logs = {_LOG.format(c): np.log(runs[c].astype(float)) for c in columns if c in runs}
    return pd.concat([runs, pd.DataFrame(logs, index=runs.index)], axis=1)


def _function(metric: Metric, reduce: str) -> str:
    if reduce in _CENTRES:
        return "median"
    return "min" if (metric.better == LOW) == (reduce == BEST) else "max"
