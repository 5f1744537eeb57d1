"""Read the kernel's facts about processes in /proc: descendants, CPU time, I/O, memory, open files."""

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from vcsbench import server_user
from vcsbench.kernel import number_in, read

FAMILY_TRIES = 3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the command.
_STATE, _PARENT, _CHILDREN_FAULTS = 0, 1, 8
_CHILDREN_USER_TICKS, _CHILDREN_SYSTEM_TICKS, _START_TICKS = 13, 14, 19
_MISSING = "0"


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command. All are _MISSING if the process has ended."""
    # `4711 (svn) S 1 ...`. The command in parentheses may contain anything, so the last ")" ends it.
    _, _, fields = read(f"/proc/{pid}/stat").rpartition(") ")
    # The file of a running process has about 50 fields.
    return fields.split() or [_MISSING] * 50


def is_running(pid: int) -> bool:
    # The state is Z if a process has ended, and its parent has not noticed that.
    return _stat(pid)[_STATE] not in (_MISSING, "Z")


def ancestors() -> list[int]:
    """Return the parent of this process, its parent, and so on, without the first process of the system."""
    pids: list[int] = []
    parent = os.getppid()
    while parent > 1:
        pids.append(parent)
        parent = int(_stat(parent)[_PARENT])
    return pids


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    pids = [pid]
    # The list grows while the loop goes through it.
    for parent in pids:
        # A process may have ended by now.
        with contextlib.suppress(OSError):
            # A child belongs to the thread that has started it.
            for thread in os.listdir(f"/proc/{parent}/task"):
                children = read(f"/proc/{parent}/task/{thread}/children").split()
                pids += [int(child) for child in children]
    return pids


def read_of(pid: int, name: str, errors: str = "replace") -> str:
    """Return the content of /proc/PID/name; "" if it cannot be read, and if the process has ended."""
    path = f"/proc/{pid}/{name}"
    content = read(path, errors)
    # In a container, root may be unable to read the files of a server. The user of root's servers can.
    if not content:
        with server_user.as_server_user():
            content = read(path, errors)
    return content


def listening_files(pid: int, port: int) -> set[str]:
    """Return the links of /proc/PID/fd to the IPv4 sockets that listen on a port in the network of a process.

    For example {"socket:[4711]"}, where 4711 is the inode. The sockets may be those of any process in this
    network namespace.
    """
    sockets = set()
    # Behind a heading, a line is
    # `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 ...`.
    for line in read_of(pid, "net/tcp").splitlines()[1:]:
        fields = line.split()
        local_address = fields[1]
        # The kernel's number of the state LISTEN.
        is_listening = fields[3] == "0A"
        inode = fields[9]
        # The address ends with the port in hexadecimal.
        if is_listening and local_address.endswith(f":{port:04X}"):
            sockets.add(f"socket:[{inode}]")
    return sockets


def holders(file: str) -> list[int]:
    """Return the other processes that hold a file open: a link of /proc/PID/fd, such as "pipe:[4711]"."""
    return [pid for pid in all_pids() if pid != os.getpid() and file in open_files(pid)]


def open_files(pid: int) -> set[str]:
    """Return the links of /proc/PID/fd; none if they cannot be read, and if the process has ended."""
    links = _read_links(pid)
    if not links:
        with server_user.as_server_user():
            links = _read_links(pid)
    return links


def _read_links(pid: int) -> set[str]:
    links = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            # The process may have closed the file since it was listed.
            with contextlib.suppress(OSError):
                links.add(os.readlink(entry.path))
    return links


class Usage(NamedTuple):
    """Resources that processes and their ended children have used. None is a count that cannot be read.

    `cpu_s`: CPU seconds. `rchar`, `wchar`: bytes of system calls that read and write. `read_bytes`,
    `write_bytes`: bytes of devices; written ones count when pages become dirty. `syscr`: calls that read.
    """

    cpu_s: float | None = None
    rchar: int | None = None
    wchar: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    syscr: int | None = None


IO_COUNTS = Usage._fields[1:]


def usage(pids: Sequence[int]) -> Usage:
    """Return the sums over processes. A sum is None if one of the processes has no such count."""
    all_counts = [io_counts(pid) for pid in pids]
    sums = {}
    for name in IO_COUNTS:
        sums[name] = _sum_or_none([counts[name] for counts in all_counts])
    cpu_s = _sum_or_none([_cpu_s(pid) for pid in pids])
    return Usage(cpu_s, **sums)


def _sum_or_none(numbers: Sequence[Any]) -> Any:
    return None if None in numbers else sum(numbers)


def family_usage(pid: int) -> tuple[list[int], Usage]:
    """Return a process with its descendants, and their usage.

    Parents are read before their children. If a child ends in between, its counts go to its parent, and would
    be missing in the sum. So all processes are then read again.
    """
    for _ in range(FAMILY_TRIES):
        members = family(pid)
        used = usage(members)
        # A sum is None if a process ended before it was read, or if the kernel hides its counts.
        if None not in used and members == family(pid):
            break
    return members, used


def _cpu_s(pid: int) -> float | None:
    """Return the CPU seconds of a process and of its ended children; None if the process has ended.

    The kernel counts the process itself to the nanosecond, and its children to the tick (TICKS_PER_S).
    """
    try:
        # Linux makes the number of another process's CPU clock from its id, as in clock_getcpuclockid(3).
        used_s = time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None
    fields = _stat(pid)
    children_ticks = int(fields[_CHILDREN_USER_TICKS]) + int(fields[_CHILDREN_SYSTEM_TICKS])
    return used_s + children_ticks / TICKS_PER_S


def ended_children_faults(pids: Sequence[int]) -> int:
    """Return the page faults of the ended children of processes: it grows with the end of each child."""
    return sum(int(_stat(pid)[_CHILDREN_FAULTS]) for pid in pids)


def start_ticks(pid: int) -> int:
    """Return the start of a process in ticks since boot; 0 if it has ended."""
    return int(_stat(pid)[_START_TICKS])


def started_at(pid: int) -> float:
    """Return the start of a process in seconds since 1970."""
    uptime_s = float(read("/proc/uptime").split()[0])
    return time.time() - uptime_s + start_ticks(pid) / TICKS_PER_S


def command_line(pid: int) -> list[str]:
    """Return the argv of a process; [] if it has ended, and for a kernel thread."""
    return read(f"/proc/{pid}/cmdline", "surrogateescape").split("\0")[:-1]


def read_scheduling(pids: Iterable[int]) -> set[str]:
    """Return how processes are scheduled: {"nice 0, scheduler 0, processors 0 1"} if all are alike."""
    ways = set()
    for pid in pids:
        # A process that has ended is left out.
        with contextlib.suppress(OSError):
            nice = os.getpriority(os.PRIO_PROCESS, pid)
            scheduler = os.sched_getscheduler(pid)
            processors = " ".join(map(str, sorted(os.sched_getaffinity(pid))))
            ways.add(f"nice {nice}, scheduler {scheduler}, processors {processors}")
    return ways


def environment(pid: int) -> list[str]:
    """Return the variables of a process, such as "HOME=/root"; [] if they cannot be read."""
    return read_of(pid, "environ", "surrogateescape").split("\0")[:-1]


def io_counts(pid: int) -> dict[str, int | None]:
    """Return the counts of a process and of its ended children by IO_COUNTS: `{"rchar": 4711, ...}`.

    All are None if the kernel counts none, or hides those of an ended process from other users than root.
    """
    counts: dict[str, int | None] = dict.fromkeys(IO_COUNTS)
    # A line is like `rchar: 4711`.
    for line in read_of(pid, "io").splitlines():
        name, number = line.split(": ")
        if name in counts:
            counts[name] = int(number)
    return counts


def peak_memory_bytes(pid: int) -> int | None:
    """Return the sum of the peaks of a process and of its living descendants; None if it has ended."""
    total = own_peak_bytes(pid)
    if total is None:
        return None
    for member in family(pid)[1:]:
        # A descendant may have ended by now.
        total += own_peak_bytes(member) or 0
    return total


def own_peak_bytes(pid: int) -> int | None:
    kibibytes = number_in(f"/proc/{pid}/status", "VmHWM:")
    return None if kibibytes is None else kibibytes << 10
