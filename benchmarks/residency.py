"""How long it takes to ask how much of 100,000 files is in memory, against fincore over the same files.

usage: python benchmarks/residency.py [FILES]
Makes the files below /var/tmp (700 bytes each, 1,000 to a folder, as a repository's revisions lie), asks
with all in the cache, and as root again after dropping caches, when inodes come from the device. Checks that
asking read no byte of a file: hot all is resident, and cold nothing, before and after.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "workflow")]

from rows import Row, seconds, show  # noqa: E402

from vcsbench.machine import can_drop_caches  # noqa: E402
from vcsbench.measure.clearing import clear  # noqa: E402
from vcsbench.measure.meters import residency  # noqa: E402

LIMIT_S = 2.0
# Shares: others may use the machine meanwhile.
HOT, COLD = (0.5, 1.0), (0.0, 0.01)


def make(folder: Path, count: int) -> None:
    for number in range(count):
        if number % 1000 == 0:
            (folder / str(number // 1000)).mkdir()
        (folder / str(number // 1000) / str(number)).write_bytes(b"x" * 700)
    os.sync()


def ask(folder: Path, least: float, most: float) -> float:
    asked = []
    taken = seconds(lambda: asked.append(residency.ask(folder)))
    if not asked[0] or not least <= asked[0].share <= most:
        sys.exit(f"{asked[0]}: a share from {least} to {most} was expected")
    return taken


def fincore(folder: Path) -> float:
    words = "xargs -0 fincore --bytes --noheadings --raw --output RES,SIZE"
    shell = f"find '{folder}' -type f -print0 | {words} >/dev/null"
    return seconds(lambda: subprocess.run(["sh", "-c", shell], check=True))


def main(count: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="vcsbench-residency-", dir="/var/tmp"))
    try:
        make(folder, count)
        ask(folder, *HOT)
        rows = [
            Row(f"{count:,} files, all cached", ask(folder, *HOT), fincore(folder), "s", "fincore")
        ]
        if can_drop_caches():
            clear("drop-caches", [folder])
            cold = ask(folder, *COLD)
            ask(folder, *COLD)
            clear("drop-caches", [folder])
            rows.append(Row(f"{count:,} files, cold", cold, fincore(folder), "s", "fincore"))
            rows.append(Row("the same against the limit", cold, LIMIT_S, "s", "limit"))
        show(rows)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
