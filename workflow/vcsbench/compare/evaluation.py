"""Findings' values with their intervals, and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.compare.against import HOSTS, ThenAndNow
from vcsbench.compare.bounds import (
    INCONCLUSIVE,
    NOT_MEASURED,
    REPRODUCED,
    TOO_SMALL,
    Finding,
    matches,
    verdict_of,
)
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.intervals import CONFIDENCE, Estimate, mean_interval, ratio, ratio_interval
from vcsbench.compare.noise import SILENT, Noise, Pairs
from vcsbench.compare.reduction import paired
from vcsbench.compare.selection import (
    comparable,
    involved,
    keys_of,
    large_enough,
    not_counted,
    only_some,
    sides_of,
    where,
    why_nothing,
)
from vcsbench.evidence import flags, samework
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import metric_of, name_in, names

NOTHING = mean_interval([])
MEDIAN = "median"
# How `over` is said.
REDUCED = {MEDIAN: "median", "min": "least", "max": "greatest"}
NOISE_UNKNOWN = "noise unknown: no cell was measured twice"


@dataclass(frozen=True)
class Basis:
    """What a verdict on measured numbers stands on beside them.

    `noise` gives the study's in a metric, by its name.
    `scales` maps a subject (a repository) to the scale that it was measured at, `published_scale` is that of
    the published numbers. `grid` has the study's cells (the axes and `skip`). `saved` maps the name
    of a baseline to its cells beside those of now.
    """

    noise: Callable[[str], Noise] = lambda _metric: SILENT
    scales: Mapping[str, float] = field(default_factory=dict)
    published_scale: float | None = None
    grid: Sequence[Mapping[str, str]] = ()
    saved: Mapping[str, Sequence[ThenAndNow]] = field(default_factory=dict)
    limits: Limits = USUAL


@dataclass(frozen=True)
class Evaluation:
    """A measured value with its interval, the verdict on it, and why; `over` says of how many cells it is
    what: `least of 12 cells`."""

    estimate: Estimate = NOTHING
    verdict: str = NOT_MEASURED
    why: tuple[str, ...] = ()
    over: str = ""


def evaluate(
    finding: Finding, rounds: pd.DataFrame, axes: Sequence[str], basis: Basis
) -> Evaluation:
    """The verdict on the measured numbers, a frame of reduction.by_round."""
    if "to" in finding.get("compare", {}):
        return _against_saved(finding, basis)
    metric = name_in(finding)
    if metric not in rounds:
        return Evaluation(why=(f"no metric: nothing was measured that tells {metric}",))
    rows = involved(finding, rounds, axes)
    if hosts := _several_hosts(finding, rows, axes):
        return Evaluation(verdict=INCONCLUSIVE, why=(_refused(hosts),))
    rows, refused = comparable(finding, rows, axes)
    small = ""
    # A limit of a time holds whatever it consists of; a ratio of fixed costs says nothing about the work.
    if sides_of(finding) and not metric_of(metric).exact:
        enough, small = large_enough(finding, rows, axes)
        if small and enough.empty:
            return Evaluation(estimate(finding, rows, axes), TOO_SMALL, (small,))
        rows = enough
    own = estimate(finding, rows, axes)
    if not own.n:
        missing = not_counted(rows, metric_of(metric)) or why_nothing(finding, basis.grid)
        why = refused or (missing,)
        return Evaluation(why=why)
    noise, pairs = basis.noise(metric), _pairs(finding, rows, axes)
    value = noise.judged(own, pairs) if pairs else noise.judged_level(own)
    over = _over(finding, grouped(rows, keys_of(finding, axes)).ngroups)
    some = only_some(finding, rounds[rounds[metric].notna()], rows, axes, basis.grid)
    some = (*some, *([small] if small else []))
    if refused:
        return Evaluation(value, INCONCLUSIVE, (*refused, *some), over)
    word, why = _verdict(finding, value, noise, basis.limits)
    return Evaluation(value, word, (*why, *some, *_scale(rows, axes, basis)), over)


def _verdict(
    finding: Finding, value: Estimate, noise: Noise, limits: Limits
) -> tuple[str, tuple[str, ...]]:
    word, why = verdict_of(finding, value, limits)
    known = noise.twins_known or word == INCONCLUSIVE
    return word, why if known else (*why, NOISE_UNKNOWN)


def _pairs(finding: Finding, rows: pd.DataFrame, axes: Sequence[str]) -> Pairs:
    """The pairs of cells that a finding compares; none where it compares nothing."""
    sides = sides_of(finding)
    if not sides:
        return []
    axis = finding["compare"]["axis"]
    cells: list[dict[Any, Any]] = (
        rows[[*keys_of(finding, axes)]].drop_duplicates().to_dict("records")
    )
    one, other = (
        [tuple((cell | {axis: side})[a] for a in axes) for cell in cells] for side in sides
    )
    return list(zip(one, other, strict=True))


def _over(finding: Finding, count: int) -> str:
    """Of how many cells, or pairs of them, a value is what."""
    thing = words.count_of(count, "pair" if sides_of(finding) else "cell")
    return thing if count == 1 else f"{REDUCED[finding['expect']['over']]} of {thing}"


def unit_of(finding: Finding) -> str:
    """The unit of a finding's value: its metric's, or what is divided by what."""
    compare = finding.get("compare")
    if compare and "to" in compare:
        return f"times, {compare['to']} / now"
    if compare:
        return f"times, {compare['baseline']} / {compare['candidate']}"
    name = name_in(finding)
    return metric_of(name).unit if name in names() else ""


def _several_hosts(finding: Finding, rows: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The hosts of what may come from one only; none where it does. Of what
    compares that is each pair of cells: ratios of one block and those of another may be of two nodes."""
    keys = keys_of(finding, axes) if sides_of(finding) else []
    parts = [part for _, part in grouped(rows, keys)] if keys else [rows]
    several = (set(part["host"]) for part in parts if part["host"].nunique() > 1)
    return sorted(set().union(*several))


def _refused(hosts: Sequence[str]) -> str:
    return f"hosts differ: measured on {', '.join(hosts)}, whose numbers are never divided by one another"


def _against_saved(finding: Finding, basis: Basis) -> Evaluation:
    """The verdict on a comparison with a saved baseline.

    Each cell has an unpaired ratio; the reduced value's interval is made of theirs. The least or the
    greatest of several is found among intervals that hold together (Bonferroni). Where a cell is not
    compared, nothing is said to hold.
    """
    name = finding["compare"]["to"]
    if name not in basis.saved:
        return Evaluation(
            why=(f"no baseline: there is no {name} of this study; make baseline NAME={name}",)
        )
    about = [both for both in basis.saved[name] if matches(both.axes, finding["where"])]
    if not about:
        return Evaluation(why=(why_nothing(finding, basis.grid),))
    if hosts := sorted({host for both in about if HOSTS in both.withheld for host in both.hosts}):
        return Evaluation(verdict=INCONCLUSIVE, why=(_refused(hosts),))
    kept = [both for both in about if not both.withheld]
    why = tuple(
        f"{flag}: {sum(flag in both.withheld for both in about)} of {len(about)} cells not compared"
        for flag in flags.joined(f for both in about for f in both.withheld).split()
    )
    if not kept:
        return Evaluation(verdict=INCONCLUSIVE, why=why)
    value = _reduced(kept, finding["expect"]["over"])
    word, reasons = _verdict(finding, value, kept[0].noise, basis.limits)
    verdict = INCONCLUSIVE if why and word == REPRODUCED else word
    return Evaluation(
        value, verdict, (*reasons, *why), _over({**finding, "compare": {}}, len(kept))
    )


def _reduced(kept: Sequence[ThenAndNow], over: str) -> Estimate:
    level = CONFIDENCE if over == MEDIAN else 1 - (1 - CONFIDENCE) / len(kept)
    own = [both.ratio for both in kept]
    ratios = [ratio(math.log(r.value), r.error, r.degrees, r.n, confidence=level) for r in own]
    low_high = [[r.low for r in ratios], [r.high for r in ratios]]
    low, high = (float(pd.Series(side).agg(over, skipna=False)) for side in low_high)
    value = float(pd.Series([r.value for r in ratios]).agg(over))
    return Estimate(value, low, high, min(r.n for r in ratios))


def estimate(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str]) -> Estimate:
    """The finding's value with its own error, from a frame of reduction.by_round.

    Only rounds in which nothing is missing are counted, so that all reduce the same cells.
    """
    rows = where(rounds, finding["where"])
    compare, metric, keys = finding.get("compare"), name_in(finding), keys_of(finding, axes)
    if metric not in rows:
        return NOTHING
    if compare:  # the cells of a pair are of one round and one host
        pairs = paired(rows, compare["axis"], sides_of(finding), [*keys, "host", "round"])
        values = pairs.assign(value=pairs[f"{metric}_baseline"] / pairs[f"{metric}_candidate"])
    else:
        values = rows.assign(value=rows[metric])
    values = values[values["value"].notna()]
    of_rounds = values.groupby("round")["value"]
    count, over = grouped(values, keys).ngroups, finding["expect"]["over"]
    reduced = of_rounds.agg(over)[of_rounds.count() == count]
    if len(reduced) == 1:  # as it is, not through a logarithm and back
        return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
    worth = _worth(count) if over == MEDIAN else 1.0
    if compare:
        return ratio_interval(np.log(reduced), worth)
    return replace(mean_interval(reduced), pairs=worth)


def _worth(count: int) -> float:
    """How many values an average has the error of which the median of `count` has."""
    return max(min(count, 2.0), 2 / math.pi * count)


def _scale(rows: pd.DataFrame, axes: Sequence[str], basis: Basis) -> list[str]:
    """That a value is from below the published scale, for each subject of which it is."""
    axis, published = samework.subject_axis(axes), basis.published_scale
    if published is None or not axis:
        return []
    return [
        f"scale: {subject} at {basis.scales[subject]:.3g} of the published {published:g}"
        for subject in dict.fromkeys(rows[axis])
        if basis.scales.get(subject, math.inf) < published
    ]
