"""Reads what hyperfine exports, in the schema of 1.15 to 1.20 and in that of 2.x."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.errors import UserError

# What one of hyperfine's units is in seconds or bytes.
UNITS = {
    "second": 1.0,
    "millisecond": 1e-3,
    "microsecond": 1e-6,
    "nanosecond": 1e-9,
    "byte": 1.0,
    "kilobyte": 1e3,
    "kibibyte": 1024.0,
    "megabyte": 1e6,
    "mebibyte": 1024.0**2,
}


class Run(NamedTuple):
    """One timed run: seconds, bytes, the exit code (None if a signal ended the command).

    With `mean_cpu`, user and system time are the means over the export's runs. `peak_memory_bytes`
    is None where the export does not have the command's own.
    """

    elapsed_s: float
    user_s: float | None
    system_s: float | None
    exit_code: int | None
    peak_memory_bytes: float | None = None
    mean_cpu: bool = False


def read(path: Path) -> list[Run]:
    """The runs of an export with one command, in the order in which they ran.

    Raises a UserError where the file is no such export.
    """
    try:
        export = json.loads(path.read_bytes())
    except ValueError:
        raise UserError(
            f"{path}: is not JSON; delete it and run again to measure it anew"
        ) from None
    version = export.get("schema_version", 1) if isinstance(export, dict) else None
    if version not in (1, 2):
        raise UserError(
            f"{path}: `schema_version`: {version!r} is not known; vcsbench reads what hyperfine "
            f"1.15 to 2.x exports"
        )
    try:
        runs = (_measured_runs if version == 2 else _flat_runs)(export["results"][0])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path}: is not an export of hyperfine's ({what}); delete it and run again"
        ) from None
    return runs


def _flat_runs(result: Mapping[str, Any]) -> list[Run]:
    # `memory_usage_byte` is the highest peak of any child so far, hooks included: not a run's own.
    times = result["times"]
    codes = result.get("exit_codes") or [0] * len(times)
    return [
        Run(float(elapsed), result.get("user"), result.get("system"), code, None, len(times) > 1)
        for elapsed, code in zip(times, codes, strict=True)
    ]


def _measured_runs(result: Mapping[str, Any]) -> list[Run]:
    return [
        Run(
            elapsed_s=_quantity(run["time_wall_clock"]),
            user_s=_optional(run, "time_user"),
            system_s=_optional(run, "time_system"),
            exit_code=run.get("exit_code"),
            peak_memory_bytes=_optional(run, "memory_peak_resident"),
        )
        for run in result["measurements"]
    ]


def _optional(run: Mapping[str, Any], name: str) -> float | None:
    return _quantity(run[name]) if run.get(name) is not None else None


def _quantity(measured: Mapping[str, Any]) -> float:
    unit = measured["unit"]
    if unit not in UNITS:
        raise ValueError(f"the unit {unit!r} is not known")
    return float(measured["value"]) * UNITS[unit]
