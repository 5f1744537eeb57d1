"""The measured costs of a change of format, packing or upkeep: its time, and the bytes of files.

A load is `svnadmin load` of a dump into new repositories, one of each format. It is how a repository gets
another format. Packing is `svnadmin pack`, and upkeep the commands of git that repack and index.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TypedDict

from vcsbench import words
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import value_label
from vcsbench.advice.wishes import ANY, MeasuredWork, WorkOfChange
from vcsbench.axis_names import FORMAT_AXIS, PACKING_AXIS, UPKEEP_AXIS
from vcsbench.formats import NOT_PACKED, PACKED
from vcsbench.report.results import Results
from vcsbench.systems import system_of
from vcsbench.systems.git_store import Upkeep
from vcsbench.systems.subversion import SHARD_REVISIONS

# A smaller share of unpacked revisions hardly limits the gain of packing.
NOTEWORTHY_UNPACKED = 0.01


class LoadEstimate(TypedDict):
    """The time and the bytes of a repository that this run loaded.

    `seconds` and `pack_seconds` are the times of the load with the most revisions, 0 for an unknown packing.
    `in_memory` is True if it was loaded into memory, where it is faster than on a disk, and `pack_in_memory`
    if it was packed there. `bytes` has the length of all files of its repository by format and packing:
    `{"f7": {"nopack": 36700160}}`.
    """

    revisions: int
    seconds: float
    pack_seconds: float
    in_memory: bool
    pack_in_memory: bool
    bytes: Mapping[str, Mapping[str, int]]


def make_estimate(results: Results) -> LoadEstimate | None:
    """Return the times of the load with the most revisions, and the bytes of its repository.

    The script of the page scales times and bytes to the number of revisions of a reader's repository. Return
    None without a timed load.
    """
    repository, load = _find_largest_load(results)
    if not load:
        return None
    sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for context in results.contexts:
        facts = context["repository"]
        if facts.get("name") == repository and facts.get("bytes"):
            # A repository in the format of the installed svnadmin has no name of a format: "".
            sizes[facts.get("format", "")][facts.get("packing", "")] = facts["bytes"]
    return LoadEstimate(
        revisions=load["revisions"],
        seconds=load["seconds"],
        pack_seconds=load["seconds_by_state"].get(PACKED, 0),
        in_memory=_is_in_memory(load, FORMAT_AXIS),
        pack_in_memory=_is_in_memory(load, PACKING_AXIS),
        bytes=sizes,
    )


def measured_work(results: Results) -> WorkOfChange:
    """Return the time that loading, packing and upkeep took, by axis and value; {} without a timed load.

    Example: `{("format", ANY): MeasuredWork(40.1, "5,526 revisions", False), ("packing", "pack"): ...}`,
    with False for work on a disk. All formats load at once, so they share an entry (ANY). A change without a
    known time is missing.
    """
    _, load = _find_largest_load(results)
    if not load:
        return {}
    system = system_of(load["format"])
    seconds: dict[tuple[str, str], float] = {}
    # The states that were made of the loaded repository: its packing, or its upkeep if it is one of git.
    for state, taken in load["seconds_by_state"].items():
        seconds[system.axes[-1], state] = taken
    # The import of a git repository is no change that a user chooses.
    if FORMAT_AXIS in system.axes:
        seconds[FORMAT_AXIS, ANY] = load["seconds"]
    amount = words.count_of(load["revisions"], system.unit)
    work: dict[tuple[str, str], MeasuredWork] = {}
    for (axis, value), taken in seconds.items():
        # 0 s: no command was needed, for example because the loaded repository is packed already.
        if taken:
            work[axis, value] = MeasuredWork(taken, amount, _is_in_memory(load, axis))
    return work


def describe_costs(results: Results, axis: str) -> list[str]:
    """Return sentences on the costs of a change of `axis`: size of files, time of each load or packing.

    Example: `Loading 5,526 revisions, all formats at once, took 40 s in memory. A disk takes longer.` Axes
    other than format, packing and upkeep have no costs: [].
    """
    if axis == UPKEEP_AXIS:
        return _describe_upkeep(results)
    if axis not in (FORMAT_AXIS, PACKING_AXIS):
        return []
    estimate = make_estimate(results)
    sentences = _describe_sizes(estimate["bytes"], axis) if estimate else []
    # `seconds_by_state` has the time of the packing: {"pack": 2.0}.
    for load in _find_loads(results).values():
        revisions = words.count_of(load["revisions"], "revision")
        if axis == FORMAT_AXIS:
            work = f"Loading {revisions}, all formats at once,"
            seconds = load.get("seconds")
        else:
            work = f"Packing {revisions}"
            seconds = load["seconds_by_state"].get(PACKED)
        # No sentence for an unknown time, or for 0 s: the loaded repository is packed already.
        if seconds:
            duration = words.duration_from_1_s(seconds)
            remark = " in memory. A disk takes longer" if _is_in_memory(load, axis) else ""
            sentences.append(f"{work} took {duration}{remark}.")
        if axis == PACKING_AXIS:
            sentences += _describe_unpacked(load["revisions"])
    return sentences


def _describe_unpacked(youngest: int) -> list[str]:
    """Return a sentence on the revisions that packing leaves as they are, [] if they are less than 1 %.

    The revisions are numbered from 0 to `youngest`, and svnadmin packs only full shards of 1,000. Example:
    with 5,526 revisions, 5,000 are packed, so packing can gain no more than about tenfold.
    """
    packed = (youngest + 1) // SHARD_REVISIONS * SHARD_REVISIONS
    unpacked_share = 1 - packed / (youngest + 1)
    if unpacked_share < NOTEWORTHY_UNPACKED:
        return []
    share = words.significant(100 * unpacked_share, 2)
    return [
        f"Only full shards of {words.group_digits(SHARD_REVISIONS)} revisions are packed: "
        f"{share} % of the revisions stay as they are."
    ]


def _describe_upkeep(results: Results) -> list[str]:
    """Return a sentence for each repository: `Its commands took, for 3,000 commits: one pack 2 s, ... .`

    The sentence stands on the card about upkeep, so `Its` means upkeep. The number of commits takes the place
    of the repository's name.
    """
    sentences = []
    # `seconds_by_state` has the time in which each state was made: {"one-pack": 2.0}.
    for load in _find_loads(results).values():
        parts = []
        for upkeep, seconds in load["seconds_by_state"].items():
            # Pushes make the state of many packs, without a command of upkeep.
            if upkeep != Upkeep.MANY_PACKS:
                label = value_label(UPKEEP_AXIS, upkeep)
                parts.append(f"{label} {words.duration_from_1_s(seconds)}")
        if parts:
            storage = " in memory" if _is_in_memory(load, UPKEEP_AXIS) else ""
            commits = words.count_of(load["revisions"], "commit")
            sentences.append(f"Its commands took, for {commits}{storage}: {', '.join(parts)}.")
    return sentences


def _describe_sizes(sizes: Mapping[str, Mapping[str, int]], axis: str) -> list[str]:
    """Return a text on the bytes of each format, or of each packing (`axis`), [] if fewer than two are known.

    `sizes` has bytes by format and packing: `{"f6": {"nopack": 83886080, "pack": 73400320}}`. Example: `Size
    of the files: f6 80.0 MiB, f7 35.0 MiB. On disk, part-filled blocks add to it if not packed.`
    """
    subject = "Size of the files"
    size_by_value: dict[str, int] = {}
    if axis == FORMAT_AXIS:
        # Formats are compared without packing, which changes the size, too.
        for format_name, size_by_packing in sizes.items():
            if NOT_PACKED in size_by_packing:
                size_by_value[format_name] = size_by_packing[NOT_PACKED]
    else:
        # Packings are compared in one format: the first that has several.
        for format_name, size_by_packing in sizes.items():
            if len(size_by_packing) > 1:
                size_by_value.update(size_by_packing)
                # The name is "" for the format that the installed svnadmin makes by default.
                if format_name:
                    subject = f"Size of the files of {format_name}"
                break
    if len(size_by_value) < 2:
        return []
    texts = [
        f"{value_label(axis, value)} {words.size(size)}"
        for value, size in sorted(size_by_value.items())
    ]
    # Files take whole blocks on a disk. A repository that is not packed has many small files, so it takes
    # more than their length.
    return [f"{subject}: {', '.join(texts)}. On disk, part-filled blocks add to it if not packed."]


def _find_loads(results: Results) -> dict[str, Row]:
    """Return the records of loads with more than one revision, by the repositories that this study used."""
    names = {context["repository"].get("name") for context in results.contexts}
    loads = results.loads.items()
    return {name: load for name, load in loads if name in names and load.get("revisions", 0) > 1}


def _find_largest_load(results: Results) -> tuple[str, Row]:
    """Return the repository with the most revisions, and the record of its timed load; ("", {}) without."""
    loads = [item for item in _find_loads(results).items() if item[1].get("seconds")]
    return max(loads, key=lambda item: int(item[1]["revisions"]), default=("", {}))


def _is_in_memory(load: Row, axis: str) -> bool:
    """Return True if a change of the axis was made in memory: a load, or packing or upkeep after it."""
    # A repository is loaded in one folder, and then moved to another, where packing and upkeep take place.
    folder = load.get("loaded_in", "") if axis == FORMAT_AXIS else load.get("path", "")
    # Linux has a file system in memory there.
    return str(folder).startswith("/dev/shm/")
