"""Count the bytes that a network file system reads while a run writes to it."""

import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.kernel import read, unescaped
from vcsbench.measure.counters import EvidencePart, read_device_use
from vcsbench.storages.disks import find_block_devices
from vcsbench.storages.filesystems import Mount, mount_of

NFS = ("nfs", "nfs4")
NETWORK = (*NFS, "cifs", "smb3", "ceph", "9p", "afs", "lustre", "fuse.sshfs", "fuse.glusterfs")
MOUNT_STATISTICS = "/proc/self/mountstats"
EXPORTS = "/proc/fs/nfsd/exports"
# Numbers in a line `bytes:` of an NFS mount: bytes of direct reads, and pages that the client has read.
DIRECT_READ_BYTES = 2
READ_PAGES = 6
# The option with the server's address: 127.x.x.x or ::1.
LOOPBACK_ADDRESS = re.compile(r"(^|,)addr=(::1(,|$)|127\.)")


class NetworkCounts(NamedTuple):
    """The bytes read from a server, and from the disk of a server on this machine; None if not counted."""

    read_bytes: int | None
    storage_read_bytes: int | None


class NetworkOutput(NamedTuple):
    """A network file system that a run writes to.

    `storage` has the exported folders of a server on this machine; `has_input` is True if the run reads its
    repository or tree from the same mount.
    """

    mount: Mount
    storage: tuple[Path, ...]
    has_input: bool

    def read_counts(self) -> NetworkCounts:
        """Return the bytes that were read so far. The difference of two readings is the bytes of a run."""
        storage_read_bytes = None
        # If a folder has no device, its reads are unknown. Without folders, read_device_use() has no count.
        if all(find_block_devices(folder) for folder in self.storage):
            storage_read_bytes = read_device_use(*self.storage).read_bytes
        return NetworkCounts(_read_from_server(self.mount), storage_read_bytes)

    def facts(self) -> EvidencePart:
        return {"network_filesystem": self.mount.filesystem, "network_input": self.has_input}


def find_network_output(inputs: Sequence[Path], outputs: Sequence[Path]) -> NetworkOutput | None:
    """Return the network file system that the folders `outputs` of a run are on; None if they are on none.

    `inputs` are the folders that the run reads.
    """
    if not outputs:
        return None
    # The first output stands for all.
    mount = mount_of(outputs[0])
    if mount.filesystem not in NETWORK:
        return None
    # If the input is on the same mount, its reads count together with those of the output.
    has_input = any(mount_of(folder).point == mount.point for folder in inputs)
    # If the file server is this machine, its exported folders: the reads of their disks are counted as well.
    # Only an NFS server with a loopback address is known to be here.
    storage: tuple[Path, ...] = ()
    if mount.filesystem in NFS and LOOPBACK_ADDRESS.search(mount.options):
        storage = _read_local_exports()
    return NetworkOutput(mount, storage, has_input)


def _read_from_server(mount: Mount) -> int | None:
    """Return the bytes that an NFS mount has read from its server since it was mounted.

    Return None if the kernel does not count them, as for other kinds of network file systems. The kernel
    prints several lines for each mount. The first is `device 127.0.0.1:/b mounted on /mnt/b with fstype nfs4
    ...`. A later one is `bytes: 10 20 4096 40 50 60 25 80`: 4,096 bytes of direct reads, and 25 pages.
    """
    if mount.filesystem not in NFS:
        return None
    is_this_mount = False
    for line in read(MOUNT_STATISTICS).splitlines():
        words = line.split()
        if words[:1] == ["device"]:
            is_this_mount = "on" in words and unescaped(words[words.index("on") + 1]) == mount.point
        elif is_this_mount and words[:1] == ["bytes:"]:
            numbers = [int(word) for word in words[1:]]
            return numbers[DIRECT_READ_BYTES] + numbers[READ_PAGES] * mmap.PAGESIZE
    return None


def _read_local_exports() -> tuple[Path, ...]:
    """Return the folders that the NFS server on this machine exports."""
    folders = []
    for line in read(EXPORTS).splitlines():
        # The kernel adds the parent folders of an export with the option v4root.
        if line.startswith("/") and "v4root" not in line:
            folder = Path(unescaped(line.split()[0]))
            if folder.is_dir():
                folders.append(folder)
    return tuple(folders)
