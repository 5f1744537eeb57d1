"""Processes that end when the process that started them ends, and what the kernel knows of them."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import pwd
import select
import signal as signals
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import open_regular, printable
from vcsbench.kernelfile import read, words

# Servers need no rights: started by root, they run as this user, in a group of their own. Other daemons run
# as nobody too, and may read no process and no file of another group. 65520 to 65533 are ids that neither
# Debian nor systemd gives to anybody.
UNPRIVILEGED = "nobody"
SERVER_GROUP = 65531
GRACE_S = 3.0
LOG_TAIL = 1 << 16


def server_ids() -> tuple[int, int] | None:
    """Return the user and group ids of root's servers; None if this process is not root's.

    In a container that has no such group id, the group is that of the user.
    """
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam(UNPRIVILEGED)
    return user.pw_uid, SERVER_GROUP if _has_group(SERVER_GROUP) else user.pw_gid


@functools.cache
def _has_group(gid: int) -> bool:
    rows = [
        [int(word) for word in line.split()] for line in read("/proc/self/gid_map").splitlines()
    ]
    return not rows or any(first <= gid < first + count for first, _, count in rows)


def tied(argv: list[str], signal: str = "KILL", unprivileged: bool = False) -> list[str]:
    """The command line that runs `argv` so that the kernel sends it `signal` when its parent dies."""
    ids = server_ids() if unprivileged else None
    as_user = ["--reuid", str(ids[0]), "--regid", str(ids[1]), "--clear-groups"] if ids else []
    return ["setpriv", "--pdeathsig", signal, *as_user, "--", *argv]


def grant(path: Path | int, mode: int) -> None:
    """Set the mode of a file or folder of ours, without its group's rights if the servers are the user's own.

    The group becomes the servers'. The umask of the process does not matter. `path` may be a descriptor.
    """
    ids = server_ids()
    if ids:
        os.chown(path, -1, ids[1])
    os.chmod(path, mode if ids else mode & 0o700)


def closed(path: Path) -> Path | None:
    """Return the first folder, of a path and those above it, that the user of root's servers cannot enter.

    Return None if the user can enter all of them. Servers of other users run as these users.
    """
    ids = server_ids()
    folders = (path, *path.parents) if ids else ()
    return next(
        (f for f in folders if f.exists() and not _can_enter(f.stat(), *ids or (0, 0))), None
    )


def _can_enter(folder: os.stat_result, uid: int, gid: int) -> bool:
    if folder.st_uid == uid:
        return bool(folder.st_mode & 0o100)
    return bool(folder.st_mode & (0o010 if folder.st_gid == gid else 0o001))


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server: its descendants with SIGKILL, for they hold nothing that outlives them, then it with
    SIGTERM, or with SIGKILL when that does not help in time. (httpd waits ever longer before it looks again
    whether its children have ended: let them have ended before it looks.)"""
    if process.poll() is not None:
        return
    with contextlib.ExitStack() as stack:
        descendants = []
        for pid in family(process.pid)[1:]:
            with contextlib.suppress(OSError):
                descendants.append(os.pidfd_open(pid))
                stack.callback(os.close, descendants[-1])
        own = os.pidfd_open(process.pid)
        stack.callback(os.close, own)
        for descendant in descendants:
            with contextlib.suppress(ProcessLookupError):
                signals.pidfd_send_signal(descendant, signals.SIGKILL)
        for descendant in descendants:
            select.select([descendant], [], [], GRACE_S)
        process.terminate()
        # Not wait(GRACE_S), which looks at ever longer intervals: up to twice as long as it takes.
        if not select.select([own], [], [], GRACE_S)[0]:
            process.kill()
        process.wait()


def ended_by(code: int) -> str:
    """Return how a process ended, by its return code. A negative one is a signal."""
    if code >= 0:
        return f"exit code {code}"
    name = signal_of(code) or f"signal {-code}"
    memory = ", as the kernel does when memory runs out: free some memory, and run again"
    return f"killed by {name}{memory if -code == signals.SIGKILL else ''}"


def send(pids: Iterable[int], signal: int) -> None:
    """Send a signal to those of the processes that are still there."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal)


def ancestors(count: int = sys.maxsize) -> list[int]:
    """The pids of up to `count` ancestors, nearest first, without init."""
    found: list[int] = []
    pid = os.getpid()
    while len(found) < count and (pid := parent(pid)) > 1:
        found.append(pid)
    return found


def everybody() -> list[int]:
    """All processes that there are, and that this one may see."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent(pid: int) -> int:
    """The process that started one, or took it over; 0 when it has ended."""
    return int(_stat(pid)[1])


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            # The kernel lists what each thread has started.
            for thread in os.listdir(f"/proc/{parent}/task"):
                found.extend(map(int, read(f"/proc/{parent}/task/{thread}/children").split()))
    return found


def listeners(pid: int, port: int) -> list[int]:
    """Those that listen on a TCP port, of a process and all its descendants."""
    held = {member: _sockets(member) for member in family(pid)}
    if not any(held.values()):
        return []  # the table of all connections takes milliseconds to read
    rows = [line.split() for line in read("/proc/net/tcp").splitlines()[1:]]
    # The local address ends with the port in hexadecimal, 0A is LISTEN, the tenth field is the inode.
    inodes = {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return [member for member, sockets in held.items() if wanted & sockets]


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return {link for link in found if link.startswith("socket:")}


class Usage(NamedTuple):
    """What processes, and children that they have waited for, have used: CPU seconds; bytes that went
    through their reads and writes (`rchar`, `wchar`), and to and from devices (`read_bytes`,
    `write_bytes`; written ones when they became dirty); how often they called for a read (`syscr`)."""

    cpu_s: float = 0.0
    rchar: int = 0
    wchar: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    syscr: int = 0

    def __sub__(self, other: Usage) -> Usage:
        return Usage(*map(operator.sub, self, other))


def usage(pids: Sequence[int]) -> Usage:
    """What these processes have used so far."""
    return Usage(sum(_cpu_s(pid) for pid in pids), **io_counts(pids))


def _cpu_s(pid: int) -> float:
    """User and system time of a process, to the nanosecond, and of its ended children, in ticks."""
    try:
        # The clock id of another process: clock_getcpuclockid(3).
        own = time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
    cutime, cstime = _stat(pid)[13:15]
    return own + (int(cutime) + int(cstime)) / os.sysconf("SC_CLK_TCK")


def ended_children(pids: Sequence[int]) -> int:
    """A number that grows whenever a child of these processes has ended: the faults of ended children."""
    return sum(int(_stat(pid)[8]) for pid in pids)


def start_ticks(pid: int) -> int:
    """When a process started, in ticks since boot; 0 when it has ended."""
    return int(_stat(pid)[19])


def started_at(pid: int) -> float:
    """When a process started, in seconds since the epoch."""
    ticks = start_ticks(pid)
    uptime_s = float(read("/proc/uptime").split()[0])
    return time.time() - uptime_s + ticks / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> list[str]:
    """The argv of a process as the kernel has it; [] when it has ended, and for a thread of the kernel's."""
    return words(f"/proc/{pid}/cmdline")


def environment(pid: int) -> list[str]:
    """The environment that a process was started with, as NAME=VALUE; [] where it may not be read."""
    return words(f"/proc/{pid}/environ")


def maps(pid: int) -> str:
    """What a process has mapped, as /proc/PID/maps has it; "" when it has ended."""
    return read(f"/proc/{pid}/maps")


def io_counts(pids: Sequence[int]) -> dict[str, int]:
    """What processes, and children that they have waited for, have read and written: the fields of Usage but
    for the time."""
    files = [read(f"/proc/{pid}/io").splitlines() for pid in pids]
    values = [dict(line.split(": ") for line in lines) for lines in files]
    return {key: sum(int(of.get(key, 0)) for of in values) for key in Usage._fields[1:]}


def tells_io(pid: int) -> bool:
    """Whether this process may know what another one has read and written."""
    return bool(read(f"/proc/{pid}/io"))


def peak_memory_bytes(pid: int) -> int:
    """The highest resident memory of a process and its descendants so far, summed."""
    return sum(map(own_peak_bytes, family(pid)))


def own_peak_bytes(pid: int) -> int:
    """The highest resident memory of a process so far; 0 when it has ended."""
    lines = read(f"/proc/{pid}/status").splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def _stat(pid: int) -> list[str]:
    # The fields after the command, whose name may hold anything: state is 0, ppid 1, starttime 19. All are 0
    # when it has ended.
    return read(f"/proc/{pid}/stat").rpartition(") ")[2].split() or ["0"] * 50


def signal_of(code: int | None) -> str:
    """Return the name of the signal that ended a process; "" for another exit code.

    `code` is subprocess's, or 128 and the number of the signal, as a shell has it; None is any signal.
    """
    if code is None:
        return "a signal"
    try:
        return signals.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return ""


def how_it_ended(code: int | None) -> str:
    """Describe an exit code (signal_of)."""
    name = signal_of(code)
    return f"was ended by {name}" if name else f"exits with {code}"


def last_lines(file: Path, count: int = 5) -> list[str]:
    """Return the last lines of a log, from at most its last 64 KiB; [] if there is no such regular file.

    Control characters are escaped. A link is not followed.
    """
    try:
        with open(open_regular(file, follow_links=False), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - LOG_TAIL))
            lines = printable(log.read(LOG_TAIL)).splitlines()
    except (OSError, UserError):
        return []
    return [line for line in lines if line.strip()][-count:]
