"""The card on the number of clients at which a latency has doubled."""

import math
import re

import pandas as pd
import pytest

from unit.answered import answered
from unit.synthetic import AXES as VALUES
from unit.synthetic import rows_frame
from unit.test_tables import frame_of
from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.advice.capacity_card import make_capacity_card
from vcsbench.advice.questions import read_questions
from vcsbench.codes import AnswerKind
from vcsbench.report.card_texts import describe_aggregate, describe_lines

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
    ("factors", "effect"),
    [
        ({"2": 1.2, "4": 2.4}, "4 clients (2.4x that of 1 client; 95 %: 4)"),
        ({"2": 1.9, "4": 2.1, "8": 3.0}, "4 clients (2.1x that of 1 client; 95 %: 2 to 8)"),
        ({"2": 1.1, "4": 1.5}, "more than 4 clients (1.50x that of 1 client at 4; 95 %: over 4)"),
        # Latencies that do not grow with each step: twice as long from 8 clients on, and not from 2.
        (
            {"2": 2.3, "4": 1.5, "8": 2.6},
            "8 clients (2.6x that of 1 client; 95 %: 8)",
        ),
        (
            {"4": 2.3, "8": 1.5},
            "more than 8 clients (1.50x that of 1 client at 8; 95 %: over 8)",
        ),
    ],
)
def test_capacity_card_has_the_number_and_its_interval(factors, effect):
    rows = [row(readers, factor) for readers, factor in factors.items()]
    card = make_capacity_card(QUESTION, rows, AXES, [], [])
    assert answered(card).effect == f"many clients: {effect}"
    assert answered(card).kind == AnswerKind.COST
    assert card.question.aggregate and card.cases == [] and answered(card).value == ""


@pytest.mark.parametrize(
    ("metric", "name"),
    [("latency_p50_ms", "p50 latency"), ("commit_p95_ms", "p95 latency of commits")],
)
def test_capacity_card_names_the_latency_of_its_question(metric, name):
    (question,) = read_questions({"readers": {"question": "How many?", "doubles": metric}}, {})
    answer = answered(make_capacity_card(question, [row("2", 3.0)], AXES, [], []))
    assert answer.sentence.startswith(f"The {name} is at least twice as long from 2 clients on")


def test_capacity_card_after_one_round_has_no_interval():
    one_round = {"low": math.nan, "high": math.nan, "n": 1.0}
    rows = [row("2", 1.5, **one_round), row("4", 3.0, **one_round)]
    answer = answered(make_capacity_card(QUESTION, rows, AXES, [], []))
    assert answer.effect == "many clients: 4 clients (3.0x that of 1 client)"
    assert "95 %" not in answer.sentence


def test_capacity_card_has_an_answer_for_each_case():
    card = make_capacity_card(QUESTION, [row("2", 3.0), row("2", 1.1, access="svn")], AXES, [], [])
    assert [answer.short for answer in describe_aggregate(card)] == [
        "many clients over http: 3.0x as long with 2 clients as with 1 client",
        "many clients over svn: 1.10x as long with 2 clients as with 1 client",
    ]


def test_capacity_card_without_a_comparison_has_the_reason():
    grid = [{"cell": "a", "readers": "2", "skip": "no svn"}]
    card = make_capacity_card(QUESTION, [], AXES, grid, [])
    assert answered(card).kind == AnswerKind.NOT_MEASURED
    assert [line.partition(":")[2] for line in describe_lines(card)] == [
        " 1 cell not measured: no svn."
    ]


def load(readers, server, clients, **where):
    cell = {"command": "requests", "access": "http", "readers": readers, **where}
    return {**cell, "server_load_pct": server, "client_load_pct": clients}


def test_capacity_card_has_the_loads_of_each_case_at_its_number():
    rows = [row("2", 1.2), row("4", 2.4), row("8", 4.0), row("2", 1.1, access="svn")]
    loads = [
        *(load(readers, 20.0 + int(readers), 50.2) for readers in ("1", "2", "4", "8")),
        load("2", 4.6, 87.4, access="svn"),
    ]
    card = make_capacity_card(QUESTION, rows, AXES, [], [], loads)
    # http doubles with 4 clients, and svn has no larger number than 2.
    assert [re.findall(r"\d+", line) for line in describe_lines(card)] == [
        ["4", "24", "50"],
        ["2", "5", "87"],
    ]
    assert "over http" in describe_lines(card)[0] and "over svn" in describe_lines(card)[1]


@pytest.mark.parametrize(
    "loads", [[], [load("4", 5.0, 80.0)], [load("2", math.nan, 80.0)], [load("2", 5.0, math.nan)]]
)
def test_capacity_card_without_loads_at_its_number_has_no_line(loads):
    made = make_capacity_card(QUESTION, [row("2", 3.0)], AXES, [], [], loads)
    assert describe_lines(made) == []


def traffic_frame(**columns):
    """Return the runs of two rounds with 1 and 2 readers, which took a tenth and half of 2 processors."""
    rows = [
        {
            **{"command": "requests", "access": "http", "readers": readers, "round": number},
            **{"elapsed_s": math.nan, "carried_s": 2.0, "cores": 2.0},
            **{"server_cpu_s": 0.2 * int(readers), "clients_cpu_s": 1.0 * int(readers)},
        }
        for readers in ("1", "2")
        for number in (1.0, 2.0)
    ]
    return rows_frame(rows, cell="a", **columns)


def test_advise_has_the_loads_of_runs_without_an_elapsed_time(tmp_path):
    measured = frame_of(tmp_path, twins=1)
    frame = pd.concat([measured, traffic_frame()], ignore_index=True)
    axes = {**VALUES, "readers": ["1", "2"]}
    for axis in axes:
        frame[axis] = frame[axis].fillna("")
    latency = {"compare": {"axis": "readers", "baseline": "1", "candidates": ["2"]}}
    latency["compare"]["metric"] = "latency_p95_ms"
    settings = AdviceSettings(axes, ["command"], ["command", "repo", "cache"], [QUESTION])
    (card,) = advise(settings, frame, [(latency, [row("2", 3.0)])]).cards
    # 0.4 s and 2 s of the 4 s of both processors.
    (line,) = describe_lines(card)
    assert re.findall(r"\d+", line) == ["2", "10", "50"]
    invalid = frame.assign(flags="requests-failed")
    invalid.loc[: len(measured) - 1, "flags"] = measured["flags"]
    for other in (frame.drop(columns="clients_cpu_s"), invalid):
        (card,) = advise(settings, other, [(latency, [row("2", 3.0)])]).cards
        assert describe_lines(card) == []


def test_advise_takes_the_tables_of_the_latency(tmp_path):
    frame = frame_of(tmp_path, twins=1)
    compare = {"axis": "readers", "baseline": "1", "candidates": ["2"]}
    latency = {"compare": {**compare, "metric": "latency_p95_ms"}}
    median = {"compare": {**compare, "metric": "latency_p50_ms"}}
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [QUESTION])
    tables = [(latency, [row("2", 3.0)]), (median, [row("2", 9.0)])]
    (card,) = advise(settings, frame, tables).cards
    assert len(describe_aggregate(card)) == 1 and "3.0x" in answered(card).effect
    assert advise(settings, frame, [(median, [row("2", 9.0)])]).cards == []
