"""What was measured where: the machines, programs, storages, commands and servers, from the contexts
beside the results."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vcsbench import words
from vcsbench.config.study import Study
from vcsbench.report.subjects import Subjects, kinds_of


@dataclass
class Configuration:
    """A server configuration: its files' content by name, and how each server was started."""

    name: str
    files: dict[str, str]
    started: dict[str, str] = field(default_factory=dict)

    def agrees_with(self, files: Mapping[str, str]) -> bool:
        """Whether no file has another content here."""
        return all(self.files.get(name, content) == content for name, content in files.items())


@dataclass
class Setting:
    """The distinct things that a study's contexts name, each in the order of its first use (dicts
    that map to None are sets in order)."""

    hosts: dict[str, None] = field(default_factory=dict)
    storages: dict[str, None] = field(default_factory=dict)
    layouts: dict[str, None] = field(default_factory=dict)
    targets: dict[str, None] = field(default_factory=dict)
    subjects: Subjects = field(default_factory=Subjects)
    configurations: list[Configuration] = field(default_factory=list)
    commands: dict[tuple[str, str], None] = field(default_factory=dict)
    versions: dict[str, Counter[str]] = field(default_factory=dict)
    cleared: Counter[str] = field(default_factory=Counter)
    host_names: list[str] = field(default_factory=list)
    guests: dict[str, None] = field(default_factory=dict)
    seeds: list[str] = field(default_factory=list)
    rounds: int = 0
    copies: int = 0
    runs: int = 0
    warmup: int = 0
    cell_rounds: int = 0
    first: datetime | None = None
    last: datetime | None = None


def summarise(contexts: Iterable[Mapping[str, Any]], study: Study) -> Setting:
    """Reduce the contexts of a study's cell-rounds to what a reader wants to know of them.

    A context that lacks a part is counted for the parts that it has.
    """
    setting, kinds, configured = Setting(), kinds_of(study), study.axes_of("servers")
    for context in contexts:
        setting.cell_rounds += 1
        setting.rounds = max(setting.rounds, int(context.get("round") or 0))
        setting.copies = max(setting.copies, int(context.get("copy") or 0))
        setting.warmup = max(setting.warmup, int(context.get("warmup") or 0))
        _add_place(setting, context)
        setting.subjects.add(context, kinds)
        axes = context.get("axes") or {}
        _add_configuration(setting, context, "".join(axes.get(axis, "") for axis in configured))
        _add_time(setting, context.get("started_at", ""))
        argv = str(context.get("argv_template") or "")
        setting.commands[study.command_name(axes), argv] = None
        for run in context.get("runs") or []:
            setting.runs += 1
            setting.cleared[(run.get("certificate") or {}).get("cache_cleared_by") or ""] += 1
        seed = str(context.get("seed", ""))
        if seed and seed not in setting.seeds:
            setting.seeds.append(seed)
    return setting


def _add_place(setting: Setting, context: Mapping[str, Any]) -> None:
    host = context.get("host") or {}
    if host:
        setting.hosts[_host(host)] = None
        if host.get("virtualized"):
            name = str(host["virtualized"])
            setting.guests["of a hypervisor" if name == "yes" else name] = None
        if host.get("name") and host["name"] not in setting.host_names:
            setting.host_names.append(str(host["name"]))
    if context.get("storage"):
        setting.storages[_storage(context["storage"])] = None
    if (context.get("layout") or {}).get("sentence"):
        said = f"{(context.get('storage') or {}).get('name')}: the copies {context['layout']['sentence']}."
        setting.layouts[said] = None
    if context.get("targets"):
        setting.targets[_target(context)] = None
    for program, version in (context.get("versions") or {}).items():
        if version:
            setting.versions.setdefault(program, Counter())[str(version)] += 1


def _host(host: Mapping[str, Any]) -> str:
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


def _target(context: Mapping[str, Any]) -> str:
    """Where a command wrote to, and whether that is the storage under test."""
    storage = str(context.get("storage", {}).get("path", ""))
    if storage.startswith(str(context["targets"]).rstrip("/") + "/"):
        return f"{context['targets']}, the storage itself"
    return f"{context['targets']}, not the storage: its own cost of writing is not in the times"


def _storage(storage: Mapping[str, Any]) -> str:
    return _joined(
        storage.get("name"),
        storage.get("path"),
        storage.get("filesystem"),
        storage.get("device"),
        {True: "rotational", False: "not rotational"}.get(storage.get("rotational"), ""),  # type: ignore[arg-type]
    )


def _joined(name: Any, *parts: Any) -> str:
    """`name: part, part`, without those that are not known."""
    return f"{name}: {', '.join(str(part) for part in parts if part)}"


def _add_configuration(setting: Setting, context: Mapping[str, Any], name: str) -> None:
    server = context.get("server") or {}
    files = {str(k): str(v) for k, v in (context.get("server_files") or {}).items()}
    if not (name or server):
        return
    # A context has the files that its cell uses. Where one was edited between two cells, the rest is
    # another configuration.
    known = (c for c in setting.configurations if c.name == name and c.agrees_with(files))
    configuration = next(known, None)
    if configuration is None:
        configuration = Configuration(name, {})
        setting.configurations.append(configuration)
    configuration.files.update(files)
    if server:
        argv = [str(argument) for argument in server.get("argv") or []]
        configuration.started.setdefault(str(server.get("kind", "")), shlex.join(argv))


def _add_time(setting: Setting, stamp: str) -> None:
    time = words.moment(stamp)
    if time is None:
        return
    setting.first = time if setting.first is None else min(setting.first, time)
    setting.last = time if setting.last is None else max(setting.last, time)


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


def commands_as_timed(setting: Setting, order: Sequence[str]) -> list[tuple[str, str]]:
    """Each command that was timed with its argv, words in braces unfilled, in the study's order."""
    ranks = {name: rank for rank, name in enumerate(order)}
    return sorted(setting.commands, key=lambda command: ranks.get(command[0], len(ranks)))


def version_list(setting: Setting) -> list[tuple[str, str]]:
    """Each program with its version; where it changed, all with their numbers of cell-rounds."""
    listed = []
    for program, counts in sorted(setting.versions.items()):
        if len(counts) == 1:
            listed.append((program, next(iter(counts))))
        else:
            said = [f"{v} ({words.count_of(n, 'cell-round')})" for v, n in counts.most_common()]
            listed.append((program, ", ".join(said)))
    return listed
