"""Check that cells did the same work before they are compared.

The work of a run is JSON with figures and a digest (column `work`); equal text means equal work. The
work of several runs has a line for each different one (`join_works`).
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from vcsbench.axes import axis_of
from vcsbench.measure.work import UNCHECKED
from vcsbench.records import Context, RunRecord
from vcsbench.storages.filesystems import IN_MEMORY

OTHER, UNKNOWN = REFUSED = "other-work", "work-unknown"
FIRST = ("revisions", "paths", "changes", "nodes", "files", "directories", "symlinks", "lines")
LAST = ("bytes_in_files", "bytes")
NAMES = {"paths": "changed paths", "msg_lines": "lines of messages", "bytes_in_files": "bytes"}
DIGEST = "digest"
# The timed run writes what the checked run wrote. Over every access, the outputs differed by 90 to 93 bytes.
PRINTING = ("log", "dump", "stdout")
WRITTEN_TOLERANCE_BYTES = 1024
# A server sends less than the client writes, because it compresses: text of files by at most 1:1,000, and
# messages of a log not at all, unless the command prints changes of files.
SENT_SHARE, PRINTED_SENT_SHARE, FILES_SENT_SHARE = 0.5, 0.02, 0.0005
# The kind of work of a command that commits revisions, and the option with which it flushes none of them.
LOADED, NO_FLUSH = "repository", "--no-flush-to-disk"
# svnadmin load makes 14 flushes for each revision on ext4, XFS and btrfs, and 7 on ext4 without a journal.
# Other programs may flush the disk, too.
FLUSHES_PER_REVISION = 4
# The cache of a disk, as in /sys/block/*/queue/write_cache.
WRITE_BACK = "write back"
Key = TypeVar("Key", bound=Hashable)


class Refusal(NamedTuple):
    """The flag and the reason, a sentence without full stop, if cells cannot be compared."""

    flag: str
    reason: str


def work_axes(axes: Iterable[str]) -> list[str]:
    return [axis for axis in axes if axis_of(axis).changes_work]


def name_of(cell: Mapping[Any, object], axes: Iterable[str]) -> str:
    return next((str(cell[axis]) for axis in work_axes(axes)), "")


def subject_axis(axes: Iterable[str]) -> str:
    """Return the axis of the command's input: the last one that changes the work, or ""."""
    return next(reversed(work_axes(axes)), "")


def join_works(works: Iterable[str]) -> str:
    return "\n".join(sorted({line for work in works for line in work.split("\n")}))


def refusal(command: str, sides: Mapping[str, str]) -> Refusal | None:
    """Return why cells of a command cannot be compared; None if all did the same work.

    `sides` has the work of each cell by its value of the compared axis.
    """
    prefix = f"{command}: " if command else ""
    known = {name: [line for line in work.split("\n") if line] for name, work in sides.items()}
    known = {name: works for name, works in known.items() if works}
    first = next(iter(known), "")
    for name, works in known.items():
        if len(works) > 1:
            rounds = f"the rounds of {name}" if name else "the rounds"
            different = difference(works[0], works[1])
            return Refusal(OTHER, f"{prefix}{rounds} did not all do the same: {different}")
    for name, works in known.items():
        if works != known[first]:
            return Refusal(OTHER, prefix + difference(known[first][0], works[0], (first, name)))
    unknown = [name for name, work in sides.items() if "" in work.split("\n")]
    if unknown:
        return Refusal(UNKNOWN, f"{prefix}the work of {' and '.join(unknown) or 'it'} is unknown")
    return None


def difference(one: str, other: str, names: tuple[str, str] = ("", "")) -> str:
    """Return the figures in which two works differ: `5,987 revisions against 5,000`."""
    works: list[dict[str, int | str]] = [json.loads(one), json.loads(other)]
    if any(UNCHECKED in work for work in works):
        return "one of them is there to be another work"
    if works[0].keys() != works[1].keys():
        return "their work was recorded in different ways"
    first, second = (f" ({name})" if name else "" for name in names)
    others, differences = _figures(works[1]), []
    for label, value in _figures(works[0]).items():
        if value != others[label]:
            differences.append(f"{value} {label}{first} against {others[label]}{second}")
            first = second = ""
    if differences:
        return ", ".join(differences)
    between = f"{names[0]} and {names[1]}: " if all(names) else ""
    return f"{between}as many of all that is counted, but names or contents differ"


def is_unchecked(work: str) -> bool:
    """Return True for work that differs from the others by design."""
    return f'"{UNCHECKED}"' in work


def figures_of(work: str) -> str:
    return ", ".join(f"{value} {label}" for label, value in _figures(json.loads(work)).items())


def _figures(work: Mapping[str, int | str]) -> dict[str, str]:
    """Return the figures of a work by their labels, in the order of FIRST, others, LAST."""
    others = sorted(work.keys() - {*FIRST, *LAST, DIGEST, UNCHECKED})
    names = [name for name in (*FIRST, *others, *LAST) if name in work]
    return {NAMES.get(name, name.replace("_", " ")): f"{work[name]:,}" for name in names}


def lacks_counts(context: Context) -> bool:
    """Return True if the checked run has no count of its output, so no run can be compared with it."""
    counts = context["captured_io"]
    # Without an entry, no run was checked.
    return context["work_kind"] in PRINTING and "wchar" in counts and counts["wchar"] is None


def has_other_output(run: RunRecord, context: Context) -> bool:
    """Return True if a timed run printed another number of bytes than the run whose output was checked.

    svnbench prints nothing when it is timed. Without one of the counts, return False.
    """
    written = run["evidence"].get("client_wchar")
    checked = context["captured_io"].get("wchar")
    if context["work_kind"] not in PRINTING or checked is None or written is None:
        return False
    return abs(written - checked) > WRITTEN_TOLERANCE_BYTES


def has_idle_server(run: RunRecord, context: Context) -> bool:
    """Return True if the server of a run sent far less than in the checked run, or than the work needs.

    The client then reads the repository's files itself, under the label of a server.
    """
    evidence, work = run["evidence"], run["work"]
    sent = evidence.get("server_wchar")
    if not evidence.get("server_kind") or sent is None:
        return False
    # A request gets an answer, however small.
    needed = 1.0
    checked = context["captured_io"].get("server_wchar")
    if checked is not None:
        needed = max(needed, SENT_SHARE * checked)
    # Of a working copy's update, the server sends the changes only.
    if not context.get("working_copy"):
        is_printed = context["work_kind"] in PRINTING
        received = max(int(work.get("bytes", 0)), int(work.get("bytes_in_files", 0)))
        needed = max(needed, received * (PRINTED_SENT_SHARE if is_printed else FILES_SENT_SHARE))
    return sent < needed


def least_flushes(run: RunRecord, context: Context) -> int:
    """Return how many flushes of the disk a load needs at least; 0 for other commands, and in memory."""
    output = context["target_storage"]
    is_on_disk = output.get("filesystem", "") not in IN_MEMORY
    if context["work_kind"] != LOADED or NO_FLUSH in context["argv"] or not is_on_disk:
        return 0
    return FLUSHES_PER_REVISION * int(run["work"].get("youngest") or 0)


def flushes(run: RunRecord, context: Context) -> int | None:
    """Return the flushes of the disk during a run; None if the kernel sends none to it.

    It sends flushes only to a disk with a cache that loses its content without power.
    """
    output = context["target_storage"]
    if output.get("write_cache") != WRITE_BACK:
        return None
    return run["evidence"].get("device_flushes")


def majority(works: Mapping[Key, str]) -> set[Key]:
    """Return the keys with the most frequent work; none if there is a tie or nothing is known."""
    counts = Counter(work for work in works.values() if work and "\n" not in work).most_common(2)
    if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return set()
    return {key for key, work in works.items() if work == counts[0][0]}
