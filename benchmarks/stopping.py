"""When the rounds of a simulated study end (simulation.py): once all intervals of a block are narrow; or as a
run that has minutes ends them, by the workflow's own code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from vcsbench.compare import budget
from vcsbench.compare.answers import Terms, comparisons
from vcsbench.compare.decisions import USUAL
from vcsbench.compare.family import with_calls
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import Measured, Noise, learned
from vcsbench.evidence.spent import OfBlock, Spent
from vcsbench.metrics import DEFAULT, metric_of

HALF_WIDTH = 0.03
# A round of a block takes so long, as in a default run; so many are paid for beyond the first ones.
ROUND_S, MORE_ROUNDS = 20.0, 5
TERMS = Terms({"f6-vs-f7": {"compare": {"axis": "format"}}}, {}, ["command"], USUAL)
Pairs = Sequence[tuple[int, int]]


def by_width(measured: Measured, pairs: Pairs) -> Measured:
    """With rounds of a block left out once its intervals are narrow: the rule looks at nothing else."""
    rounds = first_rounds(measured)
    going = set(rounds)
    for number in range(USUAL.min_rounds, measured.logs.shape[1]):
        wide = set()
        for (one, _), found in zip(pairs, judged(so_far(measured, rounds), pairs)[1], strict=True):
            if math.log(found.high / found.low) > 2 * HALF_WIDTH:
                wide.add(measured.keys[one][0])
        going &= wide
        rounds |= dict.fromkeys(going, number + 1)
        if not going:
            break
    return so_far(measured, rounds)


def by_minutes(measured: Measured, pairs: Pairs) -> Measured:
    """With the rounds that a run's decisions give to each block, pass by pass, until all is settled or the
    time is up."""
    rounds = first_rounds(measured)
    left = ROUND_S * MORE_ROUNDS * len(rounds)
    while True:
        table = table_of(so_far(measured, rounds), pairs)
        spent = Spent(blocks={name: OfBlock(n, ROUND_S * n, 0.0) for name, n in rounds.items()})
        more, _ = budget.given(comparisons([table], TERMS), spent, left)
        left -= ROUND_S * more.total()
        most = measured.logs.shape[1]
        if not more or max(rounds[name] + more[name] for name in rounds) > most:
            return so_far(measured, rounds)
        rounds = {name: n + more[name] for name, n in rounds.items()}


def first_rounds(measured: Measured) -> dict[str, int]:
    """What each block has before anything is decided."""
    return dict.fromkeys((key[0] for key in measured.keys), USUAL.min_rounds)


def so_far(measured: Measured, rounds: Mapping[str, int]) -> Measured:
    """What is seen of a study when each block has so many rounds."""
    logs = measured.logs.copy()
    for row, key in zip(logs, measured.keys, strict=True):
        row[rounds[key[0]] :] = math.nan
    return replace(measured, logs=logs)


def judged(measured: Measured, pairs: Pairs) -> tuple[Noise, list[Estimate]]:
    """The noise, and each pair's ratio by it."""
    noise = learned(measured)
    own = [ratio_interval(measured.logs[one] - measured.logs[other]) for one, other in pairs]
    keys = [(measured.keys[one], measured.keys[other]) for one, other in pairs]
    return noise, [noise.judged(o, [key]) for o, key in zip(own, keys, strict=True)]


def table_of(measured: Measured, pairs: Pairs) -> pd.DataFrame:
    """The pairs as a table has them, with their calls."""
    noise, found = judged(measured, pairs)
    rows = {
        "command": [measured.keys[one][0] for one, _ in pairs],
        "baseline": "f6",
        "candidate": "f7",
        "ratio": [e.value for e in found],
        "n": [e.n for e in found],
        "error": [e.error for e in found],
        "degrees": [e.degrees for e in found],
        "twin_sd": float(np.sqrt(noise.twins.variance)),
    }
    return with_calls(pd.DataFrame(rows), metric_of(DEFAULT).calls, USUAL)
