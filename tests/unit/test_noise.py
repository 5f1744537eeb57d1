"""The noise of made-up measurements whose variances are known."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from unit.synthetic import rows_frame
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.statistics import duplicates, moderation, variances
from vcsbench.statistics.estimates import Estimate, ratio_interval
from vcsbench.statistics.noise import noise_by_metric, run_scatter

AXES = ["command", "access", "format", "cache"]
BLOCK = ["command", "cache"]
# The standard deviation of a mean log difference by its rounds.
BY_ROUNDS = 0.03
OWN = Estimate(1.2, 1.1, 1.3, 6, 0.04, 5)


def excess_variance(excess, pairs=12, by_rounds=BY_ROUNDS):
    """Return the variance of pairs whose squares are `excess` times what their rounds explain."""
    of_rounds = np.full(pairs, by_rounds**2)
    measured = duplicates.DuplicatePairs(excess * of_rounds, of_rounds, np.full(pairs, 40.0))
    return duplicates.duplicate_variance(measured)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([(4.0, 10), (4.0, 10)], (8.0, 20.0)),
        # A small term that is known badly costs few degrees of freedom.
        ([(4.0, 10), (0.01, 1)], (4.01, 10.05)),
        # Nothing is known of a sum without terms but that it is 0.
        ([(0.0, 3)], (0.0, math.inf)),
    ],
)
def test_sum_variances_has_degrees_by_satterthwaite(terms, expected):
    total = variances.sum_variances(variances.Variance(*term) for term in terms)
    assert total == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_duplicate_variance_of_few_pairs_has_degrees_of_the_prior(pairs):
    # Without the prior, two pairs have 2 degrees, and a difference of 60 % is inconclusive.
    for excess in (0.0, 1.5, 3.0, 50.0):
        assert excess_variance(excess, pairs).degrees > 2.5


def test_duplicate_variance_grows_from_prior_to_moments():
    for excess in (0.0, 0.5, 1.0):
        assert excess_variance(excess).variance < duplicates.PRIOR_SCALE**2
    uncertain = [excess_variance(excess).variance for excess in (1.01, 1.2, 1.5, 1.8)]
    assert uncertain == sorted(uncertain) and uncertain[-1] < 0.7 * 0.8 * BY_ROUNDS**2
    assert excess_variance(4.0).variance == pytest.approx(3 * BY_ROUNDS**2)
    assert excess_variance(10.0, 1, 0.001).variance == pytest.approx(9 * 0.001**2)
    between = np.sqrt([excess_variance(x).variance for x in np.linspace(1.5, 3, 301)])
    assert np.diff(between).max() < 0.02 * between.max(), "no jump"


def test_moderate_excludes_outlier():
    alike = np.random.default_rng(4).chisquare(4, 60) / 4
    alone, _ = moderation.moderate(alike, np.full(60, 4.0))
    moderated, degrees = moderation.moderate(np.append(alike, 300.0), np.full(61, 4.0))
    assert (moderated[-1], degrees[-1]) == (300.0, 4.0)
    assert moderated[:-1] == pytest.approx(alone, rel=0.02)


def cell_rows(axes, times, suffix):
    """Return the measurements of a cell, from its times in rounds 1, 2, 3, ..."""
    cell = "/".join(axes.values()) + suffix
    return [{"cell": cell, **axes, "round": n, "elapsed_s": t} for n, t in enumerate(times, 1)]


def frame_of(times, times_of_duplicate):
    axes = {"command": "log", "access": "svn", "format": "f1", "cache": "cold"}
    return rows_frame([*cell_rows(axes, times, ""), *cell_rows(axes, times_of_duplicate, "~2")])


def made_up(formats=8, rounds=6, sd=0.05, duplicate_sd=0.0, shared_sd=0.0, seed=1, commands=4):
    """Return measurements of a number of formats by two accesses with duplicates.

    `shared_sd` is the scatter that all cells of a format share in a round."""
    random = np.random.default_rng(seed)
    rows = []
    for command in range(commands):
        drift = random.normal(0, 0.3, rounds)
        for number in range(formats):
            shared = random.normal(0, shared_sd, rounds)
            for access, suffix in product(("svn", "http"), ("", "~2")):
                axes = dict(zip(AXES, key(f"c{command}", access, number), strict=True))
                own = random.normal(0, duplicate_sd / math.sqrt(2))
                logs = own + drift + shared + random.normal(0, sd, rounds)
                rows += cell_rows(axes, np.exp(logs), suffix)
    return rows_frame(rows)


def key(command="c0", access="svn", number=0):
    return (command, access, f"f{number}", "cold")


def noise_of(frame):
    return noise_by_metric(frame, AXES, BLOCK)(DEFAULT_METRIC)


def test_noise_duplicates_have_their_variance():
    assert noise_of(made_up(seed=3)).duplicates.variance < 0.006**2
    parts = [noise_of(made_up(duplicate_sd=0.1, seed=seed)).duplicates for seed in range(6)]
    assert np.mean([part.variance for part in parts]) == pytest.approx(0.01, rel=0.2)
    assert all(10 < part.degrees < 64 for part in parts)


def test_with_error_of_pair_uses_variances_of_cells():
    noise, pair = noise_of(made_up()), [(key(), key(number=1))]
    narrow = noise.with_error(OWN, pair)
    wide = noise.with_error(Estimate(1.2, 0.1, 9.0, 6, 0.04, 5), pair)
    assert narrow.value == pytest.approx(1.2)
    assert narrow.error == pytest.approx(0.05 * math.sqrt(2 / 6), rel=0.25)
    assert narrow.degrees > 20
    assert (wide.low, wide.error) == (narrow.low, narrow.error)


def test_with_error_shared_drift_does_not_average_out():
    frame = made_up(formats=4, shared_sd=0.15, rounds=8, commands=6)
    noise = noise_of(frame)
    assert noise.averages_factor.variance * 2 > noise_of(made_up()).averages_factor.variance
    pairs = [(key(access=access), key(access=access, number=1)) for access in ("svn", "http")]
    of_command = frame[~frame["cell"].str.endswith("~2") & (frame["command"] == "c0")]
    times = of_command.set_index(["access", "format", "round"])["elapsed_s"]
    logs = np.log(times).unstack("format")
    of_rounds = (logs["f0"] - logs["f1"]).groupby("round").mean()
    average = noise.with_error(ratio_interval(of_rounds, 2), pairs)
    independent = noise.with_error(OWN, pairs[:1]).error * math.sqrt(6 / 8) / math.sqrt(2)
    assert average.error > 1.15 * independent


def test_with_error_of_two_blocks_or_one_round_uses_own_rounds():
    frame, pair = made_up(), [(key(), key(number=1))]
    noise, once = noise_of(frame), noise_of(frame[frame["round"] == 1])
    of_two_blocks = noise.with_error(OWN, [(key("c0"), key("c1"))])
    assert of_two_blocks.error**2 == pytest.approx(OWN.error**2 + noise.duplicates.variance)
    assert once.with_error(OWN, pair).error == pytest.approx(OWN.error)
    alone = noise_of(frame[~frame["cell"].str.endswith("~2")])
    assert not once.has_duplicates and not alone.has_duplicates


def test_noise_excludes_invalid_runs():
    frame = frame_of([1.0, 1.1, 0.9, 1.0, 1.2], [1.05, 1.0, 1.0, 0.98, 1.1])
    invalid = frame.assign(elapsed_s=9.0, round=frame["round"] + 5, flags="cache-not-cold")
    assert noise_of(pd.concat([frame, invalid])).duplicates == noise_of(frame).duplicates


@pytest.mark.parametrize("hosts", ["ab", "ba"])
def test_noise_of_several_hosts_is_pooled_within_them(hosts):
    times = {"a": [1.0, 1.1, 0.9, 1.2], "b": [8.0, 12.0]}
    frame = pd.concat(frame_of(times[host], times[host]).assign(host=host) for host in hosts)
    cell = noise_of(frame).cells["log", "svn", "f1", "cold"]
    squares = sum(np.var(np.log(of_host)) * len(of_host) for of_host in times.values())
    assert cell.variance_with_drift == pytest.approx((squares / 4, 4))


def runs_frame(within, between, shared, runs, rounds=200):
    """Return runs with known scatter: within cell-rounds, between them, and shared by a block."""
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


@pytest.mark.parametrize(("within", "between", "runs"), [(0.08, 0.04, 4), (0.0, 0.09, 1)])
def test_run_scatter_equals_known_scatter_without_drift(within, between, runs):
    scatter = run_scatter(runs_frame(within, between, 0.2, runs), ["command"])
    assert scatter == pytest.approx(math.hypot(within, between), rel=0.05)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_residual_squares_of_missing_rounds_exclude_drift(missing):
    rng = np.random.default_rng(4)
    drift = rng.normal(0, 0.5, 30) - 0.1 * np.arange(30)
    logs = rng.normal(0, 0.03, (24, 30)) + np.repeat([drift, -drift], 12, axis=0)
    logs[rng.random(logs.shape) < missing] = np.nan
    squares, degrees = variances.residual_squares(logs, np.repeat([0, 1], 12))
    assert math.sqrt(squares.sum() / degrees.sum()) == pytest.approx(0.03, rel=0.05)
    frame = runs_frame(0.0, 0.03, 0.5, 1)
    frame = frame[rng.random(len(frame)) >= missing]
    assert run_scatter(frame, ["command"]) == pytest.approx(0.03, rel=0.05)


def test_run_scatter_excludes_invalid_runs_and_one_round_is_unknown():
    frame = runs_frame(0.05, 0.0, 0.0, 2, 20)
    wild = frame["elapsed_s"] * 100 ** (frame["round"] % 3)
    invalid = frame.assign(elapsed_s=wild, flags="restarted")
    assert run_scatter(pd.concat([frame, invalid]), ["command"]) == run_scatter(frame, ["command"])
    assert math.isnan(run_scatter(runs_frame(0.05, 0.05, 0.0, 1, 1), ["command"]))
