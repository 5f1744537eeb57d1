"""Cells that did other work: the ratios of a real run are withheld with the reason."""

import json
import os
import shutil
import subprocess

import pytest

from project import STUDY, needs, ruby, write_program
from vcsbench.storages import folder_states
from vcsbench.subjects.repository import read_metadata, write_metadata

pytestmark = needs("svn", "svnadmin", "svnmucc", "hyperfine")

TINY = ruby(0.002)
CELLS = {"access": "file", "format": ["f6", "f7", "f8"], "packing": "nopack", "config": "slow"}

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
*" export "*) kind=export ;;
*" log "*) kind=log ;;
*) exec {svn} "$@" ;;
esac
case "$*" in
*f6.nopack.2*) copy=f6 ;;
*f7.nopack.2/*) copy=f7 ;;
*) copy=other ;;
esac
number=$(runs "$kind-$copy")
if [ "$kind" = export ]; then
    {svn} "$@" || exit
    # Each run starts the same programs: another one would be other libraries.
    file=$(find "$target" -type f | sort | tail -n 1)
    [ "$copy:$number" = f7:2 ] || file=$file.none
    rm -f "$file"
    exit
fi
case "$copy:$number $*" in
f6:2* | *f8.nopack*) shorter "$@" ;;
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
    assert not any(numbers) and not found.get("call") and found["withheld"] == "other-work", found
    return found["detail"]


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
    program = project.path / "workflow/vcsbench/run/cell_job.py"
    text = program.read_text()
    assert "MAX_RETRIES = 2\n" in text
    program.write_text(text.replace("MAX_RETRIES = 2\n", "MAX_RETRIES = 0\n"))
    project.configure(part, repositories=TINY, rounds=2, copies=2)
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


def copy_path(project, fmt):
    return next((project.path / "storage").glob(f"*/repositories/ruby.{fmt}.nopack.1"))


def youngest(copy):
    return int((copy / "db" / "current").read_text().split()[0])


def shorten(copy):
    """Remove the last revision of a copy."""
    last = youngest(copy)
    for kind in ("revs", "revprops"):
        (copy / "db" / kind / "0" / str(last)).unlink()
    (copy / "db" / "current").write_text(f"{last - 1}\n")
    (copy / "db" / "rep-cache.db").unlink()


def alter_a_file(copy):
    tree = ["svn", "list", "-R", f"file://{copy}/trunk"]
    listed = subprocess.run(tree, check=True, capture_output=True, text=True).stdout.splitlines()
    file = next(name for name in listed if not name.endswith("/"))
    url = f"file://{copy}/trunk/{file}"
    content = subprocess.run(["svn", "cat", url], check=True, capture_output=True).stdout
    shorten(copy)
    changed = content[:-1] + (b"!" if content[-1:] != b"!" else b"?")
    (copy / "changed").write_bytes(changed)
    put = ["svnmucc", "-m", "Altered", "put", copy / "changed", url]
    subprocess.run(put, check=True, stdout=subprocess.DEVNULL)


def alter_an_author(copy):
    look = ["svnlook", "author", "-r", "5", copy]
    author = subprocess.run(look, check=True, capture_output=True, text=True).stdout.strip()
    (copy / "author").write_text(author[:-1] + ("x" if author[-1] != "x" else "y"))
    setting = ["svnadmin", "setrevprop", copy, "-r", "5", "svn:author", copy / "author"]
    subprocess.run(setting, check=True)


def damage(project, fmt, how):
    """Damage a copy, accept its state, and remove the results of its cells."""
    copy = copy_path(project, fmt)
    how(copy)
    state = {"state": folder_states.read_state(copy), "youngest": youngest(copy)}
    write_metadata(copy, {**read_metadata(copy), **state})
    results = project.path / "results"
    for command in ("log/file", "export/file", "dump/-"):
        cells = results / "cells" / STUDY / command / "ruby" / fmt
        shutil.rmtree(cells, ignore_errors=True)
    for folder in ("measurements", "tables"):
        shutil.rmtree(results / folder, ignore_errors=True)


def measure(project):
    project.succeed("measured", f"results/tables/{STUDY}")


@pytest.mark.slow
def test_copy_damaged_with_accepted_state_is_detected(project):
    part = {**CELLS, "command": ["log", "export", "dump"], "cache": "hot-os"}
    project.configure(part, repositories=TINY)
    project.prepare()
    damage(project, "f7", alter_an_author)
    measure(project)
    for command in ("log", "dump"):
        reason = withheld(project, "f6-vs-f7", command)
        assert reason.startswith(f"{command}: f6 and f7: ") and "contents" in reason
        one, other = works(project, command)["f6"][0], works(project, command)["f7"][0]
        assert {key for key in one if one[key] != other[key]} == {"digest"}
    # An export has no author.
    assert withheld(project, "f6-vs-f7", "export") == withheld(project, "f7-vs-f8", "export") == ""
    damage(project, "f6", alter_a_file)
    damage(project, "f8", shorten)
    measure(project)
    reason = withheld(project, "f6-vs-f7", "export")
    assert reason.startswith("export: f6 and f7: ") and "contents" in reason
    last = youngest(copy_path(project, "f7"))
    reason = withheld(project, "f7-vs-f8", "log")
    assert reason.startswith(f"log: {last} revisions (f7) against {last - 1} (f8)")
    reason = withheld(project, "f7-vs-f8", "dump")  # with revision 0
    assert reason.startswith(f"dump: {last + 1} revisions (f7) against {last} (f8)")
