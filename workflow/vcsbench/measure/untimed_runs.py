"""Run a command untimed: read its output, trace its end, and list the program files that it maps."""

import ctypes
import errno
import os
import re
import select
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

from vcsbench import process_facts, processes
from vcsbench.errors import ProgramError
from vcsbench.kernel import libc, read
from vcsbench.measure.git_trace import GitTrace
from vcsbench.measure.runs import Invocation, time_limit_error
from vcsbench.measure.work import Fingerprint

# The shell waits for a line from the pipe $0. Then the command takes its place.
GATE_SCRIPT = 'read -r go < "$0"; exec "$@"'
# How long the tracer waits for children that outlive the command.
TRACER_LIMIT_S = 2.0
# How long the output of an ended command is awaited, which a child may hold open. It is less than the grace
# of a job that ends (run.job.GRACE_S).
OUTPUT_LIMIT_S = 1.0
# Limits on the runs that only list the files of a client.
FILES_LIMIT_S = 60
FILES_TRIES = 3
# A line of /proc/PID/maps about a file that is mapped executable: a program or a library. Example:
# `55d1-55d2 r-xp 00001000 fe:00 1051 /usr/bin/svn`.
EXECUTABLE_MAPPING = re.compile(r"^\S+ r-x\S+ \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
SUBVERSION_LIBRARY = re.compile(r"/(?:libsvn_[^/\s]*\.so|mod_dav_svn\.so)[^/]*$")


class Captured(NamedTuple):
    """The fingerprint of an untimed run, its I/O as the kernel counts it, its peak memory, its mapped files.

    `io` has the counts IO_COUNTS: {"rchar": 4096, "wchar": None, ...}. `peak_bytes` and `mapped` are None if
    the kernel allows no tracing. measure.round_measurement adds the last three: bytes (`server_rchar`,
    `server_wchar`) and peak memory of the server, and the trace of git.
    """

    work: Fingerprint
    io: dict[str, int | None]
    peak_bytes: int | None = None
    mapped: list[str] | None = None
    server_io: Mapping[str, int | None] = MappingProxyType({})
    server_peak_bytes: int | None = None
    git_trace: GitTrace | None = None


def capture(
    command: Invocation, read_output: Callable[[IO[bytes]], Fingerprint], log: Path
) -> Captured:
    """Run a command once, untimed, and return its work, its I/O, its peak memory and its mapped files.

    `read_output` gets the output of the command, and returns its work (Fingerprint). `log` takes the error
    output of the command. A pipe is made in the folder of `log`. Raise UserError if the command fails or
    takes longer than its limit, and any error of `read_output`.
    """
    run = _UntimedRun(command, read_output, log)
    try:
        # The command waits at a gate, until its tracer and the reader of its output run.
        run.release()
        is_in_time = run.wait_for_end(command.limit_s)
        work = run.reader.get_work()
        # The kernel has the counts until close() waits for the ended process.
        io = run.read_io_counts()
    finally:
        run.close()

    if not is_in_time:
        raise time_limit_error(command.limit_s)
    code = run.process.returncode
    if code != 0:
        name = os.path.basename(command.argv[0])
        printed = " ".join(processes.last_lines(log, 3)) or "it printed no error"
        raise ProgramError(f"{name} {processes.how_it_ended(code)}: {printed}")
    return Captured(work, io, run.tracer.peak_bytes, find_mapped_files(run.tracer.maps))


class _UntimedRun:
    """A run of a command, which waits at a pipe until release(). Its output is read in a thread.

    The caller calls release(), wait_for_end() and read_io_counts() in this order, and close() in every case.
    """

    def __init__(
        self, command: Invocation, read_output: Callable[[IO[bytes]], Fingerprint], log: Path
    ) -> None:
        """Start the command, the thread that traces its end, and the thread that reads its output."""
        # GATE_SCRIPT waits at this pipe until the threads run: a short command would end before it is traced.
        gate = log.with_suffix(".gate")
        if not gate.exists():
            os.mkfifo(gate, 0o600)
        # The pipe is opened for reading and writing: opening one end would wait for the other end.
        self.gate = os.open(gate, os.O_RDWR | os.O_NOFOLLOW)
        with log.open("wb") as errors, open(command.stdin or os.devnull, "rb") as stdin:
            self.process = processes.start_process(
                ["sh", "-c", GATE_SCRIPT, str(gate), *command.argv],
                env=command.environment,
                stdin=stdin,
                stdout=processes.PIPE,
                stderr=errors,
            )
        assert self.process.stdout
        # Such as "pipe:[4711]". By this name, _end_writers() finds the processes that hold the output open.
        self.output = os.readlink(f"/proc/self/fd/{self.process.stdout.fileno()}")
        # A descriptor that select() reports once the command has ended.
        self.ended = os.pidfd_open(self.process.pid)
        self.tracer = ExitTracer(self.process.pid)
        self.reader = _OutputReader(self.process.stdout, read_output)

    def release(self) -> None:
        os.write(self.gate, b"go\n")

    def wait_for_end(self, limit_s: float) -> bool:
        """Wait for the end of the command and of its output. Return False if it was ended at its limit."""
        has_ended = bool(select.select([self.ended], [], [], limit_s)[0])
        # If the output goes on after the end of the command, a child of the command holds the output open.
        if not has_ended or not self.reader.wait(OUTPUT_LIMIT_S):
            self._end_writers()
        return has_ended

    def read_io_counts(self) -> dict[str, int | None]:
        """Return the I/O of the ended command: {"rchar": 4096, "wchar": None, ...}. None is unknown."""
        # While the tracer runs, waitid() below would also return for a stop of the traced process. The tracer
        # waits for children that outlive the command, so this has a limit.
        self.tracer.join(TRACER_LIMIT_S)
        # The ended process stays in /proc until process.wait() in close().
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        # Without tracing, only root can read the counts, because the process has ended.
        return self.tracer.io or process_facts.io_counts(self.process.pid)

    def close(self) -> None:
        """End what still runs, as after an exception: the command, and what holds its output open."""
        os.close(self.ended)
        os.close(self.gate)
        self._end_writers()
        self.reader.join()
        self.tracer.join(TRACER_LIMIT_S)
        self.process.wait()

    def _end_writers(self) -> None:
        """End the command with its group, and then all other processes that hold its output open."""
        processes.kill_group(self.process.pid)
        # A child in a session of its own is not in the group, and may hold the output open.
        if not self.reader.wait(OUTPUT_LIMIT_S):
            processes.send(process_facts.holders(self.output), signal.SIGKILL)


class _OutputReader(threading.Thread):
    """Read the output of a process in a thread, while this process waits for its end."""

    def __init__(self, stream: IO[bytes], read_output: Callable[[IO[bytes]], Fingerprint]) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.read_output = read_output
        self.work: Fingerprint = {}
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            # After an error, closing the stream ends the process, because it cannot write.
            with self.stream:
                self.work = self.read_output(self.stream)
        except Exception as error:
            self.error = error

    def wait(self, limit_s: float) -> bool:
        """Return True if the output has ended within a limit."""
        self.join(limit_s)
        return not self.is_alive()

    def get_work(self) -> Fingerprint:
        """Return the fingerprint after the end of the output, or raise the error of reading it."""
        self.join()
        if self.error:
            raise self.error
        return self.work


# From <linux/ptrace.h>: requests, options, and the event of a process that is about to exit.
SEIZE, CONT, DETACH = 0x4206, 7, 17
TRACE_EXIT, TRACE_FORKS = 0x40, 0x02 | 0x04
EXIT_EVENT = 6
# __WALL and __WNOTHREAD: all kinds of children, but only children of this thread.
WAIT_OWN = 0x40000000 | 0x20000000
PEEK = os.WEXITED | os.WSTOPPED | os.WNOWAIT | WAIT_OWN
ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
NOT_ALLOWED = (errno.EPERM, errno.ESRCH, errno.ENOSYS)

libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


class ExitTracer(threading.Thread):
    """Trace a child of this process, and its children, in a thread until they exit.

    After the end of the thread, `peak_bytes` is the largest resident size of one of the processes, `maps` the
    text of all their /proc/PID/maps, and `io` has the counts of the child and of its ended children. They are
    None, "" and {} if the kernel allows no tracing.
    """

    # getrusage() is no replacement: its peak includes the size of the parent before the child's exec.

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes: int | None = None
        self.maps = ""
        self.io: dict[str, int | None] = {}
        self.is_attached = threading.Event()
        self.start()
        # The caller must not let the child go on before the trace has begun.
        self.is_attached.wait()

    def run(self) -> None:
        """Attach to the child, and read the counts of each traced process when it stops before its exit.

        With ptrace(2), the kernel stops a traced process shortly before its exit, and at a few other events.
        At the stop before the exit, _continue_stopped() reads the counts, and detaches from the process.
        """
        # The tracer attaches in this thread, because only the thread that attaches gets the stops.
        is_allowed = _ptrace(SEIZE, self.pid, TRACE_EXIT | TRACE_FORKS)
        # The starting thread waits for this, even if tracing is not allowed.
        self.is_attached.set()
        while is_allowed:
            # Wait for the next event of a traced process. PEEK leaves it in place.
            try:
                event = os.waitid(os.P_ALL, 0, PEEK)
            except ChildProcessError:
                # No traced process is left.
                return
            assert event
            has_child_ended = event.si_pid == self.pid and event.si_code in ENDED
            if has_child_ended:
                # The child was about to exit when the trace began, so it has not stopped, and has no counts.
                # This event stays in place: another thread waits for it with process.wait().
                return
            # Take the event. WAIT_OWN excludes the children of other threads.
            pid, status = os.waitpid(event.si_pid, WAIT_OWN)
            if os.WIFSTOPPED(status):
                self._continue_stopped(pid, status)

    def _continue_stopped(self, pid: int, status: int) -> None:
        """Let a stopped process go on. If it is about to exit, read its counts first, and detach from it."""
        # The bits from 16 on have the number of a ptrace event. It is 0 if a signal has stopped the process.
        event = status >> 16
        if event == EXIT_EVENT:
            peak_bytes = process_facts.own_peak_bytes(pid)
            if peak_bytes is not None:
                self.peak_bytes = max(self.peak_bytes or 0, peak_bytes)
            self.maps += read(f"/proc/{pid}/maps") + "\n"
            if pid == self.pid:
                # After the end of the child, only root can read its counts.
                self.io = process_facts.io_counts(pid)
            _ptrace(DETACH, pid, 0)
        elif event:
            # A fork, for example: the process goes on without a signal.
            _ptrace(CONT, pid, 0)
        else:
            # The process goes on, and gets the signal that has stopped it.
            _ptrace(CONT, pid, os.WSTOPSIG(status))


def _ptrace(request: int, pid: int, data: int) -> bool:
    """Send a request to the kernel. Return False if it is not allowed, or if the process is gone."""
    if libc.ptrace(request, pid, None, data) == 0:
        return True
    # After another error of SEIZE, ExitTracer.run() finds no traced process, and ends.
    return ctypes.get_errno() not in NOT_ALLOWED


def trace_mapped_files(argv: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """Run a command, which may fail, and return the programs and libraries that it maps into its memory.

    Return None if the kernel allows no tracing. Example: ["/usr/bin/svn", "/usr/lib/libsvn_client-1.so.0"].
    """
    # On a busy machine, a short run may end before the trace begins.
    for _ in range(FILES_TRIES):
        # The end of this block ends a command that still runs.
        with processes.background(
            argv, stdout=processes.DEVNULL, stderr=processes.DEVNULL, env=environment
        ) as process:
            tracer = ExitTracer(process.pid)
            tracer.join(FILES_LIMIT_S)
        if tracer.maps:
            break
    return find_mapped_files(tracer.maps)


def read_mapped_files(pid: int) -> list[str] | None:
    """Return the program files that a process and its descendants have mapped; None if they are unknown."""
    maps = [process_facts.read_of(member, "maps") for member in process_facts.family(pid)]
    return find_mapped_files("\n".join(maps))


def find_mapped_files(maps: str) -> list[str] | None:
    """Return the programs and libraries in the text of /proc/PID/maps; None if it has none.

    Files that are mapped as data, such as a database of SQLite, belong to no program.
    """
    files = set(EXECUTABLE_MAPPING.findall(maps))
    return sorted(files) if files else None


def find_subversion_libraries(mapped: Sequence[str] | None) -> list[str] | None:
    """Return Subversion's libraries among mapped files, for example /usr/lib/libsvn_client-1.so.0.0.0.

    Return None if the mapped files are unknown, or if none is such a library, as in a static program.
    """
    if mapped is None:
        return None
    libraries = {os.path.realpath(path) for path in mapped if SUBVERSION_LIBRARY.search(path)}
    return sorted(libraries) if libraries else None
