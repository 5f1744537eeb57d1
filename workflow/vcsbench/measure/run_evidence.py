"""Collect the evidence of each run of a cell: counters and caches before and after it.

Nothing is judged here. vcsbench.evidence judges again whenever its thresholds change.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from vcsbench import kernel, processes
from vcsbench.measure import caches, counters
from vcsbench.measure.server import Server, other_servers
from vcsbench.processes import Usage
from vcsbench.subjects import Subject

if TYPE_CHECKING:
    from vcsbench.records import Evidence, WarmUpReads


WARM_UP_KEYS = ("client_read_bytes", "server_pid", "server_read_bytes", "server_rchar")
IO_KEYS = ("read_bytes", "write_bytes", "rchar", "wchar", "syscr")


class ServerUse(NamedTuple):
    """A server at one moment: its pid (0 if it does not run) and start, its processes, and their usage.

    `processes` changes when one of them starts or ends.
    """

    instance: tuple[int, int] = (0, 0)
    processes: tuple[object, ...] = ()
    usage: Usage = Usage()

    @property
    def pid(self) -> int:
        return self.instance[0]


class Snapshot(NamedTuple):
    """Counters of the machine, the client (hyperfine and its children) and the server at one moment."""

    machine: counters.Counters
    client: Usage
    own_cpu_s: float
    server: ServerUse
    network: counters.Counts


class EvidenceCollector:
    """Collect the evidence of each run, timed or not: begin(), the run, end().

    `warming` has the reads of the untimed runs. `measures_sync` waits after each run until its output
    is on the device.
    """

    def __init__(
        self,
        inputs: Subject | None,
        outputs: Subject | None,
        server: Server | None,
        clearing: str,
        measures_sync: bool = False,
    ) -> None:
        self.input = inputs
        self.output = outputs
        self.server = server
        self.clearing = clearing
        self.measures_sync = measures_sync
        # Residency of the input can then be queried without loading inodes.
        self.by_names = bool(inputs and inputs.size and caches.has_cached_names(*inputs.folders))
        self.network = counters.network_output(
            inputs.folders if inputs else (), outputs.folders if outputs else ()
        )
        self.warming: list[WarmUpReads] = []
        # The residency of input and output after caches were cleared.
        self.cleared: tuple[caches.Residency | None, caches.Residency | None] | None = None
        self.before: Snapshot | None = None
        self.is_timed = False
        self.state: Evidence = {}
        self.instructions: dict[str, counters.InstructionCounter] = {}
        self.server_reads: dict[tuple[int, int], list[int]] = {}

    def query_cleared(self) -> bool:
        """Query the residency after caches were cleared.

        Return True if that has loaded inodes: caches must then be cleared again.
        """
        self.cleared = self._query_input(), _query(self.output)
        return bool(self.input and not self.by_names) or self.cleared[1] is not None

    def begin(self, hyperfine: int, is_timed: bool) -> None:
        self.is_timed = is_timed
        sides = {"client": [hyperfine]}
        if is_timed:
            if self.server and self.server.pid:
                sides["server"] = processes.family(self.server.pid)
            self.state = {
                "memory_available_bytes": kernel.memory().available,
                "other_servers": other_servers(sides.get("server", [])),
            }
        self.before = self._snapshot(hyperfine)
        if is_timed:
            self.instructions = counters.count_instructions(sides)

    def end(self, hyperfine: int, is_last: bool = False) -> Evidence | None:
        """Return the evidence of a timed run, if one has begun.

        Residency is queried after each run with cleared caches, otherwise only after the last run.
        """
        counts = {side: counter.end() for side, counter in self.instructions.items()}
        before, self.before, self.instructions = self.before, None, {}
        if not before:
            return None
        after = self._snapshot(hyperfine)
        sync: Evidence = {}
        if self.measures_sync and self.output:
            sync["sync_s"] = counters.sync_seconds(self.output.folders[0])
        seen: Evidence = {
            **_io("client", after.client - before.client),
            **(self._server(before.server, after.server) if self.server else {}),
            **counters.counters_between(before.machine, after.machine),
            **(self.network.facts() if self.network else {}),
            **cast("Evidence", counters.counts_between(before.network, after.network)),
            **cast("Evidence", {f"{side}_instructions": n for side, n in counts.items()}),
            "instructions_why_not": counters.why_no_instructions(),
        }
        seen |= _others_cpu(seen, before, after)
        reads = self.server_reads.setdefault(after.server.instance, []) if after.server.pid else []
        of_server: Evidence = {
            "server_runs_before": len(reads),
            "server_first_rchar": reads[0] if reads else None,
        }
        reads.append(seen.get("server_rchar") or 0)
        if not self.is_timed:
            reads_now = {key: value for key, value in seen.items() if key in WARM_UP_KEYS}
            self.warming.append(cast("WarmUpReads", reads_now))
            return None
        return {
            **self._residency(is_last),
            **seen,
            **self.state,
            **sync,
            "warming": list(self.warming),
            **(of_server if self.server else {}),
        }

    def _snapshot(self, hyperfine: int) -> Snapshot:
        subjects = [subject for subject in (self.input, self.output) if subject]
        folders = [folder for subject in subjects for folder in subject.folders]
        return Snapshot(
            machine=counters.read_counters(*(f if f.exists() else f.parent for f in folders)),
            client=processes.usage([hyperfine, *[os.getpid()] * (not self.is_timed)]),
            own_cpu_s=time.process_time(),
            server=_server_use(self.server),
            network=self.network.counts() if self.network else {},
        )

    def _residency(self, is_last: bool) -> Evidence:
        is_cleared, (before, written) = bool(self.cleared), self.cleared or (None, None)
        self.cleared = None
        is_queried = is_cleared or is_last
        after = self._query_input() if is_queried else None
        evidence: Evidence = {
            "cache_cleared_by": self.clearing if is_cleared else "",
            "subject_bytes": self.input.size if self.input else None,
            "resident_before": before and before.share,
            "resident_after": after and after.share,
            "resident_after_bytes": after and after.pages_bytes,
            "resident_of": after.coverage if after else "",
        }
        if self.output:
            evidence["written_resident_before"] = written and written.share
            for name, paths in self.output.parts().items() if is_queried else ():
                part = caches.resident(*paths)
                evidence |= cast("Evidence", {f"{name}_resident": part and part.share})
        return evidence

    def _query_input(self) -> caches.Residency | None:
        if self.input and self.by_names:
            return caches.resident_by_names(self.input.size, *self.input.folders)
        return _query(self.input)

    def _server(self, before: ServerUse, after: ServerUse) -> Evidence:
        assert self.server
        evidence: Evidence = {
            "server_kind": self.server.kind,
            "server_pid": after.pid,
            "server_same": bool(after.pid) and before.instance == after.instance,
            "server_processes_changed": before.processes != after.processes,
        }
        if not evidence["server_same"]:
            return evidence
        used = after.usage - before.usage
        started = processes.started_at(after.pid)
        return evidence | {
            "server_started_at": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(),
            "server_age_s": round(time.time() - started, 3),
            "server_argv": processes.command_line(after.pid),
            "server_build": binary_of(after.pid),
            "server_cpu_s": used.cpu_s,
            "server_peak_memory_bytes": processes.peak_memory_bytes(after.pid),
            # In a container, root may not read the I/O of a server that runs as another user.
            **_io("server", used if processes.can_read_io(after.pid) else None),
        }


def _query(subject: Subject | None) -> caches.Residency | None:
    existing = [folder for folder in subject.folders if folder.exists()] if subject else []
    return caches.resident(*existing) if existing else None


def _io(side: str, used: Usage | None) -> Evidence:
    return cast("Evidence", {f"{side}_{key}": used and getattr(used, key) for key in IO_KEYS})


def _others_cpu(seen: Evidence, before: Snapshot, after: Snapshot) -> Evidence:
    """Return the CPU time of processes other than client, server and vcsbench, and its share of all cores.

    The kernel counts it in ticks.
    """
    client = after.client.cpu_s - before.client.cpu_s
    own = after.own_cpu_s - before.own_cpu_s
    rest = max(0.0, seen["busy_s"] - client - (seen.get("server_cpu_s") or 0.0) - own)
    cores = os.cpu_count() or 1
    return {
        "others_cpu_s": round(rest, 3),
        "others_cpu_pct": round(100 * rest / (cores * seen["window_s"]), 1),
    }


def _server_use(server: Server | None) -> ServerUse:
    pid = server.pid if server else 0
    if not pid:
        return ServerUse()
    family = processes.family(pid)
    members = (*sorted(family), processes.ended_children(family))
    return ServerUse((pid, processes.start_ticks(pid)), members, processes.usage(family))


def binary_of(pid: int) -> str:
    try:
        path = os.readlink(f"/proc/{pid}/exe")
        return f"{path} sha256:{_digest(path, os.stat(f'/proc/{pid}/exe').st_mtime_ns)}"
    except OSError:
        return ""


@cache
def _digest(path: str, _modified_ns: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
