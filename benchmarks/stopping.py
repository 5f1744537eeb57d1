"""End the rounds of a simulated study (simulation.py): by the width of intervals, or by a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from vcsbench.config.study import TableDefinition
from vcsbench.metrics import DEFAULT, METRICS
from vcsbench.statistics import budget
from vcsbench.statistics.calls import add_calls
from vcsbench.statistics.comparisons import DEFAULT_LIMITS
from vcsbench.statistics.estimates import Estimate, ratio_interval
from vcsbench.statistics.noise import LogTable, Noise, estimate_noise

HALF_WIDTH = 0.03
# Duration of a block's round, as in a default run, and rounds of each block that the budget pays for.
ROUND_S, MORE_ROUNDS = 20.0, 5
TABLES: dict[str, TableDefinition] = {
    "f6-vs-f7": {
        "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
        "rows": [],
        "columns": [],
    }
}
Pairs = Sequence[tuple[int, int]]


def by_width(measured: LogTable, pairs: Pairs) -> LogTable:
    """Return a study without the rounds of a block after all of its intervals are narrow."""
    rounds = first_rounds(measured)
    going = set(rounds)
    for number in range(DEFAULT_LIMITS.min_rounds, measured.logs.shape[1]):
        wide = set()
        for (one, _), found in zip(pairs, judged(so_far(measured, rounds), pairs)[1], strict=True):
            if math.log(found.high / found.low) > 2 * HALF_WIDTH:
                wide.add(measured.keys[one][0])
        going &= wide
        rounds |= dict.fromkeys(going, number + 1)
        if not going:
            break
    return so_far(measured, rounds)


def by_minutes(measured: LogTable, pairs: Pairs) -> LogTable:
    """Return a study with the rounds that a run allocates, until all is decided or the time is up."""
    rounds = first_rounds(measured)
    left = ROUND_S * MORE_ROUNDS * len(rounds)
    while True:
        tables = {"f6-vs-f7": table_of(so_far(measured, rounds), pairs)}
        comparisons = budget.list_comparisons(tables, TABLES, ["command"], DEFAULT_LIMITS)
        more = budget.allocate_rounds(comparisons, dict.fromkeys(rounds, ROUND_S), left)[0]
        left -= ROUND_S * more.total()
        most = measured.logs.shape[1]
        if not more or max(rounds[name] + more[name] for name in rounds) > most:
            return so_far(measured, rounds)
        rounds = {name: n + more[name] for name, n in rounds.items()}


def first_rounds(measured: LogTable) -> dict[str, int]:
    """Return the rounds of each block before the first decision."""
    return dict.fromkeys((key[0] for key in measured.keys), DEFAULT_LIMITS.min_rounds)


def so_far(measured: LogTable, rounds: Mapping[str, int]) -> LogTable:
    """Return a study cut to the number of rounds of each block."""
    logs = measured.logs.copy()
    for row, key in zip(logs, measured.keys, strict=True):
        row[rounds[key[0]] :] = math.nan
    return replace(measured, logs=logs)


def judged(measured: LogTable, pairs: Pairs) -> tuple[Noise, list[Estimate]]:
    """Return the noise, and the ratio of each pair with its error."""
    noise = estimate_noise(measured)
    own = [ratio_interval(measured.logs[one] - measured.logs[other]) for one, other in pairs]
    keys = [(measured.keys[one], measured.keys[other]) for one, other in pairs]
    return noise, [noise.with_error(o, [key]) for o, key in zip(own, keys, strict=True)]


def table_of(measured: LogTable, pairs: Pairs) -> pd.DataFrame:
    """Return the pairs as rows of a table, with their calls."""
    noise, found = judged(measured, pairs)
    rows = {
        "command": [measured.keys[one][0] for one, _ in pairs],
        "baseline": "f6",
        "candidate": "f7",
        "ratio": [e.value for e in found],
        "n": [e.n for e in found],
        "error": [e.error for e in found],
        "degrees": [e.degrees for e in found],
        "duplicate_sd": float(np.sqrt(noise.duplicates.variance)),
        "withheld": "",
    }
    return add_calls(pd.DataFrame(rows), METRICS[DEFAULT].calls, DEFAULT_LIMITS)
