"""Snakemake's console, taken over: a line that says what the run is at, how far, and how long yet.

On a terminal that line is rewritten; elsewhere it is written anew now and then. What Snakemake says of each
job goes to its log file only. What it says of failures comes as ever.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from vcsbench.progress import cleared
from vcsbench.run.course import PREPARING, Course, Job

# So often it is looked how far what prepares has come.
LOOK_S = 1.0
# After so long a line is written again. While cells are timed, nothing of this wakes up more often; and
# then a log grows ever slower, by a line each hundredth of the time that the measuring has taken.
AGAIN_S = 8.0
SHARE = 1 / 100
# What Snakemake says that is no failure, and is to be seen.
SAID = (
    "Nothing to be done",
    "Complete log",
    "Terminating",
    "Will exit",
    "Creating conda env",
    "Downloading and installing",
    "Environment for",
)
PLANS = "Building DAG"
MORE = "Updating checkpoint dependencies"
# That a command failed is said of its job as well, with its log, and without the command.
REPEATS = "RuleException:\nCalledProcessError"


class Console(logging.Handler):
    """Stands in for Snakemake's `own` handler, through which passes what is to be seen as it is."""

    def __init__(self, own: logging.StreamHandler[Any], course: Course) -> None:
        super().__init__()
        self._own, self._course = own, course
        self._live = own.stream.isatty() and os.environ.get("TERM") != "dumb"
        # What was written last, when, and what the run was at then.
        self._line, self._at, self._stage = "", time.monotonic(), ""
        self._changed = threading.Event()
        self._over = False
        self._left: Callable[[], Iterable[Any]] = tuple
        # Whether there may be more of them than were expected.
        self._grown = False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other thread writes; whatever happens, the next one may."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def begin(self, left: Callable[[], Iterable[Any]], minutes_s: float | None) -> None:
        """Jobs (Snakemake's) are about to run: those that are `left`, of which a decision makes more as long
        as these seconds last; None where nothing is decided."""
        self._left = left
        if minutes_s is not None:
            self._course.ends_at = time.monotonic() + minutes_s
        self._expect()

    def _expect(self) -> None:
        with self._alone():
            self._grown, jobs = False, self._left()
            cells = self._course.expect([(job.rule.name, job.wildcards_dict) for job in jobs])
            if cells:
                self._write(self._course.asked_for(cells))

    def end(self) -> None:
        """No more is shown of how far the run is."""
        with self._alone():
            self._clear()
            self._over = True
            self._changed.set()

    def close(self) -> None:
        """Logging has ended."""
        self.end()
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Take what Snakemake says."""
        event, now = getattr(record, "event", None), time.monotonic()
        if event == "job_info":
            if self._grown:
                self._expect()
            log = next(iter(getattr(record, "log", ())), "")
            job = Job(getattr(record, "rule_name", ""), getattr(record, "wildcards", {}), log, now)
            self._course.began(getattr(record, "jobid", 0), job)
        elif event == "job_finished":
            self._write(self._course.ended(getattr(record, "job_id", 0), False, now))
        elif event == "job_error":
            self._write(self._course.ended(getattr(record, "jobid", 0), True, now))
        said = str(record.msg)
        self._grown |= said.startswith(MORE)
        if (record.levelno >= logging.WARNING and not said.startswith(REPEATS)) or said.startswith(
            SAID
        ):
            self._clear()
            self._own.handle(_shorter(record) if event == "job_error" else record)
        if said.startswith(PLANS):
            self._at = now
            threading.Thread(target=self._look, daemon=True).start()
        if event in ("job_info", "job_finished", "job_error") or self._live:
            self._show(now)

    def _look(self) -> None:
        while not self._over:
            self._changed.wait(self._pause(time.monotonic()))
            self._changed.clear()
            with self._alone():
                self._show(time.monotonic())

    def _pause(self, now: float) -> float:
        """How long there is nothing to look at."""
        due = max(0.0, self._at + self._again(now) - now) + 0.05
        return min(LOOK_S, due) if self._course.stage() in PREPARING else due

    def _again(self, now: float) -> float:
        measuring = self._course.stage() not in PREPARING
        return max(AGAIN_S, SHARE * self._course.seconds(now) * measuring)

    def _show(self, now: float) -> None:
        """Write what the run is at, if it is another thing than before, or it is time to."""
        if self._over:
            return
        stage, line = self._course.stage(), self._course.line(now)
        if self._live:
            if line != self._line:
                width = os.get_terminal_size(self._own.stream.fileno()).columns or 80
                # Whatever else is written begins where this line does.
                self._put(f"{cleared(self._own.stream)}{line[: width - 1]}\r")
        elif _is_new(line, self._line) or now - self._at >= self._again(now):
            self._write(line)
        else:
            return
        self._line, self._at = line, now
        if stage != self._stage:
            self._stage = stage
            self._changed.set()

    def _write(self, text: str) -> None:
        """Write a line that stays."""
        if text:
            self._clear()
            self._put(f"{text}\n" if self._live else f"{time.strftime('%H:%M:%S')} {text}\n")

    def _clear(self) -> None:
        if self._live and self._line:
            self._put(cleared(self._own.stream))
            self._line = ""

    def _put(self, text: str) -> None:
        try:
            self._own.stream.write(text)
            self._own.stream.flush()
        except OSError:
            self._over = True  # nobody listens any more


def _is_new(line: str, before: str) -> bool:
    """Whether a line says how far something else is than the one before."""
    return ":" in line and line.partition(":")[0] != before.partition(":")[0]


def _shorter(record: logging.LogRecord) -> logging.LogRecord:
    """A failed job without its inputs and its command: they are in the log file, and fill a screen. What a
    scheduler says of it is kept."""
    shorter = copy.copy(record)
    shorter.__dict__.update(msg=getattr(record, "rule_msg", "") or "", input=[], shellcmd="")
    return shorter


def take_over(settings: Any, kind_of: Callable[[str, str], Hashable]) -> Console | None:
    """Take Snakemake's console over; None where it stays: for a logger plugin, a dry run, and who asks it for
    more or for less. `settings` are Snakemake's, of what it writes; `kind_of` is Course's."""
    more = settings.verbose or settings.printshellcmds or settings.debug_dag
    if more or settings.quiet or settings.dryrun:
        return None
    log = logging.getLogger("snakemake.logging")
    own = next((one for one in log.handlers if one.name == "DefaultStreamHandler"), None)
    if not isinstance(own, logging.StreamHandler):
        return None  # a plugin has the console
    console = Console(own, Course(kind_of))
    log.removeHandler(own)
    log.addHandler(console)
    return console
