"""What a cell-round is measured on and with: host, storage, programs, subjects."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench import cgroup
from vcsbench.kernelfile import read
from vcsbench.measure.environment import changing
from vcsbench.measure.identity import identity
from vcsbench.measure.meters import libraries
from vcsbench.measure.stage import Stage
from vcsbench.measure.work.capture import Captured
from vcsbench.programs import Programs, joined_digest
from vcsbench.storages.filesystems import describe_storage
from vcsbench.storages.workdir import WorkDir


class Told(NamedTuple):
    """What a cell-round has brought: its number, when it began, the run that was read (if one was), the runs,
    the attempts that were set aside, and how long hyperfine and its hooks took of the attempt that counts."""

    number: int
    began: datetime.datetime
    captured: Captured | None
    runs: list[dict[str, Any]]
    set_aside: list[dict[str, Any]]
    hyperfine_s: float
    hooks_s: float


def describe(stage: Stage, told: Told) -> dict[str, Any]:
    """The context of a cell-round, as its file has it."""
    recipe = stage.recipe
    state = recipe["state"]
    return {
        **{key: recipe[key] for key in ("study", "cell", "axes")},
        "recipe_digest": recipe["digest"],
        "round": told.number,
        "started_at": told.began.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "argv": stage.argv,
        "argv_template": recipe["argv"],
        "stdin": stage.stdin,
        "hooks": {"setup": state["setup"], "prepare": state["prepare"], "cleanup": []},
        "warmup": state["warmup"],
        "promises": state["promises"],
        "network": recipe.get("network"),
        "environment": changing(),
        "server": _server(stage, told.runs),
        "servers": recipe["servers"],
        "remote": recipe.get("remote"),
        "server_files": _files(stage.files),
        "host": host(),
        "targets": recipe["targets"],
        "storage": describe_storage(
            recipe["storage"]["name"], WorkDir(recipe["storage"]["path"], os.getcwd()).make()
        ),
        "versions": stage.versions,
        "build": _build(stage, _libraries(stage, told.captured)),
        **{key: fact for subject in stage.subjects for key, fact in subject.facts().items()},
        "work": _work(recipe["work"], told.captured),
        # hyperfine's with the hooks in it.
        "took": {"hyperfine_s": round(told.hyperfine_s, 6), "hooks_s": round(told.hooks_s, 6)},
        "set_aside": told.set_aside,
        "runs": told.runs,
        "flags": _flags(stage),
    }


def _server(stage: Stage, runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    server = stage.server
    if not server:
        return None
    return {
        "kind": server.kind,
        "argv": server.argv,
        "port": server.port,
        "pid": runs[-1]["certificate"].get("server_pid") if runs else None,
    }


def _work(kind: str, captured: Captured | None) -> dict[str, Any]:
    """How what the runs did was told: by which kind of reading, and what the kernel counted of the run that
    was read."""
    return {"kind": kind, "captured_io": captured.io} if captured else {"kind": kind}


def _libraries(stage: Stage, captured: Captured | None) -> list[str] | None:
    """The libraries that the client had loaded in the run whose end was seen, or loads in one more."""
    if not os.path.basename(stage.command[0]).startswith("svn"):
        return None
    seen = captured and captured.libraries
    return seen or libraries.by_client(stage.touch or stage.command, stage.environment, stage.run)


def _build(stage: Stage, loaded: list[str] | None) -> dict[str, Any]:
    """The binaries that ran: of each side the program, its version as it reports it, Subversion's
    libraries that it had loaded, and where those of the build belong."""
    program = stage.command[0]
    client = _side(program, stage.versions[os.path.basename(program)], stage.client, loaded)
    described: dict[str, Any] = {
        "name": stage.recipe["build"]["name"],
        "client": client,
        "server": None,
    }
    server = stage.server
    if server and server.pid:
        version = server.of.version(server, stage.versions[server.kind])
        theirs = libraries.by_server(server.pid)
        described["server"] = _side(server.argv[0], version, server.programs, theirs)
    files = [path for side in ("client", "server") for path in _loaded(described[side])]
    described["digest"] = joined_digest(files)
    return described


def _side(
    program: str, version: str, programs: Programs, loaded: list[str] | None
) -> dict[str, Any]:
    return {
        "program": program,
        "version": version,
        "places": programs.places,
        "libraries": loaded,
    }


def _loaded(side: Mapping[str, Any] | None) -> list[str]:
    return [side["program"], *(side["libraries"] or [])] if side else []


def _files(folder: Path) -> dict[str, str]:
    """The content of those files of a server configuration that the cell uses."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in files}


def _flags(stage: Stage) -> list[str]:
    """The flags that all runs earn, before any of their evidence is judged."""
    own = [flag for subject in stage.subjects for flag in subject.flags()]
    return [*own, *["environment"] * bool(changing())]


def host() -> dict[str, Any]:
    """Return the machine: name, identity, kernel, processor, cores, memory, hypervisor, clock source.

    `memory_limit_bytes` and `quota_cores` are a container's limits; None where there is none.
    """
    # Slurm's nodes may share a host name.
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    cpu = read("/proc/cpuinfo")
    return {
        "name": name,
        "id": identity(name, _field(cpu, "model name")),
        "kernel": os.uname().release,
        "os": _os_name(),
        "cpu": _field(cpu, "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": cgroup.machine_memory_bytes(),
        "memory_limit_bytes": cgroup.memory().limit,
        "quota_cores": cgroup.quota_cores(),
        "virtualized": _hypervisor(cpu),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": os.getloadavg()[0],
    }


def _os_name() -> str:
    lines = read("/etc/os-release").splitlines()
    return next((line[13:-1] for line in lines if line.startswith('PRETTY_NAME="')), "")


def _hypervisor(cpu: str) -> str:
    if "hypervisor" not in _field(cpu, "flags").split():
        return ""
    return read("/sys/class/dmi/id/sys_vendor") or "yes"


def _field(text: str, name: str) -> str:
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")
