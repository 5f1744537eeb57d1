"""Advice on made-up measurements: what is recommended, and what is not."""

import itertools
import json
import math
import re

import numpy as np
import pandas as pd
import pytest

from unit.synthetic import WORK
from vcsbench.advice.blocks import Comparison, Terms, called
from vcsbench.advice.cases import by_values, of_effects
from vcsbench.advice.recommend import advise
from vcsbench.advice.sentences import Sentences
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, Limits
from vcsbench.compare.noise import Noise
from vcsbench.compare.variances import Part
from vcsbench.metrics import metric_of
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


def terms(order, given=("command", "repo", "cache"), **others):
    """The terms of a study of which a reader could choose the access, too, where nothing else is said."""
    return Terms(order, given, ["command", "repo", "cache"], **others)


def advice_of(frame, caveats=None):
    return advise(frame, terms(ORDER, caveats=caveats or {}))


def only(frame, caveats=None):
    items = advice_of(frame, caveats)["recommendations"]
    assert len(items) == 1
    return items[0]


def effects_of(item, axis):
    return [effect for effect in item["effects"] if effect["axis"] == axis]


def effect_of(item, axis):
    (effect,) = effects_of(item, axis)
    return effect


def said_of(item, axis):
    (sentence,) = (s for s in item["sentences"] if s.startswith(f"{axis}: "))
    return sentence


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
    assert item["choices"] == [{"ra": "file", "format": "f7"}]
    assert item["choose"] == "f7 over file"
    assert item["best"]["axes"] == {"ra": "file", "format": "f7"}
    times = frame[frame["cell"] == "log/file/ruby/f7/slow/cold"]["elapsed_s"]
    assert item["best"]["median_s"] == times.median()
    assert item["runner_up"]["axes"] == {"ra": "svn", "format": "f7"}
    assert item["runner_up"]["comparison"]["ratio"] == pytest.approx(0.8 / 0.6, rel=0.01)
    assert item["slowest"]["axes"] == {"ra": "http", "format": "f6"}
    assert item["slowest"]["comparison"]["ratio"] == pytest.approx(1 / 0.3, rel=0.01)


def test_sentences_say_it():
    item = only(measured(factors(f7=0.5, svn=0.8, file=0.6), noise=0, **ONE))
    assert item["sentence"].startswith(
        "Fastest: f7 over file (median 0.300 s, all with config slow), 1.33 times (95 %: 1.33 to 1.33) "
        "as fast as the next, f7 over svn and 3.33 times (95 %: 3.33 to 3.33) as fast as the slowest, "
        "f6 over http."
    )
    assert said_of(item, "format") == (
        "format: f7 is 2.00 times (95 %: 2.00 to 2.00, the mean of 3 pairs) as fast as f6."
    )


def test_every_range_is_a_labelled_interval_and_none_is_that_of_five_rounds():
    advice = advice_of(measured(factors(f7=0.5, svn=0.8), noise=0.02))
    text = " ".join([*advice["summary"], *(i["sentence"] for i in advice["recommendations"])])
    ranges = re.findall(r"(\S+ \S+) \d+\.\d+ to \d", text)
    assert len(ranges) > 10 and set(ranges) == {"(95 %:"}
    item = advice["recommendations"][0]
    assert set(item["best"]) == {"axes", "median_s"}
    assert not {"smallest", "largest"} & set(item["runner_up"]["comparison"])


def test_axes_hold_the_others_equal():
    # 3 % of difference between the two are not worth noting: a mean of the pairs is told.
    def seconds(axes):
        return {"f6": 4.0, "f7": 2.0 if axes["ra"] == "svn" else 1.94}[axes["format"]]

    item = only(measured(seconds, noise=0.001, **{**ONE, "ra": ["svn", "file"]}))
    effect = effect_of(item, "format")
    assert (effect["better"], effect["worse"]) == ("f7", "f6")
    assert (effect["with"], effect["pairs"]) == ([{}], 2)
    found = effect["comparison"]
    assert found["ratio"] == pytest.approx(4 / math.sqrt(2 * 1.94), rel=0.01)
    assert found["low"] < found["ratio"] < found["high"]


def test_a_mean_hides_nothing():
    """What helps one format and hurts another is told of each; and so is what helps the one twice as much."""
    for f6, f7, better in ((1.25, 0.5, "slow"), (0.8, 0.4, "fast")):

        def seconds(axes, slower=f6, faster=f7):
            return {"f6": slower, "f7": faster}[axes["format"]] if axes["config"] == "fast" else 1.0

        item = only(measured(seconds, **{**ONE, "config": ["slow", "fast"]}, ra=["http"]))
        effects = {tuple(e["with"][0].values()): e for e in effects_of(item, "config")}
        assert {k: (e["better"], e["pairs"]) for k, e in effects.items()} == {
            ("f6",): (better, 1),
            ("f7",): ("fast", 1),
        }
        assert effects["f7",]["comparison"]["ratio"] == pytest.approx(1 / f7, rel=0.02)
        said = said_of(item, "config")
        assert "mean" not in said and re.search(r"fast is 2|and 2", said) and "with f6" in said
        assert item["choose"] == "f7, config fast"


def test_no_mean_is_told_over_what_a_reader_cannot_choose():
    """Packing in the place of format: it helps over svn and hurts over http."""

    def seconds(axes):
        return (
            1.0 if axes["format"] == "f6" else {"http": 1.25, "svn": 0.5, "file": 1.0}[axes["ra"]]
        )

    order = {**ORDER, **ONE}
    given = ["ra", "command", "repo", "cache"]
    advice = advise(measured(seconds, noise=0.002, **ONE), terms(order, given))
    assert advice["given"] == given
    items = advice["recommendations"]
    assert [(item["ra"], item["choose"]) for item in items] == [
        *[("http", "f6"), ("svn", "f7"), ("file", NOT_SHOWN)]
    ]
    assert items[0]["sentence"].startswith("Fastest: f6 (median ")
    assert items[1]["sentence"].startswith("Fastest: f7 (median 0.50")
    (summary,) = advice["summary"]
    assert re.fullmatch(
        r"format: f6 is faster than f7 for http \(1.2\d times\); f7 is faster than f6 for svn "
        r"\([12].\d\d times\); no difference shown for file\.",
        summary,
    )


def test_a_choice_and_what_is_said_of_its_axes_agree():
    """No `choose f7` beside `too noisy to tell f7 from f6`, nor the reverse."""
    seen = set()
    for seed in range(16):
        frame = measured(
            factors(f7=0.93, fast=0.9),
            noise=0.04,
            seed=seed,
            **{**ONE, "config": ["slow", "fast"]},
            ra=["svn"],
        )
        item = only(frame)
        chosen = [tuple(sorted(axes.items())) for axes in item["choices"]]
        for effect in item["effects"]:
            clear, everywhere = effect["comparison"]["call"] == "faster", effect["with"] == [{}]
            values = {dict(axes)[effect["axis"]] for axes in chosen}
            seen.add((clear, everywhere, len(values)))
            if everywhere and clear:
                assert values == {effect["better"]}
            if everywhere and not clear:
                assert values == {effect["better"], effect["worse"]}
    assert {(True, True, 1), (False, True, 2)} <= seen


def test_what_a_table_compares_is_called_as_it_is_there():
    frame = measured(factors(f7=0.8), noise=0.01, **ONE, ra=["svn"])
    (plain,) = advise(frame, terms(ORDER))["recommendations"]
    assert plain["choose"] == "f7"
    row = {"command": "log", "ra": "svn", "repo": "ruby", "config": "slow", "cache": "cold"}
    row |= {"baseline": "f6", "candidate": "f7", "call": TOO_NOISY}
    for sides in (("f6", "f7"), ("f7", "f6")):
        row |= dict(zip(("baseline", "candidate"), sides, strict=True))
        (item,) = advise(frame, terms(ORDER), [pd.DataFrame([row])])["recommendations"]
        assert (item["choose"], item["confident"]) == (TOO_NOISY, False)
    turned = pd.DataFrame([row | {"call": "slower"}])  # the candidate is f6
    (item,) = advise(frame, terms(ORDER), [turned])["recommendations"]
    assert item["choose"] == "f7"


def test_a_mean_of_what_tables_call_differently_is_not_told():
    """One of two is a difference there and the other is shown to be none: whoever has that one reads so."""
    frame = measured(
        lambda axes: {("f7", "fast"): 0.90, ("f7", "slow"): 0.97}.get(
            (axes["format"], axes["config"]), 1.0
        ),
        noise=0.002,
        **{**ONE, "config": ["slow", "fast"]},
        ra=["svn"],
    )
    (effect,) = effects_of(only(frame), "format")
    assert effect["pairs"] == 2 and effect["comparison"]["call"] == "faster"
    row = {"command": "log", "ra": "svn", "repo": "ruby", "cache": "cold"}
    row |= {"baseline": "f6", "candidate": "f7"}
    calls = {"slow": NOT_SHOWN, "fast": "faster"}
    table = pd.DataFrame([row | {"config": name, "call": call} for name, call in calls.items()])
    (item,) = advise(frame, terms(ORDER), [table])["recommendations"]
    told = {e["with"][0]["config"]: e["comparison"]["call"] for e in effects_of(item, "format")}
    assert told == calls


def test_what_was_measured_with_one_value_only_says_so_and_counts_nowhere_else():
    """The fast configuration was measured over svn alone."""
    frame = measured(
        lambda axes: 0.5 if axes["format"] == "f7" and axes["config"] == "fast" else 1.0,
        **{**ONE, "config": ["slow", "fast"]},
        ra=["http", "svn"],
    )
    frame = frame[(frame["config"] == "slow") | (frame["ra"] == "svn")]
    item = only(frame)
    seen = {e["comparison"]["call"]: e["with"] for e in effects_of(item, "format")}
    assert seen == {
        "faster": [{"ra": "svn", "config": "fast"}],
        NOT_SHOWN: [{"config": "slow"}],
    }
    assert {e["with"][0]["ra"] for e in effects_of(item, "config")} == {"svn"}
    cases = by_values(of_effects([item], "format", ["command", "repo", "cache"]), ["ra"])
    assert [case.call for case in cases["http",]] == [NOT_SHOWN]
    assert sorted(case.call for case in cases["svn",]) == ["faster", NOT_SHOWN]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (["f7 pack"], "f7 pack"),
        (["f7 pack", "f6 pack"], "pack; f7 or f6"),
        (["f7 pack", "f6 pack", "f8 pack"], "pack"),
        (["f7 pack", "f8 pack"], "pack; f7 or f8"),
        (["f7 pack", "f6 nopack"], "f7 pack or f6 nopack"),
        (["f7 pack", "f6 nopack", "f8 nopack", "f6 pack", "f8 pack"], "any but f7 nopack"),
    ],
)
def test_a_choice_of_several_in_words(chosen, said):
    points = {
        f"{f} {p}": {"format": f, "packing": p}
        for f in ("f6", "f7", "f8")
        for p in ("nopack", "pack")
    }
    others = [axes for name, axes in points.items() if name not in chosen]
    say = Sentences(metric_of("elapsed_s"))
    assert say.chosen([points[name] for name in chosen], others, []) == said


def test_drift_over_rounds_hides_no_difference():
    item = only(measured(factors(f7=0.9), drift=0.3, **ONE, ra=["svn"]))
    assert item["choice"] == {"format": "f7"}


def test_what_is_too_noisy_to_say_is_not_recommended():
    item = only(measured(factors(f7=0.98), noise=0.1, **ONE, ra=["svn"]))
    assert not item["confident"]
    assert item["choice"] == {}
    assert item["sentences"][0] == (
        "None of the 2 choices (all with svn, config slow) is told from the best."
    )
    assert said_of(item, "format") == "format: too noisy to tell f6 from f7."
    assert (item["choose"], len(item["choices"])) == (TOO_NOISY, 2)


def with_twins_that_differ(factor, f7):
    """A frame with next to no noise but that twins differ by `factor`."""
    frame = measured(factors(f7=f7), noise=0.002, **ONE, ra=["svn"])
    frame.loc[frame["cell"].str.endswith("~2"), "elapsed_s"] *= factor
    return frame


def test_what_twins_differ_by_is_a_part_of_the_error():
    # 3 % faster in each and every round, where identical cells differ by 5 %.
    item = only(with_twins_that_differ(1.05, 0.97))
    assert (item["confident"], item["choice"]) == (False, {})
    comparison = effect_of(item, "format")["comparison"]
    assert comparison["ratio"] > 1.02 and comparison["low"] < 1
    assert (comparison["call"], item["choose"]) == (TOO_NOISY, TOO_NOISY)
    # The same where they do not.
    assert only(with_twins_that_differ(1.0, 0.85))["choice"] == {"format": "f7"}


def test_what_is_worth_noting_decides_between_none_shown_and_noise():
    frame = measured(factors(), noise=0.02, **ONE, ra=["svn"])
    for notable, call in ((10, NOT_SHOWN), (1, TOO_NOISY)):
        (item,) = advise(frame, terms(ORDER, limits=Limits(min_effect_pct=notable)))[
            "recommendations"
        ]
        assert item["choose"] == call
    assert said_of(item, "format") == "format: too noisy to tell f6 from f7."


def test_without_twins_nothing_is_recommended():
    frame = measured(factors(f7=0.5), **ONE, ra=["svn"])
    item = only(frame[~frame["cell"].str.endswith("~2")])
    assert not item["confident"]
    assert item["sentences"][-1].endswith(
        "their noise is not known: set `duplicates` to 1 or more."
    )


def test_comparisons_of_a_block_are_one_family():
    # By itself it is significant at 0.4 %, but not among so many.
    def comparison(ratio, call=""):
        return Comparison(ratio, 0, 0, n=9, error=0.02, degrees=30, pairs=1, call=call)

    one, noise = comparison(1.07), Noise(twins=Part(0.0))
    for others, call in (
        ([], "faster"),
        ([comparison(1.0) for _ in range(30)], TOO_NOISY),
        ([comparison(1.0, NOT_SHOWN) for _ in range(30)], "faster"),  # called by tables
    ):
        made = called([one, *others], noise, terms(ORDER, limits=Limits(min_effect_pct=5)))
        assert made[0].call == call


def test_an_average_has_the_error_of_an_average():
    """Of pairs that are all too noisy by themselves, the mean tells what they have in common."""
    wide = {**ONE, "config": ["slow", "fast"]}
    found = {True: 0, False: 0}
    for seed in range(6):
        frame = measured(factors(fast=0.85), noise=0.06, seed=seed, **wide)
        effects = effects_of(only(frame), "config")
        for effect in effects:
            if effect["pairs"] > 1:
                found[effect["comparison"]["call"] == "faster"] += 1
    assert found[True] > found[False]


def test_rounds_that_agree_are_not_enough():
    # Faster in every round, but mostly by next to nothing: the interval has 1 in it.
    frame = measured(factors(), noise=0, **ONE, ra=["svn"])
    frame.loc[frame["format"] == "f6", "elapsed_s"] = [1.001, 1.001, 1.001, 1.001, 1.5]
    item = only(frame)
    comparison = effect_of(item, "format")["comparison"]
    assert comparison["low"] < 1 < comparison["ratio"]
    assert not item["confident"]


def test_of_equals_all_are_the_choice():
    item = only(measured(factors(f7=0.5, http=1.5), noise=0.02, **ONE))
    assert item["choice"] == {"format": "f7"}
    assert {axes["ra"] for axes in item["choices"]} == {"svn", "file"}
    assert item["choose"] == "f7; svn or file" or item["choose"] == "f7; file or svn"
    assert re.search(r"Not told from it: f7 over (svn|file)\.", item["sentence"])
    said = said_of(item, "ra")
    assert "no difference shown between file and svn" in said and "as fast as http" in said


@pytest.mark.parametrize(("rounds", "says"), [(1, "Only 1 round was"), (4, "Only 4 rounds were")])
def test_nothing_is_recommended_on_few_rounds(rounds, says):
    item = only(measured(factors(f7=0.1), rounds=rounds, **ONE))
    assert (item["confident"], item["choice"]) == (False, {})
    assert item["sentence"].startswith(says)
    assert "effects" not in item and item["choose"] == "nothing recommended"


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
    assert item["sentences"][-1] == "Left out, for rounds are missing: f6 over file; f7 over file."


def test_runs_with_a_false_label_are_not_advised_upon():
    frame = measured(factors(f7=0.5), **ONE, ra=["svn"])
    frame.loc[frame["format"] == "f7", "flags"] = "cold-reads"
    assert only(frame)["sentence"] == "There was nothing to choose between."


def test_an_axis_that_does_not_apply_is_no_choice():
    frame = measured(factors(f7=0.5), **{**ONE, "command": ["dump"]}, ra=[""])
    item = only(frame)
    assert item["choice"] == {"format": "f7"}
    assert "ra" not in item["fixed"]
    assert item["sentence"].startswith("Fastest: f7 (median 0.")


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
    assert re.fullmatch(
        r"format: f7 is faster than f6 for log cold \([12]\.\d+ times\) and log hot-os \([12]\.\d+ times\); "
        r"no difference shown for export cold and export hot-os\.",
        sentence,
    )


def test_summary_of_many_says_how_many_and_names_the_most_and_the_least():
    say = Sentences(metric_of("elapsed_s"))
    found = {"better": "f7", "worse": "f6", "with": [{}], "pairs": 1}
    ratios = [1.5, 3.0, *[2.0] * 8]
    effects = [
        (f"place {n}", found | {"comparison": {"call": "faster", "ratio": ratio}})
        for n, ratio in enumerate(ratios)
    ]
    noisy = [(f"noisy {n}", found | {"comparison": {"call": TOO_NOISY}}) for n in range(6)]
    assert say.over_blocks("format", effects + noisy) == (
        "format: f7 is faster than f6 for 10, the most for place 1 (3.00 times), the least for place 0 "
        "(1.50 times); too noisy to say for 6 others."
    )
    assert say.over_blocks("format", noisy) == "format: too noisy to say for all 6."


def test_where_it_is_the_other_way_round_is_said():
    def seconds(axes):
        if axes["config"] == "slow":
            return 1.0
        return 1.5 if axes["ra"] == "file" else 0.4

    advice = advice_of(measured(seconds, **{**ONE, "config": ["slow", "fast"]}))
    (item,) = advice["recommendations"]
    effects = {e["better"]: e for e in effects_of(item, "config") if "file" in str(e["with"])}
    assert (effects["slow"]["with"], effects["slow"]["pairs"]) == ([{"ra": "file"}], 2)
    assert re.search(r"slow is 1\.\S+ times .* as fast as fast with file", said_of(item, "config"))
    assert "; slow is faster than fast for file (1.5" in advice["summary"][-1]

    def for_one_choice(axes):
        slower = (axes["config"], axes["ra"], axes["format"]) == ("fast", "file", "f7")
        return 1.5 if slower else 0.4 if axes["config"] == "fast" else 1.0

    frame = measured(for_one_choice, **{**ONE, "config": ["slow", "fast"]})
    assert "as fast as fast with f7 over file" in said_of(only(frame), "config")


def test_a_choice_of_some_blocks_only_is_not_called_everything():
    frame = measured(factors(fast=0.5), ra=["svn"], format=["f6"], config=["slow", "fast"])
    frame = frame[(frame["config"] == "slow") | (frame["command"] == "log")]
    (sentence,) = advice_of(frame)["summary"]
    assert sentence.startswith("config: fast is faster than slow for log cold (")
    assert "export" not in sentence


def test_repositories_are_told_apart():
    order = {**ORDER, "repo": ["ruby", "bsd"]}
    frame = measured(factors(f7=0.5), **{**ONE, "repo": ["ruby", "bsd"]}, ra=["svn"])
    frame.loc[frame["repo"] == "bsd", "elapsed_s"] = 1.0
    advice = advise(frame, terms(order))
    assert [(item["repo"], item["confident"]) for item in advice["recommendations"]] == [
        *[("ruby", True), ("bsd", False)]
    ]
    assert advice["summary"][0].startswith("format: f7 is faster than f6 for ruby (")


def test_it_is_plain_data(tmp_path):
    for rounds in (0, 1, 5):
        frame = measured(factors(f7=0.5), rounds=max(rounds, 1))
        json.dumps(advice_of(frame[frame["round"] <= rounds]), allow_nan=False)


def test_identical_choices_are_seldom_told_apart():
    wrong = 0
    for seed in range(40):
        frame = measured(factors(), noise=0.03, seed=seed, **ONE, ra=["svn"])
        wrong += only(frame)["confident"]
    assert wrong <= 2
