"""Runs a command N times at once: python -S launcher.py REPORT N MARK ARGUMENT..., as hyperfine's timed
command.

Each of the N has its number, from 1, in the place of MARK in its arguments. All of them wait, started, at
one pipe, and are let go together; what each took is written to REPORT as JSON. It imports nothing of
vcsbench and hardly anything else, for its own start is in what hyperfine times: the report says how much
that is.
"""

import os
import signal
import sys
import time
from mmap import mmap

NS = 10**9


def main(report: str, number: int, mark: str, argv: list[str]) -> int:
    """Run them and write the report. If one of them fails, end all, and return its exit code.

    The code of one that a signal ended is 128 and the number of the signal, as a shell has it.
    """
    marks = mmap(-1, 8 * number)  # shared with what is forked: when each of them went
    wait_at, let_go = os.pipe()
    began = _now()
    clients = {}
    for n in range(number):
        own = [word.replace(mark, str(n + 1)) for word in argv]
        clients[_fork(own, wait_at, let_go, marks, 8 * n)] = n
    os.close(wait_at)
    released = _now()
    os.close(let_go)
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
    went = [int.from_bytes(marks[8 * n : 8 * n + 8], "little") for n in range(number)]
    told = [
        f'{{"went_s": {(went[n] - released) / NS:.6f}, "ended_s": {(ended[n][0] - released) / NS:.6f}, '
        f'"user_s": {ended[n][1]:.6f}, "system_s": {ended[n][2]:.6f}}}'
        for n in range(number)
    ]
    last = max(end for end, _, _ in ended.values())
    with open(report, "w") as file:
        file.write(
            f'{{"forking_s": {(released - began) / NS:.6f}, "all_s": {(last - released) / NS:.6f}, '
            f'"clients": [{", ".join(told)}]}}'
        )
    return 0


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _fork(argv: list[str], wait_at: int, let_go: int, marks: mmap, at: int) -> int:
    """Start one that waits, then notes when it goes at `at` of `marks`, and becomes the command."""
    pid = os.fork()
    if pid:
        return pid
    os.close(let_go)
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    # One that has gone already leaves the core to those that are still to go. It takes a right to do so.
    try:  # noqa: SIM105 - contextlib takes as long to import as all the rest
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass
    os.read(wait_at, 1)  # returns when nobody can write any more
    marks[at : at + 8] = _now().to_bytes(8, "little")
    os.setpriority(os.PRIO_PROCESS, 0, usual)
    os.sched_yield()  # the others wait for a core, too: all go before any of them computes
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
    os._exit(127)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
