"""Measurements: a row for each timed run of a study, from the cells' exports and contexts."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from vcsbench.axes.cache import promises
from vcsbench.config.thresholds import THRESHOLDS
from vcsbench.errors import UserError
from vcsbench.evidence import (
    buildlabels,
    calls,
    carried,
    counted,
    fixed_cost,
    flags,
    hyperfine_export,
    judgement,
    samework,
    space,
)
from vcsbench.evidence.frames import grouped, read_frame
from vcsbench.measure.identity import full_name

# The columns that hold numbers whatever the study; a certificate may add more.
TIMES = ("elapsed_s", "user_s", "system_s", "server_cpu_s")
NUMBERS = (
    "round",
    "run",
    *TIMES,
    *counted.COLUMNS,
    *carried.COLUMNS,
    *calls.COLUMNS,
    *space.COLUMNS,
    *fixed_cost.COLUMNS,
    "sync_s",
    "scale",
    "waited_s",
    "cell_round_s",
)
# What the context of a cell-round would say of a run that it has nothing of.
UNCERTIFIED: dict[str, Any] = {"certificate": {}}
FAILURES = ("cell", "round", "reason")
# The published tables define these limits, so they are no thresholds.
OFF = {"outlier-10": 0.1, "outlier-20": 0.2}
# Made once: json.dumps() would make one for each of the values.
_SORTED = json.JSONEncoder(sort_keys=True)
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass
class Collected:
    """A study's runs, a dict each with the columns of the measurements; and its failures, a dict
    each with cell, round, reason; and the thresholds that its runs are judged by."""

    axes: list[str]
    thresholds: Mapping[str, float]
    calls: Mapping[str, Any] | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)


def read_grid(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """The axes and the rows (cell, the axes, skip) of a grid's file."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cell, *axes, skip = rows[0] if rows else ("", "")
    if (cell, skip) != ("cell", "skip"):
        raise UserError(f"{path}: is not a grid with the columns cell, axes, skip; delete it")
    return axes, rows


def collect(
    axes: Sequence[str],
    grid: Iterable[Mapping[str, str]],
    rounds: int | Mapping[str, int],
    exports: Iterable[str | Path],
    logs: str | Path,
    thresholds: Mapping[str, float] = THRESHOLDS,
    counted_calls: Mapping[str, Any] | None = None,
) -> Collected:
    """Read the exports, round<n>.json in a folder that ends with the cell's path, and the context
    beside each. `rounds` says how many there are to be, of all cells or of each by its path. What the grid
    does not skip and no export has is a failure, for the reason that the
    cell-round's log gives: `logs` is the folder with <cell>/round<n>.log. The certificates are judged
    anew, by `thresholds` (defaults for what they do not name); other flags of a context are kept.
    `counted_calls` has what was counted of the system calls of cells (calls.read_calls); None for a study
    that counts none.

    Raises a UserError where an export is in no schema that is known.
    """
    collected = Collected(list(axes), {**THRESHOLDS, **thresholds}, counted_calls)
    found = {_key(Path(path), len(axes)): Path(path) for path in exports}
    wanted = [cell for cell in grid if not cell["skip"]]
    many = rounds if isinstance(rounds, Mapping) else {cell["cell"]: rounds for cell in wanted}
    numbered = ((cell, n) for cell in wanted for n in range(1, many[cell["cell"]] + 1))
    for cell, number in numbered:
        path = cell["cell"]
        if export := found.get((path, number)):
            reason = _read(export, cell, number, collected)
        else:
            reason = _why_missing(Path(logs) / path / f"round{number}.log")
        if reason:
            collected.failures.append({"cell": path, "round": number, "reason": reason})
    return collected


def measurements(collected: Collected) -> pd.DataFrame:
    """A row per run: cell, the axes, round, run, elapsed_s, user_s, system_s, server_cpu_s,
    client_peak_memory_bytes, what the certificate adds, what client and server read and executed together
    (counted.columns), what it brought them (carried.COLUMNS), what it takes (space.COLUMNS), work (what the
    run did, as JSON: text that is equal where the work is; "" if nothing tells), client, client_version,
    server, server_version, binaries (buildlabels.columns), set_aside (the false labels of the attempts
    before this one, with a comma between attempts; "" mostly), copy, order (the position among all
    cell-rounds), seed (what that order was drawn from), scale, host, started_at, waited_s (seconds before,
    for other measurements on the machine), cell_round_s (that it took from then on, all in all), flags
    (words separated by spaces)."""
    first = ["cell", *collected.axes, "round", "run"]
    first += [*TIMES, "client_peak_memory_bytes"]
    last = ["work", "client", "client_version", "server", "server_version", "binaries"]
    last += ["set_aside", "copy", "order", "seed", "scale", "host", "started_at"]
    last += ["waited_s", "cell_round_s", "flags"]
    seen = dict.fromkeys(itertools.chain.from_iterable(collected.runs))
    certified = [name for name in seen if name not in first and name not in last]
    # As objects: a process id stays a whole number where another run has none.
    frame = pd.DataFrame(collected.runs, columns=[*first, *certified, *last], dtype=object)
    frame = frame.astype(dict.fromkeys(TIMES, float))
    frame, fixed = fixed_cost.split(frame)
    frame = fixed_cost.with_fixed_cost(frame, fixed, collected.axes)
    if not frame.empty:
        frame["flags"] = _flags(frame, collected.axes, collected.thresholds["min_run_s"])
    return frame


def fixed_costs(collected: Collected) -> pd.DataFrame:
    """Return a row per run on the empty repository: cell, the axes, run, elapsed_s (seconds), user_s,
    system_s, host and flags."""
    columns = ["cell", *collected.axes, "run", *TIMES, "host", "flags"]
    frame = fixed_cost.split(pd.DataFrame(collected.runs))[1].reindex(columns=columns)
    return frame.assign(flags=frame["flags"].map(flags.joined))


def failures(collected: Collected) -> pd.DataFrame:
    """A row per cell and round of the grid without a result: cell, round, reason."""
    return pd.DataFrame(collected.failures, columns=list(FAILURES))


def read_measurements(path: str | Path | TextIO) -> pd.DataFrame:
    """The file of the measurements: axes and flags as text, times as numbers."""
    return read_frame(path, NUMBERS)


def _key(export: Path, depth: int) -> tuple[str, int]:
    return "/".join(export.parts[-1 - depth : -1]), int(export.stem.removeprefix("round"))


def _read(export: Path, cell: Mapping[str, str], number: int, collected: Collected) -> str:
    """Add the runs of an export; returns why it is none, or ""."""
    try:
        context = json.loads(export.with_name(f"{export.stem}.context.json").read_bytes())
        empty = not export.stat().st_size
    except (OSError, ValueError):
        return f"{export.name} or its context is missing or damaged; delete both and run again"
    if empty:
        return f"{export.name} is empty; delete it and run again"
    runs = hyperfine_export.read(export)
    codes = {run.exit_code for run in runs} - {0}
    if codes:
        return f"the command ended with {', '.join(sorted(map(str, codes)))}, which is not 0"
    where = {name: cell[name] for name in ("cell", *collected.axes)}
    about = _about(context)
    certified = itertools.chain(context.get("runs", []), itertools.repeat(UNCERTIFIED))
    for index, (run, seen) in enumerate(zip(runs, certified, strict=False), start=1):
        promise = judgement.promised(promises(context), index)
        found = _run(run, seen, context, promise, collected.thresholds)
        if collected.calls is not None:
            found |= calls.columns(collected.calls.get(cell["cell"]), found["not_counted"])
        collected.runs.append({**where, "round": number, "run": index, **found, **about})
    return ""


def _run(
    run: hyperfine_export.Run,
    seen: Mapping[str, Any],
    context: Mapping[str, Any],
    promise: Mapping[str, str],
    limits: Mapping[str, float],
) -> dict[str, Any]:
    """The columns of a run that are its own; `seen` is what the context has of it."""
    certificate = judgement.with_times(seen.get("certificate", {}), run)
    words = judgement.judge(certificate, run.elapsed_s, promise, limits)
    words += [word for word in seen.get("flags", []) if word not in judgement.JUDGED]
    words += [*context.get("flags", []), *buildlabels.judge(context)]
    words += ["mean-cpu"] * run.mean_cpu
    words += ["saturated"] * _is_saturated(run, seen, context, limits["max_cpu_share"])
    words += ["other-output"] * samework.wrote_otherwise(seen, context)
    return {
        "elapsed_s": run.elapsed_s,
        "user_s": run.user_s,
        "system_s": run.system_s,
        **_columns(certificate),
        **_client_peak(run, certificate),
        **counted.columns(certificate, context),
        **carried.columns(run.elapsed_s, seen, context),
        **space.columns(context),
        "work": _as_text(seen.get("work")),
        "flags": words,
    }


def _client_peak(run: hyperfine_export.Run, certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The client's own peak in the timed run where hyperfine tells it, else in an untimed one before it."""
    untimed = certificate.get("client_peak_memory_bytes")
    told = run.peak_memory_bytes
    source = "timed" if told is not None else "untimed" if untimed is not None else ""
    peak = untimed if told is None else told
    return {"client_peak_memory_bytes": peak, "client_peak_memory_run": source}


def _is_saturated(
    run: hyperfine_export.Run, seen: Mapping[str, Any], context: Mapping[str, Any], limit: float
) -> bool:
    busy_s = [run.user_s, run.system_s, seen.get("certificate", {}).get("server_cpu_s")]
    share = sum(seconds or 0.0 for seconds in busy_s) / run.elapsed_s
    return bool(share > limit * context["host"]["cores"])


def _about(context: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **buildlabels.columns(context),
        "set_aside": ", ".join(map(_false_labels, context.get("set_aside", []))),
        "copy": context.get("copy"),
        "order": context.get("order"),
        "seed": context.get("seed"),
        "scale": context.get("repository", {}).get("scale"),
        "host": full_name(context["host"]),
        "started_at": context.get("started_at", ""),
        **{key: context.get("took", {}).get(key) for key in ("waited_s", "cell_round_s")},
    }


def _false_labels(attempt: Mapping[str, Any]) -> str:
    said = flags.joined(word for run in attempt["runs"] for word in run["flags"])
    return " ".join(word for word in said.split() if word in flags.FALSE_LABEL)


def _as_text(work: Mapping[str, Any] | None) -> str:
    return _COMPACT.encode(work) if work else ""


def _columns(certificate: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _SORTED.encode(value) if isinstance(value, (dict, list)) else value
        for name, value in certificate.items()
    }


def _why_missing(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        lines = []
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it was not measured: the workflow ended before its turn"


def _flags(frame: pd.DataFrame, axes: Sequence[str], min_run_s: float) -> list[str]:
    """The runs' own flags with those that follow from a cell's median over its usable runs."""
    usable = frame["flags"].map(flags.FALSE_LABEL.isdisjoint)
    elapsed = frame["elapsed_s"].where(usable)
    median = elapsed.groupby([frame["cell"], frame["host"]]).transform("median")
    deviation = (elapsed / median - 1).abs()
    seen = pd.DataFrame({word: deviation > limit for word, limit in OFF.items()})
    seen = seen.assign(**{"too-short": median < min_run_s}, **_work(frame, axes))
    seen[fixed_cost.FLAG] = frame["fixed_share"] > fixed_cost.FLAGGED_SHARE
    rows, words = seen.to_numpy(bool).tolist(), list(seen.columns)
    return [
        flags.joined([*own, *itertools.compress(words, row)])
        for own, row in zip(frame["flags"], rows, strict=True)
    ]


def _work(frame: pd.DataFrame, axes: Sequence[str]) -> dict[str, Any]:
    """The flags of runs that did not do what most runs of their command on their subject did."""
    groups = grouped(frame, samework.work_axes(axes))
    alike = set().union(*(samework.alike(part["work"].to_dict()) for _, part in groups))
    other, told = ~frame.index.isin(alike), frame["work"] != ""
    other &= ~frame["work"].map(samework.is_apart).astype(bool)
    return {samework.OTHER: other & told, samework.UNKNOWN: other & ~told}
