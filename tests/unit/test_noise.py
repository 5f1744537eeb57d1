"""Noise of synthetic measurements with known variances."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from vcsbench.statistics.contract import Limits
from vcsbench.statistics.estimates import Estimate, Variance, ratio_interval
from vcsbench.statistics.noise import NO_NOISE, noise_of, run_scatter

AXES = ["command", "ra", "format", "cache"]
BLOCK = ["command", "cache"]


def frame_of(*pairs, command="log", flags=""):
    """Return measurements of cells f1, f2, ... and their duplicates, from lists of their times."""
    rows = []
    for number, both in enumerate(pairs, start=1):
        for suffix, times in zip(("", "~2"), both, strict=True):
            axes = {"command": command, "ra": "svn", "format": f"f{number}", "cache": "cold"}
            for round_, elapsed in enumerate(times, start=1):
                cell = "/".join(axes.values()) + suffix
                rows.append({"cell": cell, **axes, "round": round_, "elapsed_s": elapsed})
    return pd.DataFrame(rows).assign(user_s=0.1, system_s=0.1, host="here", flags=flags)


def made_up(formats=8, rounds=6, sd=0.05, twin_sd=0.0, interaction=0.0, seed=1, commands=4):
    """Return measurements of a number of formats by two accesses with duplicates.

    `interaction` is the scatter that all cells of a format share in a round."""
    random = np.random.default_rng(seed)
    rows = []
    for command in range(commands):
        drift = random.normal(0, 0.3, rounds)
        for number in range(formats):
            shared = random.normal(0, interaction, rounds)
            for ra in ("svn", "http"):
                for suffix in ("", "~2"):
                    axes = {"command": f"c{command}", "ra": ra, "format": f"f{number}"}
                    axes["cache"] = "cold"
                    own = random.normal(0, twin_sd / math.sqrt(2))
                    logs = own + drift + shared + random.normal(0, sd, rounds)
                    cell = "/".join(axes.values()) + suffix
                    rows += [
                        {"cell": cell, **axes, "round": i, "elapsed_s": math.exp(log)}
                        for i, log in enumerate(logs, start=1)
                    ]
    return pd.DataFrame(rows).assign(user_s=0.1, system_s=0.1, host="here", flags="")


def key(command="c0", ra="svn", number=0):
    return (command, ra, f"f{number}", "cold")


ONE = ([1.0, 1.1, 0.9, 1.0, 1.2], [1.05, 1.0, 1.0, 0.98, 1.1])
OWN = Estimate(1.2, 1.1, 1.3, 6, 0.04, 5)


def test_noise_cell_variance_is_moderated():
    noise = noise_of(made_up(), AXES, BLOCK)
    parts = [cell.variance for cell in noise.cells.values()]
    assert [part.variance**0.5 for part in parts] == pytest.approx([0.05] * 64, rel=0.3)
    assert min(part.degrees for part in parts) > 12
    assert len(noise.cells) == 64


def test_with_error_pair_uses_variances_of_cells():
    noise = noise_of(made_up(), AXES, BLOCK)
    pair = [(key(number=0), key(number=1))]
    judged = noise.with_error(OWN, pair)
    assert judged.value == pytest.approx(OWN.value)
    assert judged.error == pytest.approx(0.05 * math.sqrt(2 / 6), rel=0.25)
    assert judged.degrees > 20
    wild = noise.with_error(Estimate(1.2, 0.1, 9.0, 6, 0.4, 5), pair)
    assert (wild.low, wild.error) == (judged.low, judged.error)


def test_with_error_uses_own_rounds_of_two_blocks_and_of_exact_and_single_rounds():
    noise = noise_of(made_up(), AXES, BLOCK)
    blocks = [(key("c0"), key("c1"))]
    judged = noise.with_error(OWN, blocks)
    assert judged.error**2 == pytest.approx(OWN.error**2 + noise.duplicates.variance)
    assert NO_NOISE.with_error(OWN, blocks).error == pytest.approx(OWN.error)
    equal, pair = replace(noise, duplicates=Variance(0.0)), [(key(number=0), key(number=1))]
    exact = equal.with_error(ratio_interval([math.log(2)] * 5), pair)
    assert (exact.low, exact.high, exact.error) == (pytest.approx(2), pytest.approx(2), 0)
    one = equal.with_error(ratio_interval([math.log(2)]), pair)
    assert (one.value, math.isnan(one.error)) == (pytest.approx(2), True)


def mean_logs(frame, axis, first, second):
    logs = frame[~frame["cell"].str.endswith("~2") & (frame["command"] == "c0")]
    logs = np.log(logs.set_index(["ra", "format", "round"])["elapsed_s"]).unstack(axis)
    return (logs[first] - logs[second]).groupby("round").mean()


def test_with_error_shared_drift_does_not_average_out():
    frame = made_up(formats=4, interaction=0.15, rounds=8, commands=6)
    noise = noise_of(frame, AXES, BLOCK)
    assert noise.averages.variance * 2 > noise_of(made_up(), AXES, BLOCK).averages.variance
    pairs = [(key(ra=ra, number=0), key(ra=ra, number=1)) for ra in ("svn", "http")]
    logs = mean_logs(frame, "format", "f0", "f1")
    judged = noise.with_error(ratio_interval(logs, 2), pairs)
    independent = noise.with_error(OWN, [pairs[0]]).error * math.sqrt(6 / 8) / math.sqrt(2)
    assert judged.error > 1.15 * independent


def test_noise_duplicates_have_their_variance():
    assert noise_of(made_up(seed=3), AXES, BLOCK).duplicates.variance < 0.006**2
    found = [noise_of(made_up(twin_sd=0.1, seed=seed), AXES, BLOCK).duplicates for seed in range(6)]
    assert np.mean([part.variance for part in found]) == pytest.approx(0.01, rel=0.2)
    assert all(10 < part.degrees < 64 for part in found)


def test_noise_without_duplicates_is_unknown():
    frame = made_up()
    noise = noise_of(frame[~frame["cell"].str.endswith("~2")], AXES, BLOCK)
    assert not noise.has_duplicates
    once = noise_of(frame[frame["round"] == 1], AXES, BLOCK)
    assert not once.has_duplicates
    assert once.with_error(OWN, [(key(), key(number=1))]).error == pytest.approx(OWN.error)
    apart = frame_of(ONE)
    apart["host"] = np.where(apart["cell"].str.endswith("~2"), "here", "there")
    assert not noise_of(apart, AXES, BLOCK).has_duplicates


def test_noise_excludes_invalid_runs():
    frame = frame_of(ONE)
    wrong = frame.assign(elapsed_s=9.0, round=frame["round"] + 5, flags="cache-not-cold")
    duplicates = [noise_of(f, AXES, BLOCK).duplicates for f in (pd.concat([frame, wrong]), frame)]
    assert duplicates[0] == duplicates[1]


def frame(within, between, shared, runs, rounds=200):
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
def test_run_scatter_equals_known_scatter_without_drift(within, between, runs):
    found = run_scatter(frame(within, between, 0.2, runs), ["command"])
    assert found == pytest.approx(math.hypot(within, between), rel=0.05)


def test_run_scatter_excludes_invalid_runs_and_one_round_is_unknown():
    some = frame(0.05, 0.0, 0.0, 2, 20)
    wild = some.assign(elapsed_s=some["elapsed_s"] * 100 ** (some["round"] % 3), flags="restarted")
    assert run_scatter(pd.concat([some, wild]), ["command"]) == run_scatter(some, ["command"])
    assert math.isnan(run_scatter(frame(0.05, 0.05, 0.0, 1, 1), ["command"]))


@pytest.mark.parametrize(("scatter", "effect"), [(0.08, 15), (0.05, 10), (math.nan, 10)])
def test_limits_noisy_machine_raises_effect(scatter, effect):
    here = Limits().on_machine(scatter)
    assert (here.min_effect_pct, here.min_rounds) == (effect, Limits().min_rounds)
    assert Limits(min_effect_pct=30).on_machine(scatter).min_effect_pct == 30
