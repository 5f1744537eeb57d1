"""Recipes: all that a cell's measurement depends on, as plain data. What changes one makes its cell stale."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.axes import axis_of, with_files
from vcsbench.axes.build import binaries_of
from vcsbench.axes.here import Here
from vcsbench.config.study import Study
from vcsbench.config.study_models import Command
from vcsbench.errors import UserError
from vcsbench.files import server_files_digest
from vcsbench.modules import cell_code
from vcsbench.plan.grid import Cell
from vcsbench.plan.isolation import network_of, why_not_isolated
from vcsbench.storages.describe import lacks_journal
from vcsbench.storages.place import resolve

# What a command may say for the subjects that it reads and writes, and for how it is measured.
COMMANDS_OWN = (
    *(
        "revisions",
        "output_location",
        "revisions_behind",
        "store",
        "program",
        "needs",
        "clones",
        "measure_sync",
    ),
)
# As many timed runs as the cache state says.
AUTO = "auto"


def parts_of(study: Study, axes: Mapping[str, str], here: Here) -> dict[str, Any]:
    """What a cell is: the entry of its command, and what each axis adds. Nothing in it takes long to know."""
    command = study.command(axes)
    parts: dict[str, Any] = {
        "argv": command.argv,
        "stdin": command.stdin or "",
        "environment": command.environment or {},
        "work": command.work,
        "input": command.input or "",
        "output": command.output or "",
        "runs": command.runs or here.config.settings.runs,
        **{key: own for key in COMMANDS_OWN if (own := getattr(command, key)) is not None},
    }
    held = _held(study, command, axes, here)
    for name in _axes(axes):
        _merge(parts, axis_of(name).part(axes.get(name) or held.get(name, ""), here))
    for when, steps in (command.steps.model_dump() if command.steps else {}).items():
        parts["state"] = {**parts["state"], when: [*parts["state"][when], *steps]}
    more = parts["state"].pop("warmup_of_server", 0)
    if parts["access"]["server"] or "remote" in parts:
        parts["state"]["warmup"] += more
    if command.warmup is not None:
        parts["state"] = {**parts["state"], "warmup": command.warmup, "discard": False}
    usual = parts["state"].pop("runs", 1)
    if parts["runs"] == AUTO:
        parts["runs"] = usual
    parts["server"] = parts["access"]["server"]
    parts["network"] = network_of(parts, here)
    if "remote" in parts:
        # Of a server that somebody else runs nothing can be promised.
        parts["state"] = {**parts["state"], "promises": _without_server(parts["state"]["promises"])}
    return parts


def why_not(axes: Mapping[str, str], parts: Mapping[str, Any], here: Here) -> str:
    """Why a cell cannot be measured here; "" if it can."""
    for name in _axes(axes):
        if "remote" in parts and axes.get(name) and axis_of(name).of_server:
            host = parts["remote"]["host"]
            return (
                f"{name} is the server's, and nothing here sets or sees that of the one on {host}"
            )
        if reason := axis_of(name).why_not(axes.get(name, ""), parts, here):
            return reason
    return why_not_isolated(parts, here)


def recipe_of(cell: Cell, parts: Mapping[str, Any], here: Here) -> dict[str, Any]:
    """The recipe of a cell: its parts, `{words}` not filled in, and digests of all that runs; `digest` is
    over all of it."""
    config, machine = here.config, here.machine
    recipe = {
        "study": cell.study,
        "cell": cell.path,
        "axes": cell.axes,
        **parts,
        "time_limit_s": config.settings.time_limit_s,
        "clearing": machine.clearing(config.settings.clear_caches),
        "code": cell_code(parts),
        "server_files": _server_files(parts, here.root),
        "binaries": binaries_of(cell.axes, parts, here),
        "targets": _targets(parts, here),
    }
    text = json.dumps(recipe, sort_keys=True)
    return recipe | {"digest": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _axes(axes: Mapping[str, str]) -> Iterable[str]:
    """The axes that have a say in a cell: those with a file, and its own."""
    return dict.fromkeys([*with_files(), *axes])


def _server_files(parts: Mapping[str, Any], root: Path) -> str:
    if not parts["servers"]:
        return ""
    return _files_digest(root / parts["servers"], tuple(parts["access"]["files"]))


_files_digest = cache(server_files_digest)
_lacks_journal = cache(lacks_journal)


def _targets(parts: Mapping[str, Any], here: Here) -> str:
    """The folder below which a command writes; "" for one that writes nothing."""
    if not parts["output"]:
        return ""
    if "filesystem" in parts:
        return str(parts["filesystem"]["root"])
    storage = parts["storage"]["path"]
    wanted = parts.get("output_location", here.config.settings.output_location)
    if wanted == "auto":
        wanted = "scratch" if _lacks_journal(storage) else "storage"
    return str(resolve(here.config.settings.scratch if wanted == "scratch" else storage, here.root))


def _held(study: Study, command: Command, axes: Mapping[str, str], here: Here) -> dict[str, str]:
    """What is the same in all cells of a study, of a command or of a repository, where an axis does not say
    it: the value of each such axis."""
    repository = here.repositories.get(axes.get("repo", ""), {})
    packing = {"packing": repository["packing"]} if "packing" in repository else {}
    held = {**study.defaults, **packing, **(command.defaults or {})}
    for name in held:
        if name not in with_files():
            raise UserError(
                f"config/studies/{study.name}.yaml: `defaults.{name}`: there is no such axis; there are "
                f"{', '.join(with_files())}"
            )
    return held


def _without_server(promises: Mapping[str, Any]) -> dict[str, Any]:
    return {
        what: _without_server(promise) if what == "then" else promise
        for what, promise in promises.items()
        if what != "server"
    }


def _merge(parts: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        both = isinstance(value, Mapping) and isinstance(parts.get(key), Mapping)
        parts[key] = {**parts[key], **value} if both else value
