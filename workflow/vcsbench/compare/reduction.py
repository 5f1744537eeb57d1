"""Reduces runs to one value per round, and rounds to one value per cell: medians, as published, or where a
table says so the best or the worst. What is compared round by round is the geometric mean of the runs: it
scatters by a tenth to a sixth less than the median of a few."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.statistic import STATISTIC
from vcsbench.evidence import counted, flags, samework
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import COUNT, LOW, Metric, metric_of, names
from vcsbench.plan import twins

MEDIAN, BEST, WORST = "median", "best", "worst"
MEAN = "mean"  # of the runs of a round; of counts still the median
MIDDLES = (MEDIAN, MEAN)
LOG = "log {}"

FIXED_SHARE = "fixed_share"

# Where numbers have no rounds, as published ones: one round, on a machine without a name; that all
# did the same is taken as said.
NO_ROUNDS: dict[str, Any] = {
    "host": "",
    "round": 1.0,
    "flags": "",
    "work": "published",
    "not_counted": "",
    FIXED_SHARE: np.nan,
}


def is_measured(frame: pd.DataFrame) -> bool:
    """Whether the frame has single rounds: published numbers have been reduced already."""
    return "round" in frame.columns


def as_reduced(frame: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Of published numbers that say what runs were reduced to, those of a statistic, or of none; all of
    others."""
    if STATISTIC not in frame:
        return frame
    return frame[frame[STATISTIC].isin(["", statistic])]


def told_apart(frame: pd.DataFrame, by: Sequence[str]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """The frame with the columns `by`, which are no axes but tell rows apart as these do, as text ("" where
    it has none); and the values of each in order: numbers by size, others as they come."""
    frame = frame.assign(**{name: "" for name in by if name not in frame})
    frame = frame.assign(**{name: frame[name].map(_text) for name in by})
    order = {name: list(dict.fromkeys(frame[name])) for name in by}
    for values in order.values():
        if all(value.isdigit() for value in values):
            values.sort(key=int)
    return frame, order


def side_by_side(frame: pd.DataFrame, each: Sequence[str]) -> pd.DataFrame:
    """The rows once for each of some metrics, which COUNT names, with that one's value as `counts`; rows in
    which it has none are left out but where it is said why."""
    runs = _with_metrics(frame)
    why = runs["not_counted"] if "not_counted" in runs else pd.Series("", index=runs.index)
    parts = [
        runs.assign(
            **{COUNT: name},
            counts=runs.get(name, np.nan),
            not_counted=why.map(lambda text, name=name: _renamed(text, name)),
        )
        for name in each
    ]
    return pd.concat(parts, ignore_index=True)


def _renamed(not_counted: Any, name: str) -> str:
    """Why `counts` are not there: for the reason for which the metric `name` is not."""
    reason = counted.why_not(not_counted, [name])
    return json.dumps({"counts": reason}) if reason else ""


def _text(value: Any) -> str:
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def by_round(frame: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """A row per cell, host and round: the metrics of its runs, and all of their flags; of originals
    only, not of their twins (here is the one place where the two are told apart).

    The frame is that of the measurements, or of published numbers with the axes and a column per
    metric; `axes` tell its cells apart. Runs with a false label are left out. Columns: the axes, host,
    round, all metrics for which there is what they need, their parts, flags, not_counted (of the first
    run), and work: what the runs of the cell did in all rounds (samework.several).
    """
    if not is_measured(frame):
        return _with_metrics(frame).assign(**NO_ROUNDS)
    return _rounds(frame[~_of_twins(frame)], [*axes, "host", "round"], reduce)


def twins_by_round(frame: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The same of the twins, as they are compared, with their `cell` as well."""
    if "cell" not in frame:
        frame = frame.assign(cell="")
    return _rounds(frame[_of_twins(frame)], ["cell", *axes, "host", "round"], MEAN)


def _of_twins(frame: pd.DataFrame) -> pd.Series:
    if "cell" not in frame:
        return pd.Series(False, index=frame.index)
    return frame["cell"].map(twins.is_twin).astype(bool)


def that_count(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of originals and twins that are what their labels say, each with its metrics."""
    return _with_metrics(frame[~frame["flags"].map(flags.has_false_label).astype(bool)])


def _rounds(frame: pd.DataFrame, keys: list[str], reduce: str) -> pd.DataFrame:
    runs = that_count(frame)
    # Without the columns nothing tells what they did, nor why something was not counted.
    runs = runs.assign(**{name: runs.get(name, "") for name in ("work", "not_counted")})
    runs = runs.assign(**{FIXED_SHARE: runs.get(FIXED_SHARE, np.nan)})
    groups = grouped(_with_logs(runs) if reduce == MEAN else runs, keys)
    rounds = _reduced(runs, groups, reduce)
    rounds["flags"] = groups["flags"].agg(" ".join)
    rounds["not_counted"] = groups["not_counted"].first()
    rounds[FIXED_SHARE] = groups[FIXED_SHARE].max()
    rounds["work"] = groups["work"].agg(samework.several)
    rounds = rounds.reset_index()
    of_cells = grouped(rounds, [key for key in keys if key not in ("host", "round")])["work"]
    return rounds.assign(work=of_cells.transform(samework.several))


def by_cell(rounds: pd.DataFrame, axes: Sequence[str], reduce: str = MEDIAN) -> pd.DataFrame:
    """A row per cell: the metrics of its rounds. Of several parts each is reduced, and then the metric
    computed: it is not the median of the rounds' own.

    Columns: the axes, the metrics and their parts, n (rounds), hosts, flags (words separated by spaces),
    not_counted and work.
    """
    groups = grouped(rounds, axes)
    cells = _reduced(rounds, groups, reduce).assign(
        n=groups.size(),
        hosts=groups["host"].agg(lambda hosts: " ".join(sorted(set(hosts)))),
        flags=groups["flags"].agg(" ".join),
        not_counted=groups["not_counted"].first(),
        fixed_share=groups[FIXED_SHARE].max(),
        work=groups["work"].first(),
    )
    return cells.reset_index()


def paired(frame: pd.DataFrame, axis: str, names: Sequence[str], on: Sequence[str]) -> pd.DataFrame:
    """The rows with the first of two values of an axis beside those with the second, where they agree on the
    columns `on`; there are two of each other column: <column>_baseline, <column>_candidate."""
    baseline, candidate = (frame[frame[axis] == name] for name in names)
    how: dict[str, Any] = {"on": list(on)} if on else {"how": "cross"}
    return baseline.merge(candidate, **how, suffixes=("_baseline", "_candidate"))


def _with_metrics(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with each metric that it has not, where it has what that needs, and with its parts."""
    made: dict[str, Any] = {}
    for metric in map(metric_of, names()):
        given = metric.name in frame and metric.name not in metric.needs  # as it was published
        if set(metric.needs) <= set(frame.columns) and not given:
            columns = {name: frame[name] for name in metric.needs}
            parts = {part: compute(columns) for part, compute in metric.parts.items()}
            made |= {_column(metric, part): column for part, column in parts.items()}
            made[metric.name] = metric.value(parts)
    return frame.assign(**made)


def _column(metric: Metric, part: str) -> str:
    return f"{metric.name}/{part}"


def _reduced(frame: pd.DataFrame, groups: Any, reduce: str) -> pd.DataFrame:
    """The metrics of groups of rows, and their parts."""
    made: dict[str, Any] = {}
    for metric in (metric_of(name) for name in names() if name in frame):
        columns = {part: _column(metric, part) for part in metric.parts}
        if reduce in MIDDLES and all(column in frame for column in columns.values()):
            parts = {part: _middle(groups, column, reduce) for part, column in columns.items()}
            made |= {columns[part]: reduced for part, reduced in parts.items()}
            made[metric.name] = metric.value(parts)
        else:
            made[metric.name] = groups[metric.name].agg(_how(metric, reduce))
    return pd.DataFrame(made, index=groups.size().index)


def _middle(groups: Any, column: str, reduce: str) -> pd.Series:
    """The median or, of what has a logarithm beside it (_with_logs), the geometric mean."""
    log = LOG.format(column)
    if reduce == MEAN and log in groups.obj:
        return pd.Series(np.exp(groups[log].mean()))
    return pd.Series(groups[column].median())


def _with_logs(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the logarithms of what noisy metrics are made of; a mean is 0 where a value is, as a
    time may be that was rounded."""
    noisy = [metric for metric in map(metric_of, names()) if not metric.exact]
    columns = [_column(metric, part) for metric in noisy for part in metric.parts]
    with np.errstate(divide="ignore"):
        logs = {LOG.format(c): np.log(runs[c].astype(float)) for c in columns if c in runs}
    return pd.concat([runs, pd.DataFrame(logs, index=runs.index)], axis=1)


def _how(metric: Metric, reduce: str) -> str:
    if reduce in MIDDLES:
        return "median"
    return "min" if (metric.better == LOW) == (reduce == BEST) else "max"
