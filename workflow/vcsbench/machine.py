"""What this machine can measure. Looked up anew at each start, so it has to be quick."""

from __future__ import annotations

import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

# Where httpd and its modules are; the first that exists counts. Debian's first, then Fedora's and BSD's.
HTTPD = ("/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/local/sbin/httpd")
HTTPD_MODULES = (
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/local/libexec/apache24",
)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# File systems whose files are in memory and nowhere else: they cannot be cold.
IN_MEMORY = ("tmpfs", "ramfs")


class Mount(NamedTuple):
    """A mounted file system: its device as the kernel names it, its mount point and type."""

    device: str
    point: str
    filesystem: str


class Machine:
    """The programs and rights found here. `programs` come from the PATH, or from an environment that
    Snakemake deploys (`deployed`), which has Subversion and hyperfine but no httpd."""

    def __init__(self, deployed: bool = False, mounts: list[Mount] | None = None) -> None:
        self.deployed = deployed
        self.mounts = read_mounts() if mounts is None else mounts
        self.found: dict[str, bool] = {}
        # By client's and server's programs: a digest of all files is the same for hundreds of cells.
        self.digested: dict[tuple[Any, ...], dict[str, str]] = {}

    @cached_property
    def httpd(self) -> str:
        """The path of httpd, or "" where there is none with mod_dav_svn."""
        if self.deployed or not self.httpd_modules:
            return ""
        return next((path for path in HTTPD if os.access(path, os.X_OK)), "")

    @cached_property
    def httpd_modules(self) -> str:
        """The folder with mod_dav_svn.so, or ""."""
        return next((d for d in HTTPD_MODULES if Path(d, "mod_dav_svn.so").exists()), "")

    def has(self, program: str) -> bool:
        """Whether a program can be run."""
        if program not in self.found:
            self.found[program] = self.deployed or shutil.which(program) is not None
        return self.found[program]

    @cached_property
    def can_drop(self) -> bool:
        """Whether the kernel's caches may be emptied."""
        return can_drop_caches()

    def clearing(self, wanted: str) -> str:
        """How caches get cold here: `drop-caches`, `evict`, or "" where neither is possible."""
        if wanted in ("auto", "drop-caches") and self.can_drop:
            return "drop-caches"
        if wanted in ("auto", "evict") and self.has("vmtouch"):
            return "evict"
        return ""

    def filesystem(self, path: str) -> Mount:
        """The mount that holds a path, which need not exist yet."""
        real = os.path.realpath(path)
        holding = [
            m for m in self.mounts if real == m.point or real.startswith(m.point.rstrip("/") + "/")
        ]
        return max(holding, key=lambda m: len(m.point), default=Mount("", "/", ""))


def lacks_journal(path: str) -> bool:
    """Whether a path is on ext4 without a journal.

    Such a file system passes over inodes for minutes after their deletion (recently_deleted in the
    kernel's fs/ext4/ialloc.c): writing a tree again where it was just removed takes several times as long.
    """
    real = os.path.realpath(path)
    if not os.path.exists(real) or Machine().filesystem(real).filesystem != "ext4":
        return False
    device = os.stat(real).st_dev
    name = os.path.basename(
        os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    )
    return not list(Path("/proc/fs/jbd2").glob(f"{name}-*"))


def read_mounts() -> list[Mount]:
    """All mounts of this process, later ones last."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    fields = [line.split()[:3] for line in lines]
    return [Mount(device, point.replace("\\040", " "), kind) for device, point, kind in fields]


def can_drop_caches() -> bool:
    """Whether this process may empty the kernel's caches (root may, but not in every container)."""
    try:
        os.close(os.open(DROP_CACHES, os.O_WRONLY))
    except OSError:
        return False
    return True


def why_never_cold(machine: Machine, storage: str, clear_caches: str) -> str:
    """Why no cell on a storage can be cold here, in a clause; "" if one can."""
    mount = machine.filesystem(storage)
    if mount.filesystem in IN_MEMORY:
        return f"{storage} is a {mount.filesystem}: what is only in memory cannot be cold"
    if not machine.clearing(clear_caches):
        return (
            "caches cannot be cleared here: that takes root, or vmtouch to drop a repository's files"
            if clear_caches == "auto"
            else f"`clear_caches: {clear_caches}` is not possible here: "
            + ("it takes root" if clear_caches == "drop-caches" else "it takes vmtouch")
        )
    return ""
