"""Time a command by hyperfine, answer its hooks, and read its export."""

import json
import os
import select
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.programs import Programs

# A hook writes its name to the pipe `ask` and waits for a line in the pipe `answer`. It fails unless that is
# `done`. It is a shell command because another interpreter would be read again after the caches were cleared.
# The shell closes the inherited descriptors first: a hook that outlives its cell must not hold the lock.
HOOK_SCRIPT = (
    'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo "$1" > "$0/ask"; '
    'read -r answer < "$0/answer"; [ "$answer" = done ]'
)
# The units of hyperfine's schema 2, in seconds and bytes.
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


class Hook(StrEnum):
    """A hook of hyperfine, by the name of its option."""

    SETUP = "setup"  # once, before all runs
    PREPARE = "prepare"  # before each run
    CLEANUP = "cleanup"  # once, after all runs


class Invocation(NamedTuple):
    """A command line, its standard input (a file, or "" for none), its environment, and its time limit."""

    argv: Sequence[str]
    stdin: str
    environment: Mapping[str, str]
    limit_s: float


def time_limit_error(limit_s: float) -> UserError:
    """Return the error about a run that was ended at its time limit."""
    return UserError(
        f"a run took longer than {limit_s:g} s and was ended. If that is what it takes, raise `time_limit_s` "
        f"in config/config.yaml."
    )


class Hyperfine:
    """Time a command by hyperfine, and call `answer_hook(hook)` for each of hyperfine's hooks.

    A hook is a shell that hyperfine starts before, between or after the runs. It sends its name to this
    process over a named pipe, and waits for the answer in another one.
    """

    def __init__(self, folder: Path, answer_hook: Callable[[Hook], None]) -> None:
        """Make the pipes of the hooks below `folder`, a private folder, which later gets export and log."""
        self.answer_hook = answer_hook
        self.export = folder / "export.json"
        self.log = folder / "hyperfine.log"
        # Only this user may open the pipes: a process of somebody else could read the answers, and the hook
        # would wait for ever.
        self.hooks = folder / "hooks"
        self.hooks.mkdir(mode=0o700)
        # The descriptors of the pipes, which are open until this process ends.
        self.requests = _make_pipe(self.hooks / "ask")
        self.replies = _make_pipe(self.hooks / "answer")
        self.pid = 0
        # The seconds of the last run() with all hooks, and of its hooks alone.
        self.seconds = 0.0
        self.hooks_s = 0.0
        # The seconds between the last two hooks: from the end of the first to the request of the second.
        # They contain a run, the end of the first hook's shell, and the start of the second one's.
        self.since_hook_s = 0.0
        # The time of the last answer (time.monotonic()).
        self.answered_at = 0.0
        # The error of `answer_hook`, which run() raises after hyperfine has ended.
        self.hook_error: Exception | None = None

    def run(self, command: Invocation, runs: int, lock: int) -> str | None:
        """Time `runs` runs of a command, answer hyperfine's hooks, and set `pid`, `seconds` and `hooks_s`.

        Return why hyperfine failed, for example its last lines of output. A timed run that fails is no
        failure of hyperfine. hyperfine and the timed command inherit `lock`, the descriptor of a locked file,
        so the lock is held until both have ended. Hooks close it (HOOK_SCRIPT). Raise the error of a hook, or
        UserError if a run takes too long.
        """
        argv = self._build_argv(command, runs)
        began = time.monotonic()
        self.hooks_s = 0.0
        # After an error within this block, background() ends hyperfine with its group.
        with (
            self.log.open("wb") as log,
            processes.background(
                argv, stdout=log, stderr=log, env=command.environment, pass_fds=[lock]
            ) as process,
        ):
            self.pid = process.pid
            self._answer_hooks(command.limit_s)
            # If hyperfine alone was killed, the timed command still runs. Until wait(), the ended hyperfine
            # keeps its pid, so no other group can have this number.
            processes.kill_group(process.pid)
            process.wait()
        self.seconds = time.monotonic() - began

        if process.returncode == 0:
            return None
        if process.returncode < 0:
            return f"hyperfine {processes.how_it_ended(process.returncode)}"
        return " | ".join(processes.last_lines(self.log, 2)) or "hyperfine printed nothing"

    def _build_argv(self, command: Invocation, runs: int) -> list[str]:
        """Return hyperfine's command line.

        Example, shortened: hyperfine -N --runs 1 --setup "sh -c ..." --export-json FILE "svn log URL".
        """
        hyperfine = Programs().get("hyperfine")
        # -N: without a shell, whose start would be measured. `basic`: the log gets no progress bar.
        argv = [hyperfine, "-N", "--style", "basic"]
        # The export has no exit codes of hyperfine's own warm-up runs, so vcsbench warms up in a hook.
        argv += ["--warmup", "0", "--runs", str(runs)]
        # Otherwise, hyperfine would end after a run that fails. The exit codes are in the export.
        argv += ["--ignore-failure"]
        for hook in Hook:
            # The script gets the folder of the pipes as $0, and the name of the hook as $1.
            script = ["sh", "-c", HOOK_SCRIPT, str(self.hooks), hook]
            argv += [f"--{hook}", shlex.join(script)]
        argv += ["--export-json", str(self.export)]

        timed_argv = list(command.argv)
        if command.stdin:
            # Only a newer hyperfine has an option for the standard input. Its usage lists its options.
            usage = processes.run_program([hyperfine, "--help"], may_fail=True).output
            if "--input" in usage:
                argv += ["--input", command.stdin]
            else:
                # An older hyperfine: a shell opens the file, and the command takes the place of the shell.
                timed_argv = ["sh", "-c", 'exec "$@" < "$0"', command.stdin, *timed_argv]
        return [*argv, shlex.join(timed_argv)]

    def _answer_hooks(self, limit_s: float) -> None:
        """Answer the hooks of hyperfine until hyperfine ends. Then raise the error of a hook, if one failed.

        Raise UserError after `limit_s` seconds without a request: the run after the last hook takes too long.
        """
        # A descriptor that select() reports once hyperfine has ended.
        end_of_hyperfine = os.pidfd_open(self.pid)
        try:
            while True:
                ready = select.select([self.requests, end_of_hyperfine], [], [], limit_s)[0]
                # The request comes first: a hook may have sent it just before hyperfine ended.
                if self.requests in ready:
                    self._answer_request()
                elif end_of_hyperfine in ready:
                    break
                else:
                    raise time_limit_error(limit_s)
        finally:
            os.close(end_of_hyperfine)
        if self.hook_error:
            raise self.hook_error

    def _answer_request(self) -> None:
        """Read the request of a hook, do its work (answer_hook), and write the answer to the other pipe.

        Set `since_hook_s`, add to `hooks_s`, and set `hook_error` if the work fails.
        """
        # A request is the name of the hook in one line, such as "prepare".
        request = os.read(self.requests, 100).decode().strip()
        requested_at = time.monotonic()
        self.since_hook_s = requested_at - self.answered_at
        try:
            self.answer_hook(Hook(request))
        except Exception as error:
            # The answer makes the hook fail, so hyperfine ends. Then _answer_hooks() raises this error.
            self.hook_error = error
        self.answered_at = time.monotonic()
        self.hooks_s += self.answered_at - requested_at
        os.write(self.replies, b"failed\n" if self.hook_error else b"done\n")


def _make_pipe(path: Path) -> int:
    """Make a named pipe for this user, and return its descriptor."""
    os.mkfifo(path, 0o600)
    # For reading and writing: opening then never blocks, and the pipe has no end while no hook is open.
    return os.open(path, os.O_RDWR | os.O_NOFOLLOW)


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

    `content` is that of an export that is in no file; `path` is then for messages only. Raise UserError if
    the content is not that of such an export.
    """
    if content is None:
        content = Path(path).read_bytes()
    try:
        export = json.loads(content)
    # RecursionError: the JSON is nested too deeply.
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not JSON. Delete it and run again to measure it.") from None
    # hyperfine 1.x writes no version, so 1 is the default. None (JSON that is no object) is refused.
    version = export.get("schema_version", 1) if isinstance(export, dict) else None
    if version not in (1, 2):
        raise UserError(
            f"{path}: `schema_version`: {version!r} is not known. Use hyperfine 1.15 to 2.x."
        )
    try:
        result = export["results"][0]
        if version == 1:
            return _read_runs_of_schema_1(result)
        return [_read_run_of_schema_2(measurement) for measurement in result["measurements"]]
    # A key or the only command is missing, a value has another type, or a unit is unknown.
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # The text of a KeyError is only the key.
        fault = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path}: is not an export of hyperfine ({fault}). Delete it and run again."
        ) from None


def _read_runs_of_schema_1(result: Mapping[str, Any]) -> list[Run]:
    """Return the runs of {"times": [1.2, 1.3], "exit_codes": [0, 0], "user": 0.9, "system": 0.2}.

    Schema 1 is the format of hyperfine 1.x. Its key `memory_usage_byte` is not read: it is the highest peak
    of any child of hyperfine so far, also of the hooks.
    """
    times = result["times"]
    exit_codes = result["exit_codes"]
    user_s = result.get("user")
    system_s = result.get("system")
    # `user` and `system` are one number each: the mean over all runs.
    has_mean_cpu = len(times) > 1
    return [
        Run(float(elapsed_s), user_s, system_s, exit_code, mean_cpu=has_mean_cpu)
        for elapsed_s, exit_code in zip(times, exit_codes, strict=True)
    ]


def _read_run_of_schema_2(measurement: Mapping[str, Any]) -> Run:
    return Run(
        elapsed_s=_read_quantity(measurement["time_wall_clock"]),
        user_s=_read_optional_quantity(measurement, "time_user"),
        system_s=_read_optional_quantity(measurement, "time_system"),
        exit_code=measurement.get("exit_code"),
        peak_memory_bytes=_read_optional_quantity(measurement, "memory_peak_resident"),
    )


def _read_optional_quantity(measurement: Mapping[str, Any], name: str) -> float | None:
    quantity = measurement.get(name)
    return None if quantity is None else _read_quantity(quantity)


def _read_quantity(quantity: Mapping[str, Any]) -> float:
    """Return seconds or bytes: 0.012 of {"value": 12, "unit": "millisecond"}."""
    unit = quantity["unit"]
    if unit not in UNITS:
        raise ValueError(f"the unit {unit!r} is not known")
    return float(quantity["value"]) * UNITS[unit]
