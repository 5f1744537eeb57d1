"""What stands behind the numbers of a page: complete, and small enough to be carried by every page."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from unit.html_tree import parse
from unit.report_files import default_grid, make_files, results_of
from vcsbench.report.certificates import certificate
from vcsbench.report.details import details, packed, said_of
from vcsbench.report.page import build_page
from vcsbench.report.results import Results
from vcsbench.report.sections import table_sections

CELL = "log/http/ruby/f6/nopack/slow/cold"
MIB = 1 << 20


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    made = make_files(
        tmp_path_factory.mktemp("study"),
        skip=default_grid,
        twins=1,
    )
    return results_of(made)


@pytest.fixture(scope="module")
def known(results: Results) -> dict[str, Any]:
    return details(results, table_sections(results))


def test_a_cell_has_its_runs(results: Results, known: dict[str, Any]) -> None:
    start, count = known["cells"][CELL]["runs"]
    rows = [row for row in results.measurements if row["cell"] == CELL]
    assert known["runs"]["round"][start : start + count] == [1, 2, 3, 4, 5]
    elapsed = known["runs"]["elapsed_s"][start : start + count]
    assert elapsed == [float(f"{row['elapsed_s']:.4g}") for row in rows]
    spent = known["cells"][CELL]["spent"]
    assert spent[0] == pytest.approx(median(elapsed))
    assert spent[1] == pytest.approx(0.6 * spent[0], rel=0.01)
    assert spent[3] == pytest.approx(spent[0] - spent[1] - spent[2], rel=0.01)


def test_every_measured_number_has_its_cells(results: Results, known: dict[str, Any]) -> None:
    for section in table_sections(results):
        points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
        numbers = known["tables"][section.anchor]["numbers"]
        assert len(numbers) == sum(point.value is not None for point in points)
        for number in numbers.values():
            assert len(number["cells"]) == (2 if section.compares else 1)
            assert {*number["cells"]} <= known["cells"].keys()
    assert known["tables"]["table-elapsed"]["compares"] is False


def test_a_comparison_is_said_in_words(known: dict[str, Any]) -> None:
    table = known["tables"]["table-nopack-vs-pack"]
    number = next(n for n in table["numbers"].values() if n["cells"][0] == CELL)
    assert number["cells"][1] == CELL.replace("nopack", "pack")
    assert number["sentences"][0].startswith("elapsed nopack ÷ elapsed pack = 1.2")
    assert "(95 % interval 1.2" in number["sentences"][0]
    assert number["sentences"][1] == "pack is faster."
    assert number["published"] == "+306"


def test_an_interval_without_1_that_is_no_difference_says_why(results: Results) -> None:
    section = next(s for s in table_sections(results) if s.name == "nopack-vs-pack")
    point = next(p for p in section.pairs[0].measured.points if p.value is not None)  # type: ignore[union-attr]
    definition = results.study.tables[section.name]
    row = {**point.row, "call": "too noisy to say", "low": 1.01, "high": 1.2}
    alone = [s for s in said_of(replace(point, row=row), definition) if "by itself" in s]
    assert len(alone) == 1
    wide = replace(point, row={**row, "low": 0.9})
    assert not [s for s in said_of(wide, definition) if "by itself" in s]


def test_a_certificate_is_said_in_words(results: Results) -> None:
    rows = [row for row in results.measurements if row["cell"] == CELL]
    rows = [{**row, "device_bytes": (2 + n) * MIB} for n, row in enumerate(rows)]
    aged = [{**row, "server_age_s": "0.5", "server_same": "True"} for row in rows]
    said = certificate(aged)
    assert said[:4] == [
        "The caches were cleared before a run, by drop_caches.",
        "Of what it works on, in memory: 1.0 % before a run, 90 % after a run.",
        "Client and server read 2.00 MiB to 6.00 MiB from devices in a run.",
        "The server was 0.500 s old when a run began; after each run it was the same process.",
    ]
    assert said[4].startswith("outlier-10, 1 run: A run is more than 10 % from its cell's median.")
    changed = [*aged[:-1], {**aged[-1], "server_same": "False"}]
    assert "same process" not in " ".join(certificate(changed))


def test_a_certificate_says_how_many_runs_may_have_waited_for_the_network(results: Results) -> None:
    rows = [{**row, "server_age_s": "0.5"} for row in results.measurements if row["cell"] == CELL]
    late = [{**rows[0], "delayed_acks": 2.0}, *({**row, "delayed_acks": 0.0} for row in rows[1:])]
    said = [sentence for sentence in certificate(late) if "40 ms" in sentence]
    assert len(said) == 1 and said[0].startswith(f"In 1 of {len(rows)} runs TCP delayed")
    unserved = [{**row, "server_age_s": ""} for row in late]
    assert "40 ms" not in " ".join(certificate(rows) + certificate(unserved))


def test_the_page_carries_it_packed(results: Results, known: dict[str, Any]) -> None:
    tree = parse(build_page(results))
    text = tree.by_id("details").text
    assert json.loads(gzip.decompress(base64.b64decode(text))) == json.loads(json.dumps(known))
    assert packed(known) == text


def test_a_page_without_measurements_carries_none(results: Results) -> None:
    page = build_page(replace(results, measurements=[], contexts=[]))
    assert all(e.attributes.get("id") != "details" for e in parse(page))


@pytest.mark.slow
def test_2500_cell_rounds_fit_in_4_megabytes(tmp_path: Path) -> None:
    made = make_files(tmp_path, rounds=18)
    results = results_of(made)
    assert len({(row["cell"], row["round"]) for row in results.measurements}) >= 2500
    assert len(build_page(results).encode()) < 4_000_000


def test_a_report_on_a_repository_of_ones_own_names_it(results: Results) -> None:
    assert details(results, [])["own"] == ""
    assert details(replace(results, own="/srv/mine"), [])["own"] == "/srv/mine"
