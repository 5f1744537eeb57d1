"""Make the tables of a study, by the same code from measured and from published numbers.

A table has levels (a row per cell) or comparisons (a row per pair of cells that differ in one axis).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from vcsbench.statistics.noise import NO_NOISE, Key, Noise, noise_by_metric

Row = Mapping[Any, Any]


class Aggregation:
    """The rows that a table selects, and their aggregates, each computed once for all tables.

    `order` maps the keys of cells (axes and other columns) to their values in order. `block` are the axes
    whose equal values make cells run next to each other. `whole` has the same columns and more cells. It
    gives the noise, because all cells tell how noisy the machine is, also for a table that shows a few.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        order: Mapping[str, list[str]],
        block: Sequence[str],
        whole: Aggregation | None = None,
    ) -> None:
        self.frame = frame
        self.order = order
        self.block = block
        self.keys = list(order)
        self.is_measured = aggregation.is_measured(frame)
        self._whole = whole
        # Aggregates by statistic, such as `median` or `mean`, each computed when it is first asked for.
        self._rounds: dict[str, pd.DataFrame] = {}
        self._undisturbed_rounds: dict[str, pd.DataFrame] = {}
        self._cells: dict[str, pd.DataFrame] = {}
        self._noises: dict[str, Callable[[str], Noise]] = {}

    def rounds(self, statistic: str) -> pd.DataFrame:
        """Return the rows of by_round, with the runs of a round reduced by a statistic."""
        if statistic not in self._rounds:
            self._rounds[statistic] = aggregation.by_round(self.frame, self.keys, statistic)
        return self._rounds[statistic]

    @cached_property
    def _is_disturbed(self) -> pd.Series:
        """Return True for each run that other programs disturbed."""
        return self.frame["flags"].map(flags.is_disturbed).astype(bool)

    def undisturbed_rounds(self, statistic: str) -> pd.DataFrame | None:
        """Return the rows of by_round without the runs that other programs disturbed; None without such runs.

        Published numbers have no runs.
        """
        if not self.is_measured or not self._is_disturbed.any():
            return None
        if statistic not in self._undisturbed_rounds:
            undisturbed = self.frame[~self._is_disturbed]
            rounds = aggregation.by_round(undisturbed, self.keys, statistic)
            self._undisturbed_rounds[statistic] = rounds
        return self._undisturbed_rounds[statistic]

    def cells(self, statistic: str) -> pd.DataFrame:
        """Return the rows of by_cell, with runs and rounds reduced by a statistic."""
        if statistic not in self._cells:
            rounds = self.rounds(statistic)
            self._cells[statistic] = aggregation.by_cell(rounds, self.keys, statistic)
        return self._cells[statistic]

    def noise(self, metric: str, statistic: str) -> Noise:
        """Return the noise of a metric whose runs are reduced by a statistic."""
        if self._whole:
            return self._whole.noise(metric, statistic)
        if not self.is_measured:
            return NO_NOISE
        if statistic not in self._noises:
            rounds = self.rounds(statistic)
            noise = noise_by_metric(self.frame, self.keys, self.block, rounds, statistic)
            self._noises[statistic] = noise
        return self._noises[statistic](metric)

    def why_missing(self, metric: Metric) -> WithheldCode | None:
        """Return the code why a measured cell may lack a value of a metric, such as `untraced`.

        None means that a row without the value has nothing to tell, and is left out of the table: the numbers
        are published ones, or the study does not measure the metric.
        """
        is_counted = self.is_measured and set(metric.needs) <= set(self.frame)
        return metric.why_missing if is_counted else None

    def select(self, definition: TableDefinition) -> Aggregation:
        """Return the aggregation of the cells that a table selects, with the table's additional keys.

        Keys of the definition: `where` selects cells. `by` lists columns of the measurements, such as `run`,
        that identify rows like axes do. `each` lists counts that the table shows next to each other. `reduce`
        is the statistic of published rows to take (default: median), unless `by` names the column
        `statistic`.
        """
        frame = self.frame
        # Published numbers have a row for each statistic, and a table shows one of them. A table with the key
        # `by: [statistic]` shows all of them next to each other.
        if STATISTIC not in definition.get("by", ()):
            frame = aggregation.rows_of_statistic(frame, definition.get("reduce", MEDIAN))
        frame, by = aggregation.add_key_columns(frame, definition.get("by", []))
        order = {**self.order, **by}
        each = definition.get("each")
        if each:
            frame = aggregation.pivot_metrics(frame, each)
            order[COUNT] = list(each)
        whole = self
        # With additional keys, a cell is another thing (one run of a cell, for example), whose noise must be
        # estimated from the new rows.
        if frame is not self.frame:
            whole = Aggregation(frame, order, self.block)
        where = definition.get("where")
        if not where:
            return whole
        return Aggregation(aggregation.rows_where(frame, where), order, self.block, whole)


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

    A table of levels has a row per cell. A table with the key `compare` has a row per pair of cells that
    differ in one axis, with the ratio of their values. Columns are comparisons.COLUMNS and the columns of the
    axes. Example: the definition `{"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]}}`
    gives a row per command, cache and so on, with the ratio of the times of f6 and f7.

    `frame` has a row per run or published cell. Its columns are the axes, and the columns of the measurements
    or one per published metric. `order` has the axes with their values in the order of the rows. `block` are
    the axes whose equal values make cells run next to each other. A cell or pair has no row if it has neither
    a value nor a code why (column `withheld`).
    """
    everything = Aggregation(frame, order, block)
    # Aggregating takes most of the time. So tables with the same values of these keys share one Aggregation.
    # The key `reduce` selects rows only among published numbers, which have a row for each statistic.
    selecting = ["where", "by", "each"]
    if STATISTIC in frame:
        selecting.append("reduce")
    selections: dict[str, Aggregation] = {}
    tables = {}
    for name, definition in definitions.items():
        selection = json.dumps([definition.get(key) for key in selecting])
        if selection not in selections:
            selections[selection] = everything.select(definition)
        tables[name] = _table(name, definition, selections[selection], limits)
    return tables


def _table(
    name: str, definition: TableDefinition, rows: Aggregation, limits: Limits
) -> pd.DataFrame:
    """Return a table of comparisons (with the key `compare`) or of levels, with all columns of its file.

    Columns that do not apply are "": calls in a table of levels or of published numbers, and intervals for
    published numbers.
    """
    metric = metric_in(definition)
    compare = definition.get("compare")
    if compare:
        keys = [key for key in rows.keys if key != compare["axis"]]
        table = _called_comparisons(rows, definition, compare, metric, limits)
    else:
        keys = rows.keys
        table = in_order(_levels(rows, definition, metric, limits), rows.order, keys)
    # A traced count comes from one separate run under strace, and is copied into all rounds of its cell. So
    # the number of rounds that measured it is 1.
    if metric.once and rows.is_measured:
        table = table.assign(n=table["n"].clip(upper=1))
    empty: list[str] = []
    if not rows.is_measured:
        empty += comparisons.STATISTICS
    if "call" not in table:
        empty += comparisons.CALL
    table = table.assign(**dict.fromkeys(empty, ""))
    return finish_table(calls.without_time_flags(table, metric), name, keys)


def _called_comparisons(
    rows: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return the rows of a comparing table in their order, with calls if they are of measurements.

    A call is the outcome of a comparison, such as `faster` (calls.py). The noise of published numbers is not
    known, so they have no calls. `compare` is the definition's key of that name: the compared axis, its
    baseline, and its candidates.
    """
    keys = [key for key in rows.keys if key != compare["axis"]]
    table = _comparisons(rows, definition, compare, metric, limits)
    # Two builds of Subversion may turn out to be the same program. Then any difference in the row is noise,
    # and the row gets the flag `same-binaries`.
    if compare["axis"] == BUILD_AXIS:
        table = table.assign(flags=run_columns.same_binaries(table, rows.frame, keys))
    if rows.is_measured and not table.empty:
        noise = rows.noise(metric.name, _statistic_of_rounds(definition))
        duplicate_sd = math.sqrt(noise.duplicates.variance)
        table = calls.call_table(table, duplicate_sd, metric, limits)
    # The rows of a pair of cells stand together, with the candidates as the study lists them.
    order = {**rows.order, "candidate": list(compare["candidates"])}
    return in_order(table, order, [*keys, "candidate"])


def finish_table(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """Return a table with its name, and its columns in the order of the file. `keys` are its axes."""
    columns = comparisons.list_columns(keys)
    return table.assign(table=name)[columns].reset_index(drop=True)


def rows_frame(
    records: Sequence[Mapping[str, object]], keys: Sequence[str], additional: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the records of table_row() as a frame, a row for each; numbers that a record lacks are NaN.

    `keys` are the columns that identify a row, `additional` are more columns. The columns `call` and `result`
    are missing, because call_table() adds them. For that, it needs the columns share_baseline and
    share_candidate (the shares of start-up of both sides), which finish_table() removes again.
    """
    shares = [f"share_{side}" for side in SIDES]
    names = [*keys, *SIDES, "value", *comparisons.STATISTICS, *comparisons.ERROR, *shares]
    return pd.DataFrame(records, columns=[*names, *comparisons.MEANS, "detail", *additional])


def table_row(
    point: Row,
    value: float,
    row_flags: Iterable[str],
    withheld: WithheldCode | str | None,
    detail: str,
    numbers: Row,
) -> dict[str, Any]:
    """Return a row of a table as a mapping from its columns to their values.

    `point` has the values of axes that identify the row, `numbers` has further columns such as the columns of
    ratio_columns(). `withheld` has the codes why the value must not be shown, separated by blanks: None or ""
    if it may. A row with such a code gets the value NaN. `detail` is text about it: `log: 6,000 revisions
    (f6) against 5,000 (f7)`, or "". The flags become one text, separated by blanks.
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
    """Return a frame that has the column of a metric: empty if the measurements lack what it needs."""
    if metric.name in frame:
        return frame
    return frame.assign(**{metric.name: np.nan})


def _levels(
    rows: Aggregation, definition: TableDefinition, metric: Metric, limits: Limits
) -> pd.DataFrame:
    """Return a row per cell with the cell's own value.

    By default, a duration is the geometric mean of the rounds' geometric means, the numbers that comparisons
    divide. Any other metric is the median of the rounds' medians: it may be 0.

    A value is withheld (NaN, with a code in the column `withheld`) for one of these reasons. If several
    apply, the row has the code of the last one:

    - The cell lacks the value, and the metric knows why (why_missing).
    - Rounds ran on several hosts, whose values must not be averaged.
    - Rounds did different work.

    `n` is the number of rounds with a value. A cell with neither a value nor a code has no row.
    """
    keys = rows.keys
    statistic = definition.get("reduce", MEDIAN)
    if metric.is_duration and rows.is_measured:
        statistic = _statistic_of_rounds(definition)
    cells = _with_metric(rows.cells(statistic), metric)
    rounds = _with_metric(rows.rounds(statistic), metric)
    # count() leaves out rounds without the value (NaN). Both frames have the cells in the same order, so
    # that zip() below joins a cell with its own number.
    counts = group_rows(rounds, keys)[metric.name].count()
    records = []
    for cell, n in zip(cells.to_dict("records"), counts, strict=True):
        value = cell[metric.name]
        row_flags = cell["flags"].split()
        withheld, detail = None, ""
        if len(set(cell["hosts"].split())) > 1:
            withheld = WithheldCode.HOSTS_DIFFER
            row_flags.append(Flag.HOSTS_DIFFER)
        elif math.isnan(value):
            withheld = rows.why_missing(metric)
        # The rounds of a cell must have done the same work. refusal() wants the works by the name of their
        # side. A level has no sides, hence the name "". Unknown work (same_work.UNKNOWN) is no obstacle
        # here, because nothing is compared.
        refused = same_work.refusal(same_work.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == same_work.OTHER:
            withheld, detail = WithheldCode.OTHER_WORK, refused.reason
        if not metric.once and limits.has_few_rounds(n):
            row_flags.append(Flag.LOW_N)
        point = {key: cell[key] for key in keys}
        point |= dict.fromkeys(SIDES, "")
        # `fixed_share` is the share of start-up in the time. A count is no time, and has no such share.
        fixed_share = math.nan if metric.exact else cell[FIXED_SHARE]
        numbers = {"n": n, FIXED_SHARE: fixed_share}
        records.append(table_row(point, value, row_flags, withheld, detail, numbers))
    return _without_empty(rows_frame(records, keys))


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


def _comparisons(
    rows: Aggregation,
    definition: TableDefinition,
    compare: ComparisonDefinition,
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Return a row per candidate and pair of cells that differ only in the compared axis.

    `ratio` is the geometric mean of the quotients baseline / candidate of each round: the drift of the
    machine, which both sides of a round share, cancels in it. Rounds of the same number and host are paired.
    `value` is the same number in per cent: 50 for the ratio 1.5. For published numbers, which have no
    rounds, and for counts and CPU times, it is of the quotient of both cells' own numbers.
    """
    axis = compare["axis"]
    shared = [key for key in rows.keys if key != axis]
    statistic = _statistic_of_rounds(definition)
    noise = rows.noise(metric.name, statistic)
    cells = _with_metric(rows.cells(definition.get("reduce", MEDIAN)), metric)
    rounds = _with_metric(rows.rounds(statistic), metric)
    undisturbed_rounds = rows.undisturbed_rounds(statistic) if metric.is_duration else None
    if undisturbed_rounds is not None:
        undisturbed_rounds = _with_metric(undisturbed_rounds, metric)
    why_missing = rows.why_missing(metric)
    records = []
    for candidate in compare["candidates"]:
        sides = (compare["baseline"], candidate)
        cell_pairs = pair_rows(cells, axis, sides, shared)
        cell_pairs = cell_pairs.assign(quotient=_quotients(cell_pairs, metric.name))
        round_pairs = pair_rows(rounds, axis, sides, [*shared, "host", "round"])
        ratios = _ratios_by_place(round_pairs, shared, metric)
        means = _means_by_place(round_pairs, shared, metric)
        undisturbed_ratios: dict[Key, Estimate] = {}
        if undisturbed_rounds is not None:
            undisturbed = pair_rows(undisturbed_rounds, axis, sides, [*shared, "host", "round"])
            undisturbed_ratios = _ratios_by_place(undisturbed, shared, metric)
        for pair in cell_pairs.to_dict("records"):
            # What both cells have in common. `place` has the same as a tuple, such as ("log", "cold"), by
            # which the ratios and means are looked up.
            where = {key: pair[key] for key in shared}
            place = tuple(where.values())
            cell_pair = (
                _cell_key({**where, axis: sides[0]}, rows.keys),
                _cell_key({**where, axis: sides[1]}, rows.keys),
            )
            ratio = noise.with_error(ratios.get(place, NO_ESTIMATE), [cell_pair])
            round_flags = []
            if _has_other_sign(ratio, undisturbed_ratios.get(place, NO_ESTIMATE)):
                round_flags.append(Flag.DISTURBED)
            if limits.has_few_rounds(ratio.n):
                round_flags.append(Flag.LOW_N)
            if not noise.are_in_turns(cell_pair):
                round_flags.append(Flag.NOT_IN_TURNS)
            paired_rounds = _PairedRounds(ratio, means.get(place, {}), round_flags)
            records.append(_comparison(where, sides, pair, paired_rounds, metric, why_missing))
    return _without_empty(rows_frame(records, shared))


def _has_other_sign(ratio: Estimate, undisturbed: Estimate) -> bool:
    """Return True if another side is faster in the undisturbed runs than in all runs.

    An unknown ratio is NaN, and any comparison with NaN is False.
    """
    return (ratio.value - 1) * (undisturbed.value - 1) < 0


def _cell_key(values: Mapping[str, str], keys: Sequence[str]) -> Key:
    """Return the values of a cell in the order of its keys: the key to look up its noise."""
    return tuple(values[key] for key in keys)


def _comparison(
    where: Mapping[str, str],
    sides: tuple[str, str],
    pair: Row,
    paired_rounds: _PairedRounds,
    metric: Metric,
    why_missing: WithheldCode | None,
) -> dict[str, Any]:
    """Return the table row of two cells, or a row that says why they are not compared.

    `where` has the values of axes that both cells share. `sides` are the compared values, the baseline first:
    ("f6", "f7"). `pair` has the columns of both cells, with the endings _baseline and _candidate.

    The column `withheld` has the code of a row that must not be compared. Cells that did different or unknown
    work come first: such a row keeps no ratio at all. The next reasons, in this order, are several hosts, a
    missing value of a side, and a 0 in a round, which has no ratio. Work that is marked
    as different by design (same_work.is_unchecked) does not prevent a comparison.
    """
    row_flags = flags_of_sides(pair[f"flags_{side}"] for side in SIDES)
    row_flags += paired_rounds.flags
    hosts = {*pair["hosts_baseline"].split(), *pair["hosts_candidate"].split()}
    if len(hosts) > 1:
        row_flags.append(Flag.HOSTS_DIFFER)
    works = {sides[0]: pair["work_baseline"], sides[1]: pair["work_candidate"]}
    refused = None
    if not any(same_work.is_unchecked(work) for work in works.values()):
        refused = same_work.refusal(same_work.name_of(where, list(where)), works)
    withheld = _why_withheld(pair, paired_rounds, refused, len(hosts) > 1, metric, why_missing)
    detail = ""
    numbers: dict[str, float]
    if refused:
        # A reader would use the ratio of different work in spite of the flag, so the row has no ratio.
        detail = refused.reason
        row_flags.append(refused.flag)
        numbers = {"n": paired_rounds.ratio.n}
    else:
        numbers = ratio_columns(paired_rounds.ratio)
        if not metric.exact:
            shares = [pair[f"{FIXED_SHARE}_{side}"] for side in SIDES]
            numbers |= share_columns(*shares)
    if not withheld:
        numbers |= paired_rounds.means
    point = {**where, "baseline": sides[0], "candidate": sides[1]}
    # `quotient` is of the cells' own numbers. A duration takes the mean ratio of its rounds instead, if there
    # is one. Published numbers have none.
    ratio = pair["quotient"]
    if metric.is_duration and math.isfinite(paired_rounds.ratio.value):
        ratio = paired_rounds.ratio.value
    return table_row(point, 100 * (ratio - 1), row_flags, withheld, detail, numbers)


def _why_withheld(
    pair: Row,
    paired_rounds: _PairedRounds,
    refused: same_work.Refusal | None,
    has_several_hosts: bool,
    metric: Metric,
    why_missing: WithheldCode | None,
) -> WithheldCode | None:
    """Return the code why a pair must not be compared, None if it may.

    Of several reasons, the row has only the reason that the user can act on first. A missing value, for
    example, is of no interest before all cells are measured on one host.
    """
    if refused:
        return WithheldCode(refused.flag)
    if has_several_hosts:
        return WithheldCode.HOSTS_DIFFER
    if any(math.isnan(pair[f"{metric.name}_{side}"]) for side in SIDES):
        return why_missing
    # There are common rounds, but one of them has a 0 (_ratios_by_place).
    if paired_rounds.ratio.n and math.isnan(paired_rounds.ratio.value):
        return WithheldCode.ZERO
    return None


def _statistic_of_rounds(definition: TableDefinition) -> str:
    """Return the statistic that reduces the runs of a round before the ratio of two cells is taken.

    For the default `median`, it is `mean` (geometric). Both estimate the usual time of a run, and the mean
    scatters less. `best` and `worst` stay, because they are other quantities: the fastest run is no estimate
    of the usual one.
    """
    statistic = definition.get("reduce", MEDIAN)
    return MEAN if statistic == MEDIAN else statistic


def _ratios_by_place(
    round_pairs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[Key, Estimate]:
    """Return the ratio of each comparison, with the interval that the scatter of its own rounds gives.

    `round_pairs` has a row per comparison, host and round, with the value of each side. The result is by the
    values of the columns `shared`, such as ("log", "cold"). A comparison whose rounds include a 0 has the
    ratio NaN, with `n` as the number of its rounds.
    """
    quotients = _quotients(round_pairs, metric.name)
    columns = round_pairs.assign(quotient=quotients, log=np.log(quotients))
    groups = group_rows(columns, shared)
    ratios: dict[Key, Estimate] = {}
    # Groups of one column take a tenth of the time of groups of all columns.
    for name, logs in groups["log"]:
        ratios[_place(name, shared)] = ratio_interval(logs)
    # Student's t has no interval for counts that are equal in every round, because they have no scatter.
    # constant_ratio() gives them one without width.
    if metric.exact:
        for name, pairs in groups:
            constant = calls.constant_ratio(metric, pairs)
            if constant:
                ratios[_place(name, shared)] = constant
    values = round_pairs[[f"{metric.name}_{side}" for side in SIDES]]
    has_zero = (values <= 0).any(axis=1) & values.notna().all(axis=1)
    for name, pairs in group_rows(round_pairs[has_zero], shared):
        # A round with a 0 has no ratio. If only that round were left out, the other rounds would show too
        # small a difference. So the comparison has no ratio at all.
        place = _place(name, shared)
        ratios[place] = replace(NO_ESTIMATE, n=ratios[place].n + len(pairs))
    return ratios


def _place(group: Any, shared: Sequence[str]) -> Key:
    """Return the values of the shared keys of a group, always as a tuple: ("log", "cold"), ("log",) or ().

    `group` is the name that pandas gives to the group. For a single key, it may be the plain value "log".
    Without any key, group_rows() makes one group of all rows, whose name means nothing.
    """
    if not shared:
        return ()
    return group if isinstance(group, tuple) else (group,)


def _means_by_place(
    round_pairs: pd.DataFrame, shared: Sequence[str], metric: Metric
) -> dict[Key, dict[str, float]]:
    """Return the geometric means of both sides of each comparison, over the rounds that both sides have.

    The result is by the values of the columns `shared`: `{("log", "cold"): {"baseline_mean": 3.0,
    "candidate_mean": 2.0}}`. The quotient of both means is the ratio of the row, 1.5, so a reader can check
    it. If one side has an invalid run, its round counts for neither side. Otherwise the quotient would
    differ from the ratio.
    """
    values = round_pairs[[f"{metric.name}_{side}" for side in SIDES]]
    is_common = values.notna().all(axis=1) & (values > 0).all(axis=1)
    logs = np.log(values[is_common].to_numpy(float))
    columns = {name: logs[:, side] for side, name in enumerate(comparisons.MEANS)}
    groups = group_rows(round_pairs[is_common].assign(**columns), shared)
    means = np.exp(groups[[*comparisons.MEANS]].mean())
    by_place = {}
    for name, record in zip(means.index, means.to_dict("records"), strict=True):
        by_place[_place(name, shared)] = record
    return by_place


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
    """Return the flags of both sides as a list, without those about other or unknown work.

    A comparison adds these itself, if they apply to the pair. `sides` has the flags of each side as a text:
    ["outlier-10 other-work", "throttled"] gives ["outlier-10", "throttled"].
    """
    words = [flag for side in sides for flag in side.split()]
    return [flag for flag in words if flag not in same_work.REFUSED]
