"""The setup of a study's runs from their contexts: machines, programs, storages, servers, repositories.

A part that a context lacks is left out.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.config.study import Study
from vcsbench.plan.result_state import block_name
from vcsbench.report.results import Results, Rows, grouped_by, unique, values_in
from vcsbench.report.table_sections import PlainTable

# Facts that describe a repository or its location. All others are columns of its table.
DESCRIPTION = (
    *("name", "scale", "source", "description", "notes", "identity", "variant", "path", "tree"),
)
HEADINGS = {"bytes": "size", "youngest": "revisions", "last": "last revision"}


@dataclass
class Configuration:
    """A server configuration: the content of its files by name, and the command line of each server."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Setup:
    """The setup of a study's runs.

    `facts` has texts by name, `commands` each command with its argv and sentences about it, `scales` the
    scale of each repository, `first` and `last` the times of the first and the last cell-round.
    """

    facts: Mapping[str, Sequence[str]]
    commands: Sequence[tuple[str, str, Sequence[str]]]
    tables: Sequence[PlainTable]
    configurations: Sequence[Configuration]
    scales: Mapping[str, float]
    header: Sequence[str]
    host_names: Sequence[str]
    guests: Sequence[str]
    first: datetime | None
    last: datetime | None


def setup_of(results: Results, distances: Mapping[str, Sequence[str]]) -> Setup:
    """Return the setup of a study; `distances` has sentences by command."""
    study, contexts = results.study, results.contexts
    hosts = [context["host"] for context in contexts if context.get("host")]
    times = [time for c in contexts if (time := words.moment(c.get("started_at", "")))]
    first, last = min(times, default=None), max(times, default=None)
    subjects, scales = _subjects(contexts, study)
    versions = version_list(contexts)
    values = [value for known in results.order.values() for value in known]
    machines = [f"on {words.enumeration(unique(map(_machine, hosts)))}"] if hosts else []
    program = [f"Subversion {versions['svn']}"] if "svn" in versions else []
    facts = {
        "Time": [words.period(first, last)] if first and last else [],
        "Rounds": [_rounds(contexts)],
        "Order": [_order(contexts, study)],
        "Caches": clearing_sentences(contexts),
        "Machine": unique(map(_host, hosts)),
        "Nodes": [*_nodes(contexts, study), *results.moved],
        "Storage": storages(contexts),
        "Layout": unique(_layout(c) for c in contexts if (c.get("layout") or {}).get("sentence")),
        "Server": unique(_remote(c["remote"]) for c in contexts if c.get("remote")),
        "Output": output_locations(contexts),
        "Programs": [", ".join(f"{name} {version}" for name, version in versions.items())],
        **{
            f"{kind.replace('_', ' ').capitalize()} {name}": [of]
            for (kind, name), of in subjects.items()
        },
        "Format settings": format_settings(contexts),
        "Your repository": results.repository_notes,
    }
    return Setup(
        facts=facts if contexts else {},
        commands=[(n, a, distances.get(n, ())) for n, a in commands_as_timed(contexts, study)],
        tables=[*fact_tables(contexts, study), *build_tables(contexts, values)],
        configurations=configurations(contexts, study),
        scales=scales,
        header=[_headline(contexts, study, scales), " ".join([*program, *machines])],
        host_names=unique(str(host["name"]) for host in hosts if host.get("name")),
        guests=unique(_guest(host) for host in hosts if host.get("virtualized")),
        first=first,
        last=last,
    )


def _rounds(contexts: Rows) -> str:
    runs = sum(len(context.get("runs") or []) for context in contexts)
    last: dict[str, int] = {}
    for context in contexts:
        cell = str(context.get("cell"))
        last[cell] = max(last.get(cell, 0), int(context.get("round") or 0))
    least, most = min(last.values(), default=0), max(last.values(), default=0)
    rounds = words.count_between(least, most, "round")
    text = f"{words.count_of(len(contexts), 'cell-round')} with {words.count_of(runs, 'timed run')}"
    copies = max((int(context.get("copy") or 0) for context in contexts), default=0)
    of = f", {words.count_of(copies, 'copy', 'copies')} of each repository" if copies else ""
    return f"{text}: {rounds}{of}"


def _order(contexts: Rows, study: Study) -> str:
    seeds = unique(str(context["seed"]) for context in contexts if "seed" in context)
    seed = f", seed {words.enumeration(seeds)}" if seeds else ""
    blocks = f"Blocks ({words.enumeration(study.block)}) and their cells run in random order{seed}."
    return f"One round after another. {blocks}"


def clearing_sentences(contexts: Rows) -> list[str]:
    """Return a sentence per way to clear caches, with its number of runs."""
    names = {
        "drop-caches": "by emptying the kernel's caches (drop_caches)",
        "evict": "by evicting the files one by one (vmtouch)",
    }
    runs = [run for context in contexts for run in context.get("runs") or []]
    ways = Counter((run.get("certificate") or {}).get("cache_cleared_by") for run in runs)
    return [
        f"Cleared {names.get(way, f'by {way}')} for {words.count_of(count, 'run')}."
        for way, count in ways.most_common()
        if way
    ] or ["No run had its caches cleared."]


def _nodes(contexts: Rows, study: Study) -> list[str]:
    """Return the blocks of each machine; none for a single machine."""
    blocks: dict[str, set[str]] = {}
    for context in contexts:
        if host := (context.get("host") or {}).get("name"):
            blocks.setdefault(host, set()).add(block_name(study.block, context.get("axes") or {}))
    several = sorted(blocks.items()) if len(blocks) > 1 else []
    return [f"{host} measured {words.enumeration(sorted(of))}" for host, of in several]


def _guest(host: Row) -> str:
    return "of a hypervisor" if host["virtualized"] == "yes" else str(host["virtualized"])


def _machine(host: Row) -> str:
    """Return a machine in a few words: `vm (2 cores, 23.5 GiB)`."""
    sizes = [f"{host['cores']} cores" if host.get("cores") else ""]
    sizes += [words.size(host["memory_bytes"]) if host.get("memory_bytes") else ""]
    named = ", ".join(filter(None, sizes))
    return f"{host.get('name') or 'a machine'}{f' ({named})' if named else ''}"


def _host(host: Row) -> str:
    memory, guest = host.get("memory_bytes"), str(host.get("virtualized") or "")
    return _joined(
        host.get("name"),
        host.get("cpu"),
        host.get("cores") and f"{host['cores']} cores",
        memory and f"{words.size(memory)} of memory",
        host.get("os"),
        host.get("kernel") and f"kernel {host['kernel']}",
        {"": "not virtual", "yes": "a guest"}.get(guest, f"a guest ({guest})")
        if "virtualized" in host
        else "",
        host.get("clock_source") and f"clock {host['clock_source']}",
        host.get("governor") and f"governor {host['governor']}",
        host.get("id") and f"identity {host['id']}",
    )


def _joined(name: object, *parts: object) -> str:
    """Return `name: part, part` without unknown parts."""
    return f"{name}: {', '.join(str(part) for part in parts if part)}"


def _layout(context: Row) -> str:
    storage = (context.get("storage") or {}).get("name")
    return f"{storage}: the copies {context['layout']['sentence']}."


def _remote(remote: Row) -> str:
    text = f"The server is on {remote['host']} ({remote['url']}). vcsbench does not control it"
    return f"{text}: its CPU, memory, caches and options are not measured. The times include the network."


def storages(contexts: Rows) -> list[str]:
    """Return each storage with the least free space that it had."""
    free: dict[str, list[float]] = {}
    for storage in (context["storage"] for context in contexts if context.get("storage")):
        sizes = free.setdefault(_storage(storage), [])
        sizes += [storage["free_bytes"]] if storage.get("free_bytes") is not None else []
    return [f"{n}, {words.size(min(s))} free" if s else n for n, s in free.items()]


def _storage(storage: Row) -> str:
    rotational = {True: "rotational", False: "not rotational"}
    return _joined(
        *map(storage.get, ("name", "path", "filesystem", "device")),
        rotational.get(storage.get("rotational", ""), ""),
        storage.get("scheduler") and f"scheduler {storage['scheduler']}",
        storage.get("mount_options") and f"mounted {storage['mount_options']}",
    )


def output_locations(contexts: Rows) -> list[str]:
    """Return where commands wrote to, and whether that is the storage under test."""
    return unique(_output(context) for context in contexts if context.get("targets"))


def _output(context: Row) -> str:
    if working_copy := context.get("working_copy"):
        name = (context.get("axes") or {}).get("filesystem")
        return _filesystem(name, working_copy["filesystem"])
    targets = str(context["targets"])
    path = str((context.get("storage") or {}).get("path", ""))
    if path.startswith(f"{targets.rstrip('/')}/"):
        return f"{targets}, the storage itself"
    return f"{targets}, not the storage: the times exclude the storage's cost of writing"


def _filesystem(name: object, filesystem: Row) -> str:
    """Return the file system of a working copy; a made one has another path and device each time."""
    if not filesystem.get("made"):
        return _storage({**filesystem, "name": name})
    size = words.size(filesystem["bytes"])
    image = {
        True: f"in an image of {size} with direct I/O",
        False: f"in an image of {size}, through this system's page cache",
    }.get(filesystem.get("direct_io", ""), size)
    options = f"mounted {filesystem.get('mount_options')}"
    return _joined(name, filesystem.get("filesystem"), "made for each measurement", image, options)


def version_list(contexts: Rows) -> dict[str, str]:
    """Return the version of each program; a changed one has all versions with their cell-rounds."""
    counts = Counter(
        (program, str(version))
        for context in contexts
        for program, version in (context.get("versions") or {}).items()
        if version
    )
    listed = {}
    for program, versions in sorted(grouped_by(counts.most_common(), lambda c: c[0][0]).items()):
        texts = [
            f"{version} ({words.count_of(count, 'cell-round')})" if versions[1:] else version
            for (_, version), count in versions
        ]
        listed[program] = ", ".join(texts)
    return listed


def format_settings(contexts: Rows) -> list[str]:
    """Return a sentence per format on the settings (db/fsfs.conf) that most affect sizes and times."""
    repositories = [context.get("repository") or {} for context in contexts]
    known = {
        r["format"]: r["fsfs_settings"]
        for r in repositories
        if r.keys() >= {"format", "fsfs_settings"}
    }
    sentences = []
    for name, settings in sorted(known.items()):
        if not settings:
            sentences.append(f"{name}: the format has no settings.")
            continue
        parts = []
        for kind, option in (("directory", "dir"), ("property", "props")):
            is_on = settings.get(f"enable-{option}-deltification") == "true"
            parts.append(f"{kind} deltification {'on' if is_on else 'off'}")
        level = f"zlib-{settings.get('compression-level')}"
        parts.append(f"compression {settings.get('compression') or level}")
        if size := settings.get("revprop-pack-size"):
            parts.append(f"packed revision properties in {size} KiB")
        sentences.append(f"{name}: {words.enumeration(parts)}.")
    return sentences


def commands_as_timed(contexts: Rows, study: Study) -> list[tuple[str, str]]:
    """Return each timed command with its argv, in the order of the study."""
    commands = study.commands
    timed = unique(
        (study.command_name(context.get("axes") or {}), str(context.get("argv_template") or ""))
        for context in contexts
    )
    ranks = {name: rank for rank, name in enumerate(commands)}
    timed.sort(key=lambda command: ranks.get(command[0], len(ranks)))
    programs = {n: f"python strategies {c.program}" for n, c in commands.items() if c.program}
    return [(n, a.replace("{program}", programs.get(n, "{program}"))) for n, a in timed]


def configurations(contexts: Rows, study: Study) -> list[Configuration]:
    """Return the server configurations. A file that was edited between two cells makes another one."""
    known: list[Configuration] = []
    for context in contexts:
        name = "".join(values_in(context.get("axes") or {}, study.axes_of("servers")))
        name = name or PurePath(context.get("servers") or "").name
        server, files = context.get("server") or {}, context.get("server_files") or {}
        if not (name or server):
            continue
        for configuration in known:
            if configuration.name == name and all(
                configuration.files.get(n, text) == text for n, text in files.items()
            ):
                break
        else:
            configuration = Configuration(name)
            known.append(configuration)
        configuration.files.update(files)
        if server:
            configuration.started.setdefault(
                server.get("kind", ""), shlex.join(server.get("argv") or [])
            )
    return known


def _facts(contexts: Rows, study: Study) -> Iterator[tuple[str, str, Row]]:
    """Yield the kind, the name and the facts of the input of each context's command, or its output."""
    kinds = unique(command.input or command.output for command in study.commands.values())
    for context in contexts:
        for kind in filter(None, kinds):
            facts = context.get(kind)
            if isinstance(facts, Mapping):
                yield kind, str(facts.get("name") or kind), facts


def _subjects(contexts: Rows, study: Study) -> tuple[dict[tuple[str, str], str], dict[str, float]]:
    """Return the description of each repository or tree by kind and name, and the scales by name."""
    texts, scales = {}, {}
    for kind, name, facts in _facts(contexts, study):
        text, scale = str(facts.get("description") or facts.get("source") or ""), facts.get("scale")
        if scale is not None:
            scales[name] = float(scale)
            parts = [text] if "scale" in text else [text, f"scale {scale:g}"]
            text = ", ".join(filter(None, parts))
        notes = [str(note).rstrip(".") for note in facts.get("notes") or []]
        texts[kind, name] = "; ".join(filter(None, [text, *notes]))
    return texts, scales


def fact_tables(contexts: Rows, study: Study) -> Iterator[PlainTable]:
    """Yield a table for each kind of repository or tree with more facts than a name."""
    variants: dict[str, dict[tuple[tuple[str, object], ...], None]] = {}
    for kind, name, facts in _facts(contexts, study):
        shown = [
            (fact, value)
            for fact, value in facts.items()
            if fact not in DESCRIPTION and isinstance(value, (str, int, float)) and value != name
        ]
        if shown:
            variants.setdefault(kind, {})[(kind, name), *shown] = None
    for kind, distinct in variants.items():
        rows = [dict(row) for row in distinct]
        numbers = {fact for row in rows for fact in row if words.is_number(row[fact])}
        columns = sorted(unique(f for row in rows for f in row), key=numbers.__contains__)
        texts = sorted([[_written(c, row.get(c, "")) for c in columns] for row in rows])
        heads = [HEADINGS.get(c, c).replace("_", " ").capitalize() for c in columns]
        name = kind.replace("_", " ").capitalize()
        yield PlainTable(f"{name}, as measured", heads, texts, len(columns) - len(numbers))


def _written(fact: str, value: object) -> str:
    if not words.is_number(value):
        return str(value)
    return words.size(value) if fact == "bytes" else words.grouped(value)


def _headline(contexts: Rows, study: Study, scales: Mapping[str, float]) -> str:
    """Return the repositories with their sizes and the kind of storage."""
    names: dict[str, str] = {}
    for _, name, facts in _facts(contexts, study):
        parts = (
            [words.count_of(int(facts["youngest"]), "revision")] if facts.get("youngest") else []
        )
        parts += [words.size(facts["bytes"])] if facts.get("bytes") else []
        if scales.get(name, 1.0) < 1:
            parts.append(f"{100 * scales[name]:.2g} % of its published size")
        names.setdefault(name, f"{name}: {', '.join(parts)}" if parts else name)
    kinds = unique(_kind_of_storage(c["storage"]) for c in contexts if c.get("storage"))
    return ", ".join([*names.values(), *([f"on {words.enumeration(kinds)}"] if kinds else [])])


def _kind_of_storage(storage: Row) -> str:
    kinds = {True: "(spinning disk)", False: "(SSD or virtual disk)"}
    kind = kinds.get(storage.get("rotational", ""), "")
    return " ".join(filter(None, [storage.get("filesystem"), kind]))


def build_tables(contexts: Rows, order: Sequence[str]) -> Iterator[PlainTable]:
    """Yield a table of the programs of each build; `order` has the builds' names."""
    programs: dict[tuple[str, ...], None] = {}
    for build in (context.get("build") or {} for context in contexts):
        for side in ("client", "server"):
            if build.get("name") and (program := build.get(side)):
                folders = unique(map(os.path.dirname, program.get("libraries") or []))
                texts = program["program"], program["version"], ", ".join(folders) or "unknown"
                programs[build["name"], side, *texts] = None
    if programs:
        rank = {name: index for index, name in enumerate(order)}
        rows = sorted(programs, key=lambda p: (rank.get(p[0], len(rank)), *p[1:]))
        heads = ["Build", "Side", "Program", "Version", "Folders of Subversion's libraries"]
        yield PlainTable("Builds", heads, rows, note=" ".join(same_builds(contexts, order)))


def same_builds(contexts: Rows, order: Sequence[str]) -> list[str]:
    """Return a sentence for each build that ran the same binaries as another one before it."""
    names_of: dict[tuple[object, ...], set[str]] = {}
    for context in contexts:
        build = context.get("build") or {}
        axes = [
            item for item in (context.get("axes") or {}).items() if item[1] != build.get("name")
        ]
        if build.get("name") in order and build.get("digest"):
            names_of.setdefault((*axes, build["digest"]), set()).add(build["name"])
    pairs: set[tuple[int, int]] = set()
    for names in names_of.values():
        first, *others = sorted(map(list(order).index, names))
        pairs.update((first, other) for other in others)
    text = "{} ran the same binaries as {} (A/A test): their difference is noise."
    return [text.format(order[other], order[first]) for first, other in sorted(pairs)]


def distances_of(contexts: Iterable[Row], study: Study) -> dict[str, list[str]]:
    """Return by command a sentence per repository on the revisions that an update covered."""
    texts: dict[str, list[str]] = {}
    for context in contexts:
        first, last = (context.get("working_copy") or {}).get("revisions") or (0, 0)
        name = study.command_name(context.get("axes") or {})
        if not 0 < first < last:
            continue
        command, repository = study.commands.get(name), context.get("repository") or {}
        expected = (command.revisions_behind if command else 0) or 0
        of = f" of {repository['name']}" if repository.get("name") else ""
        range_ = f"from {words.grouped(first)} to {words.grouped(last)}"
        text = f"{name}{of} covers {words.count_of(last - first, 'revision')}, {range_}"
        if last - first < expected:
            scale = repository.get("scale")
            why = "the repository has no more"
            if scale not in (None, 1):
                why = f"the repository has scale {scale:g}"
            text += f", not {words.grouped(expected)}: {why}"
        texts.setdefault(name, []).append(f"{text}.")
    return {name: unique(of) for name, of in texts.items()}
