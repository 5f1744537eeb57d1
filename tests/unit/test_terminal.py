"""What a run says at its end: the answers in at most ten lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcsbench.report.terminal import AT_MOST, Found, lines, read, typed

FASTER = "faster"


def case(better: str, worse: str, ratio: float, where: str, call: str = FASTER) -> dict[str, Any]:
    numbers = {"ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.1}
    return {"better": better, "worse": worse, "where": where, "call": call, **numbers}


def card(ask: str, answer: str, said: str, *cases: Any, gain: str = "") -> dict[str, Any]:
    texts = {"ask": ask, "answer": answer, "said": said, "gain": gain}
    return {**texts, "parts": [], "costs": [], "do": [], "cases": list(cases)}


def advice(*cards: dict[str, Any]) -> dict[str, Any]:
    return {"given": [], "recommendations": [], "cards": list(cards)}


ACCOUNT: dict[str, Any] = {
    "tables": {
        "f6-vs-f7": {"comparisons": 10, "different": 4, "alike": 3},
        "nopack-vs-pack": {"comparisons": 2, "different": 1, "alike": 0},
    },
    "min_effect_pct": 10,
    "minutes": 15,
    "why": "",
    "twins_sd": 0.0,
    "studies": 1,
    "spent_s": {"preparation": 60, "measuring": 600, "waiting": 1},
    "timed_s": 300,
    "blocks": [],
    "around_s": 40,
    "outlook": [
        {"seconds": 0, "left": {"f6-vs-f7": 3, "nopack-vs-pack": 1}},
        {"seconds": 900, "left": {"f6-vs-f7": 0, "nopack-vs-pack": 0}},
    ],
}
VERDICTS = ["reproduced", "reproduced", "differs", "inconclusive", "not measured"]


def test_each_question_has_a_line_with_its_answer_by_how_much_and_where() -> None:
    cases = [
        case("pack", "nopack", 2.0, "svn export cold"),
        case("pack", "nopack", 7.1, "svn log cold, f7"),
        case("pack", "nopack", 9.9, "file log hot-os", "too noisy to say"),
    ]
    packed = "pack is faster in 2 of 3 cases and slower in none."
    found = advice(
        card("Pack?", "yes", packed, *cases, gain="At the most 7.1 times."),
        card("Which caches?", "not measured", "Nothing compares two of them."),
        card("Which format?", "not measured", "Nothing compares two of them."),
        card("A build?", "again", "again: faster in 2 of 2.", case("again", "system", 2.0, "svn")),
    )
    mix = card("For your mix: 100 % log?", "f7", "Of 1 case.")
    found["cards"].append({**mix, "parts": ["f7, 0.2 s a command."]})
    said = lines([Found("fsfs-san-2014", found, ACCOUNT, VERDICTS)])
    assert said == [
        "Pack?                     yes: pack 7.10 times as fast as nopack "
        "(95 %: 6.39 to 7.81; svn log cold, f7); pack is faster in 2 of 3 cases and slower in none",
        "A build?                  again: faster in 2 of 2",
        "For your mix: 100 % log?  f7, 0.2 s a command",
        "Not measured              which caches; which format",
        "8 of 12 comparisons answered",
        "2 reproduced, 1 differs, 1 inconclusive, of 5 published findings",
        "Next: make report MINUTES=27: 15 min more would tell all of these at 10 %.",
    ]


def test_there_are_never_more_than_ten_lines() -> None:
    asked = [card(f"Question {number}?", "yes", "So.") for number in range(12)]
    said = lines([Found("one", advice(*asked), ACCOUNT, VERDICTS)])
    assert len(said) == AT_MOST and "6 other questions in the report" in said[6]
    assert (
        len(lines([Found(one["ask"], advice(one), ACCOUNT, VERDICTS) for one in asked])) == AT_MOST
    )


def test_what_to_type_next_is_the_command_that_began_the_run() -> None:
    given = {"REPO": "/srv/my repo", "STUDY": "", "ARGS": "--configfile mine.yaml", "HOME": "/root"}
    said = lines([Found("one", advice(), ACCOUNT, VERDICTS)], typed(given))
    command = "make report REPO='/srv/my repo' ARGS='--configfile mine.yaml' MINUTES=27"
    assert said[-1] == f"Next: {command}: 15 min more would tell all of these at 10 %."


def test_several_studies_have_a_line_each() -> None:
    said = lines([Found("one", advice(), ACCOUNT, VERDICTS), Found("second", advice(), {}, [])])
    assert said[0].startswith("one     8 of 12 comparisons answered; 2 reproduced")
    assert said[1] == "second  nothing was compared"


def test_it_reads_what_a_checkout_has(tmp_path: Path) -> None:
    for folder in ("advice", "budget", "findings"):
        (tmp_path / folder).mkdir()
    (tmp_path / "advice" / "one.json").write_text(json.dumps(advice()))
    (tmp_path / "findings" / "one.csv").write_text("id,verdict\nx,differs\n")
    (found,) = read(tmp_path)
    assert (found.study, found.verdicts, found.account) == ("one", ["differs"], {})
