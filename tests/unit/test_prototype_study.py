"""What the study of the server prototype has and others have not: axes that apply to some cells only, several
runs against one server, builds by two names, counts beside the published ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from unit.study_grid import study_grid
from vcsbench.axes.cache import STATES
from vcsbench.config.configuration import merge
from vcsbench.config.study import load_study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.evidence.judgement import promised
from vcsbench.measure.work import UrlNormaliser, inspect_trees, read_verified
from vcsbench.plan.grid import CellSpec, make_grid
from vcsbench.plan.recipe import parts_of
from vcsbench.run import inputs
from vcsbench.run.project import open_environment
from vcsbench.statistics.findings import evaluate_findings
from vcsbench.statistics.published import read_published
from vcsbench.statistics.tables import make_table
from vcsbench.statistics.verdicts import is_expected

ROOT = Path(__file__).parent.parent.parent
STUDY = "server-prototype-2010"
STUDY_FILE = ROOT / "config" / "studies" / f"{STUDY}.yaml"
DEFAULT = ROOT / "config" / "config.yaml"


made = partial(study_grid, STUDY)


def paths(*include: dict[str, Any], **over: Any) -> list[str]:
    return [cell.path for cell in made(*include, **over)[1] if "/empty/" not in cell.path]


TRUNK = {"repo": "kde", "build": "trunk"}


def test_an_axis_stands_in_a_path_only_where_it_applies() -> None:
    assert paths({**TRUNK, "command": "log -v", "cache": "hot"}) == [
        "log-v/file/kde/trunk/hot/-/-"  # over file alone, though the grid names no access
    ]
    found = paths({**TRUNK, "command": "export", "wire_compression": ["off", "on"]})
    assert found == [
        "export/svn/kde/trunk/-/off/-",
        "export/svn/kde/trunk/-/on/-",
        "export/file/kde/trunk/-/-/-",
    ]
    assert paths(
        {**TRUNK, "command": "exports", "wire_compression": "off", "clients": ["16", "2"]}
    ) == ["exports/svn/kde/trunk/-/off/2", "exports/svn/kde/trunk/-/off/16"]


def parts(cell: CellSpec, here: Any) -> dict[str, Any]:
    return parts_of(here.config.studies[STUDY], cell.axes, here)


def test_what_a_cell_has_beside_its_axes() -> None:
    here, (export, _) = made({**TRUNK, "command": "export", "ra": "svn", "wire_compression": "on"})
    of_export = parts(export, here)
    assert of_export["server_options"] == ["--compression", "1"]
    assert of_export["servers"] == "config/servers/threaded"
    assert of_export["state"]["promises"] == STATES["series"]["promises"]
    assert (of_export["runs"], "clients" in of_export) == (3, False)
    assert of_export["repository"]["packing"] == "nopack"
    here, cells = made({"command": "exports", "repo": "tsvn_packed", "build": "trunk"})
    assert [parts(cell, here)["clients"] for cell in cells[:2]] == [1, 2]
    assert parts(cells[0], here)["repository"]["packing"] == "pack"  # its definition says so


def test_a_repository_is_a_value_of_the_studies_that_it_is_for() -> None:
    raw = merge(read_yaml(DEFAULT), {"studies": ["fsfs-san-2014"], "duplicates": 0})
    here = open_environment(raw, ROOT, [DEFAULT])
    grid = make_grid(here, here.config.studies["fsfs-san-2014"], lambda axes: "")
    assert {cell.axes["repo"] for cell in grid} == {"ruby", "empty"}


@pytest.mark.parametrize(
    ("axis", "value", "sentence"),
    [
        ("wire_compression", "gzip", "gzip is no level; say off, on or a number from 0 to 9"),
        ("wire_compression", "10", "10 is no level"),
        ("clients", "many", "many is no number of clients; say one from 1 to 256"),
        ("clients", "0", "0 is no number of clients"),
    ],
)
def test_a_value_that_cannot_be_is_one_sentence(axis: str, value: str, sentence: str) -> None:
    here, _ = made()
    study = here.config.studies[STUDY]
    study.axes[axis] = [value]
    with pytest.raises(UserError, match=f"`axes.{axis}`: {sentence}"):
        make_grid(here, study, lambda axes: "")


def test_a_build_that_the_grid_measures_has_to_be_named() -> None:
    here, cells = made({"command": "verify", "repo": "kde", "build": ["trunk", "prototype"]})
    assert parts(cells[0], here)["build"]["name"] == "trunk"  # what the PATH has
    other = next(cell for cell in cells if cell.axes["build"] == "prototype")
    with pytest.raises(UserError, match=r"`builds\.prototype` is missing, which the grid measures"):
        parts(other, here)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"trace_syscalls": {"users": ["1"]}},
            "`trace_syscalls`: the study has no axis users. Use one of command, ra",
        ),
        (
            {"defaults": {"colour": "red"}},
            "`defaults.colour`: there is no such axis. Use one of build, cache",
        ),
        (
            {"defaults": {"config": "quick"}},
            "config/servers/quick: there is no such server configuration",
        ),
    ],
)
def test_a_study_that_names_what_there_is_not_is_one_sentence(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    study = {**read_yaml(STUDY_FILE), **change}
    file = tmp_path / f"{STUDY}.yaml"
    file.write_text(yaml.safe_dump(study, sort_keys=False))
    here, cells = made({**TRUNK, "command": "verify"})
    with pytest.raises(UserError) as caught:
        parts_of(load_study(file), cells[0].axes, here)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_of_several_runs_the_first_is_promised_something_else() -> None:
    promises = STATES["series"]["promises"]
    assert promised(promises, 1) == {"os": "cold", "server": "new"}
    assert promised(promises, 2) == promised(promises, 3) == {"os": "hot", "server": "kept"}
    assert promised({"os": "hot"}, 2) == {"os": "hot"}


def test_what_verify_says_it_has_verified_is_its_work() -> None:
    lines = [b"* Verifying metadata at revision 0 ...\n"]
    lines += [b"* Verified revision %d.\n" % number for number in range(4)]
    assert read_verified(iter(lines), UrlNormaliser("")) == {"revisions": 4, "youngest": 3}  # type: ignore[arg-type]


def test_clients_did_the_same_where_all_of_their_trees_are_equal(tmp_path: Path) -> None:
    for client in ("1", "2"):
        (tmp_path / client).mkdir()
        (tmp_path / client / "file").write_text("same")
    assert inspect_trees(tmp_path, UrlNormaliser(""))["files"] == 1
    (tmp_path / "2" / "file").write_text("other")
    assert inspect_trees(tmp_path, UrlNormaliser("")) == {"different_trees": 2}


class Wildcards:
    study = STUDY


def published() -> tuple[Any, pd.DataFrame]:
    study = load_study(STUDY_FILE)
    metadata = inputs.published_metadata(Wildcards)
    fixed = {f"{ROOT}/{path}": values for path, values in metadata["fixed"].items()}
    frame = read_published(list(fixed), list(study.axes), ["run"], fixed, metadata["inapplicable"])
    return study, frame


def table(name: str) -> pd.DataFrame:
    study, frame = published()
    order = {axis: list(dict.fromkeys(frame[axis])) for axis in study.axes}
    return make_table(frame, name, study.tables[name], order, study.block)


def test_the_published_counts_stand_as_they_were_published() -> None:
    said = pd.read_csv(ROOT / "config/published/server-prototype-2010-io.csv")
    made = table("io").set_index(["command", "repo", "build", "count"])["value"]
    for row in said.to_dict("records"):
        for name in ("opens_read_only", "opens_read_write", "seeks", "bytes_read", "reads"):
            key = (row["command"], row["repo"], row["build"], name)
            assert (key in made.index) == (row[name] == row[name])
            if row[name] == row[name]:
                assert made[key] == row[name]


def test_the_published_throughput_stands_by_run_and_by_client() -> None:
    made = table("throughput").set_index(["repo", "wire_compression", "run"])["value"]
    assert made["kde", "off", "3"] == 148 and made["kde", "on", "1"] == 12.2
    many = table("throughput-by-clients").set_index(["clients", "wire_compression"])["value"]
    assert many.to_dict() == {("many", "off"): 800.0, ("many", "on"): 120.0}


def test_every_finding_holds_on_the_published_numbers() -> None:
    _, frame = published()
    checks = inputs.findings(Wildcards)
    rows = evaluate_findings(checks, list(load_study(STUDY_FILE).axes), frame, None, by=["run"])
    assert len(rows) == 9
    for check, (_, row) in zip(checks, rows.iterrows(), strict=True):
        assert is_expected(check, row["published"]), row


def test_times_and_counts_of_one_cell_are_one_row() -> None:
    _, frame = published()
    axes = ["command", "ra", "repo", "build", "cache"]
    row = frame[(frame[axes] == ["verify", "file", "tsvn", "trunk", "hot"]).all(axis=1)]
    assert row["elapsed_s"].dropna().tolist() == [242.246]
    assert row["opens_read_only"].dropna().tolist() == [4802975]
    exported = frame[(frame["command"] == "export") & frame["opens_read_only"].notna()]
    assert set(exported["ra"]) == {"file"} and set(exported["cache"]) == {""}
