"""How costs are fitted against sizes, and what is foretold from them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from project import needs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SIZES = (1_000, 2_000, 8_000)


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("growth")


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
def test_the_exponent_is_that_of_a_power_law_less_what_costs_anyway(
    growth: ModuleType, power: float
) -> None:
    costs = [3.0 + 0.02 * size**power for size in SIZES]
    row = growth.Growth("it", SIZES, costs, "s", least=3.0)
    assert row.fitted == pytest.approx(power)
    assert row.last == pytest.approx(power)
    assert row.at(64_000) == pytest.approx(3.0 + 0.02 * 64_000**power)


def test_a_bend_is_told_by_the_last_step_though_the_line_through_all_hides_it(
    growth: ModuleType,
) -> None:
    """From 4,000 on it is quadratic; all in all hardly."""
    sizes = (1_000, 4_000, 8_000)
    straight = growth.Growth("it", sizes, (1.0, 4.0, 8.0), "s")
    bent = growth.Growth("it", sizes, (2.0, 4.0, 16.0), "s")
    assert bent.last == pytest.approx(2.0)
    assert bent.fitted < 1.1
    assert "linear or less" in str(straight)
    assert "worse than linear" in str(bent)


def test_a_drawing_has_each_row_of_time(growth: ModuleType, tmp_path: Path) -> None:
    rows = [growth.Growth(f"row {n}", SIZES, (n, 2 * n, 8 * n), "s") for n in (1, 2)]
    rows.append(growth.Growth("memory", SIZES, (1, 1, 1), "MiB"))
    growth.draw(rows, tmp_path / "growth.svg")
    drawn = (tmp_path / "growth.svg").read_text()
    assert drawn.startswith("<svg")
    assert "row 1" in drawn
    assert "row 2" in drawn
    assert "memory" not in drawn


def test_what_a_program_reads_is_fed_to_it(growth: ModuleType, tmp_path: Path) -> None:
    rows = importlib.import_module("rows")
    argv = ["sh", "-c", 'cat > "$0"', tmp_path / "read"]
    assert rows.cost(argv, tmp_path, lambda stream: stream.write(b"x" * 200_000)).seconds > 0
    assert (tmp_path / "read").stat().st_size == 200_000


@needs("svn", "svnadmin", "svnlook")
def test_a_history_has_a_cost_for_each_stage(growth: ModuleType) -> None:
    histories = importlib.import_module("histories")
    revisions, found = histories.stages("ruby", 0.001)
    assert revisions == 46
    stages = {"generated", "loaded", "verified", "copied", "packed", "verified packed"}
    assert {stage for stage, unit in found if unit == "s"} == {*stages, "log", "export"}
    assert found["size", "files"] > 2 * revisions
    assert all(cost > 0 for cost in found.values())
