"""End the rounds of a simulated study (simulation.py): by the width of intervals, or by a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from vcsbench.config.study import TableDefinition
from vcsbench.metrics import DEFAULT_METRIC, METRICS
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


def stop_by_width(measured: LogTable, pairs: Pairs) -> LogTable:
    """Return a study without the rounds of a block after all of its intervals are narrow."""
    rounds = first_rounds(measured)
    going = set(rounds)
    for number in range(DEFAULT_LIMITS.min_rounds, measured.logs.shape[1]):
        wide = set()
        _, ratios = estimate_ratios(cut_rounds(measured, rounds), pairs)
        for (baseline, _), ratio in zip(pairs, ratios, strict=True):
            if math.log(ratio.high / ratio.low) > 2 * HALF_WIDTH:
                wide.add(measured.keys[baseline][0])
        # A block that has ended gets no more rounds, even if an interval becomes wide again.
        going &= wide
        rounds |= dict.fromkeys(going, number + 1)
        if not going:
            break
    return cut_rounds(measured, rounds)


def stop_by_minutes(measured: LogTable, pairs: Pairs) -> LogTable:
    """Return a study with the rounds that a run allocates, until all is decided or the time is up."""
    rounds = first_rounds(measured)
    remaining_s = ROUND_S * MORE_ROUNDS * len(rounds)
    while True:
        tables = {"f6-vs-f7": make_table(cut_rounds(measured, rounds), pairs)}
        comparisons = budget.list_comparisons(tables, TABLES, ["command"], DEFAULT_LIMITS)
        round_s = dict.fromkeys(rounds, ROUND_S)
        batch = budget.allocate_rounds(comparisons, round_s, remaining_s).rounds
        if not batch:
            break
        remaining_s -= ROUND_S * batch.total()
        rounds_after = {block: number + batch[block] for block, number in rounds.items()}
        # The simulated study has no more rounds.
        if max(rounds_after.values()) > measured.logs.shape[1]:
            break
        rounds = rounds_after
    return cut_rounds(measured, rounds)


def first_rounds(measured: LogTable) -> dict[str, int]:
    """Return the rounds of each block before the first decision."""
    return dict.fromkeys((key[0] for key in measured.keys), DEFAULT_LIMITS.min_rounds)


def cut_rounds(measured: LogTable, rounds: Mapping[str, int]) -> LogTable:
    """Return a study cut to the number of rounds of each block."""
    logs = measured.logs.copy()
    for row, key in zip(logs, measured.keys, strict=True):
        row[rounds[key[0]] :] = math.nan
    return replace(measured, logs=logs)


def estimate_ratios(measured: LogTable, pairs: Pairs) -> tuple[Noise, list[Estimate]]:
    """Return the noise, and the ratio of each pair with its error."""
    noise = estimate_noise(measured)
    ratios = []
    for baseline, candidate in pairs:
        ratio = ratio_interval(measured.logs[baseline] - measured.logs[candidate])
        cells = (measured.keys[baseline], measured.keys[candidate])
        ratios.append(noise.with_error(ratio, [cells]))
    return noise, ratios


def make_table(measured: LogTable, pairs: Pairs) -> pd.DataFrame:
    """Return the pairs as rows of a table, with their calls."""
    noise, ratios = estimate_ratios(measured, pairs)
    rows = {
        "command": [measured.keys[baseline][0] for baseline, _ in pairs],
        "baseline": "f6",
        "candidate": "f7",
        "ratio": [ratio.value for ratio in ratios],
        "n": [ratio.n for ratio in ratios],
        "error": [ratio.error for ratio in ratios],
        "degrees": [ratio.degrees for ratio in ratios],
        "duplicate_sd": float(np.sqrt(noise.duplicates.variance)),
        "withheld": "",
    }
    return add_calls(pd.DataFrame(rows), METRICS[DEFAULT_METRIC].calls, DEFAULT_LIMITS)
