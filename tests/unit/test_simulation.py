"""The simulation of docs/statistics.md, in small: through the tables' own code, with fixed seeds."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pytest

from vcsbench.compare.tables import make_table

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "simulation.py"


@pytest.fixture(scope="module")
def simulation():
    specification = importlib.util.spec_from_file_location("simulation", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    sys.modules["simulation"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["simulation"]


@pytest.mark.parametrize("drift", ["none", "rounds", "blocks"])
def test_intervals_hold_the_truth_and_slowdowns_are_called(simulation, drift):
    found = simulation.outcome(simulation.Case(10, 1, drift, experiments=150))
    assert 0.91 <= found.coverage <= 0.985
    assert found.false_calls <= 0.02
    assert found.power >= 0.95


def test_a_large_table_makes_no_more_false_calls_and_still_sees(simulation):
    found = simulation.outcome(simulation.Case(10, 12, experiments=25))
    assert found.false_calls <= 0.01
    assert found.false_tables <= 0.1
    assert found.power >= 0.85


def test_what_it_judges_is_what_a_table_of_one_experiment_says(simulation):
    case = simulation.Case(6, 4, experiments=1)
    rows = simulation.tables(case, 1.3, 3).drop(columns="first")
    random = simulation.np.random.default_rng(3)
    frame = simulation.measurements(case, 1.3, random)
    order = {axis: list(frame[axis].unique()) for axis in simulation.AXES}
    whole = make_table(frame, "simulated", simulation.DEFINITION, order, simulation.NOISE_CLASS)
    pd.testing.assert_frame_equal(rows[list(whole)], whole)
    assert "slower" in set(whole["call"])


def test_drift_within_a_block_follows_the_places_of_its_cells(simulation, monkeypatch):
    case = simulation.Case(6, 2, "blocks", experiments=3)
    monkeypatch.setattr(simulation, "NOISE", 0.0)
    frame = simulation.measurements(case, 1.0, simulation.np.random.default_rng(1))
    logs = simulation.np.log(frame["elapsed_s"])
    for _, block in logs.groupby([frame["repo"], frame["command"], frame["round"]]):
        steps = sorted(block - block.max(), reverse=True)
        wanted = simulation.WITHIN_BLOCK * simulation.np.arange(len(block)) / (len(block) - 1)
        assert steps == pytest.approx(list(wanted))
    first = frame.loc[logs.groupby([frame["repo"], frame["round"]]).idxmax(), "cell"]
    assert first.nunique() > 5  # the order is another in each round


def test_limits_that_are_not_kept_are_said(simulation):
    kept = simulation.Outcome(0.95, 0.001, 0.01, 0.95)
    case = simulation.Case(10, 1)
    assert simulation.broken(case, kept) == []
    for name, value in (
        ("coverage", 0.92),
        ("coverage", 0.98),
        ("false_calls", 0.006),
        ("power", 0.89),
    ):
        found = dataclasses.replace(kept, **{name: value})
        assert len(simulation.broken(case, found)) == 1
        assert simulation.document([(case, found)]).endswith("| no |")
    assert simulation.document([(case, kept)]).endswith("| yes |")


def test_the_document_has_its_table(simulation):
    text = simulation.DOCUMENT.read_text()
    table = text.partition(simulation.BEGIN)[2].partition(simulation.END)[0]
    assert table.count("\n|") == 2 + len(simulation.cases())
