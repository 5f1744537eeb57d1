"""What client and server together read and executed in a run, and what its device wrote meanwhile, as numbers
that do not depend on how long it took; and for each that is missing, why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vcsbench.storages.mounts import IN_MEMORY

# Columns of the measurements, and what each is the sum of: `client_<part>` and `server_<part>`.
OF_SIDES = {
    "device_bytes": "read_bytes",
    "call_bytes": "rchar",
    "read_calls": "syscr",
    "instructions": "instructions",
}
# And what the device did for everybody.
OF_DEVICE = {"written_bytes": "device_write_bytes", "flushes": "device_flushes"}
# And what its NFS client asked; nothing, where it has none.
RPCS = "rpcs"
COLUMNS = (*OF_SIDES, *OF_DEVICE, RPCS)
BEFORE = "the vcsbench that measured it did not count this"
FORBIDDEN = "the kernel does not tell here what a server of another user has read"
UNSEEN = "the kernel has no such counter of the storage's device"
SHARED = "others used the processor's counters as well"


def columns(certificate: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a run: a number each, None where there is none, and `not_counted`, why, as JSON by
    column ("" where none is missing)."""
    found: dict[str, int | None] = {}
    reasons: dict[str, str] = {}
    for name, part in OF_SIDES.items():
        reason = _why_not(part, certificate, context)
        found[name] = None if reason else sum(_sides(part, certificate).values())
        reasons |= {name: reason} if reason else {}
    for name, part in OF_DEVICE.items():
        found[name] = certificate.get(part)
        reasons |= {name: _not_written(part, certificate, context)} if found[name] is None else {}
    found[RPCS] = certificate.get(RPCS)
    return {**found, "not_counted": json.dumps(reasons, sort_keys=True) if reasons else ""}


def why_not(not_counted: Any, names: Iterable[str]) -> str:
    """Why a run lacks one of these columns, from its `not_counted`; "" where it does not say."""
    reasons = json.loads(not_counted) if isinstance(not_counted, str) and not_counted else {}
    return next((reasons[name] for name in names if name in reasons), "")


def _sides(part: str, certificate: Mapping[str, Any]) -> dict[str, Any]:
    sides = ("client", "server") if certificate.get("server_kind") else ("client",)
    return {side: certificate.get(f"{side}_{part}") for side in sides}


def _not_written(part: str, certificate: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    filesystem = context.get("storage", {}).get("filesystem")
    if filesystem in IN_MEMORY:
        return f"the storage is a {filesystem}: nothing is written to a device"
    return UNSEEN if part in certificate else BEFORE


def _why_not(part: str, certificate: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    filesystem = context.get("storage", {}).get("filesystem")
    if part == "read_bytes" and filesystem in IN_MEMORY:
        return f"the storage is a {filesystem}, from which nothing is read as from a device"
    missing = [side for side, number in _sides(part, certificate).items() if number is None]
    if not missing:
        return ""
    if f"client_{part}" not in certificate:
        return certificate.get("instructions_why_not") or BEFORE
    return SHARED if part == "instructions" else FORBIDDEN
