"""A storage that becomes read-only or full, or is unmounted: one error, and the next run continues."""

import errno
import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

from project import (
    HANGING_S,
    STUDY,
    mounted,
    mounted_ext4,
    needs,
    needs_root,
    ruby,
    servers_of,
    wait_for,
)
from recovery import CELLS, PART, Recovery, run_folders, slow_program, working
from vcsbench.run import workflow

pytestmark = [pytest.mark.slow, needs("svn", "svnserve", "svnadmin", "hyperfine"), needs_root]

CELL = ("svn", "log")
READ_ONLY, OVER_QUOTA = os.strerror(errno.EROFS), os.strerror(errno.EDQUOT)


def command(*argv):
    subprocess.run(argv, check=True)


@pytest.fixture
def disk(project):
    with mounted_ext4(project.path / "image", project.path / "disk", 64) as path:
        yield path


def configure(project, disk, part=PART, **keys):
    (disk / "mine").write_text("mine")
    folders = {"storages": {"disk": str(disk)}, "scratch": str(disk)}
    project.configure({**part, "cache": "hot-os"}, rounds=2, **{**folders, **keys})


@contextmanager
def held(project, program, word):
    """Run until the first program with a word begins, and let it go on after the block."""
    release = project.path / "release"
    begun = slow_program(project, program, word, f"until [ -e '{release}' ]; do sleep 0.1; done")
    run = Recovery(project, CELLS)
    try:
        wait_for(begun.exists)
        yield run
        release.touch()
        assert run.wait(HANGING_S) != 0, run.output()
    except BaseException:
        workflow.end_processes(project.path)
        raise
    shutil.rmtree(project.path / "fakes")
    check_ended(project, run.output())


def check_ended(project, output):
    """Nothing is left running or in temporary folders, and there is no traceback."""
    assert "Traceback" not in output and "fault of vcsbench" not in output, output
    assert not working(project) and servers_of(project) == [] and run_folders(project) == []


def assert_continues(project, disk):
    kept = project.exports()
    project.tool("run", CELLS)
    assert len(project.exports()) == 2 and not project.measured_since(kept) & kept.keys()
    assert (disk / "mine").read_text() == "mine"
    assert project.rows(f"failures/{STUDY}.csv") == []


@pytest.mark.parametrize("moment", [("svnadmin", "verify"), ("svnadmin", "load")])
def test_storage_read_only_during_preparation_ends_the_run(project, disk, moment):
    configure(project, disk)
    with held(project, *moment) as run:
        # At `verify`, the loaded repositories are there, and no copy is. The remount is refused while a
        # file is written.
        remount = ["mount", "-o", "remount,ro", disk]
        wait_for(lambda: subprocess.run(remount, capture_output=True).returncode == 0)
    errors = [line for line in run.output().splitlines() if READ_ONLY in line]
    assert any(str(disk) in line and "run again" in line for line in errors), run.output()
    assert f"{disk}: cannot be written" in project.tool("run", CELLS, code=1)
    command("mount", "-o", "remount,rw", disk)
    assert_continues(project, disk)


def test_storage_read_only_during_a_cell_ends_the_cell(project, disk):
    configure(project, disk, {**PART, "command": "export"}, output_location="storage")
    with held(project, "svn", "export") as run:
        command("mount", "-o", "remount,ro", disk)
    assert READ_ONLY in run.output(), run.output()
    command("mount", "-o", "remount,rw", disk)
    assert_continues(project, disk)


@pytest.mark.parametrize("moment", [CELL, ("svnadmin", "load"), ("svnadmin", "verify")])
def test_storage_unmounted_during_a_run_is_not_replaced_by_the_disk_below(project, disk, moment):
    configure(project, disk, scratch=str(project.path / "scratch"))
    with held(project, *moment) as run:
        command("umount", "-l", disk)
    assert "Mount it again" in run.output(), run.output()
    if moment == CELL:
        assert project.exports() == {}
        assert "Mount it again" in project.tool("run", CELLS, code=1)
    assert list(disk.glob("vcsbench-*/repositories/*")) == [], run.output()
    command("mount", "-o", "loop", project.path / "image", disk)
    assert_continues(project, disk)


def test_storage_replaced_by_a_link_during_a_cell_keeps_the_other_folder(project, disk):
    configure(project, disk, storages={"disk": str(disk / "storage")})
    (disk / "storage").mkdir()
    (disk / "other").mkdir()
    (disk / "other/mine").write_text("mine")
    with held(project, *CELL):
        (disk / "storage").rename(disk / "moved")
        (disk / "storage").symlink_to(disk / "other")
    assert project.exports() == {}
    assert_continues(project, disk)
    assert (disk / "other/mine").read_text() == "mine"


@pytest.fixture
def quota(project):
    """A btrfs with a quota: the kernels of many machines have no other file system with quotas."""
    image, path = project.path / "image", project.path / "disk"
    if not shutil.which("mkfs.btrfs"):
        pytest.skip("takes mkfs.btrfs")
    with image.open("wb") as file:
        file.truncate(256 << 20)
    path.mkdir()
    command("mkfs.btrfs", "-q", image)
    done = subprocess.run(["mount", "-o", "loop", image, path], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no btrfs can be mounted here: {done.stderr}")
    done = subprocess.run(["btrfs", "quota", "enable", path], capture_output=True, text=True)
    if not done.returncode:
        # Over its quota, it refuses a new limit from inside.
        command("btrfs", "-q", "subvolume", "create", path / "storage")
        yield path / "storage"
    command("umount", path)
    if done.returncode:
        pytest.skip(f"no quota here: {done.stderr}")


@pytest.mark.parametrize(
    "moment", [("svnadmin", "load"), ("svnadmin", "verify"), ("svn", "export")]
)
def test_storage_over_its_quota_ends_the_run(project, quota, moment):
    part = {**PART, "command": "export"}
    configure(project, quota, part, output_location="storage", repositories=ruby(0.002))
    with held(project, *moment) as run:
        os.sync()
        command("btrfs", "qgroup", "limit", "1", quota)
    errors = [line for line in run.output().splitlines() if OVER_QUOTA in line]
    assert any(str(quota) in line and "raise the quota" in line for line in errors), run.output()
    command("btrfs", "qgroup", "limit", "none", "0/256", quota.parent)
    assert_continues(project, quota)


def test_storage_out_of_inodes_ends_the_run(project):
    with mounted(project.path / "disk", "size=64m,nr_inodes=150,mode=755") as disk:
        configure(project, disk)
        output = project.tool("run", CELLS, code=1)
        check_ended(project, output)
        assert "inodes" in output, output
        command("mount", "-o", "remount,nr_inodes=100000", disk)
        assert_continues(project, disk)
