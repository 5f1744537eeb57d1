"""What a cell is measured with, as plain data: Snakemake's `params`, whose change makes a cell stale."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.axes import build as builds
from vcsbench.axes import cache as states
from vcsbench.axes.ra import ACCESS
from vcsbench.config.configuration import Config
from vcsbench.config.study import Study
from vcsbench.machine import Machine
from vcsbench.plan.grid import Cell
from vcsbench.sources import Source
from vcsbench.storages.describe import lacks_journal
from vcsbench.storages.folder import resolve
from vcsbench.subjects.repository.variant import Variant

# An edit of the code that measures makes every cell stale.
MEASURING = Path(__file__).parents[1] / "measure"


def cell_spec(
    config: Config, study: Study, cell: Cell, repository: dict[str, Any], machine: Machine
) -> dict[str, Any]:
    """All that a measurement of the cell depends on, but the round: `{words}` are not filled in.

    `repository` is what about() says of the cell's repository.
    """
    axes = cell.axes
    variant = Variant(axes["repo"], axes["format"], axes["packing"], repository["identity"])
    command = study.commands[axes["command"]]
    servers = config.root / "config" / "servers" / axes["config"]
    storage = axes.get("storage") or config["storage"]
    access, build = ACCESS[axes.get("ra", "")], config.build_of(axes)
    return {
        "study": study.name,
        "cell": cell.path,
        "axes": axes,
        "argv": command["argv"],
        "work": command["work"],
        "state": states.describe(axes["cache"], config["cold_client"]),
        "runs": config["runs"],
        "time_limit_s": config["time_limit_s"],
        "clearing": machine.clearing(config["clear_caches"]),
        "servers": str(servers.relative_to(config.root)),
        "code": _files_digest(MEASURING, ("",)),
        "server_files": _files_digest(servers, access.files),
        "build": build.spec(),
        "binaries": builds.digests(build, machine, command["argv"], access.server),
        "targets": _targets(config, command, config["storages"][storage]),
        "storage": {"name": storage, "path": config["storages"][storage]},
        "repository": {**repository, "variant": variant.name},
    }


def about(name: str, source: Source) -> dict[str, Any]:
    """What a spec says of a repository in all of its variants."""
    return {
        "name": name,
        "identity": source.identity(),
        "source": source.kind,
        "scale": source.scale(),
        "description": source.describe(),
    }


def _targets(config: Config, command: dict[str, Any], storage: str) -> str:
    """The folder below which a command writes; "" for one that writes nothing."""
    if not command.get("target"):
        return ""
    wanted = config["targets"]
    if wanted == "auto":
        wanted = "scratch" if _lacks_journal(storage) else "storage"
    return str(resolve(config["scratch"] if wanted == "scratch" else storage, config.root))


_lacks_journal = cache(lacks_journal)


@cache
def _files_digest(folder: Path, names: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for name in names:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                total.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return total.hexdigest()[:16]
