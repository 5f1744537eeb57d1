"""Call Snakemake in a checkout, and end all that it started in every case.

Only a session has the lock of the checkout and changes files there. It begins with Snakemake's first job
(Project.begin), so a dry run and other calls that only look need no lock, and disturb no session.

A signal ends a session within seconds. After a SIGKILL of this process, the kernel kills Snakemake, and the
jobs end with Snakemake. The next session removes all leftovers.
"""

import errno
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from vcsbench import process_facts, processes, server_user, words
from vcsbench.config.validation import read_mapping
from vcsbench.environment import RUN_ROOT
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import read_json, take_lock, write_json
from vcsbench.plan.result_state import NOTHING, has_results, remove_unreadable
from vcsbench.run.job import SIGNALS, STOPPED, clear_line
from vcsbench.storages import filesystems
from vcsbench.storages.session_folders import (
    STATE_FOLDER,
    WRITTEN,
    check_session_folders,
    check_session_rights,
    how_to_write,
)

CONFIGURATION = "config/config.yaml"
# Snakemake evaluates Python expressions in a YAML file with this key.
TEMPLATE = "__use_yte__"
LOCK = f"{STATE_FOLDER}/lock"
# A mark that Snakemake's process writes for the process that called it: jobs failed.
FAILED = f"{STATE_FOLDER}/failed"
OPTION_FILES = "options-*.json"
IS_FULL = "the file system is full. Free some space and run again."
# How long Snakemake, and then all other processes of a session, have to end after a signal.
SNAKEMAKE_GRACE_S = 4.0
GRACE_S = 2.0
# A process that writes to a busy disk ends when its write is done.
KILL_LIMIT_S = 30.0
# A call that ends holds the lock for a moment, to end leftovers.
LOCK_WAIT_S = 20.0


class SnakemakeCall(NamedTuple):
    """A call of Snakemake that has ended.

    - status: its exit code.
    - has_failed_jobs: it began a session, and some of its jobs failed.
    - is_deployed: some of its jobs failed, and Snakemake had deployed their programs (`--sdm conda`).
    """

    status: int
    has_failed_jobs: bool
    is_deployed: bool


def run_workflow(
    root: Path,
    options: Mapping[str, object],
    configfiles: Sequence[str],
    arguments: Sequence[str],
    user_arguments: Sequence[str],
    targets: Sequence[str] = (),
) -> int:
    """Call Snakemake in a checkout, and return its exit code. If jobs fail, call it again for the report.

    `options` override the keys of `configfiles`. `arguments` and `targets` are vcsbench's own, for both calls
    of Snakemake: ["--cores", "all"] and ["published"]. `user_arguments` are the user's, for the first call
    only: with some of them, such as `--forceall`, the second call would measure again.

    Raise UserError before the first call for a configuration file that cannot be read, and for a file in the
    place of a session's folder. Unless it is a dry run, also raise UserError for a folder that cannot be
    written, and for a full disk.
    """
    # Without room for temporary files, this raises an OSError. Snakemake would print a traceback.
    tempfile.gettempdir()
    # setpriv starts Snakemake, so that Snakemake ends with this process.
    processes.check_setpriv()
    check_session_folders(root)
    _check_file(root / CONFIGURATION)
    # Empty files are left out, because Snakemake refuses them.
    used_files = [file for file in configfiles if _check_file(Path(file))]
    # A dry run only looks, so it neither checks rights nor removes files.
    only_looks = is_dry_run(user_arguments)
    if not only_looks:
        full_folder = find_full_folder(root)
        if full_folder is not None:
            raise UserError(f"{full_folder}: {IS_FULL}")
        check_session_rights(root)
        _remove_unreadable_results(root)

    # Snakemake takes targets only if no option stands between them. Behind the user's `--`, all words are
    # targets, so vcsbench's own follow them.
    if "--" in user_arguments:
        all_arguments = [*arguments, *user_arguments, *targets]
    else:
        all_arguments = [*arguments, *targets, *user_arguments]
    call = _call_snakemake(root, options, used_files, all_arguments, may_leave_jobs=not only_looks)

    # If the run has filled the disk, a report has no room.
    full_folder = find_full_folder(root)
    if full_folder is not None:
        if call.status:
            print_message(f"{full_folder}: {IS_FULL}")
        return call.status
    # A call that measures nothing makes the report itself, and would fail again.
    is_report = options.get("measure") == NOTHING
    if call.has_failed_jobs and not is_report and has_results(root):
        report_arguments = [*arguments, *targets]
        _make_report(root, options, used_files, report_arguments, call.is_deployed)
    return call.status


def _make_report(
    root: Path,
    options: Mapping[str, object],
    configfiles: Sequence[str],
    arguments: Sequence[str],
    is_deployed: bool,
) -> None:
    """Call Snakemake to make the report of the existing results. `is_deployed` is that of the first call."""
    # The first call has installed the programs of cells (`--sdm conda`). Without this option, Snakemake would
    # look for them on the machine, and leave cells out of the report if one is missing there.
    deployment = ["--sdm", "conda"] if is_deployed else []
    report_options = {**options, "measure": NOTHING}
    call = _call_snakemake(root, report_options, configfiles, [*arguments, *deployment])
    if call.status == 0:
        print_message("some jobs failed. The report has the results of the others.")


def is_dry_run(arguments: Sequence[str]) -> bool:
    """Return True if Snakemake's parser finds a dry run in the arguments, such as -n, -np or --dry-run."""
    # The parser takes half a second to import.
    if not any(re.match("--dry|-[a-zA-Z]*n", word) for word in arguments):
        return False
    from snakemake.cli import get_argument_parser

    return bool(get_argument_parser().parse_known_args(arguments)[0].dryrun)


def _check_file(path: Path) -> dict[str, object]:
    """Return the content of a configuration file. Raise UserError for one that Snakemake must not read."""
    content = read_mapping(path)
    if TEMPLATE in content:
        raise UserError(f"{path}: `{TEMPLATE}` is not a key here. Write values, not Python.")
    return content


def _remove_unreadable_results(root: Path) -> None:
    """Remove damaged results, so that Snakemake makes them again, and print their names."""
    # If another session works in this checkout, all files stay.
    with suppress(UserError), checkout_lock(root):
        removed = remove_unreadable(root)
        if removed:
            names = words.enumeration([str(path.relative_to(root)) for path in removed])
            print_message(f"removed unreadable files, to make them again: {names}.")


def _call_snakemake(
    root: Path,
    options: Mapping[str, object],
    configfiles: Sequence[str],
    arguments: Sequence[str],
    may_leave_jobs: bool = True,
) -> SnakemakeCall:
    """Call Snakemake, wait for its end, and end the jobs that it has left.

    Ending jobs takes the lock of the checkout. A dry run leaves no jobs (`may_leave_jobs` is False), so it
    needs no lock. Raise SystemExit if this process gets a signal, such as Ctrl-C, and if a signal has killed
    Snakemake.
    """
    files = list(configfiles)
    if options:
        # A later file overrides earlier ones.
        files.append(_options_file(root, options))
    command = ["snakemake", "--logger", "vcsbench"]
    if files:
        command += ["--configfile", *files]
    # The arguments come last: they may have a `--`, behind which all words are targets.
    command += arguments
    # Snakemake is in a process session of its own, so that only this process receives Ctrl-C.
    process = processes.start_process(
        command,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "workflow")},
        has_session=True,
    )
    try:
        status = process.wait()
    except SystemExit as ended:
        # The handler of signals raises it (__main__), with the exit code 128 plus the number of the signal.
        signal_number = int(ended.code or 0) - 128
        _end_after_signal(process, root, signal_number, may_leave_jobs)
        raise
    if may_leave_jobs:
        _end_leftovers(root)
    # If a signal has killed Snakemake, `status` is the negative number of the signal.
    if status < 0:
        sys.exit(128 - status)
    # If jobs failed, Snakemake's process has written this record (end_session). Its pid shows that the record
    # is of this call.
    failure = read_json(root / FAILED)
    has_failed_jobs = status != 0 and failure.get("pid") == process.pid
    is_deployed = has_failed_jobs and failure["is_deployed"]
    return SnakemakeCall(status, has_failed_jobs, is_deployed)


def _end_after_signal(
    process: processes.Process, root: Path, signal_number: int, may_leave_jobs: bool
) -> None:
    """End Snakemake and its jobs, because this process has got a signal, and print that."""
    ended_by = signal.Signals(signal_number)
    cause = SIGNALS.get(ended_by, ended_by.name)
    print_message(f"{cause}: ending the workflow run.")
    _end_snakemake(process)
    # Jobs may have outlived Snakemake.
    if may_leave_jobs:
        _end_leftovers(root)
    print_message("the workflow run has ended. Its results are stored, and the next one continues.")


def _options_file(root: Path, options: Mapping[str, object]) -> str:
    """Write the options of a call to a configuration file, and return its path in the checkout."""
    # Snakemake would read `--config` as YAML; a JSON file keeps each value. By the digest in its name, no
    # call changes the file of another one.
    digest = hashlib.sha256(json.dumps(options).encode()).hexdigest()[:16]
    path = root / STATE_FOLDER / OPTION_FILES.replace("*", digest)
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        write_json(path, options)
    return str(path.relative_to(root))


def is_options_file(path: Path, root: Path) -> bool:
    return path.parent.resolve() == (root / STATE_FOLDER).resolve() and path.match(OPTION_FILES)


def _end_snakemake(process: processes.Process) -> None:
    """End Snakemake and its process group, by SIGKILL after SNAKEMAKE_GRACE_S seconds."""
    # After a SIGINT, each Python program that is still starting would print a traceback.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    processes.wait_for_end(process, SNAKEMAKE_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_leftovers(root: Path) -> None:
    """End the jobs that a Snakemake left, unless another session works here: the jobs may belong to it."""
    with suppress(UserError), checkout_lock(root):
        end_processes(root)


def begin_session(root: Path) -> None:
    """Begin a session in this process, which is Snakemake's, and lock the checkout until the process ends.

    Processes that a killed session has left are ended. Raise UserError as lock_checkout() does.
    """
    lock_checkout(root, LOCK_WAIT_S)
    number = end_processes(root)
    if number:
        ended = words.count_of(number, "process", "processes")
        print_message(f"ended {ended} of a killed workflow run.")
    # All jobs inherit RUN_ROOT, also jobs that leave the process group. By this variable, end_processes()
    # finds the jobs of a killed session.
    os.environ[RUN_ROOT] = os.path.realpath(root)
    # Marks of the last session: its jobs failed, or a job stopped it.
    for mark in (FAILED, STOPPED):
        (root / mark).unlink(missing_ok=True)


def end_session(root: Path, failed: bool, is_deployed: bool) -> None:
    """Record that jobs failed, unless one of them stopped the session (job.stop_workflow).

    `is_deployed` means that Snakemake has installed the programs of the jobs (`--sdm conda`). The process
    that called Snakemake reads the record, and calls Snakemake again for a report.
    """
    if failed and not (root / STOPPED).exists():
        # Without the mark, only the report after failed jobs is missing.
        with suppress(OSError):
            write_json(root / FAILED, {"pid": os.getpid(), "is_deployed": is_deployed})


def exit_after_main_thread(status: int) -> None:
    """End this process within a second after its main thread, with the exit code `status`.

    Python would wait for all other threads, too. For each job, Snakemake starts a thread with a timer, which
    ends after the time in max-jobs-per-timespan: a day (profiles/default). A later call replaces `status`.
    """

    def exit_if_done(*_: object) -> None:
        if threading.main_thread().is_alive():
            signal.alarm(1)
            return
        # os._exit() flushes nothing.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)

    signal.signal(signal.SIGALRM, exit_if_done)
    signal.alarm(1)


def print_message(text: str) -> None:
    with suppress(OSError):
        print(f"{clear_line(sys.stderr)}vcsbench: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def checkout_lock(root: Path) -> Iterator[None]:
    """Hold the lock of a checkout. Raise UserError as lock_checkout() does."""
    lock = lock_checkout(root)
    try:
        yield
    finally:
        os.close(lock)


def lock_checkout(root: Path, wait_s: float = 0) -> int:
    """Lock a checkout, and return the descriptor of the lock's file. To close the descriptor ends the lock.

    Raise a UserError if another session holds the lock for longer than `wait_s` seconds, if the folders of a
    session cannot be written, or if the file system has no locks.
    """
    check_session_rights(root)
    path = root / LOCK
    try:
        path.parent.mkdir(exist_ok=True)
        # Somebody may have put a link or a pipe there: with these flags, open() fails and does not block.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.open(path, flags, 0o644)
    except OSError as error:
        is_denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        # Without an error of rights, something else is at the path, such as a link.
        remedy = how_to_write(path) if is_denied else "Remove it, and run again."
        raise UserError(f"{path}: {error.strerror}. {remedy}") from None
    try:
        is_locked = take_lock(lock, wait_s)
    except OSError as error:
        # Some network file systems have no locks (ENOLCK, ENOSYS).
        os.close(lock)
        raise UserError(
            f"{path}: cannot be locked: {error.strerror}. Use a checkout on another file system."
        ) from None
    if not is_locked:
        os.close(lock)
        raise UserError(f"{root}: another workflow run is at work here. Wait for it, or end it.")
    return lock


def find_full_folder(root: Path) -> Path | None:
    """Return the first folder of a session whose file system is full; None if all have room."""
    for folder in (root, *(root / name for name in WRITTEN)):
        if folder.exists() and filesystems.is_full(folder):
            return folder
    return None


def end_processes(root: Path) -> int:
    """End all processes of a killed session in a checkout, and return how many there were.

    The caller holds the lock of the checkout. The processes get SIGTERM, and SIGKILL after GRACE_S seconds.
    Processes that they start in the meantime are ended, too, but not counted. Raise UserError if a process
    outlives SIGKILL by KILL_LIMIT_S seconds.
    """
    running = run_processes(root)
    number = len(running)
    processes.send(running, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    # After SIGKILL, only a process that waits for a disk, or that this user may not end, is still there.
    last_deadline = deadline + KILL_LIMIT_S
    while running:
        if time.monotonic() > last_deadline:
            pids = words.enumeration([str(pid) for pid in sorted(running)])
            raise UserError(
                f"{root}: processes of a killed run cannot be ended: {pids}. End them (in a container, "
                f"allow it: --cap-add KILL), and run again."
            )
        if time.monotonic() > deadline:
            processes.send(running, signal.SIGKILL)
        time.sleep(0.02)
        # A process may have started another one before it ended.
        running = run_processes(root)
    return number


def run_processes(root: Path) -> list[int]:
    """Return the ids of a session's processes in a checkout, without this process and its ancestors."""
    ours = {os.getpid(), *process_facts.ancestors()}
    path = os.path.realpath(root)
    # All jobs of a session inherit this variable (begin_session).
    variable = f"{RUN_ROOT}={path}"
    return [
        pid
        for pid in set(process_facts.all_pids()) - ours
        if variable in process_facts.environment(pid) and _sees_checkout(pid, path)
    ]


def _sees_checkout(pid: int, path: str) -> bool:
    """Return True if a process has the same checkout at a path as this process; False if unknown.

    A process in a container has a root folder of its own, and may have another checkout at this path.
    """
    try:
        root_folder = _open_root(pid)
    except OSError:
        return False
    # This folder has the lock of the checkout. With one folder, both processes have one lock.
    folder = f"{path}/{STATE_FOLDER}"
    try:
        # A path without its first slash begins at the folder `dir_fd`, the root folder of the process.
        seen_by_process = os.stat(folder.lstrip("/"), dir_fd=root_folder)
        seen_here = os.stat(folder)
        return os.path.samestat(seen_by_process, seen_here)
    except OSError:
        return False
    finally:
        os.close(root_folder)


def _open_root(pid: int) -> int:
    """Open the root folder of a process, and return its descriptor. Raise OSError if that is forbidden."""
    path = f"/proc/{pid}/root"
    flags = os.O_PATH | os.O_DIRECTORY
    try:
        return os.open(path, flags)
    except PermissionError:
        # Servers of root run as another user. In a container, root may not open this folder of theirs, but
        # that user may.
        with server_user.as_server_user():
            return os.open(path, flags)
