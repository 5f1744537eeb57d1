"""The changes that are worth it for a reader's picks, and their order."""

import math
from dataclasses import replace

import pytest

from vcsbench.advice.cards import Card, Choice, Situation
from vcsbench.advice.decision import Case, Pair, WeightedOperation
from vcsbench.advice.effects import effect_in_case
from vcsbench.advice.questions import CardAction, CardQuestion
from vcsbench.advice.steps import (
    Worth,
    combinations_of,
    find_combined_outcomes,
    find_outcomes,
    plan_steps,
)
from vcsbench.codes import Call, Result
from vcsbench.statistics.comparisons import Limits, classify_call

MARGIN = 1.1
BETTER, WORSE, EQUAL = Call.FASTER, Call.SLOWER, Call.EQUAL
NOISY, SMALL = Call.UNDECIDED, Call.TOO_SMALL
PRESENT = {"format": "f6", "packing": "nopack"}


def card(axis, sides, results, condition=""):
    """Return a card. `results` has where, outcome and ratio of each case."""
    actions = {sides[1]: CardAction(condition=condition)} if condition else {}
    cases = []
    for where, outcome, ratio in results:
        result = classify_call(outcome, ratio, Limits())
        pair = Pair(*sides, ratio, call=outcome, result=result, times=(ratio, 1.0))
        cases.append(Case(where, (pair,), {sides[0]: ratio, sides[1]: 1.0}))
    return Card(CardQuestion(axis, f"{axis}?", actions=actions), sides[0], (), cases)


def packing(*results):
    return card("packing", ("nopack", "pack"), results)


def fmt(*results, condition=""):
    return card("format", ("f6", "f7"), results, condition)


LOG = {"command": "log", "cache": "cold"}
EXPORT = {"command": "export", "cache": "cold"}


@pytest.mark.parametrize(
    ("results", "worth"),
    [
        ([(LOG, BETTER, 1.5), (EXPORT, EQUAL, 1.0)], Worth.DO),
        ([(LOG, BETTER, 1.5), (EXPORT, WORSE, 1 / 1.05)], Worth.DO),
        ([(LOG, BETTER, 1.5), (EXPORT, WORSE, 1 / 1.2)], Worth.DEPENDS),
        ([(LOG, BETTER, 1.05), (EXPORT, EQUAL, 1.0)], Worth.EQUAL),
        ([(LOG, WORSE, 1 / 1.5), (EXPORT, EQUAL, 1.0)], Worth.KEEP),
        ([(LOG, EQUAL, 1.0), (EXPORT, NOISY, 1.3)], Worth.EQUAL),
        ([(LOG, NOISY, 1.4), (EXPORT, SMALL, 1.0)], Worth.UNDECIDED),
        ([(LOG, SMALL, 1.4)], Worth.TOO_SMALL),
        ([], Worth.NOT_MEASURED),
    ],
)
def test_worth_of_a_change_follows_from_its_gains_and_losses(results, worth):
    plan = plan_steps([packing(*results)], PRESENT)
    found = [change.worth for change in (*plan.steps, *plan.others)]
    assert found == ([worth] if results else [])
    assert len(plan.steps) == (worth is Worth.DO)


def test_change_against_the_baseline_has_the_reversed_factor_and_times():
    (outcome,) = find_outcomes(packing((LOG, BETTER, 2.0)), "nopack", [{"packing": "pack"}])
    assert (outcome.effect, outcome.factor) == (Call.SLOWER, 2.0)
    assert (outcome.before_s, outcome.after_s) == (1.0, 2.0)


@pytest.mark.parametrize(("call", "ratio"), [(BETTER, 1.04), (WORSE, 1 / 1.04)])
def test_sure_but_small_difference_is_equal_as_in_its_card(call, ratio):
    made = packing((LOG, call, ratio))
    (outcome,) = find_outcomes(made, "pack", [PRESENT])
    assert outcome.effect is Call.EQUAL
    assert outcome.factor == pytest.approx(1.04)
    assert effect_in_case("pack", made.cases[0], "nopack").effect is Call.EQUAL


AT_LEAST = Pair(
    *("nopack", "pack", 6.4, 4.8, 8.5, 5, BETTER, Result.DIFFERENT),
    flags=("at-least",),
    times=(6.4, 1.0),
)


@pytest.mark.parametrize(("value", "effect"), [("pack", Call.FASTER), ("nopack", Call.SLOWER)])
def test_outcome_has_what_is_certain_if_start_up_hides_a_part(value, effect):
    question = CardQuestion("packing", "packing?")
    made = Card(question, "nopack", (), [Case(LOG, (AT_LEAST,))])
    (outcome,) = find_outcomes(made, value, [{}])
    assert (outcome.effect, outcome.factor) == (effect, pytest.approx(4.8))
    assert outcome.is_at_least
    # The certain part of a difference can be below the margin.
    slight = replace(AT_LEAST, low=1.05)
    plan = plan_steps([replace(made, cases=[Case(LOG, (slight,))])], PRESENT)
    assert [change.worth for change in plan.others] == [Worth.SLIGHT]


NOT_PACKED, IS_PACKED = {**LOG, "packing": "nopack"}, {**LOG, "packing": "pack"}


@pytest.mark.parametrize(
    ("results_of_f7", "steps"),
    [
        ([(LOG, BETTER, 2.0)], ["f7", "pack"]),
        # A sure but small difference counts as equal.
        ([(LOG, BETTER, 2.0), (EXPORT, WORSE, 1 / 1.05)], ["f7", "pack"]),
        # A change that is slower after another step comes later.
        ([(NOT_PACKED, BETTER, 2.0), (IS_PACKED, WORSE, 1 / 1.2)], ["pack"]),
        # It is faster only after another step.
        ([(NOT_PACKED, EQUAL, 1.0), (IS_PACKED, BETTER, 2.0)], ["pack", "f7"]),
    ],
)
def test_steps_are_ordered_by_gain_and_by_losses(results_of_f7, steps):
    plan = plan_steps([packing((LOG, BETTER, 1.3)), fmt(*results_of_f7)], PRESENT)
    assert [step.value for step in plan.steps] == steps
    assert plan.states[0] == PRESENT
    assert plan.states[-1] == PRESENT | {step.axis: step.value for step in plan.steps}
    assert len(plan.states) == 2 ** len(steps)


def test_change_with_a_condition_is_no_step():
    plan = plan_steps([fmt((LOG, BETTER, 2.0), condition="you can stop commits")], PRESENT)
    assert plan.steps == []
    assert [(c.value, c.condition) for c in plan.others] == [("f7", "you can stop commits")]


def test_better_value_with_a_condition_is_named_instead_of_the_step():
    factors = {"f7": 1.5, "f8": 3.0}
    different = (5, BETTER, Result.DIFFERENT)
    pairs = tuple(Pair("f6", value, r, r, r, *different) for value, r in factors.items())
    question = CardQuestion("format", "?", actions={"f8": CardAction(condition="it is new")})
    plan = plan_steps([Card(question, "f6", (), [Case(LOG, pairs)])], PRESENT)
    assert [step.value for step in plan.steps] == ["f7"]
    assert [(change.value, change.instead) for change in plan.others] == [("f8", plan.steps[0])]


@pytest.mark.parametrize(("weights", "worth"), [((90, 10), Worth.DEPENDS), ((10, 90), Worth.DO)])
def test_workload_decides_by_the_weighted_mean(weights, worth):
    workload = [
        WeightedOperation(command, weight, {"command": command})
        for weight, command in zip(weights, ("log", "export"), strict=True)
    ]
    mixed = packing((LOG, WORSE, 1 / 1.3), (EXPORT, BETTER, 1.5))
    plan = plan_steps([replace(mixed, workload=workload)], PRESENT)
    assert [change.worth for change in (*plan.steps, *plan.others)] == [worth]


def test_operation_of_a_workload_shares_its_weight_over_the_states_of_the_caches():
    """The log was measured cold and warm, and still counts 60, as in a card."""
    workload = [
        WeightedOperation("log", 60, {"command": "log"}),
        WeightedOperation("export", 40, {"command": "export"}),
    ]
    warm_log = {**LOG, "cache": "hot-server"}
    logs = [(LOG, WORSE, 1 / 1.3), (warm_log, WORSE, 1 / 1.3)]
    weighted = replace(packing(*logs, (EXPORT, BETTER, 1.5)), workload=workload)
    (step,) = plan_steps([weighted], PRESENT).steps
    assert math.isclose(step.gain, 40 * math.log(1.5) - 60 * math.log(1.3))
    assert weighted.answer_for({}).value == "pack"


def test_undecided_outcomes_take_no_weight_of_a_workload_in_steps_and_cards():
    """The log is slower over http and undecided over svn. It still counts 60."""
    workload = [
        WeightedOperation("log", 60, {"command": "log"}),
        WeightedOperation("export", 40, {"command": "export"}),
    ]
    logs = [
        ({**LOG, "access": "http"}, WORSE, 1 / 1.3),
        ({**LOG, "access": "svn"}, NOISY, 1.0),
    ]
    made = packing(*logs, ({**EXPORT, "access": "http"}, BETTER, 1.4))
    weighted = replace(made, workload=workload)
    plan = plan_steps([weighted], PRESENT)
    (change,) = plan.others
    assert plan.steps == [] and change.worth is Worth.DEPENDS
    assert math.isclose(change.gain, 40 * math.log(1.4) - 60 * math.log(1.3))
    for picks in ({}, PRESENT):
        assert weighted.answer_for(picks).value == "nopack"


@pytest.mark.parametrize(
    ("further", "worth"),
    [([], Worth.DO), ([(EXPORT, WORSE, 1 / 1.3)], Worth.DEPENDS)],
)
def test_workload_without_the_commands_of_a_change_needs_no_gain(further, worth):
    workload = [WeightedOperation("blame", 100, {"command": "blame"})]
    made = packing((LOG, BETTER, 1.5), *further)
    plan = plan_steps([replace(made, workload=workload)], PRESENT)
    assert [change.worth for change in (*plan.steps, *plan.others)] == [worth]


def test_commands_of_svnbench_decide_only_without_others():
    null = {"command": "null-log", "cache": "cold"}
    (both,) = find_outcomes(packing((LOG, EQUAL, 1.0), (null, BETTER, 3.0)), "pack", [{}])
    assert both.where == LOG
    (only,) = find_outcomes(packing((null, BETTER, 3.0)), "pack", [{}])
    assert only.where == null
    # A user's command is no benchmark because of its name.
    device = {**null, "command": "null-device"}
    outcomes = find_outcomes(packing((LOG, EQUAL, 1.0), (device, BETTER, 3.0)), "pack", [{}])
    assert [outcome.where for outcome in outcomes] == [LOG, device]


def test_combinations_are_those_that_a_cell_fits():
    grid = [
        {"access": "http", "config": "slow", "skip": ""},
        {"access": "file", "config": "", "skip": ""},
        {"access": "svn", "config": "slow", "skip": "no svnserve"},
    ]
    axes = {"access": ["http", "file", "svn"], "config": ["slow", "fast"]}
    found = combinations_of(grid, axes, 300)
    assert found[0] == {}
    assert {"access": "http", "config": "slow"} in found
    # Over file, settings do not matter.
    assert {"access": "file", "config": "fast"} in found
    assert {"access": "http", "config": "fast"} not in found
    assert all(picks.get("access") != "svn" for picks in found)
    assert all("config" not in picks for picks in combinations_of(grid, axes, 5))


@pytest.mark.parametrize(
    ("then", "effect"),
    [
        (Choice({"packing": "pack"}, 1.0, call=EQUAL), Call.FASTER),
        (Choice({"packing": "pack"}, 1.0, ratio=1.2), Call.UNDECIDED),
        (Choice({"packing": "pack"}, 1.95, ratio=1.0, call=EQUAL), Call.EQUAL),
        (Choice({"packing": "pack"}, 1.95, ratio=1.0, call=WORSE), Call.EQUAL),
        # Nothing shows that two times are equal if one of them is undecided.
        (Choice({"packing": "pack"}, 1.95, ratio=1.0, call=NOISY), Call.UNDECIDED),
        (Choice({"packing": "pack"}, 1.95, ratio=1.0, call=SMALL), Call.UNDECIDED),
    ],
)
def test_steps_together_have_the_measured_gain(then, effect):
    now = Choice({"packing": "nopack"}, 2.0, ratio=2.0, call=WORSE)
    situations = [Situation(LOG, [then, now])]
    (outcome,) = find_combined_outcomes(situations, now.values, then.values, MARGIN)
    assert outcome.effect is effect
    assert math.isclose(outcome.factor, 2.0 / then.seconds)
