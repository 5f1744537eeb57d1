"""Describe a cell-round in its context: recipe, host, storage, programs, subjects and evidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.kernel import read
from vcsbench.machine import host
from vcsbench.measure import untimed_runs
from vcsbench.measure.conditions import read_conditions
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.programs import digest, joined_digest, path_of
from vcsbench.storages.disks import describe_storage
from vcsbench.storages.workdir import WorkDir

if TYPE_CHECKING:
    from vcsbench.records import (
        BuildFacts,
        BuildSide,
        Context,
        RunRecord,
        StorageFacts,
        SubjectFacts,
    )

# The libraries that the loader adds to all programs.
PRELOADED = "/etc/ld.so.preload"


def describe_round(
    cell: PreparedCell, runs: list[RunRecord], captured: untimed_runs.Captured | None
) -> Context:
    """Return the context of a cell's runs: everything that may explain their times, as JSON data.

    It has the recipe, host, storage, programs with their digests, subjects and the runs with their evidence.
    `captured` is the untimed run whose output was read; None if there was none.
    """
    recipe = cell.recipe
    state = recipe["state"]
    storage = recipe["storage"]
    facts: SubjectFacts = {}
    flags: list[str] = []
    for subject in cell.subjects:
        facts |= subject.facts()
        flags += subject.flags()
    target_storage: StorageFacts = {}
    if recipe["targets"]:
        target_storage = describe_storage("", Path(recipe["targets"]))
    return {
        "study": recipe["study"],
        "cell": recipe["cell"],
        "axes": recipe["axes"],
        "recipe_digest": recipe["digest"],
        "argv": list(cell.timed.argv),
        "argv_template": recipe["argv"],
        "stdin": cell.timed.stdin,
        "hooks": {"setup": state["setup"], "prepare": state["prepare"], "cleanup": []},
        "warmup": state["warmup"],
        "network": recipe.get("network"),
        "line": cell.networks.describe() if cell.networks else None,
        "environment": cell.environment,
        "server": _describe_server(cell, runs),
        "server_folder": recipe["server_folder"],
        "remote": recipe.get("remote"),
        "server_files": _read_server_files(cell.files),
        "host": host(),
        "targets": recipe["targets"],
        "storage": describe_storage(storage["name"], WorkDir(storage["path"], cell.root).make()),
        "target_storage": target_storage,
        "versions": cell.versions,
        "build": _describe_build(cell, captured),
        "preloaded": read(PRELOADED).split(),
        **facts,
        "work_kind": recipe["work_kind"],
        "conditions": read_conditions(),
        "runs": runs,
        "flags": flags,
    }


def _describe_server(cell: PreparedCell, runs: list[RunRecord]) -> dict[str, object] | None:
    """Return kind, argv, port, pid and settings of the server; None if the cell has none.

    `subversion_argv` is the command line of svnserve, which sshd starts for each connection.
    """
    server = cell.server
    if not server:
        return None
    # The server of the last run: a cache state may demand a new one for each run.
    pid = runs[-1]["evidence"].get("server_pid") if runs else None
    facts = {
        "kind": server.kind,
        "argv": server.argv,
        "port": server.port,
        "pid": pid,
        "settings": server.settings,
    }
    if server.subversion_command() != server.argv:
        facts["subversion_argv"] = server.subversion_command()
    return facts


def _read_server_files(folder: Path) -> dict[str, str]:
    """Return the text of each file of the server configuration, by its path below the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


def _describe_build(cell: PreparedCell, captured: untimed_runs.Captured | None) -> BuildFacts:
    """Return the programs of client and server, with a digest of each file that they have mapped."""
    client = _describe_client(cell, captured)
    sides = [client]
    served = None
    server = cell.server
    if server and server.pid:
        served = _describe_side(
            program=server.subversion_command()[0],
            version=server.subversion_version(cell.versions),
            places=server.programs.places,
            mapped=server.mapped_files(),
        )
        sides.append(served)
    # The digest covers the programs and Subversion's libraries only. Other libraries, such as the C library,
    # differ between machines that run the same Subversion.
    files = []
    for side in sides:
        files.append(side["program"])
        files += side["libraries"] or []
    return {
        "name": cell.recipe["build"]["name"],
        "client": client,
        "server": served,
        "digest": joined_digest(files),
    }


def _describe_client(cell: PreparedCell, captured: untimed_runs.Captured | None) -> BuildSide:
    """Return the client's program, and its libraries if it is one of Subversion."""
    name = os.path.basename(cell.argv[0])
    # A command may name a program on the PATH, such as git.
    program = cell.argv[0] if "/" in cell.argv[0] else path_of(name)
    is_subversion = name.startswith("svn")
    mapped = captured.mapped if captured else None
    # If the client's files are unknown, it is run again to list them. That is done with clients of Subversion
    # only, because another program could change the tree that it works on.
    if mapped is None and is_subversion:
        mapped = untimed_runs.trace_mapped_files(cell.idle_argv or cell.argv, cell.environment)
    client = _describe_side(program, cell.versions[name], cell.client.places, mapped)
    if not is_subversion:
        # The libraries of an svn that the program has run are not its own.
        client["libraries"] = None
    return client


def _describe_side(
    program: str, version: str, places: list[str], mapped: Sequence[str] | None
) -> BuildSide:
    """Return a program with the digests of its `mapped` files, None if these are unknown."""
    digests = None
    if mapped is not None:
        digests = {path: digest(path) for path in mapped}
    return {
        "program": program,
        "version": version,
        "places": places,
        "libraries": untimed_runs.find_subversion_libraries(mapped),
        "mapped": digests,
    }
