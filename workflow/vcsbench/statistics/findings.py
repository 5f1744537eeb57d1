"""Evaluate findings, and a user's expectations, on published and measured numbers."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.flags import DECIDING_SHARE
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import metric_of, name_in, names
from vcsbench.statistics import comparisons, verdicts
from vcsbench.statistics.aggregation import (
    FIXED_SHARE,
    MEAN,
    add_key_columns,
    by_round,
    pair_rows,
    rows_of_statistic,
    rows_where,
)
from vcsbench.statistics.baseline_comparison import HOSTS
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import (
    CONFIDENCE,
    NO_ESTIMATE,
    Estimate,
    mean,
    mean_interval,
    ratio,
    ratio_interval,
)
from vcsbench.statistics.noise import Key, Noise, noise_by_metric
from vcsbench.statistics.possible_reasons import (
    Conditions,
    EvaluationContext,
    direction_of,
    larger_scale,
    possible_reasons,
)
from vcsbench.statistics.verdicts import Reason, ReasonTest

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

REDUCTIONS = {comparisons.MEDIAN: "median", "min": "least", "max": "greatest"}
HOLDS = "holds"
# A value that needs more rounds than this lies on its bound.
MAX_ROUNDS = 1000


def context_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published: Conditions | None = None,
    study: str = "",
) -> EvaluationContext:
    def values(*columns: str) -> list[str]:
        known = [measured[column].dropna() for column in columns if column in measured]
        return [str(value) for column in known for value in column.unique()]

    subject = same_work.subject_axis(axes)
    lowest = measured.groupby(subject)["scale"].min().dropna() if subject else pd.Series()
    return EvaluationContext(
        noise=noise_by_metric(measured, axes, block),
        scales={str(value): float(scale) for value, scale in lowest.items()},
        versions=values("client_version", "server_version"),
        storages=values("storage_kind"),
        study=study,
        published=published or Conditions(),
        grid=[row for row in grid if row.get("repo") != EMPTY],
        limits=limits,
    )


@dataclass(frozen=True)
class Evaluation:
    """A measured value, the verdict on it and its reasons; `over` is the reduction: `least of 12 cells`."""

    estimate: Estimate = NO_ESTIMATE
    verdict: str = verdicts.NOT_MEASURED
    reasons: Sequence[Reason] = ()
    over: str = ""


def evaluate_findings(
    findings: Sequence[FindingDefinition],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    context: EvaluationContext | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a row per finding, with the columns OF_FINDINGS.

    `published` is a frame of read_published, `measured` of the measurements; either may be None. `by` are
    columns that identify cells as axes do. `measured` of a row is the mean over rounds (geometric for
    ratios) of the median in each round, or the least or greatest such mean, `low` and `high` its interval.
    `published` is the value over the measured cells, or over all if none of them was published.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    known = None if published is None else rounds_of(published, keys, by)
    rounds = None if measured is None else cache(partial(rounds_of, measured, keys, by))
    rows = []
    for finding in findings:
        check = FindingCheck(finding, keys)
        theirs, ours = NO_ESTIMATE, Evaluation()
        of_published = None if known is None else rows_of_statistic(known, check.statistic)
        if of_published is not None:
            theirs = check.estimate(of_published)
        if rounds is not None:
            ours = check.evaluate(rounds(check.statistic), context)
            if of_published is not None:
                theirs, others = check.of_same_cells(theirs, of_published, rounds, ours)
                ours = replace(ours, reasons=[*ours.reasons, *others])
        rows.append(
            {
                "id": finding["id"],
                "statement": finding["statement"],
                "published": theirs.value,
                "measured": ours.estimate.value,
                "low": ours.estimate.low,
                "high": ours.estimate.high,
                "unit": check.unit,
                "over": ours.over,
                "expected": verdicts.bounds_text(finding),
                "verdict": ours.verdict,
                "why": "; ".join(reason.text for reason in ours.reasons),
                "reasons": json.dumps([asdict(reason) for reason in ours.reasons], default=float),
            }
        )
    return pd.DataFrame(rows, columns=verdicts.OF_FINDINGS)


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    rows = evaluate_findings(expectations, axes, None, measured, context)
    return _with_passes(expectations, rows.replace({"verdict": {verdicts.REPRODUCED: HOLDS}}))


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    rows = evaluate_findings(expectations, [], None, None)
    return _with_passes(expectations, rows.assign(why=f"the key `studies` lacks {study}"))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    allowing = {
        verdicts.INCONCLUSIVE: "allow_inconclusive",
        verdicts.NOT_MEASURED: "allow_not_measured",
    }
    pairs = zip(expectations, rows["verdict"], strict=True)
    passes = [verdict == HOLDS or e.get(allowing.get(verdict, ""), False) for e, verdict in pairs]
    columns = verdicts.OF_EXPECTATIONS
    return rows.assign(passes=["yes" if passed else "no" for passed in passes])[columns]


def rounds_of(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    return by_round(add_key_columns(frame, by)[0], keys, statistic)


class FindingCheck:
    """A finding, and its value and verdict on frames of by_round, whose cells `axes` identify.

    `statistic` is the one of the runs (default: mean), `where` selects the cells, `sides` are the
    compared values of an axis, the baseline first, and `keys` identify a cell, or a pair of cells.
    """

    def __init__(self, finding: FindingDefinition, axes: Sequence[str]) -> None:
        self.finding, self.axes, self.where = finding, axes, {**finding["where"]}
        self.statistic = str(self.where.pop(comparisons.STATISTIC, MEAN))
        self.compare: dict[str, Any] = {**finding.get("compare", {})}
        self.metric = name_in(finding)
        sides = ("baseline", "candidate")
        self.sides = [str(self.compare[side]) for side in sides if side in self.compare]
        self.keys = [axis for axis in axes if axis != self.compare.get("axis")]

    @property
    def unit(self) -> str:
        if self.compare:
            sides = self.sides or [self.compare["to"], "now"]
            return f"times, {' / '.join(sides)}"
        return metric_of(self.metric).unit if self.metric in names() else ""

    def evaluate(self, rounds: pd.DataFrame, context: EvaluationContext) -> Evaluation:
        if "to" in self.compare:
            return self._evaluate_baseline(context)
        if self.metric not in rounds:
            return Evaluation(reasons=[Reason("no-metric", {"metric": self.metric})])
        rows = self.involved(rounds)
        parts = [part for _, part in group_rows(rows, self.keys)] if self.sides else [rows]
        if hosts := {host for part in parts if part["host"].nunique() > 1 for host in part["host"]}:
            return _of_several_hosts(hosts)
        rows, refused = self._comparable(rows)
        noise, small = context.noise(self.metric), list[Reason]()
        subject = same_work.subject_axis(self.axes)
        # A limit of a time holds with its fixed cost; a ratio of fixed costs contains no work.
        if self.sides and not metric_of(self.metric).exact:
            large, small = self._without_small(rows, larger_scale(rows, subject, context))
            if small and large.empty:
                return Evaluation(self._with_error(rows, noise), comparisons.TOO_SMALL, small)
            rows = large
        value = self.estimate(rows)
        if not value.n:
            return Evaluation(reasons=refused or [self._why_nothing(rows, context.grid)])
        value = self._with_error(rows, noise)
        if not all(map(noise.are_in_turns, self._cells(rows))):
            small.append(Reason("not-in-turns"))
        over = self._over(group_rows(rows, self.keys).ngroups)
        others = [*self._partial(rounds, rows, context.grid), *small]
        if refused:
            return Evaluation(value, verdicts.INCONCLUSIVE, [*refused, *others], over)
        verdict, reasons = self._verdict(value, noise.has_duplicates, context.limits)
        if verdict == verdicts.DIFFERS:
            levels = [self.estimate(part).value for _, part in group_rows(rows, self.keys)]
            # A condition that all cells share does not explain a level that only some of them lack.
            is_mixed = not self.sides and any(verdicts.is_expected(self.finding, v) for v in levels)
            direction = "" if is_mixed else direction_of(self.finding, value.value)
            others += possible_reasons(direction, rows, subject, context)
        # No time, share or count is below 0. The verdict used the whole interval.
        value = replace(value, low=0.0) if not self.sides and value.low < 0 else value
        return Evaluation(value, verdict, [*reasons, *others], over)

    def _with_error(self, rows: pd.DataFrame, noise: Noise) -> Estimate:
        """Return the value with the error of its verdict.

        The least of several noisy values is below each true one, and more rounds do not change that. So pairs
        and cells are averaged over their rounds first, and the least or greatest of them is taken then.
        """
        over, parts = self.finding["expect"]["over"], group_rows(rows, self.keys)
        if over != comparisons.MEDIAN and parts.ngroups > 1:
            estimates = [self._with_error(part, noise) for _, part in parts]
            return _reduce([e for e in estimates if e.n], over, bool(self.sides))
        value = self.estimate(rows)
        if not self.sides:
            return noise.level_with_error(value)
        return noise.with_error(value, self._cells(rows))

    def _verdict(
        self, value: Estimate, has_duplicates: bool, limits: Limits
    ) -> tuple[str, list[Reason]]:
        verdict, reasons = verdict_of(self.finding, value, limits)
        if has_duplicates or verdict == verdicts.INCONCLUSIVE:
            return verdict, reasons
        return verdict, [*reasons, Reason("no-duplicates")]

    def estimate(self, rounds: pd.DataFrame) -> Estimate:
        """Use only complete rounds, because all must reduce the same cells."""
        rows, metric = rows_where(rounds, self.where), self.metric
        if metric not in rows:
            return NO_ESTIMATE
        if self.compare:
            on = [*self.keys, "host", "round"]
            pairs = pair_rows(rows, self.compare["axis"], self.sides, on)
            values = pairs.assign(value=pairs[f"{metric}_baseline"] / pairs[f"{metric}_candidate"])
        else:
            values = rows.assign(value=rows[metric])
        values = values[values["value"].notna()]
        of_rounds = values.groupby("round")["value"]
        count, over = group_rows(values, self.keys).ngroups, self.finding["expect"]["over"]
        reduced = of_rounds.agg(over)[of_rounds.count() == count]
        if len(reduced) == 1:
            return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
        # The median of `count` values has the error of an average of fewer.
        averaged = max(min(count, 2.0), 2 / math.pi * count) if over == comparisons.MEDIAN else 1.0
        if self.compare:
            return ratio_interval(np.log(reduced), averaged)
        return replace(mean_interval(reduced), pairs=averaged)

    def involved(self, rounds: pd.DataFrame) -> pd.DataFrame:
        rows = rows_where(rounds, self.where)
        if not self.sides:
            return rows
        axis = self.compare["axis"]
        both = pd.concat([rows[rows[axis] == side] for side in self.sides])
        partners = group_rows(both, self.keys)[axis].transform("nunique")
        return both[partners == len(self.sides)]

    def _comparable(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, list[Reason]]:
        compared = [rows.iloc[:0]]
        refused: dict[str, Reason] = {}
        for _, part in group_rows(rows, self.keys):
            sides = part[self.compare["axis"]] if self.compare else [""] * len(part)
            name = same_work.name_of(dict(part.iloc[0]), self.keys)
            refusal = same_work.refusal(name, dict(zip(sides, part["work"], strict=True)))
            if refusal and (self.compare or refusal.flag == same_work.OTHER):
                reason = Reason(refusal.flag, {"reason": refusal.reason})
                refused.setdefault(reason.text, reason)
            else:
                compared.append(part)
        return pd.concat(compared), list(refused.values())

    def _without_small(
        self, rows: pd.DataFrame, larger: ReasonTest | None = None
    ) -> tuple[pd.DataFrame, list[Reason]]:
        if rows.empty or FIXED_SHARE not in rows:
            return rows, []
        small = group_rows(rows, self.keys)[FIXED_SHARE].transform("max") > DECIDING_SHARE
        if not small.any():
            return rows, []
        excluded, total = (group_rows(part, self.keys).ngroups for part in (rows[small], rows))
        values = {"excluded": excluded, "total": words.count_of(total, "pair")}
        return rows[~small], [Reason("fixed-cost", values, larger)]

    def _why_nothing(self, rows: pd.DataFrame, grid: Sequence[Mapping[str, str]]) -> Reason:
        if len(rows) and (reason := metric_of(self.metric).why_missing):
            return Reason("not-counted", {"reason": reason})
        for side in [{self.compare["axis"]: side} for side in self.sides] or [{}]:
            where = {**self.where, **side}
            cells = [cell for cell in grid if comparisons.matches_cell(cell, where)]
            if not cells:
                named = [f"{a} {' or '.join(comparisons.axis_values(v))}" for a, v in where.items()]
                return Reason("not-in-grid", {"cells": ", ".join(named) or "any"})
            if all(cell["skip"] for cell in cells):
                return Reason("skipped", {"reason": cells[0]["skip"]})
        return Reason("no-result")

    def _partial(
        self, rounds: pd.DataFrame, used: pd.DataFrame, grid: Sequence[Mapping[str, str]]
    ) -> list[Reason]:
        axes = [axis for axis in self.axes if grid and axis in grid[0]]
        if not axes or self.compare.get("axis", axes[0]) not in axes:
            return []
        where = {axis: values for axis, values in self.where.items() if axis in axes}
        of_grid = FindingCheck({**self.finding, "where": where}, axes)
        cells = of_grid.involved(pd.DataFrame(grid)[axes]).drop_duplicates()
        known = rows_where(rounds[rounds[self.metric].notna()], self.where)
        measured = cells.merge(known[axes].drop_duplicates())
        if len(measured) == len(cells):
            return []
        n = group_rows(used, self.keys).ngroups
        reduced = words.count_of(n, "pair" if self.compare else "cell")
        values = {"measured": len(measured), "total": len(cells), "reduced": reduced}
        return [Reason("partial", values)]

    def _cells(self, rows: pd.DataFrame) -> list[tuple[Key, Key]]:
        pairs = []
        for cell in rows[self.keys].drop_duplicates().to_dict("records") if self.sides else ():
            ends = [cell | {self.compare["axis"]: side} for side in self.sides]
            first, second = (tuple(end[axis] for axis in self.axes) for end in ends)
            pairs.append((first, second))
        return pairs

    def of_same_cells(
        self,
        theirs: Estimate,
        published: pd.DataFrame,
        rounds: Callable[[str], pd.DataFrame],
        ours: Evaluation,
    ) -> tuple[Estimate, list[Reason]]:
        """Return the published value of the measured cells, and remarks if all cells have another.

        It is a possible reason if it differs from the expected range as the measured value does.
        """
        measured = rounds(self.statistic)
        if not ours.estimate.n or self.metric not in measured:
            return theirs, []
        known, cells = self.involved(published), self._comparable(self.involved(measured))[0]
        if (
            self.sides
            and not metric_of(self.metric).exact
            and ours.verdict != comparisons.TOO_SMALL
        ):
            cells = self._without_small(cells)[0]
        rows = known.merge(cells[self.axes].drop_duplicates())
        both, all_ = (group_rows(part, self.keys).ngroups for part in (rows, known))
        same = self.estimate(rows)
        if both == all_ or not same.n:
            return theirs, []
        count = words.count_of(all_, "pair" if self.sides else "cell")
        unit = "x" if self.sides else f" {self.unit}".rstrip()
        text = f"{words.significant(theirs.value)}{unit}"
        values = {"published": count, "value": theirs.value, "shown": text}
        reasons = [Reason("all-published", values)]
        side = verdicts.side_of(self.finding, same.value)
        if ours.verdict == verdicts.DIFFERS and side == verdicts.side_of(
            self.finding, ours.estimate.value
        ):
            values = {"measured": both, "published": count, "value": same.value}
            reasons.append(Reason("fewer-cells", values))
        return same, reasons

    def _over(self, count: int) -> str:
        things = words.count_of(count, "pair" if self.sides else "cell")
        return things if count == 1 else f"{REDUCTIONS[self.finding['expect']['over']]} of {things}"

    def _evaluate_baseline(self, context: EvaluationContext) -> Evaluation:
        name = self.compare["to"]
        if name not in context.baselines:
            return Evaluation(reasons=[Reason("no-baseline", {"name": name})])
        pairs = context.baselines[name]
        pairs = rows_where(pairs, {a: v for a, v in self.where.items() if a in pairs})
        if pairs.empty:
            return Evaluation(reasons=[self._why_nothing(pairs, context.grid)])
        refused = [HOSTS in words for words in pairs["refused"]]
        if any(refused):
            return _of_several_hosts({*chain.from_iterable(pairs["hosts"][refused])})
        counts = Counter(chain.from_iterable(pairs["refused"]))
        excluded = [
            Reason("not-compared", {"flag": flag, "excluded": counts[flag], "total": len(pairs)})
            for flag in flags.joined(counts).split()
        ]
        compared = pairs[pairs["withheld"] == ""]
        if compared.empty:
            return Evaluation(verdict=verdicts.INCONCLUSIVE, reasons=excluded)
        columns = compared[["ratio", "low", "high", "n", "error", "degrees"]]
        ratios = [Estimate(*row) for row in columns.itertuples(index=False)]
        value = _reduce(ratios, self.finding["expect"]["over"])
        has_duplicates = bool(compared["twin_sd"].notna().all())
        verdict, reasons = self._verdict(value, has_duplicates, context.limits)
        verdict = verdicts.INCONCLUSIVE if excluded and verdict == verdicts.REPRODUCED else verdict
        return Evaluation(value, verdict, [*reasons, *excluded], self._over(len(compared)))


def _of_several_hosts(hosts: Iterable[str]) -> Evaluation:
    reason = Reason("hosts-differ", {"hosts": ", ".join(sorted(hosts))})
    return Evaluation(verdict=verdicts.INCONCLUSIVE, reasons=[reason])


def _reduce(estimates: Sequence[Estimate], over: str, are_ratios: bool = True) -> Estimate:
    """Intervals of the least or greatest hold together (Bonferroni)."""
    level = CONFIDENCE if over == comparisons.MEDIAN else 1 - (1 - CONFIDENCE) / len(estimates)
    wide = [
        ratio(math.log(e.value), e.error, e.degrees, e.n, level=level)
        if are_ratios
        else mean(e.value, e.error, e.degrees, e.n, level=level)
        for e in estimates
    ]
    low_high = [[e.low for e in wide], [e.high for e in wide]]
    low, high = (float(pd.Series(side).agg(over, skipna=False)) for side in low_high)
    value = float(pd.Series([e.value for e in estimates]).agg(over))
    error = float(pd.Series([e.error for e in estimates]).max(skipna=False))
    return Estimate(value, low, high, min(e.n for e in estimates), error)


def verdict_of(
    finding: FindingDefinition, measured: Estimate, limits: Limits
) -> tuple[str, list[Reason]]:
    if not measured.n:
        return verdicts.NOT_MEASURED, []
    if measured.n < limits.min_rounds:
        values = {"n": measured.n, "needed": limits.min_rounds}
        return verdicts.INCONCLUSIVE, [Reason("low-n", values)]
    if verdicts.is_expected(finding, measured.low) and verdicts.is_expected(finding, measured.high):
        return verdicts.REPRODUCED, []
    low, high = verdicts.expected_bounds(finding)
    if measured.high < low or measured.low > high:
        is_reversed = measured.high < 1 < low or high < 1 < measured.low
        return verdicts.DIFFERS, [
            Reason("reversed")
        ] if "compare" in finding and is_reversed else []
    if not measured.error > 0:
        return verdicts.INCONCLUSIVE, [Reason("crosses-bound")]
    if "to" in finding.get("compare", {}):
        return verdicts.INCONCLUSIVE, [Reason("saved-rounds")]
    # Intervals of ratios are symmetric as logarithms.
    on: Callable[[float], float] = math.log if "compare" in finding else float
    bounds = [on(bound) for bound in (low, high) if math.isfinite(bound) and bound > 0]
    room = min((abs(on(measured.value) - bound) for bound in bounds), default=math.inf)
    half = (on(measured.high) - on(measured.low)) / 2
    needed = math.ceil(measured.n * (half / room) ** 2) if room else math.inf
    if needed > MAX_ROUNDS:
        return verdicts.INCONCLUSIVE, [Reason("on-bound")]
    return verdicts.INCONCLUSIVE, [Reason("needs-rounds", {"needed": needed, "n": measured.n})]
