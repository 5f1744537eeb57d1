"""The setup of a study's runs, from the contexts of its cell-rounds (records.Context).

A context is the record of a cell-round: the machine, the storage, the programs, the repository and so on,
each a mapping. A fact that a context lacks is left out: a tree has no repository, the access `file` has no
server.

A subject is the thing that a command reads or writes: a repository, a tree, a dump or a working copy.
"""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.axis_names import BUILD_AXIS
from vcsbench.config.study import Study
from vcsbench.evidence.run_columns import storage_label
from vcsbench.plan.result_state import block_name
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.table_sections import PlainTable

# The facts of a repository, tree or dump that are texts or identify it. The other ones are in a table.
DESCRIPTIVE_FACTS = {
    "name",
    "scale",
    "source",
    "description",
    "notes",
    "identity",
    "variant",
    "path",
    "tree",
}
# The headings of columns whose key is no word for readers.
HEADINGS = {
    "bytes": "size",
    "youngest": "revisions",
    "last": "last revision",
    "folder": "exported folder",
}
CLEARING = {
    "drop-caches": "by emptying the kernel's caches (drop_caches)",
    "evict": "by evicting the files one by one (vmtouch)",
}
ON_NETWORK = "the server is on another machine"
ON_ONE_MACHINE = "client and server are on one machine (loopback)"
NOT_PUBLISHED = "not published"
DIGEST_LENGTH = 12
GIB = 1 << 30


@dataclass
class Configuration:
    """A server configuration: the content of its files by name, and the command line of each kind of server.

    Example of `started`: `{"svnserve": "svnserve -d ..."}`.
    """

    name: str
    files: dict[str, str] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SetupConditions:
    """The conditions of the runs in which a published study can differ, as texts; "" if unknown."""

    repositories: str
    storage: str
    subversion: str
    machine: str
    rounds: str
    network: str
    history: str


@dataclass(frozen=True)
class Setup:
    """The setup of a study's runs.

    `facts` has sentences by heading, `commands` each command with its argv. `hypervisors` are the hypervisors
    of the virtual machines that measured. `first` and `last` are the times of the first and the last
    cell-round, None if nothing was measured.
    """

    facts: Mapping[str, Sequence[str]]
    commands: Sequence[tuple[str, str]]
    tables: Sequence[PlainTable]
    configurations: Sequence[Configuration]
    conditions: SetupConditions
    host_names: Sequence[str]
    hypervisors: Sequence[str]
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class UsedSubject:
    """A repository, tree, dump or working copy of a cell-round.

    `kind` is its key in the context, such as `working_copy`. `facts` is its record there.
    """

    kind: str
    name: str
    facts: Row

    @property
    def title(self) -> str:
        """Return the kind as a heading: `Working copy`."""
        return self.kind.replace("_", " ").capitalize()


def describe_setup(results: Results) -> Setup:
    """Return the setup of a study's runs, from the records of its cell-rounds.

    If nothing was measured, most of it is empty, and `first` and `last` are None.
    """
    study = results.study
    contexts = results.contexts
    subjects = _list_subjects(contexts, study)
    starts = _list_starts(contexts)
    hosts = [context["host"] for context in contexts if context["host"]]
    hypervisors = [_name_hypervisor(host) for host in hosts if host.get("virtualized")]
    return Setup(
        facts=_describe_runs(results, subjects) if contexts else {},
        commands=_list_commands(contexts, study),
        tables=[*_make_subject_tables(subjects), *_make_build_tables(results)],
        configurations=_list_configurations(contexts, study),
        conditions=_summarise_conditions(contexts, subjects, study),
        host_names=unique_values(str(host["name"]) for host in hosts if host.get("name")),
        hypervisors=unique_values(hypervisors),
        first=min(starts, default=None),
        last=max(starts, default=None),
    )


def _list_subjects(contexts: Rows, study: Study) -> list[UsedSubject]:
    """Return the repositories, trees, dumps and working copies that the study's commands read or write.

    The same subject is in the list once for each cell-round that used it.
    """
    # The parts of a context that the study's commands use, such as "repository".
    kinds: list[str] = []
    for command in study.commands.values():
        if command.input:
            kinds.append(command.input)
        elif command.output:
            kinds.append(command.output)
    subjects = []
    for context in contexts:
        for kind in unique_values(kinds):
            facts = context.get(kind)
            # Some kinds have no facts in the context, such as the target of an export.
            if isinstance(facts, Mapping) and facts:
                name = str(facts.get("name") or kind)
                subjects.append(UsedSubject(kind, name, facts))
    return subjects


def _list_starts(contexts: Rows) -> list[datetime]:
    """Return the starts of the cell-rounds, without those that are unknown."""
    starts = (words.moment(context["started_at"]) for context in contexts)
    return [start for start in starts if start]


def _describe_runs(results: Results, subjects: Sequence[UsedSubject]) -> dict[str, Sequence[str]]:
    """Return sentences on the setup by heading, in the order of the page. A heading may have [].

    If machines differ, for example, `Machine` has a sentence for each of them.
    """
    contexts = results.contexts
    starts = _list_starts(contexts)
    programs = [f"{name} {version}" for name, version in _list_versions(contexts).items()]
    return {
        "Time": [words.period(min(starts), max(starts))] if starts else [],
        "Rounds": [f"{_count_cell_rounds(contexts)}: {_count_rounds(contexts)}"],
        "Caches": _describe_clearing(contexts),
        "Machine": _describe_each(contexts, _describe_machine),
        "Storage": _describe_each(contexts, _describe_storage_under_test),
        "Layout": _describe_each(contexts, _describe_layout),
        "Server": _describe_each(contexts, _describe_remote_server),
        "Written to": _describe_each(contexts, _describe_output),
        "Format settings": _describe_each(contexts, _describe_format_settings),
        "Nodes": [*_describe_nodes(contexts, results.study), *results.moved],
        "Programs": [", ".join(programs)],
        **_describe_subjects(subjects),
        "Your repository": results.repository_notes,
        "Your server's log": results.server_log_notes,
    }


def _describe_each(contexts: Rows, describe: Callable[[Row], str]) -> list[str]:
    """Return what `describe` says about each cell-round: each different text once, without ""."""
    descriptions = (describe(context) for context in contexts)
    return unique_values(text for text in descriptions if text)


def _summarise_conditions(
    contexts: Rows, subjects: Sequence[UsedSubject], study: Study
) -> SetupConditions:
    """Return the measured conditions that the page shows next to the conditions of the published study.

    Several different ones are joined: `ext4 (SSD) and tmpfs`. A text is "" if its condition is unknown.
    """
    return SetupConditions(
        repositories=", ".join(_list_sizes(subjects, study)),
        storage=words.enumeration(_describe_each(contexts, _describe_storage_kind)),
        subversion=_list_versions(contexts).get("svn", ""),
        machine=words.enumeration(_describe_each(contexts, _summarise_machine)),
        rounds=_count_rounds(contexts) if contexts else "",
        network=_describe_network(contexts),
        history=words.enumeration(_list_histories(subjects)),
    )


def _count_cell_rounds(contexts: Rows) -> str:
    """Return `376 cell-rounds with 970 timed runs`."""
    runs = sum(len(context["runs"]) for context in contexts)
    return f"{words.count_of(len(contexts), 'cell-round')} with {words.count_of(runs, 'timed run')}"


def _count_rounds(contexts: Rows) -> str:
    """Return `5 rounds, 3 copies of each repository`, or `3 to 5 rounds`.

    The copies are left out if the commands use none. In a session with a limit of minutes, some cells get
    more rounds than others.
    """
    last_rounds = []
    for contexts_of_cell in grouped_by(contexts, lambda context: context["cell"]).values():
        last_rounds.append(max(context.get("round", 0) for context in contexts_of_cell))
    number = words.count_between(min(last_rounds, default=0), max(last_rounds, default=0), "round")
    copies = max((context.get("copy", 0) for context in contexts), default=0)
    if not copies:
        return number
    return f"{number}, {words.count_of(copies, 'copy', 'copies')} of each repository"


def _describe_clearing(contexts: Rows) -> list[str]:
    """Return a sentence on each way in which caches were cleared, the most frequent one first.

    Example: `Cleared by emptying the kernel's caches (drop_caches) for 36 timed runs.`
    """
    counts: Counter[str] = Counter()
    for context in contexts:
        for run in context["runs"]:
            way = run["evidence"].get("cache_cleared_by")
            if way:
                counts[way] += 1
    if not counts:
        return ["No timed run had its caches cleared."]
    sentences = []
    for way, number in counts.most_common():
        means = CLEARING.get(way, f"by {way}")
        sentences.append(f"Cleared {means} for {words.count_of(number, 'timed run')}.")
    return sentences


def _describe_nodes(contexts: Rows, study: Study) -> list[str]:
    """Return `n1 measured log/ruby and export/ruby` for each of several machines, [] for only one.

    `log/ruby` is a block: a group of cells that are compared with each other. A cluster measures all of them
    on the same machine.
    """
    blocks_by_host: dict[str, list[str]] = {}
    for context in contexts:
        host = context["host"].get("name")
        if host:
            block = block_name(study.block, context["axes"])
            blocks_by_host.setdefault(host, []).append(block)
    if len(blocks_by_host) < 2:
        return []
    sentences = []
    for host, blocks in sorted(blocks_by_host.items()):
        sentences.append(f"{host} measured {words.enumeration(sorted(set(blocks)))}")
    return sentences


def _format_memory(size: int) -> str:
    """Return a size of memory without decimals, because guests of one kind differ by a few MiB."""
    return f"{size / GIB:.0f} GiB" if size >= GIB else words.size(size)


def _summarise_machine(context: Row) -> str:
    """Return `here (2 cores, 4 GiB)`, without what is unknown of the machine."""
    host = context["host"]
    if not host:
        return ""
    facts = []
    if host.get("cores"):
        facts.append(words.count_of(host["cores"], "core"))
    if host.get("memory_bytes"):
        facts.append(_format_memory(host["memory_bytes"]))
    name = host.get("name", "a machine")
    return f"{name} ({', '.join(facts)})" if facts else name


def _name_hypervisor(host: Row) -> str:
    """Return the name of the hypervisor below a virtual machine."""
    # The value is "yes" if the processor reports a hypervisor, and the machine hides which one it is.
    return "unknown hypervisor" if host["virtualized"] == "yes" else str(host["virtualized"])


def _describe_machine(context: Row) -> str:
    """Return the machine of a cell-round with all facts that are known, "" for an unknown machine.

    Example: `here: Xeon E5, 2 cores, 4 GiB of memory, Debian 12, kernel 6.1.0, a virtual machine (kvm)`.
    """
    host = context["host"]
    if not host:
        return ""
    facts = []
    if host.get("cpu"):
        facts.append(host["cpu"])
    if host.get("cores"):
        facts.append(words.count_of(host["cores"], "core"))
    if host.get("memory_bytes"):
        facts.append(f"{_format_memory(host['memory_bytes'])} of memory")
    if host.get("os"):
        facts.append(host["os"])
    if host.get("kernel"):
        facts.append(f"kernel {host['kernel']}")
    # "" is a real machine, "yes" a virtual one of unknown kind, None unknown. Other texts name the vendor of
    # the virtual machine.
    virtualized = host.get("virtualized")
    if virtualized == "":
        facts.append("not virtual")
    elif virtualized == "yes":
        facts.append("a virtual machine")
    elif virtualized:
        facts.append(f"a virtual machine ({virtualized})")
    if host.get("clock_source"):
        facts.append(f"clock source {host['clock_source']}")
    if host.get("governor"):
        facts.append(f"processor frequency by {host['governor']}")
    return f"{host.get('name')}: {', '.join(facts)}"


def _describe_storage_under_test(context: Row) -> str:
    """Return the storage of the repositories (_describe_storage), "" for a cell-round without one."""
    return _describe_storage(context["storage"], context["host"]) if context["storage"] else ""


def _describe_storage(storage: Row, host: Row) -> str:
    """Return a storage with all facts that are known, and `host` tells whether its disk is virtual.

    Example: `disk: /var/tmp, ext4, /dev/vda1, virtual disk, scheduler mq-deadline, mounted rw,relatime`.
    """
    facts = [
        storage.get("path"),
        storage.get("filesystem"),
        storage.get("device"),
        storage_label(storage, host),
        *_list_mount_facts(storage),
    ]
    return f"{storage.get('name')}: {', '.join(fact for fact in facts if fact)}"


def _list_mount_facts(storage: Row) -> list[str]:
    """Return `scheduler mq-deadline` and `mounted rw,relatime`, each only if it is known."""
    facts = []
    if storage.get("scheduler"):
        facts.append(f"scheduler {storage['scheduler']}")
    if storage.get("mount_options"):
        facts.append(f"mounted {storage['mount_options']}")
    return facts


def _describe_storage_kind(context: Row) -> str:
    """Return the file system and the kind of a storage: `ext4 (virtual disk)`.

    If one of them is unknown, return the other one: `ext4` or `(virtual disk)`.
    """
    filesystem = context["storage"].get("filesystem", "")
    kind = storage_label(context["storage"], context["host"])
    return f"{filesystem} ({kind})".strip() if kind else filesystem


def _describe_layout(context: Row) -> str:
    """Return `disk: the copies are interleaved on the device.`, "" if the layout is unknown."""
    sentence = context["layout"].get("sentence")
    storage = context["storage"].get("name")
    return f"{storage}: the copies {sentence}." if sentence else ""


def _describe_network(contexts: Rows) -> str:
    """Return whether the server is on the client's machine or another one, "" if no command has a server."""
    remote_servers = [context["remote"] for context in contexts if context["remote"]]
    if remote_servers:
        hosts = unique_values(remote["host"] for remote in remote_servers)
        return f"{ON_NETWORK}: {words.enumeration(hosts)}"
    return ON_ONE_MACHINE if any(context["server"] for context in contexts) else ""


def _describe_remote_server(context: Row) -> str:
    """Return sentences on a server on another machine, "" without a server or if it is on this machine."""
    remote = context["remote"]
    if not remote:
        return ""
    return (
        f"The server is on {remote['host']} ({remote['url']}). vcsbench does not control it: "
        "its CPU, memory, caches and options are not measured. The times include the network."
    )


def _describe_output(context: Row) -> str:
    """Return where a command writes its files, "" if it writes none.

    Example: `/dev/shm, not the storage: the times exclude the storage's cost of writing`. For a working copy,
    the file system is described (_describe_working_copy_storage).
    """
    targets = context["targets"]
    if not targets:
        return ""
    if context["working_copy"]:
        return _describe_working_copy_storage(context)
    storage_path = str(context["storage"].get("path", ""))
    if storage_path.startswith(f"{targets.rstrip('/')}/"):
        return f"{targets}, the storage itself"
    return f"{targets}, not the storage: the times exclude the storage's cost of writing"


def _describe_working_copy_storage(context: Row) -> str:
    """Return the file system of a working copy.

    Example: `btrfs: btrfs, made for each measurement in an image of 2.00 GiB, with direct I/O, mounted rw`.
    """
    filesystem = context["working_copy"]["filesystem"]
    name = context["axes"].get("filesystem")
    if not filesystem.get("made"):
        return _describe_storage({**filesystem, "name": name}, context["host"])
    size = words.size(filesystem["bytes"])
    way = "with direct I/O" if filesystem.get("direct_io") else "through the page cache"
    # The folder and the loop device are not named, because they exist during the measurement only.
    facts = [
        filesystem["filesystem"],
        f"made for each measurement in an image of {size}, {way}",
        *_list_mount_facts(filesystem),
    ]
    return f"{name}: {', '.join(facts)}"


def _describe_format_settings(context: Row) -> str:
    """Return the settings of a format (db/fsfs.conf) that most affect sizes and times.

    Example: `f7: directory deltification on, property deltification on and compression lz4.`
    """
    repository = context["repository"]
    # The repository of a load has no format: it is a dump file.
    if not {"format", "fsfs_settings"} <= repository.keys():
        return ""
    name = repository["format"]
    settings = repository["fsfs_settings"]
    if not settings:
        return f"{name}: the format has no settings."
    directories = _describe_switch(settings, "enable-dir-deltification")
    properties = _describe_switch(settings, "enable-props-deltification")
    # Before Subversion 1.10, the key `compression` is missing: the only way is zlib, at a level.
    compression = f"zlib-{settings.get('compression-level')}"
    if settings.get("compression"):
        compression = settings["compression"]
    phrases = [
        f"directory deltification {directories}",
        f"property deltification {properties}",
        f"compression {compression}",
    ]
    if settings.get("revprop-pack-size"):
        phrases.append(f"packed revision properties in {settings['revprop-pack-size']} KiB")
    return f"{name}: {words.enumeration(phrases)}."


def _describe_switch(settings: Mapping[str, str], key: str) -> str:
    return "on" if settings.get(key) == "true" else "off"


def _list_versions(contexts: Rows) -> dict[str, str]:
    """Return the versions of each program, by its name: `{"svn": "1.14.2, 1.15.0"}`."""
    versions: dict[str, list[str]] = {}
    for context in contexts:
        for program, version in context["versions"].items():
            if version:
                versions.setdefault(program, []).append(str(version))
    return {name: ", ".join(unique_values(versions[name])) for name in sorted(versions)}


def _list_commands(contexts: Rows, study: Study) -> list[tuple[str, str]]:
    """Return each timed command with its arguments, in the order of the study.

    Words in braces stand for values that differ between cells: `("log", "svn log {url}")`. A command of a
    study that runs a program has `python strategies ...` in place of `{program}`.
    """
    timed = unique_values(
        (study.command_name(context["axes"]), context["argv_template"]) for context in contexts
    )
    # Commands that the study does not list any more come last, in the order in which they were timed.
    order = [*study.commands, *(name for name, _ in timed)]
    timed.sort(key=lambda command: order.index(command[0]))
    commands = []
    for name, argv in timed:
        command = study.commands.get(name)
        if command and command.program:
            argv = argv.replace("{program}", f"python strategies {command.program}")
        commands.append((name, argv))
    return commands


def _list_configurations(contexts: Rows, study: Study) -> list[Configuration]:
    """Return the server configurations, as their files were when they were used.

    If a user edits a file between two cells, the list has two configurations of the same name.
    """
    configurations: list[Configuration] = []
    for context in contexts:
        name = _name_configuration(context, study)
        server = context["server"]
        if not name and not server:
            continue
        files = context["server_files"]
        configuration = _find_configuration(configurations, name, files)
        if not configuration:
            configuration = Configuration(name)
            configurations.append(configuration)
        # svnserve and httpd read different files of a configuration, so a context has only some of its files.
        configuration.files.update(files)
        if server:
            # The first command line stands for all, which differ by their ports.
            # sshd itself has no option of the configuration: svnserve has them.
            argv = shlex.join(server.get("subversion_argv") or server.get("argv", []))
            configuration.started.setdefault(server["kind"], argv)
    return configurations


def _name_configuration(context: Row, study: Study) -> str:
    """Return the name of a cell's server configuration, "" for a cell without a server."""
    for axis in study.axes_of("servers"):
        if context["axes"].get(axis):
            return str(context["axes"][axis])
    # A study without this axis measures with one configuration for all cells.
    return PurePath(context["server_folder"]).name


def _find_configuration(
    configurations: Iterable[Configuration], name: str, files: Mapping[str, str]
) -> Configuration | None:
    """Return the configuration of this name in which all files that `files` has, too, have the same content.

    A configuration without a common file also fits. Return None without one.
    """
    for configuration in configurations:
        shared = configuration.files.keys() & files.keys()
        is_same = all(configuration.files[file] == files[file] for file in shared)
        if configuration.name == name and is_same:
            return configuration
    return None


def _describe_subjects(subjects: Iterable[UsedSubject]) -> dict[str, list[str]]:
    """Return a text on each subject by its title: `{"Repository ruby": ["generated, scale 0.13"]}`.

    The text has the description of the subject (otherwise its source), its scale, and its notes. The scale is
    its size as a share of the published one.
    """
    descriptions = {}
    for subject in subjects:
        facts = subject.facts
        text = str(facts.get("description") or facts.get("source") or "")
        scale = facts.get("scale")
        # The description of a generated repository has its scale.
        if scale is not None and "scale" not in text:
            text = f"{text}, scale {scale:g}" if text else f"scale {scale:g}"
        parts = [text] if text else []
        for note in facts.get("notes", []):
            parts.append(str(note).rstrip("."))
        descriptions[f"{subject.title} {subject.name}"] = ["; ".join(parts)]
    return descriptions


def _make_subject_tables(subjects: Iterable[UsedSubject]) -> list[PlainTable]:
    """Return a table for each kind of subject, such as repositories.

    Cell-rounds with the same facts about a subject share a row. A kind without facts has no table.
    """
    tables = []
    for members in grouped_by(subjects, lambda subject: subject.kind).values():
        variants = unique_values(_select_table_facts(subject) for subject in members)
        rows = [dict(variant) for variant in variants if variant]
        if rows:
            tables.append(_make_subject_table(members[0], rows))
    return tables


def _select_table_facts(subject: UsedSubject) -> tuple[tuple[str, object], ...]:
    """Return the facts of a subject for a table as items: `(("repository", "ruby"), ("format", "f7"), ...)`.

    Lists, mappings, and DESCRIPTIVE_FACTS are left out. Return () if only the name remains. Tuples can be
    compared, so that equal rows are found.
    """
    shown = []
    for fact, value in subject.facts.items():
        # `packed` is True or False. `packing` says the same in words, so both would be two equal columns.
        is_repeated = value == subject.name or (fact == "packed" and "packing" in subject.facts)
        is_plain = isinstance(value, (str, int, float))
        if is_plain and not is_repeated and fact not in DESCRIPTIVE_FACTS:
            shown.append((fact, value))
    return ((subject.kind, subject.name), *shown) if shown else ()


def _make_subject_table(subject: UsedSubject, rows: Sequence[Mapping[str, object]]) -> PlainTable:
    """Return the table of one kind of subject: columns of texts first, then columns of numbers.

    `subject` is any one of this kind, for the title. A row maps facts to values.
    """
    text_columns: list[str] = []
    number_columns: list[str] = []
    for column in unique_values(fact for row in rows for fact in row):
        if any(words.is_number(row.get(column)) for row in rows):
            number_columns.append(column)
        else:
            text_columns.append(column)
    columns = [*text_columns, *number_columns]
    heads = [HEADINGS.get(column, column).replace("_", " ").capitalize() for column in columns]
    texts = []
    for row in rows:
        texts.append([_format_fact(column, row.get(column, "")) for column in columns])
    return PlainTable(f"{subject.title}, as measured", heads, sorted(texts), len(text_columns))


def _format_fact(fact: str, value: object) -> str:
    """Return `30 MiB` for bytes, `5,526` for other numbers, and the label of a text."""
    if not words.is_number(value):
        return value_label(fact, str(value))
    return words.size(value) if fact == "bytes" else words.group_digits(value)


def _make_build_tables(results: Results) -> list[PlainTable]:
    """Return one table of the programs of the builds in a list, [] for a study without builds.

    A row is a side (client or server) of a build. It has the program, its version, the folders of its
    libraries, and the digest of the binaries of both sides.
    """
    rows: list[tuple[str, ...]] = []
    for context in results.contexts:
        build = context["build"]
        # Without an axis of builds, all cells have the programs of the machine.
        if not build.get("name"):
            continue
        for side in ("client", "server"):
            # The access `file` has no server.
            if build.get(side):
                rows.append((build["name"], side, *_describe_program(build[side], build)))
    if not rows:
        return []

    builds = list(results.order.get(BUILD_AXIS, ()))

    def rank(row: tuple[str, ...]) -> tuple[int, list[str]]:
        """Return what to sort by: the place of a build on its axis, then the texts of the row."""
        name, *texts = row
        number = builds.index(name) if name in builds else len(builds)
        return number, texts

    heads = [
        "Build",
        "Side",
        "Program",
        "Version",
        "Folders of Subversion's libraries",
        "Digest of the binaries",
    ]
    rows = sorted(unique_values(rows), key=rank)
    return [PlainTable("Builds", heads, rows)]


def _describe_program(program: Row, build: Row) -> tuple[str, str, str, str]:
    """Return the path, the version and the folders of libraries of a side, and the digest of its build.

    The folders are `unknown` if no library of Subversion is recorded. The digest has its first 12 digits.
    """
    folders = "unknown"
    # Only Subversion's own libraries are recorded: None for another program, [] if it has none.
    if program.get("libraries"):
        folders = ", ".join(unique_values(os.path.dirname(path) for path in program["libraries"]))
    digest = str(build.get("digest", ""))[:DIGEST_LENGTH]
    return program["program"], program["version"], folders, digest


def _list_histories(subjects: Iterable[UsedSubject]) -> list[str]:
    """Return the kinds of histories of the repositories: `generated`, `real`, or both."""
    histories = []
    for subject in subjects:
        source = subject.facts.get("source")
        # The empty repository, which measures the fixed cost, is no repository of the study.
        if subject.kind == "repository" and source not in (None, "empty"):
            histories.append("generated" if source == "generated" else "real")
    return unique_values(histories)


def _list_sizes(subjects: Iterable[UsedSubject], study: Study) -> list[str]:
    """Return a text on the size of each subject, by the first cell-round that used it.

    Example: `ruby: 5,526 revisions, 30 MiB (13 % of the published 42,000 revisions)`.
    """
    sizes: dict[str, str] = {}
    for subject in subjects:
        if subject.name not in sizes:
            sizes[subject.name] = _describe_size(subject, study)
    return list(sizes.values())


def _describe_size(subject: UsedSubject, study: Study) -> str:
    """Return the name and the size of a subject, and its share of the published size if it is smaller.

    Example: `generated history like ruby's: 5,526 revisions (13 % of the published 42,000 revisions)`.
    """
    facts = subject.facts
    is_generated = facts.get("source") == "generated"
    phrases = []
    if facts.get("youngest"):
        phrases.append(words.count_of(int(facts["youngest"]), "revision"))
    # The content of a generated history does not have the size of the real one.
    if facts.get("bytes") and not is_generated:
        phrases.append(words.size(facts["bytes"]))
    text = ", ".join(phrases)
    scale = facts.get("scale")
    if scale is not None and scale < 1:
        share = f"({100 * scale:.2g} % of {_describe_whole(subject.name, study)})"
        text = f"{text} {share}" if text else share
    title = f"generated history like {subject.name}'s" if is_generated else subject.name
    return f"{title}: {text}" if text else subject.name


def _describe_whole(repository: str, study: Study) -> str:
    """Return the size that a smaller repository is compared with: `the published 42,000 revisions`."""
    if not study.published:
        return "the whole"
    if repository not in study.published.revisions:
        return "its published size"
    revisions = study.published.revisions[repository]
    return f"the published {words.count_of(revisions, 'revision')}"


def compare_setup(setup: Setup, study: Study) -> PlainTable | None:
    """Return a table of the published and the measured conditions, None without published numbers.

    A row is a condition. The history and the network are left out if they are unknown.
    """
    published = study.published
    if not published:
        return None
    measured = setup.conditions
    rows = [("Repositories", published.size, measured.repositories)]
    if measured.history:
        rows.append(("History", published.history, measured.history))
    rows.append(("Storage", published.storage, measured.storage))
    rows.append(("Subversion", published.subversion, measured.subversion))
    rows.append(("Machine", published.machine, measured.machine))
    published_rounds = words.count_of(published.rounds, "round")
    rows.append(("Rounds", published_rounds, measured.rounds))
    if measured.network or published.server:
        published_network = ON_NETWORK if published.server else ON_ONE_MACHINE
        rows.append(("Network", published_network, measured.network))
    texts = []
    for condition, text_published, text_measured in rows:
        texts.append((condition, text_published or NOT_PUBLISHED, text_measured or "none"))
    note = (
        "A verdict says what was measured on this set-up, not that the published result was wrong."
    )
    heads = ["", "Published", "Measured"]
    return PlainTable("Published and measured set-up", heads, texts, note=note)
