"""A guest with NFS, for hosts whose kernel has none: User Mode Linux, whose root is the host's, read-only;
it exports a file system of its own to itself."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.kernelfile import read
from vcsbench.processes import last_lines, tied

# Set-up's; envs/unpack_nfs_guest.sh makes it.
TOOLS = Path(".tools", "nfs-guest")
# What the guest has, by names, and where: NFS, and the file system under its server.
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


def why_not(root: Path) -> str:
    """Why there is no guest here, in a clause; "" if there is one."""
    if not (root / TOOLS).exists():
        return "the guest's kernel and NFS tools are not here (envs/unpack_nfs_guest.sh gets them)"
    missing = [name for name in (f"mkfs.{KIND}", "ip", "flock") if not shutil.which(name)]
    return f"the guest needs {', '.join(missing)}" if missing else ""


def why_no_delay(root: Path) -> str:
    """Why nothing can be delayed in the guest, in a clause; "" if it can."""
    if not shutil.which("tc"):
        return "there is no tc to add a delay with (Debian: iproute2)"
    modules = (root / TOOLS).glob("usr/lib/uml/modules/*/kernel/net/sched/sch_netem.ko*")
    return "" if any(modules) else "the guest's kernel has no netem"


def run(
    root: Path, folder: Path, command: list[str], image: Path, limit_s: float, delay: str = ""
) -> int:
    """Run a command in a guest that is made for it; returns its exit code. `folder` is a private one: its
    `out` is /mnt/out there, which the guest may write; `image` is an empty file of the size of the file
    system that is exported. A UserError where the guest does not come to run it."""
    tools, out = (root / TOOLS).resolve(), folder / "out"
    out.mkdir(exist_ok=True)
    values = {
        "TOOLS": str(tools),
        "OUT": str(out),
        "KIND": KIND,
        "NAME": f"{os.uname().nodename}-guest",
        "DELAY": delay,
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
            tied(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0
        )
    try:
        with suppress(subprocess.TimeoutExpired):  # what it has not done is not there
            process.wait(limit_s)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """All of its processes are in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
