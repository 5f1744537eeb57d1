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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

from vcsbench import process_facts, processes
from vcsbench.errors import UserError
from vcsbench.kernel import read
from vcsbench.measure.cell_setup import CellSetup
from vcsbench.measure.runs import Invocation
from vcsbench.measure.untimed_runs import capture
from vcsbench.measure.work import discard_output
from vcsbench.time_spans import span_since

if TYPE_CHECKING:
    from vcsbench.records import CellTrace, Recipe

# Follow children, print only calls, and print all arguments as numbers.
OPTIONS = ("-f", "-qqq", "-e", "trace=all", "-e", "raw=all", "-e", "signal=none")
# `12 read(0x3, 0x7f, 0x1000) = 0x1000`. If another thread's line is between, it has two parts:
# `12 read(0x3,  <unfinished ...>` and `12 <... read resumed>0x7f, 0x1000) = 0x1000`.
_LINE = re.compile(
    rb"(?:\[pid +)?(\d+)\]? +(?:<\.\.\. )?(\w+)(?:\(| resumed>)"
    rb"(.*?)(?:\) += (-?\w+)|,? *<unfinished \.\.\.>)"
)
# The position of the flags among the arguments. creat() has no flags.
OPEN_FLAGS = {b"open": 1, b"openat": 2, b"creat": None}
GROUPS = {
    **dict.fromkeys((b"read", b"pread64", b"readv", b"preadv", b"preadv2"), "reads"),
    **dict.fromkeys((b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2"), "writes"),
    **dict.fromkeys((b"lseek", b"_llseek"), "seeks"),
    **dict.fromkeys((b"stat", b"lstat", b"fstat", b"newfstatat", b"fstatat64", b"statx"), "stats"),
}
BYTES = {"reads": "bytes_read", "writes": "bytes_written"}
ATTACH_LIMIT_S = 60.0
# A traced run may take this number of times as long as an untraced run.
MAX_SLOWDOWN = 100.0


def count_lines(lines: Iterable[bytes]) -> Counter[str]:
    """Count the system calls in strace's lines, and the bytes that these calls read and wrote.

    Calls of a group (GROUPS) are counted together: read() and pread64() are `reads`. An open counts as
    `opens_read_only`, `opens_read_write` or `opens_failed`, and any other call by its own name. Example:
    {"opens_read_only": 2, "reads": 5, "bytes_read": 4096, "mmap": 7}. Lines of another form are ignored.
    """
    counts: Counter[str] = Counter()
    # A call may be printed in two lines (_LINE). Its first arguments, by thread, wait for the second line.
    unfinished: dict[bytes, bytes] = {}
    for line in lines:
        match = _LINE.match(line)
        if not match:
            continue
        # The line `12 read(0x3, 0x7f, 0x1000) = 0x1000` has the groups b"12", b"read",
        # b"0x3, 0x7f, 0x1000" and b"0x1000". The first of two lines has no result (None).
        thread, name, arguments, result = match.groups()
        arguments = unfinished.pop(thread, b"") + arguments
        if result is None:
            unfinished[thread] = arguments
            continue
        has_failed = result.startswith(b"-")
        if name in OPEN_FLAGS:
            counts[_classify_open(name, arguments, has_failed)] += 1
            continue
        group = GROUPS.get(name, name.decode())
        counts[group] += 1
        # The result of a read or write is its number of bytes.
        if group in BYTES and not has_failed:
            counts[BYTES[group]] += int(result, 16)
    return counts


def _classify_open(name: bytes, arguments: bytes, has_failed: bool) -> str:
    """Return how a call of open(), openat() or creat() opened a file: "opens_read_only", for example."""
    if has_failed:
        return "opens_failed"
    # creat() has no flags, and opens for writing.
    flags = os.O_WRONLY
    position = OPEN_FLAGS[name]
    if position is not None:
        flags = int(arguments.split(b",")[position], 16)
    return "opens_read_write" if flags & os.O_ACCMODE else "opens_read_only"


class Strace:
    """A running strace. A thread of this process counts the lines that it writes."""

    def __init__(
        self,
        cpu: int,
        arguments: Sequence[str],
        *,
        stdin: int | IO[bytes] = processes.DEVNULL,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start strace on a processor, with arguments such as ["-p", "4711"] or ["--", "/usr/bin/svn", ...].

        `-p` traces a running process, and `--` a command, which gets `stdin` and `env`.
        """
        self.counts: Counter[str] = Counter()
        read_end, write_end = os.pipe()
        strace = [find_strace(), *OPTIONS, "-o", f"/dev/fd/{write_end}", *arguments]
        # strace and the processes that it traces run on one processor: each call wakes strace, and to wake a
        # process on another processor takes five times as long.
        self.process = processes.start_process(
            ["taskset", "--cpu-list", str(cpu), *strace],
            stdout=processes.DEVNULL,
            stderr=processes.PIPE,
            pass_fds=[write_end],
            stdin=stdin,
            env=env,
        )
        # strace alone must have this end, so that the lines end when strace ends.
        os.close(write_end)
        self.thread = threading.Thread(target=self._count, args=(read_end,), daemon=True)
        self.thread.start()

    @classmethod
    def attach(cls, pids: Sequence[int]) -> Strace:
        """Return an strace that counts the calls of a server with the processes `pids`, until end().

        Their threads and later children are counted, too. The server moves to one processor. Raise UserError
        if strace does not attach to all threads within ATTACH_LIMIT_S.
        """
        # The client of trace_command() has the first processor, so the server gets the last one.
        cpu = max(os.sched_getaffinity(0))
        for task in _list_tasks(pids):
            os.sched_setaffinity(int(task.name), [cpu])
        arguments = []
        for pid in pids:
            arguments += ["-p", str(pid)]
        strace = cls(cpu, arguments)
        # Until strace has attached to all threads, calls would be missed.
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while not _are_traced(pids):
            if strace.process.poll() is not None or time.monotonic() > deadline:
                strace.process.kill()
                errors = strace.wait()
                raise UserError(
                    f"strace cannot trace the server: {errors}. Allow ptrace, or remove "
                    f"`trace_syscalls` from the study."
                )
            time.sleep(0.01)
        return strace

    def _count(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb", buffering=1 << 20) as lines:
            self.counts = count_lines(lines)

    def wait(self, limit_s: float | None = None) -> str | None:
        """Wait for the end, and return the errors of strace and its command; None after the limit."""
        errors = processes.read_errors(self.process, limit_s)
        if errors is None:
            return None
        self.thread.join()
        return errors.decode(errors="replace").strip() or "it printed no error"

    def end(self) -> Counter[str]:
        """Detach from the processes, and return the counts."""
        self.process.send_signal(signal.SIGINT)
        self.wait()
        return self.counts


def _list_tasks(pids: Sequence[int]) -> list[Path]:
    """Return the folders of all threads of processes, such as /proc/12/task/13."""
    tasks: list[Path] = []
    for pid in pids:
        tasks += Path(f"/proc/{pid}/task").iterdir()
    return tasks


def _are_traced(pids: Sequence[int]) -> bool:
    return not any("TracerPid:\t0\n" in read(f"{task}/status") for task in _list_tasks(pids))


def find_strace() -> str:
    path = shutil.which("strace")
    if not path:
        raise UserError("strace: not on the PATH. Install it (Debian: strace).")
    return path


def trace_command(command: Invocation) -> Counter[str]:
    """Run a command under strace, and return the system calls of it and its children (count_lines).

    Raise UserError if the command fails or takes longer than its limit.
    """
    with open(command.stdin or os.devnull, "rb") as stdin:
        cpu = min(os.sched_getaffinity(0))
        strace = Strace(cpu, ["--", *command.argv], stdin=stdin, env=command.environment)
    errors = strace.wait(command.limit_s)
    if errors is None:
        processes.kill_group(strace.process.pid)
        strace.process.wait()
        raise UserError(
            f"a run under strace took longer than {command.limit_s:g} s and was ended. Raise "
            f"`time_limit_s` in config/config.yaml."
        )
    # strace exits with the code of the command.
    if strace.process.returncode != 0:
        name = os.path.basename(command.argv[0])
        raise UserError(
            f"under strace, {name} failed: {errors[-300:]}. If it works without, remove `trace_syscalls` "
            f"from the study."
        )
    return strace.counts


def trace_cell(recipe: Recipe, folder: Path, root: Path) -> CellTrace:
    """Run the command of a cell once under strace, and return its system calls.

    Example: {"client": {"reads": 5, "mmap": 7}, "server": None, "why_not": "", "began": 1795300000.0,
    "seconds": 1.5}. `server` is None for a cell without a server. If the command cannot be traced, `client`
    and `server` are None, and `why_not` is a sentence: no UserError or OSError is raised. The times include
    the preparation of the cell. `folder` is a private folder, `root` the checkout.
    """
    begun = time.monotonic()
    client, server = None, None
    why_not = ""
    try:
        # A missing strace is reported at once, before the preparation, which takes long.
        find_strace()
        with ExitStack() as stack:
            cell = CellSetup(recipe, number=1, folder=folder, root=root)
            cell.open(stack)
            client, server = _count_calls(cell)
    except (UserError, OSError) as error:
        why_not = str(error)
    return {"client": client, "server": server, "why_not": why_not, **span_since(begun)}


def _count_calls(cell: CellSetup) -> tuple[Counter[str], Counter[str] | None]:
    """Return the system calls of one traced run: of the client, and of the server (None without a server).

    An untraced run comes first. Its time decides how long the traced run may take.
    """
    # As in rounds with warm caches, the server is started before the output is reset for the first time.
    cell.start_server()
    _prepare_run(cell)
    began = time.monotonic()
    capture(cell.one_request, discard_output, cell.folder / "untraced.log")
    untraced_s = time.monotonic() - began
    limit_s = max(cell.timed.limit_s, MAX_SLOWDOWN * untraced_s)

    _prepare_run(cell)
    request = cell.one_request._replace(limit_s=limit_s)
    if not cell.server:
        return trace_command(request), None
    # strace attaches to the server before the client starts, so that no call for the client is missed.
    server_strace = Strace.attach(process_facts.family(cell.server.pid))
    client = trace_command(request)
    # A process of the connection may still make calls after the client has ended.
    cell.server.await_connections()
    return client, server_strace.end()


def _prepare_run(cell: CellSetup) -> None:
    """Put back what the command writes, with a server that runs."""
    # This ends the server if the command changes its input, as a commit does.
    cell.reset_output()
    # A server that still runs is not started again.
    cell.start_server()


# An external would add the calls of another working copy, or fail without its server.
UPDATE = "{svn} update -q --ignore-externals {working_copy}"
# The calls of fcntl that an update makes at most if it locks the database exclusively (count_locks).
MAX_EXCLUSIVE_LOCKS = 30


def count_locks(cell: CellSetup) -> int | None:
    """Return how many calls of fcntl an update without changes makes; None if strace cannot trace here.

    SQLite locks the working copy's database by these calls. With at most MAX_EXCLUSIVE_LOCKS, the client
    takes the lock once and keeps it (exclusive). With more, each transaction takes and frees it (shared).
    Raise UserError if the recipe has the other kind of locking.
    """
    # All runs are measured by now, so the round must not fail because strace is missing, or a container
    # forbids ptrace. So strace is first tried on the program `true`.
    trial = processes.run_program(
        ["strace", *OPTIONS, "-o", os.devnull, "true"], limit_s=ATTACH_LIMIT_S, may_fail=True
    )
    if trial.code:
        return None
    update = cell.timed._replace(argv=cell.fill_template(UPDATE), stdin="")
    calls = trace_command(update)["fcntl"]
    is_exclusive = calls <= MAX_EXCLUSIVE_LOCKS
    # "exclusive", or "default" for shared locks.
    locking = cell.recipe["locking"]
    must_be_exclusive = locking == "exclusive"
    if is_exclusive != must_be_exclusive:
        raise UserError(
            f"the client does not lock the working copy's database as {locking}: an update "
            f"without changes makes {calls} calls of fcntl. Use another client."
        )
    return calls
