"""Try what a cell needs on this machine: files of the kernel, system calls, programs, rights and folders.

A right is tried and never derived from the user: root in a container lacks some. `make doctor` and
`make plan` print everything that is lacking, and a run refuses to begin without what is required. Without a
program of some cells, it measures the others.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from vcsbench import kernel, machine_lock, process_facts, processes, server_user
from vcsbench.axes.build_axis import installed_programs
from vcsbench.axes.cache_states import CacheState
from vcsbench.config.builds import ENVIRONMENTS
from vcsbench.deployment.link import Shaper
from vcsbench.errors import UserError, sentence_of
from vcsbench.measure import caches
from vcsbench.measure.instructions import why_no_instructions
from vcsbench.measure.server import HOST, ON_PATH
from vcsbench.measure.syscalls import Strace
from vcsbench.plan.plan import Plan
from vcsbench.programs import SUBVERSION_PROGRAMS
from vcsbench.result_paths import CONTEXT
from vcsbench.storages import filesystems
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.session_folders import check_session_folders, check_session_rights
from vcsbench.storages.workdir import WorkDir, resolve
from vcsbench.systems import repository_system

TRIAL_S = 60.0
# Folders of a checkout whose files are inputs of rules.
INPUT_FOLDERS = ("config", "baselines", "results", "reports")
LOGS = "results/logs"
# A run of `true` with all options that a measurement needs. hyperfine has them since 1.15.
HYPERFINE = (
    *("hyperfine", "-N", "--style", "none", "--warmup", "0", "--runs", "1", "--ignore-failure"),
    *("--setup", "true", "--prepare", "true", "--cleanup", "true", "--export-json", os.devnull),
    "true",
)
# The option with which each program prints its version. Other programs of cells are not tried.
VERSION_OPTION = {
    **dict.fromkeys((*SUBVERSION_PROGRAMS, "svnserve", "git", "hg"), "--version"),
    **{"httpd": "-v", "fossil": "version", "ssh": "-V"},
}
SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class Lack:
    """A thing that this machine lacks, in a clause, and the remedy if the clause does not name it."""

    what: str
    remedy: str = ""

    def sentence(self) -> str:
        if not self.remedy:
            return self.what
        return f"{self.what}. {self.remedy[0].upper()}{self.remedy[1:]}."


def _try_check(check: Callable[[], object]) -> Iterator[Lack]:
    """Call a function that raises UserError for a thing that this machine lacks, and yield that lack."""
    try:
        check()
    except UserError as error:
        yield Lack(str(error))


def try_kernel_files(plan: Plan) -> Iterator[Lack]:
    yield from _try_check(kernel.check_system_files)


def try_system_calls(plan: Plan) -> Iterator[Lack]:
    calls: dict[str, Callable[[], int]] = {
        "pidfd_open": lambda: os.pidfd_open(os.getpid()),
        "memfd_create": lambda: os.memfd_create("trial"),
    }
    for name, call in calls.items():
        try:
            os.close(call())
        except OSError as error:
            remedy = "use Linux 5.3 or newer, and allow the call in the container's seccomp profile"
            yield Lack(f"the system call {name} fails: {error.strerror}", remedy)


def try_temporary_folder(plan: Plan) -> Iterator[Lack]:
    try:
        folder = tempfile.gettempdir()
    except OSError:
        folder = ""
    # Python takes the current folder if no other can be written. A checkout is no place for such files,
    # unless the user has chosen it.
    chosen = os.environ.get("TMPDIR", "")
    is_chosen = chosen != "" and os.path.abspath(chosen) == folder
    if not folder or (folder == os.getcwd() and not is_chosen):
        remedy = "make one of them writable, or set TMPDIR to a folder on a disk"
        yield Lack("no temporary file can be made in TMPDIR, /tmp or /var/tmp", remedy)


def try_programs(plan: Plan) -> Iterator[Lack]:
    """Yield a lack for each program that fails although all cells of the session, or of a system, need it."""
    # setpriv starts servers.
    yield from _try_check(processes.check_setpriv)
    # With `deployed`, Snakemake installs the other programs into environments that do not exist yet.
    if plan.env.machine.deployed:
        return
    for name in _list_required(plan):
        yield from _try_version(name)
    # An older hyperfine lacks some of the options.
    reason = _why_fails(HYPERFINE)
    if reason:
        yield Lack(f"hyperfine cannot be used: {reason}", "install hyperfine 1.15 or newer")


def _list_required(plan: Plan) -> list[str]:
    """Return the programs that the systems of the plan's cells require: svnadmin and others of Subversion."""
    names: dict[str, None] = {}
    for cell in plan.cells:
        system = repository_system(plan.draft(cell).get("repository", {}))
        names.update(dict.fromkeys(system.required_programs))
    return list(names)


def try_cell_programs(plan: Plan) -> Iterator[Lack]:
    """Yield a lack for each installed program that fails and that only some cells need, such as git."""
    # With `deployed`, Snakemake installs the programs into environments that do not exist yet.
    if plan.env.machine.deployed:
        return
    names: set[str] = set()
    for cell in plan.cells:
        names |= installed_programs(plan.draft(cell))
    # try_programs() tries the required ones.
    names.difference_update(_list_required(plan))
    for name in sorted(names & VERSION_OPTION.keys()):
        yield from _try_version(name)


def _try_version(name: str) -> Iterator[Lack]:
    """Yield a lack if a program does not print its version.

    A missing program is no lack here: the cells that need it are skipped, with this reason.
    """
    path = ON_PATH.path(name)
    reason = _why_fails([path, VERSION_OPTION[name]]) if path else ""
    if reason:
        system = "Subversion" if name.startswith("svn") else name
        yield Lack(f"{name} cannot be run: {reason}", f"install {system} again")


def try_eviction(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if cells need vmtouch to clear caches, and it cannot drop a file from the page cache."""
    machine = plan.env.machine
    # `drop-caches` (by the kernel), `evict` (by vmtouch), or "" for none.
    way = machine.clearing(plan.config.settings.clear_caches)
    states = [CacheState(plan.draft(cell)["state"]) for cell in plan.cells]
    clears_caches = any(state.clears_caches for state in states)
    # With `deployed`, Snakemake installs vmtouch into an environment that does not exist yet.
    if machine.deployed or way != "evict" or not clears_caches:
        return
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError:
        # try_temporary_folder() yields this lack.
        return
    with temporary as folder:
        Path(folder, "file").write_bytes(bytes(SAMPLE_BYTES))
        # A measurement runs vmtouch with the same options: quiet, and drop all files of a folder.
        reason = _why_fails(["vmtouch", "-qe", folder])
    if reason:
        yield Lack(f"vmtouch cannot drop a file from the page cache: {reason}", "install it again")


def try_lock(plan: Plan) -> Iterator[Lack]:
    yield from _try_check(machine_lock.check_lock)


def try_server(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if this machine does not allow the port, the folder or the process of a server."""
    if not _has_server(plan):
        return
    yield from _try_port()
    try:
        temporary = tempfile.TemporaryDirectory()
    except OSError:
        # try_temporary_folder() yields this lack.
        return
    with temporary as folder:
        lacks = list(_try_grant(Path(folder)))
    yield from lacks
    # Without a folder, no server is started.
    if lacks:
        return
    # The last trial needs setpriv, too. try_programs() yields its lack.
    if any(_try_check(processes.check_setpriv)):
        return
    yield from _try_server_process()


def _has_server(plan: Plan) -> bool:
    """Return True if a cell needs a server."""
    return any(plan.draft(cell)["access"]["server"] for cell in plan.cells)


def _try_port() -> Iterator[Lack]:
    """Yield a lack if no server can listen on the loopback address."""
    try:
        with socket.socket() as any_socket:
            # With the port 0, the kernel chooses a free one.
            any_socket.bind((HOST, 0))
    except OSError as error:
        yield Lack(f"no server can listen on {HOST}: {error.strerror}", "run `ip link set lo up`")


def _try_grant(folder: Path) -> Iterator[Lack]:
    """Yield a lack if a folder cannot be given to the user of the servers, who is another one than root."""
    try:
        server_user.grant(folder, 0o770)
    except UserError as error:
        # This user may not exist.
        yield Lack(str(error))
    except OSError as error:
        # grant() also changes the group of the folder, which the kernel may refuse.
        text = f"root may not give a file to the servers' group: {error.strerror}"
        yield Lack(text, "run as an ordinary user; in a container, allow it: --cap-add CHOWN")


def _try_server_process() -> Iterator[Lack]:
    """Start a program as a server is started, look at it, and end it. Yield a lack for each step that fails.

    Servers of root run as another user. A container may forbid root to start, see or end their processes.
    """
    with _background_cat() as process:
        is_started = _repeats_line(process)
        has_visible_files = is_started and bool(process_facts.open_files(process.pid))
        has_visible_command = is_started and bool(process_facts.command_line(process.pid))
        if is_started:
            try:
                process.terminate()
            except PermissionError:
                yield Lack(
                    "root may not end its servers, which run as another user",
                    "run as an ordinary user; in a container, allow it: --cap-add KILL",
                )
        # communicate() closes the input, so that cat also ends without the signal. The errors are those of
        # setpriv if cat was not started.
        errors = process.communicate()[1].decode(errors="replace").strip()
    if not is_started:
        yield Lack(
            f"root may not start a server as another user: {errors}",
            "run as an ordinary user; in a container, allow it: --cap-add SETUID --cap-add SETGID",
        )
    elif not has_visible_files:
        yield Lack(
            "the open files of a server cannot be read, which prove that it listens",
            "in a container, allow it: --cap-add SYS_PTRACE",
        )
    elif not has_visible_command:
        yield Lack(
            "the options of a server cannot be read, because /proc hides processes of other users",
            "mount /proc without hidepid; in a container, allow it: --cap-add SYS_PTRACE",
        )


def _background_cat() -> AbstractContextManager[processes.Process]:
    """Start `cat` as a server is started: by setpriv, which changes the user of a server of root's."""
    pipe = processes.PIPE
    return processes.background(
        ["cat"], signal="TERM", unprivileged=True, stdin=pipe, stdout=pipe, stderr=pipe
    )


def _repeats_line(process: processes.Process) -> bool:
    """Return True if a process with pipes repeats a line that it gets, as `cat` does."""
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b"ready\n")
        process.stdin.flush()
    except BrokenPipeError:
        return False
    # readline() returns b"" if the process ends instead.
    return bool(process.stdout.readline())


def try_folders(plan: Plan) -> Iterator[Lack]:
    """Yield the configured folders that cannot be written, and storages that the servers' user cannot enter.

    A storage is tried only if a cell uses it.
    """
    used_storages = _used_storages(plan)
    has_server = _has_server(plan)
    for keys, configured in plan.config.folders.items():
        # The keys are ("scratch",), or ("storages", NAME).
        is_storage = len(keys) > 1
        if is_storage and keys[1] not in used_storages:
            continue
        folder = resolve(configured, plan.root)
        reason, remedy = filesystems.why_unusable(folder)
        if reason:
            file = plan.config.source_of(keys)
            key = ".".join(keys)
            yield Lack(f"{file}: `{key}`: {folder}: {reason}", remedy)
        elif is_storage and has_server:
            # Servers of root run as another user, and read the copies in the storage.
            yield from _try_check(WorkDir(folder, plan.root).check_reachable)


def try_checkout(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if this user cannot write to a folder of the checkout that a session writes to."""

    def check() -> None:
        check_session_folders(plan.root)
        check_session_rights(plan.root)

    yield from _try_check(check)


def _used_storages(plan: Plan) -> set[str]:
    """Return the storages of all cells. Of two names for one folder, only the first counts (`shelf`)."""
    return {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}


def try_file_times(plan: Plan) -> Iterator[Lack]:
    """Yield a lack for the first input of a Snakemake rule whose time is in the future.

    Snakemake refuses an output that is older than its input, but only when everything was measured, perhaps
    after hours.
    """
    for path in _input_files(plan.root):
        try:
            modified_s = os.stat(path).st_mtime
        except OSError:
            # A link to nothing, or a file that another program has just removed.
            continue
        # The clock is read for each file: a session may write a result while this loop runs.
        if modified_s > time.time():
            folders = [name for name in INPUT_FOLDERS if (plan.root / name).exists()]
            # This command mends all such files at once. So further ones need no lack of their own. -H: the
            # folders may be links.
            command = f"find -H {' '.join(folders)} -newermt now -exec touch {{}} +"
            yield Lack(
                f"{path}: its time is in the future", f"correct the clock, or run: {command}"
            )
            return


def _input_files(root: Path) -> Iterator[str]:
    """Yield the files of the checkout `root` that are inputs of Snakemake rules.

    Most files are none: logs, the contexts of results, and the insides of conda environments. They are left
    out, because each look at a file delays the start of a run.
    """
    logs, environments = str(root / LOGS), str(root / ENVIRONMENTS)
    for name in INPUT_FOLDERS:
        for folder, subfolders, files in os.walk(root / name):
            # os.walk() does not enter subfolders that are taken out of its list.
            if folder in (logs, environments):
                subfolders.clear()
            # The files next to the environments are their records, which are inputs.
            if folder == logs:
                continue
            for file in files:
                # Rules name only the export, and read the context next to it. One job writes both.
                if not file.endswith(CONTEXT):
                    yield os.path.join(folder, file)


def try_instructions(plan: Plan) -> Iterator[Lack]:
    reason = why_no_instructions()
    if reason:
        yield Lack(f"no instruction counts: {reason}", "use a physical machine")


def try_shaping(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if lines between client and server have a relay in place of netem."""
    links = [plan.draft(cell).get("link") for cell in plan.cells]
    if any(link and link["shaper"] == Shaper.RELAY for link in links):
        yield Lack(
            "this kernel has no netem: a program is the line between client and server, and takes some "
            "processor time",
            "load the kernel's module sch_netem",
        )


def try_tracing(plan: Plan) -> Iterator[Lack]:
    # A missing strace is named with the missing packages.
    if not shutil.which("strace"):
        return
    reason = _why_fails(["strace", "-o", os.devnull, "true"])
    if reason:
        remedy = "allow ptrace (in a container: --cap-add SYS_PTRACE)"
        yield Lack(f"no system-call counts: {reason}", remedy)


def try_tracing_of_servers(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if strace cannot count the system calls of a running server.

    A background `cat` stands in for the server, because it starts like one. Servers of root run as another
    user, and a container may forbid root to trace their processes.
    """
    is_needed = any(plan.config.studies[name].trace_syscalls is not None for name in plan.grids)
    if not is_needed or not _has_server(plan):
        return
    # A missing strace is named with the missing packages.
    if not shutil.which("strace"):
        return
    try:
        with _background_cat() as process:
            # setpriv changes the user of its process, and then becomes cat. strace must attach after that,
            # when cat has repeated a line. If cat has not started, try_server() yields the reason.
            if _repeats_line(process):
                Strace.attach([process.pid]).end()
    except (UserError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        yield Lack(
            f"no system-call counts of servers: {reason}".removesuffix("."),
            "in a container, allow it: --cap-add SYS_PTRACE --cap-add SYS_NICE",
        )


def try_pressure(plan: Plan) -> Iterator[Lack]:
    if not kernel.read("/proc/pressure/cpu"):
        yield Lack("the kernel reports no pressure (/proc/pressure)", "boot with psi=1")


def try_residency_and_layout(plan: Plan) -> Iterator[Lack]:
    """Yield a lack for each used storage on which the cached pages of files, or their places, are unknown."""
    for name in sorted(_used_storages(plan)):
        folder = resolve(plan.config.settings.storages[name], plan.root)
        reason, _ = filesystems.why_unusable(folder)
        # try_folders() yields a folder in which no file can be made.
        if not reason:
            yield from _try_sample_file(name, folder)


def _try_sample_file(name: str, folder: Path) -> Iterator[Lack]:
    """Write a file to a storage, and yield a lack for each of two facts that the kernel does not report.

    The pages of files in memory show whether a run began cold. The places of files on the device show whether
    the copies of a repository alternate there, so that none of them is faster by its place.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix="vcsbench-trial-") as file:
        file.write(os.urandom(SAMPLE_BYTES))
        file.flush()
        # A file has no place on the device before it is written there.
        os.fsync(file.fileno())
        if caches.query_residency(Path(file.name)) is None:
            yield Lack(f"{name}: the kernel does not report the cached pages of a file")
        # This call is made only for its error.
        try:
            first_extent(file.name)
        except ExtentsUnsupportedError as error:
            text = f"{name}: the layout of copies cannot be checked (no FIEMAP: {error})"
            yield Lack(text, "use ext4, xfs or btrfs")


Trial = Callable[[Plan], Iterator[Lack]]
# Running a program needs these, and so does each source of a repository.
OF_PROGRAMS: tuple[Trial, ...] = (try_kernel_files, try_system_calls, try_temporary_folder)
# A session does not begin without these: it could measure no cell, no cell with a server, or none on a
# storage, or it could make no report.
REQUIRED: tuple[Trial, ...] = (
    *OF_PROGRAMS,
    try_programs,
    try_lock,
    try_server,
    try_folders,
    try_file_times,
)
# Without these some cells fail, and a session measures the others. `make plan` and `make doctor` print them.
OF_SOME_CELLS: tuple[Trial, ...] = (try_cell_programs, try_eviction)
# `make plan` and `make doctor` also try what a session needs and a dry run does not. A session itself checks
# it before it starts Snakemake.
BEFORE_SESSION: tuple[Trial, ...] = (*REQUIRED, try_checkout)
# Without these the cells have less evidence.
EVIDENCE: tuple[Trial, ...] = (
    try_instructions,
    try_shaping,
    try_tracing,
    try_tracing_of_servers,
    try_pressure,
    try_residency_and_layout,
)


def find_lacks(plan: Plan, trials: Sequence[Trial]) -> list[Lack]:
    """Return what this machine lacks. A trial that the system ends is a lack, too, and others still run."""
    lacks: list[Lack] = []
    for trial in trials:
        try:
            lacks += trial(plan)
        except OSError as error:
            # For example, the disk may be full.
            lacks.append(Lack(sentence_of(error).removesuffix(".")))
    return lacks


def refuse(lacks: Sequence[Lack]) -> None:
    """Raise UserError with a line for each thing that is lacking."""
    if lacks:
        raise UserError("\n".join(lack.sentence() for lack in lacks))


def _why_fails(argv: Sequence[str]) -> str:
    """Run a program, and return the last line of its errors if it fails; "" if it does not."""
    done = processes.run_program(argv, limit_s=TRIAL_S, may_fail=True)
    if not done.code:
        return ""
    lines = done.errors.strip().splitlines()
    return lines[-1] if lines else processes.how_it_ended(done.code)
