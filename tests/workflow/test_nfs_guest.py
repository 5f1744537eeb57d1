"""Working copies on NFS: a guest with a real NFS client and server boots for each cell-round."""

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack

import pytest

from project import PLACES, ROOT, invalid_flags, needs, open_folder, ruby
from vcsbench.errors import UserError
from vcsbench.storages import guest

STUDY = "working-copy-2012"
PART = {"repo": "small", "reflink": "off", "pristines": "stored", "network_delay": "0"}
pytestmark = [
    needs("svn", "svnserve", "hyperfine"),
    pytest.mark.skipif(bool(guest.why_unavailable(ROOT)), reason=guest.why_unavailable(ROOT)),
]


def measure(project, **include):
    """Measure cells of the study in a small project, and return the runs, which must be valid."""
    keys = {"repositories": ruby(0.002, "small", "large-tree")}
    keys |= {"filesystems": {"nfs": "guest", "guest-local": "guest"}}
    project.configure({**PART, **include}, study=STUDY, **keys)
    (project.path / ".tools").mkdir(exist_ok=True)
    (project.path / guest.TOOLS).symlink_to((ROOT / guest.TOOLS).resolve())
    project.succeed("measured")
    runs = project.rows(f"measurements/{STUDY}.csv")
    assert invalid_flags(runs) == []
    return runs


def guests(folder):
    done = subprocess.run(["pgrep", "-f", f"ubd0={folder}"], capture_output=True, text=True)
    return done.stdout.split()


def run_in_guest(folder, *command, root=ROOT, reads=()):
    """Return the output of a command in a guest with a file system of 1 GiB."""
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(1 << 30)
    code = guest.run_in_guest(root, folder, list(command), image, limit_s=120, reads=reads)
    log = (folder / "out/log").read_text()
    assert code == 0, log
    return log


CHECKOUT = {"command": "checkout", "filesystem": "nfs", "sqlite_locking": "exclusive"}


def test_checkout_on_nfs_counts_its_calls(project):
    (run,) = measure(project, **CHECKOUT)
    files = json.loads(run["work"])["files"]
    assert float(run["rpcs"]) > 5 * files
    assert "-guest" in run["host"]
    context = project.context(STUDY, "checkout/small/nfs/off/exclusive/stored/0")
    mount = context["working_copy"]["filesystem"]
    assert mount["filesystem"] == "nfs4" and "vers=4.2" in mount["mount_options"]
    assert not guests(project.path)


@pytest.mark.slow
def test_network_delay_is_in_times_and_not_in_calls(project):
    rows = measure(project, **CHECKOUT, network_delay=["0", "1ms"])
    runs = {run["network_delay"]: run for run in rows}
    calls = {delay: float(run["rpcs"]) for delay, run in runs.items()}
    assert calls["1ms"] == pytest.approx(calls["0"], rel=0.1)
    # Some calls overlap, so the waiting time is less than their round trips.
    waited = float(runs["1ms"]["elapsed_s"]) - float(runs["0"]["elapsed_s"])
    assert waited > 0.0005 * calls["1ms"]


COUNTING = """
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from vcsbench.measure.network_output import find_network_output
nfs, path = Path(sys.argv[1]), Path(sys.argv[1], "file")
path.write_bytes(os.urandom(8 << 20))
found = find_network_output([Path("/")], [nfs])
print(found.mount.filesystem, found.has_input, *found.storage)
def forget(file):
    with open(file, "rb") as opened:
        os.fsync(opened)
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
def read(case):
    before = found.read_counts()
    path.read_bytes()
    after = found.read_counts()
    print(case, *(last - first for first, last in zip(before, after, strict=True)))
path.read_bytes()  # a client reads its own writes again
read("kept")
forget(path)
read("server hot")
forget(path)
forget("/mnt/exp/shared/file")
read("server cold")
"""


@pytest.mark.slow
def test_network_reads_of_server_and_disk_are_counted_separately(tmp_path):
    folder, package = guest.FOLDERS["nfs"], str(ROOT / "workflow")
    log = run_in_guest(tmp_path, sys.executable, "-c", COUNTING, folder, package)
    lines = log.splitlines()
    assert "nfs4 False /mnt/exp/shared" in lines
    counted = [line.rsplit(" ", 2) for line in lines if line.startswith(("kept", "server"))]
    counts = {case: [int(network), int(disk)] for case, network, disk in counted}
    assert counts["kept"] == [0, 0]
    assert counts["server hot"] == [8 << 20, 0]
    assert counts["server cold"][0] == 8 << 20 and counts["server cold"][1] >= 8 << 20


@pytest.mark.slow
def test_guest_hanging_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(guest, "BOOT_LIMIT_S", -105)  # of the 120 seconds of the command
    with pytest.raises(UserError, match="guest ended without a result"):
        run_in_guest(tmp_path, "sleep", "1000")
    assert not guests(tmp_path)


@pytest.fixture
def covered_folders():
    """Folders below each folder of the host that the guest mounts over."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_folder(top)) for top in PLACES if top != "/var/tmp"]


@pytest.mark.slow
def test_guest_run_with_folders_that_it_covers_reads_them(tmp_path, covered_folders):
    files = [folder / "deep" / "file" for folder in covered_folders]
    for file in files:
        file.parent.mkdir()
        file.write_text("content\n")
    log = run_in_guest(tmp_path, "cat", *map(str, files), reads=[file.parent for file in files])
    assert log.count("content\n") == len(files)


@pytest.mark.slow
def test_guest_run_of_a_checkout_below_tmp_mounts_nfs(covered_folders):
    checkout = covered_folders[0] / "checkout"
    shutil.copytree(ROOT / guest.TOOLS, checkout / guest.TOOLS, symlinks=True)
    command = "touch /mnt/nfs/file && ls /mnt/exp/shared"
    assert "file\n" in run_in_guest(covered_folders[2], "sh", "-c", command, root=checkout)


@pytest.mark.slow
def test_commands_on_nfs_and_below_it_do_the_same_work(project):
    runs = measure(project, filesystem=["nfs", "guest-local"])
    assert {(r["command"], r["filesystem"]) for r in runs} == {
        (command, filesystem)
        for command in ("checkout", "update-null", "update-1000")
        for filesystem in ("nfs", "guest-local")
    }
    on_nfs = [r for r in runs if r["filesystem"] == "nfs"]
    calls = {(r["command"], r["sqlite_locking"]): float(r["rpcs"]) for r in on_nfs}
    assert calls["checkout", "default"] > 2 * calls["checkout", "exclusive"]
    assert not any(float(r["rpcs"] or 0) > 10 for r in runs if r["filesystem"] == "guest-local")
    assert len({r["work"] for r in runs if r["command"] == "checkout"}) == 1
