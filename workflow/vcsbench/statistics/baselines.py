"""Save measured studies as named baselines in baselines/<name>, to compare later runs with.

`python -m vcsbench.statistics.baselines NAME [STUDY]...` saves the named studies, or all.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench import __version__
from vcsbench.errors import UserError
from vcsbench.files import write_bytes, write_json
from vcsbench.measure.host import host_label

FOLDER = Path("baselines")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Name of the current measurements next to a baseline.
NOW = "now"
# Settings that two compared cells must share, by the flag of a difference.
FLAGS = {"other-command": "command", "other-repository": "repository", "other-method": "method"}


def table_name(baseline: str) -> str:
    """Return the name of the table: `before-upgrade-vs-now`."""
    return f"{baseline}-vs-{NOW}"


def csv_path(name: str, study: str) -> Path:
    """Return the path of a study's saved measurements."""
    return FOLDER / name / f"{study}.csv"


def description_path(name: str, study: str) -> Path:
    """Return the path of the description: host, versions, times and settings of cells."""
    return FOLDER / name / f"{study}.json"


def saved_baselines() -> dict[str, list[str]]:
    """Return the names of the baselines, each with its studies."""
    return {
        folder.name: sorted(path.stem for path in folder.glob("*.csv"))
        for folder in sorted(FOLDER.glob("*"))
        if folder.is_dir()
    }


def save(name: str, studies: Sequence[str], results: Path) -> list[str]:
    """Save measured studies (all if none is named); return a sentence for each.

    Raises UserError, and saves nothing, if a study was not measured or is saved already.
    """
    if not NAME.fullmatch(name):
        raise UserError(
            f"NAME={name}: a baseline's name has letters, digits, `.`, `_` and `-`, and begins with a "
            f"letter or a digit; say NAME=before-upgrade, for instance"
        )
    folder = results / "measurements"
    wanted = list(studies) or sorted(path.stem for path in folder.glob("*.csv"))
    if not wanted:
        raise UserError(f"{folder}: nothing has been measured; `make report` does it")
    found = []
    for study in wanted:
        if not NAME.fullmatch(study):
            raise UserError(f"STUDY={study}: is no study's name; results/measurements has them")
        if csv_path(name, study).exists() or description_path(name, study).exists():
            raise UserError(
                f"{csv_path(name, study)}: is there already, and a baseline is never overwritten; "
                f"choose another NAME, or remove it yourself"
            )
        found.append((study, *_measured(folder / f"{study}.csv", study, results)))
    return [_write(name, *parts) for parts in found]


def _measured(path: Path, study: str, results: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of a study's measurements, and their description."""
    try:
        content = path.read_bytes()
    except OSError:
        raise UserError(
            f"{path}: the study {study} has not been measured; `make report` does it"
        ) from None
    rows = list(csv.DictReader(content.decode().splitlines()))
    if not rows:
        raise UserError(f"{path}: nothing of {study} has been measured; `make report` does it")
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return content, {"saved_at": now, **describe(study, rows, results)}


def _write(name: str, study: str, content: bytes, description: Mapping[str, Any]) -> str:
    path = csv_path(name, study)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(description_path(name, study), description)
    write_bytes(path, content)
    return (
        f"saved {path}: {len(description['cells'])} cells in {description['rounds']} rounds, "
        f"measured on {', '.join(description['hosts'])}"
    )


def describe(study: str, rows: Iterable[Mapping[Any, Any]], results: Path) -> dict[str, Any]:
    """Return the description of a study's measurements, from the contexts of its cells.

    `rows` come from the measurements' file. Raises UserError if a context is missing or of another run.
    """
    contexts = {}
    for row in rows:
        key = (row["cell"], int(float(row["round"])))
        if key not in contexts:
            contexts[key] = _context(study, key, row["started_at"], results)
    every = list(contexts.values())
    times = sorted(str(context["started_at"]) for context in every)
    return {
        "study": study,
        "vcsbench": __version__,
        "first": times[0] if times else "",
        "last": times[-1] if times else "",
        "rounds": len({number for _, number in contexts}),
        "seeds": _distinct(context.get("seed") for context in every),
        "hosts": {host_label(context["host"]): context["host"] for context in every},
        **_conditions(every),
        "cells": {cell: cell_settings(context) for (cell, _), context in contexts.items()},
    }


def _context(study: str, key: tuple[str, int], started_at: str, results: Path) -> dict[str, Any]:
    cell, number = key
    path = results / "cells" / study / cell / f"round{number}.context.json"
    try:
        context: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{path}: is missing or damaged; `make report` measures it anew") from None
    if context.get("started_at", "") != started_at:
        raise UserError(
            f"{path}: was measured after the measurements were written; `make report` writes them anew"
        )
    return context


def cell_settings(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a cell that must be equal in a comparison with a baseline."""
    repository = context.get("repository") or {}
    ways = {(run.get("certificate") or {}).get("cache_cleared_by") or "" for run in context["runs"]}
    return {
        "command": context.get("argv_template", ""),
        "repository": {k: repository.get(k) for k in ("name", "source", "identity", "scale")},
        "method": {
            **{key: context.get(key) for key in ("hooks", "warmup")},
            "targets": context.get("targets") or "",
            "cleared_by": sorted(filter(None, ways)),
        },
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the flags of the settings that differ between two cells of one name."""
    return [flag for flag, key in FLAGS.items() if before.get(key) != now.get(key)]


def _conditions(contexts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return conditions that may change between compared runs and are then reported."""
    versions: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    for context in contexts:
        for program, version in (context.get("versions") or {}).items():
            versions[program] = _distinct([*versions.get(program, []), version])
        config = (context.get("axes") or {}).get("config", "")
        for name, text in (context.get("server_files") or {}).items():
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            key = f"{config}/{name}"
            files[key] = _distinct([*files.get(key, []), digest])
    storages = [context.get("storage") or {} for context in contexts]
    return {
        "kernel": _distinct(context["host"].get("kernel") for context in contexts),
        "system": _distinct(context["host"].get("os") for context in contexts),
        "governor": _distinct(context["host"].get("governor") for context in contexts),
        "storage": _distinct(
            " ".join(str(s.get(key) or "") for key in ("path", "filesystem", "device"))
            for s in storages
        ),
        "versions": versions,
        "server_files": files,
    }


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(value for value in values if value not in (None, "")))


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the changed conditions between two descriptions, a few words each."""
    found = []
    for key in ("kernel", "system", "governor", "storage"):
        name = "CPU governor" if key == "governor" else key
        found += _change(name, before.get(key, []), now.get(key, []))
    for program, versions in before.get("versions", {}).items():
        since = now.get("versions", {}).get(program)
        if versions and since:  # A program that one side did not use has not changed.
            found += _change(program, versions, since)
    for path, digests in now.get("server_files", {}).items():
        if before.get("server_files", {}).get(path, digests) != digests:
            found.append(f"server configuration {path}")
    return found


def _change(name: str, before: Sequence[Any], now: Sequence[Any]) -> list[str]:
    if list(before) == list(now):
        return []
    sides = [", ".join(map(str, side)) or "unknown" for side in (before, now)]
    return [f"{name} {sides[0]} to {sides[1]}"]


def read_description(name: str, study: str) -> dict[str, Any]:
    """Return the description of a saved study; UserError if it cannot be read."""
    path = description_path(name, study)
    try:
        description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"{path}: is missing; save the baseline again under another name") from None
    except ValueError:
        raise UserError(f"{path}: is damaged; save the baseline again under another name") from None
    return description


def main(arguments: Sequence[str]) -> int:
    """Save a baseline and return the exit code."""
    if not arguments or not arguments[0]:
        print("say how to call it: make baseline NAME=before-upgrade", file=sys.stderr)
        return 1
    name, *studies = arguments
    try:
        print("\n".join(save(name, [s for s in studies if s], Path("results"))))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"To compare with it: `baselines: [{name}]` in the configuration, then make report")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
