"""Advice on made-up measurements: what is recommended, and what is not."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from unit.synthetic import WORK
from vcsbench.advice.blocks import Terms
from vcsbench.advice.recommend import advise
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, Limits
from vcsbench.plan.twins import class_of

ORDER = {
    "command": ["log", "export"],
    "ra": ["http", "svn", "file"],
    "repo": ["ruby"],
    "format": ["f6", "f7"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os"],
}
NOISE_CLASS = ["command", "cache", "ra"]
ONE = {"command": ["log"], "repo": ["ruby"], "cache": ["cold"], "config": ["slow"]}


def measured(seconds, rounds=5, noise=0.005, drift=0.0, seed=1, **values):
    """Measurements of all combinations of ORDER's values, or of `values`, that take `seconds` of
    their axes, times exp(N(0, noise)) and, in all cells alike, exp(-drift * round). The last cell of
    each class has a twin, with the same noise."""
    random = np.random.default_rng(seed)
    wanted = {**ORDER, **values}
    points = [
        dict(zip(wanted, point, strict=True)) for point in itertools.product(*wanted.values())
    ]
    cells = [("/".join(axes.values()), axes) for axes in points]
    last = {class_of(axes, NOISE_CLASS): (f"{cell}~2", axes) for cell, axes in cells}
    rows = []
    for number in range(1, rounds + 1):
        for cell, axes in [*cells, *last.values()]:
            elapsed = seconds(axes) * math.exp(random.normal(0, noise) - drift * number)
            rows.append({"cell": cell, **axes, "round": number, "elapsed_s": elapsed})
    return pd.DataFrame(rows).assign(user_s=0.1, system_s=0.1, host="here", flags="", work=WORK)


def factors(**known):
    """Seconds as a product: `factors(f7=0.5)` halves the time of what has a value f7."""
    return lambda axes: math.prod(
        known.get(value.replace("-", "_"), 1.0) for value in axes.values()
    )


def terms(order, **given):
    return Terms(order, ["command", "repo", "cache"], NOISE_CLASS, **given)


def advice_of(frame, caveats=None):
    return advise(frame, terms(ORDER, caveats=caveats or {}))


def only(frame, caveats=None):
    items = advice_of(frame, caveats)["recommendations"]
    assert len(items) == 1
    return items[0]


def effect_of(item, axis):
    return next(effect for effect in item["axes"] if effect["axis"] == axis)


def test_every_command_and_cache_state_has_its_advice():
    items = advice_of(measured(factors(f7=0.5)))["recommendations"]
    assert [(item["command"], item["cache"]) for item in items] == [
        *[("log", "cold"), ("log", "hot-os"), ("export", "cold"), ("export", "hot-os")]
    ]
    assert all(item["choice"] == {"format": "f7"} for item in items)
    # Also where the cells of a later cache state come first.
    backwards = measured(factors(f7=0.5)).iloc[::-1]
    again = advice_of(backwards)["recommendations"]
    assert [item["cache"] for item in again] == [item["cache"] for item in items]


def test_the_fastest_is_recommended_with_what_it_gains():
    frame = measured(factors(f7=0.5, svn=0.8, file=0.6), **ONE)
    item = only(frame)
    assert item["confident"]
    assert item["choice"] == {"ra": "file", "format": "f7"}
    assert item["fixed"] == {"config": "slow"}
    assert item["fastest"]["axes"] == {"ra": "file", "format": "f7"}
    assert item["fastest"]["median_s"] == pytest.approx(0.3, rel=0.01)
    assert item["runner_up"]["axes"] == {"ra": "svn", "format": "f7"}
    assert item["runner_up"]["comparison"]["ratio"] == pytest.approx(0.8 / 0.6, rel=0.01)
    assert item["slowest"]["axes"] == {"ra": "http", "format": "f6"}
    assert item["slowest"]["comparison"]["ratio"] == pytest.approx(1 / 0.3, rel=0.01)
    assert item["tied"] == []
    times = frame[frame["cell"] == "log/file/ruby/f7/slow/cold"]["elapsed_s"]
    assert (item["fastest"]["min_s"], item["fastest"]["max_s"]) == (times.min(), times.max())


def test_sentences_say_it():
    item = only(measured(factors(f7=0.5, svn=0.8, file=0.6), noise=0, **ONE))
    assert item["sentence"].startswith(
        "Fastest: file f7 (0.300 s, all with config slow), 1.33 times (1.33 to 1.33 over the rounds) "
        "as fast as the next, svn f7, and 3.33 times (3.33 to 3.33) as fast as the slowest, http f6."
    )
    assert "format: f7 is 2.00 times (2.00 to 2.00) as fast as f6." in item["sentences"]


def test_axes_hold_the_others_equal():
    # f7 helps twofold over svn and fourfold over file: the geometric mean of both.
    def seconds(axes):
        return {"f6": 4.0, "f7": 2.0 if axes["ra"] == "svn" else 1.0}[axes["format"]]

    item = only(measured(seconds, noise=0.001, **{**ONE, "ra": ["svn", "file"]}))
    (comparison,) = effect_of(item, "format")["comparisons"]
    assert (comparison["faster"], comparison["slower"]) == ("f7", "f6")
    assert comparison["ratio"] == pytest.approx(math.sqrt(8), rel=0.01)
    assert comparison["low"] < comparison["ratio"] < comparison["high"]
    assert comparison["smallest"] <= comparison["ratio"] <= comparison["largest"]


def test_drift_over_rounds_hides_no_difference():
    item = only(measured(factors(f7=0.9), drift=0.3, **ONE, ra=["svn"]))
    assert item["choice"] == {"format": "f7"}
    assert item["fastest"]["max_s"] > 2 * item["fastest"]["min_s"]


def test_what_is_too_noisy_to_say_is_not_recommended():
    item = only(measured(factors(f7=0.98), noise=0.05, **ONE, ra=["svn"]))
    assert not item["confident"]
    assert item["choice"] == {}
    assert item["sentences"][0] == (
        "Too noisy to tell f6 from f7, all with svn, config slow: nothing is recommended."
    )
    assert effect_of(item, "format")["sentence"] == "format: too noisy to tell f6 from f7."
    assert item["tied"] == [{"axes": {"format": "f7"}, "call": TOO_NOISY}]


def within_a_floor_of(floor, f7):
    """A frame without any noise but that twins differ by `floor`."""
    frame = measured(factors(f7=f7), noise=0, **ONE, ra=["svn"])
    frame.loc[frame["cell"].str.endswith("~2"), "elapsed_s"] *= floor
    return frame


def test_what_the_noise_floor_covers_is_not_recommended():
    # 3 % faster in each and every round, where identical cells differ by 5 %.
    item = only(within_a_floor_of(1.05, 0.97))
    assert (item["confident"], item["choice"]) == (False, {})
    (comparison,) = effect_of(item, "format")["comparisons"]
    assert comparison["low"] > 1.03
    assert comparison["noise_floor"] == pytest.approx(1.05)
    assert comparison["call"] == NOT_SHOWN
    assert item["sentences"][0].startswith("No difference shown between f7 and f6, all with svn")
    # The same where they differ by 2 %.
    assert only(within_a_floor_of(1.02, 0.97))["choice"] == {"format": "f7"}


def test_what_is_worth_noting_decides_between_none_shown_and_noise():
    frame = within_a_floor_of(1.05, 0.97)
    (item,) = advise(frame, terms(ORDER, limits=Limits(notable_pct=4)))["recommendations"]
    assert item["tied"] == [{"axes": {"format": "f6"}, "call": TOO_NOISY}]


def test_without_twins_nothing_is_recommended():
    frame = measured(factors(f7=0.5), **ONE, ra=["svn"])
    item = only(frame[~frame["cell"].str.endswith("~2")])
    assert not item["confident"]
    assert item["sentences"][-1].endswith(
        "to know the noise of the comparisons: set `twins` to 1 or more."
    )


def test_comparisons_of_a_block_are_one_family():
    # By itself each difference is significant at 1 %, but not among so many.
    def runner_up(formats):
        frame = measured(factors(), rounds=6, noise=0, **{**ONE, "ra": ["svn"], "format": formats})
        slower = frame["format"] != formats[0]
        frame.loc[slower & (frame["round"] % 2 == 0), "elapsed_s"] = 1.01
        frame.loc[slower & (frame["round"] % 2 == 1), "elapsed_s"] = 1.03
        (item,) = advise(frame, terms({**ORDER, "format": formats}))["recommendations"]
        return item["runner_up"]["comparison"]

    alone, among = runner_up(["f6", "f7"]), runner_up([f"f{i}" for i in range(10, 34)])
    assert (alone["low"], alone["noise_floor"]) == (among["low"], among["noise_floor"])
    assert (alone["call"], among["call"]) == ("faster", NOT_SHOWN)


def test_rounds_that_agree_are_not_enough():
    # Faster in every round, but mostly by next to nothing: the interval has 1 in it.
    frame = measured(factors(), noise=0, **ONE, ra=["svn"])
    frame.loc[frame["format"] == "f6", "elapsed_s"] = [1.001, 1.001, 1.001, 1.001, 1.5]
    item = only(frame)
    (comparison,) = effect_of(item, "format")["comparisons"]
    assert comparison["low"] < 1 < comparison["smallest"]
    assert not item["confident"]


def test_of_equals_only_what_they_have_in_common_is_recommended():
    item = only(measured(factors(f7=0.5, http=1.5), noise=0.02, **ONE))
    assert item["choice"] == {"format": "f7"}
    assert len(item["tied"]) == 1
    assert {item["fastest"]["axes"]["ra"], item["tied"][0]["axes"]["ra"]} == {"svn", "file"}
    effect = effect_of(item, "ra")
    assert sorted(effect["fastest"]) == ["file", "svn"]
    assert "no difference shown between" in effect["sentence"]
    assert "as fast as http" in effect["sentence"]


@pytest.mark.parametrize(("rounds", "says"), [(1, "Only 1 round was"), (4, "Only 4 rounds were")])
def test_nothing_is_recommended_on_few_rounds(rounds, says):
    item = only(measured(factors(f7=0.1), rounds=rounds, **ONE))
    assert (item["confident"], item["choice"]) == (False, {})
    assert item["sentence"].startswith(says)
    assert "axes" not in item


def test_a_single_choice_is_no_advice():
    item = only(measured(factors(), **{**ONE, "ra": ["svn"], "format": ["f6"]}))
    assert item["sentence"] == "There was nothing to choose between."


def test_several_machines_are_not_compared():
    frame = measured(factors(f7=0.5), **ONE)
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    item = only(frame)
    assert not item["confident"]
    assert "several machines (new, old)" in item["sentence"]


def test_a_choice_that_lacks_a_round_is_left_out_and_named():
    frame = measured(factors(f7=0.5, svn=0.8, file=0.1), **ONE)
    lacking = (frame["ra"] == "file") & (frame["round"] == 2)
    item = only(frame[~lacking])
    assert item["choice"] == {"ra": "svn", "format": "f7"}
    assert item["sentences"][-1] == "Left out, for rounds are missing: file f6; file f7."


def test_runs_with_a_false_label_are_not_advised_upon():
    frame = measured(factors(f7=0.5), **ONE, ra=["svn"])
    frame.loc[frame["format"] == "f7", "flags"] = "cold-reads"
    assert only(frame)["sentence"] == "There was nothing to choose between."


def test_an_axis_that_does_not_apply_is_no_choice():
    frame = measured(factors(f7=0.5), **{**ONE, "command": ["dump"]}, ra=[""])
    item = only(frame)
    assert item["choice"] == {"format": "f7"}
    assert "ra" not in item["fixed"]
    assert item["sentence"].startswith("Fastest: f7 (0.5")


def test_caveats_stand_under_their_command():
    frame = measured(factors(f7=0.5), **ONE)
    assert only(frame, {"log": "It does less."})["sentences"][-1] == "It does less."
    assert "It does less." not in only(frame, {"export": "It does less."})["sentence"]


def test_summary_has_a_sentence_per_axis():
    def seconds(axes):
        f7 = 0.5 if axes["command"] == "log" else 1.0
        return f7 if axes["format"] == "f7" else 1.0

    advice = advice_of(measured(seconds, noise=0.02, ra=["svn"], config=["slow"]))
    (sentence,) = advice["summary"]
    assert sentence.startswith("format: f7 is fastest for log (cold, hot-os), ")
    assert sentence.endswith("no difference shown for export (cold, hot-os).")
    everywhere = advice_of(measured(factors(f7=0.5), ra=["svn"], config=["slow"]))["summary"]
    assert everywhere[0].startswith("format: f7 is fastest for everything, ")


def test_where_it_is_the_other_way_round_is_said():
    def seconds(axes):
        if axes["config"] == "slow":
            return 1.0
        return 1.5 if axes["ra"] == "file" else 0.4

    advice = advice_of(measured(seconds, **{**ONE, "config": ["slow", "fast"]}))
    (item,) = advice["recommendations"]
    assert effect_of(item, "config")["comparisons"][0]["but_for"] == [{"ra": "file"}]
    assert "the next (but slower for file)." in advice["summary"][-1]
    assert effect_of(item, "config")["sentence"].endswith("as fast as slow (but slower for file).")

    def for_one_choice(axes):
        slower = (axes["config"], axes["ra"], axes["format"]) == ("fast", "file", "f7")
        return 1.5 if slower else 0.4 if axes["config"] == "fast" else 1.0

    frame = measured(for_one_choice, **{**ONE, "config": ["slow", "fast"]})
    assert "(but slower for file f7)" in effect_of(only(frame), "config")["sentence"]


def test_a_choice_of_some_blocks_only_is_not_called_everything():
    frame = measured(factors(fast=0.5), ra=["svn"], format=["f6"], config=["slow", "fast"])
    frame = frame[(frame["config"] == "slow") | (frame["command"] == "log")]
    (sentence,) = advice_of(frame)["summary"]
    assert sentence.startswith("config: fast is fastest for log (cold, hot-os), ")


def test_repositories_are_told_apart():
    order = {**ORDER, "repo": ["ruby", "bsd"]}
    frame = measured(factors(f7=0.5), **{**ONE, "repo": ["ruby", "bsd"]}, ra=["svn"])
    frame.loc[frame["repo"] == "bsd", "elapsed_s"] = 1.0
    advice = advise(frame, terms(order))
    assert [(item["repo"], item["confident"]) for item in advice["recommendations"]] == [
        *[("ruby", True), ("bsd", False)]
    ]
    assert "log of ruby (cold)" in advice["summary"][0]


def test_it_is_plain_data(tmp_path):
    for rounds in (0, 1, 5):
        frame = measured(factors(f7=0.5), rounds=max(rounds, 1))
        json.dumps(advice_of(frame[frame["round"] <= rounds]), allow_nan=False)


def test_identical_choices_are_seldom_told_apart():
    wrong = 0
    for seed in range(100):
        frame = measured(factors(), noise=0.03, seed=seed, **ONE, ra=["svn"])
        wrong += only(frame)["confident"]
    assert wrong <= 10
