"""hyperfine: the call of it that times a command, with the hooks that it runs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench import processes
from vcsbench.measure.hooks import Hooks
from vcsbench.programs import Programs


class Hyperfine:
    """Times a command, with the file `stdin` (or nothing) as its input: `warmup` runs that do not count and
    `runs` that do. `folder` takes its export
    (export.json) and its log. `pid` is that of its process, `took_s` how long it ran, hooks included."""

    def __init__(
        self,
        folder: Path,
        hooks: Hooks,
        argv: Sequence[str],
        stdin: str,
        warmup: int,
        runs: int,
    ) -> None:
        self.hooks = hooks
        self.export = folder / "export.json"
        self.log = folder / "hyperfine.log"
        self.pid = 0
        self.took_s = 0.0
        hyperfine = Programs().get("hyperfine")
        self.command = [
            hyperfine,
            "-N",
            # The export then has the signal that ended a timed run. It has nothing of a warm-up run: with
            # these, hyperfine has to end at a failure.
            *([] if warmup else ["--ignore-failure"]),
            *("--style", "basic"),
            *("--warmup", str(warmup)),
            *("--runs", str(runs)),
            *("--setup", hooks.command("setup")),
            *("--prepare", hooks.command("prepare")),
            *("--cleanup", hooks.command("cleanup")),
            *("--export-json", str(self.export)),
            *_with_input(hyperfine, argv, stdin),
        ]

    def exit_codes(self) -> list[int | None]:
        """Return the exit codes of the timed runs from the export (processes.signal_of)."""
        result = json.loads(self.export.read_bytes())["results"][0]
        if "measurements" in result:  # since hyperfine 2
            return [run.get("exit_code") for run in result["measurements"]]
        return list(result.get("exit_codes", []))

    def time(self, environment: Mapping[str, str], limit_s: float, lock: int) -> str:
        """Run it, and answer its hooks; no run may take longer than `limit_s`. Returns "", or what it said
        at last where it failed. `lock` is a descriptor that its processes hold open."""
        began, self.hooks.took_s = time.monotonic(), 0.0
        with self.log.open("wb") as output:
            process = subprocess.Popen(
                processes.with_pdeathsig(self.command),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,  # ended together with what it runs
                pass_fds=[lock],
            )
            self.pid = process.pid
            try:
                self.hooks.serve(process.pid, limit_s)
            finally:
                _end(process)
        self.took_s = time.monotonic() - began
        if process.returncode == 0:
            return ""
        if process.returncode < 0:
            return f"hyperfine {processes.how_it_ended(process.returncode)}"
        return " | ".join(processes.last_lines(self.log, 2)) or "hyperfine said nothing"


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _with_input(hyperfine: str, argv: Sequence[str], stdin: str) -> list[str]:
    """The words that have hyperfine time a command with a file as its input. Before 1.16 it could not: a
    shell then opens the file, and becomes the command."""
    if not stdin:
        return [shlex.join(argv)]
    told = subprocess.run([hyperfine, "--help"], capture_output=True, text=True).stdout
    if "--input" in told:
        return ["--input", stdin, shlex.join(argv)]
    return [shlex.join(["sh", "-c", 'exec "$@" < "$0"', stdin, *argv])]
