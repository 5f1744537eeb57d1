"""The conditions of a study's runs in which a published study can differ, and a table of both.

A subject is the thing that a command reads or writes: a repository, a tree, a dump or a working copy.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.axis_names import COMMAND_AXIS
from vcsbench.config.study import Command, Study
from vcsbench.evidence.run_columns import storage_label
from vcsbench.report.results import Rows, grouped_by, unique_values
from vcsbench.report.table_sections import PlainTable
from vcsbench.systems import SUBVERSION, SYSTEMS

ON_NETWORK = "the server is on another machine"
ON_ONE_MACHINE = "client and server are on one machine (loopback)"
ON_MADE_LINE = "client and server are on one machine (loopback, or a made network between them)"
GIB = 1 << 30
# The inputs that are repositories, too, so that their facts are in a context under the key `repository`.
OTHER_REPOSITORIES = ("committed_repository", "git_repository", "fossil_repository")


@dataclass(frozen=True)
class SetupConditions:
    """The conditions of the runs in which a published study can differ, as texts; "" if unknown.

    Several different ones are joined: `ext4 (SSD) and tmpfs`. `parts` is what commands work on: `log reads
    5,000 revisions; export writes 606 files`. `systems` has the measured programs: `Subversion 1.14.2, git
    2.39.5`.
    """

    repositories: str
    parts: str
    storage: str
    systems: str
    subversion: str
    machine: str
    rounds: str
    network: str
    history: str


class UsedSubject(NamedTuple):
    """A subject of a cell-round. `kind` is its key in the context, `facts` is its record there.

    Example: `UsedSubject("repository", "ruby", {"name": "ruby", "format": "f7", "youngest": 5526, ...})`.
    """

    kind: str
    name: str
    facts: Row


def summarise_conditions(contexts: Rows, study: Study) -> SetupConditions:
    """Return the conditions of the cell-rounds whose records are `contexts`."""
    subjects = [subject for context in contexts for subject in list_subjects(context, study)]
    machines = unique_values(summarise_machine(context["host"]) for context in contexts)
    storages = unique_values(_summarise_storage(context) for context in contexts)
    versions = list_versions(contexts)
    # `Subversion 1.14.2`: the first program of a system is its client.
    systems = [
        f"{system.title} {versions[system.programs[0]]}"
        for system in SYSTEMS.values()
        if system.programs[0] in versions
    ]
    repositories = [subject.facts for subject in subjects if subject.kind == "repository"]
    # The empty repository, which measures the fixed cost, is no repository of the study.
    sources = [
        facts["source"] for facts in repositories if facts.get("source") not in (None, "empty")
    ]
    # Any source that is not generated, such as a dump file, has a real history.
    histories = ["generated" if source == "generated" else "real" for source in sources]
    return SetupConditions(
        repositories=", ".join(_list_sizes(subjects, study)),
        parts="; ".join([*_describe_reads(contexts, study), *_describe_writes(contexts, study)]),
        storage=words.enumeration([storage for storage in storages if storage]),
        systems=", ".join(systems),
        subversion=versions.get("svn", ""),
        machine=words.enumeration([machine for machine in machines if machine]),
        rounds=_count_rounds(contexts),
        network=_describe_network(contexts),
        history=words.enumeration(unique_values(histories)),
    )


def list_subjects(context: Row, study: Study) -> list[UsedSubject]:
    """Return the subjects (such as repositories) of the study's commands that a cell-round used.

    `context` has the facts of a subject by its kind: `{"repository": {"name": "ruby", "format": "f7", ...},
    ...}`.
    """
    kinds = unique_values(_kind_of_subject(command) for command in study.commands.values())
    subjects = []
    for kind in kinds:
        facts = context.get(kind)
        # Some kinds have no facts in the context, such as the target of an export.
        if isinstance(facts, Mapping) and facts:
            subjects.append(UsedSubject(kind, str(facts.get("name") or kind), facts))
    return subjects


def _kind_of_subject(command: Command) -> str:
    """Return the key of a context with the facts about what a command reads, or writes if it reads nothing.

    It is "" for a command without both. The facts about all kinds of repositories have the key `repository`.
    """
    subject = command.input or command.output or ""
    return "repository" if subject in OTHER_REPOSITORIES else subject


def _list_sizes(subjects: Sequence[UsedSubject], study: Study) -> list[str]:
    """Return the size of each subject, and its share of the published size if it is smaller.

    Example: `ruby (generated): 5,526 revisions (13 % of the published 42,000 revisions)`. `subjects` has an
    entry for each cell-round that used the subject.
    """
    texts = []
    for name, members in grouped_by(subjects, lambda subject: subject.name).items():
        # One entry stands for all. The dump file of a load has no number of revisions (`youngest`), so
        # entries with this number are preferred.
        with_revisions = [subject.facts for subject in members if subject.facts.get("youngest")]
        facts = with_revisions[0] if with_revisions else members[0].facts
        is_generated = facts.get("source") == "generated"
        # Such as ["5,526 revisions", "46.0 MiB"].
        sizes = []
        if facts.get("youngest"):
            system = SYSTEMS[facts.get("system", SUBVERSION.name)]
            sizes.append(words.count_of(facts["youngest"], system.unit))
        # The content of a generated history does not have the size of the real one.
        if facts.get("bytes") and not is_generated:
            sizes.append(words.size(facts["bytes"]))
        # The scale is a share of the published size, from 0 to 1. A real repository has none.
        scale = facts.get("scale")
        share = ""
        if study.published and scale is not None and scale < 1:
            published = study.published.revisions.get(name)
            whole = f"published {words.count_of(published, 'revision')}" if published else "whole"
            share = f"({100 * scale:.2g} % of the {whole})"
        text = f"{', '.join(sizes)} {share}".strip()
        title = f"{name} (generated)" if is_generated else name
        texts.append(f"{title}: {text}" if text else title)
    return texts


def _describe_reads(contexts: Rows, study: Study) -> list[str]:
    """Return how many revisions commands read: `["log and dump read 601 revisions", "blame reads 50 ..."]`.

    Of all runs of a command on a repository, the one that read most revisions counts. A command that reads
    all revisions of a repository, or none, is left out for this repository.
    """
    youngest: defaultdict[str, int] = defaultdict(int)
    # By command and repository.
    most_read: defaultdict[tuple[str, str], int] = defaultdict(int)
    for context in contexts:
        name = context["repository"].get("name", "")
        youngest[name] = max(youngest[name], context["repository"].get("youngest", 0))
        command = study.command_name(context["axes"])
        for run in context["runs"]:
            # The work of a run has its figures, such as {"revisions": 601, "bytes": 4096}.
            number = (run["work"] or {}).get("revisions", 0)
            most_read[command, name] = max(most_read[command, name], number)
    commands_by_number: defaultdict[int, list[str]] = defaultdict(list)
    for (command, name), number in most_read.items():
        if 0 < number < youngest[name]:
            commands_by_number[number].append(command)
    # A command is listed once, also if it reads the same number of several repositories.
    return [
        _describe_commands(unique_values(commands), "read", words.count_of(number, "revision"))
        for number, commands in commands_by_number.items()
    ]


def _describe_writes(contexts: Rows, study: Study) -> list[str]:
    """Return how many files and bytes commands write: `["export writes 606 files, 4.81 MiB", ...]`.

    Commands that write the same share a text. Of all runs of a command, the one that wrote most files counts.
    Commands that write no new files, such as an update, are left out.
    """
    # By command: the number of files and their bytes, such as (606, 5043650).
    largest: dict[str, tuple[int, int]] = {}
    for context in contexts:
        command = study.command_name(context["axes"])
        definition = study.commands.get(command)
        # A target is removed before each run, so all of its files are new.
        if definition is None or definition.output != "target":
            continue
        for run in context["runs"]:
            work = run["work"] or {}
            if work.get("files"):
                size = (work["files"], work.get("bytes", 0))
                largest[command] = max(size, largest.get(command, size))
    texts = []
    for (files, file_bytes), commands in grouped_by(largest, lambda name: largest[name]).items():
        text = words.count_of(files, "file")
        if file_bytes:
            text += f", {words.size(file_bytes)}"
        texts.append(_describe_commands(commands, "write", text))
    return texts


def _describe_commands(commands: Sequence[str], verb: str, text: str) -> str:
    """Return `log reads 601 revisions`, or `dump and load read 601 revisions`."""
    names = words.enumeration([value_label(COMMAND_AXIS, command) for command in commands])
    return f"{names} {verb if len(commands) > 1 else f'{verb}s'} {text}"


def summarise_machine(host: Row) -> str:
    """Return `here (2 cores, 4 GiB)`, "" for an unknown machine."""
    sizes = []
    if host.get("cores"):
        sizes.append(words.count_of(host["cores"], "core"))
    memory = host.get("memory_bytes")
    if memory:
        # Virtual machines of one kind differ by a few MiB. Without decimals, they have the same text.
        sizes.append(f"{memory / GIB:.0f} GiB" if memory >= GIB else words.size(memory))
    name = str(host.get("name", ""))
    return f"{name} ({', '.join(sizes)})" if sizes else name


def _summarise_storage(context: Row) -> str:
    """Return the file system and the kind of a storage: `ext4 (virtual disk)`, or only the known one."""
    kind = storage_label(context["storage"], context["host"])
    filesystem = context["storage"].get("filesystem", "")
    return f"{filesystem} ({kind})".strip() if kind else filesystem


def _describe_network(contexts: Rows) -> str:
    """Return whether the server is on the client's machine or another one, "" if no command has a server."""
    remote_hosts = unique_values(c["remote"]["host"] for c in contexts if c["remote"])
    if remote_hosts:
        return f"{ON_NETWORK}: {words.enumeration(remote_hosts)}"
    if not any(context["server"] for context in contexts):
        return ""
    # `line` describes a network that vcsbench made between client and server, such as one with a delay.
    return ON_MADE_LINE if any(context.get("line") for context in contexts) else ON_ONE_MACHINE


def _count_rounds(contexts: Rows) -> str:
    """Return `3 to 5 rounds, 3 copies of each repository`, without copies if the commands use none.

    In a session with a limit of minutes, some cells get more rounds than others.
    """
    if not contexts:
        return ""
    by_cell = grouped_by(contexts, lambda context: context["cell"])
    # Rounds are numbered from 1.
    last_rounds = [max(c.get("round", 0) for c in members) for members in by_cell.values()]
    rounds = words.count_between(min(last_rounds), max(last_rounds), "round")
    copies = max(context.get("copy", 0) for context in contexts)
    number = words.count_of(copies, "copy", "copies")
    return f"{rounds}, {number} of each repository" if copies else rounds


def list_versions(contexts: Rows) -> dict[str, str]:
    """Return the versions of each program, by its name: `{"svn": "1.14.2, 1.15.0"}`."""
    pairs = [pair for context in contexts for pair in context["versions"].items() if pair[1]]
    by_program = grouped_by(sorted(unique_values(pairs)), lambda pair: pair[0])
    return {name: ", ".join(version for _, version in same) for name, same in by_program.items()}


def compare_conditions(measured: SetupConditions, study: Study) -> PlainTable | None:
    """Return a table of published and measured conditions: `("Storage", "spinning disk", "ext4 (SSD)")`."""
    published = study.published
    if not published:
        return None
    conditions = [("Repositories", published.size, measured.repositories)]
    # A tree has no history.
    if measured.history:
        conditions.append(("History", published.history, measured.history))
    conditions.append(("Storage", published.storage, measured.storage))
    conditions.append(("Subversion", published.subversion, measured.subversion))
    conditions.append(("Machine", published.machine, measured.machine))
    conditions.append(("Rounds", words.count_of(published.rounds, "round"), measured.rounds))
    # Without a server on either side, there is no network to compare.
    if measured.network or published.server:
        published_network = ON_NETWORK if published.server else ON_ONE_MACHINE
        conditions.append(("Network", published_network, measured.network))
    rows = []
    for name, in_publication, here in conditions:
        rows.append((name, in_publication or "not published", here or "none"))
    return PlainTable(
        title="Published and measured set-up",
        heads=["", "Published", "Measured"],
        rows=rows,
        note="A verdict says what was measured on this set-up, not that the published result was wrong.",
    )
