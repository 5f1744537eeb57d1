"""Describe a cell-round in its context: recipe, host, storage, programs, subjects and evidence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import kernel
from vcsbench.kernel import libc, read
from vcsbench.machine import SCALING_GOVERNOR, host, read_turbo
from vcsbench.measure import untimed_runs
from vcsbench.measure.cell_setup import CellSetup
from vcsbench.programs import digest, joined_digest, path_of
from vcsbench.storages.disks import describe_storage
from vcsbench.storages.workdir import WorkDir
from vcsbench.systems import SUBVERSION

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
    cell: CellSetup, runs: list[RunRecord], captured: untimed_runs.Captured | None
) -> Context:
    """Return the context of one cell's runs in one round: facts that may explain their times, as JSON data.

    The server of `cell` still runs, if there is one. `captured` is the untimed run whose output was read.
    Raise UserError if the runs have left a subject (input or output) in a wrong state, such as a working copy
    with uncommitted changes after a commit.
    """
    recipe = cell.recipe
    state = recipe["state"]
    storage = recipe["storage"]
    subject_facts: SubjectFacts = {}
    # Flags that all runs get, such as "nothing-packed": the repository should be packed, and is not.
    flags: list[str] = []
    for subject in cell.subjects:
        subject_facts |= subject.facts()
        flags += subject.flags()
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
        # The steps of vcsbench around the runs. `prepare` has those before each run. Before the first warm-up
        # run and the first timed run, those of `first` replace them, unless `first` is []. No cache state has
        # steps after the runs.
        "hooks": {
            "setup": state["setup"],
            "first": state.get("first", []),
            "prepare": state["prepare"],
            "cleanup": [],
        },
        "warmup": state["warmup"],
        # The network namespace of the processes, such as "own": one for this round alone.
        "network": recipe.get("network"),
        "line": cell.networks.describe() if cell.networks else None,
        "environment": cell.environment,
        "server": _describe_server(cell, runs),
        "server_folder": recipe["server_folder"],
        "remote": recipe.get("remote"),
        "server_files": _read_server_files(cell.files),
        "host": host(),
        # The folder that the command writes to; "" if it writes nothing.
        "targets": recipe["targets"],
        # make() returns the folder of vcsbench on the storage under test.
        "storage": describe_storage(storage["name"], WorkDir(storage["path"], cell.root).make()),
        "target_storage": target_storage,
        "versions": cell.versions,
        "build": _describe_build(cell, captured),
        "preloaded": read(PRELOADED).split(),
        **subject_facts,
        "work_kind": recipe["work_kind"],
        "conditions": _read_conditions(),
        "runs": runs,
        "flags": flags,
    }


def _describe_server(cell: CellSetup, runs: list[RunRecord]) -> dict[str, object] | None:
    """Return the facts about the server; None for a cell without one.

    `settings` are the lines of the server's configuration for passwords, access rules and the like. If the
    server is sshd, `subversion_argv` is the command line of the program that sshd starts for each connection.
    """
    server = cell.server
    if not server:
        return None
    # The pid is from the last run, because a cold cell starts a new server for each run.
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


def _describe_build(cell: CellSetup, captured: untimed_runs.Captured | None) -> BuildFacts:
    """Return the programs of client and server, and a digest that identifies the build.

    Example: {"name": "1.14", "client": {"program": "/usr/bin/svn", ...}, "server": None, "digest": "9f86"}.
    `server` is None if no server runs.
    """
    client_side = _describe_client(cell, captured)
    server_side = None
    server = cell.server
    if server and server.pid:
        server_side = _describe_side(
            program=server.system_command()[0],
            version=server.system_version(cell.versions),
            places=server.programs.places if server.kind in SUBVERSION.servers else [],
            mapped=server.mapped_files(),
        )
    # `digest` covers the programs and Subversion's libraries only. Other libraries, such as the C library,
    # differ between machines that run the same build.
    build_files: list[str] = []
    for side in (client_side, server_side):
        if side:
            build_files.append(side["program"])
            # None if the libraries are unknown, or if the program is no client or server of Subversion.
            build_files += side["libraries"] or []
    return {
        "name": cell.recipe["build"]["name"],
        "client": client_side,
        "server": server_side,
        "digest": joined_digest(build_files),
    }


def _describe_client(cell: CellSetup, captured: untimed_runs.Captured | None) -> BuildSide:
    """Return program, version and files of the client. Only a client of Subversion has `libraries`."""
    name = os.path.basename(cell.argv[0])
    # A command may name a program on the PATH, such as git.
    program = cell.argv[0] if "/" in cell.argv[0] else path_of(name)
    is_subversion = name.startswith("svn")
    # The programs and libraries that the client had in memory; None if the kernel allowed no tracing.
    mapped = captured.mapped if captured else None
    if mapped is None and is_subversion:
        # Run the client once more to trace it, if possible on an empty repository (`idle_argv`). Clients of
        # other systems are not run again: they could change the tree on which they work.
        mapped = untimed_runs.trace_mapped_files(cell.idle_argv or cell.argv, cell.environment)
    places = cell.client.places if is_subversion else []
    client = _describe_side(program, cell.versions[name], places, mapped)
    if not is_subversion:
        # _describe_side() finds libraries of Subversion here if the client has started svn, as a script does.
        # They are not the client's own.
        client["libraries"] = None
    return client


def _describe_side(
    program: str, version: str, places: list[str], mapped: Sequence[str] | None
) -> BuildSide:
    """Return the facts about one side of a build, its client or its server (records.BuildSide).

    Example: {"program": "/opt/svn/bin/svn", "version": "1.14.2", "places": ["/opt/svn"], "libraries":
    ["/opt/svn/lib/libsvn_client-1.so.0"], "mapped": {"/opt/svn/bin/svn": "9f86...", ...}}. `places` are the
    folders with the libraries of a build of Subversion. Programs of git have no libraries of their own, so
    there are no such folders: []. The parameter `mapped` has the paths of programs and libraries in
    memory. If it is None, so are `libraries` and `mapped` of the result.
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
    """Return the settings that a user or a cluster gave this process. Client and server inherit them.

    `quota_cores`, `io_limits`, `memory_limit_bytes` and `weights` come from control groups. `governor` is the
    kernel's policy for the processor's frequency, such as "performance". Client and server may change what
    they inherit: RoundMeasurement.describe() adds how they were scheduled.
    """
    priority = libc.syscall(IOPRIO_GET, IOPRIO_WHO_PROCESS, THIS_PROCESS)
    return {
        "cpus": sorted(os.sched_getaffinity(THIS_PROCESS)),
        "nice": os.getpriority(os.PRIO_PROCESS, THIS_PROCESS),
        "scheduler": os.sched_getscheduler(THIS_PROCESS),
        "io_priority": priority if priority >= 0 else None,
        "quota_cores": kernel.quota_cores(),
        "io_limits": _read_io_limits(),
        "memory_limit_bytes": kernel.memory().limit,
        "weights": _read_weights(),
        "governor": read(SCALING_GOVERNOR),
        "turbo": read_turbo(),
    }


def _read_io_limits() -> list[str]:
    """Return the I/O limits of all control groups around this process: ["io.max 8:0 rbps=1048576"]."""
    limits = []
    for version, (controller, names) in IO_LIMITS.items():
        for name in names:
            lines = _read_group_lines(version, controller, name)
            limits += [f"{name} {line}" for line in lines]
    return sorted(limits)


def _read_weights() -> list[str]:
    """Return the weights of all control groups around this process: ["cpu.weight 30"], without defaults.

    A group gets processors and I/O in proportion to its weight. With default weights, two equal rounds would
    have different lists: the number of groups around a process depends on how the process was started.
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
    """Return the lines of the file `name` in all control groups of one version around this process."""
    lines: list[str] = []
    for group in kernel.groups(controller):
        if group.version == version:
            lines += kernel.read(group.folder / name).splitlines()
    return lines
