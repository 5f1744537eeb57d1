"""Reading a study's results: text stays text, what is missing is empty, what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.report_files import DEFINITIONS, default_grid, default_study, make_files
from unit.synthetic import AXES
from vcsbench.errors import UserError
from vcsbench.report.results import read_records, read_results

SMALL = {**AXES, "command": ["log"], "ra": ["svn"], "cache": ["cold"], "packing": ["pack"]}


def test_axis_values_stay_text_and_numbers_become_numbers(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("repo,value,ratio,n,flags\n007,1.5,,5,\nNA,,inf,,too-short\n")
    assert read_records(path) == [
        {"repo": "007", "value": 1.5, "ratio": None, "n": 5.0, "flags": ""},
        {"repo": "NA", "value": None, "ratio": None, "n": None, "flags": "too-short"},
    ]


def test_missing_file_has_no_rows(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none.csv") == []


@pytest.mark.parametrize("content", [b"value\nmany\n", b"value\n\xff\xfe\n"])
def test_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"table\.csv: .*delete"):
        read_records(path)


def test_contexts_are_those_of_the_measurements_in_their_order(tmp_path: Path) -> None:
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2)
    stale = made.results / "cells" / made.name / "log/gone/round1.context.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    results = read_results(default_study(), made.results, DEFINITIONS, {})
    assert [(c["cell"], c["round"]) for c in results.contexts] == [
        (cell, number) for number in (1, 2) for cell in made.cells
    ]
    assert len(results.contexts) == len(results.measurements) == 4


def test_damaged_context_is_named(tmp_path: Path) -> None:
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=1)
    made.context(made.cells[0], 1).write_text('{"cell": ')
    with pytest.raises(UserError, match=r"round1\.context\.json: is not JSON"):
        read_results(default_study(), made.results, DEFINITIONS, {})


def test_nothing_there_reads_as_nothing(tmp_path: Path) -> None:
    results = read_results(default_study(), tmp_path, DEFINITIONS, {})
    assert not (results.grid or results.measurements or results.contexts or results.texts)
    assert set(results.tables) == set(default_study().tables)
    assert "cold-packed-f7-log" in results.definitions
