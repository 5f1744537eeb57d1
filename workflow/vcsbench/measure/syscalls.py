"""Count the system calls of a cell: one untimed run of its command under strace.

A thread reads strace's lines as they come and keeps numbers only, so a long run takes no disk and no memory.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.measure.runs import capture
from vcsbench.measure.work import discard_output

if TYPE_CHECKING:
    from vcsbench.records import CellCalls, Context, Recipe, SystemCalls

# Trace all calls of threads and children, with plain numbers: strace then reads no memory of the process.
OPTIONS = ("-f", "-qqq", "-e", "trace=all", "-e", "raw=all", "-e", "signal=none")
# `12 read(0x3, 0x7f, 0x1000) = 0x1000`, in two parts if another thread's line is between.
_COMPLETE = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (-?\w+)")
_UNFINISHED = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*?),? *<unfinished \.\.\.>")
_RESUMED = re.compile(rb"(?:\[pid +)?(\d+)\]? +<\.\.\. (\w+) resumed>(.*)\) += (-?\w+)")
# The position of the flags in the arguments of calls that open files.
OPEN_FLAGS = {b"open": 1, b"openat": 2}
READS = {b"read", b"pread64", b"readv", b"preadv", b"preadv2"}
WRITES = {b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2"}
SEEKS = {b"lseek", b"_llseek"}
STATS = {b"stat", b"lstat", b"fstat", b"newfstatat", b"fstatat64", b"statx"}
# The published names. `opens` succeeded.
NAMES = (
    *("opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "bytes_read"),
    *("writes", "bytes_written", "stats"),
)
ATTACH_LIMIT_S = 10.0
# A traced run takes at most this many times as long.
MAX_SLOWDOWN = 100.0


class CallCounts:
    """Counts of system calls: `named` by NAMES, `others` by the names of the calls."""

    def __init__(self) -> None:
        self.named: Counter[str] = Counter(dict.fromkeys(NAMES, 0))
        self.others: Counter[str] = Counter()
        self._unfinished: dict[bytes, bytes] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        """Count the calls in all lines of strace."""
        for line in lines:
            if match := _COMPLETE.match(line):
                self._count(*match.group(2, 3, 4))
            elif match := _UNFINISHED.match(line):
                self._unfinished[match[1]] = match[3]
            elif match := _RESUMED.match(line):
                arguments = self._unfinished.pop(match[1], b"") + match[3]
                self._count(match[2], arguments, match[4])

    def _count(self, name: bytes, arguments: bytes, result: bytes) -> None:
        named = self.named
        if name in READS:
            named["reads"] += 1
            named["bytes_read"] += _positive(result)
        elif name in WRITES:
            named["writes"] += 1
            named["bytes_written"] += _positive(result)
        elif name in SEEKS:
            named["seeks"] += 1
        elif name in STATS:
            named["stats"] += 1
        elif name in OPEN_FLAGS or name == b"creat":
            named[_kind_of_open(name, arguments, result)] += 1
        else:
            self.others[name.decode()] += 1

    def as_dict(self) -> SystemCalls:
        """Return the counts as plain data."""
        counts = {**self.named, "others": dict(sorted(self.others.items()))}
        return cast("SystemCalls", counts)


def _kind_of_open(name: bytes, arguments: bytes, result: bytes) -> str:
    if result.startswith(b"-"):
        return "opens_failed"
    if name == b"creat":
        return "opens_read_write"
    flags = int(arguments.split(b",")[OPEN_FLAGS[name]], 16)
    return "opens_read_only" if flags & os.O_ACCMODE == os.O_RDONLY else "opens_read_write"


def _positive(result: bytes) -> int:
    return 0 if result.startswith(b"-") else int(result, 16)


class _CountingThread(threading.Thread):
    """Count the lines that one strace writes into a pipe."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.counts = CallCounts()
        self._source, self.sink = os.pipe()

    def run(self) -> None:
        """Read until the pipe has no writer."""
        with os.fdopen(self._source, "rb", buffering=1 << 20) as lines:
            self.counts.read(lines)

    def start_strace(
        self,
        cpu: int,
        arguments: Sequence[str],
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
        process_group: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start strace, and what it starts, on one processor. Its output is discarded.

        A call stops twice for strace, and a wake-up on another processor takes five times as long.
        """
        strace = [strace_path(), *OPTIONS, "-o", f"/dev/fd/{self.sink}", *arguments]
        command = ["taskset", "--cpu-list", str(cpu), *strace]
        process = subprocess.Popen(
            processes.with_pdeathsig(command),
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            process_group=process_group,
            pass_fds=[self.sink],
        )
        os.close(self.sink)
        self.start()
        return process


def strace_path() -> str:
    """Return strace's path. Raise UserError if it is not installed."""
    path = shutil.which("strace")
    if not path:
        raise UserError("strace is not installed (Debian: strace)")
    return path


def trace_command(
    argv: Sequence[str], environment: Mapping[str, str], stdin: str, limit_s: float
) -> CallCounts:
    """Run a command under strace, and discard its output.

    Raise UserError if it fails or takes longer than `limit_s`.
    """
    counting = _CountingThread()
    with open(stdin or os.devnull, "rb") as given:
        process = counting.start_strace(
            min(os.sched_getaffinity(0)),
            ["--", *argv],
            given,
            environment,
            process_group=0,  # ends together with its children
        )
    try:
        errors = process.communicate(timeout=limit_s)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise UserError(
            f"a run under strace took longer than {limit_s:g} s and was ended"
        ) from None
    counting.join()
    if process.returncode != 0:
        reason = errors[-300:] or "it printed no error"
        raise UserError(f"under strace, {Path(argv[0]).name} failed: {reason}")
    return counting.counts


class AttachedTrace:
    """Count the calls of running processes, their threads and later children, until end()."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.counting = _CountingThread()
        cpu = max(os.sched_getaffinity(0))  # not the client's
        for task in (task for pid in pids for task in os.listdir(f"/proc/{pid}/task")):
            os.sched_setaffinity(int(task), [cpu])
        arguments = [word for pid in pids for word in ("-p", str(pid))]
        self.process = self.counting.start_strace(cpu, arguments)
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while not all(map(_is_traced, pids)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                errors = self.process.communicate()[1].decode(errors="replace").strip()
                raise UserError(
                    f"strace cannot trace the server: {errors or 'it printed no error'}"
                )
            time.sleep(0.01)

    def end(self) -> CallCounts:
        """Stop counting. The processes continue."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        self.counting.join()
        return self.counting.counts


def _is_traced(pid: int) -> bool:
    tasks = os.listdir(f"/proc/{pid}/task")
    states = [read(f"/proc/{pid}/task/{task}/status") for task in tasks]
    return all("TracerPid:\t0\n" not in state for state in states)


def count_calls(recipe: Recipe, folder: Path) -> CellCalls:
    """Return the system calls of a cell: `client` and `server` (None without one) by CallCounts.as_dict().

    Also return `seconds` of the count, and `slower`, the ratio of the traced run's time to a plain run's.
    `folder` is a private folder. If nothing can be counted, `why_not` has the reason, and the counts are
    None.
    """
    began = time.monotonic()
    result: CellCalls = {"client": None, "server": None, "why_not": ""}
    try:
        result |= _count_calls(recipe, folder)
    except (UserError, OSError) as error:
        result["why_not"] = str(error)
    result["seconds"] = round(time.monotonic() - began, 3)
    return result


def _count_calls(recipe: Recipe, folder: Path) -> CellCalls:
    strace_path()
    limit_s = recipe["time_limit_s"]
    with ExitStack() as stack:
        cell = PreparedCell(recipe, 1, folder)
        cell.open(stack)
        cell.run_step("start-server")
        cell.reset_output()
        began = time.monotonic()
        # A command that fails without strace fails here.
        log = folder / "counted.log"
        capture(cell.argv, cell.stdin, discard_output, cell.environment, log, limit_s)
        plain_s = time.monotonic() - began
        cell.reset_output()
        server = AttachedTrace(processes.family(cell.server.pid)) if cell.server else None
        began = time.monotonic()
        limit_s = max(limit_s, MAX_SLOWDOWN * plain_s)
        client = trace_command(cell.argv, cell.environment, cell.stdin, limit_s)
        return {
            "client": client.as_dict(),
            "slower": round((time.monotonic() - began) / plain_s, 2),
            "server": server.end().as_dict() if server else None,
        }


UPDATE = "{svn} update -q {working_copy}"
# SQLite locks by fcntl. An exclusive lock is taken and released once, in a few calls; a shared lock by each
# transaction.
LOCK = "fcntl"
MAX_EXCLUSIVE_LOCKS = 30


def probe_locks(cell: PreparedCell) -> Context:
    """Return `locks`, the calls by which an update without changes locks files; None without strace.

    Raise UserError if they do not fit the way of locking in the recipe.
    """
    try:
        strace_path()
    except UserError:
        return {"locks": None}
    argv, limit_s = cell.fill_template(UPDATE), cell.recipe["time_limit_s"]
    locks = trace_command(argv, cell.environment, "", limit_s).others[LOCK]
    is_exclusive = cell.recipe["locking"] == "exclusive"
    if is_exclusive != (locks <= MAX_EXCLUSIVE_LOCKS):
        raise UserError(
            f"the client does not lock the working copy's database as {cell.recipe['locking']}: an update "
            f"without changes makes {locks} calls of {LOCK}"
        )
    return {"locks": locks}


# Checks that run once per cell, after its first round, by the key `probe` of the recipe.
PROBES = {"locks": probe_locks}
