"""Make the file system of one measurement, or use a folder of the user's."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
from functools import cache
from typing import TYPE_CHECKING

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.isolation import is_allowed, unshare_mounts
from vcsbench.kernel import libc, read
from vcsbench.storages import filesystems
from vcsbench.storages.disks import describe_storage
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import TARGETS, WorkDir

if TYPE_CHECKING:
    from pathlib import Path

    from vcsbench.records import RecipeFilesystem, StorageFacts

# Neither mkfs nor the mounted file system discards blocks: that would give back allocated space. Without the
# lazy_ options, ext4 would write its tables and journal during the measurement.
MKFS = {
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-K"),
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}
PACKAGES = {"btrfs": "btrfs-progs", "ext4": "e2fsprogs", "xfs": "xfsprogs"}
MAKEABLE = (*MKFS, "tmpfs")
REFLINK_KINDS = ("btrfs", "xfs")
LOOP_CONTROL = "/dev/loop-control"
LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO = 4, 16
MIB = 1 << 20
# btrfs and xfs behave differently below this size.
SMALLEST = 1024 * MIB
SIZE_FACTOR, SPARE_BYTES = 3, 512 * MIB
MNT_DETACH = 2


# A plan calls this for each cell, and the answer is the same for all cells with this kind.
@cache
def why_cannot_make(kind: str) -> str:
    """Return in a clause why this process cannot make and mount a file system of a kind; "" if it can.

    Example: "mkfs.xfs is not installed (Debian: xfsprogs)".
    """
    if kind not in MAKEABLE:
        return f"vcsbench cannot make one of the kind {kind} here; it makes {', '.join(MAKEABLE)}"
    if not is_allowed(unshare_mounts):
        return "mounting is not permitted here (root may, outside of most containers)"
    if kind in filesystems.IN_MEMORY:
        return ""
    mkfs = MKFS[kind][0]
    if not shutil.which(mkfs):
        return f"{mkfs} is not installed (Debian: {PACKAGES[kind]})"
    if kind not in read("/proc/filesystems").split():
        # The kernel has not loaded this file system yet. mount would load the module, if there is one, so
        # modprobe only looks for the module (-n). Without modprobe, the program `false` fails instead.
        modprobe = shutil.which("modprobe") or "false"
        if processes.run_program([modprobe, "-q", "-n", kind], may_fail=True).code:
            return f"this kernel has no {kind}"
    if not os.access(LOOP_CONTROL, os.R_OK | os.W_OK):
        return "this kernel has no loop devices"
    return ""


def attach_loop(image: int) -> tuple[str, int]:
    """Attach an open image to a free loop device, and return the device (/dev/loop0) and its descriptor.

    The kernel detaches the device when its last user closes it, also after a SIGKILL. The device uses direct
    I/O if the storage supports it.
    """
    # The device stays attached over several mounts, so that each new file system has the same blocks. `mount
    # -o loop` would detach the device at each unmount, and losetup has no option for a device that goes with
    # its last user. So the kernel is called here.
    # struct loop_config: descriptor, block size (0 is the default), and a loop_info64 with flags behind 52
    # bytes. The last 240 bytes are the rest of it (176) and reserved (64). All of them stay 0.
    configuration = struct.pack("=II52xI240x", image, 0, LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO)
    with open(LOOP_CONTROL, "rb") as control:
        while True:
            device = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
            loop = os.open(device, os.O_RDWR)
            try:
                fcntl.ioctl(loop, LOOP_CONFIGURE, configuration)
                return device, loop
            except OSError as error:
                os.close(loop)
                # EBUSY: another process took the free device in the meantime. The next one is tried.
                if error.errno != errno.EBUSY:
                    raise OSError(error.errno, os.strerror(error.errno or 0), device) from None


class CellFilesystem:
    """The file system of a cell's working copy or tree: a folder of the user's, or one that open() makes.

    A made file system is a tmpfs, or in an image: a file on the storage, which a loop device shows as a disk.
    The kernel removes a made file system with this process, also after a SIGKILL. `inside` is the folder for
    the cell's files.
    """

    def __init__(self, part: RecipeFilesystem, root: Path) -> None:
        """Set the paths. open() makes the folder and the file system. `root` is the checkout of vcsbench.

        `part` is a recipe's key `filesystem`: {"make": "", "root": "/srv/files", "mounted": ["xfs", "/srv"]}.
        """
        self.workdir = WorkDir(part["root"], root)
        # A folder that only this process uses, such as /srv/files/vcsbench-1a2b3c4d/targets/4711.
        self.folder = self.workdir.path / TARGETS / str(os.getpid())
        # The kind of the file system to make, such as "ext4"; "" for a folder of the user's.
        self.kind = part["make"]
        # The kind and the mount point of the user's folder when the workflow run began.
        self.mounted = part.get("mounted", [])
        self.inside = self.folder / "mounted" if self.kind else self.folder
        # open() sets the size in bytes. _attach() sets the loop device (/dev/loop0) and its descriptor.
        self.size = 0
        self.device = ""
        self._loop: int | None = None
        # The bytes that the file system has allocated without the cell's own files.
        self._empty_bytes = 0

    @staticmethod
    def size_for(content_bytes: int) -> int:
        """Return the bytes of a file system for a tree of `content_bytes`, a multiple of 1 MiB.

        A working copy has each file twice, and a file system that is almost full behaves differently. So
        there is room for three trees (SIZE_FACTOR) and some spare bytes.
        """
        return max(SMALLEST, SIZE_FACTOR * content_bytes + SPARE_BYTES) // MIB * MIB

    def open(self, content_bytes: int) -> None:
        """Make the folder, and the file system if it has to be made, for a tree of `content_bytes`."""
        self.check()
        # A killed process with the same id may have left this folder.
        self.workdir.remove(TARGETS, self.folder.name)
        self.workdir.make(TARGETS, self.folder.name)
        self.size = self.size_for(content_bytes)
        self.clear()

    def check(self) -> None:
        """Raise UserError if a folder of the user's is on another mount than when the workflow run began."""
        filesystems.check_mounted(self.workdir.storage, self.mounted, "the workflow run began")

    def clear(self) -> None:
        """Make the file system again. In a folder of the user's, remove only the cell's own files."""
        if self.kind:
            self._make()
        else:
            for path in self.folder.iterdir():
                remove_path(path)
        self._empty_bytes = self._allocated()

    def _make(self) -> None:
        """Make a new file system on the same blocks of the image as before, and mount it at `inside`."""
        self._unmount()
        # Only this process and its children see the mount. The kernel removes it when they have ended.
        unshare_mounts()
        self.inside.mkdir(exist_ok=True)
        mount = ["mount", "-t", self.kind]
        if self.kind in filesystems.IN_MEMORY:
            processes.run_program([*mount, "-o", f"size={self.size}", "none", self.inside])
            return
        # The image and its loop device stay for all later file systems.
        if self._loop is None:
            self._attach()
        processes.run_program([*MKFS[self.kind], self.device])
        processes.run_program([*mount, "-o", "nodiscard", self.device, self.inside])

    def _attach(self) -> None:
        """Attach a new image to a loop device, and set `device` and `_loop`.

        Raise UserError if the storage has no room, and OSError with the path `folder` if it fills up later.
        """
        image = self.folder / "image"
        if filesystems.free_bytes(self.folder) < self.size:
            raise UserError(
                f"{self.folder}: has no room for a file system of {self.size >> 20} MiB. Free some space, "
                f"or use another folder in `storages`."
            )
        with filesystems.naming(self.folder), image.open("w+b") as file:
            # Without a name, the image exists as long as the file and the loop device are open, also if this
            # process is killed.
            image.unlink()
            # The storage allocates all blocks now, and not during the measurement.
            os.posix_fallocate(file.fileno(), 0, self.size)
            self.device, self._loop = attach_loop(file.fileno())

    def _unmount(self) -> None:
        if self.kind and os.path.ismount(self.inside):
            # Only this process sees the mount, so a detached mount ends with its last user.
            libc.umount2(os.fsencode(self.inside), MNT_DETACH)

    def close(self) -> None:
        """Unmount the file system, free its loop device, and remove the folder.

        This also ends an open() that failed. Then the folder may be missing.
        """
        self._unmount()
        if self._loop is not None:
            os.close(self._loop)
            self._loop = None
        if os.path.lexists(self.folder):
            # open() also fails if the work folder is somebody else's, in which nothing is removed.
            self.workdir.remove(TARGETS, self.folder.name)

    def used_bytes(self) -> int:
        """Return the bytes that files take, as df counts them, less the bytes of the empty file system."""
        return self._allocated() - self._empty_bytes

    def _allocated(self) -> int:
        # Blocks are allocated when files are written to the device.
        os.sync()
        status = os.statvfs(self.inside)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    @property
    def direct_io(self) -> bool | None:
        """Return True if I/O of the image bypasses the page cache; None without an image."""
        if not self.device:
            return None
        return read(f"/sys/block/{os.path.basename(self.device)}/loop/dio") == "1"

    def flags(self) -> list[str]:
        """Return ["host-cached"] if the image is read through the page cache of this system, otherwise []."""
        return ["host-cached"] if self.direct_io is False else []

    def describe(self) -> StorageFacts:
        """Return facts about the file system, with its size in bytes if vcsbench made it (`made`)."""
        facts = describe_storage(filesystems.mount_of(self.inside).filesystem, self.inside)
        facts["made"] = bool(self.kind)
        if self.kind:
            facts |= {"bytes": self.size, "direct_io": self.direct_io}
        return facts
