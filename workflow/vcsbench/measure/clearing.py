"""Empties caches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vcsbench.machine import DROP_CACHES


def clear(how: str, repository: Path) -> None:
    """Make caches cold: `drop-caches` empties the kernel's, `evict` drops the repository's files."""
    if how == "drop-caches":
        # 3: pages, directory entries and inodes.
        with open(DROP_CACHES, "wb", buffering=0) as file:
            file.write(b"3")
    else:
        subprocess.run(["vmtouch", "-qe", repository], check=True, stdout=subprocess.DEVNULL)
