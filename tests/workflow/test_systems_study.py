"""The study systems: the same history in four systems, through their own servers."""

import json

import pytest

from project import invalid_flags, needs, ruby

STUDY = "systems"
SYSTEMS = ["subversion", "git", "mercurial", "fossil"]
CELL = {"repo": "common", "network": "loopback", "cache": "hot-os"}

pytestmark = [pytest.mark.slow, needs("hyperfine", "hg", "fossil", "git", "svnserve")]


@pytest.fixture(scope="module")
def measured(shared_project):
    project = shared_project
    operations = ["first copy", "update", "log", "log of a file", "annotate"]
    project.configure(
        {**CELL, "operation": operations, "access": ["svn", "git", "http", "file"]},
        {**CELL, "operation": "first copy", "cache": "cold", "access": ["svn", "git", "http"]},
        # Each client has to reach a server in another network.
        {**CELL, "operation": "update", "network": "namespace", "access": ["svn", "git", "http"]},
        study=STUDY,
        repositories=ruby(0.006, "common"),
    )
    project.succeed(f"reports/{STUDY}.html")
    return project


@pytest.fixture(scope="module")
def runs(measured):
    return measured.rows(f"measurements/{STUDY}.csv")


def test_all_systems_are_measured_and_no_run_is_invalid(runs):
    assert {run["system"] for run in runs} == set(SYSTEMS)
    assert not {run["cell"]: run["flags"] for run in runs if invalid_flags([run])}


@pytest.mark.parametrize("operation", ["first copy", "update"])
def test_all_systems_have_the_same_files(runs, operation):
    works = {}
    for run in runs:
        if run["operation"] == operation:
            works.setdefault(json.loads(run["work"])["digest"], []).append(run["command"])
    assert len(works) == 1, works


def test_annotations_are_of_the_same_file(runs):
    lines = {}
    for run in runs:
        if run["operation"] == "annotate" and run["system"] != "fossil":
            lines[run["system"]] = json.loads(run["work"])["lines"]
    assert set(lines) == {"subversion", "git", "mercurial"}
    assert len(set(lines.values())) == 1 and min(lines.values()) > 5


def test_client_disk_has_all_history_but_for_subversion_and_shallow_clones(runs):
    disk = {
        run["command"]: int(float(run["kept_bytes"]))
        for run in runs
        if run["operation"] == "first copy"
    }
    assert all(disk.values())
    assert disk["git clone shallow"] < disk["git clone"]
