"""The study of working copies runs from grid to report on file systems that are made, and a working copy that
is not what its cell says fails that cell."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from project import ROOT, Project, needs
from vcsbench.axes.client_server import REFLINK_LIBRARY
from vcsbench.evidence.flags import is_invalid
from vcsbench.storages.filesystems import why_cannot_make

STUDY = "working-copy-2012"
LARGE = {"large": {"source": "generated", "profile": "large-tree", "scale": 0.01, "seed": 1}}
MAKEABLE = ("btrfs", "ext4", "xfs", "tmpfs")
PLAIN = {"repo": "large", "reflink": "off", "pristines": "stored"}

pytestmark = needs("svn", "svnserve", "hyperfine")


def makes(*kinds: str) -> pytest.MarkDecorator:
    why = next(filter(None, map(why_cannot_make, kinds)), "")
    return pytest.mark.skipif(bool(why), reason=why)


clones = pytest.mark.skipif(
    not (ROOT / REFLINK_LIBRARY).exists(),
    reason="set-up has not built the library that clones files",
)


def configure(project: Project, *include: dict[str, Any], **over: Any) -> None:
    usual: dict[str, Any] = {
        "studies": [STUDY],
        "repositories": LARGE,
        "rounds": 1,
        "copies": 1,
        "runs": "auto",
        "filesystems": dict.fromkeys(MAKEABLE, "make"),
        "grid": {STUDY: {"include": list(include)}},
    }
    project.configure(**{**usual, **over})
    library = project.path / REFLINK_LIBRARY
    if (ROOT / REFLINK_LIBRARY).exists() and not library.exists():
        library.parent.mkdir(parents=True)
        library.symlink_to(ROOT / REFLINK_LIBRARY)


def rows(project: Project, path: str) -> list[dict[str, str]]:
    with (project.path / "results" / path).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def context(project: Project, cell: str) -> dict[str, Any]:
    path = project.path / f"results/cells/{STUDY}/{cell}/round1.context.json"
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def reasons(project: Project) -> dict[str, str]:
    return {row["cell"]: row["reason"] for row in rows(project, f"failures/{STUDY}.csv")}


def left(project: Project) -> list[str]:
    """What is mounted or attached of a project's."""
    loops = Path("/sys/block").glob("loop*/loop/backing_file")
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    said = [*(file.read_text() for file in loops), *mounts]
    return [line for line in said if str(project.path) in line]


@makes(*MAKEABLE)
@clones
def test_the_study_runs_from_grid_to_report(whole_project: Project) -> None:
    project = whole_project
    configure(
        project,
        {**PLAIN, "command": ["checkout", "update-null"]},
        {**PLAIN, "command": ["checkout", "update-1000"], "filesystem": "btrfs", "reflink": "on"},
        {**PLAIN, "command": "update-1000", "filesystem": ["btrfs", "xfs"]},
        {**PLAIN, "command": "checkout", "filesystem": "ext4", "reflink": "on"},
    )
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    assert not left(project)
    skips = {row["cell"]: row["skip"] for row in rows(project, f"grid/{STUDY}.csv") if row["skip"]}
    assert "ext4 has no reflinks" in skips["checkout/large/ext4/on/default/stored/-"]
    runs = rows(project, f"measurements/{STUDY}.csv")
    assert not [run["flags"] for run in runs if is_invalid(run["flags"])]
    _did_the_same(runs)
    _is_certified(project, runs)
    _took_space(project, runs)
    verdicts = {row["id"]: row for row in rows(project, f"findings/{STUDY}.csv")}
    assert float(verdicts["reflink-disk-usage"]["published"]) == pytest.approx(573 / 361)
    assert float(verdicts["reflink-disk-usage"]["measured"]) > 1.2
    assert verdicts["exclusive-locking-checkout-nfs"]["verdict"] == "not measured"


def _did_the_same(runs: list[dict[str, str]]) -> None:
    # Checkouts and updates end at the same tree.
    assert len({run["work"] for run in runs}) == 1
    assert json.loads(runs[0]["work"])["files"] > 200


def _is_certified(project: Project, runs: list[dict[str, str]]) -> None:
    for run in runs:
        if run["run"] == max(r["run"] for r in runs if r["cell"] == run["cell"]):
            # What is cloned is in memory when somebody reads it, and an update reads
            # few pristines and working files: a kernel may page out what lies idle.
            idle = run["command"] != "checkout"
            parts = {"pristines": idle, "database": False}
            if run["reflink"] == "off":
                parts["working"] = idle
            for part, left_alone in parts.items():
                least = 0.5 if left_alone else 0.95
                assert float(run[f"{part}_resident"]) > least, (run["cell"], part)
    locks = {
        locking: context(project, f"update-null/large/ext4/off/{locking}/stored/-")["locks"]
        for locking in ("default", "exclusive")
    }
    assert locks["exclusive"] < 30 < locks["default"]
    said = context(project, "update-1000/large/btrfs/off/default/stored/-")["working_copy"]
    first, last = said["revisions"]
    assert last - first == 10  # at a hundredth, of 1,000
    assert said["filesystem"]["filesystem"] == "btrfs" and said["filesystem"]["direct_io"] is True
    assert said["filesystem"]["made"] is True and "rw" in said["filesystem"]["mount_options"]
    cloned = context(project, "update-1000/large/btrfs/on/default/stored/-")["working_copy"][
        "cloned"
    ]
    assert len(cloned) == 2 and min(cloned) > 0


def _took_space(project: Project, runs: list[dict[str, str]]) -> None:
    used = {run["cell"]: run["used_bytes"] for run in runs}
    assert not used["update-null/large/ext4/off/default/stored/-"]
    tree = json.loads(runs[0]["work"])["bytes"]
    for kind in MAKEABLE:  # a working copy has all files twice
        assert float(used[f"checkout/large/{kind}/off/default/stored/-"]) > 2 * tree
    shared = {run["cell"]: run["shared_bytes"] for run in runs}
    assert float(shared["checkout/large/btrfs/off/default/stored/-"]) == 0
    assert float(shared["checkout/large/btrfs/on/default/stored/-"]) > 0.5 * tree
    assert not shared["checkout/large/tmpfs/off/default/stored/-"]


@pytest.mark.slow
@makes("btrfs")
@clones
def test_a_library_that_does_nothing_fails_its_cell(project: Project) -> None:
    configure(
        project, {**PLAIN, "command": "checkout", "filesystem": "btrfs", "reflink": ["off", "on"]}
    )
    library = project.path / REFLINK_LIBRARY
    library.unlink()
    subprocess.run(
        ["gcc", "-shared", "-x", "c", "/dev/null", "-o", library], check=True
    )  # it can be loaded
    assert project.measure(STUDY).returncode == 1
    found = reasons(project)
    assert {cell.split("/")[3] for cell in found} == {"on"}
    assert all("the library that clones files did nothing" in why for why in found.values())


@pytest.mark.slow
@makes("ext4")
def test_a_client_that_locks_otherwise_fails_its_cell(project: Project) -> None:
    configure(project, {**PLAIN, "command": "update-null", "filesystem": "ext4"})
    axis = project.path / "workflow/vcsbench/axes/client_server.py"
    axis.write_text(axis.read_text().replace("exclusive-locking=yes", "exclusive-locking=no"))
    assert project.measure(STUDY).returncode == 1
    assert {
        cell: "locks the working copy's database otherwise than exclusive" in why
        for cell, why in reasons(project).items()
    } == {"update-null/large/ext4/off/exclusive/stored/-": True}


@pytest.mark.slow
@makes("tmpfs")
def test_a_file_system_that_fills_up_fails_its_cell_alone(project: Project) -> None:
    small = project.path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
    try:
        configure(
            project,
            {**PLAIN, "command": "checkout", "filesystem": ["tmpfs", "tiny"]},
            filesystems={"tmpfs": "make", "tiny": str(small)},
        )
        assert project.measure(STUDY).returncode == 1
        found = reasons(project)
        assert {cell.split("/")[2] for cell in found} == {"tiny"}
        assert all("No space left" in why for why in found.values()), found
        assert not list(small.rglob("*.svn*"))
        assert len(project.exports()) == 2
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.slow
@makes("tmpfs")
def test_one_of_the_users_is_used_as_it_is_and_left_so(project: Project) -> None:
    theirs = project.path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("mine")
    configure(
        project,
        {
            **PLAIN,
            "command": ["checkout", "update-1000"],
            "filesystem": "home",
            "sqlite_locking": "default",
        },
        filesystems={"home": str(theirs)},
    )
    done = project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    assert (theirs / "file").read_text() == "mine"
    assert not list(theirs.rglob("wc.db"))
    said = context(project, "checkout/large/home/off/default/stored/-")["working_copy"][
        "filesystem"
    ]
    assert said["made"] is False


@pytest.mark.slow
@makes("tmpfs")
def test_one_that_is_unmounted_under_a_run_is_not_measured_as_what_lies_below(
    project: Project,
) -> None:
    theirs = project.path / "theirs"
    theirs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", theirs], check=True)
    try:
        part = {**PLAIN, "command": "checkout", "sqlite_locking": "default", "filesystem": "tmpfs"}
        configure(project, part, filesystems={"tmpfs": str(theirs)}, rounds=6)
        with subprocess.Popen(
            project.command("--keep-going", f"results/measurements/{STUDY}.csv"),
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as run:
            for _ in range(600):
                if project.exports() or run.poll() is not None:
                    break
                subprocess.run(["sleep", "0.05"])
            subprocess.run(["umount", "-l", theirs], check=True)
            assert run.stdout
            said = run.stdout.read()
        assert run.returncode == 1
        assert "and was on tmpfs" in said and "Traceback" not in said
        assert len(project.exports()) < 6
        assert not list(theirs.iterdir())
    finally:
        subprocess.run(["umount", theirs], check=False, capture_output=True)


def test_a_folder_on_another_kind_than_its_name_says_is_refused(project: Project) -> None:
    configure(
        project,
        {**PLAIN, "command": "checkout", "filesystem": "btrfs"},
        filesystems={"btrfs": "/dev/shm"},
    )
    done = project.measure(STUDY)
    assert done.returncode == 1 and "Traceback" not in done.stdout
    assert "`filesystems.btrfs`: /dev/shm is tmpfs, not btrfs; call it tmpfs" in done.stdout


@pytest.mark.slow
@makes("tmpfs")
def test_a_server_elsewhere_is_measured_as_far_as_it_is_seen(project: Project) -> None:
    part = {**PLAIN, "command": "update-1000", "filesystem": "tmpfs", "sqlite_locking": "default"}
    configure(project, part)
    record = "results/repositories/disk.json"
    assert project.snakemake(record).returncode == 0
    place = Path(json.loads((project.path / record).read_text())["place"])
    (copy,) = (place / "repositories").glob("large.*.1")
    port = free_port()
    argv = ["svnserve", "-d", "--foreground", "--listen-host", "127.0.0.1", "--listen-port"]
    with subprocess.Popen([*argv, str(port), "-r", copy.parent]) as server:
        try:
            there = {"host": "elsewhere", "url": f"svn://127.0.0.1:{port}/{copy.name}"}
            configure(project, part, server=there)
            done = project.measure(STUDY)
            assert done.returncode == 0, done.stdout
            cell = "update-1000/large/tmpfs/off/default/stored/-"
            said = context(project, cell)
            assert said["remote"] == there and said["server"] is None
            assert "server" not in said["promises"]
            run = rows(project, f"measurements/{STUDY}.csv")[0]
            assert not run["server_cpu_s"] and not is_invalid(run["flags"])
            # What lies there has to be what lies here.
            configure(project, part, server={**there, "url": f"svn://127.0.0.1:{port}/empty"})
            done = project.measure(STUDY)
            assert done.returncode == 1
            assert "relocate" in done.stdout and "has uuid" in done.stdout
        finally:
            server.kill()


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def test_of_a_server_elsewhere_what_is_its_own_is_not_compared(project: Project) -> None:
    study = "fsfs-san-2014"
    part = {"command": "log", "ra": "svn", "repo": "ruby", "cache": "hot-os", "config": "slow"}
    configure(
        project,
        studies=[study],
        grid={study: {"include": [part]}},
        server={"host": "elsewhere", "url": "svn://elsewhere/large"},
    )
    assert project.snakemake(f"results/grid/{study}.csv").returncode == 0
    skips = {row["skip"] for row in rows(project, f"grid/{study}.csv")}
    assert (
        len(skips) == 1 and "nothing here sets or sees that of the one on elsewhere" in skips.pop()
    )


@pytest.mark.slow
@makes("btrfs")
def test_a_kill_leaves_nothing_mounted(project: Project) -> None:
    configure(project, {**PLAIN, "command": "checkout", "filesystem": "btrfs"}, rounds=30)
    cells = project.path / "results/cells"
    with subprocess.Popen(
        project.command(f"results/measurements/{STUDY}.csv"),
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        for _ in range(600):
            if list(cells.rglob("round*.json")) or run.poll() is not None:
                break
            subprocess.run(["sleep", "0.1"])
        assert run.poll() is None
        run.kill()
    for _ in range(100):
        if not left(project):
            break
        subprocess.run(["sleep", "0.1"])
    assert not left(project)
    configure(project, {**PLAIN, "command": "checkout", "filesystem": "btrfs"})
    assert project.measure(STUDY).returncode == 0
    assert not list((project.path / "storage").glob("vcsbench-*/targets/*"))
