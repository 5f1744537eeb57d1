"""The progress of a run, for its console: a small file next to the log of each long job, and a time limit."""

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import SMALL_FILE, read_bytes

# How often a job writes its file.
EVERY_S = 1.0
WRITTEN_FIELDS = ("name", "total", "unit", "done", "seconds")
# `make` sets it: the seconds that set-up took count as a part of the run.
SETUP_SECONDS = "VCSBENCH_SETUP_SECONDS"
# A run sets it for its console, which is in the same process and reads no configuration.
LIMIT_SECONDS = "VCSBENCH_RUN_LIMIT_SECONDS"
Look = Callable[[], tuple[int, int]]


def set_up_s() -> float:
    """Return the seconds that set-up took before this run."""
    return float(os.environ.get(SETUP_SECONDS) or 0)


def set_run_limit(minutes: float | None, spent_s: float) -> None:
    """Pass the time limit of a run to its console.

    The limit is for set-up and all runs on the same results. Earlier runs took `spent_s` seconds of it.
    """
    if minutes is None:
        os.environ.pop(LIMIT_SECONDS, None)
    else:
        os.environ[LIMIT_SECONDS] = str(60 * minutes - set_up_s() - spent_s)


def run_limit_s() -> float | None:
    """Return the seconds that are left to this run at its begin; None without a limit."""
    limit_s = os.environ.get(LIMIT_SECONDS)
    return None if limit_s is None else float(limit_s)


@dataclass(eq=False)
class Stage:
    """A stage of a job, such as "verifying": `done` of `total` units (0: unknown), and the seconds so far.

    `unit` is a plural, such as "revisions". `look` returns `done` and `total`; without it, the job counts
    `done`.
    """

    name: str
    total: int = 0
    unit: str = ""
    done: int = 0
    seconds: float = 0.0
    look: Look | None = None
    started: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, object]:
        """Update the stage to the present moment, and return its WRITTEN_FIELDS."""
        if self.look:
            self.done, self.total = self.look()
        self.seconds = time.monotonic() - self.started
        return {name: getattr(self, name) for name in WRITTEN_FIELDS}

    def follow(self, pattern: re.Pattern[str]) -> Callable[[str], None]:
        """Return a function that sets `done` from a line of a program's output, if the line fits a pattern.

        The first group of the pattern is the number, as in `Committed revision ([0-9]+)`.
        """

        def on_line(line: str) -> None:
            match = pattern.match(line)
            if match:
                self.done = int(match[1])

        return on_line


# The stages of this process that have begun and not ended.
running: list[Stage] = []


@contextlib.contextmanager
def stage(name: str, total: int = 0, unit: str = "", look: Look | None = None) -> Iterator[Stage]:
    """Show a stage of this job on the console while the block runs."""
    started = Stage(name, total, unit, look=look)
    running.append(started)
    try:
        yield started
    finally:
        running.remove(started)


@contextlib.contextmanager
def report_progress(log: str | Path) -> Iterator[None]:
    """Write the running stages of this process to a file next to its log, and remove the file at the end."""
    path = progress_file(log)
    ended = threading.Event()
    writer = threading.Thread(target=_write_stages, args=(path, ended), daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        # Otherwise the thread could write the file again after it was removed.
        writer.join()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _write_stages(path: Path, ended: threading.Event) -> None:
    """Write the running stages to a file once a second, until the event is set."""
    new = path.with_name(f"{path.name}.new")
    while not ended.wait(EVERY_S):
        # If the disk is full, the job itself may still succeed.
        with contextlib.suppress(OSError):
            # A copy, because the job begins and ends stages in its own thread.
            new.write_text(json.dumps([each.as_dict() for each in running.copy()]))
            # The console never reads half a file.
            new.replace(path)


def progress_file(log: str | Path) -> Path:
    return Path(log).with_name(f".{Path(log).stem}.progress")


def read_stages(log: str | Path) -> list[Stage]:
    """Return the stages of a job from the file next to its log; [] without a readable file.

    Stages with the same name and unit, as of two threads that verify repositories, are added up: 200 of 1,000
    and 100 of 500 revisions are 300 of 1,500.
    """
    # The file may be missing or damaged. Stage() raises TypeError for fields of another version of vcsbench.
    try:
        content = read_bytes(progress_file(log), SMALL_FILE)
        stages = [Stage(**fields) for fields in json.loads(content)]
    except (OSError, ValueError, TypeError, RecursionError, UserError):
        return []
    sums: dict[tuple[str, str], Stage] = {}
    for stage_of_thread in stages:
        key = (stage_of_thread.name, stage_of_thread.unit)
        if key not in sums:
            sums[key] = Stage(stage_of_thread.name, unit=stage_of_thread.unit)
        sums[key].done += stage_of_thread.done
        sums[key].total += stage_of_thread.total
        # The threads run at the same time, so their seconds are not added up.
        sums[key].seconds = max(sums[key].seconds, stage_of_thread.seconds)
    return list(sums.values())
