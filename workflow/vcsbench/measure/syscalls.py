"""Count the system calls of a cell: one untimed run of its command under strace.

A thread reads strace's lines as they come, so a long run takes no disk and no memory.
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
    from vcsbench.records import CellCalls, Recipe, SystemCalls

OPTIONS = ("-f", "-qqq", "-e", "trace=all", "-e", "raw=all", "-e", "signal=none")
# `12 read(0x3, 0x7f, 0x1000) = 0x1000`, in two parts if another thread's line is between.
_COMPLETE = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (-?\w+)")
_UNFINISHED = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*?),? *<unfinished \.\.\.>")
_RESUMED = re.compile(rb"(?:\[pid +)?(\d+)\]? +<\.\.\. (\w+) resumed>(.*)\) += (-?\w+)")
# The argument with the flags, if there is one.
OPEN_FLAGS = {b"open": 1, b"openat": 2, b"creat": None}
CALLS = {
    **dict.fromkeys((b"read", b"pread64", b"readv", b"preadv", b"preadv2"), "reads"),
    **dict.fromkeys((b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2"), "writes"),
    **dict.fromkeys((b"lseek", b"_llseek"), "seeks"),
    **dict.fromkeys((b"stat", b"lstat", b"fstat", b"newfstatat", b"fstatat64", b"statx"), "stats"),
}
BYTES = {"reads": "bytes_read", "writes": "bytes_written"}
NAMES = (
    *("opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "bytes_read"),
    *("writes", "bytes_written", "stats"),
)
ATTACH_LIMIT_S = 10.0
MAX_SLOWDOWN = 100.0


class CallCounts:
    """Counts of system calls: `named` by NAMES, `others` by the names of the calls."""

    def __init__(self) -> None:
        self.named: Counter[str] = Counter(dict.fromkeys(NAMES, 0))
        self.others: Counter[str] = Counter()
        self._unfinished: dict[bytes, bytes] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if match := _COMPLETE.match(line):
                self._count(*match.group(2, 3, 4))
            elif match := _UNFINISHED.match(line):
                self._unfinished[match[1]] = match[3]
            elif match := _RESUMED.match(line):
                arguments = self._unfinished.pop(match[1], b"") + match[3]
                self._count(match[2], arguments, match[4])

    def _count(self, name: bytes, arguments: bytes, result: bytes) -> None:
        if name in OPEN_FLAGS:
            at = OPEN_FLAGS[name]
            flags = os.O_WRONLY if at is None else int(arguments.split(b",")[at], 16)
            opened = "opens_read_write" if flags & os.O_ACCMODE else "opens_read_only"
            self.named["opens_failed" if result.startswith(b"-") else opened] += 1
        elif kind := CALLS.get(name):
            self.named[kind] += 1
            if kind in BYTES and not result.startswith(b"-"):
                self.named[BYTES[kind]] += int(result, 16)
        else:
            self.others[name.decode()] += 1

    def as_dict(self) -> SystemCalls:
        counts = {**self.named, "others": dict(sorted(self.others.items()))}
        return cast("SystemCalls", counts)


class _Strace:
    """One strace, and what it starts, on one processor. A thread counts the lines that it writes.

    A call stops twice for strace, and a wake-up on another processor takes five times as long.
    """

    def __init__(
        self,
        cpu: int,
        arguments: Sequence[str],
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.counts = CallCounts()
        source, sink = os.pipe()
        strace = [strace_path(), *OPTIONS, "-o", f"/dev/fd/{sink}", *arguments]
        self.process = processes.start_process(
            ["taskset", "--cpu-list", str(cpu), *strace],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=[sink],
        )
        os.close(sink)
        self.thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self.thread.start()

    def _read(self, source: int) -> None:
        with os.fdopen(source, "rb", buffering=1 << 20) as lines:
            self.counts.read(lines)

    def wait(self, limit_s: float | None = None) -> str:
        errors = self.process.communicate(timeout=limit_s)[1].decode(errors="replace").strip()
        self.thread.join()
        return errors or "it printed no error"


def strace_path() -> str:
    path = shutil.which("strace")
    if not path:
        raise UserError("strace is not installed (Debian: strace)")
    return path


def trace_command(
    argv: Sequence[str], environment: Mapping[str, str], stdin: str, limit_s: float
) -> CallCounts:
    with open(stdin or os.devnull, "rb") as given:
        strace = _Strace(min(os.sched_getaffinity(0)), ["--", *argv], given, environment)
    try:
        errors = strace.wait(limit_s)
    except subprocess.TimeoutExpired:
        processes.kill_group(strace.process.pid)
        strace.process.wait()
        reason = f"a run under strace took longer than {limit_s:g} s and was ended"
        raise UserError(reason) from None
    if strace.process.returncode != 0:
        raise UserError(f"under strace, {Path(argv[0]).name} failed: {errors[-300:]}")
    return strace.counts


class AttachedTrace:
    """Count the calls of running processes, their threads and later children, until end()."""

    def __init__(self, pids: Sequence[int]) -> None:
        cpu = max(os.sched_getaffinity(0))
        for task in _tasks(pids):
            os.sched_setaffinity(int(task.name), [cpu])
        self.strace = _Strace(cpu, [word for pid in pids for word in ("-p", str(pid))])
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while any("TracerPid:\t0\n" in read(f"{task}/status") for task in _tasks(pids)):
            if self.strace.process.poll() is not None or time.monotonic() > deadline:
                self.strace.process.kill()
                raise UserError(f"strace cannot trace the server: {self.strace.wait()}")
            time.sleep(0.01)

    def end(self) -> CallCounts:
        self.strace.process.send_signal(signal.SIGINT)
        self.strace.wait()
        return self.strace.counts


def _tasks(pids: Sequence[int]) -> list[Path]:
    return [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]


def count_calls(recipe: Recipe, folder: Path) -> CellCalls:
    """Return the system calls of a cell: `client` and `server` (None without one) by CallCounts.as_dict().

    Also return `seconds` of the count. `folder` is a private folder. If nothing can be counted, `why_not` has
    the reason, and the counts are None.
    """
    began = time.monotonic()
    result: CellCalls = {"client": None, "server": None, "why_not": ""}
    try:
        strace_path()
        with ExitStack() as stack:
            cell = PreparedCell(recipe, 1, folder)
            cell.open(stack)
            cell.start_server()
            cell.reset_output()
            plain = time.monotonic()
            # A command that fails without strace fails here.
            log, limit_s = folder / "counted.log", recipe["time_limit_s"]
            capture(cell.argv, cell.stdin, discard_output, cell.environment, log, limit_s)
            limit_s = max(limit_s, MAX_SLOWDOWN * (time.monotonic() - plain))
            cell.reset_output()
            server = AttachedTrace(processes.family(cell.server.pid)) if cell.server else None
            client = trace_command(cell.argv, cell.environment, cell.stdin, limit_s)
            of_server = server.end().as_dict() if server else None
            result |= {"client": client.as_dict(), "server": of_server}
    except (UserError, OSError) as error:
        result["why_not"] = str(error)
    result["seconds"] = round(time.monotonic() - began, 3)
    return result


UPDATE = "{svn} update -q {working_copy}"
# SQLite locks by fcntl. An exclusive lock is taken and released once, in a few calls; a shared lock by each
# transaction.
MAX_EXCLUSIVE_LOCKS = 30


def count_locks(cell: PreparedCell) -> int | None:
    """Return the calls by which an update without changes locks files; None without strace.

    Raise UserError if they do not fit the way of locking in the recipe.
    """
    if not shutil.which("strace"):
        return None
    argv, limit_s = cell.fill_template(UPDATE), cell.recipe["time_limit_s"]
    locks = trace_command(argv, cell.environment, "", limit_s).others["fcntl"]
    is_exclusive = cell.recipe["locking"] == "exclusive"
    if is_exclusive != (locks <= MAX_EXCLUSIVE_LOCKS):
        raise UserError(
            f"the client does not lock the working copy's database as {cell.recipe['locking']}: an update "
            f"without changes makes {locks} calls of fcntl"
        )
    return locks
