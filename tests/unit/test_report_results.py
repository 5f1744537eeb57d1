"""The results of a study, as they are read from the files of a run."""

import pytest

from unit.report_files import default_grid, make_files, results_of
from unit.synthetic import AXES
from vcsbench.errors import UserError
from vcsbench.report.results import MEASUREMENT_COLUMNS, REQUIRED_COLUMNS, read_records
from vcsbench.statistics import comparisons

SMALL = {**AXES, "command": ["log"], "access": ["svn"], "cache": ["cold"], "packing": ["pack"]}


def test_read_records_converts_numbers_and_keeps_axis_values(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("repo,value,ratio,n,flags\n007,1.5,,5,\nNA,,inf,,short\n")
    assert read_records(path) == [
        {"repo": "007", "value": 1.5, "ratio": None, "n": 5.0, "flags": ""},
        {"repo": "NA", "value": None, "ratio": None, "n": None, "flags": "short"},
    ]
    assert read_records(tmp_path / "none.csv") == []


@pytest.mark.parametrize(
    "content",
    [
        b"value\nmany\n",
        b"value\n\xff\xfe\n",
        *(b"round,run\n%s,1\n" % n for n in (b"", b"nan", b"1e999")),
    ],
)
def test_read_records_of_a_damaged_file_names_it(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"table\.csv: "):
        read_records(path, ["round", "run"] if b"run" in content else [])


def test_read_results_has_the_contexts_of_the_measurements_in_order(tmp_path):
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2)
    stale = made.results / "cells" / made.name / "log/gone/round1.context.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    contexts = results_of(made).contexts
    assert [(c["cell"], c["round"]) for c in contexts] == [
        (cell, number) for number in (1, 2) for cell in made.cells
    ]
    made.context(made.cells[0], 1).write_text('{"cell": ')
    with pytest.raises(UserError, match=r"round1\.context\.json: "):
        results_of(made)


def test_read_results_with_a_missing_column_names_file_and_column(tmp_path):
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2)
    required = {f"{kind}/{made.name}": columns for kind, columns in REQUIRED_COLUMNS.items()}
    required[f"tables/{made.name}/f6-vs-f7"] = comparisons.list_columns([])
    required[f"measurements/{made.name}"] = MEASUREMENT_COLUMNS
    for stem, (*others, missing) in required.items():
        path = made.results / f"{stem}.csv"
        path.parent.mkdir(exist_ok=True)
        whole = path.read_text() if path.exists() else ",".join([*others, missing])
        path.write_text(",".join(others) + "\nx" + "," * (len(others) - 1) + "\n")
        with pytest.raises(UserError, match=rf"{path.name}: the column `{missing}` is missing"):
            results_of(made)
        path.write_text(whole)
    assert results_of(made).measurements


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("budget", "[]"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("budget", '{"blocks": 5}'),
                ("provenance", "5"),
                ("provenance", '{"changed": 5}'),
                ("history", "nothing"),
            ]
        ),
    ],
)
def test_read_results_with_a_damaged_record_names_it(tmp_path, kind, content):
    made = make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2)
    path = made.results / kind / f"{made.name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(UserError, match=rf"{kind}/{path.name}: the file is damaged"):
        results_of(made)
