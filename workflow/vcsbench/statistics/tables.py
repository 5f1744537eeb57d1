"""Make the tables of a study, by the same code from measured and from published numbers.

A table has levels (a row per cell) or comparisons (a row per pair of cells that differ in one axis).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.codes import WithheldCode
from vcsbench.config.study import ComparisonDefinition, TableDefinition
from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.measurements import group_rows, in_order
from vcsbench.metrics import COUNT, Metric, metric_in
from vcsbench.statistics import aggregation as rows
from vcsbench.statistics import comparisons
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, pair_rows
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, MEDIAN, SIDES, STATISTIC, Limits
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    call_table,
    constant_ratio,
    ratio_interval,
    without_time_flags,
)
from vcsbench.statistics.noise import NO_NOISE, Noise, noise_by_metric

Row = Mapping[Any, Any]


class Aggregation:
    """Rows of tables and their aggregates, each computed once.

    `order` maps the keys of cells (axes and others) to their values in order. `rounds` and `cells` are
    functions of a statistic. `whole` has the same columns and more cells, which estimate the noise.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        order: Mapping[str, list[str]],
        block: Sequence[str],
        whole: Aggregation | None = None,
    ) -> None:
        self.frame, self.order, self.block, keys = frame, order, block, list(order)
        self.is_measured = rows.is_measured(frame)
        self.rounds = cache(lambda statistic: rows.by_round(frame, keys, statistic))
        self.cells = cache(lambda statistic: rows.by_cell(self.rounds(statistic), keys, statistic))
        self.noises: Callable[[str], Callable[[str], Noise]] = (
            whole.noises
            if whole
            else cache(lambda of: noise_by_metric(frame, keys, block, self.rounds(of), of))
        )

    def why_missing(self, metric: Metric) -> WithheldCode | None:
        """Return why a cell may lack a value of a metric; None if rows without it are left out."""
        is_counted = self.is_measured and set(metric.needs) <= set(self.frame)
        return metric.why_missing if is_counted else None

    def noise(self, metric: str, statistic: str) -> Noise:
        return self.noises(statistic)(metric) if self.is_measured else NO_NOISE

    def selected(self, definition: TableDefinition) -> Aggregation:
        frame = self.frame
        if STATISTIC not in definition.get("by", ()):
            frame = rows.rows_of_statistic(frame, definition.get("reduce", MEDIAN))
        frame, by = rows.add_key_columns(frame, definition.get("by", []))
        if each := definition.get("each"):
            frame, by = rows.pivot_metrics(frame, each), {**by, COUNT: list(each)}
        order, where, whole = {**self.order, **by}, definition.get("where"), self
        if frame is not self.frame:
            whole = Aggregation(frame, order, self.block)
        if not where:
            return whole
        return Aggregation(rows.rows_where(frame, where), order, self.block, whole)


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: TableDefinition,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    return make_tables(frame, {name: definition}, order, block, limits)[name]


def make_tables(
    frame: pd.DataFrame,
    definitions: Mapping[str, TableDefinition],
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, pd.DataFrame]:
    """Return tables by name, with the columns of comparisons.columns().

    `frame` has a column per axis, and the columns of the measurements or one per published metric. `order`
    sorts the rows. Cells that agree on the axes of `block` run next to each other. A cell or pair without a
    number has no row.
    """
    everything = Aggregation(frame, order, block)
    # Tables that select the same rows share their aggregates, which take most of the time.
    selecting = ["where", "by", "each"]
    if STATISTIC in frame:
        selecting.append("reduce")
    shared: dict[str, Aggregation] = {}
    tables = {}
    for name, definition in definitions.items():
        selection = json.dumps([definition.get(key) for key in selecting])
        if selection not in shared:
            shared[selection] = everything.selected(definition)
        tables[name] = _table(name, definition, shared[selection], limits)
    return tables


def _table(
    name: str, definition: TableDefinition, aggregation: Aggregation, limits: Limits
) -> pd.DataFrame:
    metric, order, keys = metric_in(definition), aggregation.order, list(aggregation.order)
    compare = definition.get("compare")
    if compare:
        table = _comparisons(aggregation, definition, compare, metric, limits)
        keys.remove(compare["axis"])
        if compare["axis"] == run_columns.BUILD_AXIS:
            table = table.assign(flags=run_columns.same_binaries(table, aggregation.frame, keys))
        if aggregation.is_measured and not table.empty:
            noise = aggregation.noise(metric.name, _statistic_of_rounds(definition))
            duplicate_sd = math.sqrt(noise.duplicates.variance)
            table = call_table(table, duplicate_sd, metric, limits)
        order = {**order, "candidate": list(compare["candidates"])}
        table = in_order(table, order, [*keys, "candidate"])
    else:
        table = in_order(_levels(aggregation, definition, metric, limits), order, keys)
    if metric.once and aggregation.is_measured:
        table = table.assign(n=table["n"].clip(upper=1))
    empty = [] if aggregation.is_measured else [*comparisons.STATISTICS]
    if "call" not in table:
        empty += comparisons.CALL
    table = table.assign(**dict.fromkeys(empty, ""))
    return finish_table(without_time_flags(table, metric), name, keys)


def _with_metric(frame: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    return frame if metric.name in frame else frame.assign(**{metric.name: np.nan})


def finish_table(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    return table.assign(table=name)[comparisons.columns(keys)].reset_index(drop=True)


def rows_frame(
    records: Sequence[Mapping[str, object]], keys: Sequence[str], others: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the records of table_row as a frame. `keys` identify a row, `others` are more columns."""
    shares = [f"share_{side}" for side in SIDES]
    columns = [*keys, *SIDES, "value", *comparisons.STATISTICS, *comparisons.ERROR, *shares]
    return pd.DataFrame(records, columns=[*columns, *comparisons.MEANS, "detail", *others])


def table_row(
    point: Row,
    value: float,
    row_flags: Iterable[str],
    withheld: WithheldCode | str | None,
    detail: str,
    numbers: Row,
) -> dict[str, Any]:
    """Return a row with the values of its axes and other columns. A withheld one has no value."""
    return {
        **point,
        **numbers,
        "value": math.nan if withheld else value,
        "flags": flags.join_flags(row_flags),
        "withheld": withheld or "",
        "detail": detail,
    }


def _levels(
    aggregation: Aggregation, definition: TableDefinition, metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return a row per cell with its value."""
    keys, why_missing = list(aggregation.order), aggregation.why_missing(metric)
    reduce = definition.get("reduce", MEDIAN)
    cells = _with_metric(aggregation.cells(reduce), metric)
    rounds = _with_metric(aggregation.rounds(reduce), metric)
    # Rounds without the value do not count. Both frames have the cells in the same order.
    counts = group_rows(rounds, keys)[metric.name].count()
    records = []
    for cell, n in zip(cells.to_dict("records"), counts, strict=True):
        value, detail = cell[metric.name], ""
        row_flags = cell["flags"].split()
        withheld = None
        if len(set(cell["hosts"].split())) > 1:
            withheld = WithheldCode.HOSTS_DIFFER
            row_flags.append(Flag.HOSTS_DIFFER)
        elif math.isnan(value):
            withheld = why_missing
        refused = same_work.refusal(same_work.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == same_work.OTHER:
            withheld, detail = WithheldCode.OTHER_WORK, refused.reason
        if not metric.once and limits.has_few_rounds(n):
            row_flags.append(Flag.LOW_N)
        point = {**{key: cell[key] for key in keys}, **dict.fromkeys(SIDES, "")}
        numbers = {"n": n, FIXED_SHARE: math.nan if metric.exact else cell[FIXED_SHARE]}
        records.append(table_row(point, value, row_flags, withheld, detail, numbers))
    return _without_empty(rows_frame(records, keys))


def _comparisons(
    aggregation: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return a row per candidate and pair of cells; rounds are paired within a host.

    The column `value` is of the cells' aggregates as published, by default medians. The ratio and its
    interval are of the rounds, by default of geometric means.
    """
    keys, axis = list(aggregation.order), compare["axis"]
    shared = [key for key in keys if key != axis]
    of_rounds = _statistic_of_rounds(definition)
    noise = aggregation.noise(metric.name, of_rounds)
    cells = _with_metric(aggregation.cells(definition.get("reduce", MEDIAN)), metric)
    rounds = _with_metric(aggregation.rounds(of_rounds), metric)
    records = []
    for candidate in compare["candidates"]:
        names = compare["baseline"], candidate
        cell_pairs = pair_rows(cells, axis, names, shared)
        cell_pairs = cell_pairs.assign(quotient=_quotients(cell_pairs, metric.name))
        round_pairs = pair_rows(rounds, axis, names, [*shared, "host", "round"])
        estimates = _estimates(round_pairs, shared, metric)
        means = _means(round_pairs, shared, metric)
        for pair in cell_pairs.to_dict("records"):
            where = {key: pair[key] for key in shared}
            first, second = (tuple((where | {axis: name})[key] for key in keys) for name in names)
            estimate = estimates.get(tuple(where.values()), NO_ESTIMATE)
            estimate = noise.with_error(estimate, [(first, second)])
            why_missing = aggregation.why_missing(metric)
            record = _comparison(where, names, pair, estimate, metric, why_missing)
            if not record["withheld"]:
                record |= means.get(tuple(where.values()), {})
            if limits.has_few_rounds(estimate.n):
                record["flags"] = flags.add_flag(record["flags"], Flag.LOW_N, True)
            if not noise.are_in_turns((first, second)):
                record["flags"] = flags.add_flag(record["flags"], Flag.NOT_IN_TURNS, True)
            records.append(record)
    return _without_empty(rows_frame(records, shared))


def _comparison(
    where: Mapping[str, str],
    names: tuple[str, str],
    pair: Row,
    estimate: Estimate,
    metric: Metric,
    why_missing: WithheldCode | None,
) -> dict[str, Any]:
    """Return the row of two cells, or why they are not compared.

    `names` are the compared values, `pair` has the columns of both cells (pair_rows).
    """
    row_flags = own_flags(pair[f"flags_{side}"] for side in SIDES)
    withheld, detail = None, ""
    if len({host for side in SIDES for host in pair[f"hosts_{side}"].split()}) > 1:
        withheld = WithheldCode.HOSTS_DIFFER
        row_flags.append(Flag.HOSTS_DIFFER)
    elif any(math.isnan(pair[f"{metric.name}_{side}"]) for side in SIDES):
        withheld = why_missing
    elif estimate.n and math.isnan(estimate.value):
        withheld = WithheldCode.ZERO
    works = {name: pair[f"work_{side}"] for name, side in zip(names, SIDES, strict=True)}
    refused = same_work.refusal(same_work.name_of(where, list(where)), works)
    numbers: dict[str, float] = {"n": estimate.n}
    if refused and not any(map(same_work.is_unchecked, works.values())):
        withheld, detail = WithheldCode(refused.flag), refused.reason
        row_flags.append(refused.flag)
    else:
        numbers = ratio_columns(estimate)
        if not metric.exact:
            numbers |= share_columns([pair[f"{FIXED_SHARE}_{side}"] for side in SIDES])
    point = {**where, **dict(zip(SIDES, names, strict=True))}
    return table_row(point, 100 * (pair["quotient"] - 1), row_flags, withheld, detail, numbers)


def _statistic_of_rounds(definition: TableDefinition) -> str:
    """Return the statistic of runs whose ratio is taken in each round."""
    reduce = definition.get("reduce", MEDIAN)
    return MEAN if reduce == MEDIAN else reduce


def _estimates(
    logs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[tuple[str, ...], Estimate]:
    quotients = _quotients(logs, metric.name)
    pairs = group_rows(logs.assign(quotient=quotients, log=np.log(quotients)), shared)
    # One column of a pair takes a tenth of the time of all columns.
    estimates = {name if shared else (): ratio_interval(logs) for name, logs in pairs["log"]}
    if metric.exact:
        for name, pair in pairs:
            if constant := constant_ratio(metric, pair):
                estimates[name if shared else ()] = constant
    both = logs[[f"{metric.name}_{side}" for side in SIDES]]
    is_zero = (both <= 0).any(axis=1) & both.notna().all(axis=1)
    for name, pair in group_rows(logs[is_zero], shared):
        # Without these rounds, the others would show too small a difference.
        key = name if shared else ()
        estimates[key] = replace(NO_ESTIMATE, n=estimates[key].n + len(pair))
    return estimates


def _means(
    logs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the geometric means of both sides over the rounds that both have, by key."""
    sides = logs[[f"{metric.name}_{side}" for side in SIDES]]
    is_common = sides.notna().all(axis=1) & (sides > 0).all(axis=1)
    columns = dict(zip(comparisons.MEANS, np.log(sides[is_common].to_numpy(float)).T, strict=True))
    means = group_rows(logs[is_common].assign(**columns), shared)[[*comparisons.MEANS]].mean()
    records = np.exp(means).to_dict("records")
    keys = means.index if shared else [()] * len(records)
    return dict(zip(keys, records, strict=True))


def _without_empty(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["value"].notna() | (table["withheld"] != "")]


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient) & (quotient > 0))


def ratio_columns(estimate: Estimate) -> dict[str, float]:
    names = ("low", "high", "n", "error", "degrees")
    return {"ratio": estimate.value} | {name: getattr(estimate, name) for name in names}


def share_columns(shares: Sequence[float]) -> dict[str, float]:
    """Return the columns of the shares of fixed cost of both sides, the baseline first."""
    return {
        FIXED_SHARE: np.fmax(shares[0], shares[1]),
        "share_baseline": shares[0],
        "share_candidate": shares[1],
    }


def own_flags(sides: Iterable[str]) -> list[str]:
    """Return the flags of both sides, without those that a comparison adds itself."""
    return [flag for side in sides for flag in side.split() if flag not in same_work.REFUSED]
