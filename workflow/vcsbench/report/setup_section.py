"""The setup of a study's runs from their contexts, and the citation of a page.

A fact that a context lacks is left out.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import PurePath

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.config.study import Study
from vcsbench.evidence.run_columns import storage_label
from vcsbench.plan.result_state import block_name
from vcsbench.report.results import Results, Rows, grouped_by, unique_values, values_in
from vcsbench.report.summary import command_of, variables_of
from vcsbench.report.table_sections import PlainTable

DESCRIPTION = (
    *("name", "scale", "source", "description", "notes", "identity", "variant", "path", "tree"),
)
HEADINGS = {
    **{"bytes": "size", "youngest": "revisions", "last": "last revision"},
    "folder": "exported folder",
}
CLEARING = {
    "drop-caches": "by emptying the kernel's caches (drop_caches)",
    "evict": "by evicting the files one by one (vmtouch)",
}
HOST = {
    **{"cpu": "{}", "cores": "{} cores", "memory": "{} of memory", "os": "{}"},
    **{"kernel": "kernel {}", "virtual": "{}", "clock_source": "clock source {}"},
    "governor": "processor frequency by {}",
}
STORAGE = {
    **{"path": "{}", "filesystem": "{}", "device": "{}", "kind": "{}"},
    **{"scheduler": "scheduler {}", "mount_options": "mounted {}"},
}
ON_NETWORK = "the server is on another machine"
ON_ONE_MACHINE = "client and server are on one machine (loopback)"
DELTIFIED = {"directory": "enable-dir-deltification", "property": "enable-props-deltification"}
SHORT_DIGEST = 12
MAX_FILES = 4


@dataclass
class Configuration:
    """A server configuration: its files by name, and the command line of each server."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SetupConditions:
    """The conditions of the runs in which a published study can differ, as texts; "" if unknown."""

    repositories: str = ""
    storage: str = ""
    subversion: str = ""
    machine: str = ""
    rounds: str = ""
    network: str = ""
    history: str = ""


@dataclass(frozen=True)
class Setup:
    """The setup of a study's runs.

    `commands` has each command with its argv, `first` and `last` are the times of the first and the last
    cell-round.
    """

    facts: Mapping[str, Sequence[str]]
    commands: Sequence[tuple[str, str]]
    tables: Sequence[PlainTable]
    configurations: Sequence[Configuration]
    conditions: SetupConditions
    host_names: Sequence[str]
    guests: Sequence[str]
    first: datetime | None
    last: datetime | None


def setup_of(results: Results) -> Setup:
    study, contexts = results.study, results.contexts
    hosts = [context["host"] for context in contexts if context["host"]]
    times = [time for c in contexts if (time := words.moment(c["started_at"]))]
    first, last = min(times, default=None), max(times, default=None)
    descriptions, versions = _descriptions(contexts, study), _versions(contexts)
    histories = (
        "generated" if facts["source"] == "generated" else "real"
        for kind, _, facts in _facts(contexts, study)
        if kind == "repository" and facts.get("source") not in (None, "empty")
    )
    remote = unique_values(c["remote"]["host"] for c in contexts if c["remote"])
    loopback = ON_ONE_MACHINE if any(context["server"] for context in contexts) else ""
    guests = (str(host["virtualized"]) for host in hosts if host.get("virtualized"))
    rounds = _rounds_and_copies(contexts)
    facts = {
        "Time": [words.period(first, last)] if first and last else [],
        "Rounds": [f"{_cell_rounds(contexts)}: {rounds}"],
        "Caches": _clearing(contexts),
        **{name: _texts(contexts, text_of) for name, text_of in OF_CONTEXT.items()},
        "Nodes": [*_nodes(contexts, study), *results.moved],
        "Programs": [", ".join(f"{name} {version}" for name, version in versions.items())],
        **descriptions,
        "Your repository": results.repository_notes,
    }
    return Setup(
        facts=facts if contexts else {},
        commands=_commands(contexts, study),
        tables=[*_fact_tables(contexts, study), *_build_tables(results)],
        configurations=_configurations(contexts, study),
        conditions=SetupConditions(
            repositories=", ".join(_sizes(contexts, study)),
            storage=words.enumeration(_texts(contexts, _storage_kind)),
            subversion=versions.get("svn", ""),
            machine=words.enumeration(unique_values(map(_machine, hosts))),
            rounds=rounds if contexts else "",
            network=f"{ON_NETWORK}: {words.enumeration(remote)}" if remote else loopback,
            history=words.enumeration(unique_values(histories)),
        ),
        host_names=unique_values(str(host["name"]) for host in hosts if host.get("name")),
        guests=unique_values(guest.replace("yes", "unknown hypervisor") for guest in guests),
        first=first,
        last=last,
    )


def _cell_rounds(contexts: Rows) -> str:
    """Return `376 cell-rounds with 970 timed runs`."""
    runs = sum(len(context["runs"]) for context in contexts)
    return f"{words.count_of(len(contexts), 'cell-round')} with {words.count_of(runs, 'timed run')}"


def _rounds_and_copies(contexts: Rows) -> str:
    """Return `5 rounds, 3 copies of each repository`, or `3 to 5 rounds`."""
    rounds = grouped_by(contexts, lambda context: str(context["cell"]))
    last = [max(int(c.get("round") or 0) for c in of) for of in rounds.values()]
    number = words.count_between(min(last, default=0), max(last, default=0), "round")
    copies = max((int(context.get("copy") or 0) for context in contexts), default=0)
    if not copies:
        return number
    return f"{number}, {words.count_of(copies, 'copy', 'copies')} of each repository"


def _clearing(contexts: Rows) -> list[str]:
    runs = [run for context in contexts for run in context["runs"]]
    ways = Counter(run["evidence"].get("cache_cleared_by") for run in runs)
    return [
        f"Cleared {CLEARING.get(way, f'by {way}')} for {words.count_of(count, 'timed run')}."
        for way, count in ways.most_common()
        if way
    ] or ["No timed run had its caches cleared."]


def _nodes(contexts: Rows, study: Study) -> list[str]:
    blocks: dict[str, set[str]] = {}
    for context in contexts:
        if host := context["host"].get("name"):
            blocks.setdefault(host, set()).add(block_name(study.block, context["axes"]))
    texts = (
        f"{host} measured {words.enumeration(sorted(blocks[host]))}" for host in sorted(blocks)
    )
    return [*texts] if len(blocks) > 1 else []


def _memory(size: int | None) -> str:
    # Guests of one kind differ by a few MiB.
    return (f"{size / 2**30:.0f} GiB" if size >= 1 << 30 else words.size(size)) if size else ""


def _machine(host: Row) -> str:
    cores, size = host.get("cores"), _memory(host.get("memory_bytes"))
    named = ", ".join(filter(None, [words.count_of(cores, "core") if cores else "", size]))
    return f"{host.get('name') or 'a machine'}{f' ({named})' if named else ''}"


def _host(context: Row) -> str:
    host = context["host"]
    guest = host.get("virtualized")
    kind = "" if guest == "yes" else f" ({guest})"
    virtual = {None: "", "": "not virtual"}.get(guest, f"a virtual machine{kind}")
    facts = {**host, "memory": _memory(host.get("memory_bytes")), "virtual": virtual}
    return _described(facts, HOST) if host else ""


def _described(facts: Row, phrases: Mapping[str, str]) -> str:
    """Return the name, then the known ones of some facts."""
    known = [phrase.format(facts[key]) for key, phrase in phrases.items() if facts.get(key)]
    return f"{facts.get('name')}: {', '.join(known)}"


def _storage(context: Row) -> str:
    storage = context["storage"]
    facts = {**storage, "kind": storage_label(storage, context["host"])}
    return _described(facts, STORAGE) if storage else ""


def _storage_kind(context: Row) -> str:
    storage = context["storage"]
    kind = storage_label(storage, context["host"])
    return f"{storage.get('filesystem') or ''}{f' ({kind})' if kind else ''}".strip()


def _layout(context: Row) -> str:
    sentence = context["layout"].get("sentence")
    name = context["storage"].get("name")
    return f"{name}: the copies {sentence}." if sentence else ""


def _server(context: Row) -> str:
    if not (remote := context["remote"]):
        return ""
    return (
        f"The server is on {remote['host']} ({remote['url']}). vcsbench does not control it: "
        "its CPU, memory, caches and options are not measured. The times include the network."
    )


def _output(context: Row) -> str:
    """Return where a command writes to."""
    if not (targets := context["targets"]):
        return ""
    if working_copy := context["working_copy"]:
        name = context["axes"].get("filesystem")
        filesystem = {**working_copy["filesystem"], "name": name}
        if not filesystem.get("made"):
            return _storage({"storage": filesystem, "host": context["host"]})
        way = "with direct I/O" if filesystem.get("direct_io") else "through the page cache"
        image = f"made for each measurement in an image of {words.size(filesystem['bytes'])}, {way}"
        return _described({**filesystem, "path": "", "device": image}, STORAGE)
    if str(context["storage"].get("path", "")).startswith(f"{targets.rstrip('/')}/"):
        return f"{targets}, the storage itself"
    return f"{targets}, not the storage: the times exclude the storage's cost of writing"


def _format_settings(context: Row) -> str:
    """Return the settings of a format (db/fsfs.conf) that most affect sizes and times."""
    repository = context["repository"]
    if not repository.keys() >= {"format", "fsfs_settings"}:
        return ""
    name, settings = repository["format"], repository["fsfs_settings"]
    if not settings:
        return f"{name}: the format has no settings."
    phrases = [
        f"{kind} deltification {'on' if settings.get(key) == 'true' else 'off'}"
        for kind, key in DELTIFIED.items()
    ]
    level = f"zlib-{settings.get('compression-level')}"
    phrases.append(f"compression {settings.get('compression') or level}")
    if size := settings.get("revprop-pack-size"):
        phrases.append(f"packed revision properties in {size} KiB")
    return f"{name}: {words.enumeration(phrases)}."


# The facts of a setup that a context has, in this order.
OF_CONTEXT: dict[str, Callable[[Row], str]] = {
    **{"Machine": _host, "Storage": _storage, "Layout": _layout, "Server": _server},
    **{"Written to": _output, "Format settings": _format_settings},
}


def _texts(contexts: Rows, text_of: Callable[[Row], str]) -> list[str]:
    return unique_values(filter(None, map(text_of, contexts)))


def _versions(contexts: Rows) -> dict[str, str]:
    known: dict[str, list[str]] = {}
    for context in contexts:
        for program, version in context["versions"].items():
            known.setdefault(program, []).extend([str(version)] * bool(version))
    return {name: ", ".join(unique_values(of)) for name, of in sorted(known.items()) if of}


def _commands(contexts: Rows, study: Study) -> list[tuple[str, str]]:
    timed = unique_values(
        (study.command_name(context["axes"]), context["argv_template"]) for context in contexts
    )
    programs = {n: f"python strategies {c.program}" for n, c in study.commands.items() if c.program}
    order = [*study.commands, *(name for name, _ in timed)]
    timed.sort(key=lambda command: order.index(command[0]))
    return [(n, a.replace("{program}", programs.get(n, "{program}"))) for n, a in timed]


def _configurations(contexts: Rows, study: Study) -> list[Configuration]:
    """Return the server configurations. A file that was edited between two cells makes another one."""
    known: list[Configuration] = []
    for context in contexts:
        name = "".join(values_in(context["axes"], study.axes_of("servers")))
        name = name or PurePath(context["server_folder"]).name
        server, files = context["server"], context["server_files"]
        if not (name or server):
            continue
        for configuration in known:
            shared = configuration.files.keys() & files.keys()
            is_same = all(configuration.files[file] == files[file] for file in shared)
            if configuration.name == name and is_same:
                break
        else:
            configuration = Configuration(name)
            known.append(configuration)
        configuration.files.update(files)
        if server:
            argv = shlex.join(server.get("argv") or [])
            configuration.started.setdefault(server.get("kind", ""), argv)
    return known


def _facts(contexts: Rows, study: Study) -> Iterator[tuple[str, str, Row]]:
    kinds = unique_values(command.input or command.output for command in study.commands.values())
    for context in contexts:
        for kind in filter(None, kinds):
            facts = context.get(kind)
            if isinstance(facts, Mapping) and facts:
                yield kind, str(facts.get("name") or kind), facts


def _descriptions(contexts: Rows, study: Study) -> dict[str, list[str]]:
    texts = {}
    for kind, name, facts in _facts(contexts, study):
        text, scale = str(facts.get("description") or facts.get("source") or ""), facts.get("scale")
        if scale is not None and "scale" not in text:
            text = ", ".join(filter(None, [text, f"scale {scale:g}"]))
        notes = [str(note).rstrip(".") for note in facts.get("notes") or []]
        title = f"{kind.replace('_', ' ').capitalize()} {name}"
        texts[title] = ["; ".join(filter(None, [text, *notes]))]
    return texts


def _fact_tables(contexts: Rows, study: Study) -> Iterator[PlainTable]:
    variants: dict[str, dict[tuple[tuple[str, object], ...], None]] = {}
    for kind, name, facts in _facts(contexts, study):
        shown = [
            (fact, value)
            for fact, value in facts.items()
            if fact not in DESCRIPTION
            and isinstance(value, (str, int, float))
            and value != name
            and not (fact == "packed" and "packing" in facts)
        ]
        if shown:
            variants.setdefault(kind, {})[(kind, name), *shown] = None
    for kind, distinct in variants.items():
        rows = [dict(row) for row in distinct]
        numbers = {fact for row in rows for fact in row if words.is_number(row[fact])}
        columns = sorted(unique_values(f for row in rows for f in row), key=numbers.__contains__)
        texts = sorted([[_written(c, row.get(c, "")) for c in columns] for row in rows])
        heads = [HEADINGS.get(c, c).replace("_", " ").capitalize() for c in columns]
        name = kind.replace("_", " ").capitalize()
        yield PlainTable(f"{name}, as measured", heads, texts, len(columns) - len(numbers))


def _build_tables(results: Results) -> Iterator[PlainTable]:
    """Yield the programs of the builds, with the digest of the binaries of both sides."""
    rank = {v: n for known in results.order.values() for n, v in enumerate(known)}
    rows: list[tuple[str, ...]] = []
    for build in (context["build"] for context in results.contexts):
        if not (name := build.get("name")):
            continue
        for side in ("client", "server"):
            if program := build.get(side):
                folders = unique_values(map(os.path.dirname, program.get("libraries") or []))
                texts = program["program"], program["version"], ", ".join(folders) or "unknown"
                digest = str(build.get("digest", ""))[:SHORT_DIGEST]
                rows.append((name, side, *texts, digest))
    if rows:
        rows = sorted(unique_values(rows), key=lambda row: (rank.get(row[0], len(rank)), *row[1:]))
        heads = ["Build", "Side", "Program", "Version", "Folders of Subversion's libraries"]
        yield PlainTable("Builds", [*heads, "Digest of the binaries"], rows)


def _written(fact: str, value: object) -> str:
    if not words.is_number(value):
        return value_label(fact, str(value))
    return words.size(value) if fact == "bytes" else words.group_digits(value)


def compared_setup(setup: Setup, study: Study) -> PlainTable | None:
    """Return the published and the measured conditions side by side; None without published numbers."""
    if not (published := study.published):
        return None
    ours, title = setup.conditions, "Published and measured set-up"
    theirs = {
        **{"Repositories": published.size},
        **({"History": published.history} if ours.history else {}),
        **{"Storage": published.storage, "Subversion": published.subversion},
        **{"Machine": published.machine, "Rounds": words.count_of(published.rounds, "round")},
    }
    if ours.network or published.server:
        theirs["Network"] = ON_NETWORK if published.server else ON_ONE_MACHINE
    measured = asdict(ours)
    rows = [
        (name, text or "not published", measured[name.lower()] or "none")
        for name, text in theirs.items()
    ]
    note = (
        "A verdict says what was measured on this set-up, not that the published result was wrong."
    )
    return PlainTable(title, ["", "Published", "Measured"], rows, note=note)


def _sizes(contexts: Rows, study: Study) -> list[str]:
    """Return `ruby: 5,526 revisions, 30 MiB (13 % of the published 42,000 revisions)` for each repository."""
    names: dict[str, str] = {}
    published = study.published
    for _, name, facts in _facts(contexts, study):
        revisions, is_generated = facts.get("youngest"), facts.get("source") == "generated"
        phrases = [words.count_of(int(revisions), "revision")] if revisions else []
        if facts.get("bytes") and not is_generated:
            phrases.append(words.size(facts["bytes"]))
        text, scale = ", ".join(phrases), facts.get("scale")
        if scale is not None and scale < 1:
            known = published.revisions.get(name) if published else None
            whole = f"the published {words.count_of(known, 'revision')}" if known else ""
            whole = whole or ("its published size" if published else "the whole")
            text = f"{text} ({100 * scale:.2g} % of {whole})".strip()
        title = f"generated history like {name}'s" if is_generated else name
        names.setdefault(name, f"{title}: {text}" if text else name)
    return [*names.values()]


def origin_of(study: Study) -> str:
    """Return a sentence on the study and its source, with what is not known of a published one."""
    no_author = ["author not known"] if study.published else []
    no_url = "No stable address known." if study.published else ""
    authors = ", ".join(filter(None, [*(study.authors or no_author), study.date]))
    origin = "; ".join(filter(None, [study.name, authors]))
    return f"{study.title} ({origin}). {study.source} {study.url or no_url}".strip()


def citation_of(results: Results, setup: Setup) -> dict[str, str]:
    """Return the facts that identify the results of a page, by their names on it.

    They depend on the results only, not on the code that renders them.
    """
    study, made = results.study, results.provenance
    facts = {"Study": origin_of(study), "Measured": "Nothing.", "Made by": "", "Command": ""}
    if setup.first and setup.last:
        hosts = words.enumeration(setup.host_names)
        facts["Measured"] = f"{words.period(setup.first, setup.last)}, on {hosts}"
    if not made:
        return {**facts, "Made by": "The version of vcsbench is not recorded."}
    state = "unchanged"
    if changed := made.get("changed", []):
        is_short = len(changed) <= MAX_FILES
        files = words.enumeration(changed) if is_short else words.count_of(len(changed), "file")
        state = f"with changes in {files}"
    commit = f"commit {made['commit']}, {state}" if made.get("commit") else "commit unknown"
    facts["Made by"] = f"vcsbench {made.get('vcsbench', '')}, {commit}"
    facts["Configuration"] = made.get("config_digest", "")
    if command := made.get("command", ""):
        facts["Command"] = command_of(variables_of(command, study.name))
    return {name: text for name, text in facts.items() if text}


def bibtex_of(results: Results, setup: Setup) -> str:
    """Return the BibTeX entry of a page."""
    study, made = results.study, results.provenance
    notes = [f"vcsbench {made.get('vcsbench', '')}".strip()]
    if commit := made.get("commit"):
        notes.append(f"commit {commit}")
    if digest := made.get("config_digest"):
        notes.append(f"configuration {digest[:SHORT_DIGEST]}")
    if setup.host_names:
        notes.append(f"measured on {words.enumeration(setup.host_names)}")
    fields = {
        "title": f"vcsbench report of {study.name}: {study.title}",
        "author": "{The maintainers of vcsbench}",
        "year": str(setup.last.year) if setup.last else "",
        "note": ", ".join(notes),
    }
    # A brace in a name would end the field.
    lines = [
        f"  {name} = {{{text if name == 'author' else re.sub('[{}]', '', text)}}},"
        for name, text in fields.items()
        if text
    ]
    return "\n".join([f"@misc{{vcsbench-{study.name},", *lines, "}"])
