"""File systems made for one measurement: an image on a storage behind a loop device, or a tmpfs.

They are mounted in a mount namespace of this process's own, the image has no name any more once the loop
device has it, and the loop device goes when its last user does. So however the process ends, a kill -9
included, the kernel takes all of it back, and nobody else ever sees it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.kernelfile import read
from vcsbench.namespaces import can_own_mounts, own_mounts
from vcsbench.storages.mounts import IN_MEMORY

# sys/mount.h
MNT_DETACH = 2
LOOP_CONTROL = "/dev/loop-control"


class Recipe(NamedTuple):
    """How a kind is made: mkfs and the options that it is made and mounted with, and Debian's package.

    Nothing is discarded, neither by mkfs nor later: that would give back what was allocated beforehand.
    ext4's tables and journal are written at once, which it else does in the background for minutes.
    """

    mkfs: tuple[str, ...]
    options: str
    package: str


KINDS = {
    "btrfs": Recipe(("mkfs.btrfs", "-q", "-f", "-K"), "nodiscard", "btrfs-progs"),
    "ext4": Recipe(
        ("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"),
        "nodiscard",
        "e2fsprogs",
    ),
    "xfs": Recipe(("mkfs.xfs", "-q", "-f", "-K"), "nodiscard", "xfsprogs"),
}
MADE = (*KINDS, "tmpfs")
# Where a file can be another one's twin, as the kind is made here.
REFLINKS = ("btrfs", "xfs")


class Made:
    """A file system of a kind and a size in bytes, mounted at `point` once fresh() has been called; `folder`,
    which has to be there and empty, gets its image and its mount point."""

    def __init__(self, kind: str, size: int, folder: Path) -> None:
        self.kind = kind
        self.size = size
        self.folder = folder
        self.point = folder / "mounted"
        self.device = ""
        self._loop: int | None = None
        self._mounted = False

    def fresh(self) -> None:
        """Make it anew, with nothing in it: what an earlier run has left has no bearing on the next one."""
        self._unmount()
        own_mounts()
        self.point.mkdir(exist_ok=True)
        if self.kind in IN_MEMORY:
            _run("mount", "-t", self.kind, "-o", f"size={self.size}", "none", str(self.point))
        else:
            if self._loop is None:
                self._attach()
            recipe = KINDS[self.kind]
            _run(*recipe.mkfs, self.device)
            _run("mount", "-t", self.kind, "-o", recipe.options, self.device, str(self.point))
        self._mounted = True

    @property
    def direct(self) -> bool | None:
        """Whether its image is read and written past this system's page cache; None for what has none."""
        if not self.device:
            return None
        return read(f"/sys/block/{os.path.basename(self.device)}/loop/dio") == "1"

    def remove(self) -> None:
        """Unmount and remove it."""
        self._unmount()
        if self._loop is not None:
            os.close(self._loop)
            self._loop = None
        if self.point.exists():
            self.point.rmdir()

    def _attach(self) -> None:
        image = self.folder / "image"
        there = os.statvfs(self.folder)
        if there.f_bavail * there.f_frsize < self.size:
            raise UserError(
                f"{self.folder}: has no room for a file system of {self.size >> 20} MiB; free some space, "
                f"or lower `filesystem_mib`"
            )
        with image.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.size)
        try:
            self.device = _run("losetup", "--find", "--show", "--direct-io=on", str(image))
        except UserError:  # a storage that knows no direct I/O
            self.device = _run("losetup", "--find", "--show", str(image))
        image.unlink()
        self._loop = os.open(self.device, os.O_RDONLY)
        _run("losetup", "--detach", self.device)  # when the last that has it open closes it

    def _unmount(self) -> None:
        if self._mounted:
            libc = ctypes.CDLL(None, use_errno=True)
            # Nobody else sees the mount: what still holds it keeps it no longer than itself.
            if libc.umount2(os.fsencode(self.point), 0) != 0:
                libc.umount2(os.fsencode(self.point), MNT_DETACH)
            self._mounted = False


@cache
def why_cannot_make(kind: str) -> str:
    """Why a kind of file system cannot be made here, in a clause; "" if it can."""
    if kind not in MADE:
        return f"vcsbench cannot make one of the kind {kind} here; it makes {', '.join(MADE)}"
    if not can_own_mounts():
        return "there is no right to mount here (root has it, outside of most containers)"
    if kind in IN_MEMORY:
        return ""
    recipe = KINDS[kind]
    if not shutil.which(recipe.mkfs[0]):
        return f"there is no {recipe.mkfs[0]} (Debian: {recipe.package})"
    if kind not in read("/proc/filesystems").split() and not _has_module(kind):
        return f"this kernel has no {kind}"
    return "" if os.access(LOOP_CONTROL, os.R_OK | os.W_OK) else "this kernel has no loop devices"


def _has_module(kind: str) -> bool:
    found = shutil.which("modprobe")
    return found is not None and subprocess.run([found, "-q", "-n", kind]).returncode == 0


def _run(*argv: str) -> str:
    """What a program prints; a UserError with its last words where it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise UserError(f"{' '.join(argv)}: {done.stderr.strip() or 'failed and said nothing'}")
    return done.stdout.strip()
