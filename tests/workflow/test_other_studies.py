"""The SSD study, the prototype study from grid to report, and the default grids of all studies."""

import json
from pathlib import Path

import pytest

from project import CONFIG, ROOT, invalid_flags, needs, open_folder, ruby
from vcsbench.config.configuration import EMPTY
from vcsbench.config.validation import read_yaml
from vcsbench.evidence.flags import is_invalid
from vcsbench.machine import can_drop_caches
from vcsbench.storages import guest

SSD = "fsfs-ssd-2014"
PROTOTYPE = "server-prototype-2010"


@pytest.fixture
def memory():
    with open_folder("/dev/shm") as path:
        yield path


@pytest.mark.slow
@needs("svn", "svnadmin", "hyperfine")
def test_load_is_timed_into_new_repositories_and_verified(project, memory):
    load = {"command": "load", "format": "f7", "config": ["slow", "fast"]}
    load_f6 = {"command": "load", "format": "f6", "config": "slow", "storage": "ssd"}
    dump = {"command": "dump", "format": "f7", "packing": "nopack", "storage": "ssd"}
    dump |= {"config": "slow", "cache": "hot"}
    storages = {"ssd": str(project.path / "storage"), "ram": str(memory)}
    keys = {"repositories": ruby(0.002), "storages": storages, "storage": "ssd"}
    project.configure(load, load_f6, dump, study=SSD, **keys)
    project.succeed(f"reports/{SSD}.html")
    runs = {row["cell"]: row for row in project.rows(f"measurements/{SSD}.csv")}
    loads = {cell: row for cell, row in runs.items() if row["command"] == "load"}
    assert len(loads) == 5 and not invalid_flags([*runs.values()])
    (loaded,) = {row["work"] for row in loads.values()}
    work, record = json.loads(loaded), project.json("dumps/ruby.json")
    # The published study loads 5,000 revisions of ruby. The scale applies to them.
    assert work["youngest"] == record["last"] == 10
    assert record["youngest"] == 92
    dumped = json.loads(runs["dump/-/ruby/f7/nopack/ssd/slow/hot"]["work"])
    assert {**dumped, "youngest": 10} == work
    assert {row["format"] for row in loads.values()} == {"f6", "f7"}
    for cell, row in loads.items():
        context = project.context(SSD, cell)
        assert context["stdin"] == record["path"]
        written = Path(context["written"])
        on = {"ssd": project.path / "storage", "ram": memory}[row["storage"]]
        assert written.is_relative_to(on) and not written.exists()
        assert ("--no-flush-to-disk" in context["argv"]) == (row["config"] == "fast")


TSVN = ruby(0.003, "tsvn", "tsvn")
TRUNK = {"repo": "tsvn", "build": "trunk"}


@pytest.mark.slow
@needs("svn", "svnserve", "hyperfine", "strace")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
def test_prototype_study_runs_from_grid_to_report(project):
    project.configure(
        {**TRUNK, "command": "verify"},
        {**TRUNK, "command": "export", "wire_compression": "off"},
        {**TRUNK, "command": "export", "access": "svn", "wire_compression": "on"},
        {**TRUNK, "command": "exports", "wire_compression": "off", "clients": ["1", "3"]},
        {**TRUNK, "command": ["log -v", "log -q"], "cache": "hot"},
        study=PROTOTYPE,
        repositories=TSVN,
    )
    # The study has no value for three clients.
    file = project.path / "config" / "studies" / f"{PROTOTYPE}.yaml"
    file.write_text(file.read_text().replace('clients: ["1", "2",', 'clients: ["1", "2", "3",'))
    project.succeed()
    runs = project.rows(f"measurements/{PROTOTYPE}.csv")
    assert invalid_flags(runs) == []
    by_command = {name: [r for r in runs if r["command"] == name] for name in ("export", "exports")}
    assert_runs_share_one_server(project, by_command["export"])
    assert_many_clients_do_the_same_work(by_command["exports"])
    assert_calls_are_counted(project)
    assert_findings_and_tables(project)


def assert_runs_share_one_server(project, runs):
    served = [run for run in runs if run["access"] == "svn" and run["wire_compression"] == "off"]
    assert [run["run"] for run in served] == ["1", "2", "3"]
    assert len({run["server_pid"] for run in served}) == 1
    assert [run["server_runs_before"] for run in served] == ["0", "1", "2"]
    assert [bool(run["cache_cleared_by"]) for run in served] == [True, False, False]
    for wire, level in (("off", "0"), ("on", "1")):
        context = project.context(PROTOTYPE, f"export/svn/tsvn/trunk/-/{wire}/-")
        promises = [tuple(run["promises"].values()) for run in context["runs"]]
        assert promises == [("cold", "new"), ("hot", "kept"), ("hot", "kept")]
        hooks = context["hooks"]
        assert "clear-caches" in hooks["first"] and "clear-caches" not in hooks["prepare"]
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
        for row in project.rows(f"tables/{PROTOTYPE}/io.csv")
    }
    assert io["verify", "hot", "bytes_read"] > 1e6 and io["verify", "hot", "writes"] == 0
    runs = project.rows(f"measurements/{PROTOTYPE}.csv")
    exported = json.loads(next(run["work"] for run in runs if run["command"] == "export"))
    # Each file is opened and written once.
    assert io["export", "", "opens_read_write"] >= exported["files"]
    assert io["export", "", "bytes_written"] >= exported["bytes"]
    assert io["log -v", "hot", "opens_read_only"] >= io["log -q", "hot", "opens_read_only"] > 0
    counted = project.path.glob("results/calls/**/*.json")
    assert len([path for path in counted if "exports" in path.parts]) == 1  # of one client
    server = project.json(f"calls/{PROTOTYPE}/export/svn/tsvn/trunk/-/off/-.json")["server"]
    assert server["opens_read_only"] > 0  # files of the repository


def assert_findings_and_tables(project):
    verdicts = {row["id"]: row for row in project.rows(f"findings/{PROTOTYPE}.csv")}
    assert verdicts["hot-export-throughput"]["measured"]
    assert '"build": ["prototype"]' in verdicts["prototype-verify"]["reasons"]
    assert float(verdicts["many-clients-throughput"]["published"]) == 800
    assert verdicts["prototype-verify-opens"]["verdict"] == "not measured"
    throughput = project.rows(f"tables/{PROTOTYPE}/throughput.csv")
    assert {row["run"] for row in throughput} == {"1", "2", "3"}
    assert "throughput" in project.page(PROTOTYPE)


DEFAULT = read_yaml(CONFIG / "config.yaml")
# One full shard for the cells on packed repositories.
SCALES = {"ruby": 0.0218, "large": 0.01, "small": 0.004, "linux": 0.01}
STUDIES = [name for name in DEFAULT["grid"] if name != "own-repository"]


@pytest.mark.slow
@needs("svn", "svnserve", "hyperfine")
@pytest.mark.skipif(not can_drop_caches(), reason="takes root to drop caches")
@pytest.mark.parametrize("study", STUDIES)
def test_default_grid_has_no_invalid_run(project, study):
    scaled = {
        name: {**repository, "scale": SCALES.get(name, repository["scale"])}
        for name, repository in DEFAULT["repositories"].items()
    }
    if (ROOT / guest.TOOLS).exists():
        (project.path / ".tools").mkdir()
        (project.path / guest.TOOLS).symlink_to((ROOT / guest.TOOLS).resolve())
    with open_folder("/dev/shm") as memory:
        storage = str(project.path / "storage")
        storages = {"disk": storage, "ssd": storage, "ram": str(memory)}
        project.configure(study=study, repositories=scaled, storages=storages)
        project.succeed("measured")
    runs = project.rows(f"measurements/{study}.csv")
    grid = [row for row in project.rows(f"grid/{study}.csv") if not row["skip"]]
    fixed_cost = project.rows(f"fixed-cost/{study}.csv")
    for rows, is_empty in ((runs, False), (fixed_cost, True)):
        cells = {row["cell"] for row in grid if (row.get("repo") == EMPTY) is is_empty}
        assert {run["cell"] for run in rows} == cells
    assert [(run["cell"], run["flags"]) for run in runs if is_invalid(run["flags"])] == []
    if study == "fsfs-san-2014":
        # Each format, packing and access does the same work.
        words = {word for run in runs for word in run["flags"].split()}
        assert not words & {"other-work", "work-unknown", "other-output"}
    if study == "working-copy-2012" and not guest.why_unavailable(ROOT):
        assert {"nfs", "guest-local"} <= {run["filesystem"] for run in runs}
