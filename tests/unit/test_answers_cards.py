"""The cards: what is answered yes, no, or depends on what, and what is not."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from unit.test_advice import ORDER, factors, measured, terms
from vcsbench.advice.answers import Asked, cards
from vcsbench.advice.cards import Card, Question, Teller
from vcsbench.advice.cardtext import markdown_of
from vcsbench.advice.cases import Case, depends_on, of_table
from vcsbench.advice.overall import Rounds, over_all
from vcsbench.advice.recommend import tell
from vcsbench.axes.config import to_type
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY
from vcsbench.compare.tables import make_table
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.run import inputs

FASTER = "faster"
PACK = {
    "question": "Pack?",
    "yes_value": "pack",
    "actions": {"pack": {"command": "svnadmin pack", "note": "In place."}},
}


def case(better: str, worse: str, ratio: float, call: str = FASTER, **where: str) -> Case:
    found = {axis: (value,) for axis, value in where.items()}
    return Case(better, worse, ratio, ratio / 1.1, ratio * 1.1, call, found)


def card(*cases: Case, given: dict[str, Any] | None = None) -> Card:
    return Teller(Question("packing", PACK if given is None else given), cases).card()


def answered(
    frame: Any, asked: Asked, given: Any = ("command", "repo", "cache"), **tables: Any
) -> Any:
    on = terms(ORDER, given)
    made = {n: make_table(frame, n, d, ORDER, on.block) for n, d in tables.items()}
    rows = [(d, made[n].to_dict("records")) for n, d in tables.items()]
    return cards(tell(frame, on), on, rows, asked)


def compare(axis: str, baseline: str, candidate: str) -> dict[str, Any]:
    sides = {"axis": axis, "baseline": baseline, "candidates": [candidate]}
    return {"compare": sides, "rows": [], "columns": []}


def test_what_is_better_somewhere_and_worse_nowhere_is_the_answer_with_the_most_and_the_least() -> (
    None
):
    found = card(
        case("pack", "nopack", 5.7, ra="svn", cache="cold"),
        case("pack", "nopack", 1.2, ra="http", cache="cold"),
        case("pack", "nopack", 1.01, NOT_SHOWN, ra="svn", cache="hot-os"),
    )
    assert (found.kind, found.answer) == ("yes", "yes")
    assert found.said == "pack is faster in 2 of 3 cases and slower in none."
    assert "5.70 times as fast as nopack (95 %: 5.18 to 6.27): cold over svn;" in found.gain
    assert "; the least of these 2: 1.20 times" in found.gain and "cold over http." in found.gain
    assert found.costs == ["No difference of 10 % shown: hot-os over svn."]
    assert found.do == [{"value": "pack", "command": "svnadmin pack", "note": "In place."}]


def test_what_a_plain_answer_gains_is_told_for_each_access_where_the_question_says_so() -> None:
    cases = [
        case("pack", "nopack", 5.7, ra="file", cache="cold"),
        case("pack", "nopack", 1.5, ra="svn", cache="cold"),
        case("pack", "nopack", 1.2, ra="svn", cache="hot-os"),
        case("pack", "nopack", 1.01, NOT_SHOWN, ra="http", cache="hot-os"),
    ]
    assert card(*cases).parts == []
    assert card(*cases, given={**PACK, "per_axis": "ra"}).parts == [
        "file: pack, 5.70 times as fast",
        "svn: pack in 2 of 2 cases, 1.20 times as fast in the least of them, 1.50 in the most",
    ]


def test_no_is_the_answer_where_the_other_value_is_better() -> None:
    assert card(case("nopack", "pack", 1.5)).answer == "no"
    assert card(case("nopack", "pack", 1.5), given={}).answer == "nopack"


def test_what_is_worse_somewhere_depends_on_the_fewest_axes_that_part_it() -> None:
    found = card(
        case("pack", "nopack", 3.0, ra="svn", cache="cold"),
        case("pack", "nopack", 2.0, ra="http", cache="cold"),
        case("nopack", "pack", 1.3, ra="svn", cache="hot-os"),
    )
    assert (found.kind, found.answer) == ("it depends", "it depends on cache")
    assert found.parts == [
        "cold: pack in 2 of 2 cases, 2.00 times as fast in the least of them, 3.00 in the most",
        "hot-os: nopack, 1.30 times as fast",
    ]
    assert "nopack is faster: hot-os over svn (1.30 times)." in found.costs
    assert found.said == "Of 3 cases pack is faster in 2 and nopack in 1."


@pytest.mark.parametrize(
    ("won", "told", "cases", "answer"),
    [
        (4, 5, 5, "mostly pack"),
        (3, 4, 4, "it depends on cache"),
        (4, 5, 9, "it depends on cache"),
    ],
)
def test_what_is_better_nearly_everywhere_is_mostly_so(
    won: int, told: int, cases: int, answer: str
) -> None:
    """Of `cases` so many are told, and so many of these won by pack."""
    clear = [case("pack", "nopack", 2.0, cache=f"c{n}") for n in range(won)]
    other = [case("nopack", "pack", 1.3, cache=f"o{n}") for n in range(told - won)]
    noisy = [case("pack", "nopack", 1.05, TOO_NOISY, cache=f"n{n}") for n in range(cases - told)]
    found = card(*clear, *other, *noisy)
    assert (found.kind, found.answer) == ("it depends", answer)
    assert "nopack is faster: o0 (1.30 times)." in found.costs


def test_access_that_disagrees_is_told_apart() -> None:
    ways = case("pack", "nopack", 3.0, ra="svn"), case("nopack", "pack", 2.0, ra="http")
    assert card(*ways).answer == "it depends on the access"


def test_a_case_that_is_about_all_values_of_an_axis_is_not_parted_by_it() -> None:
    everywhere = case("f7", "f6", 1.2, cache="hot-os")
    one = case("f6", "f7", 1.1, cache="cold", packing="nopack")
    assert depends_on([everywhere, one], ["packing", "cache"]) == ("cache",)
    assert depends_on([replace(everywhere, where={}), one], ["packing", "cache"]) == ()


def test_what_few_cases_tell_is_not_called_an_answer_to_all() -> None:
    others = [case("pack", "nopack", 1.05, TOO_NOISY, ra=ra) for ra in ("http", "file")]
    found = card(case("pack", "nopack", 2.0, ra="svn"), *others)
    assert found.answer == "it depends" and found.said.startswith("Only in some cases: ")
    assert found.costs == ["Not told, for runs scatter too much: http; file."]


def test_what_is_best_elsewhere_is_no_answer_where_it_was_not_measured() -> None:
    found = card(
        case("slow", "fast", 1.2, command="log"),
        case("fast", "medium", 3.0, command="export"),
        given={},
    )
    assert found.answer == "it depends on command"
    assert found.parts == ["log: slow, 1.20 times as fast", "export: fast, 3.00 times as fast"]
    assert found.gain.startswith("slow: at the most 1.20 times as fast as fast")


def test_what_is_best_of_three_wins_where_it_was_compared() -> None:
    found = card(
        case("f8", "f7", 1.2, command="log"),
        case("f8", "f6", 1.5, command="log"),
        case("f7", "f6", 1.3, command="log"),
        given={},
    )
    assert (found.answer, found.said) == (
        "f8",
        "f8 is faster in 2 of 3 cases and slower in none.",
    )
    assert "the least of these 2: 1.20 times" in found.gain


def test_several_values_at_one_place_are_told_apart() -> None:
    untold = [case(new, "f6", 1.02, TOO_NOISY, ra="svn") for new in ("f7", "f8")]
    found = card(case("f8", "f6", 2.0, ra="http"), *untold)
    assert found.costs == ["Not told, for runs scatter too much: svn (f7 or f6); svn (f8 or f6)."]


@pytest.mark.parametrize(
    ("call", "answer"), [(NOT_SHOWN, "no difference"), (TOO_NOISY, "not told")]
)
def test_nothing_clear_is_no_answer(call: str, answer: str) -> None:
    found = card(
        case("pack", "nopack", 1.02, call, ra="svn"),
        case("nopack", "pack", 1.01, NOT_SHOWN, ra="http"),
    )
    assert (found.answer, found.gain, found.do) == (answer, "", [])


def test_what_was_never_compared_is_not_measured() -> None:
    frame = measured(factors(f7=0.5), format=["f6", "f7"], config=["slow"])
    (of_format, of_config, *_) = answered(
        frame, Asked({"format": {"question": "F?"}, "config": {"question": "C?"}})
    )
    assert (of_format["ask"], of_format["answer"]) == ("F?", "f7")
    assert of_config["answer"] == "not measured" and not of_config["cases"]


def test_too_few_rounds_say_so() -> None:
    frame = measured(factors(f7=0.5), rounds=3)
    (found, *_) = answered(frame, Asked({"format": {"question": "F?"}}))
    assert found["answer"] == "not told" and "3 rounds" in found["said"]


@pytest.mark.parametrize("question", [{"aggregate": True}, {"vs_baseline": True}, {}])
def test_one_round_tells_nothing_and_is_no_fault(question: dict[str, Any]) -> None:
    frame = measured(factors(f7=0.5), rounds=1)
    tables = {"a": compare("format", "f6", "f7")}
    (found, *_) = answered(frame, Asked({"format": {"question": "F?", **question}}), **tables)
    assert found["answer"] == "not told" and not found["cases"]
    json.dumps(found, allow_nan=False)


def test_each_axis_that_was_compared_has_a_card_without_being_asked() -> None:
    found = answered(measured(factors(f7=0.5)), Asked({"config": {"question": "C?"}}))
    assert [one["axis"] for one in found] == ["config", "ra", "format"]


def test_what_is_plain_comes_before_what_depends_and_what_is_not_told() -> None:
    def seconds(cell: dict[str, str]) -> float:
        first, second = (0.5, 1.0) if cell["config"] == "fast" else (1.0, 0.5)
        return (first if cell["format"] == "f7" else second) * (0.5 if cell["ra"] == "svn" else 1)

    asked = {axis: {"question": "?"} for axis in ("packing", "format", "ra")}
    found = answered(measured(seconds), Asked(asked))
    told = [(one["axis"], one["answer"]) for one in found][:3]
    assert told == [
        ("ra", "svn"),
        ("format", "it depends on config"),
        ("packing", "not measured"),
    ]


def test_what_is_given_is_answered_by_the_table_that_compares_it() -> None:
    frame = measured(factors(svn=0.5))
    given = ("ra", "command", "repo", "cache")
    asked = Asked({"ra": {"question": "http or svn?", "values": ["http", "svn"]}})
    tables = {"a": compare("ra", "http", "svn"), "b": compare("ra", "http", "file")}
    (found, *_) = answered(frame, asked, given, **tables)
    assert found["answer"] == "svn" and len(found["cases"]) == 16
    assert {one["worse"] for one in found["cases"]} == {"http"}


def test_what_there_is_already_is_what_others_are_compared_with() -> None:
    frame = measured(factors(svn=0.5, file=0.25))
    tables = {"a": compare("ra", "http", "svn"), "b": compare("ra", "http", "file")}
    with_best, against = (
        answered(frame, Asked({"ra": {"question": "Another?", "vs_baseline": only}}), **tables)[0]
        for only in (False, True)
    )
    assert {one["worse"] for one in against["cases"]} == {"http"}
    assert {one["worse"] for one in with_best["cases"]} == {"http", "svn"}


def test_what_is_decided_for_all_cells_is_one_sentence_with_the_error_of_an_average() -> None:
    def seconds(axes: dict[str, str]) -> float:
        return 0.5 if (axes["format"], axes["command"]) == ("f7", "log") else 1.0

    frame = measured(seconds, noise=0.02, rounds=8)
    asked = Asked({"format": {"question": "Faster?", "aggregate": True}})
    (found, *_) = answered(frame, asked, a=compare("format", "f6", "f7"))
    said = re.fullmatch(
        r"f7: faster in 12 of 24, slower in none, no difference shown in 12; (.*) times as fast as f6 in the "
        r"geometric mean \(95 %: (.*) to (.*)\)\.",
        found["said"],
    )
    assert said, found["said"]
    mean, low, high = map(float, said.groups())
    assert abs(mean - 2**0.5) < 0.02 and low <= mean <= high
    narrowest = min(one["high"] / one["low"] for one in found["cases"])
    assert 1 < high / low < narrowest
    assert found["answer"] == "f7"


def test_an_overall_mean_of_nothing_but_noise_holds_one_and_is_no_answer() -> None:
    frame = measured(lambda _: 1.0, noise=0.05, rounds=8)
    asked = Asked({"format": {"question": "Faster?", "aggregate": True}})
    (found, *_) = answered(frame, asked, a=compare("format", "f6", "f7"))
    low, high = map(float, re.findall(r"95 %: (.*) to (.*)\)", found["said"])[0])
    assert low < 1 < high and found["answer"] in ("not told", "no difference")


def test_the_error_of_an_overall_mean_is_what_it_scatters_by() -> None:
    on, definition = terms(ORDER), compare("format", "f6", "f7")
    squares = []
    for seed in range(30):
        frame = measured(lambda _: 1.0, noise=0.05, rounds=6, seed=seed, config=["slow"])
        rows = make_table(frame, "a", definition, ORDER, on.block).to_dict("records")
        told = tell(frame, on)
        found = over_all(rows, Rounds(told.rounds, ORDER, on.block, told.noise), "format")
        assert found.pairs == len(rows) == 12
        squares.append((math.log(found.value) / found.error) ** 2)
    assert 0.5 < sum(squares) / len(squares) < 1.8


def test_markdown_keeps_text_text_and_code_code() -> None:
    said = card(case("pack", "nopack", 2.0, repo="a|b*")).as_data()
    said["do"] = [{"value": "pack", "command": "svnadmin pack REPO", "note": "`upgrade` does_not."}]
    text = markdown_of("A *study*", [said])
    assert text.startswith("## A \\*study\\*\n\n**Pack?** yes\n")
    assert "pack: `svnadmin pack REPO` `upgrade` does\\_not." in text


def test_what_to_type_for_a_server_configuration_is_what_was_measured() -> None:
    root = Path(__file__).parents[2]
    assert to_type(root, "slow") == "svnserve --threads. httpd as it is"
    assert to_type(root, "medium") == (
        "svnserve --threads --memory-cache-size 256. httpd SVNInMemoryCacheSize 262144"
    )


@pytest.mark.parametrize("study", ["own-repository", "fsfs-san-2014"])
def test_what_to_type_is_known_of_some_server_configurations_as_of_all(study: str) -> None:
    root = Path(__file__).parents[2]
    here: Any = SimpleNamespace(root=root, servers=["default", "tuned"])
    typed = inputs.typed_of(SimpleNamespace(study=study), here)["config"]
    assert list(typed) == ["default", "tuned"] and "--cache-revprops yes" in typed["tuned"]
    assert inputs.typed_of(SimpleNamespace(study="tree-building-2007"), here) == {}


def test_too_few_rounds_are_not_called_scatter() -> None:
    of_few = replace(case("pack", "nopack", 1.3, TOO_NOISY, ra="http"), rounds=4)
    scattered = replace(case("pack", "nopack", 1.3, TOO_NOISY, ra="file"), rounds=5)
    found = card(case("pack", "nopack", 2.0, ra="svn"), of_few, scattered)
    assert found.costs == [
        "Not told, for runs scatter too much: file.",
        "Not told, for fewer than 5 rounds were measured: http.",
    ]
    alone = card(of_few)
    assert alone.answer == "not told"
    assert alone.said == (
        "Fewer than 5 rounds were measured in the one case; none shows which is faster."
    )


@pytest.mark.parametrize(("rounds", "said"), [(4, "fewer than 5 rounds"), (6, "scatter")])
def test_the_rounds_of_a_table_reach_its_card(rounds: int, said: str) -> None:
    noisy = {"svn": 1.1, "http": 1.0}
    row = {"candidate": "svn", "baseline": "http", "ratio": noisy["svn"], "low": 0.9, "high": 1.3}
    cases = of_table([{**row, "n": rounds, "call": TOO_NOISY}], [], metric_of(DEFAULT).words, ())
    assert said in Teller(Question("ra"), cases).card().said.lower()


def test_what_is_not_measured_says_how_to_measure_it() -> None:
    given = {
        "question": "C?",
        "how_to_measure": {"command": "make report REPO=X", "note": "Measures it."},
    }
    (found,) = Teller(Question("config", given), []).card().do
    assert found == {
        "value": "To measure it",
        "command": "make report REPO=X",
        "note": "Measures it.",
    }
    (silent,) = Teller(Question("config"), []).card().do
    assert "`config`" in silent["note"] and not silent["command"]
    assert Teller(Question("config", given), []).card("Only 3 rounds were measured.").do == []
