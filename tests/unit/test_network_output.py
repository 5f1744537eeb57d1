"""Bytes that a network file system reads, from files in place of the kernel's."""

import mmap

import pytest

from vcsbench.measure import network_output
from vcsbench.storages.filesystems import Mount

STATISTICS = r"""device proc mounted on /proc with fstype proc
device 127.0.0.1:/a mounted on /mnt/other with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2
	bytes:	1 2 3 4 5 6 7 8
device 127.0.0.1:/b mounted on /mnt/with\040space with fstype nfs4 statvers=1.1
	bytes:	10 20 4096 40 50 60 25 80
	RPC iostats version: 1.1
"""


def mount(kind="nfs4", address="127.0.0.1"):
    return Mount("127.0.0.1:/b", "/mnt/with space", kind, f"rw,vers=4.2,addr={address}")


@pytest.fixture
def nfs(tmp_path, monkeypatch):
    """Write the two files of the kernel and replace the mount of each path."""
    (tmp_path / "mountstats").write_text(STATISTICS)
    (tmp_path / "a folder").mkdir()
    folder = str(tmp_path / "a folder").replace(" ", "\\040")
    (tmp_path / "exports").write_text(
        f"# Version 1.1\n/\t127.0.0.1(ro,v4root)\n{folder}\t127.0.0.1(rw)\n"
    )
    monkeypatch.setattr(network_output, "MOUNT_STATISTICS", str(tmp_path / "mountstats"))
    monkeypatch.setattr(network_output, "EXPORTS", str(tmp_path / "exports"))
    monkeypatch.setattr(network_output, "mount_of", lambda path: mount())
    return tmp_path


def test_network_output_reads_pages_and_direct_bytes_of_its_own_mount(nfs):
    network = network_output.find_network_output([nfs], [nfs])
    assert network and network.has_input and network.storage == (nfs / "a folder",)
    assert network.read_counts().read_bytes == 4096 + 25 * mmap.PAGESIZE
    assert network_output.find_network_output([nfs], []) is None


@pytest.mark.parametrize(
    ("kind", "address", "is_here"),
    [
        ("nfs4", "127.0.0.1", True),
        ("nfs", "::1", True),
        *(("nfs4", "192.0.2.1", False), ("nfs4", "", False)),
        ("cifs", "127.0.0.1", False),
        ("ext4", "", None),
    ],
)
def test_network_output_has_disk_of_local_server_only(nfs, monkeypatch, kind, address, is_here):
    monkeypatch.setattr(network_output, "mount_of", lambda path: mount(kind, address))
    network = network_output.find_network_output([], [nfs])
    assert (network and bool(network.storage)) is is_here
    if network and not is_here:
        assert not network.has_input and network.read_counts().storage_read_bytes is None
