"""The details behind the numbers of a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from unit.report_files import default_grid, make_files, results_of
from vcsbench.report.details import details, evidence_sentences, number_sentences
from vcsbench.report.page import build_page
from vcsbench.report.results import Results
from vcsbench.report.table_sections import TableSection, table_sections

CELL = "log/http/ruby/f6/nopack/slow/cold"
MIB = 1 << 20


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1))


@pytest.fixture(scope="module")
def sections(results: Results) -> list[TableSection]:
    return table_sections(results, {})


@pytest.fixture(scope="module")
def known(results: Results, sections: list[TableSection]) -> dict[str, Any]:
    return dict(details(results, sections))


def test_details_of_a_cell_have_its_runs_and_times(results: Results, known: dict[str, Any]) -> None:
    start, count = known["cells"][CELL]["runs"]
    rows = [row for row in results.measurements if row["cell"] == CELL]
    assert known["runs"]["round"][start : start + count] == [1, 2, 3, 4, 5]
    elapsed = known["runs"]["elapsed_s"][start : start + count]
    assert elapsed == [float(f"{row['elapsed_s']:.4g}") for row in rows]
    spent = known["cells"][CELL]["spent"]
    assert spent[0] == pytest.approx(median(elapsed))
    assert spent[1] == pytest.approx(0.6 * spent[0], rel=0.01)
    assert spent[3] == pytest.approx(spent[0] - spent[1] - spent[2], rel=0.01)


def test_details_have_the_cells_of_every_number(
    sections: list[TableSection], known: dict[str, Any]
) -> None:
    for section in sections:
        points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
        numbers = known["tables"][section.anchor]["numbers"]
        assert len(numbers) == sum(point.value is not None for point in points)
        for number in numbers.values():
            assert len(number["cells"]) == (2 if section.compares else 1)
            assert {*number["cells"]} <= known["cells"].keys()


def test_details_of_a_comparison_have_ratio_interval_and_call(known: dict[str, Any]) -> None:
    table = known["tables"]["table-nopack-vs-pack"]
    number = next(n for n in table["numbers"].values() if n["cells"][0] == CELL)
    assert number["cells"][1] == CELL.replace("nopack", "pack")
    ratio, call, _ = number["sentences"]
    assert ratio.startswith("elapsed nopack ÷ elapsed pack = 1.2") and "interval 1.2" in ratio
    assert call == "pack is faster." and number["published"] == "+306"


def test_details_of_an_interval_without_1_explain_the_correction(
    results: Results, sections: list[TableSection]
) -> None:
    section = next(s for s in sections if s.name == "nopack-vs-pack")
    point = next(p for p in section.pairs[0].measured.points if p.value is not None)  # type: ignore[union-attr]
    definition = results.study.tables[section.name]
    row = {**(point.row or {}), "call": "too noisy to say", "low": 1.01, "high": 1.2}
    lengths = [
        len(number_sentences(replace(point, row={**row, "low": low}), definition))
        for low in (1.01, 0.9)
    ]
    assert lengths == [4, 3]


def test_evidence_has_memory_reads_and_server(results: Results) -> None:
    rows = [row for row in results.measurements if row["cell"] == CELL]
    rows = [{**row, "device_bytes": (2 + n) * MIB} for n, row in enumerate(rows)]
    served = [{**row, "server_age_s": "0.5", "server_same": "True"} for row in rows]
    late = [{**served[0], "delayed_acks": 2.0}, *served[1:]]
    text = " ".join(evidence_sentences(late))
    for part in ("drop_caches", "1.0 % before a run, 90 % after", "2.00 MiB to 6.00 MiB"):
        assert part in text
    assert "0.500 s old" in text and "same process" in text and "In 1 of 5 runs TCP" in text
    assert "outlier-10, 1 run: " in text
    changed = " ".join(evidence_sentences([*served[:-1], {**served[-1], "server_same": "False"}]))
    assert "same process" not in changed and "TCP" not in changed
    unserved = [{**row, "server_age_s": ""} for row in late]
    assert "TCP" not in " ".join(evidence_sentences(unserved))


def test_details_have_the_repository_of_the_user(results: Results) -> None:
    own = replace(results, own_repository="/srv/mine")
    assert [details(r, [])["of"]["own"] for r in (results, own)] == ["", "/srv/mine"]


@pytest.mark.slow
def test_page_of_2500_cell_rounds_is_below_3_megabytes(tmp_path: Path) -> None:
    results = results_of(make_files(tmp_path, rounds=18))
    assert len({(row["cell"], row["round"]) for row in results.measurements}) >= 2500
    assert len(build_page(results).encode()) < 3_000_000
