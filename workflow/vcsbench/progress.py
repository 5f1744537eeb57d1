"""How far a job that takes long has come: it tells that in a small file beside its log, and what shows it to
the user reads it there, on this machine or another that shares the folder."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# So often the file is written anew, in seconds.
EVERY_S = 1.0


@dataclass
class Stage:
    """What a job is at: `done` of `total` (0: nobody knows how many) of a `unit`; "" where there is nothing
    to count. Whoever works counts `done`; `look`, if there is one, says both when they are asked for."""

    name: str
    total: int = 0
    unit: str = ""
    look: Callable[[], tuple[int, int]] | None = None
    done: int = 0
    begun: float = field(default_factory=time.monotonic)

    def told(self) -> dict[str, Any]:
        """The stage as plain data, with the seconds that it has taken so far."""
        if self.look:
            self.done, self.total = self.look()
        return {
            "name": self.name,
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "seconds": time.monotonic() - self.begun,
        }


# The stages that this process is at: several side by side, if its threads are at several.
_present: list[Stage] = []
# Set when a stage has begun.
_new = threading.Event()


@contextlib.contextmanager
def stage(
    name: str,
    total: int = 0,
    unit: str = "",
    look: Callable[[], tuple[int, int]] | None = None,
) -> Iterator[Stage]:
    """While it lasts, this process is at this stage, among others."""
    begun = Stage(name, total, unit, look)
    _present.append(begun)
    _new.set()
    try:
        yield begun
    finally:
        _present.remove(begun)


@contextlib.contextmanager
def told_beside(log: str | Path) -> Iterator[None]:
    """While it lasts, what this process is at stands in a file beside its log."""
    path = file_of(log)
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(path, ended), daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        _new.set()
        teller.join()
        # Progress is no reason for a job to fail, for example in a folder that became read-only.
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def file_of(log: str | Path) -> Path:
    """The file in which the job of a log tells how far it is."""
    return Path(log).with_name(f".{Path(log).stem}.progress")


def forget(log: str | Path) -> None:
    """Remove the progress that a killed job of this log left."""
    with contextlib.suppress(OSError):
        file_of(log).unlink(missing_ok=True)


def read(log: str | Path) -> list[dict[str, Any]]:
    """The stages that the job of a log is at (Stage.told), those that are alike as one; [] where it says
    nothing."""
    try:
        told = json.loads(file_of(log).read_bytes())
    except (OSError, ValueError):
        return []
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in told:
        same = found.setdefault((one["name"], one["unit"]), {**one, "done": 0, "total": 0})
        same["done"] += one["done"]
        same["total"] += one["total"]
        same["seconds"] = max(same["seconds"], one["seconds"])
    return list(found.values())


def cleared(stream: IO[str]) -> str:
    """What is to be written before a sentence, where a line of progress may stand on a terminal."""
    return "\r\x1b[K" if stream.isatty() else ""


def _tell(path: Path, ended: threading.Event) -> None:
    new = path.with_name(f"{path.name}.new")
    while not ended.is_set():
        _new.clear()
        # A disk that is full is no reason for a job to fail that has enough of it.
        with contextlib.suppress(OSError):
            new.write_text(json.dumps([one.told() for one in _present.copy()]))
            new.replace(path)
        if _new.wait(EVERY_S):
            # Stages that follow each other at once are not written one by one.
            ended.wait(EVERY_S / 10)
