"""Collect the evidence of each run of a cell: counters and caches before and after it.

Nothing is judged here. vcsbench.evidence judges again whenever its thresholds change.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vcsbench import kernel, processes
from vcsbench.measure import caches, counters
from vcsbench.measure.counters import Counts
from vcsbench.measure.server import Server, other_servers
from vcsbench.subjects import Subject

if TYPE_CHECKING:
    from vcsbench.records import Evidence, WarmUpReads


# The kernel has the CPU time of ended children, as of a forking svnserve, in whole ticks. Below this
# time, a tick of user and one of system time would be more than a tenth.
COARSE_S = 20 * counters.TICK_S
TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
WARM_UP_KEYS = (
    *("client_read_bytes", "server_pid", "server_read_bytes", "server_rchar"),
    "server_wchar",
)


class Snapshot(NamedTuple):
    """Counters of the machine, the client (hyperfine and its children) and the server at one moment.

    `server` is the server's pid (0 if it does not run) and start. `server_processes` change when one of its
    processes starts or ends.
    """

    counts: Counts
    server: tuple[int, int] = (0, 0)
    server_processes: tuple[int, ...] = ()


class EvidenceCollector:
    """Collect the evidence of each run, timed or not: begin(), the run, end().

    The hook that calls end() has started by then, so the instructions of a run include its start.
    begin_hook() and the end() in the next hook count those of a start alone, which are subtracted.
    `clearing` is the way to clear caches. `measures_sync` waits after each run until its output is on the
    device. `warming` has the reads of the untimed runs.
    """

    def __init__(
        self,
        read: Subject | None,
        written: Subject | None,
        server: Server | None,
        clearing: str,
        measures_sync: bool = False,
    ) -> None:
        self.input, self.output, self.server = read, written, server
        self.clearing, self.measures_sync = clearing, measures_sync
        self.warming: list[WarmUpReads] = []
        inputs, outputs = (subject.folders if subject else [] for subject in (read, written))
        # Residency of the input can then be queried without loading inodes.
        self.by_names = bool(read and read.size and caches.has_cached_names(*inputs))
        self.network = counters.network_output(inputs, outputs)
        # The residency of input and output after caches were cleared.
        self.cleared: tuple[caches.Residency | None, caches.Residency | None] | None = None
        self.before: Snapshot | None = None
        self.is_timed = False
        self.state: dict[str, Any] = {}
        self.instructions: dict[str, counters.InstructionCounter] = {}
        self.hook_instructions: int | None = None
        # The bytes that a server has read in each run.
        self.server_reads: dict[tuple[int, int], list[int | None]] = {}

    def query_cleared(self) -> bool:
        """Query the residency after caches were cleared.

        Return True if that has loaded inodes: caches must then be cleared again.
        """
        self.cleared = self._query_input(), _query(self.output)
        return bool(self.input and not self.by_names) or self.cleared[1] is not None

    def begin_hook(self, hyperfine: int) -> None:
        """Count the instructions between this hook and the next one, without a run between them."""
        self.instructions = counters.count_instructions({"client": [hyperfine]})

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
        # The shell of this hook ends within the run, and does not belong to it.
        self.before = self._snapshot(processes.family(hyperfine) if is_timed else [hyperfine])
        if is_timed:
            # hyperfine starts the run as soon as this hook ends.
            self.state["started_at"] = datetime.datetime.now(datetime.UTC).strftime(TIME_FORMAT)
            self.instructions = counters.count_instructions(sides)

    def end(self, hyperfine: int, is_last: bool = False) -> Evidence | None:
        """Return the evidence of a timed run, if one has begun.

        Residency is queried after each run with cleared caches, otherwise only after the last run.
        """
        instructions = {f"{side}_instructions": c.end() for side, c in self.instructions.items()}
        before, self.before, self.instructions = self.before, None, {}
        client, hook = instructions.get("client_instructions"), self.hook_instructions
        if not before:
            self.hook_instructions = client
            return None
        if instructions:
            instructions["client_instructions"] = (
                None if client is None or hook is None else client - hook
            )
        after = self._snapshot([hyperfine])
        synced = {}
        if self.measures_sync and self.output:
            synced["sync_s"] = counters.sync_seconds(self.output.folders[0])
        counts = counters.counters_between(before.counts, after.counts)
        client_s, own_s = counts.pop("client_cpu_s"), counts.pop("own_cpu_s")
        if after.server != before.server:
            counts = {name: n for name, n in counts.items() if not name.startswith("server_")}
        server_s = counts.get("server_cpu_s", 0.0)
        others_s = others_pct = None
        if client_s is not None and server_s is not None:
            # Of processes other than client, server and vcsbench. The kernel counts busy time in ticks.
            busy_s = max(0.0, counts["busy_s"] - (client_s + own_s + server_s))
            others_s = round(busy_s, 3)
            others_pct = round(100 * busy_s / ((os.cpu_count() or 1) * counts["window_s"]), 1)
        have_ended = before.server_processes[-1:] != after.server_processes[-1:]
        if have_ended and server_s is not None and server_s < COARSE_S:
            counts["server_cpu_s"] = None
        seen = {
            **counts,
            **(_server_facts(self.server, before, after) if self.server else {}),
            **(self.network.facts() if self.network else {}),
            **instructions,
            "instructions_why_not": counters.why_no_instructions(),
            "others_cpu_s": others_s,
            "others_cpu_pct": others_pct,
        }
        reads = self.server_reads.setdefault(after.server, []) if after.server[0] else []
        first = reads[0] if reads else None
        served = {"server_runs_before": len(reads), "server_first_rchar": first}
        reads.append(counts.get("server_rchar"))
        if not self.is_timed:
            warming = {key: value for key, value in seen.items() if key in WARM_UP_KEYS}
            self.warming.append(cast("WarmUpReads", warming))
            return None
        evidence = {**self._residency(is_last), **seen, **self.state, **synced}
        evidence |= {"warming": list(self.warming), **(served if self.server else {})}
        return cast("Evidence", evidence)

    def _snapshot(self, clients: list[int]) -> Snapshot:
        subjects = [subject for subject in (self.input, self.output) if subject]
        folders = [folder for subject in subjects for folder in subject.folders]
        client = processes.usage([*clients, *[os.getpid()] * (not self.is_timed)])
        counts = {
            **counters.read_counters(*(f if f.exists() else f.parent for f in folders)),
            **{f"client_{name}": number for name, number in client._asdict().items()},
            "own_cpu_s": time.process_time(),
            **(self.network.counts() if self.network else {}),
        }
        pid = self.server.pid if self.server else 0
        if not pid:
            return Snapshot(counts)
        # In a container, root may not read the I/O of a server that runs as another user.
        family, used = processes.family_usage(pid)
        counts |= {f"server_{name}": number for name, number in used._asdict().items()}
        members = (*sorted(family), processes.ended_children(family))
        return Snapshot(counts, (pid, processes.start_ticks(pid)), members)

    def _residency(self, is_last: bool) -> dict[str, object]:
        is_cleared, (before, written) = bool(self.cleared), self.cleared or (None, None)
        self.cleared = None
        is_queried = is_cleared or is_last
        after = self._query_input() if is_queried else None
        evidence: dict[str, object] = {
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
                residency = caches.resident(*paths)
                evidence[f"{name}_resident"] = residency and residency.share
        return evidence

    def _query_input(self) -> caches.Residency | None:
        if self.input and self.by_names:
            return caches.resident_by_names(self.input.size, *self.input.folders)
        return _query(self.input)


def _server_facts(server: Server, before: Snapshot, after: Snapshot) -> dict[str, object]:
    pid, is_same = after.server[0], bool(after.server[0]) and before.server == after.server
    facts: dict[str, object] = {
        "server_kind": server.kind,
        "server_pid": pid,
        "server_same": is_same,
        "server_processes_changed": before.server_processes != after.server_processes,
    }
    if is_same:
        facts |= {
            "server_age_s": round(time.time() - processes.started_at(pid), 3),
            "server_argv": processes.command_line(pid),
            "server_build": binary_of(pid),
            "server_peak_memory_bytes": processes.peak_memory_bytes(pid),
        }
    return facts


def _query(subject: Subject | None) -> caches.Residency | None:
    existing = [folder for folder in subject.folders if folder.exists()] if subject else []
    return caches.resident(*existing) if existing else None


def binary_of(pid: int) -> str:
    try:
        with processes.as_server_user():
            path = os.readlink(f"/proc/{pid}/exe")
        with open(path, "rb") as file:
            return f"{path} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError:
        return ""
