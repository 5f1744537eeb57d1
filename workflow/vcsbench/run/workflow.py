"""Run Snakemake in a checkout, one run at a time, and end all that it started in every case.

A signal or a failure ends the run within seconds. After a SIGKILL of this process, the kernel kills
Snakemake, and the jobs end with Snakemake. The next run removes all leftovers.
"""

import errno
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from vcsbench import processes, words
from vcsbench.config.validation import read_mapping
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import write_json
from vcsbench.plan.result_state import NOTHING, UNFAILED, is_readable, remove_unreadable, results
from vcsbench.run.job import ENDED, SIGNALS, clear_line
from vcsbench.storages import filesystems

CONFIGURATION = "config/config.yaml"
# Snakemake evaluates Python expressions in a YAML file with this key.
TEMPLATE = "__use_yte__"
FOLDER = ".vcsbench"
LOCK = f"{FOLDER}/lock"
OPTIONS = f"{FOLDER}/options.json"
FAILED = f"{FOLDER}/failed"
LOCKED = f"{FOLDER}/locked"
WRITTEN = (FOLDER, ".snakemake", "results", "reports")
# In the environment of all processes of a run: the path of the checkout.
SNAKEMAKE_GRACE_S, GRACE_S = 4.0, 2.0
# Arguments with which Snakemake runs no job and changes no result. It ignores IGNORED, and starts a run.
# fmt: off
READ_ONLY = {
    "-n", "--dry-run", "--dryrun", "--unlock", "--version", "-v", "--report", "--archive", "--lint",
    "--list-rules", "--list", "-l", "--list-target-rules", "--lt", "--print-compilation", "--containerize",
    "--dag", "--rulegraph", "--filegraph", "--d3dag", "--generate-unit-tests", "--list-conda-envs",
    "--summary", "-S", "--detailed-summary", "-D", "--list-untracked", "--lu", "--list-changes", "--lc",
    "--list-input-changes", "--li", "--list-params-changes", "--lp",
}
# fmt: on
IGNORED = "--export-cwl"
FORCE = ("-f", "--force", "-F", "--forceall", "-R", "--forcerun")
VERBOSITY = {"--logger", "--verbose", "--printshellcmds", "-p", "--quiet", "-q"}


def run_workflow(
    root: Path, options: Mapping[str, object], configfiles: Sequence[str], arguments: Sequence[str]
) -> int:
    """Run the workflow in a checkout and return the exit code.

    `options` override the keys of `configfiles`. If cells fail, a second call of Snakemake measures the
    others and makes the report. Raise UserError for a configuration file that cannot be read.
    """
    tempfile.gettempdir()  # refuses a machine without room for temporary files before Snakemake
    processes.check_setpriv()  # it starts Snakemake
    _check_folders(root)
    _check_file(root / CONFIGURATION)
    # Snakemake refuses an empty file.
    configfiles = [file for file in configfiles if _check_file(Path(file))]
    snakemake = Snakemake(root, options, configfiles, arguments)
    if is_read_only(arguments):
        return snakemake.call({})
    with checkout_lock(root) as lock:
        _end_leftovers(root)
        snakemake.lock = lock
        if removed := remove_unreadable(root):
            names = words.enumeration([str(path.relative_to(root)) for path in removed])
            print_message(f"removed unreadable files, to make them again: {names}.")
        status = _measure(root, snakemake)
    if status and (folder := full_folder(root)):
        print_message(f"{folder}: the file system is full. Free some space and run again.")
    return status


def is_read_only(arguments: Iterable[str]) -> bool:
    """Return True if Snakemake runs no job with these arguments. Raise UserError for one that it ignores."""
    names = {argument.partition("=")[0] for argument in arguments}
    if IGNORED in names:
        raise UserError(f"{IGNORED}: Snakemake ignores it, and would start a run. Remove it.")
    return bool(names & READ_ONLY)


def _unforced(arguments: Iterable[str]) -> Iterator[str]:
    """Yield arguments of Snakemake without the options that make results again, and without their rules."""
    is_forced = False
    for argument in arguments:
        if argument.startswith("-"):
            is_forced = argument.partition("=")[0] in FORCE
        if not is_forced:
            yield argument


def _check_file(path: Path) -> dict[str, object]:
    """Return the content of a configuration file, which Snakemake reads without limits."""
    content = read_mapping(path)
    if TEMPLATE in content:
        raise UserError(f"{path}: `{TEMPLATE}` is not a key here. Write values, not Python.")
    return content


def _measure(root: Path, snakemake: "Snakemake") -> int:
    failed, ended = root / FAILED, root / ENDED
    failed.unlink(missing_ok=True)
    ended.unlink(missing_ok=True)
    prepared = _preparation_times(root)
    status = snakemake.call({})
    # What was made again once is not made again by the next calls.
    snakemake.arguments = list(_unforced(snakemake.arguments))
    if not status and prepared and _preparation_times(root) != prepared:
        # If copies are made again for results that are up to date, Snakemake makes no other missing file.
        status = snakemake.call({})
    measured = len(list(results(root)))
    if not status or not failed.exists() or full_folder(root) or not measured:
        return status
    # A job that ends the run leaves no other cell to measure.
    is_complete, before = False, 0
    while before < measured and not is_complete and not ended.exists():
        print_message("some jobs failed. The other cells go on.")
        is_complete = not snakemake.call({"measure": UNFAILED})
        before, measured = measured, len(list(results(root)))
    if is_complete or not snakemake.call({"measure": NOTHING}):
        print_message("some jobs failed. The report has the results of the others.")
    return status


def _preparation_times(root: Path) -> dict[Path, int]:
    records = [*root.glob("results/loaded/*"), *root.glob("results/repositories/*")]
    return {path: path.stat().st_mtime_ns for path in records}


def last_result(root: Path) -> list[str]:
    """Return the export and the context of the youngest cell-round; [] if they are not whole.

    Cell-rounds run one by one, so a killed Snakemake has at most this one unrecorded.
    """
    last = max(results(root), key=lambda paths: paths[1].stat().st_mtime_ns, default=None)
    return [str(path.relative_to(root)) for path in last] if last and is_readable(last[0]) else []


@dataclass
class Snakemake:
    """Snakemake with the options of a run. `lock` is the descriptor of the checkout's lock, or 0."""

    root: Path
    options: Mapping[str, object]
    configfiles: Sequence[str]
    arguments: Sequence[str]
    lock: int = 0

    @property
    def environment(self) -> dict[str, str]:
        path = str(self.root / "workflow")
        return {**os.environ, RUN_ROOT: os.path.realpath(self.root), "PYTHONPATH": path}

    def call(self, more: Mapping[str, object]) -> int:
        """Run Snakemake to its end and return the exit code. `more` are configuration keys of this call.

        A signal raises SystemExit (__main__), which ends all processes of the run first.
        """
        files = [*self.configfiles]
        if options := {**self.options, **more}:
            # Snakemake would read `--config` as YAML; a JSON file keeps each value.
            (self.root / OPTIONS).parent.mkdir(exist_ok=True)
            write_json(self.root / OPTIONS, options)
            files.append(OPTIONS)
        command = ["snakemake", *self.arguments, *(["--configfile", *files] if files else [])]
        if self.lock and not VERBOSITY.intersection(self.arguments):
            command += ["--logger", "vcsbench"]
        locked = self.root / LOCKED
        locked.unlink(missing_ok=True)
        status = self._run(command)
        if status and locked.exists() and self.lock:
            # With the checkout's lock no other Snakemake works here.
            print_message("a killed workflow run left Snakemake's lock. It is removed.")
            self._tidy(files, "--unlock")
            if last := last_result(self.root):
                # The killed Snakemake may not have recorded this cell-round.
                self._tidy(files, "--cleanup-metadata", *last)
            status = self._run(command)
        return status

    def _tidy(self, configfiles: Sequence[str], *arguments: str) -> None:
        done = subprocess.run(
            ["snakemake", *arguments, "--configfile", CONFIGURATION, *configfiles],
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print_message(f"snakemake {arguments[0]} failed: {last}")

    def _run(self, command: list[str]) -> int:
        # In a session of its own, so that only this process receives Ctrl-C.
        process = subprocess.Popen(
            processes.with_pdeathsig(command),
            cwd=self.root,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[self.lock] * bool(self.lock),
        )
        if not self.lock:
            status = process.wait()
            return status if status >= 0 else 128 - status
        try:
            if (status := process.wait()) < 0:
                sys.exit(128 - status)
        except SystemExit as ended:
            number = signal.Signals(int(ended.code or 0) - 128)
            print_message(f"{SIGNALS.get(number, number.name)}: ending the workflow run.")
            with suppress(ProcessLookupError):
                # SIGINT would print a traceback of each Python program that is still starting.
                os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(SNAKEMAKE_GRACE_S)
            process.kill()
            end_processes(self.root)
            process.wait()
            print_message(
                "the workflow run has ended. Its results are stored, and the next one continues."
            )
            raise
        end_processes(self.root)
        return status


def pass_signals_on() -> None:
    """Pass SIGINT and SIGTERM that Snakemake alone receives on to `vcsbench run`, which ends both.

    Otherwise `vcsbench run` would call Snakemake again: by its exit code and its hooks, which are all that
    Snakemake documents, a Snakemake that a signal has ended is one with failed jobs.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        # A job that stops Snakemake makes the file first.
        if RUN_ROOT in os.environ and not os.path.exists(ENDED):
            os.kill(os.getppid(), number)
        handlers[number](number, frame)

    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(handler := signal.getsignal(number)):
            handlers[int(number)] = handler
            signal.signal(number, pass_on)


def print_message(text: str) -> None:
    with suppress(OSError):
        print(f"{clear_line(sys.stderr)}vcsbench: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def checkout_lock(root: Path) -> Iterator[int]:
    """Hold a checkout's lock and yield its descriptor.

    The kernel frees the lock when all processes that inherited the descriptor have ended. Raise a
    UserError if another run holds it, or if the folders of a run cannot be written.
    """
    if folder := full_folder(root):
        raise UserError(f"{folder}: the file system is full. Free some space and run again.")
    _check_writable(root)
    path = root / LOCK
    try:
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        is_denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        remedy = _remedy(path) if is_denied else "Remove it, and run again."
        raise UserError(f"{path}: {error.strerror}. {remedy}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UserError(
            f"{root}: another workflow run is at work here. Wait for it, or end it."
        ) from None
    try:
        yield lock
    finally:
        os.close(lock)


def full_folder(root: Path) -> str:
    folders = filter(Path.exists, (root, *(root / name for name in WRITTEN)))
    return next((str(folder) for folder in folders if filesystems.is_full(folder)), "")


def _check_folders(root: Path, exists: Callable[[Path], bool] = os.path.lexists) -> None:
    for path in (root / name for name in WRITTEN):
        if exists(path) and not path.is_dir():
            raise UserError(
                f"{path}: this is no folder, and vcsbench writes there. Move it elsewhere."
            )


def _check_writable(root: Path) -> None:
    _check_folders(root, os.path.exists)  # `make clean` removes a link to nothing
    folders = [root]
    for name in WRITTEN:
        folders += [root / name, *filter(Path.is_dir, (root / name).glob("*"))]
    for folder in folders:
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise UserError(f"{folder}: cannot be written. {_remedy(folder)}")


def _remedy(path: Path) -> str:
    existing = path if path.exists() else path.parent
    flags = os.statvfs(existing).f_flag if existing.exists() else 0
    if flags & os.ST_RDONLY:
        return "Its file system is read-only: run in a copy of the checkout elsewhere."
    return f"Run as its owner, or give yourself the rights: ls -ld {shlex.quote(str(existing))}."


def _end_leftovers(root: Path) -> None:
    """End the processes of a killed workflow run. Raise a UserError if a Snakemake of the user works here."""
    if number := end_processes(root):
        print_message(
            f"ended {words.count_of(number, 'process', 'processes')} of a killed workflow run."
        )
    for pid in _other_processes():
        names = [Path(word).name for word in processes.command_line(pid)[:4]]
        with suppress(OSError):
            if "snakemake" in names and os.path.samefile(f"/proc/{pid}/cwd", root):
                raise UserError(
                    f"{root}: Snakemake is at work here (process {pid}). Wait for it, or end it."
                )


def end_processes(root: Path) -> int:
    first = running = run_processes(root)
    processes.send(first, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while running:
        if time.monotonic() > deadline:
            processes.send(running, signal.SIGKILL)
        time.sleep(0.02)
        running = run_processes(root)
    return len(first)


def run_processes(root: Path) -> list[int]:
    variable = f"{RUN_ROOT}={os.path.realpath(root)}"
    return [pid for pid in _other_processes() if variable in processes.environment(pid)]


def _other_processes() -> set[int]:
    return {*processes.all_pids()} - {os.getpid(), *processes.ancestors()}
