"""The whole preparation of one source: loaded, packed, verified, copied interleaved, compared.

usage: python benchmarks/preparation.py [SCALE] [STORAGE]
The generated profile ruby at SCALE (default 0.0652: 3,000 revisions) in 2 formats x 2 packings x 3 copies
on STORAGE (default /var/tmp), by the two rules of the workflow. Against the least that could be done:
two bare `svnadmin load --no-flush-to-disk` into RAM from a dump stream that is there, and one `cp -r` of all
copies to the storage. The bare loads run once one after another and once side by side, as ours do. The
limit is 1.2 times the second of these. What is measured is whole runs of minutes: each is done ROUNDS times,
one after another, and the fastest counts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from rows import Row, show  # noqa: E402

from vcsbench import sources  # noqa: E402
from vcsbench.storages.place import Place  # noqa: E402
from vcsbench.subjects.repository import svnadmin  # noqa: E402
from vcsbench.subjects.repository.labels import Variant  # noqa: E402
from vcsbench.subjects.repository.loader import load_source  # noqa: E402
from vcsbench.subjects.repository.making import make_missing  # noqa: E402

FORMATS = ("f6", "f7")
VARIANTS = [(fmt, packing) for fmt in FORMATS for packing in ("nopack", "pack")]
COPIES = 3
LIMIT = 1.2
ROUNDS = 3


def timed(act: Callable[[], object]) -> float:
    """Seconds, from disks with nothing left to write to disks with nothing left to write."""
    os.sync()
    begun = time.monotonic()
    act()
    os.sync()
    return time.monotonic() - begun


def ours(definition: dict[str, object], memory: Path, storage: Path) -> None:
    """What the workflow does from the source to the copies."""
    facts = load_source(sources.open_source("ruby", definition), VARIANTS, memory)
    loaded = {"ruby": {"identity": "i", "path": str(memory), **facts}}
    variants = [Variant("ruby", fmt, packing, "i") for fmt, packing in VARIANTS]
    make_missing(Place(storage, storage), variants, COPIES, loaded, 0, 1)


def bare_loads(dump: Path, paths: Sequence[Path], together: bool) -> None:
    """One svnadmin load into each of the repositories, which are empty."""
    command = ["svnadmin", "load", "-q", "--no-flush-to-disk"]
    loads = []
    for path in paths:
        with dump.open("rb") as stream:
            loads.append(subprocess.Popen([*command, path], stdin=stream))
        if not together:
            loads[-1].wait()
    assert [process.wait() for process in loads] == [0, 0]


def cp(loaded: Path, into: Path) -> None:
    """All copies, one after another."""
    into.mkdir()
    for number in range(COPIES):
        subprocess.run(["cp", "-r", loaded, into / str(number)], check=True)


def main(scale: float, storage: str) -> None:
    """Measure, and print rows of a table."""
    definition: dict[str, object] = {
        "source": "generated",
        "profile": "ruby",
        "scale": scale,
        "seed": 1,
    }
    rounds = [once(definition, storage) for _ in range(ROUNDS)]
    us, one, both, copying = (min(taken) for taken in zip(*rounds, strict=True))

    def against(loads: float, limit: float, how: str, said: str) -> Row:
        what = f"one source in {len(VARIANTS)} variants x {COPIES} copies"
        return Row(f"{what}; bare loads {how}", us, limit * (loads + copying), "s", said)

    show(
        [
            against(one, 1, "one after another", "two bare loads and `cp -r`"),
            against(both, 1, "side by side", "two bare loads and `cp -r`"),
            against(both, LIMIT, "side by side", f"limit, {LIMIT} times that:"),
        ]
    )


def once(definition: dict[str, object], storage: str) -> tuple[float, float, float, float]:
    """Seconds of ours, of the bare loads one after another and side by side, and of `cp -r`."""
    memory = Path(tempfile.mkdtemp(prefix="vcsbench-", dir="/dev/shm"))
    disk = Path(tempfile.mkdtemp(prefix="vcsbench-", dir=storage))
    try:
        with (memory / "dump").open("wb") as stream:
            sources.open_source("ruby", definition).write(stream)
        (memory / "loaded").mkdir()
        loads = {}
        for together in (False, True):
            paths = [memory / f"{fmt}.{together}" for fmt in FORMATS]
            for path, fmt in zip(paths, FORMATS, strict=True):
                svnadmin.create(path, fmt)
            loads[together] = timed(lambda p=paths, t=together: bare_loads(memory / "dump", p, t))  # type: ignore[misc]
        us = timed(lambda: ours(definition, memory / "loaded", disk))
        copying = timed(lambda: cp(memory / "loaded", disk / "cp"))
        return us, loads[False], loads[True], copying
    finally:
        shutil.rmtree(memory)
        shutil.rmtree(disk)


if __name__ == "__main__":
    given = [*sys.argv[1:], "", ""]
    main(float(given[0] or 0.0652), given[1] or "/var/tmp")
