"""Send requests of many clients to a server for some time, as hyperfine's timed command.

    python -S traffic.py SPECIFICATION

Each request is a new process, such as `svn ls -R URL`. The specification is a JSON file (of CellSetup),
and names the file for the report (records.Traffic).

- Closed loop: each client starts its next request when its last one has ended.
- Open loop: requests arrive at random times (a Poisson process with a fixed seed), whether the server is
  fast or slow. A request that finds all clients busy waits until one is free. Its latency counts from its
  arrival: otherwise a slow server would delay requests that nobody counts ("coordinated omission").

The module imports nothing of vcsbench and little of Python: its own processor time is taken from the server.
"""

import json
import os
import random
import signal
import sys
import time
from collections import deque
from typing import Any, NamedTuple

NS = 10**9
# More failures end the run: the server is gone, or the command is wrong.
MOST_FAILURES = 20
# How often the program checks that its parent still lives.
LONGEST_WAIT_S = 1.0
# The size of a changed file, about.
CHANGE_LINES = 40
ERROR_BYTES = 1 << 12
ERROR_LINES = 3
READ, COMMIT = "read", "commit"


class Requests:
    """All requests of one kind: `argvs` has the command of each client, `changes` the file that it commits.

    Clients have numbers from 0: argvs[2] is the command of client 2. Times are in nanoseconds since the start
    of the traffic.
    """

    def __init__(self, argvs: list[list[str]], changes: list[str]) -> None:
        self.argvs = argvs
        self.changes = changes
        # The numbers of clients without a request, and the planned times of requests without a client.
        self.idle = deque(range(len(argvs)))
        self.waiting: deque[int] = deque()
        # Three times of each request that succeeded: planned[i], started[i] and ended[i] are of one request.
        self.planned: list[int] = []
        self.started: list[int] = []
        self.ended: list[int] = []
        # Numbers by exit code, such as {"1": 2}.
        self.failed: dict[str, int] = {}
        # The number of commits that were started so far.
        self.number = 0

    def report(self) -> dict[str, object]:
        """Return the requests as records.SentRequests: {"planned_s": [0.5, ...], "failed": {"1": 2}, ...}."""
        return {
            "planned_s": [_seconds(time_ns) for time_ns in self.planned],
            "started_s": [_seconds(time_ns) for time_ns in self.started],
            "ended_s": [_seconds(time_ns) for time_ns in self.ended],
            # At the end of the traffic, these still wait for a client.
            "unstarted_s": [_seconds(time_ns) for time_ns in self.waiting],
            "failed": self.failed,
        }


class RunningRequest(NamedTuple):
    """A request that runs: its kind (READ or COMMIT), the number of its client, and its times."""

    kind: str
    client: int
    planned: int
    started: int


class TrafficGenerator:
    """The requests of all clients, from the first one to the end of the last one."""

    def __init__(self, specification: dict[str, Any]) -> None:
        """Plan the requests of a specification, and open the file for their errors.

        Example: {"seconds": 10, "per_s": 0, "seed": 1, "readers": 4, "read": ["svn", "ls", URL], "commits":
        [{"argv": ["svnmucc", "put", FILE, URL], "change": FILE}], "errors": FILE}. These are 4 clients that
        read, and 1 that commits. Before each commit, the program writes another content to `change`. The
        specification also has "report", for main().
        """
        read_argvs = [specification["read"]] * specification["readers"]
        commit_argvs = [commit["argv"] for commit in specification["commits"]]
        changes = [commit["change"] for commit in specification["commits"]]
        self.requests = {READ: Requests(read_argvs, []), COMMIT: Requests(commit_argvs, changes)}
        self.length = round(specification["seconds"] * NS)
        # The average rate of an open loop, in requests a second; 0 for a closed loop.
        self.per_s = specification["per_s"]
        # The planned times and kinds of the requests to come. A closed loop plans none.
        self.arrivals: deque[tuple[int, str]] = deque()
        if self.per_s:
            self.arrivals = self._plan_arrivals(specification["seed"])
        self.errors = os.open(
            specification["errors"], os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600
        )
        self.null_device = os.open(os.devnull, os.O_RDWR)
        self.parent = os.getppid()
        # By the pid of the request's process.
        self.running: dict[int, RunningRequest] = {}
        # The number of failed requests of both kinds.
        self.failures = 0
        # The number of requests that arrived when no client was free for them.
        self.late = 0
        # The processor time of all requests that have ended.
        self.requests_cpu_s = 0.0
        # The start of the traffic by the monotonic clock, in nanoseconds. run() sets it.
        self.began = 0

    def _plan_arrivals(self, seed: int) -> deque[tuple[int, str]]:
        """Return the times and kinds of all requests of an open loop, such as [(52000000, "read"), ...].

        The kinds have the shares of readers and committers among the clients. The same seed and rate give the
        same times, for any number of clients.
        """
        generator = random.Random(seed)
        times: list[int] = []
        # In a Poisson process, the time between two arrivals has an exponential distribution.
        arrival_s = generator.expovariate(self.per_s)
        while arrival_s * NS < self.length:
            times.append(round(arrival_s * NS))
            arrival_s += generator.expovariate(self.per_s)
        # Of 3 readers and 1 committer, 3 of 4 kinds are READ.
        kinds = [READ] * len(self.requests[READ].argvs)
        kinds += [COMMIT] * len(self.requests[COMMIT].argvs)
        # The kinds are drawn after all times, so that the number of clients does not change the times.
        return deque((time_ns, generator.choice(kinds)) for time_ns in times)

    def run(self) -> int:
        """Send requests for the duration of the traffic, and return 0 when all that were started have ended.

        After more than MOST_FAILURES failures, or if the parent has ended, end all requests, and return 1.
        """
        # The end of a request sends SIGCHLD. The signal is blocked, so that it is not lost if it comes just
        # before sigtimedwait().
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        self.began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        while True:
            now = self._now()
            self._queue_arrivals(now)
            if now < self.length:
                self._start_waiting(now)
            elif not self.running:
                return 0
            # Wait until a request ends, the next one arrives or the traffic ends, for at most LONGEST_WAIT_S.
            wait_s = LONGEST_WAIT_S
            # The clock is read again, because starting requests takes time.
            now = self._now()
            # After the end of the traffic, only requests that run are awaited.
            if now < self.length:
                next_event = self.arrivals[0][0] if self.arrivals else self.length
                # If the next request has arrived in the meantime, there is nothing to wait for.
                until_event = max(next_event - now, 0)
                wait_s = min(until_event / NS, LONGEST_WAIT_S)
            signal.sigtimedwait([signal.SIGCHLD], wait_s)
            self._reap()
            if self.failures > MOST_FAILURES:
                self.end_all()
                errors = " ".join(self.last_errors())
                print(f"{self.failures} requests failed: {errors}", file=sys.stderr)
                return 1
            # If the parent has ended, this program is the child of another process.
            if os.getppid() != self.parent:
                self.end_all()
                return 1

    def _now(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.began

    def _queue_arrivals(self, now: int) -> None:
        """Move the planned requests that have arrived by now to those that wait for a client.

        All arrive before the end of the traffic. A request that no client starts until then is reported as
        unstarted.
        """
        while self.arrivals and self.arrivals[0][0] <= now:
            planned, kind = self.arrivals.popleft()
            requests = self.requests[kind]
            # Requests that already wait get the idle clients first. If no client is left, this one is late.
            if len(requests.waiting) >= len(requests.idle):
                self.late += 1
            requests.waiting.append(planned)

    def _start_waiting(self, now: int) -> None:
        """Start the requests that wait, as far as clients are idle.

        In a closed loop, each idle client starts a request.
        """
        is_closed_loop = self.per_s == 0
        for kind, requests in self.requests.items():
            if is_closed_loop:
                # A request arrives for each idle client. _start() replaces its time.
                requests.waiting.extend([now] * len(requests.idle))
            while requests.waiting and requests.idle:
                client = requests.idle.popleft()
                planned = requests.waiting.popleft()
                self._start(kind, client, planned)

    def _start(self, kind: str, client: int, planned: int) -> None:
        """Start a request of a client; `planned` is its arrival."""
        requests = self.requests[kind]
        if kind == COMMIT:
            # Each commit needs a content of its file that differs from the last one.
            requests.number += 1
            line = f"committer {client + 1}, request {requests.number}\n"
            with open(requests.changes[client], "w") as file:
                file.write(line * CHANGE_LINES)
        argv = requests.argvs[client]
        started = self._now()
        # The p is for the PATH, on which a program such as git is found.
        pid = os.posix_spawnp(
            argv[0],
            argv,
            os.environ,
            # Standard input, output and errors.
            file_actions=[
                (os.POSIX_SPAWN_DUP2, self.null_device, 0),
                (os.POSIX_SPAWN_DUP2, self.null_device, 1),
                (os.POSIX_SPAWN_DUP2, self.errors, 2),
            ],
            # A request must not inherit that SIGCHLD is blocked.
            setsigmask=[],
        )
        # In a closed loop, a request arrives at the moment in which its client sends it.
        arrival = planned if self.per_s else started
        self.running[pid] = RunningRequest(kind, client, arrival, started)

    def _reap(self) -> None:
        """Record all requests that have ended, and make their clients idle."""
        while self.running:
            # -1: any child. WNOHANG: the pid is 0 if no child has ended.
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if not pid:
                return
            ended = self._now()
            request = self.running.pop(pid)
            requests = self.requests[request.kind]
            requests.idle.append(request.client)
            self.requests_cpu_s += used.ru_utime + used.ru_stime
            # Only requests that succeed have times in the report.
            if status:
                code = str(os.waitstatus_to_exitcode(status))
                requests.failed[code] = requests.failed.get(code, 0) + 1
                self.failures += 1
            else:
                requests.planned.append(request.planned)
                requests.started.append(request.started)
                requests.ended.append(ended)

    def end_all(self) -> None:
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)

    def last_errors(self) -> list[str]:
        """Return the last lines that requests have printed as errors."""
        size = os.fstat(self.errors).st_size
        text = os.pread(self.errors, ERROR_BYTES, max(0, size - ERROR_BYTES))
        return text.decode(errors="replace").splitlines()[-ERROR_LINES:]

    def report(self) -> dict[str, object]:
        """Return the report of the traffic (records.Traffic), by kind of request and for both together."""
        times = os.times()
        return {
            **{kind: requests.report() for kind, requests in self.requests.items()},
            "late": self.late,
            "requests_cpu_s": round(self.requests_cpu_s, 6),
            "generator_cpu_s": round(times.user + times.system, 6),
            "errors": self.last_errors(),
        }


def _seconds(time_ns: int) -> float:
    return round(time_ns / NS, 6)


def main(path: str) -> int:
    """Send the requests of a specification, a JSON file, and write the report. Return the exit code."""
    with open(path) as file:
        specification = json.load(file)
    traffic = TrafficGenerator(specification)
    try:
        code = traffic.run()
    except OSError as error:
        # The command of a request cannot be run, for example. Earlier requests may still run.
        traffic.end_all()
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        # The code of a shell for a program that cannot be run.
        return 127
    if code == 0:
        with open(specification["report"], "w") as file:
            json.dump(traffic.report(), file)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
