"""What findings ask of a run's minutes: how many rounds each is from a verdict.

A finding that has a verdict is settled; any other wants its interval so narrow that it crosses no bound, if
its value stays where it is. It steers where rounds go as so many comparisons as it has pairs of cells; it
keeps no run going by itself, for what lies on a bound is never settled.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import pandas as pd

from vcsbench.compare.answers import Comparison, Terms
from vcsbench.compare.bounds import rounds_wanted
from vcsbench.compare.evaluation import Basis, evaluate
from vcsbench.compare.findings import rounds_of, without_statistic
from vcsbench.compare.noise import noise_of
from vcsbench.compare.selection import involved
from vcsbench.metrics import metric_of
from vcsbench.plan.passes import block_name

# A finding that has the rounds that it wants gets its verdict as often as not, for its value moves as well; a
# comparison does so with a quarter of them (allotment.chance).
TOLD_EARLIER = 4


def asked(
    findings: Iterable[Mapping[str, Any]],
    frame: pd.DataFrame,
    terms: Terms,
    by: Sequence[str] = (),
) -> list[Comparison]:
    """What the measured ones of a study's findings want, from a frame of the measurements."""
    axes, keys = [*terms.order], [*terms.order, *by]
    noise = cache(lambda metric: noise_of(frame, axes, terms.block, metric_of(metric)))
    basis = Basis(noise, {}, limits=terms.limits)
    reduced = cache(partial(rounds_of, frame, keys, by))
    found: list[Comparison] = []
    for finding in findings:
        statistic, plain = without_statistic(finding)
        found += _asked(plain, reduced(statistic), keys, basis, terms)
    return found


def _asked(
    finding: Mapping[str, Any],
    rounds: pd.DataFrame,
    keys: Sequence[str],
    basis: Basis,
    terms: Terms,
) -> Iterator[Comparison]:
    """As many as the finding has pairs, or cells, each of one block: blocks of one finding need not get their
    rounds together."""
    found = evaluate(finding, rounds, keys, basis).estimate
    if not found.n > 1 or math.isnan(found.error) or "to" in finding.get("compare", {}):
        return
    wanted = rounds_wanted(finding, found)
    if wanted > found.n:
        wanted *= TOLD_EARLIER
    cells = involved(finding, rounds, keys)[[*keys]].drop_duplicates()
    names = [block_name(terms.block, dict(zip(keys, row, strict=True))) for row in cells.to_numpy()]
    for block, number in Counter(names).items():
        one = Comparison("", frozenset([block]), "", found.n, max(terms.limits.min_rounds, wanted))
        yield from [one] * (number // 2 if "compare" in finding else number)
