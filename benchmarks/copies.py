"""Interleaved copies against `cp -r`: the same trees to the same storage, spacers apart.

usage: python benchmarks/copies.py [SCALE] [STORAGE] [REPEATS]
Loads the generated profile ruby at SCALE (default 0.0652: 3,000 revisions) into RAM in formats 6 and 7,
packed and not, and makes three copies of each on STORAGE (default /var/tmp): ours interleaved and
compared by digest, cp's one after another and not compared; both with a sync at the end. Every repeat
does both, in alternating order, into folders that are new: some file systems are slow to write where
files were just removed. The figures are medians over the repeats.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from rows import Row, show  # noqa: E402

from vcsbench import sources  # noqa: E402
from vcsbench.subjects.repository import fsfs  # noqa: E402
from vcsbench.subjects.repository.interleave import Copying, make_copies  # noqa: E402
from vcsbench.subjects.repository.loader import load_source  # noqa: E402

VARIANTS = [(fmt, packing) for fmt in ("f6", "f7") for packing in ("nopack", "pack")]
COPIES = 3
# No less than half the speed.
LIMIT = 2.0


def ours(loaded: Path, into: Path) -> None:
    """All copies interleaved, and compared with what they were made from."""
    copyings = []
    for source in sorted(loaded.iterdir()):
        files = fsfs.files(source)
        for copy in range(COPIES):
            copyings.append(Copying(source, into / f"{source.name}.{copy}", files))
    work = into / "work"
    work.mkdir()
    make_copies(copyings, work, 0, 1)
    work.rmdir()
    os.sync()


def theirs(loaded: Path, into: Path) -> None:
    """All copies by cp, one after another."""
    for source in sorted(loaded.iterdir()):
        for copy in range(COPIES):
            subprocess.run(["cp", "-r", source, into / f"{source.name}.{copy}"], check=True)
    os.sync()


def seconds(make: Callable[[Path, Path], None], loaded: Path, into: Path) -> float:
    """What one way takes, from a storage with nothing left to write."""
    into.mkdir()
    os.sync()
    begun = time.monotonic()
    make(loaded, into)
    return time.monotonic() - begun


def main(scale: float, storage: str, repeats: int) -> None:
    """Measure, and print one row of a table."""
    definition = {"source": "generated", "profile": "ruby", "scale": scale, "seed": 1}
    taken: dict[Callable[[Path, Path], None], list[float]] = {ours: [], theirs: []}
    loaded = Path(tempfile.mkdtemp(prefix="vcsbench-", dir="/dev/shm"))
    place = Path(tempfile.mkdtemp(prefix="vcsbench-", dir=storage))
    try:
        load_source(sources.open_source("ruby", definition), VARIANTS, loaded)
        files = COPIES * sum(len(fsfs.files(source)) for source in loaded.iterdir())
        for repeat in range(repeats):
            for make in [ours, theirs] if repeat % 2 else [theirs, ours]:
                into = place / f"{make.__name__}.{repeat}"
                taken[make].append(seconds(make, loaded, into))
    finally:
        shutil.rmtree(loaded)
        shutil.rmtree(place)
    us, cp = statistics.median(taken[ours]), statistics.median(taken[theirs])
    what = f"{len(VARIANTS) * COPIES} copies of {files:,} files in all, synced"
    show(
        [
            Row(f"{what}, ours interleaved and compared", us, cp, "s", "`cp -r`"),
            Row("the same", us, LIMIT * cp, "s", "limit, half the speed of `cp -r`:"),
        ]
    )


if __name__ == "__main__":
    given = [*sys.argv[1:], "", "", ""]
    main(float(given[0] or 0.0652), given[1] or "/var/tmp", int(given[2] or 3))
