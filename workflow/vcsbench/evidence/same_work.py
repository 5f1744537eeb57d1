"""Check that cells did the same work before they are compared.

The work of a run is JSON with figures and a digest (column `work`), such as
`{"bytes":1048576,"digest":"9f86d081","revisions":6000}`; equal text means equal work. The work of several
runs has a line for each different one (`join_works`). The checked run is the untimed run of a cell-round
whose output was read.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from vcsbench.axes import axis_of
from vcsbench.evidence.flags import Flag
from vcsbench.measure.work import UNCHECKED, WORK_KINDS
from vcsbench.records import Context, RunRecord, StorageFacts
from vcsbench.storages.disks import WRITE_BACK
from vcsbench.storages.filesystems import IN_MEMORY
from vcsbench.systems import SUBVERSION

OTHER = Flag.OTHER_WORK
UNKNOWN = Flag.WORK_UNKNOWN
REFUSED = (OTHER, UNKNOWN)
# The order of figures in texts.
FIRST = ("revisions", "paths", "changes", "nodes", "files", "directories", "symlinks", "lines")
LAST = ("bytes_in_files", "bytes")
NAMES = {"paths": "changed paths", "msg_lines": "lines of messages", "bytes_in_files": "bytes"}
DIGEST = "digest"
# The timed run writes what the checked run wrote. Over every access, the outputs differed by 90 to 93 bytes.
PRINTING = ("log", "dump", "stdout")
WRITTEN_TOLERANCE_BYTES = 1024
# ssh writes an acknowledgement (84 bytes) for each packet of up to 32 KiB, or for several at once.
SSH_SERVERS = ("sshd", "git-sshd")
SSH_TOLERANCE_SHARE = 84 / 32768
# Servers that send by send(2), which the kernel does not count as written. They keep no caches, so they read
# the same for each request (_choose_server_counter).
UNCOUNTED_SENDERS = ("hg-serve",)
# The smallest share of the bytes of the checked run that a server sends.
SENT_SHARE = 0.5
# A server sends less than its client prints or writes. Servers of Subversion sent 0.68 of a log with -q, and
# 0.44 is possible without authors and dates. Of a list, they sent 1.2 or more. Compressed by httpd, a log and
# a list had a share of 0.1. Other output may be text of files, which svnserve and git compress.
LOG_SENT_SHARE, LIST_SENT_SHARE, PRINTED_SENT_SHARE = 0.25, 0.1, 0.02
# Files may be compressed by 1:1,000. Where the written files were compressed (estimate_compressed_bytes), a
# server of Subversion sent 0.96 of the result or more.
FILES_SENT_SHARE, COMPRESSED_SENT_SHARE = 0.0005, 0.3
# The least that a server of Subversion sends for each thing that the work counts. svnserve sends 45 bytes for
# a revision without author, date and message, and 15 for a path. httpd sends more, unless it compresses.
SENT_BYTES = {"revisions": 20, "changes": 5, "paths": 5, "files": 15, "directories": 15}
# These filters of httpd compress its answers. An answer of 5.6 MB became 375 kB.
HTTPD_COMPRESSION, HTTPD_COMPRESSED_SHARE = re.compile("deflate|brotli", re.IGNORECASE), 0.05
HTTPD_FILE = "httpd.conf"
# The smallest object that git sends has 9 bytes: a header, and 8 compressed ones. Half of that is demanded.
SENT_BYTES_PER_OBJECT = 4
# A timed run reads what the checked run read. Only the start of the program may differ.
READ_SHARE = 0.5
# Fewer bytes may be libraries and settings of a program, whose reads vary.
MIN_COMPARED_READS_BYTES = 256 << 10
# Programs of Subversion have this at the start of their names.
SUBVERSION_PROGRAM = "svn"
# Commands of Subversion that get all from their server. With the option, a log compares files on the client.
SERVED_COMMANDS = frozenset(["log", "ls", "list", "export", "null-log", "null-list", "null-export"])
DIFF_OPTION = "--diff"
LIST_COMMANDS = frozenset(["ls", "list"])
# Commands that print text of files, which a server compresses.
TEXT_COMMANDS = frozenset(["annotate", "ann", "blame", "cat", "di", "diff", "praise"])
# A client may read this beyond what its server sent. Settings and libraries of svn were 80 kB. Over http, svn
# stores its list of the files to be exported, and reads 700 bytes of it for each of them.
UNSENT_READS_BYTES, UNSENT_READS_PER_FILE = 2 << 20, 1500
# An answer over http may be stored in a file, and is then read once more. So is the content of each file of
# an export that has keywords or ends its lines as the system does. The second one is twice the content, for a
# command that also looks at its output. An export of 8.1 MB read 12.3 MB with a server, where the limit is
# 26.8 MB. From the files of a repository, it read 28.5 MB, where the limit is 18.4 MB.
SENT_READS, WRITTEN_READS = 2, 2
# The kinds of work of commands that write revisions, many or one. With the option, a load flushes none.
LOADED, COMMITTED, NO_FLUSH = "repository", "commit", "--no-flush-to-disk"
# A revision takes 14 flushes on ext4, XFS and btrfs, and 7 on ext4 without a journal.
# Other programs may flush the disk, too. Several committers may share some flushes.
FLUSHES_PER_REVISION = 4
Key = TypeVar("Key", bound=Hashable)


class Refusal(NamedTuple):
    """The flag and the reason, a sentence without full stop, if cells cannot be compared."""

    flag: Flag
    reason: str


def work_axes(axes: Iterable[str]) -> list[str]:
    """Return the axes that change the work: the axes of the command and of its input."""
    return [axis for axis in axes if axis_of(axis).changes_work]


def name_of(cell: Mapping[Any, object], axes: Iterable[str]) -> str:
    """Return the value of the first axis that changes the work, which is the command; "" without one."""
    for axis in work_axes(axes):
        return str(cell[axis])
    return ""


def subject_axis(axes: Iterable[str]) -> str:
    """Return the axis of the command's input: the last one that changes the work, or ""."""
    changing = work_axes(axes)
    return changing[-1] if changing else ""


def join_works(works: Iterable[str]) -> str:
    """Return the different works of several runs, a line each."""
    lines: set[str] = set()
    for work in works:
        lines.update(work.split("\n"))
    return "\n".join(sorted(lines))


def refusal(command: str, sides: Mapping[str, str]) -> Refusal | None:
    """Return why the times of some cells must not be compared; None if all cells did the same work.

    `sides` has the works of each cell (join_works) by the value in which the cells differ: {"f6":
    '{"revisions":6000}', "f7": ...}. Example of a reason: "log: 6,000 revisions (f6) against 5,000 (f7)".
    """
    prefix = f"{command}: " if command else ""
    # By the value of the cell, such as "f6": the different works of its rounds.
    known_works: dict[str, list[str]] = {}
    cells_of_unknown_work: list[str] = []
    for cell, text in sides.items():
        all_works = text.split("\n")
        # An unknown work is an empty line.
        works = [work for work in all_works if work]
        if works:
            known_works[cell] = works
        if len(works) < len(all_works):
            cells_of_unknown_work.append(cell)

    # Two works that differ are a better reason than an unknown one.
    different = _why_different(known_works)
    if different:
        return Refusal(OTHER, f"{prefix}{different}")
    if cells_of_unknown_work:
        # A single cell that is compared with nothing has the name "".
        cells = " and ".join(cells_of_unknown_work) or "it"
        return Refusal(UNKNOWN, f"{prefix}the work of {cells} is unknown")
    return None


def _why_different(works_by_cell: Mapping[str, list[str]]) -> str:
    """Return in a clause which rounds or cells did different work; "" if all did the same.

    `works_by_cell` has the different works of the rounds of each cell, at least one.
    """
    # If the rounds of a cell differ, its mean time has no meaning.
    for cell, works in works_by_cell.items():
        if len(works) > 1:
            rounds = f"the rounds of {cell}" if cell else "the rounds"
            return f"{rounds} did not all do the same: {difference(works[0], works[1])}"
    # Now each cell has one work.
    first_cell = next(iter(works_by_cell), "")
    for cell, works in works_by_cell.items():
        first_work, work = works_by_cell[first_cell][0], works[0]
        if work != first_work:
            return difference(first_work, work, (first_cell, cell))
    return ""


def difference(first: str, second: str, names: tuple[str, str] = ("", "")) -> str:
    """Return in a clause how two works differ: `5,987 revisions against 5,000`.

    With the `names` of both, the clause is `5,987 revisions (f6) against 5,000 (f7)`.
    """
    first_work: dict[str, int | str] = json.loads(first)
    second_work: dict[str, int | str] = json.loads(second)
    if UNCHECKED in first_work or UNCHECKED in second_work:
        return "one of them does other work by design"
    if first_work.keys() != second_work.keys():
        return "their work was recorded in different ways"

    first_name = f" ({names[0]})" if names[0] else ""
    second_name = f" ({names[1]})" if names[1] else ""
    first_figures = _format_figures(first_work)
    second_figures = _format_figures(second_work)
    differences: list[str] = []
    for label, first_figure in first_figures.items():
        second_figure = second_figures[label]
        if first_figure != second_figure:
            differences.append(
                f"{first_figure} {label}{first_name} against {second_figure}{second_name}"
            )
            # Only the first difference names the two.
            first_name = ""
            second_name = ""
    if differences:
        return ", ".join(differences)
    # No figure differs, only the digests.
    between = f"{names[0]} and {names[1]}: " if all(names) else ""
    return f"{between}as many of all that is counted, but names or contents differ"


def is_unchecked(work: str) -> bool:
    """Return True for work that differs from the others by design."""
    return f'"{UNCHECKED}"' in work


def figures_of(work: str) -> str:
    """Return the figures of a work in a text: `6,000 revisions, 1,048,576 bytes`."""
    figures = _format_figures(json.loads(work))
    return ", ".join(f"{value} {label}" for label, value in figures.items())


def _format_figures(work: Mapping[str, int | str]) -> dict[str, str]:
    """Return the figures of a work by their labels: those of FIRST, all others by name, those of LAST.

    {"msg_lines": 1200, "digest": "9f86"} becomes {"lines of messages": "1,200"}.
    """
    middle = sorted(work.keys() - {*FIRST, *LAST, DIGEST, UNCHECKED})
    figures = {}
    for name in (*FIRST, *middle, *LAST):
        if name in work:
            label = NAMES.get(name, name.replace("_", " "))
            figures[label] = f"{work[name]:,}"
    return figures


def lacks_counts(context: Context) -> bool:
    """Return True if the kernel did not count the output of the checked run; False if no run was checked."""
    counts = context["captured_io"]
    return context["work_kind"] in PRINTING and "wchar" in counts and counts["wchar"] is None


def has_other_output(run: RunRecord, context: Context) -> bool:
    """Return True if a timed run printed another number of bytes than the checked run.

    A difference up to WRITTEN_TOLERANCE_BYTES is allowed, over ssh also up to SSH_TOLERANCE_SHARE of the
    checked bytes. Return False if the outputs cannot be compared.
    """
    # Other commands write files, or print nothing in timed runs, as svnbench with -q does.
    if context["work_kind"] not in PRINTING:
        return False
    timed_bytes = run["evidence"].get("client_wchar")
    checked_bytes = context["captured_io"].get("wchar")
    # The kernel did not count one of the two, or no run was checked.
    if timed_bytes is None or checked_bytes is None:
        return False
    # A commit writes bytes that it does not print, and the kernel counts them together with printed ones.
    if "traffic" in run and run["traffic"]["committers"]:
        return False
    # The checked run is one request. In traffic, each of many requests prints the same output.
    requests = _count_requests(run)
    if requests == 0:
        return False
    mean_bytes = timed_bytes // requests
    tolerance: float = WRITTEN_TOLERANCE_BYTES
    if run["evidence"].get("server_kind") in SSH_SERVERS:
        tolerance = max(tolerance, SSH_TOLERANCE_SHARE * checked_bytes)
    return abs(mean_bytes - checked_bytes) > tolerance


def has_too_few_reads(run: RunRecord, context: Context) -> bool:
    """Return True if a timed run of a local command read less than half as much as the checked run.

    Such a run has not done its work: it may have ended early, or printed saved output. Two kinds of commands
    are judged, because all their runs, timed or checked, have to read the same files:

    - Commands with a quiet option, such as `svnadmin verify -q`. In timed runs, they print nothing that could
      be compared. The checked run lacks the option.
    - Programs of Subversion that read 256 KiB or more, but no working copy (_reads_same_files).

    Return False for all others, for traffic, with a server, or if a count is unknown.
    """
    # Through a server, the checked run may get more than a timed run. Without -q, for example, svnbench
    # null-log also requests the messages of the log. A local null-log reads them in both runs, because they
    # are next to the dates in the files of the repository.
    is_served = bool(run["evidence"].get("server_kind") or context["remote"])
    if is_served or "traffic" in run:
        return False
    timed_bytes = run["evidence"].get("client_rchar")
    checked_bytes = context["captured_io"].get("rchar")
    if timed_bytes is None or checked_bytes is None:
        return False
    kind = WORK_KINDS.get(context["work_kind"])
    has_quiet_option = kind is not None and bool(kind.quiet_options)
    # Fewer bytes may be libraries and settings alone, whose reads vary.
    has_many_reads = checked_bytes >= MIN_COMPARED_READS_BYTES
    is_judged = has_quiet_option or (has_many_reads and _reads_same_files(context))
    return is_judged and timed_bytes < READ_SHARE * checked_bytes


def _reads_same_files(context: Context) -> bool:
    """Return True for a local program of Subversion, which keeps nothing between runs.

    git, for example, may write an index in one run that spares reads in the next. An update or a commit of
    Subversion is excluded as well: its reads depend on the state of its working copy.
    """
    argv = context.get("argv") or [""]
    is_of_subversion = os.path.basename(argv[0]).startswith(SUBVERSION_PROGRAM)
    return is_of_subversion and _sends_all_work(context) and "commit" not in context


def has_idle_server(run: RunRecord, context: Context) -> bool:
    """Return True if a server did so little that its client must have read the repository's files itself.

    There are two signs. The server sent fewer bytes than the work of the client needs (_needed_bytes). Or the
    client read many more bytes than the server sent (_has_bypassed_server). Return False without a server,
    and if the kernel did not count the bytes of the server.
    """
    server_kind = run["evidence"].get("server_kind")
    if not server_kind:
        return False
    # True for `hg serve`: the bytes that it reads stand for those that it sends (_choose_server_counter).
    is_counted_by_reads = server_kind in UNCOUNTED_SENDERS
    # Traffic may have fewer requests than the checked run, so its reads cannot be compared.
    if is_counted_by_reads and "traffic" in run:
        return False
    counter = _choose_server_counter(server_kind)
    timed_bytes = run["evidence"].get(counter)
    # The checked run is an untimed run of the same command, whose output was read.
    checked_bytes = context["captured_io"].get(counter)
    if timed_bytes is None:
        return False
    # The smallest share of the client's bytes that a server sends, because it compresses. The files that
    # `hg serve` reads are compressed as much as files that a server sends.
    share = FILES_SENT_SHARE if is_counted_by_reads else _sent_share(run, context)
    if timed_bytes < _needed_bytes(run, context, checked_bytes, share):
        return True
    return _has_bypassed_server(run, context)


def _choose_server_counter(server_kind: str) -> Literal["server_wchar", "server_rchar"]:
    """Return the counter of the bytes that a server sent, or of those that it read if it is `hg serve`.

    `hg serve` sends by send(2), which the kernel does not count. It keeps no cache, so it reads all that it
    sends.
    """
    return "server_rchar" if server_kind in UNCOUNTED_SENDERS else "server_wchar"


def _sent_share(run: RunRecord, context: Context) -> float:
    """Return the smallest share of the bytes that a client printed or wrote, and that its server sends."""
    kind = context["work_kind"]
    if kind not in PRINTING:
        return FILES_SENT_SHARE
    if not _is_served_by_subversion(run) or _has_compressing_httpd(context):
        return PRINTED_SENT_SHARE
    words = _words_of(context)
    if kind == "log" and DIFF_OPTION not in words:
        return LOG_SENT_SHARE
    prints_list = not LIST_COMMANDS.isdisjoint(words) and TEXT_COMMANDS.isdisjoint(words)
    return LIST_SENT_SHARE if prints_list else PRINTED_SENT_SHARE


def _words_of(context: Context) -> list[str]:
    """Return the words of a command. A shell gets several as one: `svn ls "$1"; svn export "$1" "$0"`."""
    return " ".join(context.get("argv") or []).split()


def _is_served_by_subversion(run: RunRecord) -> bool:
    return run["evidence"].get("server_kind") in SUBVERSION.servers


def _has_compressing_httpd(context: Context) -> bool:
    """Return True if the user's configuration of httpd names a filter that compresses answers."""
    for path, text in (context.get("server_files") or {}).items():
        if os.path.basename(path) == HTTPD_FILE and HTTPD_COMPRESSION.search(text):
            return True
    return False


def _has_bypassed_server(run: RunRecord, context: Context) -> bool:
    """Return True if a client of Subversion read so much that it must have read the repository itself.

    For example, a script may request a list from the server, and then export from the files. Its server is
    not idle, so only the bytes that the client read show the bypass (_largest_reads). Return False for
    commands that also read other files, for traffic, and if a count is unknown.
    """
    # Each request of traffic is a process, which reads libraries and settings again.
    if "traffic" in run or not _is_served_by_subversion(run):
        return False
    words = _words_of(context)
    # With --diff, a log compares files on the client, which reads them there.
    gets_all_from_server = not SERVED_COMMANDS.isdisjoint(words) and DIFF_OPTION not in words
    if not gets_all_from_server or not _sends_all_work(context):
        return False
    read_bytes = run["evidence"].get("client_rchar")
    sent_bytes = run["evidence"].get("server_wchar")
    if read_bytes is None or sent_bytes is None:
        return False
    return read_bytes > _largest_reads(run, context, sent_bytes)


def _largest_reads(run: RunRecord, context: Context, sent_bytes: int) -> int:
    """Return the most bytes that the clients of a run read if they get all data from their server.

    The kernel counts reads of files and of the network together. The result is the sum of:

    - twice the bytes that the server sent (SENT_READS),
    - 2 MiB and 1,500 bytes for each file, such as libraries and settings (UNSENT_READS_BYTES),
    - twice the bytes of the files that a client wrote, and may read again (WRITTEN_READS).

    Example: a server sends 0.1 MB, and the client writes 1,000 files with 8 MB. The result is
    2 x 0.1 + 2.1 + 1.5 + 2 x 8 = 19.8 MB. If the client read 28 MB, it bypassed the server.
    """
    own_bytes = UNSENT_READS_BYTES + UNSENT_READS_PER_FILE * int(run["work"].get("files", 0))
    kind = WORK_KINDS.get(context["work_kind"])
    if kind is not None and kind.writes_tree:
        own_bytes += WRITTEN_READS * _count_received_bytes(run)
    # Several clients share the server's count, and `work` is the work of one of them.
    launched = run.get("launched")
    clients = max(1, len(launched["clients"])) if launched else 1
    return SENT_READS * sent_bytes + clients * own_bytes


def _needed_bytes(
    run: RunRecord, context: Context, checked_bytes: int | None, share: float
) -> float:
    """Return how many bytes a server has to send, or to read, at least for the work of its client.

    It is the largest of these numbers, as far as they are known:

    - Half (SENT_SHARE) of `checked_bytes`, which the server sent (or read) in the checked run.
    - The `share` of the bytes that the client printed or wrote, such as 250 kB of 1 MB for a log.
    - 0.3 (COMPRESSED_SENT_SHARE) of the files that a client of Subversion wrote, as zlib compresses them.
    - SENT_BYTES for each revision, changed path, file and directory that a server of Subversion sends.
    - 4 bytes for each object of git, if the work of the client has the number of objects.

    All but the first one count only if the server has to send everything (_sends_all_work).
    """
    # A request gets an answer, however small.
    lower_bounds = [1.0]
    # The checked run of traffic has one request of each client. An open loop may have fewer: with 8 clients,
    # there may be 2 requests in all.
    if checked_bytes is not None and "traffic" not in run:
        lower_bounds.append(SENT_SHARE * checked_bytes)
    if _sends_all_work(context):
        lower_bounds.append(share * _count_received_bytes(run))
        # Only a run with a server of Subversion has this number.
        lower_bounds.append(COMPRESSED_SENT_SHARE * run.get("compressed_bytes", 0))
        lower_bounds.append(_needed_for_counts(run, context))
        # The work of a clone of git has either objects (`git_clone`), or the bytes of files (`built_tree`).
        lower_bounds.append(SENT_BYTES_PER_OBJECT * int(run["work"].get("objects", 0)))
    return max(lower_bounds)


def _needed_for_counts(run: RunRecord, context: Context) -> float:
    """Return how many bytes a server of Subversion sends at least for all that the work counts.

    1,501 revisions with 6,000 changed paths need 60,020 bytes, or 3,001 if httpd compresses them. Return 0
    for other servers: git sends files of equal content once.
    """
    if not _is_served_by_subversion(run):
        return 0.0
    needed_bytes = 0.0
    for name, least_bytes in SENT_BYTES.items():
        needed_bytes += least_bytes * int(run["work"].get(name, 0))
    if _has_compressing_httpd(context):
        needed_bytes *= HTTPD_COMPRESSED_SHARE
    return needed_bytes * _count_requests(run)


def _sends_all_work(context: Context) -> bool:
    """Return True if the server has to send everything that the work of its client counts.

    An update, a pull or a fetch changes a working copy or a clone (`written`). Its work counts all files of
    that folder, but the server sends only the changes. A commit is sent by the client.
    """
    is_changed = context.get("working_copy") or context.get("written")
    return not is_changed and context["work_kind"] != COMMITTED


def _count_received_bytes(run: RunRecord) -> int:
    """Return the bytes of a run's work, which its client printed or wrote; in traffic, by all requests."""
    work = run["work"]
    received_bytes = max(int(work.get("bytes", 0)), int(work.get("bytes_in_files", 0)))
    return received_bytes * _count_requests(run)


def _count_requests(run: RunRecord) -> int:
    """Return how often the work was done. It is the work of one request, and traffic has many."""
    return len(run["traffic"]["read"]["ended_s"]) if "traffic" in run else 1


def count_needed_flushes(run: RunRecord, context: Context) -> int:
    """Return how many flushes of the disk a load, a commit, or all commits of traffic need at least.

    The number is 0 for other commands, on a storage in memory, and for a load with NO_FLUSH.
    """
    revisions = _count_new_revisions(run, context)
    if not revisions or NO_FLUSH in context["argv"]:
        return 0
    if _revisions_storage(run, context).get("filesystem", "") in IN_MEMORY:
        return 0
    return FLUSHES_PER_REVISION * revisions


def _count_new_revisions(run: RunRecord, context: Context) -> int:
    """Return how many revisions a run has added to a repository."""
    # The work of traffic is the work of its readers.
    if "traffic" in run:
        return len(run["traffic"]["commit"]["ended_s"])
    if context["work_kind"] == COMMITTED:
        return 1
    # A loaded repository was empty before, so its youngest revision is the number of new ones.
    if context["work_kind"] == LOADED:
        return int(run["work"].get("youngest") or 0)
    return 0


def _revisions_storage(run: RunRecord, context: Context) -> StorageFacts:
    """Return the storage on which a run writes revisions.

    A load writes its repository to the output's storage. A commit writes to a copy of its input, and its
    working copy may be on another storage.
    """
    if "traffic" in run or context["work_kind"] == COMMITTED:
        return context["storage"]
    return context["target_storage"]


def count_flushes(run: RunRecord, context: Context) -> int | None:
    """Return the number of flushes of the disk during a run; None if the kernel does not count or send them.

    The kernel sends flushes only to a disk with a cache that loses its content without power ("write back").
    """
    if _revisions_storage(run, context).get("write_cache") != WRITE_BACK:
        return None
    return run["evidence"].get("device_flushes")


def majority(works: Mapping[Key, str]) -> set[Key]:
    """Return the keys with the most frequent work; an empty set if two works are equally frequent.

    {1: "a", 2: "a", 3: "b"} gives {1, 2}. Unknown work ("") does not count, and neither does the work of
    rounds that did not all do the same (several lines).
    """
    counts = Counter(work for work in works.values() if work and "\n" not in work)
    ranking = counts.most_common(2)
    if not ranking:
        return set()
    is_tie = len(ranking) > 1 and ranking[0][1] == ranking[1][1]
    if is_tie:
        return set()
    usual_work = ranking[0][0]
    return {key for key, work in works.items() if work == usual_work}
