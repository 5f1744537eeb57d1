"""Make the tables of a study, by the same code from measured and from published numbers.

A table has levels (a row per cell) or comparisons (a row per pair of cells that differ in one axis).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.axis_names import BUILD_AXIS
from vcsbench.codes import WithheldCode
from vcsbench.config.study import ComparisonDefinition, TableDefinition
from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.measurements import group_rows, in_order
from vcsbench.metrics import COUNT, Metric, metric_in
from vcsbench.statistics import aggregation, calls, comparisons
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, pair_rows
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, MEDIAN, SIDES, STATISTIC, Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate, ratio_interval
from vcsbench.statistics.noise import NO_NOISE, CellKey, CellPair, Noise, noise_by_metric

Row = Mapping[Any, Any]


class Aggregation:
    """The rows that a table selects, and their aggregates over runs and rounds, each computed once."""

    def __init__(
        self,
        frame: pd.DataFrame,
        order: Mapping[str, list[str]],
        block: Sequence[str],
        whole: Aggregation | None = None,
    ) -> None:
        """Take the rows of `frame`: one per run, or one per published cell.

        `order` maps the keys of cells (axes and other columns) to their values in order. `block` are the axes
        whose values name a block (cells that are measured next to each other). `whole` is the aggregation of
        all cells if `frame` has only some of them: the noise comes from all, because all show how noisy the
        machine is.
        """
        self.frame = frame
        self.order = order
        self.block = block
        self.keys = list(order)
        self.is_measured = aggregation.is_measured(frame)
        self._whole = whole
        # Several tables need the same results, so each is stored. An argument is the statistic that reduces
        # runs to one number: self.rounds("median").
        self.rounds = cache(self._aggregate_rounds)
        self.undisturbed_rounds = cache(self._aggregate_undisturbed_rounds)
        self.cells = cache(self._aggregate_cells)
        self._noise_of_statistic = cache(self._estimate_noise)

    def _aggregate_rounds(self, statistic: str) -> pd.DataFrame:
        """Return the rows of by_round, with the runs of a round reduced by a statistic."""
        return aggregation.by_round(self.frame, self.keys, statistic)

    def _aggregate_undisturbed_rounds(self, statistic: str) -> pd.DataFrame | None:
        """Return the rows of by_round of undisturbed runs; None if other programs disturbed no run."""
        if not self.is_measured:
            return None
        is_disturbed = self.frame["flags"].map(flags.is_disturbed).astype(bool)
        if not is_disturbed.any():
            return None
        return aggregation.by_round(self.frame[~is_disturbed], self.keys, statistic)

    def _aggregate_cells(self, statistic: str) -> pd.DataFrame:
        """Return the rows of by_cell, with runs and rounds reduced by a statistic."""
        return aggregation.by_cell(self.rounds(statistic), self.keys, statistic)

    def _estimate_noise(self, statistic: str) -> Callable[[str], Noise]:
        return noise_by_metric(self.frame, self.keys, self.block, self.rounds(statistic), statistic)

    def noise(self, metric: str, statistic: str) -> Noise:
        """Return the noise of a metric whose runs are reduced by a statistic."""
        if self._whole is not None:
            return self._whole.noise(metric, statistic)
        return self._noise_of_statistic(statistic)(metric) if self.is_measured else NO_NOISE

    def why_missing(self, metric: Metric) -> WithheldCode | None:
        """Return the code why a measured cell may lack a value of a metric, such as `untraced`.

        None means that a row without the value is left out of the table: the numbers are published ones, or
        the study does not measure the metric.
        """
        is_counted = self.is_measured and set(metric.needs) <= set(self.frame)
        return metric.why_missing if is_counted else None

    def select(self, definition: TableDefinition) -> Aggregation:
        """Return the aggregation of the rows of a table, which depend on four keys of its definition:

        - `where: {cache: cold}` selects the cells with this value.
        - `by: [run]` separates the values of a column: a cell has a row for run 1, and another for run 2.
        - `each: [reads, renames]` gives each cell two rows, with its number of reads and of renames.
        - `reduce: best` selects this statistic of published numbers that have several (default: median).
        """
        by = definition.get("by", [])
        each = definition.get("each", [])
        where = definition.get("where")
        frame = self.frame
        # A table with the key `by: [statistic]` shows all published statistics next to each other.
        takes_statistic = STATISTIC in frame and STATISTIC not in by
        if takes_statistic:
            frame = aggregation.rows_of_statistic(frame, definition.get("reduce", MEDIAN))
        frame, order_of_by = aggregation.add_key_columns(frame, by)
        order = {**self.order, **order_of_by}
        if each:
            frame = aggregation.pivot_metrics(frame, each)
            order[COUNT] = list(each)
        all_cells = self
        if takes_statistic or by or each:
            # The rows are other ones now, such as one per run. So the noise must be estimated from these.
            all_cells = Aggregation(frame, order, self.block)
        if not where:
            return all_cells
        selected = aggregation.rows_where(frame, where)
        # The noise still comes from all cells, not only from the selected ones.
        return Aggregation(selected, order, self.block, whole=all_cells)


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: TableDefinition,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return one table by its definition; see make_tables() for the arguments and the columns."""
    return make_tables(frame, {name: definition}, order, block, limits)[name]


def make_tables(
    frame: pd.DataFrame,
    definitions: Mapping[str, TableDefinition],
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = DEFAULT_LIMITS,
) -> dict[str, pd.DataFrame]:
    """Compute all tables of a study from its measurements or its published numbers; return them by name.

    `frame` has a row per run, or per published cell. `order` has the axes with their values in the order of
    the rows. `block` are the axes whose values name a block (cells that are measured next to each other).

    Columns are comparisons.COLUMNS and the axes. Example: `{"compare": {"axis": "format", "baseline": "f6",
    "candidates": ["f7"]}}` gives rows such as `{"command": "log", "baseline": "f6", "candidate": "f7",
    "ratio": 1.3, "call": "faster"}`. A row without a value has a code in the column `withheld`, such as
    `untraced`. A cell or pair with neither a value nor a code has no row.
    """
    everything = Aggregation(frame, order, block)
    # Aggregating takes most of the time. So tables with equal values of these keys, which select the same
    # rows, share one Aggregation.
    selecting_keys = ["where", "by", "each"]
    # Published numbers may have a row for each statistic, such as `median` and `best`. Then the key `reduce`
    # selects rows, too.
    if STATISTIC in frame:
        selecting_keys.append("reduce")
    # By the values of the keys as text: `[{"cache": "cold"}, null, null]`.
    selections: dict[str, Aggregation] = {}
    tables = {}
    for name, definition in definitions.items():
        values_of_keys = json.dumps([definition.get(key) for key in selecting_keys])
        if values_of_keys not in selections:
            selections[values_of_keys] = everything.select(definition)
        tables[name] = _table(name, definition, selections[values_of_keys], limits)
    return tables


def _table(
    name: str, definition: TableDefinition, selection: Aggregation, limits: Limits
) -> pd.DataFrame:
    """Return a table of comparisons (with the key `compare`) or of levels, a number per cell.

    The result has all columns of the table's file. Columns that do not apply are "": ROUND_COLUMNS for
    published numbers, and CALL_COLUMNS for published numbers and for levels.
    """
    metric = metric_in(definition)
    compare = definition.get("compare")
    if compare:
        keys = [key for key in selection.keys if key != compare["axis"]]
        table = _compare(selection, definition, compare, metric, limits)
    else:
        keys = selection.keys
        levels = _levels(selection, definition, metric, limits)
        table = in_order(levels, selection.order, keys)
    empty_columns: list[str] = []
    if not selection.is_measured:
        empty_columns += comparisons.ROUND_COLUMNS
    # Only measured comparisons have calls.
    if "call" not in table:
        empty_columns += comparisons.CALL_COLUMNS
    table = table.assign(**dict.fromkeys(empty_columns, ""))
    table = calls.without_time_flags(table, metric)
    return finish_table(table, name, keys)


def _compare(
    selection: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return the rows of a table of comparisons in their order, one for each pair of compared cells.

    Measured rows get a call (the outcome, such as `faster`). Published rows get none, because the noise of
    published numbers is not known.
    """
    comparer = _make_comparer(selection, definition, compare, metric, limits)
    records = []
    for candidate in compare["candidates"]:
        records += comparer.rows_of((compare["baseline"], candidate))
    keys = comparer.shared
    table = _without_empty(rows_frame(records, keys))
    # Two builds of Subversion may turn out to be the same program. Then any difference in the row is noise.
    if compare["axis"] == BUILD_AXIS:
        table = table.assign(flags=run_columns.same_binaries(table, selection.frame, keys))
    if selection.is_measured and not table.empty:
        # 0 for counts, NaN if unknown.
        duplicate_sd = math.sqrt(comparer.noise.duplicates.variance)
        table = calls.call_table(table, duplicate_sd, metric, limits)
    # Rows that differ only in the candidate stand together, with the candidates as the study lists them.
    order = {**selection.order, "candidate": list(compare["candidates"])}
    return in_order(table, order, [*keys, "candidate"])


def _make_comparer(
    selection: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> _Comparer:
    """Return the comparer of a table, with the frames of cells and of rounds (passes over all cells)."""
    # Ratios come from the rounds, whose runs are reduced by `statistic`. A cell's own number is the median of
    # its rounds by default, because a count may be 0, which would make a geometric mean 0.
    statistic = _statistic_of_rounds(definition)
    cells = selection.cells(definition.get("reduce", MEDIAN))
    # Other programs make a run slower, but do not change its counts.
    undisturbed_rounds = selection.undisturbed_rounds(statistic) if metric.is_duration else None
    return _Comparer(
        axis=compare["axis"],
        keys=selection.keys,
        metric=metric,
        limits=limits,
        noise=selection.noise(metric.name, statistic),
        why_missing=selection.why_missing(metric),
        cells=_with_metric(cells, metric),
        rounds=selection.rounds(statistic),
        undisturbed_rounds=undisturbed_rounds,
    )


def finish_table(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """Return a table with its name, and its columns in the order of the file. `keys` are its axes."""
    columns = comparisons.list_columns(keys)
    return table.assign(table=name)[columns].reset_index(drop=True)


def rows_frame(
    records: Sequence[Mapping[str, object]], keys: Sequence[str], additional: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the records of table_row() as a frame, a row for each; numbers that a record lacks are NaN.

    `keys` are the columns that identify a row, `additional` are more columns. call_table() adds the columns
    `call` and `result` by share_baseline and share_candidate, which finish_table() removes again.
    """
    shares = [f"share_{side}" for side in SIDES]
    names = [*keys, *SIDES, "value", *comparisons.ROUND_COLUMNS, *comparisons.ERROR, *shares]
    return pd.DataFrame(records, columns=[*names, *comparisons.MEANS, "detail", *additional])


def table_row(
    point: Row,
    value: float,
    row_flags: Iterable[str],
    numbers: Row,
    *,
    withheld: str | None,
    detail: str = "",
) -> dict[str, Any]:
    """Return a row of a table: `{"command": "log", "value": 30.0, "flags": "low-n clock", "n": 3, ...}`.

    `point` has the values of axes that identify the row, `numbers` further columns. `withheld` is the code
    why `value` must not be shown, or several codes, separated by blanks. With a code, the value becomes NaN.
    `detail` explains the code: `log: 6,000 revisions (f6) against 5,000 (f7)`.
    """
    return {
        **point,
        **numbers,
        "value": math.nan if withheld else value,
        "flags": flags.join_flags(row_flags),
        "withheld": withheld or "",
        "detail": detail,
    }


def _with_metric(frame: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a frame with the column of a metric. If the frame lacks it, the column is NaN in all rows."""
    if metric.name in frame:
        return frame
    return frame.assign(**{metric.name: np.nan})


def _levels(
    selection: Aggregation, definition: TableDefinition, metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return a row per cell with its level, which is the cell's own value, compared with nothing.

    By default, a measured time is the geometric mean of the rounds' geometric means, as in comparisons. Any
    other metric may be 0, so its value is the median of the rounds' medians. `n` is the number of rounds with
    a value. A cell whose value must not be shown has a code instead (_why_level_withheld). A cell with
    neither a value nor a code has no row.
    """
    keys = selection.keys
    if metric.takes_mean and selection.is_measured:
        statistic = _statistic_of_rounds(definition)
    else:
        statistic = definition.get("reduce", MEDIAN)
    cells = _with_metric(selection.cells(statistic), metric)
    rounds = _with_metric(selection.rounds(statistic), metric)
    # Both frames have the cells in the same order, so zip() below joins a cell with its own number.
    round_counts = group_rows(rounds, keys)[metric.name].count()
    why_missing = selection.why_missing(metric)
    records = []
    for cell, round_count in zip(cells.to_dict("records"), round_counts, strict=True):
        n = _measuring_rounds(round_count, metric)
        point = {key: cell[key] for key in keys}
        # These columns name the two sides of a comparison.
        point |= dict.fromkeys(SIDES, "")
        # The share of start-up (process start and connection) in the time. A count has no such share.
        fixed_share = math.nan if metric.exact else cell[FIXED_SHARE]
        numbers = {"n": n, FIXED_SHARE: fixed_share}
        value = cell[metric.name]
        row_flags = _flags_of_level(cell, n, metric, limits)
        withheld = _why_level_withheld(cell, keys, value, why_missing)
        records.append(table_row(point, value, row_flags, numbers, withheld=withheld))
    return _without_empty(rows_frame(records, keys))


def _flags_of_level(cell: Row, n: int, metric: Metric, limits: Limits) -> list[str]:
    """Return the flags of a cell's runs, and the flags about its hosts and its number of rounds `n`."""
    row_flags = cell["flags"].split()
    if _has_several_hosts(cell):
        row_flags.append(Flag.HOSTS_DIFFER)
    # A traced count (`once`) comes from one separate run and has no scatter, so it needs no more rounds.
    if not metric.once and limits.has_few_rounds(n):
        row_flags.append(Flag.LOW_N)
    return row_flags


def _has_several_hosts(cell: Row) -> bool:
    return len(cell["hosts"].split()) > 1


def _why_level_withheld(
    cell: Row, keys: Sequence[str], value: float, why_missing: WithheldCode | None
) -> WithheldCode | None:
    """Return the code why a level (a cell's own value) must not be shown, None if it may.

    Rounds whose commands did different work, or that ran on several hosts, must not be averaged. A cell
    without a value (NaN) gets the code `why_missing`, such as UNTRACED. This code is None if the table leaves
    out such cells.
    """
    # refusal() compares cells, by their names, and also the rounds of each cell. This cell is alone, so it
    # needs no name.
    refusal = same_work.refusal(same_work.name_of(cell, keys), {"": cell["work"]})
    # Unknown work (same_work.UNKNOWN) is no obstacle, because nothing is compared.
    if refusal and refusal.flag == same_work.OTHER:
        return WithheldCode.OTHER_WORK
    if _has_several_hosts(cell):
        return WithheldCode.HOSTS_DIFFER
    return why_missing if math.isnan(value) else None


def _measuring_rounds(n: int, metric: Metric) -> int:
    """Return how many of n rounds measured a metric: all of them, but at most 1 for a traced count.

    A traced count comes from one separate run under strace, and is copied into all rounds of its cell.
    """
    return min(n, 1) if metric.once else n


@dataclass(frozen=True)
class _PairedRounds:
    """The rounds that both cells of a comparison have.

    `ratio` is the mean ratio of the rounds with its error and interval. `means` has the columns baseline_mean
    and candidate_mean: the geometric means of both sides; it is empty without common rounds. `flags` are
    about the rounds, such as `low-n` for few of them.
    """

    ratio: Estimate
    means: Mapping[str, float]
    flags: Sequence[str]


@dataclass(frozen=True, eq=False)
class _Comparer:
    """The comparisons of a table: frames of cells and rounds with the metric, and the noise of the study.

    `keys` identify cells, `axis` is the compared one of them. `undisturbed_rounds` are without the runs that
    other programs disturbed; None without such runs. `why_missing` is the code of a cell without the value.
    """

    axis: str
    keys: Sequence[str]
    metric: Metric
    limits: Limits
    noise: Noise
    why_missing: WithheldCode | None
    cells: pd.DataFrame
    rounds: pd.DataFrame
    undisturbed_rounds: pd.DataFrame | None

    @property
    def shared(self) -> list[str]:
        """Return the keys whose values both cells of a comparison share."""
        return [key for key in self.keys if key != self.axis]

    def rows_of(self, sides: tuple[str, str]) -> list[dict[str, Any]]:
        """Return a table row for each pair of cells that differ only in the compared axis.

        `sides` are the values of the two cells on this axis, such as ("f6", "f7"). A row is `{"command":
        "log", "baseline": "f6", "candidate": "f7", "ratio": 1.5, "value": 50.0, "n": 3, "flags": "low-n",
        ...}`. The ratio is the geometric mean of the quotients of all rounds that both cells have. In a
        round, they ran next to each other, so the drift of the machine cancels in their quotient.
        """
        cell_pairs = pair_rows(self.cells, self.axis, sides, self.shared)
        cell_pairs = cell_pairs.assign(quotient=_quotients(cell_pairs, self.metric.name))
        # Both are by case: the values that both cells of a pair share, such as ("log", "cold").
        round_pairs = self._pair_rounds(self.rounds, sides)
        ratios = _ratios_by_case(round_pairs, self.shared, self.metric)
        means = _means_by_case(round_pairs, self.shared, self.metric)
        undisturbed_ratios = self._undisturbed_ratios(sides)
        records = []
        for pair in cell_pairs.to_dict("records"):
            shared_values = {key: pair[key] for key in self.shared}
            case = tuple(shared_values.values())
            baseline_key = self._cell_key(shared_values, sides[0])
            candidate_key = self._cell_key(shared_values, sides[1])
            cell_pair = (baseline_key, candidate_key)
            # The scatter of a few rounds is replaced by the noise that the study shows for these two cells.
            ratio = self.noise.with_error(ratios.get(case, NO_ESTIMATE), [cell_pair])
            undisturbed_ratio = undisturbed_ratios.get(case, NO_ESTIMATE)
            round_flags = self._flags_of_rounds(ratio, undisturbed_ratio, cell_pair)
            paired_rounds = _PairedRounds(ratio, means.get(case, {}), round_flags)
            records.append(self._row_of_pair(shared_values, sides, pair, paired_rounds))
        return records

    def _undisturbed_ratios(self, sides: tuple[str, str]) -> dict[CellKey, Estimate]:
        """Return the ratios by case without the runs that other programs disturbed; {} if there are none."""
        if self.undisturbed_rounds is None:
            return {}
        round_pairs = self._pair_rounds(self.undisturbed_rounds, sides)
        return _ratios_by_case(round_pairs, self.shared, self.metric)

    def _flags_of_rounds(
        self, ratio: Estimate, undisturbed_ratio: Estimate, cell_pair: CellPair
    ) -> list[str]:
        """Return the flags about the rounds of two cells: disturbed, too few, or not measured in turns."""
        round_flags: list[str] = []
        # Without the disturbed runs, the other side is faster: one ratio is above 1, and one is below.
        if (ratio.value - 1) * (undisturbed_ratio.value - 1) < 0:
            round_flags.append(Flag.DISTURBED)
        if self.limits.has_few_rounds(ratio.n):
            round_flags.append(Flag.LOW_N)
        if not self.noise.are_in_turns(cell_pair):
            round_flags.append(Flag.NOT_IN_TURNS)
        return round_flags

    def _pair_rounds(self, rounds: pd.DataFrame, sides: tuple[str, str]) -> pd.DataFrame:
        """Return a row per pair of rounds of the two sides, which have the same number and host."""
        rounds = _with_metric(rounds, self.metric)
        return pair_rows(rounds, self.axis, sides, [*self.shared, "host", "round"])

    def _cell_key(self, shared_values: Mapping[str, str], side: str) -> CellKey:
        """Return the values of a cell in the order of its keys: ("log", "f6", "cold")."""
        values = {**shared_values, self.axis: side}
        return tuple(values[key] for key in self.keys)

    def _row_of_pair(
        self,
        shared_values: Mapping[str, str],
        sides: tuple[str, str],
        pair: Row,
        paired_rounds: _PairedRounds,
    ) -> dict[str, Any]:
        """Return the table row of two cells, with the code `withheld` if they must not be compared.

        Example: {"command": "log", "baseline": "f6", "candidate": "f7", "ratio": 1.5, "value": 50.0, "n": 5,
        ...}. `pair` has the columns of both cells, with the endings _baseline and _candidate.

        The cells are divided in two ways. `pair["quotient"]` is the quotient of their own numbers, each from
        all rounds of its cell. The column `ratio` is the mean quotient of the rounds that both cells have.
        The column `value` has one of the two in per cent: 50 for 1.5.
        """
        ratio = paired_rounds.ratio
        has_several_hosts = len(_hosts_of_pair(pair)) > 1
        refusal = self._refusal(shared_values, sides, pair)
        withheld = self._why_withheld(pair, ratio, refusal, has_several_hosts=has_several_hosts)
        row_flags = flags_of_sides(pair[f"flags_{side}"] for side in SIDES)
        row_flags += paired_rounds.flags
        if has_several_hosts:
            row_flags.append(Flag.HOSTS_DIFFER)
        if refusal:
            row_flags.append(refusal.flag)
        numbers = self._numbers_of_pair(pair, ratio, is_refused=refusal is not None)
        if withheld is None:
            numbers |= paired_rounds.means
        # The value of a duration comes from the ratio, so both columns agree. That of any other metric comes
        # from the cells' own numbers, which are medians by default.
        compared_ratio = pair["quotient"]
        if self.metric.is_duration and math.isfinite(ratio.value):
            compared_ratio = ratio.value
        return table_row(
            {**shared_values, "baseline": sides[0], "candidate": sides[1]},
            100 * (compared_ratio - 1),
            row_flags,
            numbers,
            withheld=withheld,
            detail=refusal.reason if refusal else "",
        )

    def _refusal(
        self, shared_values: Mapping[str, str], sides: tuple[str, str], pair: Row
    ) -> same_work.Refusal | None:
        """Return why the works of two cells forbid a comparison; None if they allow it."""
        works = {sides[0]: pair["work_baseline"], sides[1]: pair["work_candidate"]}
        # Work that differs by design is allowed.
        if any(same_work.is_unchecked(work) for work in works.values()):
            return None
        return same_work.refusal(same_work.name_of(shared_values, self.shared), works)

    def _numbers_of_pair(self, pair: Row, ratio: Estimate, *, is_refused: bool) -> dict[str, float]:
        """Return the columns of the ratio and of the start-up of two cells, and their common rounds `n`."""
        numbers: dict[str, float] = {}
        # A reader would use the ratio of different work in spite of the flag, so the row has no ratio then.
        if not is_refused:
            numbers |= ratio_columns(ratio)
            # A time contains start-up (process start and connection), and a count does not.
            if not self.metric.exact:
                numbers |= share_columns(*(pair[f"{FIXED_SHARE}_{side}"] for side in SIDES))
        # ratio_columns() counts all common rounds, but a traced count comes from one separate run.
        numbers["n"] = _measuring_rounds(ratio.n, self.metric)
        return numbers

    def _why_withheld(
        self,
        pair: Row,
        ratio: Estimate,
        refusal: same_work.Refusal | None,
        *,
        has_several_hosts: bool,
    ) -> WithheldCode | None:
        """Return the code why the row of a pair has no value; None for a row without a code.

        Of several reasons, the first one below counts, because the user can act on that one first. A missing
        value, for example, is of no interest before all cells are measured on one host.
        """
        if refusal:
            return WithheldCode(refusal.flag)
        if has_several_hosts:
            return WithheldCode.HOSTS_DIFFER
        if any(math.isnan(pair[f"{self.metric.name}_{side}"]) for side in SIDES):
            # None for published numbers, for example: a row without value and code is left out of the table.
            return self.why_missing
        # Valid runs of different rounds were not measured next to each other.
        if ratio.n == 0:
            return WithheldCode.NO_SHARED_ROUND
        # With common rounds (`n`), the ratio is NaN only if one of them has a 0 (_ratios_by_case).
        if math.isnan(ratio.value):
            return WithheldCode.ZERO
        return None


def _hosts_of_pair(pair: Row) -> set[str]:
    """Return the hosts that measured the two cells. A cell has its hosts as text, separated by blanks."""
    return {*pair["hosts_baseline"].split(), *pair["hosts_candidate"].split()}


def _statistic_of_rounds(definition: TableDefinition) -> str:
    """Return the statistic that reduces the runs of a round, for levels and before the ratio of two cells.

    The default is `mean` (geometric). The mean and the median both estimate the usual time of a run, and the
    mean scatters less. A statistic that the table names (`reduce`) may be another quantity: the fastest run
    is no estimate of the usual one.
    """
    return definition.get("reduce", MEAN)


def _ratios_by_case(
    round_pairs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[CellKey, Estimate]:
    """Return the ratio of each comparison: the geometric mean of baseline / candidate over its rounds.

    Its interval comes from the scatter of these few rounds alone, without the noise of the study.

    `round_pairs` has a row per comparison, host and round. The result is by case, the values that both cells
    share in the columns `shared`: `{("log", "cold"): Estimate(1.3, 1.2, 1.4, 5)}`. A comparison whose rounds
    include a 0 has the ratio NaN, with `n` as the number of all its rounds.
    """
    quotients = _quotients(round_pairs, metric.name)
    groups = group_rows(round_pairs.assign(quotient=quotients, log=np.log(quotients)), shared)
    ratios = {}
    # Groups of one column take a tenth of the time of groups of all columns.
    for group, logs in groups["log"]:
        ratios[_case_of_group(group, shared)] = ratio_interval(logs)
    # Counts that are the same in all rounds have a ratio with an interval of no width.
    if metric.exact:
        for group, pairs in groups:
            constant = calls.constant_ratio(metric, pairs)
            if constant is not None:
                ratios[_case_of_group(group, shared)] = constant
    # A round with a 0 has no quotient (NaN). Without it, the other rounds would show too small a difference.
    # So the comparison has no ratio at all.
    values = round_pairs[[f"{metric.name}_{side}" for side in SIDES]]
    has_zero = (values <= 0).any(axis=1) & values.notna().all(axis=1)
    for group, rounds_with_zero in group_rows(round_pairs[has_zero], shared):
        case = _case_of_group(group, shared)
        number_without_zero = ratios[case].n
        number_with_zero = len(rounds_with_zero)
        ratios[case] = replace(NO_ESTIMATE, n=number_without_zero + number_with_zero)
    return ratios


def _case_of_group(group: Any, shared: Sequence[str]) -> CellKey:
    """Return the case of a group of rows, the values of its shared keys: ("log", "cold"), ("log",) or ().

    `group` is the name that pandas gives to the group. For a single key, the name may be the plain "log".
    """
    # Without any key, the name means nothing.
    if not shared:
        return ()
    return group if isinstance(group, tuple) else (group,)


def _means_by_case(
    round_pairs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[CellKey, dict[str, float]]:
    """Return the geometric means of both sides of each comparison, over the rounds that both sides have.

    The result is by case: `{("log", "cold"): {"baseline_mean": 3.0, "candidate_mean": 2.0}}`. The quotient of
    both means is the ratio of the row, so a reader can check the ratio. A comparison without a common round
    is missing.
    """
    values = round_pairs[[f"{metric.name}_{side}" for side in SIDES]]
    # A round without a value of one side (NaN), or with a 0, counts for neither side.
    is_common = values.notna().all(axis=1) & (values > 0).all(axis=1)
    # A column per side, the baseline first.
    logs = np.log(values[is_common].to_numpy(float))
    # The logarithms already have the names of their means, which exp() makes geometric ones.
    common_rounds = round_pairs[is_common].assign(
        baseline_mean=logs[:, 0], candidate_mean=logs[:, 1]
    )
    mean_logs = group_rows(common_rounds, shared)[["baseline_mean", "candidate_mean"]].mean()
    means = np.exp(mean_logs)
    by_case = {}
    for group, means_of_sides in zip(means.index, means.to_dict("records"), strict=True):
        by_case[_case_of_group(group, shared)] = means_of_sides
    return by_case


def _without_empty(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have a value, or a reason why they have none."""
    return table[table["value"].notna() | (table["withheld"] != "")]


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    """Return baseline / candidate of a column; NaN if one is missing or 0."""
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient) & (quotient > 0))


def ratio_columns(ratio: Estimate) -> dict[str, float]:
    return {
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "n": ratio.n,
        "error": ratio.error,
        "degrees": ratio.degrees,
    }


def share_columns(baseline: float, candidate: float) -> dict[str, float]:
    """Return the columns of the shares of start-up in the time of both sides; NaN if unknown.

    0.1 and 0.4 give `fixed_share` 0.4: the table shows the larger share. fmax() prefers a number to NaN.
    """
    return {
        FIXED_SHARE: np.fmax(baseline, candidate),
        "share_baseline": baseline,
        "share_candidate": candidate,
    }


def flags_of_sides(sides: Iterable[str]) -> list[str]:
    """Return the flags of both sides as a list, without the flags about other or unknown work.

    ["outlier-10 other-work", "throttled"] gives ["outlier-10", "throttled"]. The comparison adds a flag about
    the work of the pair.
    """
    all_flags = [flag for side in sides for flag in side.split()]
    return [flag for flag in all_flags if flag not in same_work.REFUSED]
