"""What the benchmarks print, and where their tables go."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from vcsbench.plan import fresh

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("bench")


def test_a_row_has_both_figures_and_their_ratio(bench: ModuleType) -> None:
    rows = importlib.import_module("rows")
    assert str(rows.Row("it", 0.2, 0.25, "s", "limit")) == "| it | 0.200 s | limit 0.250 s | 0.80 |"
    assert (
        str(rows.Row("it", 3000, 1000, "/s", "peer")) == "| it | 3,000 /s | peer 1,000 /s | 3.00 |"
    )


def test_tables_take_the_place_of_those_in_the_document(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "benchmarks.md"
    document.write_text(f"# before\n{bench.BEGIN}old\n{bench.END}after\n")
    monkeypatch.setattr(bench, "DOCUMENT", document)
    bench.write("new\n")
    bench.write("newer\n")
    assert document.read_text() == f"# before\n{bench.BEGIN}newer\n{bench.END}after\n"


def test_the_document_has_a_place_for_them(bench: ModuleType) -> None:
    text = bench.DOCUMENT.read_text()
    assert text.count(bench.BEGIN) == text.count(bench.END) == 1


def test_every_benchmark_is_run(bench: ModuleType) -> None:
    """What prints a table of its own, or with rows.py, and measures for it."""
    texts = {path.stem: path.read_text() for path in BENCHMARKS.glob("*.py")}
    found = {n for n, text in texts.items() if "| ---" in text or "Row(" in text} - {
        "rows",
        "runs",
        "simulation",
    }
    assert "graph" in found
    assert found <= set(bench.SCRIPTS)


def test_a_faked_cell_round_is_taken_for_measured(bench: ModuleType, tmp_path: Path) -> None:
    """Else the workflow removes it and measures it, and the benchmark takes hours."""
    faked = importlib.import_module("faked")
    said = {"study": "s", "cell": "log/f7", "recipe_digest": "d", "export_sha256": "of another"}
    faked.write(tmp_path / "round1", {"results": []}, said)
    assert fresh.measured_as(tmp_path / "round1.json") == ("s", "log/f7", "d")
