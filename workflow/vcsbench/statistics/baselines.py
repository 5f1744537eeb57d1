"""Describe measured studies, and the named baselines of them in baselines/<name>."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict, TypeVar, cast

from vcsbench import __version__
from vcsbench.cell_rounds import CellRound
from vcsbench.config.study import TableDefinition
from vcsbench.errors import UserError
from vcsbench.files import read_json
from vcsbench.machine import host_label
from vcsbench.metrics import DEFAULT
from vcsbench.plan.result_state import check_version, read_context
from vcsbench.records import Context, Host

Item = TypeVar("Item")
FOLDER = Path("baselines")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
NOW, SINCE = "now", "(when)"


class CellSettings(TypedDict):
    """Settings of a cell that must be equal in a comparison with a baseline."""

    command: str
    repository: dict[str, object]
    method: dict[str, object]


class Description(TypedDict):
    """When, where and how measurements were made.

    `first` and `last` are the times of runs, `hosts` has facts by host, `cells` the settings by cell.
    The other keys list the different values of all cells, `versions` by program, `server_files` digests
    by path.
    """

    study: str
    vcsbench: str
    first: str
    last: str
    rounds: int
    seeds: list[int]
    hosts: dict[str, Host]
    kernel: list[str]
    system: list[str]
    governor: list[str]
    storage: list[str]
    versions: dict[str, list[str]]
    server_files: dict[str, list[str]]
    cells: dict[str, CellSettings]


def table_name(baseline: str) -> str:
    return f"{baseline}-vs-{NOW}"


def table_definition(definitions: Mapping[str, TableDefinition], baseline: str) -> TableDefinition:
    elapsed = [t for t in definitions.values() if t.get("metric") == DEFAULT]
    return {
        "compare": {"axis": SINCE, "baseline": baseline, "candidates": [NOW]},
        "rows": elapsed[0]["rows"] if elapsed else [],
        "columns": elapsed[0]["columns"] if elapsed else [],
        "published": False,
    }


def csv_path(name: str, study: str) -> Path:
    return FOLDER / name / f"{study}.csv"


def description_path(name: str, study: str) -> Path:
    return FOLDER / name / f"{study}.json"


def saved_baselines() -> dict[str, list[str]]:
    return {
        folder.name: sorted(path.stem for path in folder.glob("*.csv"))
        for folder in sorted(FOLDER.glob("*"))
        if folder.is_dir()
    }


def describe_baseline(
    study: str, rounds: Iterable[tuple[str, int, str]], results: Path
) -> Description:
    """Describe measurements by the contexts of their cells; `rounds` are (cell, number, start).

    Raise UserError if a context is missing or of another run.
    """
    contexts: dict[tuple[str, int], Context] = {}
    for cell, number, started_at in rounds:
        if (cell, number) not in contexts:
            path = CellRound(study, cell, number, str(results)).context
            contexts[cell, number] = _context(Path(path), started_at)
    every = list(contexts.values())
    times = sorted(str(context["started_at"]) for context in every) or [""]
    hosts = [context["host"] for context in every]
    storages = [context["storage"] for context in every]
    keys = ("path", "filesystem", "device")
    files = [
        (f"{context['axes'].get('config', '')}/{name}", text)
        for context in every
        for name, text in context["server_files"].items()
    ]
    return {
        "study": study,
        "vcsbench": __version__,
        "first": times[0],
        "last": times[-1],
        "rounds": len({number for _, number in contexts}),
        "seeds": _distinct(context["seed"] for context in every if "seed" in context),
        "hosts": {host_label(host): host for host in hosts},
        "kernel": _distinct(host.get("kernel") for host in hosts),
        "system": _distinct(host.get("os") for host in hosts),
        "governor": _distinct(host.get("governor") for host in hosts),
        "storage": _distinct(" ".join(str(s.get(k) or "") for k in keys) for s in storages),
        "versions": _by_name(v for c in every for v in c["versions"].items()),
        "server_files": _by_name(
            (name, hashlib.sha256(text.encode()).hexdigest()[:12]) for name, text in files
        ),
        "cells": {cell: cell_settings(context) for (cell, _), context in contexts.items()},
    }


def _context(path: Path, started_at: str) -> Context:
    if not (context := read_context(path)):
        raise UserError(
            f"{path}: the file is missing or damaged. Run `make report` to measure it again."
        )
    if context["started_at"] != started_at:
        raise UserError(
            f"{path}: the file is newer than the measurements. Run `make report` to write them again."
        )
    check_version(path, context)
    return context


def cell_settings(context: Context) -> CellSettings:
    repository = context["repository"]
    ways = {run["evidence"].get("cache_cleared_by") or "" for run in context["runs"]}
    return {
        "command": context["argv_template"],
        "repository": {k: repository.get(k) for k in ("name", "source", "identity", "scale")},
        "method": {
            **{key: context.get(key) for key in ("hooks", "warmup")},
            "targets": context["targets"],
            "cleared_by": sorted(filter(None, ways)),
        },
    }


def _distinct(values: Iterable[Item | None]) -> list[Item]:
    return list(dict.fromkeys(value for value in values if value is not None and value != ""))


def _by_name(values: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in values:
        found[name] = _distinct([*found.get(name, []), value])
    return found


def changes(before: Description, now: Description) -> list[str]:
    values = [
        ("kernel", before.get("kernel"), now.get("kernel")),
        ("system", before.get("system"), now.get("system")),
        ("CPU governor", before.get("governor"), now.get("governor")),
        ("storage", before.get("storage"), now.get("storage")),
    ]
    versions, files = now.get("versions", {}), before.get("server_files", {})
    saved = before.get("versions", {}).items()
    values += [(name, old, versions.get(name) or old) for name, old in saved if old]
    changed = [
        f"{name} {', '.join(old or []) or 'unknown'} to {', '.join(new or []) or 'unknown'}"
        for name, old, new in values
        if (old or []) != (new or [])
    ]
    for name, digests in now.get("server_files", {}).items():
        if files.get(name, digests) != digests:
            changed.append(f"server configuration {name}")
    return changed


def read_description(name: str, study: str) -> Description:
    path = description_path(name, study)
    description = read_json(path)
    if not isinstance(description.get("cells"), dict):
        raise UserError(
            f"{path}: the file is missing or damaged. Save the baseline again under another name."
        )
    return cast(Description, description)
