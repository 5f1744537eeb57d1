"""Cells on a small repository: every access and cache state, repeated cells, failed cells."""

import re
import shutil

import pytest

from project import STUDY, needs, ruby, servers_of
from vcsbench.machine import can_drop_caches
from vcsbench.programs import Programs

pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches"),
    pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn"),
]

LOG = {"command": "log", "format": "f7", "packing": "nopack", "config": "slow"}
FAST = {"format": "f7", "packing": "nopack", "config": "fast", "cache": "hot-server"}
ALL = [
    LOG,
    {**LOG, "command": "export", "access": "http", "cache": "cold"},
    {**FAST, "command": ["log", "dump", "null-export"], "access": ["svn", "http"]},
]
HOT = {**LOG, "access": ["svn", "file"], "cache": "hot-os"}
F8 = {**LOG, "access": "file", "format": "f8", "cache": "hot-os"}
F8_CELL = "log/file/ruby/f8/nopack/slow/hot-os"


def elapsed(project, cell):
    (result,) = project.json(f"cells/{STUDY}/{cell}/round1.json")["results"]
    if result.get("times"):
        return float(result["times"][0])
    return float(result["measurements"][0]["time_wall_clock"]["value"])


@pytest.fixture(scope="module")
def measured(shared_project):
    shared_project.configure(*ALL)
    shared_project.succeed("measured", f"results/tables/{STUDY}")
    return shared_project


def test_run_has_export_and_context_of_each_cell_and_leaves_nothing(measured):
    grid = [row for row in measured.rows(f"grid/{STUDY}.csv") if row["repo"] != "empty"]
    assert len(grid) == 9 + 1 + 5 and not any(row["skip"] for row in grid)
    for row in grid:
        assert elapsed(measured, row["cell"]) > 0
        axes = measured.context(STUDY, row["cell"])["axes"]
        assert axes == {axis: row[axis] for axis in axes}
    assert servers_of(measured) == []
    assert not list((measured.path / "storage").glob("*/targets/*"))
    assert measured.is_complete(f"results/tables/{STUDY}")


def test_served_export_has_the_compressed_size_of_its_files(measured):
    cells = {row["cell"]: row["command"] for row in measured.rows(f"grid/{STUDY}.csv")}
    for cell, command in cells.items():
        for run in measured.context(STUDY, cell)["runs"]:
            has_size = "compressed_bytes" in run
            assert has_size == (command == "export")
            # An empty tree has no work.
            if has_size and run["work"]:
                assert 0 < run["compressed_bytes"] < run["work"]["bytes"]
                assert run["evidence"]["server_wchar"] > run["compressed_bytes"]
    assert "export" in cells.values()


@pytest.mark.slow
def test_run_cold_log_of_packed_repository_reads_less(project):
    part = {**LOG, "packing": ["nopack", "pack"], "cache": "cold"}
    project.configure(part, repositories=ruby(0.0222))
    project.succeed(f"results/tables/{STUDY}")
    found = {
        (row["access"], row["packing"]): row for row in project.rows(f"measurements/{STUDY}.csv")
    }
    for access in ("svn", "http", "file"):
        loose, packed = (found[access, packing] for packing in ("nopack", "pack"))
        assert int(loose["device_bytes"]) > 2 * int(packed["device_bytes"]), access
        assert int(loose["read_calls"]) > int(packed["read_calls"]), access
        assert bool(loose["instructions"]) != bool(loose["instructions_why_not"])
    table = {
        row["access"]: row for row in project.rows(f"tables/{STUDY}/device-read-by-packing.csv")
    }
    assert {*table} == {"svn", "http", "file"}
    assert {row["cache"] for row in table.values()} == {"cold"}
    # One round has a ratio and no interval.
    assert all(float(row["ratio"]) > 2 and not row["low"] for row in table.values())


def test_servers_get_options_of_their_files(measured):
    argv = measured.context(STUDY, "log/svn/ruby/f7/nopack/fast/hot-server")["server"]["argv"]
    assert argv[-4:] == ["--client-speed", "1000", "--block-read", "yes"] and "--threads" in argv
    httpd = measured.context(STUDY, "log/http/ruby/f7/nopack/fast/hot-server")
    assert "SVNBlockRead on" in httpd["server_files"]["httpd.conf"]


def test_server_configuration_edited_measures_its_cells_only(measured):
    before = measured.exports()
    args = measured.path / "config" / "servers" / "fast" / "svnserve.args"
    args.write_text(args.read_text().replace("1024", "512"))
    measured.succeed("measured")
    changed = measured.measured_since(before)
    assert changed == {p for p in before if "/svn/" in p and "/fast/" in p} and len(changed) == 2


# The two cells of HOT are among those measured. The tests below extend the project in their order.
def test_new_rounds_and_values_are_measured_alone(measured):
    before = measured.exports()
    measured.configure(HOT, F8, rounds=2, copies=2)
    done = measured.snakemake("-n")
    found = re.search(r"(\d+) cell-rounds? to measure|^cell +(\d+)", done.stdout, re.MULTILINE)
    assert found and int(found[1] or found[2]) == 4, done.stdout
    measured.succeed(f"results/cells/{STUDY}/{F8_CELL}/round2.json")
    assert not measured.measured_since(before) & before.keys()
    assert measured.context(STUDY, F8_CELL, 2)["copy"] == 2


def test_copies_lost_are_made_again_and_keep_results(measured):
    before = measured.exports()
    for folder in ("storage", "scratch"):
        for path in (measured.path / folder).iterdir():
            shutil.rmtree(path)
    measured.configure(HOT, rounds=2)
    measured.succeed("measured")
    new = measured.measured_since(before)
    assert len(new) == 2 and not new & before.keys()


def test_source_changed_makes_copies_and_cells_again(measured):
    cell = "log/file/ruby/f7/nopack/slow/hot-os"
    before = measured.context(STUDY, cell)["repository"]["youngest"]
    measured.configure({**HOT, "access": "file"}, repositories=ruby(0.001))
    measured.succeed("measured")
    assert (before, measured.context(STUDY, cell)["repository"]["youngest"]) == (23, 46)


@pytest.mark.slow
def test_failed_cells_are_reported_and_measured_by_the_next_run(project):
    broken = project.path / "config" / "servers" / "broken"
    shutil.copytree(project.path / "config" / "servers" / "slow", broken)
    (broken / "httpd.conf").write_text("SVNNoSuchDirective on\n")
    (broken / "svnserve.args").write_text("--threads --no-such-option\n")
    project.configure({**HOT, "access": ["svn", "http"], "config": ["slow", "broken"]})
    output = project.tool("run", f"--study={STUDY}", code=1)
    for chatter in ("RuleException", "rule cell:", "jobid", "\r", "\x1b"):
        assert chatter not in output
    stages = ("cell-rounds to measure", "loaded ruby f7 in ", "made the copies on disk in ")
    places = [output.index(stage) for stage in stages]
    assert places == sorted(places)
    assert len(project.exports()) == 2
    # The second call of Snakemake, which makes the report, keeps the copies.
    assert output.count("made the copies on") == 1
    for access, server, option in (
        ("http", "httpd", "SVNNoSuchDirective"),
        ("svn", "svnserve", "no-such-option"),
    ):
        log = project.log(STUDY, f"log/{access}/ruby/f7/nopack/broken/hot-os")
        assert f"{server} did not start" in log and option in log and option in output
        assert "Traceback" not in log
    assert "SVNNoSuchDirective" in project.page(STUDY)
    (broken / "httpd.conf").write_text("")
    (broken / "svnserve.args").write_text("--threads\n")
    before = project.exports()
    project.tool("run", "measured")
    new = project.measured_since(before)
    assert len(new) == 2 and not new & before.keys()
    assert project.rows(f"failures/{STUDY}.csv") == []
