"""The real workflow on a small repository: every access, every cache state, what re-runs, what fails."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from project import Project, measurements_of, needs, servers_of
from vcsbench.machine import Machine, can_drop_caches

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.skipif(not Machine().httpd, reason="no httpd with mod_dav_svn"),
]

STUDY = "fsfs-san-2014"
# Just over a shard, so that there is something to pack.
RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.0222, "seed": 1}}
TINY = {"ruby": {**RUBY["ruby"], "scale": 0.0005}}
ALL = {
    "include": [
        {"command": "log", "format": "f7", "packing": "pack", "config": "slow"},
        {"command": "export", "format": "f6", "packing": "nopack", "config": "slow"},
        {"command": "log", "format": "f7", "packing": "nopack", "config": "slow", "cache": "cold"},
        {
            "command": ["log", "dump", "null-export"],
            "format": "f7",
            "packing": "pack",
            "config": "fast",
            "cache": "hot-svn",
        },
    ]
}
F8 = {
    "command": "log",
    "ra": "file",
    "format": "f8",
    "packing": "nopack",
    "config": "slow",
    "cache": "hot-os",
}


def context(project: Project, cell: str, number: int = 1) -> dict[str, Any]:
    path = project.path / "results" / "cells" / STUDY / cell / f"round{number}.context.json"
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def rows_of(project: Project, path: str) -> list[dict[str, str]]:
    with (project.path / "results" / path).open(newline="") as file:
        return list(csv.DictReader(file))


def elapsed(project: Project, cell: str, number: int = 1) -> float:
    path = project.path / "results" / "cells" / STUDY / cell / f"round{number}.json"
    result = json.loads(path.read_text())["results"][0]
    return float(
        (result.get("times") or [r["time_wall_clock"]["value"] for r in result["measurements"]])[0]
    )


def rerun(said: str) -> int:
    """How many cell-rounds a run of Snakemake ran, or a dry run would run, from what it said."""
    found = re.search(r"(\d+) cell-rounds? to measure|^cell +(\d+)", said, re.MULTILINE)
    return int(found[1] or found[2]) if found else 0


@pytest.fixture(scope="module")
def measured(shared_project: Project) -> Project:
    """A project whose cells were measured once."""
    shared_project.configure(repositories=RUBY, rounds=1, copies=2, grid={STUDY: ALL})
    done = shared_project.snakemake()
    assert done.returncode == 0, done.stdout
    return shared_project


def test_every_cell_has_its_export_and_its_context(measured: Project) -> None:
    with (measured.path / "results" / "grid" / f"{STUDY}.csv").open() as file:
        grid = [row for row in csv.DictReader(file) if row["repo"] != "empty"]
    assert len(grid) == 9 + 9 + 3 + 7 and not any(row["skip"] for row in grid)
    for row in grid:
        assert elapsed(measured, row["cell"]) > 0
        seen = context(measured, row["cell"])
        assert {axis: seen["axes"][axis] for axis in seen["axes"]} == {
            a: row[a] for a in seen["axes"]
        }


def test_each_run_was_what_its_label_says(measured: Project) -> None:
    for export in measured.exports():
        seen = context(measured, str(Path(export).parent.relative_to(STUDY)))
        certificate = seen["runs"][0]["certificate"]
        assert not {"cache-not-cold", "no-disk-reads", "cache-not-warm", "restarted"} & set(
            seen["runs"][0]["flags"]
        ), export
        if seen["axes"]["cache"] == "cold":
            assert certificate["resident_before"] < 0.05 and certificate["device_read_bytes"] > 0
        if seen["axes"]["ra"] in ("svn", "http"):
            assert certificate["server_pid"] > 0 and certificate["server_cpu_s"] > 0
        kept = seen["axes"]["cache"] == "hot-svn"
        assert seen["hooks"]["prepare"].count("start-server") == (0 if kept else 1)


def test_a_cold_log_reads_less_of_a_packed_repository(measured: Project) -> None:
    found = {
        (row["ra"], row["packing"]): row
        for row in rows_of(measured, f"measurements/{STUDY}.csv")
        if (row["command"], row["config"], row["cache"]) == ("log", "slow", "cold")
    }
    for ra in ("svn", "http", "file"):
        loose, packed = (found[ra, packing] for packing in ("nopack", "pack"))
        assert int(loose["device_bytes"]) > 2 * int(packed["device_bytes"]), ra
        assert int(loose["read_calls"]) > int(packed["read_calls"]), ra
        assert bool(loose["instructions"]) != ("instructions" in loose["not_counted"])
    # Once cannot show that counts do not vary; how many times as much is told all the same.
    table = {
        row["ra"]: row for row in rows_of(measured, f"tables/{STUDY}/device-read-by-packing.csv")
    }
    assert {*table} == {"svn", "http", "file"} and {row["cache"] for row in table.values()} == {
        "cold"
    }
    assert all(float(row["ratio"]) > 2 and not row["low"] for row in table.values())


def test_servers_get_the_options_of_their_files(measured: Project) -> None:
    svnserve = context(measured, "log/svn/ruby/f7/pack/fast/hot-svn")["server"]["argv"]
    assert (
        svnserve[-4:] == ["--client-speed", "1000", "--block-read", "yes"]
        and "--threads" in svnserve
    )
    httpd = context(measured, "log/http/ruby/f7/pack/fast/hot-svn")
    assert "SVNBlockRead on" in httpd["server_files"]["httpd.conf"]


def test_no_server_and_no_target_is_left(measured: Project) -> None:
    assert servers_of(measured) == []
    assert [p.name for p in (measured.path / "storage").glob("*/targets/*")] == []


def test_a_second_run_has_nothing_to_do(measured: Project) -> None:
    assert "Nothing to be done" in measured.snakemake().stdout


def test_an_edit_of_a_server_configuration_measures_exactly_its_cells(measured: Project) -> None:
    before = measured.exports()
    args = measured.path / "config" / "servers" / "fast" / "svnserve.args"
    args.write_text(args.read_text().replace("1024", "512"))
    assert measured.measure(STUDY).returncode == 0
    changed = {path for path, at in measured.exports().items() if before[path] != at}
    assert changed == {p for p in before if "/svn/" in p and "/fast/" in p} and len(changed) == 2


def test_more_rounds_and_another_axis_value_measure_only_what_is_new(project: Project) -> None:
    part = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow"}
    keys = {"repositories": TINY, "copies": 2}
    project.configure(**keys, rounds=1, grid={STUDY: {"include": [part]}})
    assert project.measure(STUDY).returncode == 0
    before = project.exports()
    assert len(before) == 9
    project.configure(**keys, rounds=2, grid={STUDY: {"include": [part, F8]}})
    done = project.snakemake("-n")
    assert rerun(done.stdout) == len(before) + 2, done.stdout
    wanted = f"results/cells/{STUDY}/log/file/ruby/f8/nopack/slow/hot-os/round2.json"
    assert project.snakemake(wanted).returncode == 0
    after = project.exports()
    assert {path: after[path] for path in before} == before
    assert context(project, "log/file/ruby/f8/nopack/slow/hot-os", 2)["copy"] == 2


def test_another_source_makes_copies_and_every_cell_anew_in_one_run(project: Project) -> None:
    grid = {STUDY: {"include": [F8]}}
    tiny = {"ruby": {**RUBY["ruby"], "scale": 0.001}}
    project.configure(repositories=tiny, rounds=1, copies=1, grid=grid)
    assert project.measure(STUDY).returncode == 0
    before = context(project, "log/file/ruby/f8/nopack/slow/hot-os")["repository"]
    project.configure(repositories=TINY, rounds=1, copies=1, grid=grid)
    assert project.measure(STUDY).returncode == 0
    after = context(project, "log/file/ruby/f8/nopack/slow/hot-os")["repository"]
    assert (before["youngest"], after["youngest"]) == (46, 23)


def test_copies_that_vanished_are_made_again_and_only_what_is_new_is_measured(
    project: Project,
) -> None:
    keys = {
        "repositories": TINY,
        "copies": 1,
        "grid": {STUDY: {"include": [F8]}},
    }
    project.configure(rounds=1, **keys)
    assert project.measure(STUDY).returncode == 0
    before = project.exports()
    for folder in ("storage", "scratch"):
        subprocess.run(f"rm -rf {project.path / folder}/*", shell=True, check=True)
    project.configure(rounds=2, **keys)
    done = project.measure(STUDY)
    assert done.returncode == 0 and "copies have vanished or were changed" in done.stdout
    after = project.exports()
    assert {path: after[path] for path in before} == before and len(after) == 2


@pytest.mark.slow
def test_cold_is_slower_than_hot_and_hot_server_caches_are_faster(project: Project) -> None:
    cells = {
        cache: f"null-export/svn/ruby/f7/nopack/fast/{cache}"
        for cache in ("cold", "hot-os", "hot-svn")
    }
    # Over svn, with nothing that the client writes: the server's work is what is timed.
    part = {
        "command": "null-export",
        "ra": "svn",
        "format": "f7",
        "packing": "nopack",
        "config": "fast",
    }
    project.configure(repositories=RUBY, rounds=3, copies=1, grid={STUDY: {"include": [part]}})
    done = project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    median = {
        c: statistics.median(elapsed(project, p, n) for n in (1, 2, 3)) for c, p in cells.items()
    }
    assert median["hot-svn"] < median["hot-os"] < median["cold"]
    assert (
        context(project, cells["hot-svn"])["runs"][0]["certificate"]["server_age_s"]
        > median["hot-os"]
    )


def test_a_cell_that_fails_fails_alone_and_is_repeated(project: Project) -> None:
    broken = project.path / "config" / "servers" / "broken"
    subprocess.run(["cp", "-r", project.path / "config" / "servers" / "slow", broken], check=True)
    (broken / "httpd.conf").write_text("SVNNoSuchDirective on\n")
    (broken / "svnserve.args").write_text("--threads --no-such-option\n")
    part = {
        "command": "log",
        "format": "f7",
        "packing": "nopack",
        "config": ["slow", "broken"],
        "cache": "hot-os",
    }
    tiny = {"ruby": {**RUBY["ruby"], "scale": 0.002}}
    project.configure(repositories=tiny, rounds=1, copies=1, grid={STUDY: {"include": [part]}})
    done = project.tool("run", f"--study={STUDY}")
    assert done.returncode != 0
    assert len(project.exports()) == 4, "the other cells are measured"
    logs = project.path / "results" / "logs" / "cells" / STUDY
    log = (logs / "log/http/ruby/f7/nopack/broken/hot-os/round1.log").read_text()
    assert "httpd did not start" in log and "SVNNoSuchDirective" in log and "Traceback" not in log
    log = (logs / "log/svn/ruby/f7/nopack/broken/hot-os/round1.log").read_text()
    assert "svnserve did not start" in log and "no-such-option" in log
    report = (project.path / "reports" / f"{STUDY}.html").read_text()
    assert "SVNNoSuchDirective" in report, "the report is made, and names the failure"
    for name in ("httpd.conf", "svnserve.args"):
        (broken / name).write_text("" if name == "httpd.conf" else "--threads\n")
    before = project.exports()
    again = project.tool("run", f"--study={STUDY}")
    assert again.returncode == 0, again.stdout
    after = project.exports()
    assert {path: after[path] for path in before} == before and len(after) == 6
    assert "SVNNoSuchDirective" not in (project.path / "reports" / f"{STUDY}.html").read_text()


def test_a_run_over_the_time_limit_fails_with_that_sentence(project: Project) -> None:
    part = {
        "command": "log",
        "ra": "svn",
        "format": "f7",
        "packing": "nopack",
        "config": "slow",
        "cache": "hot-os",
    }
    tiny = {"ruby": {**RUBY["ruby"], "scale": 0.002}}
    project.configure(
        repositories=tiny, rounds=1, copies=1, time_limit_s=0.001, grid={STUDY: {"include": [part]}}
    )
    done = project.measure(STUDY)
    assert done.returncode != 0 and project.exports() == {}
    log = (
        project.path
        / "results/logs/cells"
        / STUDY
        / "log/svn/ruby/f7/nopack/slow/hot-os/round1.log"
    )
    assert "a run took longer than 0.001 s" in log.read_text()
    assert servers_of(project) == []


def test_killed_workflow_leaves_nothing_that_measures(project: Project) -> None:
    part = {"command": "log", "ra": "svn", "format": "f7", "packing": "nopack", "config": "slow"}
    tiny = {"ruby": {**RUBY["ruby"], "scale": 0.002}}
    project.configure(repositories=tiny, rounds=20, copies=1, grid={STUDY: {"include": [part]}})
    running = subprocess.Popen(
        project.command(measurements_of(STUDY)),
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while len(project.exports()) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    time.sleep(1.5)
    assert servers_of(project) == []
    done = len(project.exports())
    assert 3 <= done < 60
    time.sleep(1.5)
    assert len(project.exports()) == done, "nobody goes on measuring"
