"""A finding's value with its interval, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.against import HOSTS, Pair
from vcsbench.compare.intervals import CONFIDENCE, Estimate, mean_interval, ratio_interval
from vcsbench.evidence import flags, samework
from vcsbench.plan import twins

NOTHING = Estimate(math.nan, math.nan, math.nan, 0)
Finding = Mapping[str, Any]
Floor = Callable[[str, str, str], float]


def no_floor(_command: str, _cache: str, _ra: str) -> float:
    """The noise floor where none was measured: it widens nothing."""
    return 1.0


@dataclass(frozen=True)
class Basis:
    """What a verdict on measured numbers stands on beside them.

    `floor` gives the noise floor of a class of cells (command, cache, ra) as a ratio of 1 or more, NaN
    where it is not known.
    `scales` maps a repository to the scale that it was measured at, `published_scale` is that of
    the published numbers. `grid` has the study's cells (the axes and `skip`). `saved` maps the name
    of a baseline to its cells beside those of now.
    """

    floor: Floor = no_floor
    scales: Mapping[str, float] = field(default_factory=dict)
    published_scale: float | None = None
    grid: Sequence[Mapping[str, str]] = ()
    saved: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """A measured value with its interval, the verdict on it, and why."""

    estimate: Estimate = NOTHING
    verdict: str = "not measured"
    why: tuple[str, ...] = ()


def judge(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str], basis: Basis) -> Judged:
    """The verdict on the measured numbers, a frame of reduction.by_round."""
    if "to" in finding.get("compare", {}):
        return _judge_against(finding, basis)
    rows = involved(finding, rounds, axes)
    hosts = sorted(set(rows["host"]))
    if len(hosts) > 1:
        return Judged(verdict="inconclusive", why=(_refused(hosts),))
    rows, refused = comparable(finding, rows, axes)
    value = estimate(finding, rows, axes)
    if refused:
        return Judged(value, "inconclusive" if value.n else "not measured", refused)
    if not value.n:
        return Judged(why=(_why_nothing(finding, basis.grid),))
    word, why = verdict(finding, value, noise_floor(finding, rows, basis))
    return Judged(value, word, (*why, *_scale(rows, basis)))


def _refused(hosts: Sequence[str]) -> str:
    return f"hosts differ: measured on {', '.join(hosts)}, whose numbers are never divided by one another"


def _judge_against(finding: Finding, basis: Basis) -> Judged:
    """The verdict on a comparison with a saved baseline.

    Each cell has an unpaired ratio; the reduced value's interval is made of theirs. The least or the
    greatest of several is found among intervals that hold together (Bonferroni). Where a cell is not
    compared, nothing is said to hold.
    """
    name = finding["compare"]["to"]
    if name not in basis.saved:
        return Judged(
            why=(f"no baseline: there is no {name} of this study; make baseline NAME={name}",)
        )
    about = [pair for pair in basis.saved[name] if _matches(pair.axes, finding["where"])]
    if not about:
        return Judged(why=(_why_nothing(finding, basis.grid),))
    if hosts := sorted({host for pair in about if HOSTS in pair.withheld for host in pair.hosts}):
        return Judged(verdict="inconclusive", why=(_refused(hosts),))
    compared = [pair for pair in about if not pair.withheld]
    why = tuple(
        f"{flag}: {sum(flag in pair.withheld for pair in about)} of {len(about)} cells not compared"
        for flag in flags.joined(f for pair in about for f in pair.withheld).split()
    )
    if not compared:
        return Judged(verdict="inconclusive", why=why)
    value = _reduced(compared, finding["expect"]["over"])
    word, reasons = verdict(finding, value, _largest(pair.floor for pair in compared))
    if why and word == "reproduced":
        word = "inconclusive"
    return Judged(value, word, (*reasons, *why))


def _reduced(compared: Sequence[Pair], over: str) -> Estimate:
    level = CONFIDENCE if over == "median" else 1 - (1 - CONFIDENCE) / len(compared)
    ratios = [pair.ratio(level) for pair in compared]
    low_high = [[r.low for r in ratios], [r.high for r in ratios]]
    low, high = (float(pd.Series(side).agg(over, skipna=False)) for side in low_high)
    value = float(pd.Series([r.value for r in ratios]).agg(over))
    return Estimate(value, low, high, min(r.n for r in ratios))


def _why_nothing(finding: Finding, grid: Sequence[Mapping[str, str]]) -> str:
    """Why there is no value: the grid lacks cells, this machine cannot measure them, or no run counts."""
    compare = finding.get("compare") or {}
    sides = [str(compare[side]) for side in ("baseline", "candidate") if side in compare]
    wanted = [{compare["axis"]: side} for side in sides] or [{}]
    for side in wanted:
        where = {**finding["where"], **side}
        cells = [cell for cell in grid if _matches(cell, where)]
        said = ", ".join(f"{axis} {_written(value)}" for axis, value in where.items()) or "any"
        if not cells:
            return f"not in the grid: cells with {said}"
        if all(cell["skip"] for cell in cells):
            return f"skipped: {cells[0]['skip']}"
    return "no result: the cells failed, or no run of theirs was what its label says"


def _matches(cell: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    return all(cell[axis] in _values(wanted) for axis, wanted in where.items())


def _values(wanted: Any) -> list[str]:
    return [str(value) for value in (wanted if isinstance(wanted, list) else [wanted])]


def _written(wanted: Any) -> str:
    return " or ".join(_values(wanted))


def involved(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """The rows of the cells that a finding is about; where it compares, of those with a partner."""
    rows = _where(rounds, finding["where"])
    compare = finding.get("compare")
    if not compare:
        return rows
    others = [axis for axis in axes if axis != compare["axis"]]
    sides = [rows[rows[compare["axis"]] == str(compare[s])] for s in ("baseline", "candidate")]
    keys = [{tuple(row) for row in side[others].to_numpy()} for side in sides]
    both = pd.concat(sides)
    paired = [tuple(row) in keys[0] & keys[1] for row in both[others].to_numpy()]
    return both[pd.Series(paired, index=both.index, dtype=bool)]


def comparable(
    finding: Finding, rows: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The rows of the cells that did the same work as what they are compared with, and why each of
    the others was left out; `rows` as involved() has them."""
    compare = finding.get("compare") or {}
    keys = [axis for axis in axes if axis != compare.get("axis")]
    kept: list[pd.DataFrame] = []
    refused: dict[str, None] = {}
    for _, part in rows.groupby(keys, sort=False, dropna=False) if keys else [((), rows)]:
        names = part[compare["axis"]] if compare else pd.Series("", index=part.index)
        sides = dict(zip(names, part["work"], strict=True))
        command = str(part["command"].iloc[0]) if "command" in part else ""
        refusal = samework.refusal(command, sides)
        # A number that is compared with none needs but to be of one thing.
        if refusal and (compare or refusal.flag == samework.OTHER):
            refused[f"{refusal.flag.replace('-', ' ')}: {refusal.reason}"] = None
        else:
            kept.append(part)
    return (pd.concat(kept) if kept else rows.iloc[:0]), tuple(refused)


def estimate(finding: Finding, rounds: pd.DataFrame, axes: Sequence[str]) -> Estimate:
    """The finding's value with its interval, from a frame of reduction.by_round.

    Only rounds in which nothing is missing are counted, so that all reduce the same cells.
    """
    rows = _where(rounds, finding["where"])
    compare = finding.get("compare")
    if compare:
        values = _speedups(rows, compare, [axis for axis in axes if axis != compare["axis"]])
    elif finding["level"] in rows:
        values = rows.rename(columns={finding["level"]: "value"})[[*axes, "round", "value"]]
    else:
        return NOTHING
    values = values[values["value"].notna()]
    pairs = len({tuple(row) for row in values.drop(columns=["round", "value"]).to_numpy()})
    by_pair = values.groupby("round")["value"]
    reduced = by_pair.agg(finding["expect"]["over"])[by_pair.count() == pairs]
    if len(reduced) == 1:  # as it is, not through a logarithm and back
        return Estimate(float(reduced.iloc[0]), math.nan, math.nan, 1)
    return ratio_interval(np.log(reduced)) if compare else mean_interval(reduced)


def _where(rounds: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    for axis, wanted in where.items():
        rounds = rounds[rounds[axis].isin(_values(wanted))]
    return rounds


def _speedups(
    rows: pd.DataFrame, compare: Mapping[str, Any], others: Sequence[str]
) -> pd.DataFrame:
    """baseline / candidate of each pair of cells within a round and a host; above 1 the candidate
    is faster."""
    metric = compare.get("metric", "elapsed_s")
    keys = [*others, "host", "round"]
    sides = [
        rows[rows[compare["axis"]] == str(compare[side])][[*keys, metric]]
        for side in ("baseline", "candidate")
    ]
    pairs = sides[0].merge(sides[1], on=keys, suffixes=("_baseline", "_candidate"))
    pairs["value"] = pairs[f"{metric}_baseline"] / pairs[f"{metric}_candidate"]
    return pairs[[*others, "round", "value"]]


def noise_floor(finding: Finding, rows: pd.DataFrame, basis: Basis) -> float:
    """The largest noise floor of the classes of cells that a finding is about, for elapsed times."""
    compare = finding.get("compare") or {}
    if finding.get("level", compare.get("metric", "elapsed_s")) != "elapsed_s":
        return 1.0
    empty = pd.Series("", index=rows.index)
    columns = [rows.get(axis, empty) for axis in twins.CLASS_AXES]
    return _largest(basis.floor(*key) for key in set(zip(*columns, strict=True)))


def _largest(floors: Iterable[float]) -> float:
    """The largest of noise floors; NaN where one is not known."""
    found = list(floors)
    return math.nan if any(map(math.isnan, found)) else max(found, default=1.0)


def _scale(rows: pd.DataFrame, basis: Basis) -> list[str]:
    """That a value is from below the published scale, for each repository of which it is."""
    if basis.published_scale is None or "repo" not in rows:
        return []
    return [
        f"scale: {repo} at {basis.scales[repo]:.3g} of the published {basis.published_scale:g}"
        for repo in dict.fromkeys(rows["repo"])
        if basis.scales.get(repo, math.inf) < basis.published_scale
    ]


def expected(finding: Finding) -> str:
    """What the value must be, as people write it: `1.8 to 4.0`, `at least 4.5`, `at most 0.7`."""
    low, high = (finding["expect"].get(bound) for bound in ("at_least", "at_most"))
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def holds(finding: Finding, value: float) -> bool:
    """Whether a value is what the finding expects."""
    expect = finding["expect"]
    return bool(expect.get("at_least", -math.inf) <= value <= expect.get("at_most", math.inf))


def verdict(
    finding: Finding, measured: Estimate, floor: float = 1.0
) -> tuple[str, tuple[str, ...]]:
    """reproduced, differs, inconclusive or not measured; and why it is inconclusive.

    It is inconclusive with too few rounds, where the interval crosses a bound, and where it does so
    once it is widened by the noise floor.
    """
    if not measured.n:
        return "not measured", ()
    if measured.low_n:
        rounds = "1 round" if measured.n == 1 else f"{measured.n} rounds"
        return "inconclusive", (f"low n: {rounds}",)
    word = _side(finding, measured.low, measured.high)
    if not word:
        return "inconclusive", ("interval: it crosses a bound",)
    if math.isnan(floor):
        return word, ("noise unknown: no cell of its classes was measured twice",)
    if floor > 1:
        low, high = measured.low, measured.high * floor
        low = low / floor if low > 0 else low * floor
        if not _side(finding, low, high):
            said = f"noise: widened by the noise floor of {floor:.3g} the interval crosses a bound"
            return "inconclusive", (said,)
    return word, ()


def _side(finding: Finding, low: float, high: float) -> str:
    """Where an interval lies against the bounds; "" where it crosses one."""
    if holds(finding, low) and holds(finding, high):
        return "reproduced"
    expect = finding["expect"]
    below = high < expect.get("at_least", -math.inf)
    above = low > expect.get("at_most", math.inf)
    return "differs" if below or above else ""
