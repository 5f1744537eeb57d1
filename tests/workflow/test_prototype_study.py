"""The study of the server prototype runs from grid to report: three runs against one server, many clients, a
wire that compresses, system calls, two builds."""

from __future__ import annotations

import csv
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from project import ROOT, Project, needs, servers_of
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches

STUDY = "server-prototype-2010"
TSVN = {"source": "generated", "profile": "tsvn", "scale": 0.003, "seed": 1}
TRUNK = {"repo": "tsvn", "build": "trunk"}


def rows(project: Project, path: str) -> list[dict[str, str]]:
    with (project.path / "results" / path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def configure(project: Project, *include: dict[str, Any], **over: Any) -> None:
    usual: dict[str, Any] = {
        "studies": [STUDY],
        "repositories": {"tsvn": TSVN},
        "rounds": 1,
        "copies": 1,
        "grid": {STUDY: {"include": list(include)}},
    }
    project.configure(**{**usual, **over})


@needs("svn", "svnserve", "hyperfine", "strace")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_the_study_runs_from_grid_to_report(whole_project: Project) -> None:
    project = whole_project
    configure(
        project,
        {**TRUNK, "command": "verify"},
        {**TRUNK, "command": "export", "wire_compression": ["off", "on"]},
        {**TRUNK, "command": "checkout", "ra": "svn", "wire_compression": "off"},
        {**TRUNK, "command": "exports", "wire_compression": "off", "clients": ["1", "3"]},
        {**TRUNK, "command": ["log -v", "log -q"], "cache": "hot"},
    )
    # `exports` of three clients is no value of the study as it stands.
    file = project.path / "config" / "studies" / f"{STUDY}.yaml"
    file.write_text(file.read_text().replace('clients: ["1", "2",', 'clients: ["1", "2", "3",'))
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    runs = rows(project, f"measurements/{STUDY}.csv")
    labels = [" ".join(set(run["flags"].split()) - {"clock"}) for run in runs]
    assert not list(filter(is_invalid, labels)), labels
    by_command = {name: [r for r in runs if r["command"] == name] for name in ("export", "exports")}
    _runs_against_one_server(project, by_command["export"])
    _many_clients(by_command["exports"])
    _counts(project)
    _results(project)


def _runs_against_one_server(project: Project, runs: list[dict[str, str]]) -> None:
    served = [run for run in runs if run["ra"] == "svn" and run["wire_compression"] == "off"]
    assert [run["run"] for run in served] == ["1", "2", "3"]
    assert len({run["server_pid"] for run in served}) == 1
    assert [run["server_runs_before"] for run in served] == ["0", "1", "2"]
    assert [bool(run["cache_cleared_by"]) for run in served] == [True, False, False]
    for wire, level in (("off", "0"), ("on", "1")):
        path = f"results/cells/{STUDY}/export/svn/tsvn/trunk/-/{wire}/-/round1.context.json"
        argv = json.loads((project.path / path).read_text())["server"]["argv"]
        assert argv[-2:] == ["--compression", level] and "--threads" in argv
    # One kind of work over every access, so that they may be compared.
    assert len({run["work"] for run in runs}) == 1


def _many_clients(runs: list[dict[str, str]]) -> None:
    one, three = (next(r for r in runs if r["clients"] == n) for n in ("1", "3"))
    assert one["work"] == three["work"]
    assert float(three["tree_bytes"]) == 3 * float(one["tree_bytes"]) > 0
    assert float(three["fastest_client_s"]) <= float(three["slowest_client_s"])
    assert (
        float(three["slowest_client_s"]) <= float(three["carried_s"]) <= float(three["elapsed_s"])
    )
    assert float(three["server_cpu_s"]) > 0 and float(three["user_s"]) > 0


def _counts(project: Project) -> None:
    io = {
        (row["command"], row["cache"], row["count"]): float(row["value"])
        for row in rows(project, f"tables/{STUDY}/io.csv")
    }
    assert io["verify", "hot", "bytes_read"] > 1e6 and io["verify", "hot", "writes"] == 0
    tree = next(r for r in rows(project, f"measurements/{STUDY}.csv") if r["command"] == "export")
    exported = json.loads(tree["work"])
    # Each file is opened once to be written, and all of its bytes are.
    assert io["export", "", "opens_read_write"] >= exported["files"]
    assert io["export", "", "bytes_written"] >= exported["bytes"]
    assert io["log -v", "hot", "opens_read_only"] >= io["log -q", "hot", "opens_read_only"] > 0
    counted = [
        str(p.relative_to(project.path)) for p in project.path.glob("results/calls/**/*.json")
    ]
    assert len([path for path in counted if "/exports/" in path]) == 1  # of one client
    server = json.loads(
        (project.path / f"results/calls/{STUDY}/export/svn/tsvn/trunk/-/off/-.json").read_text()
    )["server"]
    assert server["opens_read_only"] > 0  # the repository's files


def _results(project: Project) -> None:
    verdicts = {row["id"]: row for row in rows(project, f"findings/{STUDY}.csv")}
    assert verdicts["hot-export-throughput"]["measured"]
    assert "build prototype" in verdicts["prototype-verify"]["why"]
    assert float(verdicts["many-clients-throughput"]["published"]) == 800
    assert verdicts["prototype-verify-opens"]["verdict"] == "not measured"
    throughput = rows(project, f"tables/{STUDY}/throughput.csv")
    assert {row["run"] for row in throughput} == {"1", "2", "3"}
    page = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert "throughput" in page


@needs("svn", "svnserve", "hyperfine")
def test_a_client_that_hangs_ends_all_and_the_server(project: Project) -> None:
    """The second of three never comes back."""
    prefix = project.path / "hangs" / "bin"
    prefix.mkdir(parents=True)
    for program in ("svn", "svnserve", "svnadmin"):
        real = shutil.which(program)
        hang = 'case "$*" in */targets/*/2) exec sleep 60;; esac\n' if program == "svn" else ""
        (prefix / program).write_text(f'#!/bin/sh\n{hang}exec {real} "$@"\n')
        (prefix / program).chmod(0o755)
    (project.path / "hangs").chmod(0o755)
    libraries = str(Path(_library()).parent)
    configure(
        project,
        {**TRUNK, "command": "exports", "wire_compression": "off", "clients": "2"},
        builds={"trunk": {"prefix": "hangs", "library_path": libraries}},
        time_limit_s=3,
    )
    began = time.monotonic()
    done = project.measure(STUDY)
    assert time.monotonic() - began < 60
    assert "Traceback" not in done.stdout
    assert done.returncode != 0
    (log, *_) = (project.path / "results" / "logs" / "cells").rglob("round1.log")
    assert "a run took longer than 3 s and was ended" in log.read_text(), done.stdout
    assert not servers_of(project) and not _sleeping(project)


def _library() -> str:
    """Where the system's Subversion libraries are."""
    found = Path("/usr/lib").glob("*/libsvn_subr-1.so.1")
    return str(next(iter(found), "/usr/lib/libsvn_subr-1.so.1"))


def _sleeping(project: Project) -> list[str]:
    """The processes of clients that were left."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cwd, words = (entry / "cwd").readlink(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if cwd == project.path and words.startswith(b"sleep\0"):
                found.append(entry.name)
    return found


@needs("svn", "svnserve", "hyperfine")
@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (
            {"clients": "3"},
            "`grid.server-prototype-2010.include[0].clients`: '3' has no definition",
        ),
        ({"build": "prototype"}, "`builds.prototype` is missing, which the grid measures"),
        ({"wire_compression": "lz4"}, "wire_compression`: 'lz4' has no definition"),
    ],
)
def test_a_value_that_cannot_be_is_one_sentence_before_anything_is_measured(
    project: Project, grid: dict[str, str], sentence: str
) -> None:
    configure(project, {**TRUNK, "command": "exports", **grid})
    done = project.snakemake("-n")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert sentence in done.stdout


@needs("svn", "svnserve", "hyperfine", "strace")
@pytest.mark.slow
def test_two_real_builds_are_compared(trixie: Path, whole_project: Project) -> None:
    """The worked example: the system's Subversion as trunk, another release's as prototype."""
    project = whole_project
    example = read_yaml(ROOT / "config" / "prototype.yaml")
    project.configure(
        **{**example, "rounds": 2, "repositories": {"tsvn": TSVN}, "copies": 1},
    )
    raw = read_yaml(project.config)
    raw["builds"] = {"trunk": {}, "prototype": {"prefix": str(trixie)}}
    for part in raw["grid"][STUDY]["include"]:
        part["repo"] = "tsvn"
    project.configure(**raw)
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    versions = {r["build"]: r["client_version"] for r in rows(project, f"measurements/{STUDY}.csv")}
    assert versions["trunk"] != versions["prototype"]
    table = rows(project, f"tables/{STUDY}/trunk-vs-prototype.csv")
    assert {"verify", "export"} <= {row["command"] for row in table}
    assert all(row["ratio"] or row["withheld"] for row in table)
    verdicts = {row["id"]: row for row in rows(project, f"findings/{STUDY}.csv")}
    for name in ("prototype-verify", "prototype-verify-opens", "prototype-verify-reads"):
        assert verdicts[name]["measured"], verdicts[name]
