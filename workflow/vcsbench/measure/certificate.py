"""The certificates of a cell's runs: what was seen before, during and after each of them.

Nothing is judged here: vcsbench.evidence.judgement does that, as often as its thresholds change.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import processes
from vcsbench.measure.meters import counters, instructions, known, residency, strangers, sync
from vcsbench.measure.meters.counters import Counters
from vcsbench.measure.meters.network import NetworkReads, network_output
from vcsbench.measure.server import Server
from vcsbench.processes import Usage
from vcsbench.subjects import Subject


class Served(NamedTuple):
    """The server at one moment: which process it is, its family, and what that has used so far.

    `ended` changes when a process of the family ends; pid 0 when the server does not run.
    """

    pid: int = 0
    start_ticks: int = 0
    family: tuple[int, ...] = ()
    ended: int = 0
    usage: Usage = Usage()

    @property
    def instance(self) -> tuple[int, int]:
        """What tells one start of a server from all others."""
        return self.pid, self.start_ticks


class Snapshot(NamedTuple):
    """What was counted at one moment, for the client's side (hyperfine and what it has run), the server
    and the machine."""

    machine: Counters
    client: Usage
    own_cpu_s: float
    server: Served
    network: NetworkReads | None = None


class Witness:
    """Takes the evidence of each run of a cell, timed or not: begin(), the run, end().

    `clients` are the processes below which the command runs. `certificates` has one per timed run;
    `warming` what was read in each run that did not count.
    """

    def __init__(
        self,
        reads: Subject | None,
        writes: Subject | None,
        server: Server | None,
        clearing: str,
    ) -> None:
        self.reads = reads
        self.writes = writes
        self.server = server
        self.clearing = clearing
        # Whether what is read can be asked without loading inodes.
        self.knows = bool(reads and reads.size and known.can_ask(*reads.folders))
        self.network = network_output(
            reads.folders if reads else (), writes.folders if writes else ()
        )
        # Whether it is waited after each run until what was written is on the device.
        self.syncs = False
        self.certificates: list[dict[str, Any]] = []
        self.warming: list[dict[str, Any]] = []
        self.cleared = False
        self.resident: residency.Residency | None = None
        self.resident_written: residency.Residency | None = None
        self.began: Snapshot | None = None
        self.timed = False
        self.setting: dict[str, Any] = {}
        self.counting: dict[str, instructions.Counting] = {}
        # The runs that each instance of the server has served, and what it read in the first.
        self.served: dict[tuple[int, int], list[int]] = {}

    def ask_after_clearing(self) -> bool:
        """Ask how much is in memory. Returns whether that has loaded inodes: then caches have to be cleared
        once more."""
        self.resident = self._resident_read()
        self.resident_written = _resident(self.writes)
        self.cleared = True
        return bool(self.reads and not self.knows) or self.resident_written is not None

    def begin(self, hyperfine: int, timed: bool) -> None:
        """A run comes next."""
        self.timed = timed
        sides = {"client": [hyperfine]}
        if timed and self.server and self.server.pid:
            sides["server"] = processes.family(self.server.pid)
        if timed:
            others = strangers.servers(sides.get("server", []))
            self.setting = counters.setting() | {"other_servers": others}
        self.began = self._snapshot(hyperfine)
        if timed:
            self.counting = instructions.count(sides)

    def end(self, hyperfine: int, last: bool = False) -> dict[str, Any] | None:
        """The run has ended, if one has begun: returns the certificate of a timed one.

        How much is in memory is asked after each run from cleared caches; where they are kept, after the last
        one: it tells of all of them.
        """
        counted = {side: counting.end() for side, counting in self.counting.items()}
        before, self.began, self.counting = self.began, None, {}
        if not before:
            return None
        after = self._snapshot(hyperfine)
        sync_s = sync.took_s(self.writes.folders[0]) if self.syncs and self.writes else None
        seen = {
            **_io("client", after.client - before.client),
            **(self._server(before.server, after.server) if self.server else {}),
            **counters.between(before.machine, after.machine),
            **self._network(before, after),
            **{f"{side}_instructions": number for side, number in counted.items()},
            "instructions_why_not": instructions.why_not(),
        }
        seen |= _others_cpu(seen, before, after)
        reads = self.served.setdefault(after.server.instance, []) if after.server.pid else []
        served = list(reads)
        reads.append(seen.get("server_rchar") or 0)
        if not self.timed:
            kept = ("client_read_bytes", "server_pid", "server_read_bytes", "server_rchar")
            self.warming.append({key: seen[key] for key in kept if key in seen})
            return None
        certificate = {
            **self._residency(last),
            **seen,
            **self.setting,
            **({} if sync_s is None else {"sync_s": sync_s}),
            "warming": list(self.warming),
        }
        if self.server:
            certificate["server_runs_before"] = len(served)
            certificate["server_first_rchar"] = served[0] if served else None
        self.certificates.append(certificate)
        return certificate

    def _snapshot(self, hyperfine: int) -> Snapshot:
        clients = [hyperfine]
        if not self.timed:
            clients.append(os.getpid())  # a run that warms up may be our own child
        return Snapshot(
            machine=counters.count(*_there(self.reads, self.writes)),
            client=processes.usage(clients),
            own_cpu_s=time.process_time(),
            server=_serving(self.server),
            network=self.network.read_counters() if self.network else None,
        )

    def _network(self, before: Snapshot, after: Snapshot) -> dict[str, Any]:
        if not self.network or before.network is None or after.network is None:
            return {}
        return self.network.between(before.network, after.network)

    def _residency(self, last: bool) -> dict[str, Any]:
        before, written, cleared = self.resident, self.resident_written, self.cleared
        self.resident, self.resident_written, self.cleared = None, None, False
        asked = cleared or last
        after = self._resident_read() if asked else None
        certificate: dict[str, Any] = {
            "cache_cleared_by": self.clearing if cleared else "",
            "subject_bytes": self.reads.size if self.reads else None,
            "resident_before": before.share if before else None,
            "resident_after": after.share if after else None,
            "resident_after_bytes": after.pages_bytes if after else None,
            "resident_of": after.coverage if after else "",
        }
        if self.writes:
            left = _resident(self.writes) if asked else None
            certificate |= {
                "written_resident_before": written.share if written else None,
                "written_resident_after": left.share if left else None,
            }
            certificate |= _parts(self.writes) if asked else {}
        return certificate

    def _resident_read(self) -> residency.Residency | None:
        if self.reads and self.knows:
            return known.ask(self.reads.size, *self.reads.folders)
        return _resident(self.reads)

    def _server(self, before: Served, after: Served) -> dict[str, Any]:
        assert self.server
        changed = before.family != after.family or before.ended != after.ended
        seen: dict[str, Any] = {
            "server_kind": self.server.kind,
            "server_pid_before": before.pid,
            "server_pid": after.pid,
            "server_same": bool(after.pid) and before.instance == after.instance,
            "server_processes_changed": changed,
        }
        if not seen["server_same"]:
            return seen
        used = after.usage - before.usage
        started = processes.started_at(after.pid)
        return seen | {
            "server_started_at": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(),
            "server_age_s": round(time.time() - started, 3),
            "server_argv": processes.command_line(after.pid),
            "server_build": build(after.pid),
            "server_cpu_s": used.cpu_s,
            "server_peak_memory_bytes": processes.peak_memory_bytes(after.pid),
            # In a container, root may not ask about a server that has become another user.
            **_io("server", used if processes.can_read_io(after.pid) else None),
        }


def _there(*subjects: Subject | None) -> list[Path]:
    """What lies in the folders of subjects; of what is not there yet, the folder in which it will be."""
    folders = [folder for subject in subjects if subject for folder in subject.folders]
    return [folder if folder.exists() else folder.parent for folder in folders]


def _resident(subject: Subject | None) -> residency.Residency | None:
    there = [folder for folder in subject.folders if folder.exists()] if subject else []
    return residency.ask(*there) if there else None


def _parts(subject: Subject) -> dict[str, Any]:
    """How much of each part of a subject is in memory, where it has such."""
    found = {name: residency.ask(*paths) for name, paths in subject.parts().items()}
    return {f"{name}_resident": there.share if there else None for name, there in found.items()}


def _io(side: str, used: Usage | None) -> dict[str, Any]:
    """What a side has read and written; empty where that is not known."""
    names = ("read_bytes", "write_bytes", "rchar", "wchar", "syscr")
    return {f"{side}_{name}": used and getattr(used, name) for name in names}


def _others_cpu(seen: dict[str, Any], before: Snapshot, after: Snapshot) -> dict[str, float]:
    """CPU time of everybody but client, server and vcsbench itself, as far as the kernel's ticks tell, and
    its share of all cores."""
    client = after.client.cpu_s - before.client.cpu_s
    own = after.own_cpu_s - before.own_cpu_s
    rest = max(0.0, seen["busy_s"] - client - (seen.get("server_cpu_s") or 0.0) - own)
    cores = os.cpu_count() or 1
    return {
        "others_cpu_s": round(rest, 3),
        "others_cpu_pct": round(100 * rest / (cores * seen["window_s"]), 1),
    }


def _serving(server: Server | None) -> Served:
    pid = server.pid if server else 0
    if not pid:
        return Served()
    family = processes.family(pid)
    return Served(
        pid,
        processes.start_ticks(pid),
        tuple(sorted(family)),
        processes.ended_children(family),
        processes.usage(family),
    )


def build(pid: int) -> str:
    """The binary that a process runs: its path and the beginning of its digest."""
    try:
        path = os.readlink(f"/proc/{pid}/exe")
        return f"{path} sha256:{_digest(path, os.stat(f'/proc/{pid}/exe').st_mtime_ns)}"
    except OSError:
        return ""


@cache
def _digest(path: str, _changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
