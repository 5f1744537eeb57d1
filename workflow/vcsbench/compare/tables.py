"""A study's tables, from measured and from published numbers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.columns import CALL, STATISTICS, columns
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.family import with_calls, with_unknown_noise
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import floors
from vcsbench.compare.reduction import MEDIAN, by_cell, by_round, is_measured, told_apart
from vcsbench.evidence import buildlabels, flags, samework
from vcsbench.evidence.frames import in_order
from vcsbench.metrics import metric_in
from vcsbench.metrics.metric import Metric

NOTHING = ratio_interval([])


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: Mapping[str, Any],
    order: Mapping[str, list[str]],
    noise_class: Sequence[str],
    limits: Limits = USUAL,
) -> pd.DataFrame:
    """The table `name` of a study, with the columns of columns.py: its keys are the axes but for the
    compared one, and what its `by` names.

    `frame` has a column per axis and either the columns of the measurements or one per published
    metric; `order` has the study's axes and their values in order. Rows are sorted by it. A cell,
    or a pair of cells, with no number has no row.
    """
    frame, by = told_apart(frame, definition.get("by", []))
    order = {**order, **by}
    reduce = definition.get("reduce", MEDIAN)
    rounds = by_round(frame, list(order), reduce)
    cells = by_cell(rounds, list(order), reduce)
    if "compare" in definition:
        compare = definition["compare"]
        kept = [axis for axis in order if axis != compare["axis"]]
        comparison = _Comparison(compare, metric_in(definition), kept, limits)
        table = comparison.table(rounds, cells)
        if compare["axis"] == buildlabels.AXIS:
            table = table.assign(flags=buildlabels.same_binaries(table, frame, kept))
        if is_measured(frame):
            table = comparison.called(table, frame, list(order), noise_class)
        order = {**order, "candidate": compare["candidates"]}
        table = in_order(table, order, [*kept, "candidate"])
    else:
        kept = list(order)
        table = _level(cells, kept, metric_in(definition), limits)
        table = in_order(table, order, kept)
    if not is_measured(frame):
        table = table.assign(**dict.fromkeys(STATISTICS, ""))
    if not ("compare" in definition and is_measured(frame)):
        table = table.assign(**dict.fromkeys(CALL, ""))
    return table.assign(table=name)[columns(kept)].reset_index(drop=True)


def _level(
    cells: pd.DataFrame, axes: Sequence[str], metric: Metric, limits: Limits
) -> pd.DataFrame:
    """The cells' own values of a metric."""
    if metric.name not in cells:
        cells = cells.assign(**{metric.name: np.nan})
    table = cells[cells[metric.name].notna()]
    # A median over several machines is no machine's number.
    mixed = table["hosts"].str.split().map(len) > 1
    few = table["n"] < limits.enough_rounds
    words = [
        flags.joined([*own.split(), *["hosts-differ"] * differ, *["low-n"] * low_n])
        for own, differ, low_n in zip(table["flags"], mixed, few, strict=True)
    ]
    empty: dict[str, Any] = dict.fromkeys(["ratio", "low", "high"], np.nan)
    # Nor is one over rounds that did not do the same.
    withheld = [
        refused.reason if refused and refused.flag == samework.OTHER else ""
        for refused in (
            samework.refusal(samework.name_of(cell, axes), {"": cell["work"]})
            for cell in table.to_dict("records")
        )
    ]
    value = table[metric.name].mask(mixed | (np.array(withheld) != ""))
    apart = flags.FLAGS["hosts-differ"].says.rstrip(".")
    withheld = [why or apart * bool(m) for why, m in zip(withheld, mixed, strict=True)]
    facts = {"baseline": "", "candidate": "", "flags": words, "withheld": withheld}
    return table.assign(value=value, **facts, **empty)


@dataclass(frozen=True)
class _Comparison:
    """A comparison of a table: its definition, the metric, and the axes that the sides agree on."""

    compare: Mapping[str, Any]
    metric: Metric
    kept: Sequence[str]
    limits: Limits

    def table(self, rounds: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
        """Baseline against each candidate, for the cells that agree on all `kept` axes."""
        if self.metric.name not in cells:
            rounds, cells = (f.assign(**{self.metric.name: np.nan}) for f in (rounds, cells))
        found = []
        for candidate in self.compare["candidates"]:
            both = self._paired(cells, self.kept, candidate)
            both["quotient"] = self._quotients(both)
            logs = self._paired(rounds, [*self.kept, "host", "round"], candidate)
            estimates = self._estimates(logs)
            names = (self.compare["baseline"], candidate)
            rows = [
                self._row(pair, estimates.get(key, NOTHING), names)
                for key, pair in zip(_keys(both, self.kept), both.to_dict("records"), strict=True)
            ]
            statistics = pd.DataFrame(rows, columns=["value", *STATISTICS], index=both.index)
            table = both[list(self.kept)].assign(baseline=names[0], candidate=candidate)
            found.append(pd.concat([table, statistics], axis="columns"))
        table = pd.concat(found, ignore_index=True)
        shown = table["flags"].str.contains("hosts-differ") | (table["withheld"] != "")
        return table[table["value"].notna() | shown]

    def called(
        self,
        table: pd.DataFrame,
        frame: pd.DataFrame,
        axes: Sequence[str],
        noise_class: Sequence[str],
    ) -> pd.DataFrame:
        """The table with its calls, and the noise floor of each row: of the two cells that it compares."""
        if table.empty:
            return table.assign(**dict.fromkeys(CALL, ""))
        known = floors(frame, axes, noise_class, self.metric)
        axis = self.compare["axis"]
        floor = [
            known.over(row | {axis: row[side]} for side in ("baseline", "candidate"))
            for row in table.to_dict("records")
        ]
        table = with_unknown_noise(table.assign(noise_floor=floor))
        return with_calls(table, self.metric.calls, self.limits)

    def _paired(self, frame: pd.DataFrame, on: Sequence[str], candidate: str) -> pd.DataFrame:
        """Rows of the baseline beside those of the candidate; columns that are not in `on` twice."""
        names = (self.compare["baseline"], candidate)
        baseline, other = (frame[frame[self.compare["axis"]] == name] for name in names)
        how: dict[str, Any] = {"on": list(on)} if on else {"how": "cross"}
        return baseline.merge(other, **how, suffixes=("_baseline", "_candidate"))

    def _quotients(self, pairs: pd.DataFrame) -> pd.Series:
        name = self.metric.name
        quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
        return quotient.where(np.isfinite(quotient))  # a time may be rounded to 0

    def _estimates(self, pairs: pd.DataFrame) -> dict[tuple[str, ...], Estimate]:
        """The paired ratio of each row: pairs are of one round and one host."""
        logs: dict[tuple[str, ...], list[float]] = {}
        ratios = np.log(self._quotients(pairs))
        for key, log in zip(_keys(pairs, self.kept), ratios, strict=True):
            logs.setdefault(key, []).append(log)
        return {key: ratio_interval(values) for key, values in logs.items()}

    def _row(
        self, pair: Mapping[Any, Any], estimate: Estimate, names: tuple[str, str]
    ) -> tuple[float, float, float, float, int, str, str]:
        """Value and statistics of a pair of cells; `names` are those of the compared values."""
        # Medians over several hosts are not divided; rounds that share a host still make a ratio.
        mixed = len({*pair["hosts_baseline"].split(), *pair["hosts_candidate"].split()}) > 1
        value = np.nan if mixed else 100 * (pair["quotient"] - 1)
        words = [*pair["flags_baseline"].split(), *pair["flags_candidate"].split()]
        few = estimate.n < self.limits.enough_rounds
        words += ["hosts-differ"] * mixed + ["low-n"] * few
        # What a run did against most others says nothing of these two.
        words = [word for word in words if word not in samework.REFUSED]
        works = (pair["work_baseline"], pair["work_candidate"])
        name = samework.name_of(pair, self.kept)
        if refused := samework.refusal(name, dict(zip(names, works, strict=True))):
            flagged = flags.joined([*words, refused.flag])
            return np.nan, np.nan, np.nan, np.nan, estimate.n, flagged, refused.reason
        why = flags.FLAGS["hosts-differ"].says.rstrip(".") if mixed else ""
        bounds = estimate.value, estimate.low, estimate.high, estimate.n
        return value, *bounds, flags.joined(words), why


def _keys(frame: pd.DataFrame, kept: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(row) for row in frame[list(kept)].to_numpy()]
