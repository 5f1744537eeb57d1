"""The best choice in each situation, over everything that was measured there, and choices with less work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from vcsbench.advice.cases import MOSTLY_FIXED, Row, Table
from vcsbench.advice.labels import factors
from vcsbench.evidence import same_work
from vcsbench.metrics import DEFAULT, metric_in, metric_of
from vcsbench.statistics.contract import NOT_SHOWN, Limits, is_difference
from vcsbench.statistics.intervals import ratio_interval
from vcsbench.statistics.multiple_testing import calls_of
from vcsbench.statistics.noise import Noise
from vcsbench.words import is_number

Choice = tuple[str, ...]


@dataclass(frozen=True)
class Situation:
    """The choices of cells that share the axes a reader cannot choose.

    `best` has the values of the best choice by axis, `seconds` its geometric mean, `gain` its factor over
    the slowest choice, `equal` the choices that are not called slower than it. `why_not` is the reason for
    no answer, `other_work` the choices that did other work.
    """

    where: Mapping[str, str]
    best: Mapping[str, str]
    seconds: float
    gain: float
    equal: Sequence[Mapping[str, str]]
    choices: int
    why_not: str = ""
    other_work: Sequence[Mapping[str, Any]] = ()


def situations(
    rounds: pd.DataFrame,
    axes: Sequence[str],
    scenario_axes: Sequence[str],
    noise: Noise,
    limits: Limits,
) -> list[Situation]:
    """Return the situations of a study from its cells by round (reduction.by_round).

    Comparisons with the best choice of a situation are one family (compare.family).
    """
    given = [axis for axis in scenario_axes if axis in axes]
    found = []
    parts = rounds.groupby(given, sort=False) if given else [((), rounds)]
    for keys, rows in parts:
        where = dict(zip(given, map(str, keys), strict=True))
        found.append(_situation(where, rows, axes, noise, limits))
    return found


def _situation(
    where: Mapping[str, str], rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    choosing = [a for a in axes if a not in where and rows[a].nunique() > 1]
    logs: dict[Choice, dict[Any, float]] = {}
    cells: dict[Choice, Choice] = {}
    works: dict[Choice, str] = {}
    for row in rows.to_dict("records"):
        if same_work.is_apart(row["work"]):
            continue
        choice = tuple(str(row[axis]) for axis in choosing)
        logs.setdefault(choice, {})[row["round"]] = math.log(row[DEFAULT])
        cells[choice] = tuple(str(row[axis]) for axis in axes)
        works[choice] = row["work"]
    same = same_work.majority(works)
    other_work = [
        {"axes": _named(choosing, choice), "reason": _why_other(choice, works, same)}
        for choice in logs
        if choice not in same
    ]
    counts = max((len(of) for of in logs.values()), default=0)
    whole = {c: of for c, of in logs.items() if c in same and len(of) == counts}
    why_not = _why_not(rows, counts, len(whole), limits)
    nothing = Situation(where, {}, math.nan, math.nan, (), len(whole), why_not, other_work)
    if why_not:
        return nothing
    means = {c: math.fsum(of.values()) / len(of) for c, of in whole.items()}
    best, *others = sorted(means, key=lambda choice: (means[choice], choice))
    ratios = [
        noise.with_error(
            ratio_interval(
                [whole[other][n] - whole[best][n] for n in whole[best] if n in whole[other]]
            ),
            [(cells[best], cells[other])],
        )
        for other in others
    ]
    words = metric_of(DEFAULT).words
    calls = calls_of(ratios, noise.has_duplicates, words[:2], limits)
    tied = [
        _named(choosing, o) for o, call in zip(others, calls, strict=True) if call != words.better
    ]
    return Situation(
        where,
        _named(choosing, best),
        math.exp(means[best]),
        ratios[-1].value if calls[-1] == words.better else math.nan,
        tied,
        len(whole),
        "",
        other_work,
    )


def _named(axes: Sequence[str], choice: Choice) -> dict[str, str]:
    return {axis: value for axis, value in zip(axes, choice, strict=True) if value}


def _why_not(rows: pd.DataFrame, rounds: int, choices: int, limits: Limits) -> str:
    hosts = sorted(set(rows["host"]))
    if len(hosts) > 1:
        return f"measured on several machines ({', '.join(hosts)})"
    if rounds < limits.min_rounds:
        return f"only {rounds} of at least {limits.min_rounds} rounds measured"
    return "" if choices > 1 else "one choice only"


def _why_other(choice: Choice, works: Mapping[Choice, str], same: set[Choice]) -> str:
    refusal = same_work.refusal("", {"": works[choice]})
    if refusal:
        return refusal.reason
    known = [c for c in same or works if not same_work.refusal("", {"": works[c]})]
    return same_work.difference(
        works[choice], next(works[c] for c in known if works[c] != works[choice])
    )


def less_work(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per table of an exact metric and candidate that needs less or more work."""
    found = []
    for definition, rows in tables:
        metric, baseline = metric_in(definition), definition["compare"]["baseline"]
        for candidate in dict.fromkeys(str(row["candidate"]) for row in rows):
            known = [r for r in rows if str(r["candidate"]) == candidate and _is_known(r)]
            less = [r["ratio"] for r in known if r["ratio"] >= 1 + min_effect_pct / 100]
            more = [1 / r["ratio"] for r in known if 1 / r["ratio"] >= 1 + min_effect_pct / 100]
            for who, other, ratios in ((candidate, baseline, less), (baseline, candidate, more)):
                if ratios:
                    size = metric.fewer.format(factors(ratios))
                    found.append(
                        f"{who} {size} than {other} in {len(ratios)} of {len(known)} cases."
                    )
    return found


def _is_known(row: Row) -> bool:
    call, share = row.get("call") or "", row.get("fixed_share")
    if is_number(share) and share > MOSTLY_FIXED:
        return False
    return is_number(row.get("ratio")) and (call == NOT_SHOWN or is_difference(call))
