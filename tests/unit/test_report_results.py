"""The results of a study, as they are read from the files of a run."""

import json

import pandas as pd
import pytest

from project import slow
from unit.report_files import default_grid, default_study, make_files, results_of
from unit.synthetic import AXES
from vcsbench.errors import UserError
from vcsbench.evidence.column_names import NUMBER_COLUMNS, RUN_COLUMNS_NEEDED
from vcsbench.evidence.measurements import read_frame
from vcsbench.report.cell_details import collect_details
from vcsbench.report.results import (
    REQUIRED_COLUMNS,
    Provenance,
    Results,
    read_records,
)
from vcsbench.statistics import comparisons

SMALL = {**AXES, "command": ["log"], "access": ["svn"], "cache": ["cold"], "packing": ["pack"]}


@pytest.fixture
def made(tmp_path):
    return make_files(tmp_path, axes=SMALL, skip=default_grid, rounds=2)


@pytest.mark.parametrize(
    ("config", "variables"),
    [
        ({}, "REPO=old TREE=x LOG=log "),
        ({"repository": "/new", "tree": None, "server_log": "/l"}, "REPO=/new LOG=/l "),
        ({"repository": None, "tree": "y"}, "TREE=y "),
        # The command has quotes around a `~`, so that no shell would expand it.
        ({"repository": "~/x", "server_log": "~/l"}, "REPO=/home/ann/x LOG=/home/ann/l "),
    ],
)
def test_command_has_the_repository_of_the_configuration_in_place_of_the_last_run(
    monkeypatch, config, variables
):
    monkeypatch.setenv("HOME", "/home/ann")
    command = "vcsbench run --repository=old --tree=x --server-log=log -k --config seed=2"
    provenance = Provenance(command=command, config=config)
    results = Results(default_study(), {}, provenance=provenance)
    assert (
        results.command.text()
        == f"make report {variables}STUDY=fsfs-san-2014 ARGS='--config seed=2'"
    )
    assert collect_details(results, [])["of"]["log"] == results.command.server_log


def test_read_records_converts_numbers_and_keeps_axis_values(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("repo,value,ratio,n,flags\n007,1.5,,5,\nNA,,inf,,short\n")
    assert read_records(path) == [
        {"repo": "007", "value": 1.5, "ratio": None, "n": 5.0, "flags": ""},
        {"repo": "NA", "value": None, "ratio": None, "n": None, "flags": "short"},
    ]
    assert read_records(tmp_path / "none.csv") == []


def test_pages_and_tables_read_the_same_values(made):
    files = [path for path in made.results.rglob("*.csv") if path.parent.name != "grid"]
    assert {path.parent.name for path in files} >= {"measurements", "findings", made.name}
    for path in files:
        frame = read_frame(path)
        records = frame.astype(object).where(frame.notna(), None).to_dict("records")
        assert read_records(path) == records


def test_numbers_of_tables_and_verdicts_are_read_as_numbers(made):
    files = [*made.results.glob("tables/*/*.csv"), *made.results.glob("findings/*.csv")]
    numeric = set()
    for path in files:
        numeric |= {*pd.read_csv(path).dropna(axis="columns", how="all").select_dtypes("number")}
    assert numeric >= {"ratio", "n", "value", "published", "measured"}
    assert numeric <= NUMBER_COLUMNS


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
        read_records(path, complete=["round", "run"] if b"run" in content else [])


def test_read_results_has_the_contexts_of_the_measurements_in_order(made):
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


def test_read_results_has_the_loads_of_the_measured_scale_and_formats_only(made):
    for cell in made.cells:
        for number in (1, 2):
            path = made.context(cell, number)
            context = json.loads(path.read_text())
            used = {"identity": "new", "format": context["axes"]["format"], "packing": "pack"}
            context["repository"] |= used
            path.write_text(json.dumps(context))

    def record(fmt, pack_seconds, **load):
        packed = {"seconds_by_state": {"pack": pack_seconds, "nopack": 99.0}}
        for kind, content in (("loaded", load), ("packed", packed)):
            path = made.results / kind / "ruby" / f"{fmt}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"format": fmt, **content}))

    record("f6", 2.0, identity="new", seconds=20.0)
    record("f7", 30.0, identity="old", seconds=300.0)
    record("f4", 9.0, identity="new", seconds=90.0)
    f6 = {"format": "f6", "identity": "new", "seconds": 20.0}
    assert results_of(made).loads == {"ruby": {**f6, "seconds_by_state": {"pack": 2.0}}}
    record("f7", 3.0, identity="new")
    assert results_of(made).loads == {"ruby": {**f6, "seconds_by_state": {"pack": 3.0}}}


def test_read_results_with_a_missing_column_names_file_and_column(made):
    required = {f"{kind}/{made.name}": columns for kind, columns in REQUIRED_COLUMNS.items()}
    required[f"tables/{made.name}/f6-vs-f7"] = comparisons.list_columns([])
    required[f"measurements/{made.name}"] = RUN_COLUMNS_NEEDED
    for stem, (*others, missing) in required.items():
        path = made.results / f"{stem}.csv"
        path.parent.mkdir(exist_ok=True)
        whole = path.read_text() if path.exists() else ",".join([*others, missing])
        path.write_text(",".join(others) + "\nx" + "," * (len(others) - 1) + "\n")
        with pytest.raises(UserError, match=rf"{path.name}: .*`{missing}`"):
            results_of(made)
        path.write_text(whole)
    assert results_of(made).measurements


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("budget", "[]"),
        slow("budget", '{"blocks": 5}'),
        slow("provenance", "5"),
        slow("provenance", '{"changed": 5}'),
        slow("history", "nothing"),
    ],
)
def test_read_results_with_a_damaged_record_names_it(made, kind, content):
    path = made.results / kind / f"{made.name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(UserError, match=rf"{kind}/{path.name}: .*damaged"):
        results_of(made)
