"""Try what a cell needs on this machine: files of the kernel, system calls, programs, rights and folders.

A right is tried and never derived from the user: root in a container lacks some. `make doctor` and
`make plan` print everything that is lacking, and a run refuses to begin without what is required.
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcsbench import isolation, kernel, processes
from vcsbench.errors import UserError
from vcsbench.measure import caches
from vcsbench.measure.instructions import why_no_instructions
from vcsbench.measure.server import HOST
from vcsbench.plan.plan import Plan
from vcsbench.storages import filesystems
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.workdir import WorkDir, resolve

TRIAL_S = 60.0
# Folders of a checkout whose files are inputs of rules.
INPUT_FOLDERS = ("config", "baselines", "results")
# All options that a measurement needs, since hyperfine 1.15.
HYPERFINE = (
    *("hyperfine", "-N", "--style", "none", "--warmup", "0", "--runs", "1", "--ignore-failure"),
    *("--setup", "true", "--prepare", "true", "--cleanup", "true", "--export-json", os.devnull),
    "true",
)
SUBVERSION = ("svn", "svnadmin", "svnserve")
SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True)
class Lack:
    """A thing that this machine lacks, in a clause, and the remedy; "" if the clause has it."""

    what: str
    remedy: str = ""

    def sentence(self) -> str:
        if not self.remedy:
            return self.what
        return f"{self.what}. {self.remedy[0].upper()}{self.remedy[1:]}."


def kernel_files(plan: Plan) -> Iterator[Lack]:
    try:
        kernel.check_system_files()
    except UserError as error:
        yield Lack(str(error))


def system_calls(plan: Plan) -> Iterator[Lack]:
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


def temporary_folder(plan: Plan) -> Iterator[Lack]:
    try:
        tempfile.gettempdir()
    except OSError:
        remedy = "make one of them writable, or set TMPDIR to a folder on a disk"
        yield Lack("no temporary file can be made in TMPDIR, /tmp and /var/tmp", remedy)


def programs(plan: Plan) -> Iterator[Lack]:
    try:
        processes.check_setpriv()
    except UserError as error:
        yield Lack(str(error))
    # Snakemake deploys programs into environments that do not exist yet.
    if plan.env.machine.deployed:
        return
    for program in SUBVERSION:
        reason = _why_fails([program, "--version", "--quiet"]) if shutil.which(program) else ""
        if reason:
            yield Lack(f"{program} cannot be run: {reason}", "install Subversion again")
    reason = _why_fails(HYPERFINE)
    if reason:
        yield Lack(f"hyperfine cannot be used: {reason}", "install hyperfine 1.15 or newer")


def lock(plan: Plan) -> Iterator[Lack]:
    try:
        isolation.check_lock()
    except UserError as error:
        yield Lack(str(error))


def server(plan: Plan) -> Iterator[Lack]:
    """Start, examine and end a process as if it were a server."""
    if not any(plan.draft(cell)["access"]["server"] for cell in plan.cells):
        return
    try:
        with socket.socket() as any_socket:
            any_socket.bind((HOST, 0))
    except OSError as error:
        yield Lack(f"no server can listen on {HOST}: {error.strerror}", "run `ip link set lo up`")
    try:
        with tempfile.TemporaryDirectory() as folder:
            processes.grant(Path(folder), 0o770)
    except KeyError:
        user = processes.UNPRIVILEGED
        yield Lack(
            f"root's servers run as {user}, and there is no such user", f"run `useradd {user}`"
        )
        return
    except OSError as error:
        text = f"root may not give a file to the servers' group: {error.strerror}"
        yield Lack(text, "run as an ordinary user; in a container, allow it: --cap-add CHOWN")
        return
    yield from _server_process()


def _server_process() -> Iterator[Lack]:
    pipe = processes.PIPE
    with processes.background(
        ["cat"], signal="TERM", unprivileged=True, stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin and process.stdout
        answer = b""
        try:
            # An answer means that setpriv has changed the user, and started the program.
            process.stdin.write(b"ready\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            has_files = bool(processes.open_files(process.pid))
            process.terminate()
        except BrokenPipeError:
            pass
        except PermissionError:
            yield Lack(
                "root may not end its servers, which run as another user",
                "run as an ordinary user; in a container, allow it: --cap-add KILL",
            )
        # At the end of its input, the program ends by itself.
        errors = process.communicate()[1].decode(errors="replace").strip()
    if not answer:
        yield Lack(
            f"root may not start a server as another user: {errors}",
            "run as an ordinary user; in a container, allow it: --cap-add SETUID --cap-add SETGID",
        )
    elif not has_files:
        yield Lack(
            "the open files of a server cannot be read, which prove that it listens",
            "in a container, allow it: --cap-add SYS_PTRACE",
        )


def folders(plan: Plan) -> Iterator[Lack]:
    used = {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}
    has_server = any(plan.draft(cell)["access"]["server"] for cell in plan.cells)
    for keys, configured in plan.config.folders.items():
        is_storage = len(keys) > 1
        if is_storage and keys[1] not in used:
            continue
        folder = resolve(configured, plan.root)
        reason, remedy = filesystems.why_unusable(folder)
        if reason:
            where = plan.config.where(keys)
            yield Lack(f"{where}: `{'.'.join(keys)}`: {folder}: {reason}", remedy)
        elif is_storage and has_server:
            try:
                WorkDir(folder, plan.root).check_reachable()
            except UserError as error:
                yield Lack(str(error))


def future_times(plan: Plan) -> Iterator[Lack]:
    """Yield a lack if a file of the checkout is dated in the future.

    Snakemake refuses an output that is older than its input, after everything was measured.
    """
    now_s = time.time()
    for name in INPUT_FOLDERS:
        for folder, _, files in os.walk(plan.root / name):
            for file in files:
                path = os.path.join(folder, file)
                try:
                    is_future = os.stat(path).st_mtime > now_s
                except OSError:
                    continue
                if is_future:
                    remedy = f"correct the clock, or run: find {' '.join(_existing(plan))} "
                    remedy += "-newermt now -exec touch {} +"
                    yield Lack(f"{path}: its time is in the future", remedy)
                    return


def _existing(plan: Plan) -> list[str]:
    return [name for name in INPUT_FOLDERS if (plan.root / name).exists()]


def instructions(plan: Plan) -> Iterator[Lack]:
    reason = why_no_instructions()
    if reason:
        yield Lack(f"no instruction counts: {reason}", "use a physical machine")


def tracing(plan: Plan) -> Iterator[Lack]:
    reason = _why_fails(["strace", "-o", os.devnull, "true"]) if shutil.which("strace") else ""
    if reason:
        remedy = "allow ptrace (in a container: --cap-add SYS_PTRACE)"
        yield Lack(f"no system-call counts: {reason}", remedy)


def pressure(plan: Plan) -> Iterator[Lack]:
    if not kernel.read("/proc/pressure/cpu"):
        yield Lack("the kernel reports no pressure (/proc/pressure)", "boot with psi=1")


def residency_and_layout(plan: Plan) -> Iterator[Lack]:
    used = {plan.draft(cell)["storage"]["shelf"] for cell in plan.cells}
    for name in sorted(used):
        folder = resolve(plan.config.settings.storages[name], plan.root)
        if filesystems.why_unusable(folder)[0]:
            continue
        with tempfile.NamedTemporaryFile(dir=folder, prefix="vcsbench-trial-") as file:
            file.write(os.urandom(SAMPLE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            if caches.query_residency(Path(file.name)) is None:
                yield Lack(f"{name}: the kernel does not report the cached pages of a file")
            try:
                first_extent(file.name)
            except ExtentsUnsupportedError as error:
                text = f"{name}: the layout of copies cannot be checked (no FIEMAP: {error})"
                yield Lack(text, "use ext4, xfs or btrfs")


Trial = Callable[[Plan], Iterator[Lack]]
# Without these no cell can be measured, or no report made.
REQUIRED: tuple[Trial, ...] = (
    *(kernel_files, system_calls, temporary_folder, programs, lock, server, folders, future_times),
)
# Without these the cells have less evidence.
EVIDENCE: tuple[Trial, ...] = (instructions, tracing, pressure, residency_and_layout)


def lacks(plan: Plan, trials: Sequence[Trial]) -> list[Lack]:
    return [lack for trial in trials for lack in trial(plan)]


def refuse(missing: Sequence[Lack]) -> None:
    """Raise UserError with a line for each thing that is lacking."""
    if missing:
        raise UserError("\n".join(lack.sentence() for lack in missing))


def _why_fails(argv: Sequence[str]) -> str:
    """Run a program, and return the last line of its errors if it fails; otherwise ""."""
    done = processes.run_program(argv, limit_s=TRIAL_S, may_fail=True)
    if not done.code:
        return ""
    lines = done.errors.strip().splitlines()
    return lines[-1] if lines else processes.how_it_ended(done.code)
