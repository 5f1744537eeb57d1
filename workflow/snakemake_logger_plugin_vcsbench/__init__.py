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
from collections.abc import Mapping
from logging import WARNING, LogRecord
from pathlib import Path
from typing import IO, Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

from snakemake_logger_plugin_vcsbench.run_progress import (
    DECIDING_RULE,
    MEASURING_RULE,
    Job,
    RunProgress,
    RunStage,
    cell_rounds,
)
from vcsbench import processes
from vcsbench.errors import REMEDY_BY_ERRNO
from vcsbench.external import printable
from vcsbench.run.job import clear_line

# How often the line is written again: on a terminal, while it measures, and in a log file. A measurement is
# disturbed by each program that wakes up, and preparation is not.
REFRESH_S = 1.0
REFRESH_TIMED_S = 10.0
LOG_EVERY_S = 60.0
# The last lines of a failed job's log that are printed.
LOG_LINES = 12
# The longest line in a log file.
COLUMNS = 110
# Messages of Snakemake below a warning that a user needs.
SHOWN = (
    "Nothing to be done",
    "Creating conda env",
    "Downloading and installing",
    "Environment for",
)
# Messages about a failed job, which the console has already described.
REPEATED = ("RuleException:", "Error in rule", "WorkflowError:\nAt least one job")
TRACEBACK = "Traceback (most recent call last)"
PERSISTENCE = "/snakemake/persistence/"
ERRNO = re.compile(r"\w+: \[Errno (\d+)\]")
# The place in our own code where an error in a target was found.
PLACE = re.compile(
    r"^InputFunctionException in .*\nError:\n *(?:UserError: )?|\nWildcards:\n(?s:.*)"
)


class Console:
    """Prints the progress of a run on a stream: one line on a terminal, otherwise a line each minute."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stderr
        self.progress = RunProgress(time.monotonic())
        self._is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        # The text on the terminal, and the stage and the moment of the last line in a log file.
        self._line = ""
        self._stage = RunStage.PLANNING
        self._written_at = 0.0
        # Events come from several threads of Snakemake.
        self._lock = threading.RLock()
        self._closed = threading.Event()
        threading.Thread(target=self._refresh, daemon=True).start()

    def handle(self, record: LogRecord) -> None:
        """Take an event of Snakemake, print a message about it if a user needs one, and write the line."""
        fields = vars(record)
        now = time.monotonic()
        with self._lock:
            match fields.get("event"):
                case "run_info":
                    self.progress.expect(fields.get("stats", {}))
                    self._print(self._announcement())
                case "job_info":
                    log = next(iter(fields.get("log") or ()), "")
                    job = Job(fields.get("rule_name", ""), fields.get("wildcards", {}), log, now)
                    self.progress.start(fields.get("jobid", 0), job)
                case "job_finished":
                    # Snakemake calls the number of a job `job_id` here, and `jobid` elsewhere.
                    self._print(self.progress.end(fields.get("job_id", 0), False, now))
                case "job_error":
                    self._print(self.progress.end(fields.get("jobid", 0), True, now))
                    self._print(describe_failure(fields))
                case "progress":
                    # The only event with jobs that a checkpoint has added, and it counts all rules together.
                    self.progress.expect_all(fields.get("total", 0))
                case _:
                    text = str(record.msg)
                    if record.levelno >= WARNING or text.startswith(SHOWN):
                        self._print(describe_message(text))
            self._show(now)

    def close(self) -> None:
        with self._lock:
            self._clear()
            self._closed.set()

    def _announcement(self) -> str:
        """Return the size of the run, for example "593 cell-rounds to measure"; "" if it measures nothing."""
        number = self.progress.count_left(MEASURING_RULE)
        if not number:
            return ""
        text = f"{cell_rounds(number)} to measure"
        # With a time limit, the first decision is already planned.
        if self.progress.count_left(DECIDING_RULE):
            text += ", then more where they decide most"
        return text

    def _refresh(self) -> None:
        """Write the line again and again, in a thread of its own, until the console is closed."""
        pause_s = REFRESH_TIMED_S if self._is_terminal else LOG_EVERY_S
        is_closed = False
        while not is_closed:
            # Each wake-up disturbs a measurement, so the pause is short only while the run prepares.
            is_preparing = self.progress.stage is RunStage.PREPARING
            is_closed = self._closed.wait(REFRESH_S if is_preparing else pause_s)
            with self._lock:
                self._show(time.monotonic())

    def _show(self, now: float) -> None:
        """Write the line of the progress: on a terminal, if it has changed.

        In a log file, the line is written if the stage of the run has changed, or after a minute.
        """
        if self._closed.is_set():
            return
        if self._is_terminal:
            # The line also names another measurement that this run waits for.
            self.progress.observe_machine(now)
            line = printable(self.progress.line(now))
            if line != self._line:
                # A full last column would wrap the line.
                width = shutil.get_terminal_size().columns - 1
                self._write(f"{clear_line(self.stream)}{line[:width]}\r")
                self._line = line
            return
        stage = self.progress.stage
        has_new_stage = stage not in (RunStage.PLANNING, self._stage)
        if has_new_stage or now - self._written_at >= LOG_EVERY_S:
            self._written_at = now
            self._stage = stage
            self.progress.observe_machine(now)
            line = printable(self.progress.line(now))
            self._write(f"{time.strftime('%H:%M:%S')} {line}"[:COLUMNS] + "\n")

    def _print(self, text: str) -> None:
        """Print a message above the line, or nothing for an empty text."""
        if not text:
            return
        self._clear()
        # On a terminal, the user sees when the message comes.
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
            # The terminal was closed, or the disk of a log file is full. The run goes on without a console.
            self._closed.set()


def describe_failure(fields: Mapping[str, Any]) -> str:
    """Return a text on a failed job: the path of its output, its logs, and their last lines.

    Example of its begin: "failed: results/cells/s/a/round1.json (log: results/logs/cells/s/a/round1.log)".
    """
    logs = [str(log) for log in fields.get("log") or ()]
    # A rule without output has its name only.
    name = next(iter(fields.get("output") or ()), fields.get("rule_name", ""))
    head = f"failed: {name}"
    if logs:
        head += f" (log: {', '.join(logs)})"
    lines = []
    if fields.get("rule_msg"):
        lines.append(str(fields["rule_msg"]))
    for log in logs:
        lines += processes.last_lines(Path(log), LOG_LINES)
    return "\n".join([printable(head), *(f"    {printable(line)}" for line in lines)])


def describe_message(text: str) -> str:
    """Return a message of Snakemake as a user needs it; "" if the console has described the failure."""
    if text.startswith(REPEATED):
        return ""
    # A traceback becomes a sentence. Other errors lose the place in vcsbench's own code (PLACE).
    text = _describe_crash(text) if text.startswith(TRACEBACK) else PLACE.sub("", text)
    return "\n".join(printable(line) for line in text.splitlines())


def _describe_crash(traceback: str) -> str:
    """Return a sentence with the error at the end of a traceback, and the remedy."""
    error = traceback.rstrip().splitlines()[-1]
    number = ERRNO.match(error)
    # An error in Snakemake's code for its records mostly comes from a damaged record. With an error number of
    # the system, such as that of a full disk, the records are not at fault.
    if PERSISTENCE in traceback and not number:
        return (
            f".snakemake: Snakemake cannot read its records of earlier jobs: {error}. Remove the folders "
            "metadata, incomplete and locks there, and run again: results stay."
        )
    remedy = REMEDY_BY_ERRNO.get(int(number[1])) if number else None
    if remedy:
        return f"Snakemake failed: {error}. {remedy}, and run again."
    return f"Snakemake failed: {error}. The newest log in the folder .snakemake has more."


class LogHandler(LogHandlerBase):
    """Hand Snakemake's events to the console, which replaces Snakemake's own output on the terminal.

    Snakemake's log file stays. Snakemake's own output also stays in a dry run, and if the user wants more or
    less output.
    """

    writes_to_stream = True
    writes_to_file = False
    needs_rulegraph = False

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
