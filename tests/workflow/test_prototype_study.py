"""The prototype study from grid to report: runs against one server, many clients, wire compression,
system calls, two builds."""

import json

import pytest

from project import invalid_flags, needs, ruby
from vcsbench.machine import can_drop_caches

STUDY = "server-prototype-2010"
TSVN = ruby(0.003, "tsvn", "tsvn")
TRUNK = {"repo": "tsvn", "build": "trunk"}


@needs("svn", "svnserve", "hyperfine", "strace")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_prototype_study_runs_from_grid_to_report(project):
    project.configure(
        {**TRUNK, "command": "verify"},
        {**TRUNK, "command": "export", "wire_compression": "off"},
        {**TRUNK, "command": "export", "ra": "svn", "wire_compression": "on"},
        {**TRUNK, "command": "exports", "wire_compression": "off", "clients": ["1", "3"]},
        {**TRUNK, "command": ["log -v", "log -q"], "cache": "hot"},
        study=STUDY,
        repositories=TSVN,
    )
    # The study has no value for three clients.
    file = project.path / "config" / "studies" / f"{STUDY}.yaml"
    file.write_text(file.read_text().replace('clients: ["1", "2",', 'clients: ["1", "2", "3",'))
    project.succeed()
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(runs) == []
    by_command = {name: [r for r in runs if r["command"] == name] for name in ("export", "exports")}
    assert_runs_share_one_server(project, by_command["export"])
    assert_many_clients_do_the_same_work(by_command["exports"])
    assert_calls_are_counted(project)
    assert_findings_and_tables(project)


def assert_runs_share_one_server(project, runs):
    served = [run for run in runs if run["ra"] == "svn" and run["wire_compression"] == "off"]
    assert [run["run"] for run in served] == ["1", "2", "3"]
    assert len({run["server_pid"] for run in served}) == 1
    assert [run["server_runs_before"] for run in served] == ["0", "1", "2"]
    assert [bool(run["cache_cleared_by"]) for run in served] == [True, False, False]
    for wire, level in (("off", "0"), ("on", "1")):
        context = project.context(STUDY, f"export/svn/tsvn/trunk/-/{wire}/-")
        promises = [tuple(run["promises"].values()) for run in context["runs"]]
        assert promises == [("cold", "new"), ("hot", "kept"), ("hot", "kept")]
        argv = context["server"]["argv"]
        assert argv[-2:] == ["--compression", level] and "--threads" in argv
    assert len({run["work"] for run in runs}) == 1


def assert_many_clients_do_the_same_work(runs):
    one, three = (next(r for r in runs if r["clients"] == n) for n in ("1", "3"))
    assert one["work"] == three["work"]
    assert float(three["tree_bytes"]) == 3 * float(one["tree_bytes"]) > 0
    names = ("fastest_client_s", "slowest_client_s", "carried_s", "elapsed_s")
    seconds = [float(three[name]) for name in names]
    assert seconds == sorted(seconds)
    assert float(three["server_cpu_s"]) > 0 and float(three["user_s"]) > 0


def assert_calls_are_counted(project):
    io = {
        (row["command"], row["cache"], row["count"]): float(row["value"])
        for row in project.rows(f"tables/{STUDY}/io.csv")
    }
    assert io["verify", "hot", "bytes_read"] > 1e6 and io["verify", "hot", "writes"] == 0
    tree = next(r for r in project.rows(f"measurements/{STUDY}.csv") if r["command"] == "export")
    exported = json.loads(tree["work"])
    # Each file is opened and written once.
    assert io["export", "", "opens_read_write"] >= exported["files"]
    assert io["export", "", "bytes_written"] >= exported["bytes"]
    assert io["log -v", "hot", "opens_read_only"] >= io["log -q", "hot", "opens_read_only"] > 0
    counted = project.path.glob("results/calls/**/*.json")
    assert len([path for path in counted if "exports" in path.parts]) == 1  # of one client
    server = project.json(f"calls/{STUDY}/export/svn/tsvn/trunk/-/off/-.json")["server"]
    assert server["opens_read_only"] > 0  # files of the repository


def assert_findings_and_tables(project):
    verdicts = {row["id"]: row for row in project.rows(f"findings/{STUDY}.csv")}
    assert verdicts["hot-export-throughput"]["measured"]
    assert "build prototype" in verdicts["prototype-verify"]["why"]
    assert float(verdicts["many-clients-throughput"]["published"]) == 800
    assert verdicts["prototype-verify-opens"]["verdict"] == "not measured"
    throughput = project.rows(f"tables/{STUDY}/throughput.csv")
    assert {row["run"] for row in throughput} == {"1", "2", "3"}
    assert "throughput" in project.page(STUDY)
