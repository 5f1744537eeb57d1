"""System calls, counted as a stream from what strace prints: one process reads its lines as they come and
keeps numbers only, so that a run of any length takes neither disk nor memory."""

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
from pathlib import Path
from typing import IO, Any

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.kernelfile import read

# Every call, threads and forks followed, numbers as they are: nothing is looked up in the traced memory.
OPTIONS = ("-f", "-qqq", "-e", "trace=all", "-e", "raw=all", "-e", "signal=none")
# `12 read(0x3, 0x7f, 0x1000) = 0x1000`, and in two parts where another thread came between.
_WHOLE = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (-?\w+)")
_BEGUN = re.compile(rb"(?:\[pid +)?(\d+)\]? +(\w+)\((.*?),? *<unfinished \.\.\.>")
_ENDED = re.compile(rb"(?:\[pid +)?(\d+)\]? +<\.\.\. (\w+) resumed>(.*)\) += (-?\w+)")
# Which argument has the flags of those that open files.
FLAGS = {b"open": 1, b"openat": 2}
READS = {b"read", b"pread64", b"readv", b"preadv", b"preadv2"}
WRITES = {b"write", b"pwrite64", b"writev", b"pwritev", b"pwritev2"}
SEEKS = {b"lseek", b"_llseek"}
STATS = {b"stat", b"lstat", b"fstat", b"newfstatat", b"fstatat64", b"statx"}
# As published; `opens` are those that succeeded.
NAMES = (
    *("opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "bytes_read"),
    *("writes", "bytes_written", "stats"),
)
ATTACH_LIMIT_S = 10.0


class Counts:
    """Counts of system calls: `known` by NAMES, `others` by the names of the calls."""

    def __init__(self) -> None:
        self.known: Counter[str] = Counter(dict.fromkeys(NAMES, 0))
        self.others: Counter[str] = Counter()
        self._begun: dict[bytes, bytes] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        """Count what strace prints, to the end."""
        for line in lines:
            if found := _WHOLE.match(line):
                self._count(*found.group(2, 3, 4))
            elif found := _BEGUN.match(line):
                self._begun[found[1]] = found[3]
            elif found := _ENDED.match(line):
                arguments = self._begun.pop(found[1], b"") + found[3]
                self._count(found[2], arguments, found[4])

    def _count(self, name: bytes, arguments: bytes, result: bytes) -> None:
        known = self.known
        if name in READS:
            known["reads"] += 1
            known["bytes_read"] += _positive(result)
        elif name in WRITES:
            known["writes"] += 1
            known["bytes_written"] += _positive(result)
        elif name in SEEKS:
            known["seeks"] += 1
        elif name in STATS:
            known["stats"] += 1
        elif name in FLAGS or name == b"creat":
            known[_opened(name, arguments, result)] += 1
        else:
            self.others[name.decode()] += 1

    def told(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {**self.known, "others": dict(sorted(self.others.items()))}


def _opened(name: bytes, arguments: bytes, result: bytes) -> str:
    if result.startswith(b"-"):
        return "opens_failed"
    if name == b"creat":
        return "opens_read_write"
    flags = int(arguments.split(b",")[FLAGS[name]], 16)
    return "opens_read_only" if flags & os.O_ACCMODE == os.O_RDONLY else "opens_read_write"


def _positive(result: bytes) -> int:
    return 0 if result.startswith(b"-") else int(result, 16)


class Counting(threading.Thread):
    """Counts what one strace prints into a pipe."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.counts = Counts()
        self._from, self.to = os.pipe()

    def run(self) -> None:
        """Until nobody writes any more."""
        with os.fdopen(self._from, "rb", buffering=1 << 20) as lines:
            self.counts.read(lines)

    def begin(self, cpu: int, arguments: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
        """Start strace with these arguments behind the options, on one processor, on which what it starts
        stays as well: a call stops twice for it, and to wake somebody on another one takes five times as
        long."""
        strace = [program(), *OPTIONS, "-o", f"/dev/fd/{self.to}", *arguments]
        command = ["taskset", "--cpu-list", str(cpu), *strace]
        process = subprocess.Popen(processes.with_pdeathsig(command), pass_fds=[self.to], **how)
        os.close(self.to)
        self.start()
        return process


def program() -> str:
    """strace's path; a UserError where there is none."""
    found = shutil.which("strace")
    if not found:
        raise UserError("strace is not installed (Debian: strace)")
    return found


def count_command(
    argv: Sequence[str], environment: Mapping[str, str], stdin: str, limit_s: float
) -> Counts:
    """Run a command under strace, its output unread. A UserError where it fails or takes longer than
    `limit_s`."""
    counting = Counting()
    with open(stdin or os.devnull, "rb") as given:
        process = counting.begin(
            min(os.sched_getaffinity(0)),
            ["--", *argv],
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            process_group=0,  # ended together with what it runs
        )
    try:
        said = process.communicate(timeout=limit_s)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise UserError(
            f"a run under strace took longer than {limit_s:g} s and was ended"
        ) from None
    counting.join()
    if process.returncode != 0:
        raise UserError(
            f"under strace, {Path(argv[0]).name} failed: {said[-300:] or 'it said nothing'}"
        )
    return counting.counts


class Attached:
    """Counts the calls of processes that are at work, their threads and what they fork, until they are let
    go."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.counting = Counting()
        cpu = max(os.sched_getaffinity(0))  # another one than the client's
        for task in (task for pid in pids for task in os.listdir(f"/proc/{pid}/task")):
            os.sched_setaffinity(int(task), [cpu])
        self.process = self.counting.begin(
            cpu,
            [word for pid in pids for word in ("-p", str(pid))],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        deadline = time.monotonic() + ATTACH_LIMIT_S
        while not all(map(_is_traced, pids)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                said = _text(self.process.stderr)
                raise UserError(f"strace cannot look at the server: {said or 'it said nothing'}")
            time.sleep(0.01)

    def let_go(self) -> Counts:
        """Stop counting; the processes go on."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()
        self.counting.join()
        return self.counting.counts


def _is_traced(pid: int) -> bool:
    tasks = os.listdir(f"/proc/{pid}/task")
    states = [read(f"/proc/{pid}/task/{task}/status") for task in tasks]
    return all("TracerPid:\t0\n" not in state for state in states)


def _text(stream: IO[bytes] | None) -> str:
    return stream.read().decode(errors="replace").strip() if stream else ""
