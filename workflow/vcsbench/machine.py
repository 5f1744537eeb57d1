"""The programs and rights of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vcsbench.formats import NEWEST, RELEASES

# Paths of httpd and of its modules on Debian, Fedora and BSD.
HTTPD = ("/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/local/sbin/httpd")
HTTPD_MODULES = (
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/local/libexec/apache24",
)
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


class Machine:
    """The programs and rights that are found here.

    Programs are on the PATH, or in an environment that Snakemake deploys (`deployed`), without httpd.
    """

    def __init__(self, deployed: bool = False) -> None:
        self.deployed = deployed
        # Digests by the programs of client and server, which hundreds of cells share.
        self.digested: dict[tuple[Any, ...], dict[str, str]] = {}

    @cached_property
    def httpd(self) -> str:
        """Return the path of an httpd with mod_dav_svn, or ""."""
        if self.deployed or not self.httpd_modules:
            return ""
        return next((path for path in HTTPD if os.access(path, os.X_OK)), "")

    @cached_property
    def httpd_modules(self) -> str:
        """Return the folder with mod_dav_svn.so, or ""."""
        return next((d for d in HTTPD_MODULES if Path(d, "mod_dav_svn.so").exists()), "")

    @cache  # noqa: B019 - there is one of it
    def has(self, program: str) -> bool:
        """Return True if a program can be run."""
        return self.deployed or shutil.which(program) is not None

    @cached_property
    def newest_format(self) -> str:
        """Return the newest format that svnadmin makes and upgrades to."""
        release = "" if self.deployed else output_of("svnadmin", "--version", "-q")
        made = [fmt for fmt, since in RELEASES.items() if _numbers(since) <= _numbers(release)]
        return made[-1] if made else NEWEST

    def clearing(self, wanted: str) -> str:
        """Return how caches become cold: `drop-caches`, `evict`, or "" if neither is possible."""
        if wanted in ("auto", "drop-caches") and can_drop_caches():
            return "drop-caches"
        if wanted in ("auto", "evict") and self.has("vmtouch"):
            return "evict"
        return ""


def output_of(*argv: str) -> str:
    """Return the output of a program; "" if it cannot be run, or fails."""
    try:
        return subprocess.check_output(argv, stderr=subprocess.DEVNULL, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


@cache
def can_drop_caches() -> bool:
    """Return True if this process may empty the kernel's caches: root may, but not in every container."""
    try:
        os.close(os.open(DROP_CACHES, os.O_WRONLY))
    except OSError:
        return False
    return True
