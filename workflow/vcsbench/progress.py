"""The progress of a long job: a small file next to its log, which the console of the run reads."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import SMALL_FILE, read_bytes

EVERY_S = 1.0
WRITTEN = ("name", "total", "unit", "done", "seconds")
Look = Callable[[], tuple[int, int]]


@dataclass(eq=False)
class Stage:
    """A stage of a job: `done` of `total` units (0: unknown), and the seconds that it has taken.

    `look` returns `done` and `total`; without it the job counts `done`.
    """

    name: str
    total: int = 0
    unit: str = ""
    done: int = 0
    seconds: float = 0.0
    look: Look | None = None
    started: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, object]:
        if self.look:
            self.done, self.total = self.look()
        self.seconds = time.monotonic() - self.started
        return {name: getattr(self, name) for name in WRITTEN}

    def follow(self, pattern: re.Pattern[str]) -> Callable[[str], None]:
        """Return a function that takes `done` from lines of a program's output."""

        def on_line(line: str) -> None:
            if match := pattern.match(line):
                self.done = int(match[1])

        return on_line


running: list[Stage] = []


@contextlib.contextmanager
def stage(name: str, total: int = 0, unit: str = "", look: Look | None = None) -> Iterator[Stage]:
    started = Stage(name, total, unit, look=look)
    running.append(started)
    try:
        yield started
    finally:
        running.remove(started)


@contextlib.contextmanager
def report_progress(log: str | Path) -> Iterator[None]:
    path, ended = progress_file(log), threading.Event()
    writer = threading.Thread(target=_write, args=(path, ended), daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _write(path: Path, ended: threading.Event) -> None:
    new = path.with_name(f"{path.name}.new")
    while not ended.wait(EVERY_S):
        # A job may go on that has enough of a full disk.
        with contextlib.suppress(OSError):
            new.write_text(json.dumps([each.as_dict() for each in running.copy()]))
            new.replace(path)


def progress_file(log: str | Path) -> Path:
    return Path(log).with_name(f".{Path(log).stem}.progress")


def read_stages(log: str | Path) -> list[Stage]:
    """Return the stages of a job, those of one name and unit added up; [] without a file."""
    try:
        content = read_bytes(progress_file(log), SMALL_FILE)
        stages = [Stage(**fields) for fields in json.loads(content)]
    except (OSError, ValueError, TypeError, RecursionError, UserError):
        return []
    found: dict[tuple[str, str], Stage] = {}
    for each in stages:
        total = found.setdefault((each.name, each.unit), Stage(each.name, unit=each.unit))
        total.done += each.done
        total.total += each.total
        total.seconds = max(total.seconds, each.seconds)
    return list(found.values())
