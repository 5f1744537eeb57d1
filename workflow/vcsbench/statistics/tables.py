"""Tables of a study, by the same code from measured and from published numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.measurements import grouped, in_order
from vcsbench.metrics import COUNT, Metric, metric_in
from vcsbench.statistics.aggregation import (
    FIXED_SHARE,
    MEAN,
    MEDIAN,
    add_key_columns,
    by_cell,
    by_round,
    is_measured,
    pair_rows,
    pivot_metrics,
    rows_of_statistic,
    rows_where,
)
from vcsbench.statistics.contract import (
    CALL,
    DEFAULT_LIMITS,
    ERROR,
    STATISTIC,
    STATISTICS,
    Limits,
    columns,
)
from vcsbench.statistics.intervals import NO_ESTIMATE, Estimate, ratio_interval
from vcsbench.statistics.multiple_testing import (
    call_counts,
    call_table,
    constant_ratio,
    without_time_flags,
)
from vcsbench.statistics.noise import NO_NOISE, Noise, noise_of

if TYPE_CHECKING:
    from vcsbench.config.study import ComparisonDefinition, TableDefinition

SIDES = ("baseline", "candidate")


class SideCell(NamedTuple):
    """One cell of a compared pair. `not_counted` has the reasons of missing values."""

    hosts: str
    flags: str
    work: str
    not_counted: str
    fixed_share: float
    value: float


@dataclass(eq=False)
class Aggregation:
    """Rows of tables and their aggregates, each computed once.

    `order` maps the keys of cells (axes and others) to their values in order.
    """

    frame: pd.DataFrame
    order: Mapping[str, list[str]]
    block: Sequence[str]
    _rounds: dict[str, pd.DataFrame] = field(default_factory=dict)
    _cells: dict[str, pd.DataFrame] = field(default_factory=dict)
    _noise: dict[str, Noise] = field(default_factory=dict)

    def rounds(self, reduce: str, metric: Metric) -> pd.DataFrame:
        """Return a row per cell, host and round, with the metric (empty if unknown)."""
        if reduce not in self._rounds:
            self._rounds[reduce] = by_round(self.frame, [*self.order], reduce)
        rounds = self._rounds[reduce]
        return rounds if metric.name in rounds else rounds.assign(**{metric.name: np.nan})

    def cells(self, reduce: str, metric: Metric) -> pd.DataFrame:
        """Return a row per cell, with the metric."""
        rounds = self.rounds(reduce, metric)
        if metric.name not in self._rounds[reduce]:
            return by_cell(rounds, [*self.order], reduce)
        if reduce not in self._cells:
            self._cells[reduce] = by_cell(rounds, [*self.order], reduce)
        return self._cells[reduce]

    def noise(self, metric: Metric) -> Noise:
        """Return the noise of the rows; none of published numbers."""
        if not is_measured(self.frame):
            return NO_NOISE
        if metric.name not in self._noise:
            rounds = self.rounds(MEAN, metric)
            self._noise[metric.name] = noise_of(
                self.frame, [*self.order], self.block, metric, rounds
            )
        return self._noise[metric.name]

    def selected(self, definition: TableDefinition) -> Aggregation:
        """Return the aggregation of the rows that a table is about."""
        frame = self.frame
        if STATISTIC not in definition.get("by", ()):
            frame = rows_of_statistic(frame, definition.get("reduce", MEDIAN))
        frame = rows_where(frame, definition.get("where", {}))
        frame, by = add_key_columns(frame, definition.get("by", []))
        if each := definition.get("each"):
            frame, by = pivot_metrics(frame, each), {**by, COUNT: list(each)}
        return Aggregation(frame, {**self.order, **by}, self.block)


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: TableDefinition,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return a table of a study, as make_tables() does."""
    return make_tables(frame, {name: definition}, order, block, limits)[name]


def make_tables(
    frame: pd.DataFrame,
    definitions: Mapping[str, TableDefinition],
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
    scatter: float = math.nan,
) -> dict[str, pd.DataFrame]:
    """Return tables by name, with the columns of contract.columns().

    `frame` has a column per axis, and the columns of the measurements or one per published metric. `order`
    has the axes with their values in order, and sorts the rows. Cells that agree on the axes of `block` run
    next to each other. A cell or pair without a number has no row. `scatter` (noise.run_scatter) raises the
    limits of noisy metrics.
    """
    everything = Aggregation(frame, order, block)
    shared: dict[str, Aggregation] = {}
    tables = {}
    for name, definition in definitions.items():
        selecting = ["where", "by", "each", *["reduce"] * (STATISTIC in frame)]
        key = json.dumps([definition.get(name) for name in selecting])
        if key not in shared:
            shared[key] = everything.selected(definition)
        exact = metric_in(definition).exact
        own_limits = limits if exact else limits.on_machine(scatter)
        tables[name] = _table(name, definition, shared[key], own_limits)
    return tables


def _table(
    name: str, definition: TableDefinition, aggregation: Aggregation, limits: Limits
) -> pd.DataFrame:
    reduce, metric = definition.get("reduce", MEDIAN), metric_in(definition)
    order, measured = aggregation.order, is_measured(aggregation.frame)
    keys, cells = list(order), aggregation.cells(reduce, metric)
    if compare := definition.get("compare"):
        axis, noise = compare["axis"], aggregation.noise(metric)
        rounds = aggregation.rounds(MEAN if reduce == MEDIAN else reduce, metric)
        table = _comparisons(rounds, cells, compare, noise, keys, metric, limits)
        keys.remove(axis)
        if axis == run_columns.BUILD_AXIS:
            table = table.assign(flags=run_columns.same_binaries(table, aggregation.frame, keys))
        if measured and not table.empty:
            table = call_table(table, noise, metric, limits)
            table = call_counts(table, metric) if metric.exact else table
        order = {**order, "candidate": list(compare["candidates"])}
        table = in_order(table, order, [*keys, "candidate"])
    else:
        table = in_order(_levels(cells, keys, metric, limits), order, keys)
    empty = [] if measured else [*STATISTICS]
    empty += CALL if "call" not in table else []
    table = table.assign(**dict.fromkeys(empty, ""))
    return finish_table(without_time_flags(table, metric), name, keys)


def finish_table(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """Return a table with its name and all columns in order; `keys` identify its rows."""
    return table.assign(table=name)[columns(keys)].reset_index(drop=True)


def rows_frame(rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> pd.DataFrame:
    """Return rows of a table as a frame, without calls."""
    return pd.DataFrame(rows, columns=[*keys, *SIDES, "value", *STATISTICS, *ERROR])


def _levels(
    cells: pd.DataFrame, keys: Sequence[str], metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return the values of single cells."""
    rows = []
    for cell in cells.to_dict("records"):
        words, withheld = _hosts_differ(cell["hosts"])
        refused = same_work.refusal(same_work.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == same_work.OTHER:
            withheld = refused.reason
        withheld = withheld or _missing([cell[metric.name]], [cell["not_counted"]], metric)
        words += [*cell["flags"].split(), *([] if metric.once else low_n(cell["n"], limits))]
        rows.append(
            {
                **{key: cell[key] for key in keys},
                **dict.fromkeys(SIDES, ""),
                "value": math.nan if withheld else cell[metric.name],
                "n": cell["n"],
                "flags": flags.joined(words),
                "withheld": withheld,
                "fixed_share": math.nan if metric.exact else cell[FIXED_SHARE],
            }
        )
    return _without_empty(rows_frame(rows, keys))


def _comparisons(
    rounds: pd.DataFrame,
    cells: pd.DataFrame,
    compare: ComparisonDefinition,
    noise: Noise,
    keys: Sequence[str],
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return a row per candidate and pair of cells; rounds are paired within a host."""
    rows, axis = [], compare["axis"]
    shared = [key for key in keys if key != axis]
    for candidate in compare["candidates"]:
        names = (compare["baseline"], candidate)
        both = pair_rows(cells, axis, names, shared)
        logs = pair_rows(rounds, axis, names, [*shared, "host", "round"])
        estimates = _estimates(logs, shared, metric)
        pairs = zip(
            both[shared].to_numpy(),
            _quotients(both, metric.name),
            *(_side_cells(both, side, metric) for side in SIDES),
            strict=True,
        )
        for key, quotient, *sides in pairs:
            where = dict(zip(shared, key, strict=True))
            cell, other = (tuple((where | {axis: name})[key] for key in keys) for name in names)
            estimate = noise.with_error(estimates.get(tuple(key), NO_ESTIMATE), [(cell, other)])
            refused = same_work.refusal(
                same_work.name_of(where, shared),
                {name: side.work for name, side in zip(names, sides, strict=True)},
            )
            facts = _facts(sides, quotient, estimate, refused, metric, limits)
            rows.append(where | dict(zip(SIDES, names, strict=True)) | facts)
    return _without_empty(rows_frame(rows, shared))


def _side_cells(pairs: pd.DataFrame, side: str, metric: Metric) -> Iterator[SideCell]:
    names = ("hosts", "flags", "work", "not_counted", FIXED_SHARE, metric.name)
    return map(SideCell, *(pairs[f"{name}_{side}"] for name in names))


def _estimates(
    logs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[tuple[str, ...], Estimate]:
    """Return the ratio of each pair of cells by its shared keys, from paired rounds."""
    quotients = _quotients(logs, metric.name)
    pairs = grouped(logs.assign(quotient=quotients, log=np.log(quotients)), shared)
    # One column of a part takes a tenth of the time of all columns.
    estimates = {name if shared else (): ratio_interval(part) for name, part in pairs["log"]}
    if metric.exact:
        for name, part in pairs:
            if constant := constant_ratio(metric, part):
                estimates[name if shared else ()] = constant
    return estimates


def _without_empty(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["value"].notna() | (table["withheld"] != "")]


def _missing(values: Sequence[float], not_counted: Sequence[str], metric: Metric) -> str:
    """Return the reason why one of a row's values is missing; "" if unknown."""
    pairs = zip(values, not_counted, strict=True)
    reasons = [
        run_columns.why_not_counted(why, metric.needs) for value, why in pairs if math.isnan(value)
    ]
    return next(filter(None, reasons), "")


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient))  # A time may be rounded to 0.


def _facts(
    sides: Sequence[SideCell],
    quotient: float,
    estimate: Estimate,
    refused: same_work.Refusal | None,
    metric: Metric,
    limits: Limits,
) -> dict[str, object]:
    """Return value, statistics and flags of a pair of cells."""
    # Medians of different hosts are never divided; rounds of one host still make a ratio.
    words, withheld = _hosts_differ(" ".join(side.hosts for side in sides))
    words += [*own_flags(side.flags for side in sides), *low_n(estimate.n, limits)]
    if refused and not any(same_work.is_apart(side.work) for side in sides):
        words.append(refused.flag)
        return {"n": estimate.n, "flags": flags.joined(words), "withheld": refused.reason}
    shares = [side.fixed_share for side in sides]
    values, reasons = [side.value for side in sides], [side.not_counted for side in sides]
    withheld = withheld or _missing(values, reasons, metric)
    return {
        "value": math.nan if withheld else 100 * (quotient - 1),
        "flags": flags.joined(words),
        "withheld": withheld,
        "fixed_share": math.nan if metric.exact else np.fmax(shares[0], shares[1]),
        **estimate.statistics(),
    }


def _hosts_differ(hosts: str) -> tuple[list[str], str]:
    """Return the flag of a number of several hosts, and the reason to withhold it."""
    flag = "hosts-differ"
    return ([flag], flags.message(flag)) if len(set(hosts.split())) > 1 else ([], "")


def own_flags(sides: Iterable[str]) -> list[str]:
    """Return the flags of compared cells without flags of work, because the pair has its own."""
    return [word for side in sides for word in side.split() if word not in same_work.REFUSED]


def low_n(n: int, limits: Limits) -> list[str]:
    """Return the flag of a number that has too few rounds."""
    return ["low-n"] if n < limits.min_rounds else []
