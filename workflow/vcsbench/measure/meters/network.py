"""Count the reads from a network file system, and from the disk of a server on this machine."""

from __future__ import annotations

import mmap
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.kernelfile import read
from vcsbench.measure.meters.counters import device_counts
from vcsbench.storages.filesystems import Mount, mount_of

NFS = ("nfs", "nfs4")
NETWORK = (*NFS, "cifs", "smb3", "ceph", "9p", "afs", "lustre", "fuse.sshfs", "fuse.glusterfs")
MOUNT_STATISTICS = "/proc/self/mountstats"
EXPORTS = "/proc/fs/nfsd/exports"
# Positions in the `bytes:` line: O_DIRECT reads in bytes, and pages read into the page cache.
DIRECT_BYTES, PAGES = 2, 6
_ESCAPED = re.compile(r"\\([0-7]{3})")


class NetworkReads(NamedTuple):
    """Bytes read so far from the server of a mount, and by it from its disk. None is unknown."""

    from_server: int | None = None
    from_storage: int | None = None


class NetworkOutput(NamedTuple):
    """A network file system that a run writes to.

    `storage` has the exported folders of a server on this machine, and is empty for other servers.
    `has_input` is True if the run reads its repository or tree from the same mount.
    """

    mount: Mount
    storage: tuple[Path, ...]
    has_input: bool

    def read_counters(self) -> NetworkReads:
        """Read the counters now."""
        devices = device_counts(*self.storage) if self.storage else None
        return NetworkReads(_read_from_server(self.mount), devices[0] if devices else None)

    def between(self, before: NetworkReads, after: NetworkReads) -> dict[str, Any]:
        """Return the evidence of a run from the counters before and after it."""
        names = ("network_read_bytes", "network_storage_read_bytes")
        pairs = zip(names, before, after, strict=True)
        return {
            "network_filesystem": self.mount.filesystem,
            "network_input": self.has_input,
            **{name: None if a is None or b is None else b - a for name, a, b in pairs},
        }


def network_output(inputs: Sequence[Path], outputs: Sequence[Path]) -> NetworkOutput | None:
    """Return the network file system that holds the first output; None if it is on a local one."""
    mount = mount_of(outputs[0]) if outputs else None
    if not mount or mount.filesystem not in NETWORK:
        return None
    has_input = any(mount_of(folder).point == mount.point for folder in inputs)
    storage = _exported_here() if mount.filesystem in NFS and _is_served_here(mount) else ()
    return NetworkOutput(mount, storage, has_input)


def _read_from_server(mount: Mount) -> int | None:
    """Return the bytes that an NFS mount has read, in pages as the client's own counters have them."""
    if mount.filesystem not in NFS:
        return None
    is_this = False
    for line in read(MOUNT_STATISTICS).splitlines():
        words = line.split()
        if line.startswith("device "):
            is_this = "on" in words and _unescaped(words[words.index("on") + 1]) == mount.point
        elif is_this and words[:1] == ["bytes:"]:
            numbers = [int(word) for word in words[1:]]
            return numbers[DIRECT_BYTES] + numbers[PAGES] * mmap.PAGESIZE
    return None


def _is_served_here(mount: Mount) -> bool:
    """Return True if the server's address is one of this machine's: only these can be bound."""
    options = dict(option.partition("=")[::2] for option in mount.options.split(","))
    address = options.get("addr", "")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return bool(address)


def _exported_here() -> tuple[Path, ...]:
    """Return the folders that this machine's NFS server exports."""
    lines = [line for line in read(EXPORTS).splitlines() if line.startswith("/")]
    # The kernel adds the folders above an export by itself.
    own = [line.split()[0] for line in lines if "v4root" not in line]
    return tuple(path for path in map(Path, map(_unescaped, own)) if path.is_dir())


def _unescaped(word: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), word)
