"""Descriptions of storages from the system, and their configured folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from vcsbench.kernel import Memory
from vcsbench.machine import Machine
from vcsbench.report.setup_section import output_locations
from vcsbench.storages import filesystems
from vcsbench.storages.filesystems import Mount, lacks_journal, mount_of, why_never_cold
from vcsbench.storages.workdir import WorkDir, resolve


def mounted(monkeypatch: pytest.MonkeyPatch, *found: Mount) -> None:
    monkeypatch.setattr(filesystems, "read_mounts", lambda: list(found))
    filesystems._filesystem.cache_clear()


@pytest.mark.parametrize(
    ("path", "setting", "reason"),
    [
        ("/ram/x", "auto", "never cold"),
        ("/x", "drop-caches", "it takes root"),
        ("/x", "auto", "takes root, or vmtouch"),
    ],
)
def test_why_never_cold_in_memory_or_without_rights(
    monkeypatch: pytest.MonkeyPatch, path: str, setting: str, reason: str
) -> None:
    mounted(monkeypatch, Mount("/dev/sda", "/", "ext4"), Mount("tmpfs", "/ram", "tmpfs"))
    monkeypatch.setattr("vcsbench.machine.can_drop_caches", lambda: False)
    monkeypatch.setenv("PATH", "")
    assert reason in why_never_cold(Machine(), path, setting)


def test_lacks_journal_is_that_of_the_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounted(monkeypatch, Mount("/dev/none", "/", "ext4"))
    journals = list(Path("/proc/fs/jbd2").glob("*")) if Path("/proc/fs/jbd2").exists() else []
    device = os.stat(tmp_path).st_dev
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    has_one = any(path.name.startswith(f"{name}-") for path in journals)
    assert lacks_journal(str(tmp_path)) is not has_one
    mounted(monkeypatch, Mount("x", "/", "xfs"))
    assert not lacks_journal(str(tmp_path))


def test_mount_of_is_the_last_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    below, hides = Mount("a", "/data", "ext4"), Mount("b", "/data", "tmpfs")
    mounted(monkeypatch, Mount("c", "/", "xfs"), below, hides)
    assert mount_of("/data/x") == hides and mount_of("/database").device == "c"


def test_describe_storage_reads_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, Mount("/dev/vda1", "/", "ext4", "rw,noatime"))
    device = os.stat(tmp_path).st_dev
    queue = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/../queue"
    kernel = {f"{queue}/rotational": "0", f"{queue}/scheduler": "none [mq-deadline] kyber"}
    monkeypatch.setattr(filesystems, "read", lambda path: kernel.get(str(path), ""))
    description = filesystems.describe_storage("disk", tmp_path)
    assert description.pop("free_bytes") > 0
    assert description == {
        "name": "disk",
        "path": str(tmp_path),
        "filesystem": "ext4",
        "device": "/dev/vda1",
        "rotational": False,
        "mount_options": "rw,noatime",
        "scheduler": "mq-deadline",
    }


def test_free_bytes_in_ram_leaves_memory_to_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gib = 1 << 30
    monkeypatch.setattr(filesystems.kernel, "memory", lambda: Memory(8 * gib, gib, None))
    mounted(monkeypatch, Mount("disk", "/", "ext4"))
    assert filesystems.free_bytes(tmp_path) > gib
    mounted(monkeypatch, Mount("ram", "/", "tmpfs"))
    assert filesystems.free_bytes(tmp_path) == 768 << 20
    monkeypatch.setattr(filesystems.kernel, "memory", lambda: Memory(8 * gib, 100 << 20, None))
    assert filesystems.free_bytes(tmp_path) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(
    "name", ["back\\slash", "sp ace", "t\tab", "n\nl", "\\040", "l\u2028s", "ü"]
)
def test_mount_of_reads_a_mount_point_with_odd_characters(tmp_path: Path, name: str) -> None:
    point = tmp_path / name
    point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "odd", point]).returncode:
        pytest.skip("this container may not mount")
    try:
        mount = mount_of(point / "below")
        assert mount.point == str(point)
        assert (mount.device, mount.filesystem) == ("odd", "tmpfs")
    finally:
        subprocess.run(["umount", point], check=True)


@pytest.mark.parametrize(
    "configured", ["link", "./link/../link", "here/../real", "real", "{}/link"]
)
def test_resolve_gives_one_path_per_folder(tmp_path: Path, configured: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folder = resolve(configured.format(tmp_path), tmp_path)
    assert folder == (tmp_path / "real").resolve()
    place = WorkDir(configured.format(tmp_path), tmp_path)
    assert place.storage == folder
    context = {"storage": {"name": "disk", "path": str(place.path)}, "targets": str(folder)}
    assert output_locations([context]) == [f"{folder}, the storage itself"]
