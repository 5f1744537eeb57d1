"""What the report says of the time: what it answered, what it went to, and what more of it would answer."""

from __future__ import annotations

from typing import Any

from unit.report_files import default_study
from vcsbench.compare.answers import Comparison
from vcsbench.compare.budget import account
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, USUAL
from vcsbench.evidence.spent import OfBlock, Spent
from vcsbench.report.bought import bought
from vcsbench.report.page import build_page
from vcsbench.report.results import Results


def one(call: str, wanted: float, within: float = 2.0) -> Comparison:
    return Comparison("f6-vs-f7", frozenset(["log/cold"]), call, 5, wanted, within)


def told(*comparisons: Comparison, scatter: float = 0.05, **more: Any) -> dict[str, Any]:
    """What the rule `account` writes of comparisons in a block whose round takes a minute."""
    blocks = {"log/cold": OfBlock(rounds=5, seconds=295, waiting_s=1)}
    spent = Spent(30.0, 5.0, blocks, timed_s=159)
    about = {"minutes": 8, "studies": 1, "why": "time is up", "twins_sd": 0.0}
    return {**account(comparisons, spent, 100, USUAL, scatter), **about, **more}


SOME = [one("faster", 5), one(NOT_SHOWN, 9), *(one(TOO_NOISY, n) for n in (6, 7, 8, 45))]


def test_it_says_what_was_answered_and_what_more_minutes_would_tell() -> None:
    found = bought(told(*SOME))
    assert found
    assert found.sentences == [
        "2 of 6 comparisons are answered: 1 differ, 1 show no difference of 10 %; 4 are too noisy to say.",
        "The run ended because its 8 min were up.",
        "3 min more (MINUTES=9) would tell all but 1 of these at 10 %.",
        "40 min more (MINUTES=46) would tell all of these at 10 %.",
    ]
    assert found.tables == [["f6-vs-f7", "6", "1", "1", "4", "1", "0"]]
    assert ("preparation", "", "30 s") in found.spent
    assert ("measuring log/cold", "5", "5 min") in found.spent
    assert found.timed.startswith("Timed runs are 53 % of measuring and waiting.")


def test_where_runs_scatter_much_it_says_what_is_worth_noting_here() -> None:
    noisy = [
        one("faster", 5, 1.05),
        *(one(NOT_SHOWN, 9, at) for at in (1.09, 1.11, 1.15)),
        one(TOO_NOISY, 9, 1.16),
    ]
    found = bought(told(*noisy, scatter=0.12))
    assert found and found.sentences[:2] == [
        "4 of 5 comparisons are answered: 1 differ, 3 show no difference of 15 %; 1 are too noisy to say.",
        "Runs of a cell scatter by 13 % here, more than 8 %: so 15 % is worth noting "
        "(min_effect_pct_if_noisy), and not 10 %; 1 of the 3 show no difference of 10 % either.",
    ]
    assert found.sentences[-1].endswith("would tell all of these at 15 %.")
    quiet = bought(told(*noisy, scatter=0.07))
    assert quiet and "no difference of 10 %" in quiet.sentences[0]
    assert not any("scatter" in sentence for sentence in quiet.sentences)


def test_what_twins_differ_by_is_said_where_it_is_in_every_error() -> None:
    found = bought(told(*SOME, twins_sd=0.036))
    assert found and found.sentences[1].startswith(
        "Twins, the same cell twice, differ by 3.7 % beyond"
    )
    quiet = bought(told(*SOME))
    assert quiet and not any("Twins" in sentence for sentence in quiet.sentences)


def test_what_no_number_of_rounds_tells_is_said() -> None:
    found = bought(told(one(TOO_NOISY, float("inf"))))
    assert found and not found.marks
    assert found.sentences[-1].startswith("No number of rounds tells 1 of them")


def test_fixed_rounds_and_nothing_to_compare() -> None:
    found = bought(told(one("faster", 5), minutes=None))
    assert found and "same number of rounds" in found.sentences[1]
    nothing = bought(told())
    assert nothing and nothing.sentences == ["There was nothing to compare."] and not nothing.tables
    assert bought({}) is None


def test_the_page_has_a_section_for_it_where_it_is_known() -> None:
    study = default_study()
    order: dict[str, list[str]] = {axis: [] for axis in study.axes}
    page = build_page(Results(study, order, account=told(*SOME)))
    assert '<a href="#time">' in page and "after 40 min more" in page
    assert 'id="time"' not in build_page(Results(study, order))
