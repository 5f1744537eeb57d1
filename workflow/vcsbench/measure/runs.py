"""Run a command: timed by hyperfine, with its hooks and its export, or untimed, with its output read."""

import ctypes
import errno
import json
import os
import re
import select
import shlex
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from vcsbench import processes
from vcsbench.errors import ProgramError, UserError
from vcsbench.kernel import libc, read
from vcsbench.measure.work import Fingerprint
from vcsbench.programs import Programs

# A hook asks this process to do its work. It is a shell command because its interpreter is not read again
# after the caches were dropped. A hook that outlives its cell must not hold the lock of the machine.
HOOK = (
    'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo "$1" > "$0/ask"; '
    'read -r answer < "$0/answer"; [ "$answer" = done ]'
)
# A command waits at a pipe until it is traced: a short one would end before that.
GATE = 'read -r go < "$0"; exec "$@"'
# A file that is mapped executable, with its path: a program, a library, or a preloaded library.
MAPPED = re.compile(r"^\S+ r-x\S+ \S+ \S+ [1-9]\d* +(/.*)$", re.MULTILINE)
SUBVERSION_LIBRARY = re.compile(r"/(?:libsvn_[^/\s]*\.so|mod_dav_svn\.so)[^/]*$")
LIBRARIES_LIMIT_S, LIBRARIES_TRIES = 60, 3
UNITS = {
    "second": 1.0,
    "millisecond": 1e-3,
    "microsecond": 1e-6,
    "nanosecond": 1e-9,
    "byte": 1.0,
    "kilobyte": 1e3,
    "kibibyte": 1024.0,
    "megabyte": 1e6,
    "mebibyte": 1024.0**2,
}
TRACER_LIMIT_S = 2.0
# Less than the grace of a job that ends (run.job.GRACE_S).
CHILD_LIMIT_S = 1.0


def _time_limit_error(limit_s: float) -> UserError:
    return UserError(
        f"a run took longer than {limit_s:g} s and was ended. If that is what it takes, raise `time_limit_s` "
        f"in config/config.yaml."
    )


class Invocation(NamedTuple):
    """A command line, its standard input (a file, or ""), its environment, and the time limit of a run."""

    argv: Sequence[str]
    stdin: str
    environment: Mapping[str, str]
    limit_s: float


class Hyperfine:
    """Time a command, and call `answer(name)` for each hook, over named pipes below `folder`.

    `folder` takes the export and the log. run() sets `pid`, `seconds` with hooks, and `hooks_s`.
    While a hook is answered, `since_hook_s` is the time since the answer to the hook before: the time of the
    run between the two, with the end and start of their shells.
    """

    def __init__(self, folder: Path, answer: Callable[[str], None]) -> None:
        self.answer = answer
        self.export = folder / "export.json"
        self.log = folder / "hyperfine.log"
        self.hooks = folder / "hooks"
        self.pid = 0
        self.seconds = self.hooks_s = 0.0
        self.since_hook_s = self.answered_at = 0.0
        self.error: Exception | None = None
        # Another user who may open a pipe takes the answers, and the run waits for ever.
        self.hooks.mkdir(mode=0o700)
        for name in ("ask", "answer"):
            os.mkfifo(self.hooks / name, 0o600)
        # Read and write: opening never blocks, and the pipe never ends.
        self.requests = os.open(self.hooks / "ask", os.O_RDWR | os.O_NOFOLLOW)
        self.replies = os.open(self.hooks / "answer", os.O_RDWR | os.O_NOFOLLOW)

    def run(self, command: Invocation, runs: int, lock: int) -> str:
        """Time runs of a command, and answer hyperfine's hooks.

        Return "", or the last output of hyperfine if it failed. Its processes hold the descriptor `lock`
        open. Raise the error of a hook, or UserError if a run took too long.
        """
        argv, env = self._argv(command.argv, command.stdin, runs), command.environment
        began, self.hooks_s = time.monotonic(), 0.0
        with self.log.open("wb") as output:
            options = {"stdout": output, "stderr": output, "env": env, "pass_fds": [lock]}
            with processes.background(argv, **options) as process:
                self.pid = process.pid
                self._serve(command.limit_s)
                process.wait()
        self.seconds = time.monotonic() - began
        if process.returncode == 0:
            return ""
        if process.returncode < 0:
            return f"hyperfine {processes.how_it_ended(process.returncode)}"
        return " | ".join(processes.last_lines(self.log, 2)) or "hyperfine printed nothing"

    def _argv(self, argv: Sequence[str], stdin: str, runs: int) -> list[str]:
        """Return hyperfine's command line, without warm-up runs: its export has no exit code of theirs."""
        hyperfine, given = Programs().get("hyperfine"), []
        names = ("setup", "prepare", "cleanup")
        hooks = {name: shlex.join(["sh", "-c", HOOK, str(self.hooks), name]) for name in names}
        if stdin:
            usage = processes.run_program([hyperfine, "--help"], may_fail=True).output
            if "--input" in usage:
                given = ["--input", stdin]
            else:
                argv = ["sh", "-c", 'exec "$@" < "$0"', stdin, *argv]
        return [
            *(hyperfine, "-N", "--style", "basic", "--warmup", "0", "--runs", str(runs)),
            "--ignore-failure",
            *(word for name, hook in hooks.items() for word in (f"--{name}", hook)),
            *("--export-json", str(self.export)),
            *(*given, shlex.join(argv)),
        ]

    def _serve(self, limit_s: float) -> None:
        ended = os.pidfd_open(self.pid)
        deadline = time.monotonic() + limit_s
        try:
            while True:
                wait_s = max(0.0, deadline - time.monotonic())
                ready = select.select([self.requests, ended], [], [], wait_s)[0]
                if self.requests in ready:
                    self._reply(os.read(self.requests, 100).decode().strip())
                    deadline = time.monotonic() + limit_s
                elif ended in ready:
                    break
                elif not ready:
                    raise _time_limit_error(limit_s)
        finally:
            os.close(ended)
        if self.error:
            raise self.error

    def _reply(self, name: str) -> None:
        requested_at = time.monotonic()
        self.since_hook_s = requested_at - self.answered_at
        try:
            self.answer(name)
        except Exception as error:
            self.error = error
        self.answered_at = time.monotonic()
        self.hooks_s += self.answered_at - requested_at
        os.write(self.replies, b"failed\n" if self.error else b"done\n")


class Run(NamedTuple):
    """One timed run: seconds, bytes, and the exit code (None if a signal ended the command).

    With `mean_cpu`, user and system time are means over the export's runs. `peak_memory_bytes` is None
    if the export lacks the command's own peak.
    """

    elapsed_s: float
    user_s: float | None
    system_s: float | None
    exit_code: int | None
    peak_memory_bytes: float | None = None
    mean_cpu: bool = False


def read_export(path: str | Path, content: bytes | None = None) -> list[Run]:
    """Return the runs of an export of hyperfine 1.15 to 2.x with one command, in order.

    Raise UserError with the path if its content is no such export.
    """
    try:
        export = json.loads(Path(path).read_bytes() if content is None else content)
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not JSON. Delete it and run again to measure it.") from None
    version = export.get("schema_version", 1) if isinstance(export, dict) else None
    if version not in (1, 2):
        raise UserError(
            f"{path}: `schema_version`: {version!r} is not known. Use hyperfine 1.15 to 2.x."
        )
    try:
        result = export["results"][0]
        if version == 2:
            return [_run_of_version_2(run) for run in result["measurements"]]
        # `memory_usage_byte` is the highest peak of any child so far, hooks included: not a run's own.
        is_mean, cpu = len(result["times"]) > 1, (result.get("user"), result.get("system"))
        runs = zip(result["times"], result["exit_codes"], strict=True)
        return [Run(float(elapsed), *cpu, code, mean_cpu=is_mean) for elapsed, code in runs]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        fault = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path}: is not an export of hyperfine ({fault}). Delete it and run again."
        ) from None


def _run_of_version_2(run: Mapping[str, Any]) -> Run:
    def quantity(measured: Mapping[str, Any]) -> float:
        if measured["unit"] not in UNITS:
            raise ValueError(f"the unit {measured['unit']!r} is not known")
        return float(measured["value"]) * UNITS[measured["unit"]]

    user_s, system_s, peak_bytes = (
        quantity(run[name]) if run.get(name) is not None else None
        for name in ("time_user", "time_system", "memory_peak_resident")
    )
    elapsed_s = quantity(run["time_wall_clock"])
    return Run(elapsed_s, user_s, system_s, run.get("exit_code"), peak_bytes)


class Captured(NamedTuple):
    """The fingerprint of a run, its I/O as the kernel counts it, its peak memory, and its mapped files.

    `peak_bytes` and `mapped` are None if the kernel allows no tracing. The counts of `io` are None if they
    cannot be read.
    """

    work: Fingerprint
    io: dict[str, int | None]
    peak_bytes: int | None = None
    mapped: list[str] | None = None


def capture(
    command: Invocation, read_output: Callable[[IO[bytes]], Fingerprint], log: Path
) -> Captured:
    """Run a command. `log` takes its errors. Raise UserError if it fails or takes too long.

    A pipe is made next to the log.
    """

    # It takes 10 ms, and a round without an untimed run does not need it.
    from concurrent.futures import ThreadPoolExecutor, wait

    def read_stream() -> Fingerprint:
        assert process.stdout
        # Closed also after an error: the process then ends.
        with process.stdout as stream:
            return read_output(stream)

    def end_writers() -> None:
        """End the process, its group, and then all others that hold its output."""
        processes.kill_group(process.pid)
        if not wait([reading], CHILD_LIMIT_S).done:
            processes.send(processes.holders(output), signal.SIGKILL)

    gate = log.with_suffix(".gate")
    if not gate.exists():
        os.mkfifo(gate, 0o600)
    # Read and write: opening does not block.
    opened_gate = os.open(gate, os.O_RDWR | os.O_NOFOLLOW)
    with log.open("wb") as errors, open(command.stdin or os.devnull, "rb") as given:
        argv = ["sh", "-c", GATE, str(gate), *command.argv]
        process = processes.start_process(
            argv, env=command.environment, stdin=given, stdout=processes.PIPE, stderr=errors
        )
    assert process.stdout
    output = os.readlink(f"/proc/self/fd/{process.stdout.fileno()}")
    ended = os.pidfd_open(process.pid)
    tracer, reader = ExitTracer(process.pid), ThreadPoolExecutor(1)
    reading = reader.submit(read_stream)
    os.write(opened_gate, b"go\n")
    try:
        has_ended = bool(select.select([ended], [], [], command.limit_s)[0])
        # End a process that takes too long, and all that hold its output.
        if not has_ended or not wait([reading], CHILD_LIMIT_S).done:
            end_writers()
        work = reading.result()
        # Before waitid, which would take the tracer's stops for the end. A child that stays is not awaited.
        tracer.join(TRACER_LIMIT_S)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # Without tracing, only root can read the counts, because the process has ended.
        io = tracer.io or processes.io_counts(process.pid)
    finally:
        os.close(ended)
        os.close(opened_gate)
        # After an exception, such as one of a signal, the output may still be held open.
        end_writers()
        reader.shutdown()
        tracer.join(TRACER_LIMIT_S)
        process.wait()
    if not has_ended:
        raise _time_limit_error(command.limit_s)
    if process.returncode != 0:
        printed = " ".join(processes.last_lines(log, 3)) or "it printed no error"
        how = processes.how_it_ended(process.returncode)
        raise ProgramError(f"{os.path.basename(command.argv[0])} {how}: {printed}")
    return Captured(work, io, tracer.peak_bytes, mapped_files(tracer.maps))


SEIZE, CONT, DETACH = 0x4206, 7, 17
TRACE_EXIT, TRACE_FORKS = 0x40, 0x02 | 0x04
EXIT_EVENT = 6
WAIT_OWN = 0x40000000 | 0x20000000
ENDED = (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
PEEK = os.WEXITED | os.WSTOPPED | os.WNOWAIT | WAIT_OWN

libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long


class ExitTracer(threading.Thread):
    """Trace a child of this process, and its children, until they exit.

    `peak_bytes` is then the largest resident size of one of them, `maps` all their /proc/PID/maps, and
    `io` has the counts of the child and of its ended children; None, "" and {} if the kernel allows no
    tracing. The peak of getrusage() includes the size of the parent.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak_bytes: int | None = None
        self.maps = ""
        self.io: dict[str, int | None] = {}
        self.ready = threading.Event()
        self.start()
        self.ready.wait()

    def run(self) -> None:
        is_allowed = _ptrace(SEIZE, self.pid, TRACE_EXIT | TRACE_FORKS)
        self.ready.set()
        while is_allowed:
            try:
                event = os.waitid(os.P_ALL, 0, PEEK)
            except ChildProcessError:
                return
            assert event
            if event.si_pid == self.pid and event.si_code in ENDED:
                # It was about to exit when the trace began. Its parent waits for it.
                return
            pid, status = os.waitpid(event.si_pid, WAIT_OWN)
            if not os.WIFSTOPPED(status):
                continue
            reason = status >> 16
            if reason == EXIT_EVENT:
                peaks = (self.peak_bytes, processes.own_peak_bytes(pid))
                self.peak_bytes = max((peak for peak in peaks if peak is not None), default=None)
                self.maps += read(f"/proc/{pid}/maps") + "\n"
                if pid == self.pid:
                    # As soon as it has ended, only root can read them.
                    self.io = processes.io_counts(pid)
                _ptrace(DETACH, pid, 0)
            else:
                _ptrace(CONT, pid, 0 if reason else os.WSTOPSIG(status))


def _ptrace(request: int, pid: int, data: int) -> bool:
    refused = (errno.EPERM, errno.ESRCH, errno.ENOSYS)
    return int(libc.ptrace(request, pid, None, data)) == 0 or ctypes.get_errno() not in refused


def files_of_client(argv: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """Return the files that a command maps in an untimed run, which may fail.

    Return None if the kernel allows no tracing.
    """
    null = processes.DEVNULL
    # On a busy machine, a short run may end before the trace begins.
    for _ in range(LIBRARIES_TRIES):
        options = {"stdout": null, "stderr": null, "env": environment}
        with processes.background(argv, **options) as process:
            tracer = ExitTracer(process.pid)
            tracer.join(LIBRARIES_LIMIT_S)
        if tracer.maps:
            break
    return mapped_files(tracer.maps)


def files_of_server(pid: int) -> list[str] | None:
    family = processes.family(pid)
    return mapped_files("\n".join(processes.read_of(member, "maps") for member in family))


def mapped_files(maps: str) -> list[str] | None:
    """Return the programs and libraries in the text of /proc/PID/maps; None if it has none.

    Files that are mapped as data, such as a database of SQLite, belong to no program.
    """
    return sorted(set(MAPPED.findall(maps))) or None


def subversion_libraries(mapped: Sequence[str] | None) -> list[str] | None:
    """Return Subversion's libraries of mapped files; None if these are unknown, or have none (static)."""
    libraries = [os.path.realpath(path) for path in mapped or () if SUBVERSION_LIBRARY.search(path)]
    return sorted(set(libraries)) or None
