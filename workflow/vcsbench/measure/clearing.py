"""Empties caches, and asks how much of a repository is in them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
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


def resident_share(repository: Path, files: Sequence[str]) -> float | None:
    """The share (0 to 1) of the files' bytes that are in the page cache; None if it cannot be asked.

    Opening the files loads their inodes: whoever asks before a cold run clears caches once more.
    """
    command = ["fincore", "--bytes", "--noheadings", "--raw", "--output", "RES,SIZE"]
    try:
        done = subprocess.run(
            [*command, *(os.path.join(repository, file) for file in files)],
            capture_output=True,
            text=True,
        )
    except OSError:
        return None
    pairs = [line.split() for line in done.stdout.splitlines()]
    size = sum(int(pair[1]) for pair in pairs)
    # A small file's pages are more than its bytes.
    return min(1.0, sum(min(int(p[0]), int(p[1])) for p in pairs) / size) if size else None
