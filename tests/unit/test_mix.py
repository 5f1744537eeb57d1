"""A mix of commands: how it is read, and how it weighs the advice."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from unit.test_advice import ORDER, factors, measured, terms
from vcsbench.advice.mix import card_of, weighed
from vcsbench.advice.recommend import tell
from vcsbench.config.mix import check_mix, entries_of
from vcsbench.config.study import load_study
from vcsbench.errors import UserError

ROOT = Path(__file__).parents[2]
ONE = {"config": ["slow"], "ra": ["svn"], "cache": ["cold"]}


def entries(**weights: float) -> list[dict[str, Any]]:
    return [{"name": n, "weight": w, "where": {"command": n}} for n, w in weights.items()]


def groups(frame: Any, **weights: float) -> list[dict[str, Any]]:
    return weighed(tell(frame, terms(ORDER)).blocks, entries(**weights))


def contrary(axes: dict[str, str]) -> float:
    """f7 halves the log's second, and makes the export's two seconds three."""
    if axes["command"] == "log":
        return 0.5 if axes["format"] == "f7" else 1.0
    return 3.0 if axes["format"] == "f7" else 2.0


@pytest.mark.parametrize(
    ("log", "best", "seconds", "ratio"),
    [(90, "f7", 0.9 * 0.5 + 0.1 * 3, (0.9 + 0.2) / 0.75), (10, "f6", 0.1 + 0.9 * 2, 2.75 / 1.9)],
)
def test_the_weights_decide_and_the_expected_time_is_their_sum(
    log: float, best: str, seconds: float, ratio: float
) -> None:
    (found,) = groups(measured(contrary, **ONE), log=log, export=100 - log)
    assert found["choose"] == [{"format": best}] and found["missing"] == []
    assert math.isclose(found["seconds"], seconds, rel_tol=0.02)
    assert found["against"]["low"] < ratio < found["against"]["high"]
    assert math.isclose(found["against"]["ratio"], ratio, rel_tol=0.02)


def test_what_a_reader_cannot_choose_is_told_apart() -> None:
    found = groups(measured(contrary, **{**ONE, "cache": ["cold", "hot-os"]}), log=90, export=10)
    assert [one["where"] for one in found] == [{"cache": "cold"}, {"cache": "hot-os"}]


def test_what_was_never_measured_is_named_and_not_made_up() -> None:
    (found,) = groups(measured(contrary, **ONE), **{"log": 60, "update-1000": 40})
    assert found["missing"] == ["update-1000"] and found["measured"] == 60
    assert (
        "Never measured here: update-1000 (40 %); what is said is of the other 60 %"
        in found["sentence"]
    )
    assert math.isclose(found["seconds"], 0.5, rel_tol=0.02)  # of the log alone
    parts = entries(**{"log": 60, "update-1000": 40})
    assert "Of 1 a part of the mix was never measured." in card_of([found], parts).said


def test_a_mix_of_which_nothing_was_measured_is_not_told() -> None:
    parts = entries(checkout=100)
    found = card_of(groups(measured(contrary, **ONE), checkout=100), parts)
    assert found.answer == "not told" and found.said == "Nothing of it was measured here."


def test_few_rounds_and_noise_tell_nothing() -> None:
    (few,) = groups(measured(contrary, rounds=3, **ONE), log=90, export=10)
    assert not few["confident"] and "3 rounds" in few["sentence"]
    (noisy,) = groups(measured(lambda _: 1.0, noise=0.3, **ONE), log=90, export=10)
    assert not noisy["confident"] and "None of 2 choices is told" in noisy["sentence"]


def test_one_choice_in_all_cases_is_the_answer_and_else_it_depends() -> None:
    caches = {**ONE, "cache": ["cold", "hot-os"]}
    parts = entries(log=90, export=10)
    same = groups(measured(contrary, **caches), log=90, export=10)
    assert card_of(same, parts).answer == "f7"

    def turned(axes: dict[str, str]) -> float:
        seconds = factors(f7=0.5 if axes["cache"] == "cold" else 2.0)(axes)
        return float(seconds)

    assert (
        card_of(groups(measured(turned, **caches), log=90, export=10), parts).answer == "it depends"
    )


@pytest.mark.parametrize(
    ("mix", "says"),
    [
        ({"log": 90, "export": 20}, "the weights are 110 in all"),
        ({"log": 90, "lock": 10}, "no study measures the command lock; they measure"),
        ([{"weight": 100, "where": {"colour": "red"}}], "no study has an axis colour"),
        (
            [
                {"weight": 50, "where": {"command": "log"}},
                {"weight": 50, "where": {"cache": "cold"}},
            ],
            "the same axes",
        ),
        ([{"weight": 50, "where": {"command": "log"}}] * 2, "two parts are about the same cells"),
    ],
)
def test_a_mix_that_cannot_be_is_refused_in_a_sentence(mix: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        check_mix(mix, ROOT, "mine.yaml")
    assert str(refused.value).startswith("mine.yaml: `workload`: ")


def test_a_mix_is_read_for_the_axis_that_a_study_has_its_commands_on() -> None:
    san = load_study(ROOT / "config" / "studies" / "fsfs-san-2014.yaml")
    trees = load_study(ROOT / "config" / "studies" / "tree-building-2007.yaml")
    mix = {"log": 90, "update-1000": 10}
    check_mix(mix, ROOT, "mine.yaml")
    assert entries_of(mix, san)[0] == {"name": "log", "weight": 90.0, "where": {"command": "log"}}
    assert entries_of(mix, trees)[0]["where"] == {"strategy": "log"}
    assert entries_of([{"weight": 100, "where": {"ra": "svn"}}], trees) == []
