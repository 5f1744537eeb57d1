"""The study of working copies from grid to report, on file systems that the run makes."""

import json
import subprocess
from pathlib import Path

import pytest

from project import ROOT, free_port, invalid_flags, mounted, needs, ruby, wait_for
from vcsbench.axes.client_axes import REFLINK_LIBRARY
from vcsbench.storages.cell_filesystem import why_cannot_make
from vcsbench.systems import SUBVERSION

STUDY = "working-copy-2012"
MAKEABLE = ("btrfs", "ext4", "xfs", "tmpfs")
PLAIN = {"repo": "large", "reflink": "off", "pristines": "stored"}
ON_BTRFS = {**PLAIN, "filesystem": "btrfs", "sqlite_locking": "default"}

pytestmark = needs("svn", "svnserve", "hyperfine")


def makes(*kinds):
    why = next(filter(None, map(why_cannot_make, kinds)), "")
    return pytest.mark.skipif(bool(why), reason=why)


clones = pytest.mark.skipif(
    not (ROOT / REFLINK_LIBRARY).exists(), reason="set-up has not built the library of clones"
)


def configure(project, *include, **over):
    usual = {"repositories": ruby(0.01, "large", "large-tree"), "runs": "auto"}
    usual |= {"filesystems": dict.fromkeys(MAKEABLE, "make")}
    project.configure(*include, study=STUDY, **{**usual, **over})
    library = project.path / REFLINK_LIBRARY
    if (ROOT / REFLINK_LIBRARY).exists() and not library.exists():
        library.parent.mkdir(parents=True)
        library.symlink_to(ROOT / REFLINK_LIBRARY)


def reasons(project):
    return {row["cell"]: row["reason"] for row in project.rows(f"failures/{STUDY}.csv")}


def mounts_of(project):
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    lines = [*(file.read_text() for file in loops), *mounts]
    return [line for line in lines if str(project.path) in line]


@pytest.mark.slow
@makes(*MAKEABLE)
@clones
def test_working_copy_study_runs_from_grid_to_report(project):
    configure(
        project,
        {**PLAIN, "command": "checkout", "sqlite_locking": "default"},
        {**PLAIN, "command": "update-null", "filesystem": "ext4"},
        {**ON_BTRFS, "command": ["checkout", "update-1000"], "reflink": "on"},
        {**ON_BTRFS, "command": "update-1000"},
        {**PLAIN, "command": "checkout", "filesystem": "ext4", "reflink": "on"},
    )
    project.succeed()
    assert not mounts_of(project)
    skips = {row["cell"]: row["skip"] for row in project.rows(f"grid/{STUDY}.csv") if row["skip"]}
    assert "no reflinks" in skips["checkout/large/ext4/on/default/stored/-"]
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(runs) == []
    # Checkouts and updates end at the same tree.
    (work,) = {run["work"] for run in runs}
    assert json.loads(work)["files"] > 200
    assert_evidence_of_working_copies(project, runs)
    assert_disk_usage(runs, json.loads(work)["bytes"])
    verdicts = {row["id"]: row for row in project.rows(f"findings/{STUDY}.csv")}
    assert float(verdicts["reflink-disk-usage"]["published"]) == pytest.approx(573 / 361)
    assert float(verdicts["reflink-disk-usage"]["measured"]) > 1.2
    assert verdicts["exclusive-locking-checkout-nfs"]["verdict"] == "not measured"


def assert_evidence_of_working_copies(project, runs):
    for run in runs:
        # As numbers: as text, run 9 is above run 10.
        last = max(int(other["run"]) for other in runs if other["cell"] == run["cell"])
        if int(run["run"]) == last:
            # An update reads few files, and the kernel may page out idle ones. Clones are not in memory
            # before a program reads them.
            idle = 0.5 if run["command"] != "checkout" else 0.95
            parts = {"pristines": idle, "database": 0.95}
            if run["reflink"] == "off":
                parts["working"] = idle
            for part, minimum in parts.items():
                assert float(run[f"{part}_resident"]) > minimum, (run["cell"], part)
    locks = {
        locking: project.context(STUDY, f"update-null/large/ext4/off/{locking}/stored/-")["locks"]
        for locking in ("default", "exclusive")
    }
    assert locks["exclusive"] < 30 < locks["default"]
    update = "update-1000/large/btrfs/{}/default/stored/-"
    working_copy = project.context(STUDY, update.format("off"))["working_copy"]
    first, last = working_copy["revisions"]
    assert last - first == 10  # 1,000 at the scale 0.01
    mount = working_copy["filesystem"]
    assert mount["filesystem"] == "btrfs" and mount["direct_io"] is True
    assert mount["made"] is True and "rw" in mount["mount_options"]
    cloned = project.context(STUDY, update.format("on"))["working_copy"]["cloned"]
    assert len(cloned) == 2 and min(cloned) > 0


def assert_disk_usage(runs, tree):
    used = {run["cell"]: run["used_bytes"] for run in runs}
    assert not used["update-null/large/ext4/off/default/stored/-"]
    for kind in MAKEABLE:  # a working copy has each file twice
        assert float(used[f"checkout/large/{kind}/off/default/stored/-"]) > 2 * tree
    shared = {run["cell"]: run["shared_bytes"] for run in runs}
    assert float(shared["checkout/large/btrfs/off/default/stored/-"]) == 0
    assert float(shared["checkout/large/btrfs/on/default/stored/-"]) > 0.5 * tree
    assert not shared["checkout/large/tmpfs/off/default/stored/-"]


@pytest.mark.slow
@makes("btrfs", "ext4")
@clones
def test_client_settings_without_effect_fail_their_cells(project):
    configure(
        project,
        {**ON_BTRFS, "command": "checkout", "reflink": ["off", "on"]},
        {**PLAIN, "command": "update-null", "filesystem": "ext4"},
    )
    library = project.path / REFLINK_LIBRARY
    library.unlink()
    # A library without functions.
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True)
    axis = project.path / "workflow/vcsbench/axes/client_axes.py"
    axis.write_text(axis.read_text().replace("exclusive-locking=yes", "exclusive-locking=no"))
    project.tool("run", "measured", code=1)
    found = {cell: why for cell, why in reasons(project).items() if "/empty/" not in cell}
    locking = "update-null/large/ext4/off/exclusive/stored/-"
    assert set(found) == {"checkout/large/btrfs/on/default/stored/-", locking}
    assert "exclusive" in found.pop(locking)
    assert "did nothing" in found.popitem()[1]


@pytest.mark.slow
@makes("tmpfs")
def test_filesystems_of_the_user_keep_their_files_and_may_be_full(project):
    folder = project.path / "user"
    folder.mkdir()
    (folder / "file").write_text("mine")
    with mounted(project.path / "small", "size=1m") as small:
        part = {**PLAIN, "sqlite_locking": "default"}
        configure(
            project,
            {**part, "command": ["checkout", "update-1000"], "filesystem": "home"},
            {**part, "command": "checkout", "filesystem": ["tmpfs", "tiny"]},
            filesystems={"tmpfs": "make", "tiny": str(small), "home": str(folder)},
        )
        project.tool("run", "measured", code=1)
        ((cell, why),) = reasons(project).items()
        assert cell.split("/")[2] == "tiny" and "No space left" in why
        assert not list(small.rglob("*.svn*"))
        assert len(project.exports()) == 3
    assert (folder / "file").read_text() == "mine" and not list(folder.rglob("wc.db"))
    context = project.context(STUDY, "checkout/large/home/off/default/stored/-")
    assert context["working_copy"]["filesystem"]["made"] is False


@pytest.mark.slow
@makes("tmpfs")
def test_remote_server_is_measured_without_server_evidence(project):
    part = {**PLAIN, "command": "update-1000", "filesystem": "tmpfs", "sqlite_locking": "default"}
    configure(project, part)
    project.prepare()
    folder = Path(project.json("repositories/disk.json")["place"])
    (copy,) = (folder / "repositories").glob("large.*.1")
    port = free_port()
    argv = ["svnserve", "-d", "--foreground", "--listen-host", "127.0.0.1", "--listen-port"]
    with subprocess.Popen([*argv, str(port), "-r", copy.parent]) as server:
        try:
            remote = {"host": "elsewhere", "url": f"svn://127.0.0.1:{port}/{copy.name}"}
            configure(project, part, server=remote)
            project.succeed("measured")
            context = project.context(STUDY, "update-1000/large/tmpfs/off/default/stored/-")
            assert context["remote"] == remote and context["server"] is None
            assert all("server" not in run["promises"] for run in context["runs"])
            run = project.rows(f"measurements/{STUDY}.csv")[0]
            assert not run["server_cpu_s"] and not invalid_flags([run])
            # The served repository has to equal the local copy.
            empty = f"svn://127.0.0.1:{port}/{SUBVERSION.empty_name}"
            configure(project, part, server={**remote, "url": empty})
            output = project.fail("measured")
            assert "relocate" in output and "has uuid" in output
        finally:
            server.kill()


def test_remote_server_skips_cells_of_server_settings(project):
    study = "fsfs-san-2014"
    part = {"command": "log", "access": "svn", "repo": "ruby", "cache": "hot-os", "config": "slow"}
    project.configure(part, server={"host": "elsewhere", "url": "svn://elsewhere/large"})
    project.succeed(f"results/grid/{study}.csv")
    skips = {row["skip"] for row in project.rows(f"grid/{study}.csv")}
    assert len(skips) == 1 and "elsewhere" in skips.pop()


@pytest.mark.slow
@makes("btrfs")
def test_run_killed_leaves_nothing_mounted(project):
    part = {**PLAIN, "command": "checkout", "filesystem": "btrfs"}
    configure(project, part, rounds=30)
    cells = project.path / "results/cells"
    argv, nowhere = project.command(f"results/measurements/{STUDY}.csv"), subprocess.DEVNULL
    with subprocess.Popen(argv, cwd=project.path, stdout=nowhere, stderr=nowhere) as run:
        wait_for(lambda: list(cells.rglob("round*.json")) or run.poll() is not None)
        assert run.poll() is None
        run.kill()
    wait_for(lambda: not mounts_of(project))
    configure(project, part)
    # The tool removes the lock that the killed run left.
    project.tool("run", "measured")
    assert not list((project.path / "storage").glob("vcsbench-*/targets/*"))
