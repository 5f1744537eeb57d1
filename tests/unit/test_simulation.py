"""The simulation of docs/statistics.md with fewer experiments and fixed seeds."""

import dataclasses
import importlib

import numpy as np
import pytest

from project import ROOT
from vcsbench.statistics.tables import make_table


@pytest.fixture(scope="module")
def simulation():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("simulation")


FEW_ROUNDS = {"rounds": 5, "blocks": 1, "experiments": 60}
NOISY = {"blocks": 2, "scatter": "5 times"}


@pytest.mark.parametrize(
    ("case", "coverage", "false_calls", "power"),
    [
        ({"scatter": "equal"}, (0.92, 0.985), 0.015, 0.9),
        ({"scatter": "unequal"}, (0.92, 0.985), 0.015, 0.9),
        ({"difference": "differ"}, (0.91, 0.99), 0.015, 0),
        *((FEW_ROUNDS | {"duplicates": n}, (0.9, 1), 0.01, 0.6) for n in (1, 2, 4)),
        *((FEW_ROUNDS | {"rounds": n}, (0.9, 1), 0.01, 0.1) for n in (2, 3, 4)),
        *(
            (NOISY | {"rounds": f"by {rule}"}, (0.91, 0.99), 0.02, 0)
            for rule in ("width", "minutes")
        ),
    ],
)
def test_outcome_intervals_contain_truth_and_slowdowns_are_called(
    simulation, case, coverage, false_calls, power
):
    experiments = 15 if isinstance(case.get("rounds"), str) else 25
    usual = {"rounds": 10, "blocks": 4, "experiments": experiments}
    found = simulation.simulate(simulation.Case(**usual | case))
    assert coverage[0] <= found.coverage <= coverage[1]
    assert found.false_calls <= false_calls and found.power >= power
    if case.get("scatter") in ("equal", "unequal"):
        assert found.averages >= 0.9 and found.false_alike <= 0.05


@pytest.mark.parametrize("rule", ["by width", "by minutes"])
def test_stopping_rule_gives_rounds_to_noisy_block(simulation, rule):
    case = simulation.Case(rule, 2)
    measured, _ = simulation.make_study(case, 0.0, np.random.default_rng(1))
    logs = measured.logs.copy()
    logs[: case.size] *= 0.1  # the first block is quiet
    noisy = logs[case.size :]
    noisy += np.random.default_rng(2).normal(0, 0.1, noisy.shape)
    given, most = simulation.STOPS[rule]
    seen = given(
        dataclasses.replace(measured, logs=logs), list(simulation.list_pairs(2, case.size))
    )
    rounds = np.isfinite(seen.logs).sum(axis=1)
    assert set(rounds[: case.size]) == {5}
    # By minutes: the time of five more rounds for both blocks.
    assert set(rounds[case.size :]) == {most if rule == "by width" else 15}


def test_study_has_calls_of_make_table(simulation):
    case = simulation.Case(6, 2, difference="differ")
    rows = simulation.judge_study(case, 0.2, np.random.default_rng(3)).rows
    measured, _ = simulation.make_study(case, 0.2, np.random.default_rng(3))
    frame = simulation.make_measurements(measured)
    order = {axis: list(frame[axis].unique()) for axis in simulation.AXES}
    compare = {"axis": "format", "baseline": "f6", "candidates": ["f7"]}
    definition = {"compare": compare, "rows": [], "columns": []}
    table = make_table(frame, "simulated", definition, order, simulation.BLOCK)
    assert table["call"].tolist() == rows["call"].tolist()
    assert "slower" in set(table["call"])
    truth = np.exp(rows["truth"])
    holds = (table["low"] <= truth) & (truth <= table["high"])
    assert holds.tolist() == rows["holds"].tolist()


def test_two_sessions_give_the_same_advice_if_a_choice_matters_for_one_kind_of_case():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        stability = importlib.import_module("advice_stability")
    answers = list(stability.simulate("one kind of case", questions=300))
    assert sum(first != second for first, second in answers) <= 0.08 * len(answers)
    assert {first.value for first, _ in answers} >= {"f6", "f7"}
