"""The machine's own noise, as single runs of a cell have it: known from data that has so much."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from vcsbench.statistics.contract import Limits
from vcsbench.statistics.noise import machine_limits, run_scatter


def frame(
    within: float, between: float, shared: float, runs: int, rounds: int = 200
) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for command, level in (("log", 1.0), ("export", 0.1)):
        drift = rng.normal(0, shared, rounds)
        for cell in range(6):
            for number in range(rounds):
                at = math.log(level * (1 + cell)) + drift[number] + rng.normal(0, between)
                for run in range(1, runs + 1):
                    elapsed = math.exp(at + rng.normal(0, within))
                    rows.append((f"{command}/{cell}", command, "h", number + 1, run, elapsed, ""))
    columns = ["cell", "command", "host", "round", "run", "elapsed_s", "flags"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("within", "between", "runs"), [(0.08, 0.04, 4), (0.0, 0.09, 1), (0.1, 0.0, 6)]
)
def test_it_is_what_runs_scatter_by_whatever_they_share(
    within: float, between: float, runs: int
) -> None:
    found = run_scatter(frame(within, between, 0.2, runs), ["command"])
    assert found == pytest.approx(math.hypot(within, between), rel=0.05)


def test_false_labels_do_not_count() -> None:
    some = frame(0.05, 0.0, 0.0, 2, 20)
    wild = some.assign(elapsed_s=some["elapsed_s"] * 100 ** (some["round"] % 3), flags="restarted")
    assert run_scatter(pd.concat([some, wild]), ["command"]) == run_scatter(some, ["command"])


def test_one_round_tells_nothing() -> None:
    assert math.isnan(run_scatter(frame(0.05, 0.05, 0.0, 1, 1), ["command"]))


@pytest.mark.parametrize(("within", "notable"), [(0.09, 15), (0.06, 10)])
def test_what_is_worth_noting_goes_by_it(within: float, notable: float) -> None:
    here = machine_limits(Limits(), frame(within, 0.0, 0.1, 4), ["command"])
    assert (here.min_effect_pct, here.min_rounds) == (notable, Limits().min_rounds)
    coarse = machine_limits(Limits(min_effect_pct=30), frame(within, 0.0, 0.1, 4), ["command"])
    assert coarse.min_effect_pct == 30
