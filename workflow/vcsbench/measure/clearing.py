"""Empties caches."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from vcsbench.machine import DROP_CACHES


def clear(how: str, folders: Sequence[Path]) -> None:
    """Make caches cold: `drop-caches` empties the kernel's, `evict` drops the files of some folders."""
    if how == "drop-caches":
        # 3: pages, directory entries and inodes.
        with open(DROP_CACHES, "wb", buffering=0) as file:
            file.write(b"3")
        return
    there = [folder for folder in folders if folder.exists()]
    if there:
        subprocess.run(["vmtouch", "-qe", *there], check=True, stdout=subprocess.DEVNULL)
