"""Compute the columns of a measurement from the context of its cell-round."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench.axis_names import BUILD_AXIS, FILESYSTEM_AXIS, SYSTEM_AXIS
from vcsbench.evidence import flags
from vcsbench.evidence.flags import Flag
from vcsbench.files import read_json
from vcsbench.records import (
    BuildSide,
    CellTrace,
    Context,
    Evidence,
    Launched,
    RunRecord,
    SentRequests,
    StorageFacts,
)
from vcsbench.storages.disks import DiskKind
from vcsbench.storages.filesystems import IN_MEMORY, OVERLAY, storage_kind

if TYPE_CHECKING:
    import pandas as pd

    from vcsbench.measure.runs import Run
    from vcsbench.plan.recipe import TracedCell

# A hypervisor hides what is below: the kernel's rotational flag says nothing about it.
VIRTUAL_DISK = "virtual disk"

# The C library loads these libraries only when it first needs them. That is when a thread ends, the name of a
# user is looked up, or a text is converted. So one round can have them in memory and another one not,
# although the programs are the same.
LOADED_LATE = re.compile(r"/libgcc_s\.so[^/]*$|/libnss_[^/]*$|/gconv/[^/]*$")

# The command of git that makes a new clone.
CLONE_COMMAND = "clone"

# The settings of a disk that may change without another disk.
DISK_SETTINGS = ("scheduler", "read_ahead_kb", "write_cache")
# Options that the kernel chooses for each mount of a network file system.
CHANGING_OPTIONS = ("addr=", "clientaddr=", "mountaddr=", "port=", "mountport=")

RunColumns = dict[str, object]

# By column: the count in the evidence that is summed over client and server. For example, `device_bytes` is
# the sum of `client_read_bytes` and `server_read_bytes`.
SUMMED_COUNTS = {
    "device_bytes": "read_bytes",
    "call_bytes": "rchar",
    "read_calls": "syscr",
    "instructions": "instructions",
    "call_written_bytes": "wchar",
    "dirtied_bytes": "write_bytes",
}
# Counted by the device, for all processes.
DEVICE_COUNTS = {"written_bytes": "device_write_bytes", "flushes": "device_flushes"}
RPCS = "rpcs"
COUNT_COLUMNS = (*SUMMED_COUNTS, *DEVICE_COUNTS, RPCS)

CLIENT_COLUMNS = (
    # Bytes that all clients together wrote.
    "tree_bytes",
    # The time from the common start of all clients to the end of the last one.
    "carried_s",
    # The CPU time of all clients together.
    "clients_cpu_s",
    # The longest and the shortest time of one client.
    "slowest_client_s", "fastest_client_s",
    # The rest of the elapsed time, in which the launcher started the clients.
    "launching_s",
    # The time between the first and the last start of a client.
    "went_apart_s",
    "cores",
)  # fmt: skip
# Columns of traffic: many clients send requests for some time.
TRAFFIC_COLUMNS = (
    # All requests that ended, and the readers and committers together.
    "requests", "senders",
    # Requests that ended within the time. Those after it were sent while fewer and fewer clients were left.
    "throughput_per_s",
    # Percentiles of all requests of readers, also of those that ended after the time.
    "latency_p50_ms", "latency_p95_ms", "latency_p99_ms",
    # The same of committers.
    "commit_p95_ms",
    # Requests that waited for a client, and those that still waited when the time was over.
    "late_requests", "unstarted_requests",
    "generator_cpu_s",
)  # fmt: skip
# The disk space of a working copy: by df, and by the extents of its files.
SPACE_COLUMNS = ("used_bytes", "exclusive_bytes", "shared_bytes")

# Columns of traces: numbers of system calls, and their bytes.
_RENAMES = ("rename", "renameat", "renameat2")
_FLUSHES = ("fsync", "fdatasync", "sync_file_range", "sync", "syncfs")
_BYTES = ("bytes_read", "bytes_written")
TRACE_COLUMNS = (
    "opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "writes", "stats",
    *_BYTES, "renames", "flush_calls", "all_calls",
)  # fmt: skip


def storage_label(storage: Mapping[str, object], host: Mapping[str, object]) -> str:
    """Return the kind of a storage for tables, such as "SSD"; "" if unknown.

    The kinds are RAM, RAM disk, loop device, virtual disk, spinning disk and SSD.
    """
    # The kernel reports a RAM disk as not rotational, as an SSD. The disks below LVM count, too.
    disks = cast("Sequence[Mapping[str, object]]", storage.get("disks") or [])
    for disk_kind in (DiskKind.RAM, DiskKind.LOOP):
        if any(disk.get("kind") == disk_kind for disk in disks):
            return disk_kind.value
    rotational = storage.get("rotational")
    is_rotational = rotational if isinstance(rotational, bool) else None
    kind = storage_kind(str(storage.get("filesystem") or ""), is_rotational)
    is_on_disk = kind not in ("", "RAM")
    if is_on_disk and host.get("virtualized"):
        return VIRTUAL_DISK
    return kind


def comparable_conditions(context: Context) -> dict[str, object]:
    """Return the conditions of a cell-round by their names; {} for a context without a record of them.

    Example: {"nice": 0, "kernel": "6.1.0", "/srv/vcsbench ext4 scheduler": "none", ...}. All cell-rounds of a
    machine should have the same value of a name. A name that only some of them have belongs to a storage or
    to a kind of server.
    """
    recorded = context.get("conditions")
    if not recorded:
        return {}
    conditions: dict[str, object] = dict(recorded)
    # Only a cell with a server has its scheduling.
    scheduling = conditions.pop("server", None)
    server = context["server"]
    if scheduling and server:
        conditions[f"server {server.get('kind')}"] = scheduling
    for name, value in (
        ("kernel", context["host"].get("kernel")),
        ("preloaded", context.get("preloaded")),
    ):
        if value is not None:
            conditions[name] = value
    # Outputs below one path may be on different file systems, such as an ext4 and an xfs that vcsbench made
    # there. With the value of the axis in the names, the conditions of such outputs are not compared.
    filesystem_value = context["axes"].get(FILESYSTEM_AXIS, "")
    return (
        conditions
        | _storage_conditions(context["storage"])
        | _storage_conditions(context["target_storage"], filesystem_value)
    )


def _storage_conditions(storage: StorageFacts, filesystem_value: str = "") -> dict[str, object]:
    """Return the settings of a storage and of its disk by their names; {} for a storage without facts.

    Example: {"/srv/vcsbench ext4 xfs scheduler": "none", ...}. A name has the path, its file system (ext4)
    and, for an output, `filesystem_value` (xfs): the value of the axis `filesystem`.
    """
    # A command without an output has no facts about its folder.
    if "path" not in storage:
        return {}
    filesystem = storage.get("filesystem", "")
    place = " ".join(filter(None, [storage["path"], filesystem, filesystem_value]))
    settings: dict[str, object] = {}
    for name in DISK_SETTINGS:
        if name in storage:
            settings[f"{place} {name}"] = cast("Mapping[str, object]", storage)[name]
    # The options of an overlay name folders, which each start of a container makes again.
    if filesystem != OVERLAY and "mount_options" in storage:
        options = storage["mount_options"].split(",")
        lasting_options = [option for option in options if not option.startswith(CHANGING_OPTIONS)]
        settings[f"{place} mount options"] = ",".join(lasting_options)
    return settings


def count_columns(evidence: Evidence, context: Context) -> RunColumns:
    """Return the kernel's counts of a run (COUNT_COLUMNS), for example {"device_bytes": 4096, "rpcs": None}.

    Most columns are sums of client and server. A sum is None if one of the counts is unknown. A command
    without a server has the counts of its client alone.
    """
    # The kernel counts the calls to an NFS server for all processes together.
    columns: RunColumns = {RPCS: evidence.get(RPCS)}
    sides = ["client"]
    if evidence.get("server_kind"):
        sides.append("server")
    for column, name in SUMMED_COUNTS.items():
        counts = [cast("int | None", evidence.get(f"{side}_{name}")) for side in sides]
        known_counts = [count for count in counts if count is not None]
        is_complete = len(known_counts) == len(sides)
        columns[column] = sum(known_counts) if is_complete else None
    is_in_memory = context["storage"].get("filesystem") in IN_MEMORY
    if is_in_memory:
        # Memory is no device, and 0 bytes would look like a good result.
        columns["device_bytes"] = None
        columns["dirtied_bytes"] = None
    for column, name in DEVICE_COUNTS.items():
        columns[column] = evidence.get(name)
    return columns


def client_columns(timed: Run, run: RunRecord, context: Context) -> RunColumns:
    """Return the columns about the client of a run, or about all its clients together (CLIENT_COLUMNS).

    Example: {"tree_bytes": 1048576, "carried_s": 2.5, "cores": 2, ...}. A column that does not apply to the
    run is None. `timed` is hyperfine's report on the run. A program, the launcher, starts several clients and
    then releases them together. `carried_s` is the time from this release to the end of the last client. For
    a single client, it is the elapsed time.
    """
    columns: RunColumns = dict.fromkeys(CLIENT_COLUMNS)
    columns["cores"] = context["host"]["cores"]
    # The report of the launcher; None for a single client, which has no launcher.
    launched = run.get("launched")

    # Only the work of a command that writes a tree of files has both `files` and `bytes`. It is the work of
    # one client, and each client has written a tree of its own.
    work = run["work"]
    if "files" in work and "bytes" in work:
        number_of_clients = len(launched["clients"]) if launched else 1
        columns["tree_bytes"] = int(work["bytes"]) * number_of_clients

    if launched:
        return columns | _launched_columns(timed, launched)
    columns["carried_s"] = timed.elapsed_s
    if timed.user_s is not None and timed.system_s is not None:
        columns["clients_cpu_s"] = timed.user_s + timed.system_s
    return columns


def _launched_columns(timed: Run, launched: Launched) -> RunColumns:
    """Return the columns about several clients, which the launcher has started and then released together.

    `timed` is hyperfine's report on the run, and `launched` the launcher's. The times of a client are seconds
    after the release: {"went_s": 0.001, "ended_s": 2.5, "user_s": 0.4, "system_s": 0.1}.
    """
    cpu_s: list[float] = []
    starts_s: list[float] = []
    durations_s: list[float] = []
    for client in launched["clients"]:
        cpu_s += [client["user_s"], client["system_s"]]
        starts_s.append(client["went_s"])
        durations_s.append(client["ended_s"] - client["went_s"])
    last_end_s = launched["all_s"]
    return {
        "carried_s": last_end_s,
        "clients_cpu_s": sum(cpu_s),
        "slowest_client_s": max(durations_s),
        "fastest_client_s": min(durations_s),
        "launching_s": round(timed.elapsed_s - last_end_s, 6),
        "went_apart_s": round(max(starts_s) - min(starts_s), 6),
    }


def traffic_columns(run: RunRecord) -> RunColumns:
    """Return the TRAFFIC_COLUMNS of a run, such as {"requests": 5120, ...}; {} without traffic."""
    traffic = run.get("traffic")
    if not traffic:
        return {}
    duration_s = traffic["seconds"]
    reads, commits = traffic["read"], traffic["commit"]
    # The ends of successful requests, in seconds since the start of the traffic.
    ends_s = [*reads["ended_s"], *commits["ended_s"]]
    # A request that ends after the duration does not count as throughput.
    ended_in_time = sum(end_s <= duration_s for end_s in ends_s)
    columns: RunColumns = {
        "requests": len(ends_s),
        "senders": traffic["readers"] + traffic["committers"],
        "throughput_per_s": ended_in_time / duration_s,
    }
    reads_ms = _latencies_ms(reads, duration_s)
    for share in (50, 95, 99):
        columns[f"latency_p{share}_ms"] = percentile(reads_ms, share)
    columns["commit_p95_ms"] = percentile(_latencies_ms(commits, duration_s), 95)
    columns["late_requests"] = traffic["late"]
    columns["unstarted_requests"] = len(reads["unstarted_s"]) + len(commits["unstarted_s"])
    columns["generator_cpu_s"] = traffic["generator_cpu_s"]
    return columns


def _latencies_ms(sent: SentRequests, duration_s: float) -> list[float]:
    """Return the latencies of requests in traffic of some seconds, in ascending order."""
    # A latency counts from the planned time of a request, so it includes the wait for a free client.
    latencies_s = [
        ended - planned for planned, ended in zip(sent["planned_s"], sent["ended_s"], strict=True)
    ]
    # A request that was never started counts with its wait until the end of the time.
    latencies_s += [duration_s - planned for planned in sent["unstarted_s"]]
    return sorted(1000 * latency for latency in latencies_s)


def percentile(ordered: Sequence[float], share: int) -> float | None:
    """Return the smallest of ordered numbers that at least `share` per cent do not exceed; None of none.

    The 95th percentile of 1 to 100 is 95, and of 1 to 10 it is 10.
    """
    if not ordered:
        return None
    # -(-a // b) is a / b, rounded up.
    rank = -(-share * len(ordered) // 100)
    return ordered[rank - 1]


def traffic_flags(run: RunRecord) -> list[Flag]:
    """Return the flags of a run with traffic: failed requests, lost or foreign commits, overload."""
    traffic = run.get("traffic")
    if not traffic:
        return []
    raised_flags: list[Flag] = []
    reads, commits = traffic["read"], traffic["commit"]
    if reads["failed"] or commits["failed"]:
        raised_flags.append(Flag.REQUESTS_FAILED)
    # Each successful commit adds a revision. The number is None for a command that only reads.
    revisions = traffic.get("revisions_added")
    successful_commits = len(commits["ended_s"])
    if revisions is not None and revisions != successful_commits:
        raised_flags.append(Flag.OTHER_REVISIONS)
    if reads["unstarted_s"] or commits["unstarted_s"]:
        raised_flags.append(Flag.OVERLOADED)
    return raised_flags


def git_columns(run: RunRecord, context: Context) -> RunColumns:
    """Return the number of objects that client and server of git exchanged; {} if it was not counted."""
    # The trace is of the checked run. All timed runs exchange the same objects.
    trace = context.get("git_trace")
    if not trace:
        return {}
    # git traces no objects of a clone. Of a blobless clone, it traces the second part only: the contents of
    # its files. But a new clone has only objects that were sent, and the work of the run has their number.
    if CLONE_COMMAND in context["argv_template"].split():
        return {"git_objects": run["work"].get("objects", trace["objects"])}
    return {"git_objects": trace["objects"]}


def size_columns(context: Context) -> RunColumns:
    """Return the bytes of the repository on the server, and of the client's files, if the cell has them.

    Only a study that compares version control systems counts the files that the client keeps (`kept_bytes`).
    """
    sizes: RunColumns = {}
    if "bytes" in context["repository"]:
        sizes["repository_bytes"] = context["repository"]["bytes"]
    if SYSTEM_AXIS in context["axes"]:
        sizes["kept_bytes"] = context.get("kept_bytes")
    return sizes


def read_traces(
    paths: Iterable[str | Path], traced: Mapping[str, TracedCell]
) -> dict[str, CellTrace]:
    """Return the numbers of system calls (a trace) of each cell, by the path of the cell.

    Each of the files `paths` has the trace of a cell. Cells that make the same calls share one trace: with
    `traced` {"log/hot": TracedCell("log/cold", "9f86")}, the trace of log/cold counts for log/hot, if it has
    the digest 9f86. A cell without this trace is left out.
    """
    # By the path of the traced cell.
    trace_by_cell: dict[str, CellTrace] = {}
    for path in paths:
        trace = cast("CellTrace", read_json(path))
        if trace:
            trace_by_cell[trace["cell"]] = trace
    traces = {}
    for cell, (traced_cell, digest) in traced.items():
        used_trace = trace_by_cell.get(traced_cell)
        # An older trace, such as of another command line, has another digest.
        if used_trace and used_trace.get("digest") == digest:
            traces[cell] = used_trace
    return traces


def trace_columns(trace: CellTrace) -> RunColumns:
    """Return the columns TRACE_COLUMNS: numbers of system calls of client and server together.

    The trace {"client": {"reads": 5, "bytes_read": 4096, "mmap": 7}} gives `reads` 5, `bytes_read` 4096 and
    `all_calls` 12. A trace without counts gives None for each column.
    """
    counts = Counter[str]()
    for side_counts in (trace.get("client"), trace.get("server")):
        if side_counts:
            counts.update(side_counts)
    if not counts:
        return dict.fromkeys(TRACE_COLUMNS)
    sums = {
        "all_calls": sum(counts.values()) - sum(counts[name] for name in _BYTES),
        "renames": sum(counts[name] for name in _RENAMES),
        "flush_calls": sum(counts[name] for name in _FLUSHES),
    }
    # A column that is no sum is a count itself, 0 if there was no such call.
    return {name: sums.get(name, counts[name]) for name in TRACE_COLUMNS}


def build_columns(context: Context) -> dict[str, str]:
    """Return the programs of client and server, their versions, and digests of their files; "" if unknown.

    Example: {"client": "/usr/bin/svn", "client_version": "1.14.2", ...}. `binaries` is a digest of both
    programs and their Subversion libraries. `client_mapped` and `server_mapped` are digests of the program
    and libraries in the memory of client or server, without libraries that are LOADED_LATE.
    """
    build = context.get("build")
    columns = {"binaries": build["digest"] if build else ""}
    sides = _build_sides(context)
    for name in ("client", "server"):
        side = sides.get(name)
        columns[name] = side["program"] if side else ""
        columns[f"{name}_version"] = side["version"] if side else ""
        mapped = side.get("mapped") if side else None
        columns[f"{name}_mapped"] = _mapped_digest(mapped) if mapped else ""
    return columns


def _build_sides(context: Context) -> dict[str, BuildSide]:
    """Return the `client` and the `server` of a build, as far as the cell-round has them."""
    build = context.get("build")
    if not build:
        return {}
    sides = {"client": build["client"]}
    if build["server"]:
        sides["server"] = build["server"]
    return sides


def _mapped_digest(mapped: Mapping[str, str]) -> str:
    """Return a digest of the files in the memory of a process.

    Folders do not count: the same libraries in another folder make no difference.
    """
    lines = []
    for path, digest in mapped.items():
        if not LOADED_LATE.search(path):
            lines.append(f"{os.path.basename(path)} {digest}")
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def build_flags(context: Context) -> list[str]:
    """Return the flags of a client or server that loaded libraries of another build of Subversion.

    A client of the build in /opt/svn-1.14 that loaded /usr/lib/libsvn_client-1.so gives `other-libraries`.
    If the libraries are unknown, the flag is `libraries-unknown`.
    """
    raised_flags: list[str] = []
    for side in _build_sides(context).values():
        # Programs on the PATH have no folders of a build, so their libraries may be anywhere.
        if not side["places"]:
            continue
        # With a slash at its end, the folder /opt/svn is no start of /opt/svn-old/lib.
        folders = tuple(f"{place.rstrip('/')}/" for place in side["places"])
        libraries = side["libraries"]
        if libraries is None:
            raised_flags.append(Flag.LIBRARIES_UNKNOWN)
        elif not all(path.startswith(folders) for path in libraries):
            raised_flags.append(Flag.OTHER_LIBRARIES)
    # Client and server may have the same flag.
    return list(dict.fromkeys(raised_flags))


def same_binaries(table: pd.DataFrame, frame: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return the column `flags` of a table of comparisons, with `same-binaries` added to some rows.

    A row of `table` compares the builds `baseline` and `candidate` with equal values in the columns `keys`.
    If runs of both had the same binaries, the row has compared nothing, and gets the flag. `frame` has a row
    for each run.
    """
    # Published numbers have no binaries.
    if "binaries" not in frame:
        return table["flags"]
    # By values in `keys` and build, such as ("log", "ruby", "svn-1.14"): the digests of its runs.
    groups = frame.groupby([*keys, BUILD_AXIS], dropna=False)
    digests_by_build = groups["binaries"].agg(set).to_dict()
    row_flags = []
    for row in table.to_dict("records"):
        values = [row[axis] for axis in keys]
        baseline_digests = digests_by_build.get((*values, row["baseline"]), set())
        candidate_digests = digests_by_build.get((*values, row["candidate"]), set())
        # Unknown binaries ("") are not the same.
        common_digests = (baseline_digests & candidate_digests) - {""}
        is_same = bool(common_digests)
        row_flags.append(flags.add_flag(row["flags"], Flag.SAME_BINARIES, is_same))
    # This module imports pandas for type checkers only, so assign() makes the Series.
    return table.assign(flags=row_flags)["flags"]
