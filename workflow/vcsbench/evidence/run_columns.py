"""Compute the columns of a measurement from the context of its cell-round."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench.evidence import flags
from vcsbench.files import read_json
from vcsbench.records import CellTrace, Context, Evidence, RunRecord
from vcsbench.storages.filesystems import IN_MEMORY, storage_kind

if TYPE_CHECKING:
    import pandas as pd

    from vcsbench.measure.runs import Run
    from vcsbench.plan.recipe import TracedCell

# A hypervisor hides what is below: the kernel's rotational flag says nothing about it.
VIRTUAL_DISK = "virtual disk"

# The C library loads these when it first needs them: when a thread ends, a name of a user is looked up, or a
# text is converted. So one round can have them in memory and another one not, with the same programs.
LOADED_LATE = re.compile(r"/libgcc_s\.so[^/]*$|/libnss_[^/]*$|/gconv/[^/]*$")

Columns = dict[str, object]

# By column: the evidence that is summed over client and server, `client_<count>`.
OF_SIDES = {
    "device_bytes": "read_bytes",
    "call_bytes": "rchar",
    "read_calls": "syscr",
    "instructions": "instructions",
}
# Counted by the device, for all processes.
OF_DEVICE = {"written_bytes": "device_write_bytes", "flushes": "device_flushes"}
RPCS = "rpcs"
COUNT_COLUMNS = (*OF_SIDES, *OF_DEVICE, RPCS)

CLIENT_COLUMNS = (
    *("tree_bytes", "carried_s", "clients_cpu_s", "slowest_client_s", "fastest_client_s"),
    *("launching_s", "went_apart_s", "cores"),
)
# Of a working copy: by df, and by the extents of its files.
SPACE_COLUMNS = ("used_bytes", "exclusive_bytes", "shared_bytes")

# Of traces: bytes and numbers of system calls.
_RENAMES = ("rename", "renameat", "renameat2")
_BYTES = ("bytes_read", "bytes_written")
TRACE_COLUMNS = (
    *("opens_read_only", "opens_read_write", "opens_failed", "seeks", "reads", "writes", "stats"),
    *(*_BYTES, "renames", "all_calls"),
)

BUILD_AXIS = "build"


def storage_label(storage: Mapping[str, object], host: Mapping[str, object]) -> str:
    """Return RAM, virtual disk, spinning disk or SSD; "" if unknown."""
    rotational = storage.get("rotational")
    is_rotational = rotational if isinstance(rotational, bool) else None
    kind = storage_kind(str(storage.get("filesystem") or ""), is_rotational)
    return VIRTUAL_DISK if kind not in ("", "RAM") and host.get("virtualized") else kind


def count_columns(evidence: Evidence, context: Context) -> Columns:
    """Return COUNT_COLUMNS; None for a missing count."""
    is_in_memory = context["storage"].get("filesystem") in IN_MEMORY
    sides = ("client", "server") if evidence.get("server_kind") else ("client",)
    counts: Columns = {RPCS: evidence.get(RPCS)}
    for name, count in OF_SIDES.items():
        values = [cast("int | None", evidence.get(f"{side}_{count}")) for side in sides]
        # Nothing is read from memory as from a device.
        is_missing = None in values or (name == "device_bytes" and is_in_memory)
        counts[name] = None if is_missing else sum(filter(None, values))
    return {**counts, **{name: evidence.get(count) for name, count in OF_DEVICE.items()}}


def client_columns(timed: Run, run: RunRecord, context: Context) -> Columns:
    """Return CLIENT_COLUMNS.

    `tree_bytes` and `clients_cpu_s` are sums over all clients, without their launcher. `carried_s` lasts from
    the common start of the clients to the end of the last one. `launching_s` is the rest of the elapsed
    time, `went_apart_s` the spread of starts.
    """
    launched, work = run.get("launched"), run["work"]
    clients = launched["clients"] if launched else []
    cpu_s = [timed.user_s, timed.system_s]
    if clients:
        cpu_s = [client[name] for client in clients for name in ("user_s", "system_s")]
    durations = [client["ended_s"] - client["went_s"] for client in clients]
    starts = [client["went_s"] for client in clients]
    carried_s = launched["all_s"] if launched else timed.elapsed_s
    wrote_tree = {"files", "bytes"} <= work.keys()
    return {
        "tree_bytes": int(work["bytes"]) * (len(clients) or 1) if wrote_tree else None,
        "carried_s": carried_s,
        "clients_cpu_s": None if None in cpu_s else sum(filter(None, cpu_s)),
        "slowest_client_s": max(durations, default=None),
        "fastest_client_s": min(durations, default=None),
        "launching_s": round(timed.elapsed_s - carried_s, 6) if clients else None,
        "went_apart_s": round(max(starts) - min(starts), 6) if clients else None,
        "cores": context["host"]["cores"],
    }


def read_traces(
    paths: Iterable[str | Path], traced: Mapping[str, TracedCell]
) -> dict[str, CellTrace]:
    """Return the traces (measure.syscalls.trace_cell) by the path of each cell.

    `traced` names the cell whose trace each cell uses. Traces of another command are left out.
    """
    files = cast("list[CellTrace]", [read_json(path) for path in paths])
    by_path = {trace["cell"]: trace for trace in files if trace}
    of_cells = {cell: (by_path.get(path, {}), digest) for cell, (path, digest) in traced.items()}
    return {c: trace for c, (trace, digest) in of_cells.items() if trace.get("digest") == digest}


def trace_columns(trace: CellTrace) -> Columns:
    """Return TRACE_COLUMNS; without counts, None each."""
    counts = Counter(trace.get("client") or {})
    counts.update(trace.get("server") or {})
    if not counts:
        return dict.fromkeys(TRACE_COLUMNS)
    counts["all_calls"] = sum(counts.values()) - sum(counts[name] for name in _BYTES)
    counts["renames"] = sum(counts[name] for name in _RENAMES)
    return {name: counts[name] for name in TRACE_COLUMNS}


def build_columns(context: Context) -> dict[str, str]:
    """Return path and version of each side's program, and digests of binaries.

    `binaries` has both programs and their Subversion libraries, `client_mapped` and `server_mapped` all files
    in the memory of one side; "" if they are unknown.
    """
    build = context.get("build")
    columns = {"binaries": build["digest"] if build else ""}
    for name in ("client", "server"):
        side = build and (build["client"] if name == "client" else build["server"])
        columns[name] = side["program"] if side else ""
        columns[f"{name}_version"] = side["version"] if side else ""
        mapped = side.get("mapped") if side else None
        columns[f"{name}_mapped"] = _mapped_digest(mapped) if mapped else ""
    return columns


def _mapped_digest(mapped: Mapping[str, str]) -> str:
    lines = []
    for path, digest in mapped.items():
        if not LOADED_LATE.search(path):
            lines.append(f"{os.path.basename(path)} {digest}")
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def build_flags(context: Context) -> list[str]:
    build = context.get("build")
    words = []
    for side in filter(None, (build["client"], build["server"]) if build else ()):
        # Programs on the PATH have no places: vcsbench claims nothing about their libraries.
        places = tuple(f"{place.rstrip('/')}/" for place in side["places"])
        if places and side["libraries"] is None:
            words.append("libraries-unknown")
        elif places and not all(path.startswith(places) for path in side["libraries"] or ()):
            words.append("other-libraries")
    return list(dict.fromkeys(words))


def same_binaries(table: pd.DataFrame, frame: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """Return a table's flags, with `same-binaries` in rows whose sides ran the same.

    `frame` has the measurements, `keys` are the axes that identify a row together with its two builds.
    """
    if "binaries" not in frame:
        return table["flags"]
    binaries = frame.groupby([*keys, BUILD_AXIS], dropna=False)["binaries"].agg(set).to_dict()
    words = []
    for row in table.to_dict("records"):
        point = [row[axis] for axis in keys]
        sides = (binaries.get((*point, row[s]), set()) - {""} for s in ("baseline", "candidate"))
        is_same = bool(set.intersection(*sides))
        words.append(flags.add_flag(row["flags"], "same-binaries", is_same))
    return table.assign(flags=words)["flags"]
