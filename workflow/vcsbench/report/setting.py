"""What was measured where: the machines, programs, storages, commands and servers, from the contexts
beside the results."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any

from vcsbench import words
from vcsbench.config.study import Study
from vcsbench.config.study_models import Command
from vcsbench.plan.results import block_name
from vcsbench.report.records import Record, distinct, grouped_by, values_of
from vcsbench.report.subjects import Subjects, kinds_of


@dataclass
class Configuration:
    """A server configuration: its files' content by name, and how each server was started."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)

    def agrees_with(self, files: Mapping[str, str]) -> bool:
        """Whether no file has another content here."""
        return all(self.files.get(name, content) == content for name, content in files.items())


@dataclass
class Setting:
    """The distinct things that a study's contexts name, each in the order of its first use."""

    hosts: list[str]
    host_names: list[str]
    machines: list[str]
    guests: list[str]
    storages: list[str]
    layouts: list[str]
    targets: list[str]
    elsewhere: list[str]
    subjects: Subjects
    configurations: list[Configuration]
    commands: list[tuple[str, str]]
    versions: Counter[tuple[str, str]]  # of programs and their versions, by cell-rounds
    cleared: Counter[str]
    seeds: list[str]
    fewest_rounds: int
    rounds: int
    copies: int
    runs: int
    cell_rounds: int
    # By value of the axis `format`: the settings that its revisions were written with (db/fsfs.conf).
    fsfs_settings: dict[str, dict[str, str]]
    first: datetime | None
    last: datetime | None


def summarise(contexts: Iterable[Record], study: Study) -> Setting:
    """Reduce the contexts of a study's cell-rounds to what a reader wants to know of them.

    A context that lacks a part is counted for the parts that it has.
    """
    found = list(contexts)
    hosts = [context["host"] for context in found if context.get("host")]
    runs = [run for context in found for run in context.get("runs") or []]
    ways = ((run.get("certificate") or {}).get("cache_cleared_by") or "" for run in runs)
    times = [time for context in found if (time := words.moment(context.get("started_at", "")))]
    subjects, kinds = Subjects(), kinds_of(study)
    for context in found:
        subjects.add(context, kinds)
    return Setting(
        hosts=distinct(map(_host, hosts)),
        host_names=distinct(str(host["name"]) for host in hosts if host.get("name")),
        machines=distinct(map(_machine, hosts)),
        guests=distinct(_guest(host) for host in hosts if host.get("virtualized")),
        storages=_storages(c["storage"] for c in found if c.get("storage")),
        layouts=distinct(_layout(c) for c in found if (c.get("layout") or {}).get("sentence")),
        targets=distinct(_target(context) for context in found if context.get("targets")),
        elsewhere=distinct(_elsewhere(c["remote"]) for c in found if c.get("remote")),
        subjects=subjects,
        configurations=_configurations(found, study),
        commands=distinct(_command(context, study) for context in found),
        versions=Counter(
            (program, str(version))
            for context in found
            for program, version in (context.get("versions") or {}).items()
            if version
        ),
        cleared=Counter(ways),
        seeds=distinct(str(context["seed"]) for context in found if "seed" in context),
        fewest_rounds=_fewest_rounds(found),
        rounds=_largest(found, "round"),
        copies=_largest(found, "copy"),
        runs=len(runs),
        cell_rounds=len(found),
        fsfs_settings=_fsfs_settings(found),
        first=min(times, default=None),
        last=max(times, default=None),
    )


def _fsfs_settings(contexts: Iterable[Record]) -> dict[str, dict[str, str]]:
    repositories = [context.get("repository") or {} for context in contexts]
    return {
        str(of["format"]): dict(of["fsfs_settings"])
        for of in repositories
        if "format" in of and "fsfs_settings" in of
    }


def settings_sentences(settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return a sentence for each format on the settings that most affect sizes and times."""
    return [_settings_sentence(fmt, settings[fmt]) for fmt in sorted(settings)]


def _settings_sentence(fmt: str, settings: Mapping[str, str]) -> str:
    if not settings:
        return f"{fmt}: the format has no settings."
    switches = {"directory": "enable-dir-deltification", "property": "enable-props-deltification"}
    shown = [
        f"{name} deltification {'on' if settings.get(option) == 'true' else 'off'}"
        for name, option in switches.items()
    ]
    level = settings.get("compression-level")
    shown.append(f"compression {settings.get('compression') or f'zlib-{level}'}")
    if "revprop-pack-size" in settings:
        shown.append(f"packed revision properties in {settings['revprop-pack-size']} KiB")
    return f"{fmt}: {words.enumeration(shown)}."


def _largest(contexts: Iterable[Record], key: str) -> int:
    return max((int(context.get(key) or 0) for context in contexts), default=0)


def _fewest_rounds(contexts: Iterable[Record]) -> int:
    """Those of the cell that has the fewest."""
    last: dict[Any, int] = {}
    for context in contexts:
        cell = context.get("cell")
        last[cell] = max(last.get(cell, 0), int(context.get("round") or 0))
    return min(last.values(), default=0)


def _command(context: Record, study: Study) -> tuple[str, str]:
    return study.command_name(context.get("axes") or {}), str(context.get("argv_template") or "")


def nodes_of(contexts: Iterable[Record], study: Study) -> list[str]:
    """Which machine measured which blocks, a sentence for each; none where there was one machine only."""
    blocks: dict[str, dict[str, None]] = {}
    for context in contexts:
        host = (context.get("host") or {}).get("name")
        if host:
            block = block_name(study.block, context.get("axes") or {})
            blocks.setdefault(str(host), {})[block] = None
    if len(blocks) < 2:
        return []
    return [
        f"{host} measured {words.enumeration(sorted(of))}" for host, of in sorted(blocks.items())
    ]


def _guest(host: Record) -> str:
    return "of a hypervisor" if host["virtualized"] == "yes" else str(host["virtualized"])


def _elsewhere(remote: Record) -> str:
    return (
        f"The server is on {remote['host']} ({remote['url']}) and somebody else's: its CPU, memory, caches "
        f"and options are not measured, and what lies between is in the times."
    )


def _layout(context: Record) -> str:
    storage = (context.get("storage") or {}).get("name")
    return f"{storage}: the copies {context['layout']['sentence']}."


def _machine(host: Record) -> str:
    """Return a machine in a few words: `vm (2 cores, 23.5 GiB)`."""
    sizes = [f"{host['cores']} cores" if host.get("cores") else ""]
    sizes += [words.size(host["memory_bytes"]) if host.get("memory_bytes") else ""]
    named = ", ".join(filter(None, sizes))
    return f"{host.get('name') or 'a machine'}{f' ({named})' if named else ''}"


def _host(host: Record) -> str:
    memory, guest = host.get("memory_bytes"), host.get("virtualized")
    return _joined(
        host.get("name"),
        host.get("cpu"),
        f"{host['cores']} cores" if host.get("cores") else "",
        f"{words.size(memory)} of memory" if memory else "",
        host.get("os"),
        f"kernel {host['kernel']}" if host.get("kernel") else "",
        {None: "", "": "not virtual", "yes": "a guest"}.get(guest, f"a guest ({guest})"),
        f"clock {host['clock_source']}" if host.get("clock_source") else "",
        f"governor {host['governor']}" if host.get("governor") else "",
        f"identity {host['id']}" if host.get("id") else "",
    )


def _target(context: Record) -> str:
    """Where a command wrote to, and whether that is the storage under test."""
    if working_copy := context.get("working_copy"):
        return _filesystem(
            (context.get("axes") or {}).get("filesystem"), working_copy["filesystem"]
        )
    storage = str(context.get("storage", {}).get("path", ""))
    if storage.startswith(str(context["targets"]).rstrip("/") + "/"):
        return f"{context['targets']}, the storage itself"
    return f"{context['targets']}, not the storage: its own cost of writing is not in the times"


def _filesystem(name: Any, told: Record) -> str:
    """The file system of a working copy; one that is made has another path and device each time."""
    if not told.get("made"):
        return _storage({**told, "name": name})
    size = words.size(told["bytes"])
    image = {
        True: f"in an image of {size} with direct I/O",
        False: f"in an image of {size}, through this system's page cache",
    }.get(told.get("direct_io"), size)  # type: ignore[arg-type]
    options = f"mounted {told.get('mount_options')}"
    return _joined(name, told.get("filesystem"), "made for each measurement", image, options)


def _storages(storages: Iterable[Record]) -> list[str]:
    """Each storage, with the least of the free space that it had."""
    free: dict[str, int | None] = {}
    for storage in storages:
        name, now = _storage(storage), storage.get("free_bytes")
        known = [size for size in (free.get(name), now) if size is not None]
        free[name] = min(known, default=None)
    return [f"{n}, {words.size(s)} free" if s is not None else n for n, s in free.items()]


def _storage(storage: Record) -> str:
    return _joined(
        *map(storage.get, ("name", "path", "filesystem", "device")),
        {True: "rotational", False: "not rotational"}.get(storage.get("rotational"), ""),  # type: ignore[arg-type]
        f"scheduler {storage['scheduler']}" if storage.get("scheduler") else "",
        f"mounted {storage['mount_options']}" if storage.get("mount_options") else "",
    )


def _joined(name: Any, *parts: Any) -> str:
    """`name: part, part`, without those that are not known."""
    return f"{name}: {', '.join(str(part) for part in parts if part)}"


def _configurations(contexts: Iterable[Record], study: Study) -> list[Configuration]:
    """The servers' configurations. A context has the files that its cell uses; where one was edited between
    two cells, the rest is another configuration."""
    found: list[Configuration] = []
    for context in contexts:
        name = "".join(values_of(context.get("axes") or {}, study.axes_of("servers")))
        name = name or PurePath(context.get("servers") or "").name
        server, files = context.get("server") or {}, context.get("server_files") or {}
        if not (name or server):
            continue
        known = [one for one in found if one.name == name and one.agrees_with(files)]
        if not known:
            known = [Configuration(name)]
            found += known
        known[0].files.update(files)
        if server:
            argv = shlex.join(server.get("argv") or [])
            known[0].started.setdefault(server.get("kind", ""), argv)
    return found


def clearing_sentences(setting: Setting) -> list[str]:
    """How caches were cleared, a sentence per way, with the number of runs it holds for."""
    said = {
        "drop-caches": "by emptying the kernel's caches (drop_caches)",
        "evict": "by evicting the files one by one (vmtouch)",
    }
    return [
        f"Cleared {said.get(way, f'by {way}')} for {words.count_of(count, 'run')}."
        for way, count in setting.cleared.most_common()
        if way
    ] or ["No run had its caches cleared."]


def commands_as_timed(setting: Setting, commands: Mapping[str, Command]) -> list[tuple[str, str]]:
    """Each command that was timed with its argv, words in braces unfilled but for a program of ours, in the
    order of the study's `commands`."""
    ranks = {name: rank for rank, name in enumerate(commands)}
    found = sorted(setting.commands, key=lambda command: ranks.get(command[0], len(ranks)))
    return [(name, _named(argv, commands.get(name))) for name, argv in found]


def _named(argv: str, command: Command | None) -> str:
    program = command.program if command else None
    return argv.replace("{program}", f"python strategies/{program}.py")


def version_list(setting: Setting) -> list[tuple[str, str]]:
    """Each program with its version; where it changed, all with their numbers of cell-rounds."""
    listed = []
    found = grouped_by(setting.versions.most_common(), lambda counted: counted[0][0])
    for program, versions in sorted(found.items()):
        said = [
            f"{version} ({words.count_of(count, 'cell-round')})" if versions[1:] else version
            for (_, version), count in versions
        ]
        listed.append((program, ", ".join(said)))
    return listed
