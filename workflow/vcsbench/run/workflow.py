"""Run Snakemake, and end all that it started in every case.

Ctrl-C, SIGTERM, a terminal that closes and a failure all end the run within seconds. Killed with -9, this
process takes Snakemake with it, and the jobs end with Snakemake. The next run removes what is left.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.files import write_json
from vcsbench.plan.passes import NOTHING, UNFAILED
from vcsbench.run.leftovers import MARK, end_processes, find_snakemake
from vcsbench.run.lock import (
    FAILED,
    LOCKED,
    OPTIONS,
    checkout_lock,
    find_full,
    is_of_this_host,
    say,
    write_host,
)

SIGNALS = {
    signal.SIGINT: "Ctrl-C",
    signal.SIGTERM: "SIGTERM",
    signal.SIGHUP: "the terminal closed",
}
PR_SET_PDEATHSIG = 1
# Snakemake's time to end its jobs. After that it is killed.
GRACE_S = 4.0
# Arguments with which Snakemake runs no job.
LOOKS_ONLY = ("-n", "--dry-run", "--dryrun", "--lint", "--unlock", "--summary", "--report")


class Ended(BaseException):
    """A signal asks the run to end."""

    def __init__(self, number: int) -> None:
        self.number = number


def run(
    root: Path, options: Mapping[str, Any], configfiles: Sequence[str], arguments: Sequence[str]
) -> int:
    """Run the workflow in a checkout and return the exit code.

    `options` are configuration keys of the command line, laid over the configuration files. Where cells
    fail, Snakemake is called again: it measures the other cells until the minutes are up, and makes the
    report of the results.
    """
    if any(argument in LOOKS_ONLY for argument in arguments):
        return Snakemake(root, options, configfiles, arguments, 0).call({})
    try:
        with signals_raise(), checkout_lock(root) as lock:
            snakemake = Snakemake(root, options, configfiles, arguments, lock)
            end_leftovers(root)
            # After a run of another host, a lock that it left may still be held there.
            snakemake.may_unlock = is_of_this_host(root)
            if snakemake.may_unlock:
                write_host(root)
            status = _measure(root, snakemake)
    except Ended as ended:
        return 128 + ended.number
    except UserError as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"{error.filename or root}: {error.strerror}. Mend that and run again.")
        return 1
    if status and (full_folder := find_full(root)):
        say(f"{full_folder}: the file system is full. Free some space and run again.")
    return status


def end_leftovers(root: Path) -> None:
    """End what a killed run left running in a checkout, whose lock is held here."""
    if left := end_processes(root):
        say(f"ended {left} processes that a killed run left.")
    if pid := find_snakemake(root):
        raise UserError(
            f"{root}: Snakemake is at work here (process {pid}). Wait for it, or end it."
        )


def _measure(root: Path, snakemake: Snakemake) -> int:
    """Call Snakemake, and again for a report if cells failed. Returns the exit code of the first call."""
    failed = root / FAILED
    failed.unlink(missing_ok=True)
    status = snakemake.call({})
    if not status or not failed.exists() or find_full(root):
        return status
    if not (measured := _count_results(root)):
        return status
    say("some jobs failed. The other cells go on.")
    while snakemake.call({"measure": UNFAILED}):
        before, measured = measured, _count_results(root)
        if measured <= before:
            # Nothing more can be measured.
            snakemake.call({"measure": NOTHING})
            break
    say("some jobs failed. The report has the results of the others.")
    return status


class Snakemake:
    """Snakemake with the options of a run."""

    def __init__(
        self,
        root: Path,
        options: Mapping[str, Any],
        configfiles: Sequence[str],
        arguments: Sequence[str],
        lock: int,
    ) -> None:
        self.root, self.options, self.lock = root, options, lock
        self.may_unlock = False
        self.configfiles, self.arguments = list(configfiles), list(arguments)
        self.environment = {
            **os.environ,
            MARK: os.path.realpath(root),
            # Where the plugin for the console lies.
            "PYTHONPATH": str(root / "workflow"),
        }

    def call(self, more: Mapping[str, Any]) -> int:
        """Run Snakemake to its end and return the exit code. `more` are configuration keys of this call."""
        options = {**self.options, **more}
        files = [*self.configfiles]
        if options:
            # A JSON file keeps each value byte for byte. `--config` would read it as YAML.
            (self.root / OPTIONS).parent.mkdir(exist_ok=True)
            write_json(self.root / OPTIONS, options)
            files.append(OPTIONS)
        command = ["snakemake", *self.arguments]
        if files:
            command += ["--configfile", *files]
        if self.lock and not {
            "--logger",
            "--verbose",
            "--printshellcmds",
            "-p",
            "--quiet",
            "-q",
        } & {*self.arguments}:
            command += ["--logger", "vcsbench"]
        locked = self.root / LOCKED
        locked.unlink(missing_ok=True)
        status = self._run(command)
        if status and locked.exists() and self.may_unlock:
            # No Snakemake works here, and our lock keeps others out: a killed run left its lock.
            self.unlock()
            status = self._run(command)
        return status

    def unlock(self) -> None:
        """Remove Snakemake's lock, which a killed run left."""
        command = ["snakemake", "--unlock", "--configfile", "config/config.yaml", *self.configfiles]
        subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    def _run(self, command: list[str]) -> int:
        # Its own session: a terminal's Ctrl-C comes to this process alone.
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            pass_fds=[self.lock] * bool(self.lock),
        )
        try:
            status = process.wait()
        except Ended as ended:
            say(f"{SIGNALS[signal.Signals(ended.number)]}: ending the run.")
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            process.kill()
            end_processes(self.root)
            process.wait()
            say("the run was ended. Its results are kept, and the next run continues.")
            raise
        if self.lock:
            end_processes(self.root)
        return status if status >= 0 else 128 - status


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise Ended for the signals that ask a run to end."""
    for number in SIGNALS:
        # A run under nohup goes on when the terminal closes.
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise_ended)
    yield


def _raise_ended(number: int, _: types.FrameType | None) -> None:
    # From here on it takes seconds. Another Ctrl-C changes nothing.
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    raise Ended(number)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _count_results(root: Path) -> int:
    return sum(1 for _ in root.glob("results/cells/*/**/round*.context.json"))
