"""Storages: their descriptions, mounts and space."""

import errno
import fcntl
import os
import shutil
import struct
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

import project
from vcsbench.errors import UserError
from vcsbench.machine import Machine
from vcsbench.measure.counters import read_device_use
from vcsbench.storages import disks, filesystems
from vcsbench.storages.cell_filesystem import CellFilesystem
from vcsbench.storages.extents import ExtentsUnsupportedError, disk_usage
from vcsbench.storages.file_trees import copy_tree
from vcsbench.storages.filesystems import mount_of, why_never_cold, why_unmounted
from vcsbench.storages.workdir import TARGETS
from vcsbench.subjects.working_copy import measure_disk_space


@pytest.mark.parametrize(
    ("path", "setting", "reason"),
    [
        ("/dev/shm/x", "auto", "never cold"),
        ("/proc/x", "drop-caches", "it takes root"),
        ("/proc/x", "auto", ", or vmtouch"),
    ],
)
def test_why_never_cold_in_memory_or_without_rights(monkeypatch, path, setting, reason):
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    monkeypatch.setenv("PATH", "")
    assert reason in why_never_cold(Machine(), path, setting)


@project.needs_root
@pytest.mark.parametrize(
    "name", ["back\\slash", "sp ace", "t\tab", "n\nl", "\\040", "l\u2028s", "ü"]
)
def test_mount_of_reads_a_mount_point_with_odd_characters(tmp_path, name):
    with (
        project.mounted_ext4(tmp_path / "image", tmp_path / name, 8),
        project.mounted(tmp_path / name) as point,
    ):
        assert mount_of(point / "below")[:3] == ("tmpfs", str(point), "tmpfs"), "the last mount"


@pytest.mark.parametrize("is_available", [True, False])
def test_mount_of_an_automount_point_is_that_of_its_first_use(tmp_path, monkeypatch, is_available):
    waiting = filesystems.Mount("systemd-1", str(tmp_path), "autofs")
    mounted = filesystems.Mount("server:/x", str(tmp_path), "nfs4")
    tables = [[waiting], [waiting, mounted] if is_available else [waiting]]
    used = []
    monkeypatch.setattr(filesystems, "mounts", lambda: tables[min(len(used), 1)])
    stat = os.stat

    def use(path, **options):
        used.append(path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", use)
    assert mount_of(tmp_path) == (mounted if is_available else waiting)
    # Without the end, the kernel reports the automount point itself.
    assert f"{tmp_path}/." in used


@project.needs_root
@pytest.mark.parametrize("name", ["disk", "sp ace"])
def test_why_unmounted_reads_fstab(tmp_path, monkeypatch, name):
    (tmp_path / "link").symlink_to(tmp_path)
    lines = ["# /dev/x / ext4", "", "/dev/a / ext4", "/dev/b none swap sw 0 0", "short"]
    lines.append(f"/dev/c\t{tmp_path}/link/{name.replace(' ', chr(92) + '040')}\text4 noauto 0 2")
    lines.append(f"#/dev/d {tmp_path}/off ext4 defaults 0 2")
    (tmp_path / "fstab").write_text("\n".join(lines))
    monkeypatch.setattr(filesystems, "FSTAB", tmp_path / "fstab")
    inside = tmp_path / name / "below"
    for missing in (inside, inside.parent, tmp_path / "link" / name):
        assert why_unmounted(missing).startswith(f"{tmp_path}/{name} is a mount point in ")
    with project.mounted(tmp_path / name) as point:
        assert why_unmounted(point) == why_unmounted(inside) == ""
    assert why_unmounted(tmp_path) == why_unmounted(f"{tmp_path}/{name}s") == ""
    assert why_unmounted(tmp_path / "off") == "", "a comment"
    monkeypatch.setattr(filesystems, "FSTAB", tmp_path / "none")
    assert why_unmounted(inside) == ""


@project.needs_root
@pytest.mark.parametrize(
    ("copies", "naming"),
    [
        (shutil.copytree, filesystems.naming),
        (lambda _, path: path.write_bytes(bytes(1 << 20)), filesystems.naming),
        (copy_tree, nullcontext),
    ],
)
def test_error_of_a_full_disk_names_its_place(tmp_path, monkeypatch, copies, naming):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/large").write_bytes(bytes(1 << 20))
    no_space = pytest.raises(OSError, match=os.strerror(errno.ENOSPC))
    with project.mounted(tmp_path / "full", "size=64k") as full, no_space as caught, naming(full):
        copies(tmp_path / "tree", full / "copy")
    assert caught.value.filename.startswith(str(full))


MIB, FICLONERANGE = 1 << 20, 0x4020940D


@project.needs_root
def test_image_on_a_storage_that_fills_up_names_its_folder_and_leaves_nothing(
    tmp_path, monkeypatch
):
    # Another program takes the space after it was checked.
    monkeypatch.setattr(filesystems, "free_bytes", lambda folder: 1 << 60)
    with project.mounted(tmp_path / "full", "size=1m") as full:
        filesystem = CellFilesystem({"root": str(full), "make": "ext4"}, tmp_path)
        filesystem.size = 4 * MIB
        folder = filesystem.workdir.make(TARGETS, filesystem.folder.name)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            filesystem._attach()
        assert caught.value.filename == str(folder)
        assert not [*folder.iterdir()]
        filesystem.close()
        assert not folder.exists()


@pytest.fixture
def raid0(tmp_path):
    """A btrfs on two loop devices."""
    devices, point = [], tmp_path / "raid0"
    point.mkdir()
    try:
        for name in ("one", "two"):
            (tmp_path / name).touch()
            os.truncate(tmp_path / name, 128 * MIB)
            argv = ["losetup", "--find", "--show", tmp_path / name]
            devices.append(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout.strip())
        subprocess.run(["mkfs.btrfs", "-q", "-draid0", "-mraid1", *devices], check=True)
        subprocess.run(["mount", devices[0], point], check=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no btrfs can be made here: {error}")
    finally:
        # Those in use are detached by the unmount.
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)
    yield point
    subprocess.run(["umount", point], check=True)


@project.needs_root
@project.needs("mkfs.btrfs")
def test_btrfs_on_two_devices_counts_both_and_shared_blocks_once(raid0):
    before = read_device_use(raid0)
    (raid0 / "file").write_bytes(os.urandom(16 * MIB))
    os.sync()
    written = read_device_use(raid0).write_bytes - before.write_bytes
    assert 16 * MIB <= written < 24 * MIB
    with open(raid0 / "file", "rb") as source, open(raid0 / "part", "wb") as part:
        fcntl.ioctl(part, FICLONERANGE, struct.pack("qQQQ", source.fileno(), 0, MIB, 0))
    (raid0 / "in its inode").write_bytes(b"x")
    (raid0 / "alone").write_bytes(os.urandom(MIB))
    usage = disk_usage(str(path) for path in raid0.iterdir())
    assert usage.exclusive == MIB and MIB <= usage.shared <= 16 * MIB
    assert usage == disk_usage([str(raid0 / name) for name in ("file", "alone")])


@project.needs_root
@project.needs("mkfs.btrfs")
def test_disk_usage_of_compressed_files_is_unknown(raid0):
    """The kernel reports the length of the content, 32 times the length of the blocks."""
    subprocess.run(["mount", "-o", "remount,compress-force=zstd", raid0], check=True)
    (raid0 / "compressed").write_bytes(bytes(MIB))
    with pytest.raises(ExtentsUnsupportedError, match="compressed"):
        disk_usage([str(raid0 / "compressed")])
    assert measure_disk_space(raid0) == {"exclusive_bytes": None, "shared_bytes": None}


def test_device_use_flushes_are_those_of_disks_below_a_stack(tmp_path, monkeypatch):
    """A volume lies on an encrypted partition of one disk, and on another disk."""
    for name, flushes in {"dm-0": 0, "dm-1": 0, "sda": 5, "sda/sda1": 0, "sdb": 7}.items():
        (tmp_path / name / "slaves").mkdir(parents=True)
        (tmp_path / name / "stat").write_text(f"3 0 2 0 9 0 4 0 0 0 0 0 0 0 0 {flushes} 0")
    (tmp_path / "sda/sda1/partition").write_text("1")
    for disk in ("sda", "sdb"):
        (tmp_path / disk / "mq").mkdir()
        (tmp_path / disk / "queue").mkdir()
        (tmp_path / disk / "queue/write_cache").write_text("write back\n")
    for above, below in (("dm-0", "dm-1"), ("dm-0", "sdb"), ("dm-1", "sda/sda1")):
        (tmp_path / above / "slaves" / below.replace("/", "!")).symlink_to(tmp_path / below)
    monkeypatch.setattr(disks, "block_folders", lambda path: {str(tmp_path / path)})
    # Bytes read and written, reads, and flushes.
    assert read_device_use(Path("dm-0")) == (1024, 2048, 3, 12)
    assert read_device_use(Path("sda/sda1")).flushes == 5
    # The flushes of one disk are not counted, so their sum is unknown.
    (tmp_path / "sda/mq").rmdir()
    assert read_device_use(Path("dm-0")).flushes is None
    (tmp_path / "sda/mq").mkdir()
    # The kernel sends no flushes to a disk without a volatile cache, and counts none without its queues.
    (tmp_path / "sda/queue/write_cache").write_text("write through\n")
    assert read_device_use(Path("dm-0")).flushes == 7
    assert read_device_use(Path("sda/sda1")) == (1024, 2048, 3, None)
    (tmp_path / "sdb/mq").rmdir()
    assert read_device_use(Path("dm-0")).flushes is None
    # A path in memory has no device. Writes are those of the written path.
    assert read_device_use(Path("none"), Path("sdb")).read_bytes == 1024
    written = read_device_use(Path("sdb"), Path("none"), written=[Path("none")])
    assert written == (1024, None, 3, None)
    assert read_device_use(Path("none")) == (None, None, None, None)


@project.needs_root
@pytest.mark.parametrize("error", [OSError(errno.ENOENT, "none"), UserError("svnadmin failed")])
def test_error_after_an_unmount_names_the_mount(tmp_path, error):
    with project.mounted(tmp_path / "disk") as disk:
        context = filesystems.naming(disk / "x")
        context.__enter__()
    with pytest.raises(UserError, match=f"tmpfs, mounted at {disk},"):
        context.__exit__(type(error), error, None)
