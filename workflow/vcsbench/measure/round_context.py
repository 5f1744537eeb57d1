"""Describe a cell-round in its context: recipe, host, storage, programs, subjects and evidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import kernel
from vcsbench.kernel import libc, read
from vcsbench.machine import SCALING_GOVERNOR, host
from vcsbench.measure import untimed_runs
from vcsbench.measure.prepared_cell import PreparedCell
from vcsbench.programs import digest, joined_digest, path_of
from vcsbench.storages.disks import describe_storage
from vcsbench.storages.workdir import WorkDir

if TYPE_CHECKING:
    from vcsbench.records import (
        BuildFacts,
        BuildSide,
        Context,
        RoundConditions,
        RunRecord,
        StorageFacts,
        SubjectFacts,
    )

# The libraries that the loader adds to all programs.
PRELOADED = "/etc/ld.so.preload"
# The number of the system call ioprio_get(2), 31 on ARM and other new architectures.
IOPRIO_GET = {"x86_64": 252, "ppc64le": 274, "s390x": 283}.get(os.uname().machine, 31)
IOPRIO_WHO_PROCESS = 1
THIS_PROCESS = 0
# By version of control groups: the controller of I/O, and its files with the limits of each device.
IO_LIMITS = {
    1: (
        "blkio",
        (
            "blkio.throttle.read_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.write_iops_device",
        ),
    ),
    2: ("io", ("io.max",)),
}
# By version: the files with the weight of a group among its siblings, each with its controller and default.
WEIGHTS = {
    1: (
        ("cpu.shares", "cpu", "1024"),
        ("blkio.weight", "blkio", "500"),
        ("blkio.bfq.weight", "blkio", "100"),
    ),
    2: (
        ("cpu.weight", "cpu", "100"),
        ("io.weight", "io", "100"),
        ("io.bfq.weight", "io", "100"),
    ),
}


def describe_round(
    cell: PreparedCell, runs: list[RunRecord], captured: untimed_runs.Captured | None
) -> Context:
    """Return the context of a cell's runs: everything that may explain their times, as JSON data.

    `captured` is the untimed run whose output was read; None if there was none.
    """
    recipe = cell.recipe
    state = recipe["state"]
    storage = recipe["storage"]
    subject_facts: SubjectFacts = {}
    # The flags of what the command reads and writes, which all runs get, such as "nothing-packed".
    flags: list[str] = []
    for subject in cell.subjects:
        subject_facts |= subject.facts()
        flags += subject.flags()
    # The storage of the folder that the command writes to; {} if it writes nothing.
    target_storage: StorageFacts = {}
    if recipe["targets"]:
        target_storage = describe_storage("", Path(recipe["targets"]))
    return {
        "study": recipe["study"],
        "cell": recipe["cell"],
        "axes": recipe["axes"],
        "recipe_digest": recipe["digest"],
        # The command line that was timed, and the command of the study, such as "{svn} log {url}".
        "argv": list(cell.timed.argv),
        "argv_template": recipe["argv"],
        "stdin": cell.timed.stdin,
        # The steps of the cache state in each hook of hyperfine. `first` are those before the first warm-up
        # run and the first timed one, in place of `prepare`. [] means the same steps as before the others.
        # No state has steps after the runs.
        "hooks": {
            "setup": state["setup"],
            "first": state.get("first", []),
            "prepare": state["prepare"],
            "cleanup": [],
        },
        # The number of warm-up runs.
        "warmup": state["warmup"],
        "network": recipe.get("network"),
        # The shaped network between client and server, such as one with a delay of 20 ms.
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
        # The libraries that the loader adds to all programs of this machine.
        "preloaded": read(PRELOADED).split(),
        **subject_facts,
        "work_kind": recipe["work_kind"],
        "conditions": _read_conditions(),
        "runs": runs,
        "flags": flags,
    }


def _describe_server(cell: PreparedCell, runs: list[RunRecord]) -> dict[str, object] | None:
    """Return the facts about the server; None for a cell without one.

    Example: {"kind": "svnserve", "argv": ["/usr/bin/svnserve", ...], "port": 40123, "pid": 4711, "settings":
    ""}. `settings` are lines of its configuration. If the server is sshd, `subversion_argv` is the command
    line of the program that sshd starts for each connection.
    """
    server = cell.server
    if not server:
        return None
    # The server of the last run: a cache state may demand a new server for each run.
    pid = runs[-1]["evidence"].get("server_pid") if runs else None
    facts = {
        "kind": server.kind,
        "argv": server.argv,
        "port": server.port,
        "pid": pid,
        "settings": server.settings,
    }
    # The program that reads repositories: the server itself, or the one that sshd starts.
    reader_argv = server.system_command()
    if reader_argv != server.argv:
        facts["subversion_argv"] = reader_argv
    return facts


def _read_server_files(folder: Path) -> dict[str, str]:
    """Return the text of each file of the server configuration, by its path below the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


def _describe_build(cell: PreparedCell, captured: untimed_runs.Captured | None) -> BuildFacts:
    """Return the programs of client and server, and a digest that identifies the build.

    Example: {"name": "1.14", "client": {"program": "/usr/bin/svn", ...}, "server": None, "digest": "9f86"}.
    `server` is None for a cell without a server, and if the server does not run. `captured` is the untimed
    run whose output was read; None if there was none.
    """
    client_side = _describe_client(cell, captured)
    server_side = None
    server = cell.server
    if server and server.pid:
        server_side = _describe_side(
            program=server.system_command()[0],
            version=server.system_version(cell.versions),
            # The folders with the libraries of the build.
            places=server.programs.places,
            # The programs and libraries in the memory of the server; None if they are unknown.
            mapped=server.mapped_files(),
        )
    # `digest` covers the programs and Subversion's libraries only. Other libraries, such as the C library,
    # differ between machines that run the same build.
    build_files: list[str] = []
    for side in (client_side, server_side):
        if side:
            build_files.append(side["program"])
            build_files += side["libraries"] or []
    return {
        "name": cell.recipe["build"]["name"],
        "client": client_side,
        "server": server_side,
        "digest": joined_digest(build_files),
    }


def _describe_client(cell: PreparedCell, captured: untimed_runs.Captured | None) -> BuildSide:
    """Return program, version and files of the client. Only a client of Subversion has `libraries`.

    The untimed run `captured` has the files that the client had in memory, unless tracing was not allowed.
    """
    name = os.path.basename(cell.argv[0])
    # A command may name a program on the PATH, such as git.
    program = cell.argv[0] if "/" in cell.argv[0] else path_of(name)
    is_subversion = name.startswith("svn")
    mapped = captured.mapped if captured else None
    # If the client's files are unknown, the client is run again to list them, if possible on an empty
    # repository (`idle_argv`). Another client than Subversion's is not run again, because it could change the
    # tree that it works on.
    if mapped is None and is_subversion:
        mapped = untimed_runs.trace_mapped_files(cell.idle_argv or cell.argv, cell.environment)
    client = _describe_side(program, cell.versions[name], cell.client.places, mapped)
    if not is_subversion:
        # Another client may have run svn. The libraries of svn are then among the mapped files, but they are
        # none of this client.
        client["libraries"] = None
    return client


def _describe_side(
    program: str, version: str, places: list[str], mapped: Sequence[str] | None
) -> BuildSide:
    """Return the facts about a client or server (records.BuildSide).

    `places` are the folders of the build. `mapped` are the program files in memory. The result has their
    digests, and as `libraries` the paths of Subversion's libraries among them. Both are None if `mapped` is.
    """
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


def _read_conditions() -> RoundConditions:
    """Return the settings of this process by a user or a cluster, which hyperfine, client and server inherit.

    `io_priority` is the number of ioprio_get(2), None if the kernel has no such call. `quota_cores`,
    `io_limits`, `memory_limit_bytes` and `weights` come from control groups. `governor` is that of the
    processor's frequency; "" if the kernel does not show it.
    """
    priority = libc.syscall(IOPRIO_GET, IOPRIO_WHO_PROCESS, THIS_PROCESS)
    return {
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "scheduler": os.sched_getscheduler(0),
        "io_priority": priority if priority >= 0 else None,
        "quota_cores": kernel.quota_cores(),
        "io_limits": _read_io_limits(),
        "memory_limit_bytes": kernel.memory().limit,
        "weights": _read_weights(),
        "governor": read(SCALING_GOVERNOR),
    }


def _read_io_limits() -> list[str]:
    """Return the limits of all groups around this process, such as "io.max 8:0 rbps=1048576"."""
    limits = []
    for version, (controller, names) in IO_LIMITS.items():
        for name in names:
            lines = _read_group_lines(version, controller, name)
            limits += [f"{name} {line}" for line in lines]
    return sorted(limits)


def _read_weights() -> list[str]:
    """Return the weights of all groups around this process, such as "cpu.weight 30", without defaults.

    A weight is the share of a group in what it and its siblings take. A default weight is left out, because
    the number of groups around a process depends on how the process was started.
    """
    weights = []
    for version, files in WEIGHTS.items():
        for name, controller, default in files:
            for line in _read_group_lines(version, controller, name):
                # A line is `30`, or `default 30` for all devices, or `8:0 30` for one.
                weight = line.removeprefix("default ")
                if weight != default:
                    weights.append(f"{name} {weight}")
    return sorted(weights)


def _read_group_lines(version: int, controller: str, name: str) -> list[str]:
    """Return the lines of a file of all groups around this process, in one version of control groups."""
    lines: list[str] = []
    for group in kernel.groups(controller):
        if group.version == version:
            lines += kernel.read(group.folder / name).splitlines()
    return lines
