"""Counters of a network file system, from texts of the kernel."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from vcsbench.measure import counters
from vcsbench.storages.filesystems import Mount

STATISTICS = r"""device proc mounted on /proc with fstype proc
device 127.0.0.1:/a mounted on /mnt/other with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2
	bytes:	1 2 3 4 5 6 7 8
device 127.0.0.1:/b mounted on /mnt/with\040space with fstype nfs4 statvers=1.1
	bytes:	10 20 4096 40 50 60 25 80
	RPC iostats version: 1.1
"""
OPTIONS = "rw,vers=4.2,addr={}"


def mount(kind: str = "nfs4", address: str = "127.0.0.1") -> Mount:
    return Mount("127.0.0.1:/b", "/mnt/with space", kind, OPTIONS.format(address))


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the two files of the kernel and replace the mount of each path."""
    (tmp_path / "mountstats").write_text(STATISTICS)
    (tmp_path / "a folder").mkdir()
    folder = str(tmp_path / "a folder").replace(" ", "\\040")
    (tmp_path / "exports").write_text(
        f"# Version 1.1\n/\t127.0.0.1(ro,v4root)\n{folder}\t127.0.0.1(rw)\n"
    )
    monkeypatch.setattr(counters, "MOUNT_STATISTICS", str(tmp_path / "mountstats"))
    monkeypatch.setattr(counters, "EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(counters, "mount_of", lambda path: mount())
    return tmp_path


def test_network_output_reads_pages_and_direct_bytes_of_its_own_mount(kernel: Path) -> None:
    found = counters.network_output([kernel], [kernel])
    assert found and found.has_input and found.storage == (kernel / "a folder",)
    assert found.read_counters().from_server == 4096 + 25 * mmap.PAGESIZE


@pytest.mark.parametrize(
    ("kind", "address", "is_here"),
    [
        ("nfs4", "127.0.0.1", True),
        ("nfs", "::1", True),
        ("nfs4", "192.0.2.1", False),
        ("nfs4", "", False),
        ("cifs", "127.0.0.1", False),
    ],
)
def test_network_output_has_disk_of_local_server_only(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, kind: str, address: str, is_here: bool
) -> None:
    monkeypatch.setattr(counters, "mount_of", lambda path: mount(kind, address))
    found = counters.network_output([], [kernel])
    assert found and bool(found.storage) == is_here and not found.has_input
    if kind == "cifs" or not is_here:
        assert found.read_counters().from_storage is None


def test_network_output_of_a_local_file_system_is_none(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "mount_of", lambda path: mount("ext4"))
    assert counters.network_output([], [kernel]) is None
    assert counters.network_output([kernel], []) is None
