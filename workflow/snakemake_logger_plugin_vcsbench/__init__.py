"""The console of a run: one line with the present stage, how far it is, and the time left.

Snakemake loads this logger plugin by `--logger vcsbench`. A terminal has one line that is rewritten, a log
file has a line each minute. Control characters in the output of programs are escaped.
"""

import os
import re
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from logging import WARNING, LogRecord
from pathlib import Path
from typing import IO, Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

from vcsbench import processes, progress, words
from vcsbench.cell_rounds import CellRound
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import REMEDIES
from vcsbench.external import printable
from vcsbench.files import read_json
from vcsbench.isolation import describe_process, lock_holder
from vcsbench.progress import Stage
from vcsbench.run.job import clear_line

REFRESH_S, REFRESH_TIMED_S = 1.0, 10.0
LOG_EVERY_S = 60.0
LOG_LINES = 12
PREPARING = {
    "load": ("{stage} {of}", "loaded {of}"),
    "pack": ("{stage} {of}", "packed {of}"),
    "dump": ("{stage} {of}", "dumped {of}"),
    "copy_repo": ("{stage} on {of}", "made the copies on {of}"),
    "build": ("{stage} {of}", "made the build {of}"),
    "node_job": ("measuring job {of} on a node", "measured job {of}"),
}
MEASURING, COUNTING, DECIDING = "cell", "calls", "decide"
COUNTED = (DECIDING, COUNTING, MEASURING)
MEASURED_FIRST = (*PREPARING, *COUNTED)
COLUMNS = 80
MIN_SAMPLES = 5
MIN_STAGE_S, MIN_STAGE_PART = 5.0, 0.02
SHOWN = (
    *("Nothing to be done", "Creating conda env", "Downloading and installing", "Environment for"),
)
REPEATED = ("RuleException:", "Error in rule", "WorkflowError:\nAt least one job")
TRACEBACK, PERSISTENCE = "Traceback (most recent call last)", "/snakemake/persistence/"
ERRNO = re.compile(r"\w+: \[Errno (\d+)\]")
# The place in our own code where an error in a target was found.
PLACE = re.compile(
    r"^InputFunctionException in .*\nError:\n *(?:UserError: )?|\nWildcards:\n(?s:.*)"
)


@dataclass
class Job:
    """A running job; `started` is its time."""

    rule: str
    wildcards: Mapping[str, str]
    log: str
    started: float

    def phrase(self, number: int, stage: str = "") -> str:
        of = " ".join(self.wildcards.values())
        return PREPARING[self.rule][number].format(stage=stage, of=of)


class RunProgress:
    """The state of a run, from the events of its jobs. All moments are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.running: dict[int, Job] = {}
        self.total: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.failed = 0
        self.measured_s: list[float] = []
        # The cell-rounds that had ended at the last decision: counters are of one batch.
        self.before = 0
        self._stage = "begin"

    def expect(self, jobs: Mapping[str, int]) -> None:
        self.total = Counter({rule: number for rule, number in jobs.items() if rule != "total"})

    def expect_more(self, total: int) -> None:
        """Add the cell-rounds of a decision, and the next decision; `total` is the number of all jobs."""
        added = total - self.total.total()
        if added > 0 and self.ended[DECIDING]:
            self.total.update({MEASURING: added - 1, DECIDING: 1})

    def start(self, number: int, job: Job) -> None:
        self.running[number] = job
        self.stage()

    def end(self, job_number: int, has_failed: bool, now: float) -> str:
        """Remove a job that has ended. Return a sentence if a stage has ended with it, otherwise ""."""
        job = self.running.pop(job_number, None)
        if job is None:
            return ""
        self.ended[job.rule] += 1
        took_s = now - job.started
        if job.rule in PREPARING and not has_failed:
            return f"{job.phrase(1)} in {words.duration(took_s)}"
        if job.rule == DECIDING:
            self.before = self.ended[MEASURING]
        if job.rule != MEASURING:
            return ""
        self.failed += has_failed
        names = job.wildcards
        result = CellRound(
            names.get("study", ""), names.get("cell", ""), int(names.get("round", 0))
        )
        took = read_json(result.context).get("took", {})
        # Without the time that it waited for another measurement.
        self.measured_s.append(took_s - float(took.get("waited_s") or 0.0))
        # More has ended than is known at the begin of a batch.
        if self.total[MEASURING] != self.ended[MEASURING]:
            return ""
        return f"measured {self._batch(self.ended[MEASURING])}{self._failures()}"

    def left(self, *rules: str) -> int:
        return sum(max(0, self.total[rule] - self.ended[rule]) for rule in rules)

    def stage(self) -> str:
        """Return the present stage as one word: a rule, plan, begin or report.

        Between two jobs it is the last one's.
        """
        if not self.total:
            return "plan"
        rules = {job.rule for job in self.running.values()}
        if stages := [*sorted(rules & PREPARING.keys()), *(r for r in COUNTED if r in rules)]:
            self._stage = stages[0]
        elif rules and not self.left(COUNTING, MEASURING):
            self._stage = "begin" if self.left(*MEASURED_FIRST) else "report"
        return self._stage

    def line(self) -> str:
        stage = self.stage()
        if stage in PREPARING:
            jobs = [job for job in self.running.values() if job.rule in PREPARING]
            return "; ".join(text for job in jobs for text in _describe_stages(job)) or "preparing"
        if stage == MEASURING:
            done, is_known = "measuring more rounds", self.total[MEASURING] > self.before
            if is_known:
                done = f"measuring: {self.ended[MEASURING] - self.before:,} of "
                done += self._batch(self.total[MEASURING])
            if holder := other_holder():
                return f"{done}; waiting for another measurement: {describe_process(holder)}"
            left = ""
            if is_known and len(self.measured_s) >= MIN_SAMPLES:
                mean_s = sum(self.measured_s) / len(self.measured_s)
                left = f", {words.duration(self.left(MEASURING) * mean_s)} left"
            return f"{done}{self._failures()}{left}"
        if stage == COUNTING:
            cells = words.count_of(self.total[COUNTING], "cell")
            return f"counting system calls: {self.ended[COUNTING]:,} of {cells}"
        if stage == "report":
            rules = [rule for rule in self.total if rule not in MEASURED_FIRST]
            total = sum(self.total[rule] for rule in rules)
            return f"making tables and report: {total - self.left(*rules)} of {total} steps"
        return {DECIDING: "allocating more rounds", "plan": "planning"}.get(stage, "preparing")

    def _batch(self, until: int) -> str:
        return cell_rounds(until - self.before, " more" if self.before else "")

    def _failures(self) -> str:
        return f" ({self.failed:,} failed)" if self.failed else ""


class Console:
    """Prints the progress of a run on a stream: one line on a terminal, otherwise a line each minute."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.progress = RunProgress()
        self._is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._line, self._stage, self._written_at = "", "", 0.0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        threading.Thread(target=self._refresh, daemon=True).start()

    def handle(self, record: LogRecord) -> None:
        fields, now = vars(record), time.monotonic()
        event = str(fields.get("event") or "")
        with self._lock:
            if event == "run_info":
                more = " more" if self.progress.total[MEASURING] else ""
                self.progress.expect(fields.get("stats", {}))
                then = ", then more where they decide most" * bool(self.progress.left(DECIDING))
                if number := self.progress.left(MEASURING):
                    self._print(f"{cell_rounds(number, more)} to measure{then}")
            elif event == "job_info":
                log = next(iter(fields.get("log") or ()), "")
                job = Job(fields.get("rule_name", ""), fields.get("wildcards", {}), log, now)
                self.progress.start(fields.get("jobid", 0), job)
            elif event == "job_finished":
                self._print(self.progress.end(fields.get("job_id", 0), False, now))
            elif event == "job_error":
                self._print(self.progress.end(fields.get("jobid", 0), True, now))
                self._print(describe_failure(fields))
            elif event == "progress":
                # Snakemake counts jobs by rule only once, before checkpoints add some.
                self.progress.expect_more(fields.get("total", 0))
            elif record.levelno >= WARNING or str(record.msg).startswith(SHOWN):
                self._print(message(str(record.msg)))
            self._show(now)

    def close(self) -> None:
        with self._lock:
            self._clear()
            self._closed.set()

    def _refresh(self) -> None:
        pause_s = REFRESH_TIMED_S if self._is_terminal else LOG_EVERY_S
        while not self._closed.wait(REFRESH_S if self.progress.stage() in PREPARING else pause_s):
            with self._lock:
                self._show(time.monotonic())

    def _show(self, now: float) -> None:
        if self._closed.is_set():
            return
        stage, line = self.progress.stage(), printable(self.progress.line())
        if self._is_terminal:
            if line != self._line:
                width = min(shutil.get_terminal_size().columns - 1, COLUMNS)
                self._write(f"{clear_line(self.stream)}{line[:width]}\r")
                self._line = line
        elif now - self._written_at >= LOG_EVERY_S or stage not in ("plan", self._stage):
            self._written_at, self._stage = now, stage
            self._write(f"{time.strftime('%H:%M:%S')} {line}"[:COLUMNS] + "\n")

    def _print(self, text: str) -> None:
        if text:
            self._clear()
            clock = "" if self._is_terminal else f"{time.strftime('%H:%M:%S')} "
            self._write(f"{clock}{text}\n")

    def _clear(self) -> None:
        if self._is_terminal and self._line:
            self._write(clear_line(self.stream))
            self._line = ""

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:
            self._closed.set()


def describe_failure(fields: Mapping[str, Any]) -> str:
    logs = [str(log) for log in fields.get("log") or ()]
    name = next(iter(fields.get("output") or ()), fields.get("rule_name", ""))
    head = f"failed: {name}" + (f" (log: {', '.join(logs)})" if logs else "")
    lines = [str(fields["rule_msg"])] if fields.get("rule_msg") else []
    lines += [line for log in logs for line in processes.last_lines(Path(log), LOG_LINES)]
    return "\n".join([printable(head), *(f"    {printable(line)}" for line in lines)])


def message(text: str) -> str:
    text = _describe_crash(text) if text.startswith(TRACEBACK) else PLACE.sub("", text)
    return "" if text.startswith(REPEATED) else "\n".join(map(printable, text.splitlines()))


def _describe_crash(traceback: str) -> str:
    error = traceback.rstrip().splitlines()[-1]
    number = ERRNO.match(error)
    if PERSISTENCE in traceback and not number:
        return (
            f".snakemake: Snakemake cannot read its records of earlier jobs: {error}. Remove the folders "
            "metadata, incomplete and locks there, and run again: results stay."
        )
    remedy = REMEDIES.get(int(number[1])) if number else None
    log = "The newest log in the folder .snakemake has more"
    return f"Snakemake failed: {error}. {f'{remedy}, and run again' if remedy else log}."


def other_holder() -> int:
    run = os.environ.get(RUN_ROOT)
    holder = lock_holder() if run else 0
    is_ours = holder and f"{RUN_ROOT}={run}" in processes.environment(holder)
    return 0 if is_ours else holder


def cell_rounds(number: int, more: str = "") -> str:
    return f"{number:,}{more} cell-round{'s' if number != 1 else ''}"


def _describe_stages(job: Job) -> list[str]:
    stages = progress.read_stages(job.log)
    counted = [stage for stage in stages if stage.done or stage.total] or stages[-1:]
    lines = [f"{job.phrase(0, stage.name)}{_extent(stage)}" for stage in counted]
    return lines or [job.phrase(0, "preparing")]


def _extent(stage: Stage) -> str:
    done, total = stage.done, stage.total
    if not stage.unit or not (done or total):
        return f": {words.duration(stage.seconds)} so far"
    if stage.unit == "bytes":
        extent = words.size(done) + (f" of {words.size(total)}" if total else "")
    else:
        extent = f"{done:,}{f' of {total:,}' if total else ''} {stage.unit}"
    if stage.seconds < MIN_STAGE_S or not done >= MIN_STAGE_PART * total > 0:
        return f": {extent}"
    return f": {extent}, {words.duration(stage.seconds * (total - done) / done)} left"


class LogHandler(LogHandlerBase):
    """Hand Snakemake's events to the console, which replaces Snakemake's own output on the terminal.

    Snakemake's log file stays. A dry run, and a run for which the user wants more or less output, prints
    what Snakemake prints by itself.
    """

    writes_to_stream = True
    writes_to_file = needs_rulegraph = False

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.is_plain = bool(
            settings.dryrun or settings.verbose or settings.printshellcmds or settings.quiet
        )
        self.console = None if self.is_plain else Console()

    @property
    def has_filter(self) -> bool:
        """Return False if Snakemake adds its own filter."""
        return not self.is_plain

    @property
    def has_formatter(self) -> bool:
        """Return False if Snakemake adds its own formatter."""
        return not self.is_plain

    def emit(self, record: LogRecord) -> None:
        if self.console:
            self.console.handle(record)
            return
        # The formatter returns "" or "None" for an event that it does not print.
        text = self.format(record)
        if text and text != "None":
            print(text, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)

    def close(self) -> None:
        if self.console:
            self.console.close()
        super().close()
