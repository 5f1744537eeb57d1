"""What a generated history costs stage by stage, in one format: processor seconds, memory and disk.

All of it lies in RAM, and no storage is waited for: what a disk adds is measured by a run.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rows import ROOT, cost, run

sys.path.insert(0, str(ROOT / "workflow"))

from vcsbench import sources
from vcsbench.sources import Source
from vcsbench.subjects.repository import fsfs, svnadmin
from vcsbench.subjects.repository.interleave import Copying, make_copies

FORMAT = "f7"
LOG = ["svn", "log", "-v", "--limit", "50000"]
MIB = 1 << 20


class _Found(dict[tuple[str, str], float]):
    """Says each cost as it is found: a large history takes hours."""

    def __setitem__(self, key: tuple[str, str], value: float) -> None:
        super().__setitem__(key, value)
        print(*key, f"{value:,.1f}", file=sys.stderr, flush=True)


def open_history(profile: str, scale: float) -> Source:
    """The source of the profile at this scale."""
    definition = {"source": "generated", "profile": profile, "scale": scale, "seed": 1}
    return sources.open_source(profile, definition)


def stages(profile: str, scale: float) -> tuple[int, dict[tuple[str, str], float]]:
    """How many revisions there are, and by (stage, unit) what they cost: processor seconds (s) of the stage,
    peak memory of its largest process or disk space (MiB), files."""
    source = open_history(profile, scale)
    found = _Found()
    with _folder() as folder:
        plain, packed = folder / "plain", folder / "packed"
        svnadmin.create(plain, FORMAT)

        def feed(stream: BinaryIO) -> None:
            found["generated", "s"] = processor(lambda: source.write(stream))

        # No dump file lies between: that of a whole profile takes more than a machine's memory.
        load = ["svnadmin", "load", "-q", "--no-flush-to-disk", plain]
        found["loaded", "s"], found["loaded", "MiB"], _ = cost(load, ROOT, feed)
        _program(found, "verified", ["svnadmin", "verify", "-q", plain])
        found["copied", "s"] = processor(lambda: _copy(plain, packed))
        _program(found, "packed", ["svnadmin", "pack", "-q", packed])
        _program(found, "verified packed", ["svnadmin", "verify", "-q", packed])
        for name, path in (("size", plain), ("packed size", packed)):
            found[name, "MiB"] = _taken(path) / MIB
        found["size", "files"] = len(fsfs.files(plain))
        shutil.rmtree(plain)
        found["log", "s"] = cost([*LOG, f"file://{packed}"], ROOT).seconds
        target = folder / "target"
        tree = f"file://{packed}/{source.tree()}"
        found["export", "s"] = cost(["svn", "export", "-q", tree, target], ROOT).seconds
        found["exported", "MiB"] = _taken(target) / MIB
        found["exported", "files"] = sum(len(files) for _, _, files in os.walk(target))
        return int(run(["svnlook", "youngest", packed], ROOT)), found


def processor(act: Callable[[], object]) -> float:
    """Processor seconds of this process."""
    begun = time.process_time()
    act()
    return time.process_time() - begun


def _program(found: _Found, stage: str, argv: list[str | Path]) -> None:
    found[stage, "s"], found[stage, "MiB"], _ = cost(argv, ROOT)


def _copy(path: Path, to: Path) -> None:
    work = to.with_name("work")
    work.mkdir()
    make_copies([Copying(path, to, fsfs.files(path))], work, 0, 1)
    work.rmdir()


def _taken(path: Path) -> int:
    return int(run(["du", "-s", "--block-size=1", path], ROOT).split()[0])


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vcsbench-", dir="/dev/shm") as folder:
        yield Path(folder)
