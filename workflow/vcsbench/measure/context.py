"""Describe where a cell-round was measured: host, storage, programs, subjects, environment."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.machine import host
from vcsbench.measure.capture import Captured, client_libraries, server_libraries
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.programs import Programs, joined_digest
from vcsbench.storages.filesystems import describe_storage
from vcsbench.storages.workdir import WorkDir
from vcsbench.urls import without_password

if TYPE_CHECKING:
    from vcsbench.records import (
        BuildFacts,
        BuildSide,
        Context,
        RunRecord,
        ServerFacts,
        SetAside,
        SubjectFacts,
        Work,
    )

# Variables that change programs: of loaders, C libraries, Subversion and its libraries, and proxies.
CHANGING = re.compile(
    r"LD_.*|GLIBC_TUNABLES|MALLOC_.*|SVN_.*|APR_.*|SERF_.*|OPENSSL_.*|GCONV_PATH|"
    r"(http|https|ftp|all|no)_proxy",
    re.IGNORECASE,
)
_USER_WITHOUT_SCHEME = re.compile(r"^[^/\s]*@")


class RoundResult(NamedTuple):
    """The result of a cell-round.

    `captured` is the run whose output was read, if any. `set_aside` has the attempts before the last
    one, whose seconds are `hyperfine_s`, with hooks, and `hooks_s`.
    """

    number: int
    started_at: datetime.datetime
    captured: Captured | None
    runs: list[RunRecord]
    set_aside: list[SetAside]
    hyperfine_s: float
    hooks_s: float


def describe(cell: PreparedCell, result: RoundResult) -> Context:
    """Return the context of a cell-round, the content of its context file."""
    recipe, captured = cell.recipe, result.captured
    state, place = recipe["state"], recipe["storage"]
    work: Work = {"kind": recipe["work"]}
    if captured:
        work["captured_io"] = captured.io
    facts: SubjectFacts = {}
    for subject in cell.subjects:
        facts |= subject.facts()
    environment = changing_environment()
    return {
        "study": recipe["study"],
        "cell": recipe["cell"],
        "axes": recipe["axes"],
        "recipe_digest": recipe["digest"],
        "round": result.number,
        "started_at": result.started_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "argv": cell.argv,
        "argv_template": recipe["argv"],
        "stdin": cell.stdin,
        "hooks": {"setup": state["setup"], "prepare": state["prepare"], "cleanup": []},
        "warmup": state["warmup"],
        "promises": state["promises"],
        "network": recipe.get("network"),
        "environment": environment,
        "server": _server(cell, result.runs),
        "servers": recipe["servers"],
        "remote": recipe.get("remote"),
        "server_files": _contents(cell.files),
        "host": host(),
        "targets": recipe["targets"],
        "storage": describe_storage(place["name"], WorkDir(place["path"], os.getcwd()).make()),
        "versions": cell.versions,
        "build": _build(cell, _client_libraries(cell, captured)),
        **facts,
        "work": work,
        # hyperfine's time includes its hooks.
        "took": {
            "hyperfine_s": round(result.hyperfine_s, 6),
            "hooks_s": round(result.hooks_s, 6),
        },
        "set_aside": result.set_aside,
        "runs": result.runs,
        # The flags that do not depend on the evidence of a run.
        "flags": [
            *(flag for subject in cell.subjects for flag in subject.flags()),
            *["environment"] * bool(environment),
        ],
    }


def _server(cell: PreparedCell, runs: list[RunRecord]) -> ServerFacts | None:
    server = cell.server
    if not server:
        return None
    return {
        "kind": server.kind,
        "argv": server.argv,
        "port": server.port,
        "pid": runs[-1]["certificate"].get("server_pid") if runs else None,
    }


def _client_libraries(cell: PreparedCell, captured: Captured | None) -> list[str] | None:
    """Return the libraries of the client in the run that was traced, or in one more run."""
    if not os.path.basename(cell.command[0]).startswith("svn"):
        return None
    if captured and captured.libraries:
        return captured.libraries
    return client_libraries(cell.idle_command or cell.command, cell.environment, cell.folder)


def _build(cell: PreparedCell, libraries: list[str] | None) -> BuildFacts:
    """Return the binaries of each side: program, version, loaded libraries, and the folders of the build."""
    program = cell.command[0]
    client = _side(program, cell.versions[os.path.basename(program)], cell.client, libraries)
    server, server_side = cell.server, None
    if server and server.pid:
        version = server.program.version(server, cell.versions[server.kind])
        of_server = server_libraries(server.pid)
        server_side = _side(server.argv[0], version, server.programs, of_server)
    sides = [side for side in (client, server_side) if side]
    files = [path for side in sides for path in (side["program"], *(side["libraries"] or []))]
    return {
        "name": cell.recipe["build"]["name"],
        "client": client,
        "server": server_side,
        "digest": joined_digest(files),
    }


def _side(program: str, version: str, programs: Programs, libraries: list[str] | None) -> BuildSide:
    return {
        "program": program,
        "version": version,
        "places": programs.places,
        "libraries": libraries,
    }


def _contents(folder: Path) -> dict[str, str]:
    """Return the contents of the files below a folder, by their paths in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


def changing_environment() -> dict[str, str]:
    """Return the environment variables that change client or server programs, without secrets."""
    variables = {name: value for name, value in os.environ.items() if CHANGING.fullmatch(name)}
    # A proxy may have no scheme: user:password@host:port.
    return {
        name: _USER_WITHOUT_SCHEME.sub("...@", without_password(value))
        for name, value in sorted(variables.items())
    }
