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


def main(report: str, number: int, mark: str, argv: list[str]) -> int:
    """Run the clients and write the report. If a client fails, end all others and return its exit code.

    Like a shell, return 128 plus the number of the signal that ended a client.
    """
    starts = mmap(-1, 8 * number)
    gate, gate_writer = os.pipe()
    began = _now()
    clients = {}
    for n in range(number):
        own_argv = [word.replace(mark, str(n + 1)) for word in argv]
        clients[_fork(own_argv, gate, gate_writer, starts, 8 * n)] = n
    os.close(gate)
    released = _now()
    os.close(gate_writer)
    ended: dict[int, tuple[int, float, float]] = {}
    while len(ended) < number:
        pid, status, used = os.wait4(-1, 0)
        if status:
            for other in clients:
                if clients[other] not in ended and other != pid:
                    os.kill(other, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(status)
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exits with {code}"
            print(f"client {clients[pid] + 1} of {number} {how}", file=sys.stderr)
            return code if code > 0 else 128 - code
        ended[clients[pid]] = (_now(), used.ru_utime, used.ru_stime)
    started = [int.from_bytes(starts[8 * n : 8 * n + 8], "little") for n in range(number)]
    # Without the module json: its import would be part of the measured time.
    times = [
        f'{{"went_s": {(started[n] - released) / NS:.6f}, "ended_s": {(ended[n][0] - released) / NS:.6f}, '
        f'"user_s": {ended[n][1]:.6f}, "system_s": {ended[n][2]:.6f}}}'
        for n in range(number)
    ]
    last = max(end for end, _, _ in ended.values())
    with open(report, "w") as file:
        file.write(
            f'{{"forking_s": {(released - began) / NS:.6f}, "all_s": {(last - released) / NS:.6f}, '
            f'"clients": [{", ".join(times)}]}}'
        )
    return 0


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _fork(argv: list[str], gate: int, gate_writer: int, starts: mmap, offset: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.close(gate_writer)
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    # A waiting client precedes the commands of released ones. An ordinary user may not set this.
    try:  # noqa: SIM105 - contextlib takes as long to import as all the rest
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass
    os.read(gate, 1)
    starts[offset : offset + 8] = _now().to_bytes(8, "little")
    os.setpriority(os.PRIO_PROCESS, 0, priority)
    os.sched_yield()
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
