"""Run a command N times at once, as hyperfine's timed command.

    python -S launcher.py REPORT N MARK ARGUMENT...

In the arguments of each client, its number (from 1) replaces MARK. All clients wait at one pipe until the
last has started, and are released together. REPORT gets their times and the time of all forks as JSON.
The module imports nothing of vcsbench and little of Python: its own start is part of the measured time.
"""

import os
import signal
import sys
import time
from mmap import mmap

NS = 10**9
# The bytes of one start in the shared memory.
START_BYTES = 8
# The exit code of a shell for a program that cannot be run.
CANNOT_RUN = 127


class Client:
    """A client: its number (from 0), and the time of its end and its CPU seconds, both 0 while it runs."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended_ns = 0
        self.user_s = 0.0
        self.system_s = 0.0


def main(report: str, client_count: int, mark: str, argv: list[str]) -> int:
    """Run `client_count` clients at once, write the report, and return the exit code.

    If a client fails, end all others, write no report, and return its exit code: 128 plus the number of a
    signal, as in a shell, or CANNOT_RUN if it cannot be started.
    """
    # Memory that is shared with the clients, which write the times of their starts to it.
    starts = mmap(-1, START_BYTES * client_count)
    # The two ends of a pipe, to which nothing is written. Each client waits in a read of `gate`. The read
    # returns when all copies of `gate_writer` are closed.
    gate, gate_writer = os.pipe()
    began_ns = _now_ns()
    clients: dict[int, Client] = {}  # by pid
    for number in range(client_count):
        client_argv = [word.replace(mark, str(number + 1)) for word in argv]
        try:
            pid = os.fork()
        except OSError as error:
            # The end of this process opens the gate, and nobody would wait for the clients behind it.
            _end_all(clients)
            name = f"client {number + 1} of {client_count}"
            print(f"{name} cannot be started: {error.strerror}", file=sys.stderr)
            return CANNOT_RUN
        if not pid:
            # This is the client. The call does not return.
            _run_client(client_argv, gate, gate_writer, starts, number)
        clients[pid] = Client(number)
    os.close(gate)
    released_ns = _now_ns()
    # Each client closes its own copy before it waits. So with this copy closed, all clients go on.
    os.close(gate_writer)

    for _ in range(client_count):
        # The next client that ends, whichever it is.
        pid, status, usage = os.wait4(-1, 0)
        ended_ns = _now_ns()
        client = clients[pid]
        client.ended_ns = ended_ns
        if status:
            _end_all(clients)
            code = os.waitstatus_to_exitcode(status)
            # A negative code is the negated number of a signal.
            how = f"exits with {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
            print(f"client {client.number + 1} of {client_count} {how}", file=sys.stderr)
            return code if code > 0 else 128 - code
        client.user_s = usage.ru_utime
        client.system_s = usage.ru_stime
    _write_report(report, list(clients.values()), starts, began_ns, released_ns)
    return 0


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _run_client(argv: list[str], gate: int, gate_writer: int, starts: mmap, number: int) -> None:
    """Wait at a gate, and execute the command `argv` in the place of this process. Never return.

    The gate opens when all copies of `gate_writer` are closed. Then the client, `number` from 0, writes the
    time to its START_BYTES in `starts`.
    """
    # The client would wait for itself if its copy of the writer stayed open.
    os.close(gate_writer)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    # With the highest priority, a client that still waits at the gate gets a processor before the commands of
    # clients that have passed it. So all pass at nearly the same time. An ordinary user may not set this.
    try:  # noqa: SIM105 - an import of contextlib would be part of the measured time
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass
    os.read(gate, 1)
    offset = START_BYTES * number
    starts[offset : offset + START_BYTES] = _now_ns().to_bytes(START_BYTES, "little")
    # The command has the usual priority.
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    # The other clients get their turn before this one executes its command.
    os.sched_yield()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(CANNOT_RUN)


def _end_all(clients: dict[int, Client]) -> None:
    for pid, client in clients.items():
        if not client.ended_ns:
            os.kill(pid, signal.SIGKILL)


def _write_report(
    report: str, clients: list[Client], starts: mmap, began_ns: int, released_ns: int
) -> None:
    """Write the times of all clients as JSON, in seconds. Starts and ends count from the common release.

    Example (records.Launched), shortened: {"forking_s": 0.002, "all_s": 1.5, "clients": [{"went_s": 0.0001,
    "ended_s": 1.5, "user_s": 0.2, "system_s": 0.1}]}. `went_s` is the start of a client.
    """
    # Without the module json: its import would be part of the measured time.
    times = []
    for client in clients:
        offset = START_BYTES * client.number
        started_ns = int.from_bytes(starts[offset : offset + START_BYTES], "little")
        went_s = (started_ns - released_ns) / NS
        ended_s = (client.ended_ns - released_ns) / NS
        times.append(
            f'{{"went_s": {went_s:.6f}, "ended_s": {ended_s:.6f}, '
            f'"user_s": {client.user_s:.6f}, "system_s": {client.system_s:.6f}}}'
        )
    forking_s = (released_ns - began_ns) / NS
    all_s = (max(client.ended_ns for client in clients) - released_ns) / NS
    with open(report, "w") as file:
        file.write(
            f'{{"forking_s": {forking_s:.6f}, "all_s": {all_s:.6f}, "clients": [{", ".join(times)}]}}'
        )


if __name__ == "__main__":
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
