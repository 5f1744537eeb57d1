"""Trace the system calls of a cell: one untimed run of its command under strace.

A thread reads strace's lines as they come, so a long run takes no disk and no memory.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.measure.runs import Invocation, capture
from vcsbench.measure.work import discard_output

if TYPE_CHECKING:
    from vcsbench.records import CellTrace, Recipe

OPTIONS = ("-f", "-qqq", "-e", "trace=all", "-e", "raw=all", "-e", "signal=none")
# `12 read(0x3, 0x7f, 0x1000) = 0x1000`. If another thread's line is between, it has two parts:
# `12 read(0x3,  <unfinished ...>` and `12 <... read resumed>0x7f, 0x1000) = 0x1000`.
_LINE = re.compile(
    rb"(?:\[pid +)?(\d+)\]? +(?:<\.\.\. )?(\w+)(?:\(| resumed>)"
    rb"(.*?)(?:\) += (-?\w+)|,? *<unfinished \.\.\.>)"
)
# The argument with the flags, if there is one.
OPEN_FLAGS = {b"open": 1, b"openat": 2, b"creat": None}
GROUPS = {
    **dict.fromkeys((b"read", b"pread64", b"readv", b"preadv", b"preadv2"), "reads"),
    **dict.fromkeys((b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2"), "writes"),
    **dict.fromkeys((b"lseek", b"_llseek"), "seeks"),
    **dict.fromkeys((b"stat", b"lstat", b"fstat", b"newfstatat", b"fstatat64", b"statx"), "stats"),
}
BYTES = {"reads": "bytes_read", "writes": "bytes_written"}
ATTACH_LIMIT_S = 60.0
MAX_SLOWDOWN = 100.0


def count_lines(lines: Iterable[bytes]) -> Counter[str]:
    """Return the numbers of system calls by GROUPS and kind of open, of the others by their names.

    `bytes_read` and `bytes_written` have the bytes of the reads and writes.
    """
    counts: Counter[str] = Counter()
    unfinished: dict[bytes, bytes] = {}
    for match in filter(None, map(_LINE.match, lines)):
        thread, name, arguments, result = match.groups()
        arguments = unfinished.pop(thread, b"") + arguments
        if result is None:
            unfinished[thread] = arguments
        elif name in OPEN_FLAGS:
            at = OPEN_FLAGS[name]
            flags = os.O_WRONLY if at is None else int(arguments.split(b",")[at], 16)
            opened = "opens_read_write" if flags & os.O_ACCMODE else "opens_read_only"
            counts["opens_failed" if result.startswith(b"-") else opened] += 1
        else:
            group = GROUPS.get(name) or name.decode()
            counts[group] += 1
            if group in BYTES and not result.startswith(b"-"):
                counts[BYTES[group]] += int(result, 16)
    return counts


class Strace:
    """One strace, and what it starts, on one processor. A thread counts the lines that it writes.

    A call stops twice for strace, and a wake-up on another processor takes five times as long.
    """

    def __init__(self, cpu: int, arguments: Sequence[str], **options: Any) -> None:
        self.counts: Counter[str] = Counter()
        source, sink = os.pipe()
        strace = [strace_path(), *OPTIONS, "-o", f"/dev/fd/{sink}", *arguments]
        self.process = processes.start_process(
            ["taskset", "--cpu-list", str(cpu), *strace],
            stdout=processes.DEVNULL,
            stderr=processes.PIPE,
            pass_fds=[sink],
            **options,
        )
        os.close(sink)
        self.thread = threading.Thread(target=self._count, args=(source,), daemon=True)
        self.thread.start()

    @classmethod
    def attach(cls, pids: Sequence[int]) -> Strace:
        """Count the calls of running processes, their threads and later children, until end()."""
        cpu = max(os.sched_getaffinity(0))
        for task in _tasks(pids):
            os.sched_setaffinity(int(task.name), [cpu])
        strace = cls(cpu, [word for pid in pids for word in ("-p", str(pid))])
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while any("TracerPid:\t0\n" in read(f"{task}/status") for task in _tasks(pids)):
            if strace.process.poll() is not None or time.monotonic() > deadline:
                strace.process.kill()
                raise UserError(
                    f"strace cannot trace the server: {strace.wait()}. Allow ptrace, or remove "
                    f"`trace_syscalls` from the study."
                )
            time.sleep(0.01)
        return strace

    def _count(self, source: int) -> None:
        with os.fdopen(source, "rb", buffering=1 << 20) as lines:
            self.counts = count_lines(lines)

    def wait(self, limit_s: float | None = None) -> str:
        """Return the errors of strace and its command; "" if they take longer than a limit."""
        errors = processes.read_errors(self.process, limit_s)
        if errors is None:
            return ""
        self.thread.join()
        return errors.decode(errors="replace").strip() or "it printed no error"

    def end(self) -> Counter[str]:
        self.process.send_signal(signal.SIGINT)
        self.wait()
        return self.counts


def strace_path() -> str:
    path = shutil.which("strace")
    if not path:
        raise UserError("strace: not on the PATH. Install it (Debian: strace).")
    return path


def trace_command(command: Invocation) -> Counter[str]:
    argv = command.argv
    with open(command.stdin or os.devnull, "rb") as given:
        cpu = min(os.sched_getaffinity(0))
        strace = Strace(cpu, ["--", *argv], stdin=given, env=command.environment)
    errors = strace.wait(command.limit_s)
    if not errors:
        processes.kill_group(strace.process.pid)
        strace.process.wait()
        raise UserError(
            f"a run under strace took longer than {command.limit_s:g} s and was ended. Raise "
            f"`time_limit_s` in config/config.yaml."
        )
    if strace.process.returncode != 0:
        raise UserError(
            f"under strace, {Path(argv[0]).name} failed: {errors[-300:]}. If it works without, remove "
            f"`trace_syscalls` from the study."
        )
    return strace.counts


def _tasks(pids: Sequence[int]) -> list[Path]:
    return [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]


def trace_cell(recipe: Recipe, folder: Path, root: Path) -> CellTrace:
    """Return the system calls of a cell: `client` and `server` (None without one) by count_lines().

    Also return `seconds` of the trace. `folder` is a private folder, `root` the checkout. If nothing can be
    traced, `why_not` has the reason, and the counts are None.
    """
    began = time.monotonic()
    result: CellTrace = {"client": None, "server": None, "why_not": ""}
    try:
        strace_path()
        with ExitStack() as stack:
            cell = PreparedCell(recipe, 1, folder, root)
            cell.open(stack)
            cell.start_server()
            cell.reset_output()
            untraced = time.monotonic()
            # A command that fails without strace fails here.
            capture(cell.timed, discard_output, folder / "traced.log")
            limit_s = max(cell.timed.limit_s, MAX_SLOWDOWN * (time.monotonic() - untraced))
            cell.reset_output()
            server = Strace.attach(processes.family(cell.server.pid)) if cell.server else None
            client = trace_command(cell.timed._replace(limit_s=limit_s))
            result |= {"client": client, "server": server.end() if server else None}
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
    locking, update = cell.recipe["locking"], cell.fill_template(UPDATE)
    locks = trace_command(cell.timed._replace(argv=update, stdin=""))["fcntl"]
    if (locking == "exclusive") != (locks <= MAX_EXCLUSIVE_LOCKS):
        raise UserError(
            f"the client does not lock the working copy's database as {locking}: an update "
            f"without changes makes {locks} calls of fcntl. Use another client."
        )
    return locks
