"""Run hyperfine, and answer its hooks in the process that measures."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.programs import Programs

HOOK_SCRIPT = Path(__file__).with_name("hyperfine.sh")


class ParentGone(Exception):
    """The workflow that started the measurement has ended."""


def time_limit_error(limit_s: float) -> UserError:
    """Return the error of a run that was ended at its time limit."""
    return UserError(
        f"a run took longer than {limit_s:g} s and was ended; raise `time_limit_s` in config/config.yaml "
        f"if that is what it takes"
    )


class Hooks:
    """Call `answer(name)` for each hook that hyperfine runs, over named pipes in a folder below `folder`.

    `seconds` is the time of all hooks. `watched` are descriptors of this process' two nearest ancestors, the
    rule's shell and Snakemake: if one of them ends, even by kill -9, the measurement ends.
    """

    def __init__(self, folder: Path, answer: Callable[[str], None]) -> None:
        self.folder = folder / "hooks"
        self.answer = answer
        self.error: Exception | None = None
        self.seconds = 0.0
        # Another user who may open a pipe takes the answers, and the run waits for ever.
        self.folder.mkdir(mode=0o700)
        for name in ("ask", "answer"):
            os.mkfifo(self.folder / name, 0o600)
        # Read and write: opening never blocks, and the pipe never ends.
        self.requests = os.open(self.folder / "ask", os.O_RDWR | os.O_NOFOLLOW)
        self.replies = os.open(self.folder / "answer", os.O_RDWR | os.O_NOFOLLOW)
        self.watched = [os.pidfd_open(pid) for pid in processes.ancestors(2)]

    def command(self, name: str) -> str:
        """Return the command line of a hook, for hyperfine with and without a shell."""
        return shlex.join(["sh", str(HOOK_SCRIPT), str(self.folder), name])

    def serve(self, pid: int, limit_s: float) -> None:
        """Answer hooks until the process `pid` (hyperfine) has ended.

        Raise the error of a hook, ParentGone, or UserError if a run took longer than `limit_s`.
        """
        ended = os.pidfd_open(pid)
        deadline = time.monotonic() + limit_s
        try:
            while True:
                wait_s = max(0.0, deadline - time.monotonic())
                ready = select.select([self.requests, ended, *self.watched], [], [], wait_s)[0]
                if any(fd in ready for fd in self.watched):
                    raise ParentGone
                if self.requests in ready:
                    self._reply(os.read(self.requests, 100).decode().strip())
                    deadline = time.monotonic() + limit_s
                elif ended in ready:
                    break
                elif not ready:
                    raise time_limit_error(limit_s)
        finally:
            os.close(ended)
        if self.error:
            raise self.error

    def _reply(self, name: str) -> None:
        began = time.monotonic()
        try:
            self.answer(name)
        except Exception as error:
            self.error = error  # serve() raises it when hyperfine has ended with its hook
        self.seconds += time.monotonic() - began
        os.write(self.replies, b"failed\n" if self.error else b"done\n")


class Hyperfine:
    """Time `runs` runs of a command, with the file `stdin` (or nothing) as input.

    `folder` takes the export (export.json) and the log. `pid` is the process, `seconds` its time with hooks.
    Warm-up runs are none of hyperfine's: its export has no exit code of theirs.
    """

    def __init__(
        self, folder: Path, hooks: Hooks, argv: Sequence[str], stdin: str, runs: int
    ) -> None:
        self.hooks = hooks
        self.export = folder / "export.json"
        self.log = folder / "hyperfine.log"
        self.pid = 0
        self.seconds = 0.0
        hyperfine = Programs().get("hyperfine")
        self.command = [
            *(hyperfine, "-N", "--style", "basic", "--warmup", "0", "--runs", str(runs)),
            "--ignore-failure",  # the export then has the exit codes, and the signals
            *("--setup", hooks.command("setup")),
            *("--prepare", hooks.command("prepare")),
            *("--cleanup", hooks.command("cleanup")),
            *("--export-json", str(self.export)),
            *_with_input(hyperfine, argv, stdin),
        ]

    def exit_codes(self) -> list[int | None]:
        """Return the exit codes of the runs from the export (processes.signal_of)."""
        result = json.loads(self.export.read_bytes())["results"][0]
        if "measurements" in result:  # since hyperfine 2
            return [run.get("exit_code") for run in result["measurements"]]
        return list(result.get("exit_codes", []))

    def run(self, environment: Mapping[str, str], limit_s: float, lock: int) -> str:
        """Run hyperfine, and answer its hooks. No run may take longer than `limit_s`.

        Return "", or the last output of hyperfine if it failed. Its processes hold the descriptor `lock`
        open.
        """
        began, self.hooks.seconds = time.monotonic(), 0.0
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                processes.with_pdeathsig(self.command),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,  # ends together with its children
                pass_fds=[lock],
            )
            self.pid = process.pid
            try:
                self.hooks.serve(process.pid, limit_s)
            finally:
                _end(process)
        self.seconds = time.monotonic() - began
        if process.returncode == 0:
            return ""
        if process.returncode < 0:
            return f"hyperfine {processes.how_it_ended(process.returncode)}"
        return " | ".join(processes.last_lines(self.log, 2)) or "hyperfine printed nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _with_input(hyperfine: str, argv: Sequence[str], stdin: str) -> list[str]:
    """Return the arguments to time a command with a file as input.

    hyperfine has --input since 1.16. Before, a shell opens the file and becomes the command.
    """
    if not stdin:
        return [shlex.join(argv)]
    usage = subprocess.run([hyperfine, "--help"], capture_output=True, text=True).stdout
    if "--input" in usage:
        return ["--input", stdin, shlex.join(argv)]
    return [shlex.join(["sh", "-c", 'exec "$@" < "$0"', stdin, *argv])]
