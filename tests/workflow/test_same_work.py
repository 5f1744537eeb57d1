"""Cells that did other work: the ratios of a real run are withheld with the reason."""

import json
import os
import shutil

import pytest

from project import STUDY, needs, ruby, write_program

pytestmark = needs("svn", "svnadmin", "svnmucc", "hyperfine")

TINY = ruby(0.002)
CELLS = {"ra": "file", "format": ["f6", "f7", "f8"], "packing": "nopack", "config": "slow"}

# A client in front of the real one. The second run, which is timed, loses a file of the export from
# the second copy of f7, and prints a short log of the second copy of f6. Each log of f8 is short.
CLIENT = """#!/bin/sh
runs() {{
    echo >> "{state}/$1"
    wc -l < "{state}/$1"
}}
shorter() {{
    for word; do
        [ "$word" = 50000 ] && word=20
        set -- "$@" "$word"
        shift
    done
    exec {svn} "$@"
}}
for target; do :; done
case "$*" in
*" export "*f7.nopack.2/*)
    number=$(runs export)
    {svn} "$@" || exit
    [ "$number" -ne 2 ] || find "$target" -type f | sort | tail -n 1 | xargs rm
    exit
    ;;
*" log "*f8.nopack*) shorter "$@" ;;
*" log "*f6.nopack.2*) [ "$(runs log)" -ne 2 ] || shorter "$@" ;;
esac
exec {svn} "$@"
"""


def row(project, table, command):
    found = [r for r in project.rows(f"tables/{STUDY}/{table}.csv") if r["command"] == command]
    assert len(found) == 1, found
    return found[0]


def withheld(project, table, command):
    """Return the reason why a table withholds the ratio of a command, or ""."""
    found = row(project, table, command)
    numbers = [found[name] for name in ("value", "ratio", "low", "high")]
    if "other-work" not in found["flags"].split():
        assert found["value"] and found["ratio"] and not found["withheld"], found
        return ""
    assert not any(numbers) and not found.get("call") and found["withheld"], found
    return found["withheld"]


def works(project, command):
    found = {}
    for run in project.rows(f"measurements/{STUDY}.csv"):
        if run["command"] == command:
            found.setdefault(run["format"], []).append(json.loads(run["work"]))
    return found


@pytest.fixture
def odd_client(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("client")
    write_program(folder / "svn", CLIENT.format(svn=shutil.which("svn"), state=folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.usefixtures("odd_client")
@pytest.mark.slow
def test_client_leaving_out_work_is_detected(project):
    part = {**CELLS, "command": ["log", "export"], "cache": "hot-os"}
    # The client counts its runs, so no run may be measured again.
    no_retry = {"ignore_below_mib": 1000}
    project.configure(part, repositories=TINY, rounds=2, copies=2, thresholds=no_retry)
    project.succeed()
    # The timed export of round 2 lacks a file, and its warm-up run has it.
    trees = works(project, "export")
    assert trees["f6"][0] == trees["f6"][1] == trees["f7"][0] == trees["f8"][0] == trees["f8"][1]
    files = trees["f6"][0]["files"]
    assert trees["f7"][1]["files"] == files - 1
    for table in ("f6-vs-f7", "f7-vs-f8"):
        reason = withheld(project, table, "export")
        assert reason.startswith("export: the rounds of f7 ")
        assert f"{files - 1} files against {files}" in reason or f"{files} files against" in reason
    # The log of f8 has another limit.
    revisions = works(project, "log")["f6"][0]["revisions"]
    assert revisions > 20
    reason = withheld(project, "f7-vs-f8", "log")
    assert reason.startswith(f"log: {revisions} revisions (f7) against 20 (f8), ")
    # The timed run printed less than the run that was read: only that run is in no table.
    runs = [r for r in project.rows(f"measurements/{STUDY}.csv") if "other-output" in r["flags"]]
    assert [(r["command"], r["format"], r["round"]) for r in runs] == [("log", "f6", "2")]
    assert withheld(project, "f6-vs-f7", "log") == ""
    assert row(project, "f6-vs-f7", "log")["n"] in ("1", "1.0")
    page = project.page(STUDY)
    assert "other work" in page and reason in page
    other_work = {
        situation["where"]["command"]: [axes["format"] for axes, _ in situation["other_work"]]
        for situation in project.json(f"advice/{STUDY}.json")["situations"]
    }
    assert other_work["export"] == ["f7"] and other_work["log"] == ["f8"]
