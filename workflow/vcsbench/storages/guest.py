"""Run a command in a guest with NFS, because many host kernels have none.

The guest is User Mode Linux. Its root is the host's, read-only. It exports a file system over NFS to
itself.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from vcsbench import kernel, processes
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.kernel import read
from vcsbench.processes import last_lines

TOOLS = Path(".tools", "nfs-guest")
GUEST_REMEDY = (
    "Run again, or remove the filesystems with the value `guest` from config/config.yaml."
)
FOLDERS = {"nfs": "/mnt/nfs", "guest-local": "/mnt/exp/here"}
OUT = "/mnt/out"
INIT = Path(__file__).with_suffix(".sh")
FILESYSTEM_KIND = "ext4"
MEMORY_MIB = 2048
BOOT_LIMIT_S = 300
# In one boot of hundreds, the kernel panics before it runs anything. So a second boot is tried.
BOOT_ATTEMPTS = 2
PANIC = "Kernel panic"
TRIAL_MIB = 256
TRUE_ENDED = "exitcode=0x00000000"
# The guest hides these folders of the host, and mounts needed folders below them again.
HIDDEN = ("/tmp", "/run", "/var/run", "/var/lib", "/mnt", "/dev")
RESERVED = (
    "/mnt/out", "/mnt/exp", "/mnt/nfs", "/mnt/host",
    "/run/modules", "/var/lib/nfs", "/proc", "/sys",
)  # fmt: skip
# The kernel's command line ends a word at white space, hostfs an option at a comma, ubd a file at a
# colon.
BREAKING = re.compile(r"[\s,:'\"\\\x00-\x1f]")


def why_unavailable(root: Path) -> str:
    """Return in a clause why the guest cannot run on this machine; "" if it can."""
    # vcsbench runs as root in the guest, and refuses a work folder of another user. The servers in the guest
    # run as nobody, who cannot enter such a folder.
    if os.geteuid() != 0:
        return "the guest takes root: its programs run as root, and use only root's work folders"
    if not (root / TOOLS).exists():
        return "the guest's kernel and NFS tools are not here (envs/unpack_nfs_guest.sh gets them)"
    missing = [
        name for name in (f"mkfs.{FILESYSTEM_KIND}", "ip", "flock") if not shutil.which(name)
    ]
    if missing:
        return f"the guest needs {', '.join(missing)}"
    reserved = _reserved(root)
    if reserved:
        return f"the checkout is below {reserved}, a folder that the guest uses itself; move it elsewhere"
    limit = kernel.memory().limit
    if limit is not None and limit < MEMORY_MIB << 20:
        return f"the guest needs {MEMORY_MIB} MiB of memory, and {limit >> 20} MiB are allowed"
    return _why_no_boot(_kernel(root / TOOLS))


@cache
def _why_no_boot(linux: Path) -> str:
    """Return in a clause why the guest's kernel cannot run a program on this machine; "" if it can."""
    # Older guest kernels cannot keep the registers of processors with AMX: each program in the guest ends
    # with a segmentation fault. So a guest is booted with `true` as its first program, which takes a second.
    argv = _kernel_argv(linux, TRIAL_MIB, "/bin/true")
    booted = processes.run_program(argv, may_fail=True, limit_s=BOOT_LIMIT_S)
    # The guest's kernel ends with its first program, and prints the exit code of this program.
    printed = booted.output + booted.errors
    if TRUE_ENDED in printed:
        return ""
    panic = [line for line in printed.splitlines() if PANIC in line]
    reason = panic[-1].strip() if panic else "it ended without a message"
    return f"the guest's kernel does not run on this processor: {printable(reason)}"


def _hidden_folders(paths: Sequence[str | Path]) -> list[str]:
    """Return the folders among `paths` that the guest has to mount again, because HIDDEN ones hide them.

    For /tmp/a, /tmp/a/b and /usr, the result is ["/tmp/a"]: /tmp/a/b comes with the folder above it.
    """
    # Paths with links come last: a link can be used only when the folder that it leads to is mounted.
    real_names = sorted({os.path.realpath(path) for path in paths})
    names = dict.fromkeys([*real_names, *map(os.path.abspath, paths)])
    hidden = []
    for path in map(Path, names):
        if any(path.is_relative_to(top) for top in HIDDEN):
            hidden.append(path)
    return [str(path) for path in hidden if not any(above in hidden for above in path.parents)]


def _reserved(path: str | Path) -> str:
    """Return the folder of the guest that hides a path of the host; "" if none does."""
    real = Path(os.path.realpath(path))
    for folder in RESERVED:
        if real.is_relative_to(folder):
            return folder
    return ""


def why_no_delay(root: Path) -> str:
    """Return in a clause why the guest cannot delay its packets; "" if it can."""
    if not shutil.which("tc"):
        return "tc is not installed, which adds the delay (Debian: iproute2)"
    modules = (root / TOOLS).glob("usr/lib/uml/modules/*/kernel/net/sched/sch_netem.ko*")
    return "" if any(modules) else "the guest's kernel has no netem"


def run_in_guest(
    root: Path,
    folder: Path,
    command: list[str],
    image: Path,
    *,
    limit_s: float,
    delay: str = "",
    reads: Sequence[str | Path] = (),
) -> int:
    """Boot a new guest, run a command in it, and return the exit code of the command.

    `image` is an empty file of the size of the guest's file system. The command writes to this file system,
    and to `folder`/out, which is the guest's /mnt/out. It reads the host's folders `reads` and the checkout
    `root`. `delay` is added to packets, such as "10ms". Raise UserError if the guest cannot use a path, ends
    without an exit code of the command, or takes longer than `limit_s` and BOOT_LIMIT_S together.
    """
    _check_paths([folder, image], [root, *reads])
    tools, out = (root / TOOLS).resolve(), folder / "out"
    out.mkdir(exist_ok=True)
    variables = {
        "TOOLS": str(tools),
        "OUT": str(out),
        "KIND": FILESYSTEM_KIND,
        "NAME": f"{os.uname().nodename}-guest",
        "DELAY": delay,
        # The needed folders that the guest's own mounts hide, a line each.
        "COVERED": "\n".join(_hidden_folders((root, tools, sys.prefix, *reads))),
        "COMMAND": shlex.join(command),
    }
    # The first program of the guest: guest.sh with values of its variables.
    init = folder / "init"
    assignments = [f"{name}={shlex.quote(value)}\n" for name, value in variables.items()]
    init.write_text(f"#!/bin/sh\n{''.join(assignments)}{INIT.read_text()}")
    init.chmod(0o755)
    boot_log = folder / "boot.log"
    # guest.sh makes `began` before it runs the command, and `code` with the command's exit code at the end.
    began, code = out / "began", out / "code"
    for _ in range(BOOT_ATTEMPTS):
        # Each boot gets a new file system, because an earlier boot may have written to it.
        processes.run_program([f"mkfs.{FILESYSTEM_KIND}", "-q", "-F", image])
        _boot(tools, init, image, boot_log, limit_s + BOOT_LIMIT_S)
        if code.exists():
            return int(code.read_text())
        panics = [line for line in read(boot_log).splitlines() if PANIC in line]
        # Only a panic is worth a second boot: another failure would come again. A command that has begun must
        # not run twice, because it may have changed files.
        if not panics or began.exists():
            break
    lines = [*last_lines(out / "log", 3), *(panics or last_lines(boot_log, 3))]
    raise UserError(
        f"the guest ended without a result of the command: {' '.join(lines)}. {GUEST_REMEDY}"
    )


def _check_paths(written: Sequence[Path], read_folders: Sequence[str | Path]) -> None:
    """Raise UserError for a path that the guest cannot use.

    `written` are paths in the command line of the guest's kernel (see BREAKING).
    """
    for path in written:
        breaking = BREAKING.search(str(path))
        if breaking:
            raise UserError(
                f"{printable(str(path))}: the NFS guest cannot use a path with {breaking[0]!r}. "
                f"Set TMPDIR and `scratch` to folders of letters and digits."
            )
    for folder in read_folders:
        reserved = _reserved(folder)
        if reserved:
            raise UserError(
                f"{folder}: the NFS guest cannot read below {reserved}, which it uses itself. "
                f"Move the folder elsewhere."
            )


def _kernel(tools: Path) -> Path:
    """Return the program of the guest's kernel, such as linux.uml."""
    return next((tools / "usr/bin").glob("linux*"), tools / "usr/bin/linux")


def _kernel_argv(linux: Path, memory_mib: int, init: str | Path, *options: str) -> list[str]:
    """Return the command that boots a guest with the first program `init`. The host's files are its root."""
    root = ("root=/dev/root", "rootfstype=hostfs", "hostfs=/", "ro")
    console = ("con=null", "con0=null,fd:1", "ssl=null")
    return [str(linux), f"mem={memory_mib}M", *root, *options, f"init={init}", *console]


def _boot(tools: Path, init: Path, image: Path, log: Path, limit_s: float) -> None:
    """Boot a guest with the first program `init`, wait up to `limit_s` for its end, and log its messages."""
    # On several processors, the guest's clock drifts.
    on_one_processor = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
    argv = on_one_processor + _kernel_argv(_kernel(tools), MEMORY_MIB, init, f"ubd0={image}")
    # background() kills a guest that still runs at the end of the block.
    with (
        log.open("wb") as output,
        processes.background(argv, stdout=output, stderr=output) as process,
    ):
        processes.wait_for_end(process, limit_s)
