"""Evaluate findings, and a user's expectations, on published and measured numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import flags, run_columns, same_work
from vcsbench.evidence.measurements import DECIDING_SHARE, grouped
from vcsbench.metrics import Metric, metric_of, name_in, names
from vcsbench.statistics.aggregation import (
    FIXED_SHARE,
    MEAN,
    MEDIAN,
    add_key_columns,
    by_round,
    pair_rows,
    rows_of_statistic,
    rows_where,
)
from vcsbench.statistics.baseline_comparison import HOSTS, CellPair
from vcsbench.statistics.contract import (
    DEFAULT_LIMITS,
    DIFFERS,
    INCONCLUSIVE,
    NOT_MEASURED,
    OF_EXPECTATIONS,
    OF_FINDINGS,
    REPRODUCED,
    STATISTIC,
    TOO_SMALL,
    Limits,
    matches_cell,
    values_of,
)
from vcsbench.statistics.intervals import (
    CONFIDENCE,
    NO_ESTIMATE,
    Estimate,
    mean_interval,
    ratio,
    ratio_interval,
)
from vcsbench.statistics.noise import NO_NOISE, Noise, Pairs, noise_of
from vcsbench.statistics.verdicts import Reason, bounds_text, verdict_of, write_reasons

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

REDUCTIONS = {MEDIAN: "median", "min": "least", "max": "greatest"}
# Verdict of an expectation, because nothing was published that could be reproduced.
HOLDS = "holds"


@dataclass(frozen=True)
class Conditions:
    """Conditions of published numbers: scale of the repositories, version of Subversion, kind of storage."""

    scale: float | None = None
    subversion: str = ""
    storage: str = ""


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict uses.

    `noise` maps a metric to its noise; `scales` a repository to its scale; `baselines` a name to its cells
    next to the current ones. `versions` has the versions of Subversion, `storages` the kinds of storage.
    `grid` has the cells (axes and `skip`).
    """

    noise: Callable[[str], Noise] = lambda _metric: NO_NOISE
    scales: Mapping[str, float] = field(default_factory=dict)
    versions: Sequence[str] = ()
    storages: Sequence[str] = ()
    published: Conditions = Conditions()
    grid: Sequence[Mapping[str, str]] = ()
    baselines: Mapping[str, Sequence[CellPair]] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    study: str = ""


def context_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published: Conditions = Conditions(),
    study: str = "",
) -> EvaluationContext:
    """Return the context of verdicts on measurements; `grid` has the rows of its file."""
    subject = same_work.subject_axis(axes)
    lowest = measured.groupby(subject)["scale"].min().dropna() if subject else pd.Series()
    sides = [column for column in ("client_version", "server_version") if column in measured]
    return EvaluationContext(
        noise=cache(lambda metric: noise_of(measured, axes, block, metric_of(metric))),
        scales={str(value): float(scale) for value, scale in lowest.items()},
        versions=[str(version) for side in sides for version in measured[side].dropna().unique()],
        storages=[*measured["storage_kind"].dropna().unique()]
        if "storage_kind" in measured
        else [],
        published=published,
        grid=[row for row in grid if row.get("repo") != EMPTY],
        limits=limits,
        study=study,
    )


@dataclass(frozen=True)
class Evaluation:
    """A measured value, the verdict on it and its reasons; `over` is the reduction: `least of 12 cells`."""

    estimate: Estimate = NO_ESTIMATE
    verdict: str = NOT_MEASURED
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
    ratios) of the value in each round, `low` and `high` its interval.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    known = None if published is None else rounds_of(published, keys, by)
    rounds = None if measured is None else cache(partial(rounds_of, measured, keys, by))
    rows = []
    for finding in findings:
        statistic, plain = without_statistic(finding)
        theirs, ours = NO_ESTIMATE, Evaluation()
        if known is not None:
            theirs = estimate(plain, rows_of_statistic(known, statistic), keys)
        if rounds is not None:
            ours = evaluate(plain, rounds(statistic), keys, context)
        rows.append(
            {
                "id": finding["id"],
                "statement": finding["statement"],
                "published": theirs.value,
                "measured": ours.estimate.value,
                "low": ours.estimate.low,
                "high": ours.estimate.high,
                "unit": unit_of(plain),
                "over": ours.over,
                "expected": bounds_text(plain),
                "verdict": ours.verdict,
                "why": write_reasons(ours.reasons),
            }
        )
    return pd.DataFrame(rows, columns=OF_FINDINGS)


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    """Return a row per expectation, with the columns OF_EXPECTATIONS."""
    rows = evaluate_findings(expectations, axes, None, measured, context)
    return _with_passes(expectations, rows.replace({"verdict": {REPRODUCED: HOLDS}}))


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    """Return the rows of a study that the configuration does not run."""
    rows = evaluate_findings(expectations, [], None, None)
    return _with_passes(expectations, rows.assign(why=f"the key `studies` lacks {study}"))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    allowing = {INCONCLUSIVE: "allow_inconclusive", NOT_MEASURED: "allow_not_measured"}
    pairs = zip(expectations, rows["verdict"], strict=True)
    passes = [verdict == HOLDS or e.get(allowing.get(verdict, ""), False) for e, verdict in pairs]
    return rows.assign(passes=["yes" if passed else "no" for passed in passes])[OF_EXPECTATIONS]


def rounds_of(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    """Return the rounds of a frame, each aggregated to a statistic."""
    return by_round(add_key_columns(frame, by)[0], keys, statistic)


def without_statistic(finding: FindingDefinition) -> tuple[str, FindingDefinition]:
    """Return the statistic of runs that a finding is about (default: mean), and the finding without it."""
    where = finding["where"]
    rest = {axis: values for axis, values in where.items() if axis != STATISTIC}
    return str(where.get(STATISTIC, MEAN)), {**finding, "where": rest}


def evaluate(
    finding: FindingDefinition,
    rounds: pd.DataFrame,
    axes: Sequence[str],
    context: EvaluationContext,
) -> Evaluation:
    """Return the verdict on measured numbers, a frame of by_round."""
    if "to" in finding.get("compare", {}):
        return _evaluate_baseline(finding, context)
    metric = name_in(finding)
    if metric not in rounds:
        return Evaluation(reasons=[Reason("no-metric", {"metric": metric})])
    rows = involved(finding, rounds, axes)
    if hosts := _different_hosts(finding, rows, axes):
        return Evaluation(verdict=INCONCLUSIVE, reasons=[_hosts_differ(hosts)])
    rows, refused = _comparable(finding, rows, axes)
    small: list[Reason] = []
    # A limit of a time holds with its fixed cost; a ratio of fixed costs contains no work.
    if _sides(finding) and not metric_of(metric).exact:
        large, small = _without_small(finding, rows, axes)
        if small and large.empty:
            return Evaluation(estimate(finding, rows, axes), TOO_SMALL, small)
        rows = large
    value = estimate(finding, rows, axes)
    if not value.n:
        reasons = refused or [
            _not_counted(rows, metric_of(metric)) or _why_nothing(finding, context.grid)
        ]
        return Evaluation(reasons=reasons)
    noise, pairs = context.noise(metric), _pairs(finding, rows, axes)
    value = noise.with_error(value, pairs) if pairs else noise.level_with_error(value)
    over = _over(finding, grouped(rows, _keys(finding, axes)).ngroups)
    partial_ = _partial(finding, rounds[rounds[metric].notna()], rows, axes, context.grid)
    if refused:
        return Evaluation(value, INCONCLUSIVE, [*refused, *partial_, *small], over)
    verdict, reasons = _verdict(finding, value, noise, context.limits)
    conditions = _conditions(verdict, rows, axes, context)
    return Evaluation(value, verdict, [*reasons, *partial_, *small, *conditions], over)


def _verdict(
    finding: FindingDefinition, value: Estimate, noise: Noise, limits: Limits
) -> tuple[str, list[Reason]]:
    verdict, reasons = verdict_of(finding, value, limits)
    if noise.has_duplicates or verdict == INCONCLUSIVE:
        return verdict, reasons
    return verdict, [*reasons, Reason("no-duplicates")]


def estimate(finding: FindingDefinition, rounds: pd.DataFrame, axes: Sequence[str]) -> Estimate:
    """Return the finding's value with its own error, from a frame of by_round.

    Only complete rounds count, because all must reduce the same cells.
    """
    rows = rows_where(rounds, finding["where"])
    compare, metric, keys = finding.get("compare"), name_in(finding), _keys(finding, axes)
    if metric not in rows:
        return NO_ESTIMATE
    if compare:
        pairs = pair_rows(rows, compare["axis"], _sides(finding), [*keys, "host", "round"])
        values = pairs.assign(value=pairs[f"{metric}_baseline"] / pairs[f"{metric}_candidate"])
    else:
        values = rows.assign(value=rows[metric])
    values = values[values["value"].notna()]
    of_rounds = values.groupby("round")["value"]
    count, over = grouped(values, keys).ngroups, finding["expect"]["over"]
    reduced = of_rounds.agg(over)[of_rounds.count() == count]
    if len(reduced) == 1:  # exp(log(x)) would change the last digit.
        return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
    # The median of `count` values has the error of an average of fewer.
    averaged = max(min(count, 2.0), 2 / math.pi * count) if over == MEDIAN else 1.0
    if compare:
        return ratio_interval(np.log(reduced), averaged)
    return replace(mean_interval(reduced), pairs=averaged)


def unit_of(finding: FindingDefinition) -> str:
    """Return the unit of a finding's value; of a ratio, `times, baseline / candidate`."""
    compare = finding.get("compare")
    if compare and "to" in compare:
        return f"times, {compare['to']} / now"
    if compare:
        return f"times, {compare['baseline']} / {compare['candidate']}"
    name = name_in(finding)
    return metric_of(name).unit if name in names() else ""


def _sides(finding: FindingDefinition) -> list[str]:
    """Return the compared values, the baseline first; none if the finding compares nothing."""
    compare = finding.get("compare", {})
    return [str(compare[side]) for side in ("baseline", "candidate") if side in compare]


def _keys(finding: FindingDefinition, axes: Sequence[str]) -> list[str]:
    """Return the axes that identify a cell, or a pair of cells."""
    return [axis for axis in axes if axis != finding.get("compare", {}).get("axis")]


def involved(finding: FindingDefinition, rounds: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a finding's cells; of a comparison, only those with a partner."""
    rows = rows_where(rounds, finding["where"])
    sides = _sides(finding)
    if not sides:
        return rows
    axis = finding["compare"]["axis"]
    both = pd.concat([rows[rows[axis] == side] for side in sides])
    partners = grouped(both, _keys(finding, axes))[axis].transform("nunique")
    return both[partners == len(sides)]


def _comparable(
    finding: FindingDefinition, rows: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, list[Reason]]:
    """Return the rows of cells that did the same work, and why others are excluded."""
    compare, keys = finding.get("compare"), _keys(finding, axes)
    compared = [rows.iloc[:0]]
    refused: dict[str, Reason] = {}
    for _, part in grouped(rows, keys):
        sides = part[compare["axis"]] if compare else [""] * len(part)
        name = same_work.name_of(dict(part.iloc[0]), keys)
        refusal = same_work.refusal(name, dict(zip(sides, part["work"], strict=True)))
        # A single number only needs rounds of equal work.
        if refusal and (compare or refusal.flag == same_work.OTHER):
            reason = Reason(refusal.flag, {"reason": refusal.reason})
            refused.setdefault(reason.text, reason)
        else:
            compared.append(part)
    return pd.concat(compared), list(refused.values())


def _without_small(
    finding: FindingDefinition, rows: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, list[Reason]]:
    """Return the rows of pairs without a cell that is mostly fixed cost, and why others are excluded."""
    keys = _keys(finding, axes)
    if rows.empty or FIXED_SHARE not in rows:
        return rows, []
    small = grouped(rows, keys)[FIXED_SHARE].transform("max") > DECIDING_SHARE
    if not small.any():
        return rows, []
    excluded, total = grouped(rows[small], keys).ngroups, grouped(rows, keys).ngroups
    values = {"excluded": excluded, "total": words.count_of(total, "pair")}
    return rows[~small], [Reason("fixed-cost", values)]


def _not_counted(rows: pd.DataFrame, metric: Metric) -> Reason | None:
    """Return the reason why measured rows lack a metric; None if unknown."""
    reasons = (
        run_columns.why_not_counted(why, metric.needs) for why in rows["not_counted"].unique()
    )
    return next((Reason("not-counted", {"reason": why}) for why in reasons if why), None)


def _why_nothing(finding: FindingDefinition, grid: Sequence[Mapping[str, str]]) -> Reason:
    """Return the reason of a missing value: no cells in the grid, skipped cells, or no valid run."""
    for side in [{finding["compare"]["axis"]: side} for side in _sides(finding)] or [{}]:
        where = {**finding["where"], **side}
        cells = [cell for cell in grid if matches_cell(cell, where)]
        if not cells:
            named = [f"{axis} {' or '.join(values_of(v))}" for axis, v in where.items()]
            return Reason("not-in-grid", {"cells": ", ".join(named) or "any"})
        if all(cell["skip"] for cell in cells):
            return Reason("skipped", {"reason": cells[0]["skip"]})
    return Reason("no-result")


def _partial(
    finding: FindingDefinition,
    rounds: pd.DataFrame,
    used: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
) -> list[Reason]:
    """Return the number of measured cells if the grid has more.

    `rounds` have a value of the metric; `used` are those of the finding's value.
    """
    in_grid = [axis for axis in axes if grid and axis in grid[0]]
    compare = finding.get("compare")
    if not in_grid or (compare and compare["axis"] not in in_grid):
        return []
    where = {axis: values for axis, values in finding["where"].items() if axis in in_grid}
    plain: FindingDefinition = {**finding, "where": where}
    cells = involved(plain, pd.DataFrame(grid)[in_grid], in_grid).drop_duplicates()
    measured = cells.merge(rows_where(rounds, finding["where"])[in_grid].drop_duplicates())
    if len(measured) == len(cells):
        return []
    n = grouped(used, _keys(finding, axes)).ngroups
    reduced = words.count_of(n, "pair" if compare else "cell")
    values = {"measured": len(measured), "total": len(cells), "reduced": reduced}
    return [Reason("partial", values)]


def _conditions(
    verdict: str, rows: pd.DataFrame, axes: Sequence[str], context: EvaluationContext
) -> Iterable[Reason]:
    """Yield conditions that differ from the published ones; a differing verdict names a test of each."""
    axis, published = same_work.subject_axis(axes), context.published
    differs, study = verdict == DIFFERS, context.study
    whole = published.scale or 0.0
    for subject in dict.fromkeys(rows[axis]) if axis else ():
        scale = context.scales.get(subject, math.inf)
        if scale < whole:
            test = f"set scale: 1 of {subject} in config/config.yaml, make report STUDY={study}"
            values = {"subject": subject, "scale": scale, "published": whole}
            yield Reason("scale", values, test if differs and study else "")
    storages = [kind for kind in context.storages if kind]
    if differs and published.storage and storages and published.storage not in storages:
        values = {"measured": words.enumeration(storages), "published": published.storage}
        test = f"name a folder on this storage in config/config.yaml, make report STUDY={study}"
        yield Reason("other-storage", values, test)
    newer = [v for v in dict.fromkeys(context.versions) if _is_newer(v, published.subversion)]
    if differs and newer:
        values = {"measured": words.enumeration(newer), "published": published.subversion}
        test = "name an older build in config/builds.yaml, make report STUDY=builds"
        yield Reason("newer-version", values, test)


def _is_newer(version: str, published: str) -> bool:
    """Compare major and minor numbers; False if a version is unknown."""
    pair = [re.match(r"(\d+)\.(\d+)", text) for text in (version, published)]
    numbers = [tuple(map(int, match.groups())) for match in pair if match]
    return len(numbers) == 2 and numbers[0] > numbers[1]


def _pairs(finding: FindingDefinition, rows: pd.DataFrame, axes: Sequence[str]) -> Pairs:
    """Return the compared pairs of cells; none if the finding compares nothing."""
    sides = _sides(finding)
    if not sides:
        return []
    axis = finding["compare"]["axis"]
    cells = rows[_keys(finding, axes)].drop_duplicates().to_dict("records")
    sides_cells = (
        [tuple((cell | {axis: side})[a] for a in axes) for cell in cells] for side in sides
    )
    return list(zip(*sides_cells, strict=True))


def _over(finding: FindingDefinition, count: int) -> str:
    """Return the reduction of a value: `least of 12 cells`."""
    things = words.count_of(count, "pair" if _sides(finding) else "cell")
    return things if count == 1 else f"{REDUCTIONS[finding['expect']['over']]} of {things}"


def _different_hosts(
    finding: FindingDefinition, rows: pd.DataFrame, axes: Sequence[str]
) -> list[str]:
    """Return the hosts if numbers of one pair (or of a level) come from several."""
    keys = _keys(finding, axes) if _sides(finding) else []
    parts = [part for _, part in grouped(rows, keys)] if keys else [rows]
    several = (set(part["host"]) for part in parts if part["host"].nunique() > 1)
    return sorted(set().union(*several))


def _hosts_differ(hosts: Sequence[str]) -> Reason:
    return Reason("hosts-differ", {"hosts": ", ".join(hosts)})


def _evaluate_baseline(finding: FindingDefinition, context: EvaluationContext) -> Evaluation:
    """Return the verdict on a comparison with a saved baseline; none holds if a cell is not compared."""
    name = finding["compare"]["to"]
    if name not in context.baselines:
        return Evaluation(reasons=[Reason("no-baseline", {"name": name})])
    cells = [cell for cell in context.baselines[name] if matches_cell(cell.axes, finding["where"])]
    if not cells:
        return Evaluation(reasons=[_why_nothing(finding, context.grid)])
    if hosts := sorted({host for cell in cells if HOSTS in cell.withheld for host in cell.hosts}):
        return Evaluation(verdict=INCONCLUSIVE, reasons=[_hosts_differ(hosts)])
    excluded = [
        Reason(
            "not-compared",
            {"flag": flag, "excluded": sum(flag in c.withheld for c in cells), "total": len(cells)},
        )
        for flag in flags.joined(f for cell in cells for f in cell.withheld).split()
    ]
    compared = [cell for cell in cells if not cell.withheld]
    if not compared:
        return Evaluation(verdict=INCONCLUSIVE, reasons=excluded)
    value = _reduce_ratios([cell.ratio for cell in compared], finding["expect"]["over"])
    verdict, reasons = _verdict(finding, value, compared[0].noise, context.limits)
    verdict = INCONCLUSIVE if excluded and verdict == REPRODUCED else verdict
    over = _over({**finding, "compare": {}}, len(compared))
    return Evaluation(value, verdict, [*reasons, *excluded], over)


def _reduce_ratios(ratios: Sequence[Estimate], over: str) -> Estimate:
    """Reduce unpaired ratios; intervals of the least or greatest hold together (Bonferroni)."""
    level = CONFIDENCE if over == MEDIAN else 1 - (1 - CONFIDENCE) / len(ratios)
    wide = [ratio(math.log(r.value), r.error, r.degrees, r.n, confidence=level) for r in ratios]
    low_high = [[r.low for r in wide], [r.high for r in wide]]
    low, high = (float(pd.Series(side).agg(over, skipna=False)) for side in low_high)
    value = float(pd.Series([r.value for r in wide]).agg(over))
    return Estimate(value, low, high, min(r.n for r in wide))
