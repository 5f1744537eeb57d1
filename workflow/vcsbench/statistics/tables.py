"""Tables of a study, by the same code from measured and from published numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.config.study import ComparisonDefinition, TableDefinition
from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.measurements import group_rows, in_order
from vcsbench.metrics import COUNT, NO_RATIO, Metric, metric_in
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
OF_SIDES = ("hosts", "flags", "work", FIXED_SHARE)


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

    def why_missing(self, metric: Metric) -> str:
        """Return why a cell may lack a value of a metric; "" if rows without it are left out."""
        is_counted = self.is_measured and set(metric.needs) <= set(self.frame)
        return metric.why_missing if is_counted else ""

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
    scatter: float = math.nan,
) -> dict[str, pd.DataFrame]:
    """Return tables by name, with the columns of comparisons.columns().

    `frame` has a column per axis, and the columns of the measurements or one per published metric. `order`
    sorts the rows. Cells that agree on the axes of `block` run next to each other. A cell or pair without a
    number has no row. `scatter` (noise.run_scatter) raises the limits of noisy metrics.
    """
    everything = Aggregation(frame, order, block)
    shared: dict[str, Aggregation] = {}
    tables = {}
    selecting = ["where", "by", "each", *["reduce"] * (STATISTIC in frame)]
    for name, definition in definitions.items():
        key = json.dumps([definition.get(key) for key in selecting])
        if key not in shared:
            shared[key] = everything.selected(definition)
        own_limits = limits if metric_in(definition).exact else limits.on_machine(scatter)
        tables[name] = _table(name, definition, shared[key], own_limits)
    return tables


def _table(
    name: str, definition: TableDefinition, aggregation: Aggregation, limits: Limits
) -> pd.DataFrame:
    metric, order, keys = metric_in(definition), aggregation.order, list(aggregation.order)
    if compare := definition.get("compare"):
        table = _comparisons(aggregation, definition, compare, metric, limits)
        keys.remove(compare["axis"])
        if compare["axis"] == run_columns.BUILD_AXIS:
            table = table.assign(flags=run_columns.same_binaries(table, aggregation.frame, keys))
        if aggregation.is_measured and not table.empty:
            noise = aggregation.noise(metric.name, _statistic_of_rounds(definition))
            sd = math.sqrt(noise.duplicates.variance)
            table = call_table(table, sd, metric, limits)
            # The correction includes these rows, but they decide nothing.
            small = table[FIXED_SHARE] > flags.DECIDING_SHARE
            table["call"] = table["call"].mask(small, "")
        order = {**order, "candidate": list(compare["candidates"])}
        table = in_order(table, order, [*keys, "candidate"])
    else:
        table = in_order(_levels(aggregation, definition, metric, limits), order, keys)
    empty = [] if aggregation.is_measured else [*comparisons.STATISTICS]
    empty += comparisons.CALL if "call" not in table else []
    if metric.once and aggregation.is_measured:
        table = table.assign(n=table["n"].clip(upper=1))
    table = table.assign(**dict.fromkeys(empty, ""))
    return finish_table(without_time_flags(table, metric), name, keys)


def _with_metric(frame: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    return frame if metric.name in frame else frame.assign(**{metric.name: np.nan})


def finish_table(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    return table.assign(table=name)[comparisons.columns(keys)].reset_index(drop=True)


def rows_frame(
    records: Sequence[Mapping[str, object]], keys: Sequence[str], others: Sequence[str] = ()
) -> pd.DataFrame:
    columns = [*keys, *SIDES, "value", *comparisons.STATISTICS, *comparisons.ERROR, *others]
    return pd.DataFrame(records, columns=columns)


def table_row(
    point: Row, value: float, words: Iterable[str], withheld: str, others: Row
) -> dict[str, Any]:
    """Return a row with the keys of its point and other columns. A withheld one has no value."""
    value = math.nan if withheld else value
    return {**point, **others, "value": value, "flags": flags.joined(words), "withheld": withheld}


def _levels(
    aggregation: Aggregation, definition: TableDefinition, metric: Metric, limits: Limits
) -> pd.DataFrame:
    records, keys, missing = [], list(aggregation.order), aggregation.why_missing(metric)
    reduce = definition.get("reduce", MEDIAN)
    cells = _with_metric(aggregation.cells(reduce), metric)
    rounds = _with_metric(aggregation.rounds(reduce), metric)
    # Rounds without the value do not count. Both frames have the cells in the same order.
    counts = group_rows(rounds, keys)[metric.name].count()
    for cell, n in zip(cells.to_dict("records"), counts, strict=True):
        row_flags, withheld = _withheld([cell], metric, missing)
        refused = same_work.refusal(same_work.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == same_work.OTHER:
            withheld = refused.reason
        row_flags += cell["flags"].split()
        row_flags += [] if metric.once else low_n(n, limits)
        point = {**{key: cell[key] for key in keys}, **dict.fromkeys(SIDES, "")}
        numbers = {"n": n, FIXED_SHARE: math.nan if metric.exact else cell[FIXED_SHARE]}
        records.append(table_row(point, cell[metric.name], row_flags, withheld, numbers))
    return _without_empty(rows_frame(records, keys))


def _comparisons(
    aggregation: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return a row per candidate and pair of cells; rounds are paired within a host."""
    records, keys, axis = [], list(aggregation.order), compare["axis"]
    shared, reduce = [key for key in keys if key != axis], definition.get("reduce", MEDIAN)
    of_rounds, missing = _statistic_of_rounds(definition), aggregation.why_missing(metric)
    noise = aggregation.noise(metric.name, of_rounds)
    cells = _with_metric(aggregation.cells(reduce), metric)
    rounds = _with_metric(aggregation.rounds(of_rounds), metric)
    for candidate in compare["candidates"]:
        names = (compare["baseline"], candidate)
        both = pair_rows(cells, axis, names, shared)
        logs = pair_rows(rounds, axis, names, [*shared, "host", "round"])
        estimates = _estimates(logs, shared, metric)
        for pair in both.assign(quotient=_quotients(both, metric.name)).to_dict("records"):
            where = {key: pair[key] for key in shared}
            ends = [tuple((where | {axis: name})[key] for key in keys) for name in names]
            estimate, end = estimates.get(tuple(where.values()), NO_ESTIMATE), (ends[0], ends[1])
            estimate = noise.with_error(estimate, [end])
            sides = [
                {name: pair[f"{name}_{side}"] for name in (*OF_SIDES, metric.name)}
                for side in SIDES
            ]
            row_flags, withheld = _withheld(sides, metric, missing)
            if estimate.n and math.isnan(estimate.value):
                withheld = withheld or NO_RATIO
            row_flags += [*own_flags(side["flags"] for side in sides), *low_n(estimate.n, limits)]
            row_flags += [] if noise.are_in_turns(end) else ["not-in-turns"]
            works = dict(zip(names, (side["work"] for side in sides), strict=True))
            refused = same_work.refusal(same_work.name_of(where, shared), works)
            numbers: dict[str, float] = {"n": estimate.n}
            if refused and not any(map(same_work.is_unchecked, works.values())):
                row_flags, withheld = [*row_flags, refused.flag], refused.reason
            else:
                share = np.fmax(sides[0][FIXED_SHARE], sides[1][FIXED_SHARE])
                numbers = ratio_columns(estimate)
                numbers[FIXED_SHARE] = math.nan if metric.exact else share
            point = {**where, **dict(zip(SIDES, names, strict=True))}
            value = 100 * (pair["quotient"] - 1)
            records.append(table_row(point, value, row_flags, withheld, numbers))
    return _without_empty(rows_frame(records, shared))


def _statistic_of_rounds(definition: TableDefinition) -> str:
    """Return the statistic of runs whose ratio is taken in each round."""
    return MEAN if (reduce := definition.get("reduce", MEDIAN)) == MEDIAN else reduce


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


def _without_empty(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["value"].notna() | (table["withheld"] != "")]


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient) & (quotient > 0))


def ratio_columns(estimate: Estimate) -> dict[str, float]:
    names = ("low", "high", "n", "error", "degrees")
    return {"ratio": estimate.value} | {name: getattr(estimate, name) for name in names}


def _withheld(sides: Sequence[Row], metric: Metric, missing: str) -> tuple[list[str], str]:
    flag = "hosts-differ"
    if len({host for side in sides for host in side["hosts"].split()}) > 1:
        return [flag], flags.flag_message(flag)
    return [], missing if any(math.isnan(side[metric.name]) for side in sides) else ""


def own_flags(sides: Iterable[str]) -> list[str]:
    return [flag for side in sides for flag in side.split() if flag not in same_work.REFUSED]


def low_n(n: int, limits: Limits) -> list[str]:
    return ["low-n"] if n < limits.min_rounds else []
