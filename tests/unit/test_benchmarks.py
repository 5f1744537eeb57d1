"""The rows of the benchmarks, and their faked results."""

import importlib
from pathlib import Path

import pytest

from vcsbench.plan.result_state import measured_recipe

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rows")


def test_faked_cell_round_counts_as_measured(rows, tmp_path):
    """Otherwise the workflow measures it again, and the benchmark takes hours."""
    faked = importlib.import_module("faked")
    context = {"study": "s", "cell": "log/f7", "recipe_digest": "d", "export_sha256": "of another"}
    faked.write(tmp_path / "round1", {"results": []}, context)
    assert measured_recipe(tmp_path / "round1.json") == ("s", "log/f7", "d")


def test_aggregation_runs_rules_of_the_workflow_again(rows):
    option, *again = importlib.import_module("aggregation").AGAIN
    rules = "".join(path.read_text() for path in (BENCHMARKS.parent / "workflow").rglob("*.smk"))
    assert option == "--forcerun" and again
    assert all(f"rule {name}:" in rules for name in again)
