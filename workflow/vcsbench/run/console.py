"""The terminal of a run: one line with the present stage, how far it is, and the time left.

On a terminal the line is rewritten. In a log file a line is written each minute. A failed job has the last
lines of its log, and all text of programs has its control characters escaped.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from logging import WARNING, LogRecord
from pathlib import Path
from typing import IO, Any

from vcsbench import processes, progress, words
from vcsbench.external import printable
from vcsbench.files import read_json
from vcsbench.measure.lock import Holder, lock_holder
from vcsbench.processes import last_lines
from vcsbench.progress import cleared
from vcsbench.run.leftovers import MARK
from vcsbench.run.lock import LOCKED

LOOK_S, LOOK_TIMED_S = 1.0, 10.0
LOG_EVERY_S = 60.0
LINES_OF_LOG = 12
# The rules that prepare: their stage while they run and after, with the value of their wildcard.
PREPARING = {
    "load": ("{stage} {of}", "loaded {of}"),
    "copies": ("{stage} on {of}", "made the copies on {of}"),
    "build": ("{stage} {of}", "made the build {of}"),
    "share": ("measuring share {of} on a node", "measured share {of}"),
}
MEASURING, COUNTING, DECIDING = "cell", "calls", "decide"
MEASURED_FIRST = (*PREPARING, COUNTING, MEASURING, DECIDING)
# Before so many cell-rounds have ended, no time is estimated; and of a stage of preparation, no earlier
# than this.
MIN_SAMPLES = 5
MIN_STAGE_S, MIN_STAGE_SHARE = 5.0, 0.02
# Messages of Snakemake that are no warnings and yet belong on the terminal.
SHOWN = (
    "Nothing to be done",
    "Creating conda env",
    "Downloading and installing",
    "Environment for",
)
# Snakemake found the folder locked.
LOCKED_MESSAGE = "Directory cannot be locked"


@dataclass
class Job:
    """A running job: its rule, wildcards and log, and when it began."""

    rule: str
    wildcards: Mapping[str, str]
    log: str
    began: float

    @property
    def of(self) -> str:
        """Return the value of the only wildcard of a job that prepares."""
        return next(iter(self.wildcards.values()), "")


class Progress:
    """The state of a run, from the events of its jobs. Moments are seconds of one clock."""

    def __init__(self) -> None:
        self.running: dict[int, Job] = {}
        self.total: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.failed = 0
        # While other measurements held the machine's lock.
        self.waited_s = 0.0
        self.began: float | None = None
        self.measured_s: list[float] = []

    def expect(self, jobs: Mapping[str, int]) -> None:
        """Take the numbers of all jobs by rule, and of those that have ended already."""
        self.total = Counter({rule: number for rule, number in jobs.items() if rule != "total"})

    def start(self, number: int, job: Job) -> None:
        """Take a job that begins."""
        self.running[number] = job
        if job.rule in PREPARING:
            progress.forget(job.log)
        if job.rule == MEASURING and self.began is None:
            self.began = job.began

    def end(self, number: int, failed: bool, now: float) -> str:
        """Take a job that has ended; returns a sentence about it, or ""."""
        job = self.running.pop(number, None)
        if job is None:
            return ""
        self.ended[job.rule] += 1
        took = now - job.began
        if job.rule == MEASURING:
            self.failed += failed
            waited_s = _waited_s(job)
            self.waited_s += waited_s
            self.measured_s.append(max(0.0, took - waited_s))
            if self.left(MEASURING):
                return ""
            duration = words.duration(
                now - (now if self.began is None else self.began) - self.waited_s
            )
            return f"measured {cell_rounds(self.ended[MEASURING])}{self._failures()} in {duration}"
        if job.rule in PREPARING and not failed:
            return f"{PREPARING[job.rule][1].format(of=job.of)} in {words.duration(took)}"
        return ""

    def left(self, *rules: str) -> int:
        """Return how many jobs of some rules have not ended."""
        return sum(max(0, self.total[rule] - self.ended[rule]) for rule in rules)

    def stage(self) -> str:
        """Return the present stage as one word."""
        rules = {job.rule for job in self.running.values()}
        if preparing := sorted(rules & PREPARING.keys()):
            return preparing[0]
        for stage in (DECIDING, COUNTING, MEASURING):
            if stage in rules or (stage != DECIDING and self.ended[stage] and self.left(stage)):
                return stage
        if not self.total:
            return "plan"
        return "begin" if self.left(*MEASURED_FIRST) else "report"

    def line(self, now: float) -> str:
        """Return the present stage, how far it is, and the time left where it is known."""
        stage = self.stage()
        if stage in PREPARING:
            jobs = [job for job in self.running.values() if job.rule in PREPARING]
            return "; ".join(part for job in jobs for part in _stages(job))
        if stage == MEASURING:
            done = f"{self.ended[MEASURING]:,} of {cell_rounds(self.total[MEASURING])}"
            if holder := other_holder():
                return f"measuring: {done}; waiting for another measurement: {holder}"
            return f"measuring: {done}{self._failures()}{_left(self._seconds_left())}"
        if stage == COUNTING:
            return f"counting system calls: {self.ended[COUNTING]:,} of {self.total[COUNTING]:,}"
        if stage == "report":
            rules = [rule for rule in self.total if rule not in MEASURED_FIRST]
            total = sum(self.total[rule] for rule in rules)
            return f"making tables and report: {total - self.left(*rules)} of {total}"
        return {DECIDING: "allocating more rounds", "plan": "planning"}.get(stage, "preparing")

    def _seconds_left(self) -> float | None:
        if len(self.measured_s) < MIN_SAMPLES:
            return None
        return self.left(MEASURING) * sum(self.measured_s) / len(self.measured_s)

    def _failures(self) -> str:
        return f" ({self.failed:,} failed)" if self.failed else ""


class Console:
    """Prints the progress of a run on a stream: one line on a terminal, a line each minute elsewhere."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.progress = Progress()
        self._is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._line, self._at, self._stage = "", 0.0, ""
        self._lock = threading.RLock()
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def handle(self, record: LogRecord) -> None:
        """Print what an event of Snakemake's changes."""
        event, now = str(getattr(record, "event", None) or ""), time.monotonic()
        with self._lock:
            if event == "run_info":
                self._expect(getattr(record, "stats", {}))
            elif event == "job_info":
                log = next(iter(getattr(record, "log", None) or ()), "")
                rule, wildcards = getattr(record, "rule_name", ""), getattr(record, "wildcards", {})
                self.progress.start(getattr(record, "jobid", 0), Job(rule, wildcards, log, now))
            elif event == "job_finished":
                self._print(self.progress.end(getattr(record, "job_id", 0), False, now))
            elif event == "job_error":
                self._print(self.progress.end(getattr(record, "jobid", 0), True, now))
                self._print(failure(record))
            elif record.levelno >= WARNING or str(record.msg).startswith(SHOWN):
                self._print(message(record))
            self._show(now)

    def close(self) -> None:
        """Remove the line of progress."""
        with self._lock:
            self._clear()
            self._closed.set()

    def _expect(self, jobs: Mapping[str, int]) -> None:
        before = self.progress.total[MEASURING]
        self.progress.expect(jobs)
        if number := self.progress.left(MEASURING):
            self._print(f"{cell_rounds(number, ' more' if before else '')} to measure")

    def _watch(self) -> None:
        while not self._closed.wait(self._pause()):
            with self._lock:
                self._show(time.monotonic())

    def _pause(self) -> float:
        """Return the time until the next look. While cells are timed, little wakes up."""
        if self.progress.stage() in PREPARING:
            return LOOK_S
        return LOOK_TIMED_S if self._is_terminal else LOG_EVERY_S

    def _show(self, now: float) -> None:
        if self._closed.is_set():
            return
        stage, line = self.progress.stage(), printable(self.progress.line(now))
        if self._is_terminal:
            if line != self._line:
                width = shutil.get_terminal_size().columns
                self._write(f"{cleared(self.stream)}{line[: width - 1]}\r")
                self._line = line
        elif now - self._at >= LOG_EVERY_S or (stage != self._stage and stage not in ("plan", "")):
            self._at, self._stage = now, stage
            self._write(f"{time.strftime('%H:%M:%S')} {line}\n")

    def _print(self, text: str) -> None:
        """Print lines that stay."""
        if text:
            self._clear()
            clock = "" if self._is_terminal else f"{time.strftime('%H:%M:%S')} "
            self._write(f"{clock}{text}\n")

    def _clear(self) -> None:
        if self._is_terminal and self._line:
            self._write(cleared(self.stream))
            self._line = ""

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            self._closed.set()  # nobody reads it any more


def failure(record: LogRecord) -> str:
    """Return the name of a failed job and the last lines of its log."""
    logs = [str(log) for log in getattr(record, "log", None) or ()]
    rule = getattr(record, "rule_name", "")
    of = next(iter(getattr(record, "output", None) or ()), "")
    head = f"failed: {of or rule}" + (f" (log: {', '.join(logs)})" if logs else "")
    lines = [line for log in logs for line in last_lines(Path(log), LINES_OF_LOG)]
    told = [str(getattr(record, "rule_msg", None) or "")]
    return "\n".join(
        [printable(head), *(f"    {printable(line)}" for line in [*filter(None, told), *lines])]
    )


def message(record: LogRecord) -> str:
    """Return a message of Snakemake's for the terminal, or "" for one that repeats a failed job."""
    text = str(record.msg)
    if LOCKED_MESSAGE in text:
        with suppress(OSError):
            Path(LOCKED).touch()
    repeats = ("RuleException:", "Error in rule", "WorkflowError:\nAt least one job")
    return "" if text.startswith(repeats) else "\n".join(map(printable, text.splitlines()))


def other_holder() -> Holder | None:
    """Return the holder of the machine's lock if it is not a process of this run."""
    run = os.environ.get(MARK)
    holder = lock_holder() if run else None
    return None if holder and f"{MARK}={run}" in processes.environment(holder.pid) else holder


def _waited_s(job: Job) -> float:
    """Return the seconds for which a finished cell-round waited for other measurements on the machine."""
    study, cell, number = (job.wildcards.get(key, "") for key in ("study", "cell", "round"))
    context = read_json(Path("results", "cells", study, cell, f"round{number}.context.json"))
    return float(context.get("took", {}).get("waited_s") or 0.0)


def cell_rounds(number: int, more: str = "") -> str:
    """Return a number of cell-rounds in words."""
    return f"{number:,}{more} cell-round{'s' if number != 1 else ''}"


def _stages(job: Job) -> Iterable[str]:
    """Yield a clause for each stage of a job that prepares."""
    phrase = PREPARING[job.rule][0]
    stages = progress.read(job.log)
    # A stage that has counted nothing waits for another.
    counted = [stage for stage in stages if stage["done"] or stage["total"]] or stages[-1:]
    for stage in counted:
        yield f"{phrase.format(stage=stage['name'], of=job.of)}{_extent(stage)}"
    if not counted:
        yield phrase.format(stage="preparing", of=job.of)


def _extent(stage: Mapping[str, Any]) -> str:
    done, total, seconds = stage["done"], stage["total"], stage["seconds"]
    if not stage["unit"] or not (done or total):
        return f": {words.duration(seconds)} so far"
    if stage["unit"] == "bytes":
        extent = words.size(done) + (f" of {words.size(total)}" if total else "")
    else:
        extent = f"{done:,}{f' of {total:,}' if total else ''} {stage['unit']}"
    known = seconds >= MIN_STAGE_S and done >= MIN_STAGE_SHARE * total > 0
    return f": {extent}{_left(seconds * (total - done) / done if known and done else None)}"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {words.duration(seconds)} left"
