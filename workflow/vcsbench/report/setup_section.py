"""The setup of a study's runs: facts by heading, from the contexts of its cell-rounds (records.Context).

A fact that a context lacks is left out: a tree has no repository, the access `file` has no server.
"""

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import axis_label, value_label
from vcsbench.axis_names import BUILD_AXIS
from vcsbench.config.study import Study
from vcsbench.evidence.run_columns import storage_label
from vcsbench.plan.result_state import block_name
from vcsbench.report.results import Results, Rows, grouped_by, unique_values
from vcsbench.report.setup_conditions import (
    SetupConditions,
    UsedSubject,
    list_subjects,
    list_versions,
    summarise_conditions,
    summarise_machine,
)
from vcsbench.storages.filesystems import IN_MEMORY

# The facts of a subject that are in its heading, or that only vcsbench uses.
HIDDEN_FACTS = frozenset(
    ["name", "source", "description", "identity", "variant", "path", "tree", "folder"]
)
# The labels of facts whose key is no word for readers.
FACT_LABELS = {
    "bytes": "size",
    "youngest": "revisions",
    "last": "last revision",
}
CLEARING_LABELS = {
    "drop-caches": "the kernel's caches were emptied (drop_caches)",
    "evict": "the files were evicted one by one (vmtouch)",
}
NOT_CONTROLLED = (
    "not controlled by vcsbench: its CPU, memory, caches and options are not measured. "
    "The times include the network"
)
# The digits of a digest that the page shows. They are enough to see that two builds have the same binaries.
DIGEST_LENGTH = 12


class Fact(NamedTuple):
    """A fact of the setup, such as `Storage`. It has several values if cell-rounds differ."""

    heading: str
    values: Sequence[str]


@dataclass(frozen=True)
class Configuration:
    """A server configuration: names and contents of its files, and the command line of each kind of server.

    A file that was edited between two cells is in `files` with both contents. Example of `started`:
    `{"svnserve": "svnserve -d ..."}`.
    """

    name: str
    files: Sequence[tuple[str, str]]
    started: Mapping[str, str]


@dataclass(frozen=True)
class Setup:
    """The setup of a study's runs.

    `commands` has each command with its argv. `hypervisors` ran the virtual machines that measured.
    `first` and `last` are the times of the first and the last cell-round, None if nothing was measured.
    """

    facts: Sequence[Fact]
    commands: Sequence[tuple[str, str]]
    configurations: Sequence[Configuration]
    conditions: SetupConditions
    host_names: Sequence[str]
    hypervisors: Sequence[str]
    first: datetime | None
    last: datetime | None


def describe_setup(results: Results) -> Setup:
    """Return the setup of a study's runs, from the contexts of its cell-rounds.

    Without contexts, all lists are empty, and the times of the first and last cell-round are None.
    """
    study = results.study
    contexts = results.contexts
    hosts = [context["host"] for context in contexts]
    starts = [words.moment(context["started_at"]) for context in contexts]
    known_starts = [start for start in starts if start]
    conditions = summarise_conditions(contexts, study)
    # `virtualized` has the hypervisor, "" for a real machine.
    virtual_hosts = [host for host in hosts if host.get("virtualized")]
    return Setup(
        # Without contexts, the list would have facts such as `0 cell-rounds`.
        facts=_list_facts(results, conditions, known_starts) if contexts else [],
        commands=_list_commands(contexts, study),
        configurations=_list_configurations(contexts, study),
        conditions=conditions,
        host_names=unique_values(host["name"] for host in hosts if host.get("name")),
        hypervisors=unique_values(_name_hypervisor(host) for host in virtual_hosts),
        first=min(known_starts, default=None),
        last=max(known_starts, default=None),
    )


def _list_facts(
    results: Results, conditions: SetupConditions, starts: Sequence[datetime]
) -> list[Fact]:
    """Return the facts in the order of the page, each with at least one value.

    `starts` are the known start times of cell-rounds. If cell-rounds differ in a fact, it has all of their
    values, each once: `Fact("Storage", ["disk: ext4, ...", "ram: tmpfs, ..."])`.
    """
    contexts, study = results.contexts, results.study
    runs = words.count_of(sum(len(context["runs"]) for context in contexts), "timed run")
    cell_rounds = words.count_of(len(contexts), "cell-round")
    # Pairs of a heading and a value, which is "" if it is unknown.
    facts = [
        ("Time", words.period(min(starts), max(starts)) if starts else ""),
        ("Rounds", f"{cell_rounds} with {runs}: {conditions.rounds}"),
    ]
    # How the caches were cleared before each timed run, such as `drop-caches`. Hot runs clear none.
    evidence = [run["evidence"] for context in contexts for run in context["runs"]]
    clearings = [item["cache_cleared_by"] for item in evidence if item.get("cache_cleared_by")]
    for clearing, number in Counter(clearings).most_common():
        label = CLEARING_LABELS.get(clearing, clearing)
        facts.append(("Caches", f"{label}: before {words.count_of(number, 'timed run')}"))
    if not clearings:
        facts.append(("Caches", "cleared before no timed run"))
    facts.append(("Network", conditions.network))
    for context in contexts:
        facts += _facts_of_context(context, study)
    facts += [("Nodes", text) for text in (*_list_nodes(contexts, study), *results.moved)]
    programs = [f"{name} {version}" for name, version in list_versions(contexts).items()]
    facts.append(("Programs", ", ".join(programs)))
    for build in results.order.get(BUILD_AXIS, ()):
        facts += [(f"Build {build}", text) for text in _list_programs(contexts, build)]
    facts += [("Your repository", text) for text in results.repository_notes]
    facts += [("Your server's log", text) for text in results.server_log_notes]
    values_by_heading: defaultdict[str, list[str]] = defaultdict(list)
    for heading, value in unique_values(facts):
        if value:
            values_by_heading[heading].append(value)
    return [Fact(heading, values) for heading, values in values_by_heading.items()]


def _facts_of_context(context: Row, study: Study) -> Iterator[tuple[str, str]]:
    """Yield the facts of a cell-round: `("Storage", "disk: /var/tmp, ext4, ...")`.

    A fact that the cell-round lacks is "" or left out.
    """
    # `remote` has the host and the URL of a server on another machine. It is {} for all other cells.
    host, storage, remote = context["host"], context["storage"], context["remote"]
    yield "Machine", _describe_machine(host)
    yield "Storage", _describe_storage(storage.get("name", ""), storage, host)
    # How the copies of a repository lie on the storage.
    sentence = context["layout"].get("sentence")
    if sentence:
        yield "Layout", f"{storage.get('name')}: the copies {sentence}"
    if remote:
        yield "Server", f"{remote['host']} ({remote['url']}), {NOT_CONTROLLED}"
    yield "Written to", _describe_output(context)
    repository = context["repository"]
    # Only Subversion has FSFS. A dump file, the input of a load, has the settings of the repository that is
    # loaded from it, but no format.
    has_settings = "format" in repository and "fsfs_settings" in repository
    if has_settings:
        settings = [f"{key} = {value}" for key, value in repository["fsfs_settings"].items()]
        text = ", ".join(settings) or "no settings"
        yield "Format settings (fsfs.conf)", f"{repository['format']}: {text}"
    # The heading is, for example, `Repository ruby`.
    for subject in list_subjects(context, study):
        heading = f"{axis_label(subject.kind).capitalize()} {subject.name}"
        for text in _describe_subject(subject):
            yield heading, text


def _join_known(name: str, *facts: str | None) -> str:
    """Return a name with its known facts: `disk: /var/tmp, ext4`. Unknown ones are None or ""."""
    text = ", ".join(fact for fact in facts if fact)
    if name and text:
        return f"{name}: {text}"
    return name or text


def _with_label(label: str, value: str | None) -> str:
    """Return `kernel 6.1.0`, "" for an unknown value."""
    return f"{label} {value}" if value else ""


def _describe_machine(host: Row) -> str:
    """Return the known facts about a machine, from its record (records.Host).

    Example: `here (2 cores, 4 GiB): Xeon E5, Debian 12, kernel 6.1.0, a virtual machine (kvm), clock source
    tsc, processor frequency by performance`.
    """
    virtual = ""
    # The hypervisor is "" for a real machine, and None if unknown.
    if host.get("virtualized") is not None:
        name = _name_hypervisor(host)
        virtual = f"a virtual machine ({name})" if host["virtualized"] else "not virtual"
    return _join_known(
        summarise_machine(host),
        host.get("cpu"),
        host.get("os"),
        _with_label("kernel", host.get("kernel")),
        virtual,
        _with_label("clock source", host.get("clock_source")),
        _with_label("processor frequency by", host.get("governor")),
    )


def _name_hypervisor(host: Row) -> str:
    # The value is "yes" if the processor reports a hypervisor, and the machine hides its name.
    return "unknown hypervisor" if host["virtualized"] == "yes" else str(host["virtualized"])


def _describe_storage(name: str, storage: Row, host: Row) -> str:
    """Return the known facts about a storage or file system, from its record (records.StorageFacts).

    Example: `disk: /var/tmp, ext4, /dev/vda1, virtual disk, scheduler none, mounted rw,relatime`. The disk of
    a virtual `host` is called virtual.
    """
    if storage.get("made"):
        # The folder and loop device of a made file system exist during the measurement only.
        facts = [storage["filesystem"], *_describe_making(storage)]
    else:
        facts = [storage.get("path"), storage.get("filesystem"), storage.get("device")]
        facts.append(storage_label(storage, host))
    facts.append(_with_label("scheduler", storage.get("scheduler")))
    facts.append(_with_label("mounted", storage.get("mount_options")))
    return _join_known(name, *facts)


def _describe_making(storage: Row) -> list[str]:
    """Return how a file system was made: `["made for each measurement in an image of ...", "with ..."]`."""
    size = words.size(storage["bytes"])
    if storage["filesystem"] in IN_MEMORY:
        return [f"made for each measurement in memory, with a size of {size}"]
    way = "with direct I/O" if storage.get("direct_io") else "through the page cache"
    return [f"made for each measurement in an image of {size}", way]


def _describe_output(context: Row) -> str:
    """Return where a command writes its files, "" if it writes none.

    Example for a folder: `/dev/shm, not the storage: the times exclude the cost of writing to it`. For a
    working copy, and for a tree on a file system that vcsbench made, the text describes the file system:
    `btrfs: btrfs, made for each measurement in an image of ...`.
    """
    output_folder = context["targets"]
    if not output_folder:
        return ""
    filesystem = _find_output_filesystem(context)
    if filesystem is not None:
        name = context["axes"].get("filesystem", "")
        return _describe_storage(name, filesystem, context["host"])
    # The path of a storage is vcsbench's own folder in it, such as /var/tmp/vcsbench-1a2b3c4d in /var/tmp.
    if context["storage"].get("path", "").startswith(f"{output_folder.rstrip('/')}/"):
        return f"{output_folder}, the storage itself"
    return f"{output_folder}, not the storage: the times exclude the cost of writing to it"


def _find_output_filesystem(context: Row) -> Row | None:
    """Return the facts about the file system under test to which a command writes, None for other folders."""
    filesystem: Row
    if context["working_copy"]:
        filesystem = context["working_copy"]["filesystem"]
        return filesystem
    # `read` has what a command reads, such as a tree. The tree that it builds is on the same file system.
    filesystem = context.get("read", {}).get("filesystem", {})
    return filesystem if filesystem.get("made") else None


def _list_nodes(contexts: Rows, study: Study) -> list[str]:
    """Return the blocks of each of several machines: `n1: log/ruby and export/ruby`, [] for only one."""
    blocks_by_host: defaultdict[str, set[str]] = defaultdict(set)
    for context in contexts:
        if context["host"].get("name"):
            block = block_name(study.block, context["axes"])
            blocks_by_host[context["host"]["name"]].add(block)
    if len(blocks_by_host) < 2:
        return []
    return [
        f"{host}: {words.enumeration(sorted(blocks))}"
        for host, blocks in sorted(blocks_by_host.items())
    ]


def _list_programs(contexts: Rows, build: str) -> list[str]:
    """Return the programs of a build: `client: /t/bin/svn, 1.15.0, libraries in /t/lib, digest 0fe814251c2d`.

    The key `build` of a context is `{"name": "trunk", "digest": "0fe81425...", "client": {"program":
    "/t/bin/svn", "version": "1.15.0", "libraries": ["/t/lib/libsvn_fs-1.so"]}, "server": {...}}`. The digest
    is of the binaries of both sides.
    """
    texts = []
    records = [context["build"] for context in contexts if context["build"].get("name") == build]
    for record in records:
        for side in ("client", "server"):
            facts = record.get(side)
            # The access `file` has no server.
            if not facts:
                continue
            # The paths of Subversion's own libraries, None or [] if unknown.
            folders = unique_values(os.path.dirname(path) for path in facts["libraries"] or [])
            libraries = f"libraries in {', '.join(folders) or 'unknown folders'}"
            digest = _with_label("digest", record.get("digest", "")[:DIGEST_LENGTH])
            texts.append(_join_known(side, facts["program"], facts["version"], libraries, digest))
    return texts


def _list_commands(contexts: Rows, study: Study) -> list[tuple[str, str]]:
    """Return each timed command with its argv: `("log", "{svn} log {url}")`. Words in braces differ by cell.

    They are in the order of the study. Commands that the study does not list any more come last. A command
    whose argv was edited between two cells is listed with both.
    """
    timed = unique_values((study.command_name(c["axes"]), c["argv_template"]) for c in contexts)
    # index() takes the first place of a name, so only names that the study lacks have a place at the end.
    order = [*study.commands, *(name for name, _ in timed)]
    timed.sort(key=lambda name_and_argv: order.index(name_and_argv[0]))
    commands = []
    for name, argv in timed:
        command = study.commands.get(name)
        # `{program}` is a strategy of vcsbench itself, the same one in all cells of the command.
        if command and command.program:
            argv = argv.replace("{program}", f"python strategies {command.program}")
        commands.append((name, argv))
    return commands


def _list_configurations(contexts: Rows, study: Study) -> list[Configuration]:
    """Return the server configurations of the contexts, with each content that their files had."""
    # The names are of folders in config/servers, such as `fast`; "" for cells without a server.
    contexts_by_name = grouped_by(contexts, lambda context: _name_configuration(context, study))
    configurations = []
    for name, members in contexts_by_name.items():
        # svnserve and httpd read different files of a configuration, so a context has only some of them.
        files = [file for context in members for file in context["server_files"].items()]
        command_lines = _list_command_lines(members)
        if name or command_lines:
            configurations.append(Configuration(name, unique_values(files), command_lines))
    return configurations


def _list_command_lines(contexts: Rows) -> dict[str, str]:
    """Return the command line of each kind of server in the contexts: `{"svnserve": "svnserve -d ..."}`."""
    command_lines: dict[str, str] = {}
    for context in contexts:
        # {"kind": "svnserve", "argv": ["svnserve", "-d", ...], ...}, {} without a server.
        server = context["server"]
        # The command lines of a kind of server differ by their ports, so the first one stands for all.
        if server and server["kind"] not in command_lines:
            # For an sshd, `subversion_argv` is the command line of the svnserve that sshd starts. It has the
            # options of the configuration, `argv` of sshd has not.
            argv = server.get("subversion_argv") or server.get("argv", [])
            command_lines[server["kind"]] = shlex.join(argv)
    return command_lines


def _name_configuration(context: Row, study: Study) -> str:
    """Return the name of a cell's server configuration, "" for a cell without a server."""
    # The axis is, for example, `config`.
    for axis in study.axes_of("servers"):
        if context["axes"].get(axis):
            return str(context["axes"][axis])
    # A study without this axis measures with one configuration for all cells.
    return PurePath(context["server_folder"]).name


def _describe_subject(subject: UsedSubject) -> list[str]:
    """Return the texts on a subject: its description or source, its notes, and its other facts.

    Example: `["a copy of ruby", "2 revisions left out.", "scale 0.13, format f7, revisions 5,526"]`. The
    first and the last can be "".
    """
    facts = subject.facts
    texts_of_facts = []
    for key, value in facts.items():
        # `packed` is True or False, and `packing` has the same as a word.
        is_hidden = key in HIDDEN_FACTS or (key == "packed" and "packing" in facts)
        is_text_or_number = isinstance(value, (str, int, float))
        # A heading such as `Repository ruby` has the name already.
        is_empty_or_name = value in ("", subject.name)
        if is_text_or_number and not is_hidden and not is_empty_or_name:
            label = FACT_LABELS.get(key, axis_label(key))
            texts_of_facts.append(f"{label} {_format_fact(key, value)}")
    description = str(facts.get("description") or facts.get("source") or "")
    return [description, *facts.get("notes", []), ", ".join(texts_of_facts)]


def _format_fact(fact: str, value: str | float) -> str:
    """Return `30 MiB` for bytes, `5,526` and `0.13` for other numbers, and the label of a text."""
    if isinstance(value, str):
        return value_label(fact, value)
    if fact == "bytes":
        return words.size(value)
    return words.group_digits(value) if value == int(value) else f"{value:g}"
