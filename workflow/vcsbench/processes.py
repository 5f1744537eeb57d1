"""Run programs to their end, and start processes that end with their parent."""

import contextlib
import fcntl
import io
import os
import select
import signal as signals
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, cast

from vcsbench import process_facts, server_user
from vcsbench.environment import program_environment
from vcsbench.errors import REMEDY_BY_ERRNO, ProgramError, UserError
from vcsbench.external import open_regular, printable
from vcsbench.kernel import PR_SET_CHILD_SUBREAPER, control_process

END_GRACE_S = 3.0
# The most that is read of a log, and of the errors of a program.
LOG_TAIL = 1 << 16
ERROR_TAIL = 1 << 16
# The size of the pipe to a program, which root may raise and others up to a limit.
INPUT_BYTES = 1 << 20
# How much of a program's errors is printed.
ERROR_LINES = 3
ERROR_LINE = 500

PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL
Process = subprocess.Popen[bytes]


class Completed(NamedTuple):
    """A program that has ended: its exit code (negative: the signal), output and errors, as text."""

    code: int
    output: str
    errors: str


# The exit codes of a shell and of timeout(1) for a program that cannot be run, or that takes too long.
CANNOT_RUN, TOO_LONG = 127, 124
# The exit code of git after a wrong option. A shell has the same code for a program that SIGHUP ended, which
# hardly happens.
GIT_USAGE = 129


def run_program(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    limit_s: float | None = None,
    may_fail: bool = False,
) -> Completed:
    """Run a program to its end, and return its exit code, output and errors.

    Without `env`, the program has the fixed environment of all programs (program_environment). Raise
    ProgramError if it fails or takes longer than `limit_s`, and OSError if it cannot be run. With `may_fail`,
    nothing is raised: the exit code is the program's, CANNOT_RUN or TOO_LONG.
    """
    words = [str(word) for word in argv]
    command = " ".join(words[:3])
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=program_environment() if env is None else env,
            cwd=cwd,
            # A group of its own: after a timeout or a signal, _read_to_end() ends a wrapper together with its
            # program, which the wrapper may leave behind.
            process_group=0,
        )
    except (OSError, ValueError) as error:
        # Popen raises ValueError if an argument has a NUL.
        if may_fail:
            return Completed(CANNOT_RUN, "", str(error))
        raise
    # After a timeout, a descendant in another group may still hold the pipes open. Leaving the block closes
    # the pipes in this process, so it does not wait for the descendant.
    with process:
        try:
            done = _read_to_end(process, limit_s)
        except subprocess.TimeoutExpired:
            if may_fail:
                return Completed(TOO_LONG, "", "")
            raise ProgramError(f"{command}: took longer than {limit_s:g} s") from None
    if done.code and not may_fail:
        # Some programs print their errors to the standard output, so the error ends with both.
        lines = done.output.splitlines() + done.errors.splitlines()
        last = " ".join(lines[-ERROR_LINES:])
        raise ProgramError(f"{command}: {how_it_ended(done.code)}: {last}")
    return done


def _read_to_end(process: Process, limit_s: float | None) -> Completed:
    """Return the exit code, output and errors of a program when it has ended.

    Raise TimeoutExpired if it takes longer than `limit_s`. The program and its group are killed before an
    error is raised.
    """
    try:
        output, errors = process.communicate(timeout=limit_s)
    except BaseException:
        # A handler of a signal raises SystemExit. The program must not outlive this process then.
        kill_group(process.pid)
        raise
    return Completed(
        process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
    )


class _Output(io.RawIOBase):
    """The output of a program that may hang. Reading raises UserError if no byte comes within a limit."""

    def __init__(self, pipe: IO[bytes], limit_s: float, failure: str) -> None:
        self._pipe = pipe
        self._limit_s = limit_s
        self._failure = failure

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not select.select([self._pipe], [], [], self._limit_s)[0]:
            raise UserError(
                f"{self._failure}: no answer within {self._limit_s:g} s. Check its server or its files."
            )
        return os.readv(self._pipe.fileno(), [buffer])


class Program:
    """A running program with its output as a pipe. Leaving the `with` block ends it."""

    def __init__(
        self,
        argv: Sequence[str],
        failure: str,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] = subprocess.DEVNULL,
        limit_s: float | None = None,
        umask: int = -1,
    ) -> None:
        """Start a program. Raise UserError if it cannot be run.

        `failure` begins later errors about the program, for example "/srv/x: svnadmin dump failed". Without
        `env`, the program has the fixed environment of all programs. `limit_s` is the longest time without
        output. A `umask` of -1 means the umask of this process.
        """
        self.failure = failure
        # The errors of the program go to a file in memory, because the disk may be full.
        self._errors = os.fdopen(os.memfd_create("errors"), "w+b")
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=program_environment() if env is None else env,
                umask=umask,
            )
        except (OSError, ValueError) as error:
            # Popen raises ValueError if an argument has a NUL, or half of a character.
            self._errors.close()
            reason = str(error)
            if isinstance(error, OSError):
                reason = error.strerror or reason
                # The program may be correct, and a limit of the system reached, such as that on processes.
                remedy = REMEDY_BY_ERRNO.get(error.errno or 0)
                if remedy:
                    reason = f"{reason}. {remedy}, and run again."
            raise UserError(f"{failure}: {argv[0]} cannot be run: {reason}") from error
        self._pipe = cast(io.BufferedReader, self.process.stdout)
        self.stdout = self._pipe
        if limit_s:
            self.stdout = io.BufferedReader(_Output(self._pipe, limit_s, failure))
        if stdin == subprocess.PIPE and self.process.stdin:
            # Two programs that load a repository at the same time take 62 s with the default pipe of 64 KiB,
            # and 48 s with this larger one, which the kernel may refuse.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.process.stdin.fileno(), fcntl.F_SETPIPE_SZ, INPUT_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.process.kill()
        # The program may still wait for input, or write output. With both pipes closed, it ends.
        self.close_input()
        self._pipe.close()
        self.process.wait()
        self._errors.close()

    def write(self, data: bytes) -> None:
        """Write to a program with the `stdin` PIPE."""
        assert self.process.stdin
        self.process.stdin.write(data)

    def close_input(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()

    def finish(self) -> None:
        """Wait for the end of the program. Raise UserError if it failed."""
        if self.process.wait() != 0:
            raise self.failed()

    def read_all(self) -> bytes:
        """Return the output of the program. Raise UserError if it failed."""
        text = self.stdout.read()
        self.finish()
        return text

    def failed(self) -> UserError:
        """Return the error about the program, with the last lines of its errors."""
        code = self.process.wait()
        reasons = []
        for line in self.errors().strip().splitlines()[-ERROR_LINES:]:
            # A line may have all of a file that the program could not read.
            reasons.append(line if len(line) <= ERROR_LINE else f"{line[:ERROR_LINE]}...")
        # A signal (a negative code) is the reason even after error output.
        if code < 0 or not reasons:
            reasons.append(f"it {how_it_ended(code)}")
        return ProgramError(f"{self.failure}: {' '.join(reasons)}")

    def errors(self) -> str:
        """Return the end of the error output of a program that ended."""
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - ERROR_TAIL))
        return self._errors.read().decode("utf-8", "replace")


def output(argv: Sequence[str], failure: str, limit_s: float | None = None) -> bytes:
    """Return the output of a program. Raise UserError if it fails, or pauses for longer than the limit."""
    with Program(argv, failure, limit_s=limit_s) as program:
        return program.read_all()


def start_process(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    signal: str = "KILL",
    unprivileged: bool = False,
    has_session: bool = False,
    adopts_orphans: bool = False,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    **options: Any,
) -> Process:
    """Start a program in a process group of its own, and return its process. The caller has to end it.

    - env: without it, the program has the fixed environment of all programs (program_environment).
    - signal: the kernel sends it to the program when this process ends, so the program is never left behind.
    - unprivileged: if this process is root's, the program runs as the user of root's servers.
    - has_session: the program has a session of its own, so it gets no Ctrl-C of the terminal.
    - adopts_orphans: the program becomes the parent of descendants whose parent has ended, so that the
      kernel's counts for the program include them.
    """
    command = with_pdeathsig([str(word) for word in argv], signal, unprivileged)
    if adopts_orphans:
        # No command can set this property. It stays when setpriv and the program take Python's place.
        options["preexec_fn"] = _adopt_orphans
    return subprocess.Popen(
        command,
        # A new session has a new group, too.
        process_group=None if has_session else 0,
        start_new_session=has_session,
        env=program_environment() if env is None else env,
        stdin=stdin,
        **options,
    )


def _adopt_orphans() -> None:
    control_process(PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def background(argv: Sequence[str | Path], **options: Any) -> Iterator[Process]:
    """Start a program with start_process(). Leaving the `with` block kills its group, if it still runs."""
    process = start_process(argv, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            kill_group(process.pid)
            process.wait()


def read_errors(process: Process, limit_s: float | None) -> bytes | None:
    """Return the error output of a process when it has ended; None if that takes longer than a limit."""
    try:
        return process.communicate(timeout=limit_s)[1]
    except subprocess.TimeoutExpired:
        return None


def wait_for_end(process: Process, limit_s: float) -> bool:
    """Return True if a process has ended within a limit."""
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signals.SIGKILL)


def with_pdeathsig(argv: list[str], signal: str = "KILL", unprivileged: bool = False) -> list[str]:
    """Return a command line with which the kernel sends `signal` to the process when its parent ends.

    If `unprivileged` and this process is root's, the program runs as the user of root's servers.
    """
    setpriv = ["setpriv", "--pdeathsig", signal]
    ids = server_user.server_ids() if unprivileged else None
    if ids:
        setpriv += ["--reuid", str(ids.uid), "--regid", str(ids.gid), "--clear-groups"]
    return [*setpriv, "--", *argv]


def check_setpriv() -> None:
    """Raise UserError if setpriv cannot end a program with its parent.

    util-linux before 2.33 and busybox have a setpriv without this option.
    """
    done = run_program(with_pdeathsig(["sh", "-c", ":"]), may_fail=True)
    if done.code:
        lines = done.errors.strip().splitlines() or [how_it_ended(done.code)]
        raise UserError(
            f"setpriv cannot end a program with its parent (--pdeathsig): {lines[-1]}. Install util-linux "
            f"2.33 or newer. conda has one (envs/workflow.yaml)."
        )


def end(process: Process) -> None:
    """End a server with SIGTERM, and with SIGKILL if it has not ended after END_GRACE_S seconds.

    The server's descendants get SIGKILL first. Otherwise httpd would wait for its children, and it checks
    less and less often whether they have ended.
    """
    if process.poll() is not None:
        return
    # The first process of the family is the server itself.
    descendants = process_facts.family(process.pid)[1:]
    send(descendants, signals.SIGKILL)
    deadline = time.monotonic() + END_GRACE_S
    while any(map(process_facts.is_running, descendants)) and time.monotonic() <= deadline:
        time.sleep(0.001)
    process.terminate()
    if not wait_for_end(process, END_GRACE_S):
        process.kill()
        process.wait()


def send(pids: Iterable[int], signal: int) -> None:
    """Send a signal to processes, as far as they exist and belong to this user."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal)


def signal_of(code: int | None) -> str:
    """Return the name of the signal that ended a process, such as "SIGTERM"; "" for another exit code.

    `code` is that of subprocess (-15), or of a shell (128 + 15). None means an unknown signal.
    """
    if code is None:
        return "a signal"
    if code == GIT_USAGE:
        return ""
    # For a code from 0 to 128, this is no number of a signal.
    number = -code if code < 0 else code - 128
    try:
        return signals.Signals(number).name
    except ValueError:
        return ""


_WHY_ENDED = {
    "SIGKILL": " (the kernel does that when memory runs out: free some memory, and run again)",
    "SIGXFSZ": " (a file reached the limit on its size: raise it by ulimit -f, and run again)",
    "SIGXCPU": " (the limit on processor time was reached: raise it by ulimit -t, and run again)",
}


def how_it_ended(code: int | None) -> str:
    """Return in a clause how a program ended: "exits with 1", or "was ended by SIGTERM"."""
    name = signal_of(code)
    if not name:
        return f"exits with {code}"
    return f"was ended by {name}{_WHY_ENDED.get(name, '')}"


def last_lines(file: Path, count: int = 5) -> list[str]:
    """Return the last lines of a log, with escaped control characters; [] without such a regular file."""
    try:
        with open(open_regular(file, follow_links=False), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL))
            lines = printable(log.read(LOG_TAIL)).splitlines()
    except (OSError, UserError):
        return []
    return [line for line in lines if line.strip()][-count:]
