"""A finding's value with its interval, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.against import HOSTS, ThenAndNow
from vcsbench.compare.bounds import INCONCLUSIVE, NOT_MEASURED, REPRODUCED, Finding, verdict_of
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.intervals import CONFIDENCE, Estimate, mean_interval, ratio_interval
from vcsbench.compare.noise import largest
from vcsbench.compare.reduction import paired
from vcsbench.compare.selection import (
    comparable,
    involved,
    keys_of,
    matches,
    only_some,
    sides_of,
    where,
    why_nothing,
)
from vcsbench.evidence import flags, samework
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import DEFAULT, name_in

NOTHING = mean_interval([])


@dataclass(frozen=True)
class Basis:
    """What a verdict on measured numbers stands on beside them.

    `floor` gives the noise floor of a cell, by its axes, as a ratio of 1 or more, NaN where it is not
    known; without one nothing is widened.
    `scales` maps a subject (a repository) to the scale that it was measured at, `published_scale` is that of
    the published numbers. `grid` has the study's cells (the axes and `skip`). `saved` maps the name
    of a baseline to its cells beside those of now.
    """

    floor: Callable[[Mapping[str, Any]], float] = lambda _cell: 1.0
    scales: Mapping[str, float] = field(default_factory=dict)
    published_scale: float | None = None
    grid: Sequence[Mapping[str, str]] = ()
    saved: Mapping[str, Sequence[ThenAndNow]] = field(default_factory=dict)
    limits: Limits = USUAL


@dataclass(frozen=True)
class Evaluation:
    """A measured value with its interval, the verdict on it, and why."""

    estimate: Estimate = NOTHING
    verdict: str = NOT_MEASURED
    why: tuple[str, ...] = ()


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
    hosts = sorted(set(rows["host"]))
    if len(hosts) > 1:
        return Evaluation(verdict=INCONCLUSIVE, why=(_refused(hosts),))
    rows, refused = comparable(finding, rows, axes)
    value = estimate(finding, rows, axes)
    known = rounds[rounds[metric].notna()]
    some = only_some(finding, known, rows, axes, basis.grid) if value.n else ()
    if refused:
        return Evaluation(value, INCONCLUSIVE if value.n else NOT_MEASURED, (*refused, *some))
    if not value.n:
        return Evaluation(why=(why_nothing(finding, basis.grid),))
    word, why = verdict_of(finding, value, _noise_floor(finding, rows, axes, basis), basis.limits)
    return Evaluation(value, word, (*why, *some, *_scale(rows, axes, basis)))


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
    floor = largest(both.floor for both in kept)
    word, reasons = verdict_of(finding, value, floor, basis.limits)
    return Evaluation(value, INCONCLUSIVE if why and word == REPRODUCED else word, (*reasons, *why))


def _reduced(kept: Sequence[ThenAndNow], over: str) -> Estimate:
    level = CONFIDENCE if over == "median" else 1 - (1 - CONFIDENCE) / len(kept)
    ratios = [both.ratio(level) for both in kept]
    low_high = [[r.low for r in ratios], [r.high for r in ratios]]
    low, high = (float(pd.Series(side).agg(over, skipna=False)) for side in low_high)
    value = float(pd.Series([r.value for r in ratios]).agg(over))
    return Estimate(value, low, high, min(r.n for r in ratios))


def estimate(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str]) -> Estimate:
    """The finding's value with its interval, from a frame of reduction.by_round.

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
    whole = of_rounds.count() == grouped(values, keys).ngroups
    reduced = of_rounds.agg(finding["expect"]["over"])[whole]
    if len(reduced) == 1:  # as it is, not through a logarithm and back
        return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
    return ratio_interval(np.log(reduced)) if compare else mean_interval(reduced)


def _noise_floor(finding: Finding, rows: pd.DataFrame, axes: Sequence[str], basis: Basis) -> float:
    """The largest noise floor of the cells that a finding is about: known for the default metric only."""
    if name_in(finding) != DEFAULT:
        return 1.0
    cells: list[dict[Any, Any]] = rows[list(axes)].drop_duplicates().to_dict("records")
    return largest(basis.floor(cell) for cell in cells)


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
