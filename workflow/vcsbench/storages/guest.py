"""A guest with NFS, for hosts whose kernel has none: User Mode Linux, whose root is the host's, read-only;
it exports a file system of its own to itself."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import cgroup
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.kernelfile import read
from vcsbench.processes import last_lines, with_pdeathsig

# Set-up's; envs/unpack_nfs_guest.sh makes it.
TOOLS = Path(".tools", "nfs-guest")
# Folders of the guest, by name: NFS, and the file system below its server.
FOLDERS = {"nfs": "/mnt/nfs", "guest-local": "/mnt/exp/here"}
OUT = "/mnt/out"
INIT = Path(__file__).with_suffix(".sh")
# Of the file system that is exported.
KIND = "ext4"
MEMORY_MIB = 2048
BOOT_LIMIT_S = 60
# A guest whose kernel gives up before it has run anything is booted once more: seen once in hundreds.
BOOTS = 2
PANIC = "Kernel panic"
# The guest covers these folders of the host, and mounts needed folders below them again.
COVERED = ("/tmp", "/run", "/var/run", "/var/lib", "/mnt", "/dev")
# Folders that cannot be mounted again: the guest uses them itself.
TAKEN = (
    "/mnt/out",
    "/mnt/exp",
    "/mnt/nfs",
    "/mnt/host",
    "/run/modules",
    "/var/lib/nfs",
    "/proc",
    "/sys",
)
# The kernel's command line ends a word at white space, hostfs an option at a comma, ubd a file at a colon.
BREAKING = re.compile(r"[\s,:'\"\\\x00-\x1f]")


def why_not(root: Path) -> str:
    """Return why there is no guest here, in a clause; "" if there is one."""
    if not (root / TOOLS).exists():
        return "the guest's kernel and NFS tools are not here (envs/unpack_nfs_guest.sh gets them)"
    missing = [name for name in (f"mkfs.{KIND}", "ip", "flock") if not shutil.which(name)]
    if missing:
        return f"the guest needs {', '.join(missing)}"
    if taken := _taken(root):
        return (
            f"the checkout is below {taken}, a folder that the guest uses itself; move it elsewhere"
        )
    limit = cgroup.memory().limit
    if limit is not None and limit < MEMORY_MIB << 20:
        return f"the guest needs {MEMORY_MIB} MiB of memory, and {limit >> 20} MiB are allowed"
    return ""


def covered(paths: Sequence[str | Path]) -> list[str]:
    """Return the paths that the guest covers, links resolved."""
    # Links last: they lead to the others.
    real = sorted({os.path.realpath(path) for path in paths})
    names = dict.fromkeys([*real, *map(os.path.abspath, paths)])
    hidden = [name for name in names if _is_below(name, COVERED)]
    # A folder brings the folders below it.
    return [name for name in hidden if not any(_is_below(name, (o,)) for o in hidden if o != name)]


def _taken(path: str | Path) -> str:
    return next((t for t in TAKEN if _is_below(os.path.realpath(path), (t,))), "")


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def why_no_delay(root: Path) -> str:
    """Why nothing can be delayed in the guest, in a clause; "" if it can."""
    if not shutil.which("tc"):
        return "there is no tc to add a delay with (Debian: iproute2)"
    modules = (root / TOOLS).glob("usr/lib/uml/modules/*/kernel/net/sched/sch_netem.ko*")
    return "" if any(modules) else "the guest's kernel has no netem"


def run(
    root: Path,
    folder: Path,
    command: list[str],
    image: Path,
    limit_s: float,
    delay: str = "",
    *,
    reads: Sequence[str | Path] = (),
) -> int:
    """Run a command in a new guest and return its exit code.

    `folder` is a private one: the guest has its `out` as /mnt/out and may write it. `image` is an empty file
    of the size of the exported file system. `reads` are folders of the host that the command reads.
    Raise UserError if the guest cannot run the command.
    """
    tools, out = (root / TOOLS).resolve(), folder / "out"
    for path in (folder, image):
        if found := BREAKING.search(str(path)):
            raise UserError(
                f"{printable(str(path))}: the NFS guest cannot use a path with {found[0]!r}. "
                f"Set TMPDIR and `scratch` to folders of letters and digits."
            )
    for read_folder in (root, *reads):
        if taken := _taken(read_folder):
            raise UserError(
                f"{read_folder}: the NFS guest cannot read below {taken}, which it uses itself. "
                f"Move the folder elsewhere."
            )
    out.mkdir(exist_ok=True)
    values = {
        "TOOLS": str(tools),
        "OUT": str(out),
        "KIND": KIND,
        "NAME": f"{os.uname().nodename}-guest",
        "DELAY": delay,
        "COVERED": "\n".join(covered((root, tools, sys.prefix, *reads))),
        "COMMAND": shlex.join(command),
    }
    said = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    init = folder / "init"
    init.write_text(f"#!/bin/sh\n{said}{INIT.read_text()}")
    init.chmod(0o755)
    for _ in range(BOOTS):
        subprocess.run([f"mkfs.{KIND}", "-q", "-F", image], check=True, stdout=subprocess.DEVNULL)
        _boot(tools, init, image, folder / "boot.log", limit_s + BOOT_LIMIT_S)
        code = out / "code"
        if code.exists():
            return int(code.read_text())
        panic = [line for line in read(folder / "boot.log").splitlines() if PANIC in line]
        if not panic or (out / "began").exists():
            break
    words = [*last_lines(out / "log", 3), *(panic or last_lines(folder / "boot.log", 3))]
    raise UserError(f"the guest did not come to run anything: {' '.join(words)}")


def _boot(tools: Path, init: Path, image: Path, log: Path, limit_s: float) -> None:
    kernel = next(path for path in (tools / "usr/bin").iterdir() if path.name.startswith("linux"))
    argv = [
        # On several processors its times drift several-fold.
        *("taskset", "-c", str(max(os.sched_getaffinity(0)))),
        *(
            str(kernel),
            f"mem={MEMORY_MIB}M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "hostfs=/",
            "ro",
        ),
        *(f"ubd0={image}", f"init={init}", "con=null", "con0=null,fd:1", "ssl=null"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            with_pdeathsig(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
        )
    try:
        with suppress(subprocess.TimeoutExpired):  # the caller looks at its results
            process.wait(limit_s)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """All of its processes are in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
