"""Means, intervals, variances and their noise on known data, and the calls that follow from them."""

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from unit.synthetic import rows_frame
from vcsbench.codes import Call
from vcsbench.metrics import DEFAULT, METRICS
from vcsbench.statistics import calls, duplicates, estimates, moderation, variances
from vcsbench.statistics.comparisons import (
    DEFAULT_LIMITS,
    Limits,
    can_be_start_up,
    is_difference,
    result_of,
)
from vcsbench.statistics.noise import noise_by_metric, run_scatter

BY_ROUNDS = 0.03  # the standard deviation of a mean log difference by its rounds
PAIRS = 12


def estimate(excess, pairs=PAIRS, by_rounds=BY_ROUNDS):
    squares = np.full(pairs, excess * by_rounds**2)
    by_rounds = np.full(pairs, by_rounds**2)
    measured = duplicates.DuplicatePairs(squares, by_rounds, np.full(pairs, 40.0))
    return duplicates.duplicate_variance(measured)


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_duplicate_variance_few_pairs_have_degrees_of_the_prior(pairs):
    """Without the prior, two pairs have 2 degrees, and a difference of 60 % is inconclusive."""
    for excess in (0.0, 1.5, 3.0, 50.0):
        assert estimate(excess, pairs).degrees > 2.5


def test_duplicate_variance_grows_from_prior_to_moments():
    for excess in (0.0, 0.5, 1.0):
        assert estimate(excess).variance < duplicates.PRIOR_SCALE**2
    uncertain = [estimate(excess).variance for excess in (1.01, 1.2, 1.5, 1.8)]
    assert uncertain == sorted(uncertain) and uncertain[-1] < 0.7 * 0.8 * BY_ROUNDS**2
    assert estimate(4.0).variance == pytest.approx(3 * BY_ROUNDS**2)
    assert estimate(10.0, 1, 0.001).variance == pytest.approx(9 * 0.001**2)
    between = np.sqrt([estimate(x).variance for x in np.linspace(1.5, 3, 301)])
    assert np.diff(between).max() < 0.02 * between.max(), "no jump"


def test_moderated_outlier_is_excluded():
    alike = np.random.default_rng(4).chisquare(4, 60) / 4
    alone, _ = moderation.moderate(alike, np.full(60, 4.0))
    made, degrees = moderation.moderate(np.append(alike, 300.0), np.full(61, 4.0))
    assert (made[-1], degrees[-1]) == (300.0, 4.0)
    assert made[:-1] == pytest.approx(alone, rel=0.02)


WORDS = (Call.FASTER, Call.SLOWER)
# A single comparison with this mean has a p-value of ALPHA.
EDGE = stats.t.ppf(1 - calls.ALPHA / 2, 4) * 0.01 / math.sqrt(5)


def ratio_with(mean, spread=0.01, n=5):
    """Return log ratios with a given mean and standard deviation."""
    z = stats.zscore(np.arange(n, dtype=float), ddof=1) if n > 1 else np.zeros(n)
    return estimates.ratio_interval(mean + spread * z)


def call(mean, spread=0.01, n=5, has_duplicates=True, **limits):
    return calls.calls_of([ratio_with(mean, spread, n)], has_duplicates, WORDS, Limits(**limits))[0]


@pytest.mark.parametrize(
    ("mean", "options", "expected"),
    [
        (0.2, {}, "faster"),
        (-0.2, {}, "slower"),
        (0.0, {}, Call.EQUAL),
        (0.0, {"spread": 0.12}, Call.BOUNDED),
        (0.0, {"spread": 0.2}, Call.UNDECIDED),
        (0.2, {"n": 4}, "faster"),
        (0.2, {"n": 3}, "faster"),
        (0.2, {"n": 2}, Call.UNDECIDED),  # two rounds of one pair alone
        (0.2, {"n": 2, "spread": 1e-5}, "faster"),
        (0.2, {"n": 1}, Call.UNDECIDED),
        (0.2, {"has_duplicates": False}, Call.UNDECIDED),
        (0.03, {"spread": 0.001}, "faster"),
        (1.01 * EDGE, {}, "faster"),
        (0.99 * EDGE, {}, Call.EQUAL),
        (0.5, {"spread": 0.0}, "faster"),
        (0.0, {"spread": 0.0}, Call.EQUAL),
    ],
)
def test_calls_of_known_interval_has_call(mean, options, expected):
    assert call(mean, **options) == expected
    assert is_difference(expected) == (expected in WORDS)


@pytest.mark.parametrize("side", [1, -1])
def test_calls_of_equivalence_equals_two_one_sided_tests(side):
    """Compare with scipy: the nearer bound gives the p-value."""
    n, spread, bound = 8, 0.05, math.log(1.1)
    z = stats.zscore(np.arange(n, dtype=float), ddof=1)

    def chance(mean):
        return max(
            stats.ttest_1samp(mean + spread * z, -bound, alternative="greater").pvalue,
            stats.ttest_1samp(mean + spread * z, bound, alternative="less").pvalue,
        )

    means = np.linspace(0, 0.1, 200)
    most = max(mean for mean in means if chance(mean) <= calls.EQUIVALENCE_ALPHA)
    assert 0.01 < most < 0.09
    assert {call(side * mean, spread, n) for mean in means[means <= most]} == {Call.EQUAL}
    assert call(side * (most + 0.001), spread, n) != Call.EQUAL


def test_calls_of_holm_equals_textbook():
    """Compare 40 comparisons, 20 of them with a difference, with Holm's rule on scipy's p-values."""
    means = [*np.linspace(0.04, 0.14, 20), *[0.001] * 20]
    found = [ratio_with(mean, 0.02, 6) for mean in means]
    p = [2 * stats.t.sf(m / (0.02 / math.sqrt(6)), 5) for m in means]
    expected = []
    for rank, i in enumerate(np.argsort(p)):
        if p[i] > min(calls.ALPHA, calls.TABLE_ALPHA / (40 - rank)):
            break
        expected.append(i)
    by_bonferroni = [i for i in range(40) if p[i] <= calls.TABLE_ALPHA / 40]
    by_themselves = [i for i in range(40) if p[i] <= calls.ALPHA]
    assert 0 < len(by_bonferroni) < len(expected) < len(by_themselves) < 20
    called = calls.calls_of(found, True, WORDS, DEFAULT_LIMITS)
    assert [i for i, word in enumerate(called) if word == "faster"] == sorted(expected)


def test_calls_of_untested_rows_are_not_corrected_for():
    one, others = ratio_with(0.04), [ratio_with(0.0, n=1)] * 50 + [estimates.NO_ESTIMATE] * 50
    assert call(0.04) == calls.calls_of([one, *others], True, WORDS, DEFAULT_LIMITS)[0] == "faster"


@pytest.mark.parametrize(("withheld", "expected"), [("zero", {"", "faster"}), ("", {Call.EQUAL})])
def test_call_table_withheld_rows_have_no_call_and_are_not_corrected_for(withheld, expected):
    """The difference is significant alone, and not among 51 comparisons."""
    found = [ratio_with(0.03), *[ratio_with(0.0)] * 50]
    table = pd.DataFrame(found).rename(columns={"value": "ratio"})
    table = table.assign(flags="", withheld=["", *[withheld] * 50])
    table = table.assign(share_baseline=math.nan, share_candidate=math.nan)
    metric = METRICS[DEFAULT]
    called = calls.call_table(table, 0.0, metric, DEFAULT_LIMITS)
    assert {*called["call"]} == expected


AXES = ["command", "ra", "format", "cache"]
BLOCK = ["command", "cache"]


def cell_rows(axes, times, suffix):
    """Return the measurements of a cell, from its times in rounds 1, 2, 3, ..."""
    cell = "/".join(axes.values()) + suffix
    return [{"cell": cell, **axes, "round": n, "elapsed_s": t} for n, t in enumerate(times, 1)]


def frame_of(times, times_of_duplicate):
    axes = {"command": "log", "ra": "svn", "format": "f1", "cache": "cold"}
    return rows_frame([*cell_rows(axes, times, ""), *cell_rows(axes, times_of_duplicate, "~2")])


def made_up(formats=8, rounds=6, sd=0.05, twin_sd=0.0, interaction=0.0, seed=1, commands=4):
    """Return measurements of a number of formats by two accesses with duplicates.

    `interaction` is the scatter that all cells of a format share in a round."""
    random = np.random.default_rng(seed)
    rows = []
    for command in range(commands):
        drift = random.normal(0, 0.3, rounds)
        for number in range(formats):
            shared = random.normal(0, interaction, rounds)
            for ra, suffix in product(("svn", "http"), ("", "~2")):
                axes = dict(zip(AXES, key(f"c{command}", ra, number), strict=True))
                own = random.normal(0, twin_sd / math.sqrt(2))
                logs = own + drift + shared + random.normal(0, sd, rounds)
                rows += cell_rows(axes, np.exp(logs), suffix)
    return rows_frame(rows)


def key(command="c0", ra="svn", number=0):
    return (command, ra, f"f{number}", "cold")


ONE = ([1.0, 1.1, 0.9, 1.0, 1.2], [1.05, 1.0, 1.0, 0.98, 1.1])
OWN = estimates.Estimate(1.2, 1.1, 1.3, 6, 0.04, 5)


def noise_of(frame):
    return noise_by_metric(frame, AXES, BLOCK)(DEFAULT)


def test_noise_duplicates_have_their_variance():
    assert noise_of(made_up(seed=3)).duplicates.variance < 0.006**2
    found = [noise_of(made_up(twin_sd=0.1, seed=seed)).duplicates for seed in range(6)]
    assert np.mean([part.variance for part in found]) == pytest.approx(0.01, rel=0.2)
    assert all(10 < part.degrees < 64 for part in found)


def test_with_error_pair_uses_variances_of_cells():
    noise, pair = noise_of(made_up()), [(key(number=0), key(number=1))]
    judged, wild = (
        noise.with_error(estimates.Estimate(1.2, *of, 6, 0.04, 5), pair)
        for of in ((1.1, 1.3), (0.1, 9.0))
    )
    assert judged.value == pytest.approx(1.2)
    assert judged.error == pytest.approx(0.05 * math.sqrt(2 / 6), rel=0.25)
    assert judged.degrees > 20
    assert (wild.low, wild.error) == (judged.low, judged.error)


def test_with_error_shared_drift_does_not_average_out():
    frame = made_up(formats=4, interaction=0.15, rounds=8, commands=6)
    noise = noise_of(frame)
    assert noise.averages.variance * 2 > noise_of(made_up()).averages.variance
    pairs = [(key(ra=ra, number=0), key(ra=ra, number=1)) for ra in ("svn", "http")]
    of_one = frame[~frame["cell"].str.endswith("~2") & (frame["command"] == "c0")]
    logs = np.log(of_one.set_index(["ra", "format", "round"])["elapsed_s"]).unstack("format")
    of_rounds = (logs["f0"] - logs["f1"]).groupby("round").mean()
    judged = noise.with_error(estimates.ratio_interval(of_rounds, 2), pairs)
    own = estimates.Estimate(1.2, 1.1, 1.3, 6, 0.04, 5)
    independent = noise.with_error(own, pairs[:1]).error * math.sqrt(6 / 8) / math.sqrt(2)
    assert judged.error > 1.15 * independent


def test_with_error_of_two_blocks_or_one_round_uses_own_rounds():
    frame, pair = made_up(), [(key(), key(number=1))]
    noise, once = noise_of(frame), noise_of(frame[frame["round"] == 1])
    judged = noise.with_error(OWN, [(key("c0"), key("c1"))])
    assert judged.error**2 == pytest.approx(OWN.error**2 + noise.duplicates.variance)
    assert once.with_error(OWN, pair).error == pytest.approx(OWN.error)
    alone = noise_of(frame[~frame["cell"].str.endswith("~2")])
    assert not once.has_duplicates and not alone.has_duplicates


def test_noise_excludes_invalid_runs():
    runs_frame = frame_of(*ONE)
    wrong = runs_frame.assign(elapsed_s=9.0, round=runs_frame["round"] + 5, flags="cache-not-cold")
    with_invalid = noise_of(pd.concat([runs_frame, wrong]))
    assert with_invalid.duplicates == noise_of(runs_frame).duplicates


@pytest.mark.parametrize("hosts", ["ab", "ba"])
def test_noise_of_several_hosts_is_pooled_within_them(hosts):
    times = {"a": [1.0, 1.1, 0.9, 1.2], "b": [8.0, 12.0]}
    frame = pd.concat(frame_of(times[host], times[host]).assign(host=host) for host in hosts)
    cell = noise_of(frame).cells["log", "svn", "f1", "cold"]
    squares = sum(np.var(np.log(of)) * len(of) for of in times.values())
    assert cell.drifting == pytest.approx((squares / 4, 4))


def runs_frame(within, between, shared, runs, rounds=200):
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
    found = run_scatter(runs_frame(within, between, 0.2, runs), ["command"])
    assert found == pytest.approx(math.hypot(within, between), rel=0.05)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_scatter_of_missing_rounds_excludes_drift(missing):
    rng = np.random.default_rng(4)
    drift = rng.normal(0, 0.5, 30) - 0.1 * np.arange(30)
    logs = rng.normal(0, 0.03, (24, 30)) + np.repeat([drift, -drift], 12, axis=0)
    logs[rng.random(logs.shape) < missing] = np.nan
    squares, degrees = variances.residual_squares(logs, np.repeat([0, 1], 12))
    assert math.sqrt(squares.sum() / degrees.sum()) == pytest.approx(0.03, rel=0.05)
    frame = runs_frame(0.0, 0.03, 0.5, 1)
    some = frame[rng.random(len(frame)) >= missing]
    assert run_scatter(some, ["command"]) == pytest.approx(0.03, rel=0.05)


def test_run_scatter_excludes_invalid_runs_and_one_round_is_unknown():
    some = runs_frame(0.05, 0.0, 0.0, 2, 20)
    wild = some.assign(elapsed_s=some["elapsed_s"] * 100 ** (some["round"] % 3), flags="restarted")
    assert run_scatter(pd.concat([some, wild]), ["command"]) == run_scatter(some, ["command"])
    assert math.isnan(run_scatter(runs_frame(0.05, 0.05, 0.0, 1, 1), ["command"]))


@pytest.mark.parametrize(
    ("fast", "slow", "factor", "is_explained"),
    [
        # The published case: the fast side is mostly start-up, and 6.4x (4.8 to 8.7) is not.
        (0.66, 0.10, 4.8, False),
        (0.66, 0.10, 1.1, True),
        # Both sides are start-up.
        (0.8, 0.8, 3.0, True),
        (0.8, 0.8, 6.0, False),
        # Without much start-up every difference counts, and an unknown share explains all.
        (0.4, 0.4, 1.01, False),
        (math.nan, math.nan, 1.01, False),
        (0.66, math.nan, 9.0, True),
    ],
)
def test_can_be_start_up_only_if_no_difference_is_left_without_it(fast, slow, factor, is_explained):
    assert can_be_start_up(fast, slow, factor) == is_explained


def test_call_table_withholds_start_up_and_says_at_least():
    found = [ratio_with(math.log(6.4)), ratio_with(math.log(1.3)), ratio_with(-math.log(6.4))]
    table = pd.DataFrame(found).rename(columns={"value": "ratio"})
    table = table.assign(flags="", withheld="")
    table["share_baseline"], table["share_candidate"] = [0.1, 0.3, 0.66], [0.66, 0.66, 0.1]
    called = calls.call_table(table, 0.0, METRICS[DEFAULT], DEFAULT_LIMITS)
    assert called["call"].tolist() == ["faster", "too small", "slower"]
    assert called["result"].tolist() == ["different", "too small", "different"]
    assert called["flags"].tolist() == ["at-least", "", "at-least"]


@pytest.mark.parametrize(
    ("call", "ratio", "is_count", "result"),
    [
        (Call.FASTER, 1.09, False, "equal"),
        (Call.SLOWER, 1 / 1.09, False, "equal"),
        (Call.FASTER, 1.11, False, "different"),
        (Call.LESS, 1.05, True, "different"),
        (Call.BOUNDED, 1.09, False, "bounded"),
        ("", math.nan, False, None),
    ],
)
def test_result_of_difference_below_the_margin_is_equal(call, ratio, is_count, result):
    assert result_of(call, ratio, DEFAULT_LIMITS, is_count) == result
