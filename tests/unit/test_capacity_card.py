"""The card on the number of clients at which a latency has doubled."""

import pytest

from unit.synthetic import AXES as VALUES
from unit.test_tables import frame_of
from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.capacity_card import make_capacity_card
from vcsbench.advice.questions import read_questions
from vcsbench.codes import AnswerKind

(QUESTION,) = read_questions(
    {"readers": {"question": "How many clients?", "doubles": "latency_p95_ms"}}, {}
)
AXES = ["command", "access", "readers"]


def row(readers, factor, **where):
    """Return a row: the latency of `readers` clients is `factor` times that of one, within a tenth."""
    sides = {"command": "requests", "access": "http", "baseline": "1", "candidate": readers}
    ratio = 1 / factor
    return {**sides, "ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.1, "n": 5.0, **where}


@pytest.mark.parametrize(
    ("rows", "effect"),
    [
        (
            [row("2", 1.2), row("4", 2.4)],
            "many clients: 4 clients (2.4x that of 1 client; 95 %: 4)",
        ),
        (
            [row("2", 1.9), row("4", 2.1), row("8", 3.0)],
            "many clients: 4 clients (2.1x that of 1 client; 95 %: 2 to 8)",
        ),
        (
            [row("2", 1.1), row("4", 1.5)],
            "many clients: more than 4 clients (1.50x that of 1 client at 4; 95 %: over 4)",
        ),
    ],
)
def test_capacity_card_has_the_number_and_its_interval(rows, effect):
    card = make_capacity_card(QUESTION, rows, AXES, [], [])
    assert (card.answer.effect, card.answer.kind) == (effect, AnswerKind.COST)
    assert card.question.aggregate and card.cases == [] and card.answer.value == ""


def test_capacity_card_has_an_answer_for_each_case():
    card = make_capacity_card(QUESTION, [row("2", 3.0), row("2", 1.1, access="svn")], AXES, [], [])
    assert [answer.short for answer in card.candidates] == [
        "many clients over http: 3.0x as long with 2 clients as with 1 client",
        "many clients over svn: 1.10x as long with 2 clients as with 1 client",
    ]


def test_capacity_card_without_a_comparison_has_the_reason():
    grid = [{"cell": "a", "readers": "2", "skip": "no svn"}]
    card = make_capacity_card(QUESTION, [], AXES, grid, [])
    assert card.answer.kind == AnswerKind.NOT_MEASURED
    assert [line.partition(":")[2] for line in card.lines] == [" 1 cell not measured: no svn."]


def test_advise_takes_the_tables_of_the_latency(tmp_path):
    frame = frame_of(tmp_path, twins=1)
    compare = {"axis": "readers", "baseline": "1", "candidates": ["2"]}
    latency = {"compare": {**compare, "metric": "latency_p95_ms"}}
    median = {"compare": {**compare, "metric": "latency_p50_ms"}}
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [QUESTION])
    tables = [(latency, [row("2", 3.0)]), (median, [row("2", 9.0)])]
    (card,) = advise(settings, frame, tables).cards
    assert len(card.candidates) == 1 and "3.0x" in card.answer.effect
    assert advise(settings, frame, [(median, [row("2", 9.0)])]).cards == []
