"""The measured costs of a change of format, packing or upkeep: its time, and the bytes of files.

A load is `svnadmin load` of a dump into new repositories, one of each format. It is how a repository gets
another format. Packing is `svnadmin pack`, and upkeep the commands of git that repack and index.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
    """Return the times and bytes of the loaded repository with the most revisions; None without a timed load.

    The script of the page scales them to the number of revisions of a reader's repository.
    """
    repository, load = _find_largest_load(results)
    if not load:
        return None
    # The repository was measured in several formats and packings: {"f7": {"nopack": 36700160}}.
    sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for context in results.contexts:
        facts = context["repository"]
        if facts.get("name") == repository and facts.get("bytes"):
            # Only repositories of Subversion have a format and a packing.
            format_name = facts.get("format", "")
            packing = facts.get("packing", "")
            sizes[format_name][packing] = facts["bytes"]
    return LoadEstimate(
        revisions=load["revisions"],
        seconds=load["seconds"],
        pack_seconds=load["seconds_by_state"].get(PACKED, 0),
        # A load gives a repository its format. It may take place in memory, and packing after it on a disk.
        in_memory=_is_in_memory(load, FORMAT_AXIS),
        pack_in_memory=_is_in_memory(load, PACKING_AXIS),
        bytes=sizes,
    )


def measured_work(results: Results) -> WorkOfChange:
    """Return the time that each change of a repository took here, by the axis and value that it sets.

    Example: `svnadmin pack` took 2 s on a disk. This gives `{("packing", "pack"): MeasuredWork(2.0, "5,526
    revisions", is_in_memory=False)}`. The times are of the repository with the most revisions; {} without
    its timed load. A change without a known time is missing.
    """
    _, load = _find_largest_load(results)
    if not load:
        return {}
    system = system_of(load["format"])
    amount = words.count_of(load["revisions"], system.unit)
    work: dict[tuple[str, str], MeasuredWork] = {}
    for (axis, value), seconds in _find_seconds_by_change(load, system.axes).items():
        # With 0 s, no command was needed: the loaded repository is packed already, for example.
        if seconds:
            is_in_memory = _is_in_memory(load, axis)
            work[axis, value] = MeasuredWork(seconds, amount, is_in_memory=is_in_memory)
    return work


def _find_seconds_by_change(load: Row, axes: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the seconds of a load, and of the changes after it, by axis and value.

    The record `{"seconds": 40.1, "seconds_by_state": {"pack": 2.0}, ...}` of a load gives `{("packing",
    "pack"): 2.0, ("format", ANY): 40.1}`. `axes` are its system's: ("format", "packing") for
    Subversion, and ("upkeep",) for git.
    """
    seconds_by_change: dict[tuple[str, str], float] = {}
    for state, seconds in load["seconds_by_state"].items():
        # The last axis of a system names the states that are made from a loaded repository.
        seconds_by_change[axes[-1], state] = seconds
    # A Subversion repository gets another format by a load. All formats load at the same time, so they share
    # an entry (ANY). A git repository has no format to change.
    if FORMAT_AXIS in axes:
        seconds_by_change[FORMAT_AXIS, ANY] = load["seconds"]
    return seconds_by_change


def describe_costs(results: Results, axis: str) -> list[str]:
    """Return sentences on the costs of a change of `axis`: sizes of files, and times that changes took here.

    A change of the format costs a load of the repository, and a change of the packing `svnadmin pack`. Axes
    other than format, packing and upkeep (of git) have no costs: [].
    """
    if axis == UPKEEP_AXIS:
        return _describe_upkeep(results)
    if axis not in (FORMAT_AXIS, PACKING_AXIS):
        return []
    estimate = make_estimate(results)
    sentences = _describe_sizes(estimate["bytes"], axis) if estimate else []
    # Each repository of the study has a record of its load, and of the packing after it.
    for load in _find_loads(results).values():
        sentences += _describe_time(load, axis)
        # Packing leaves the youngest revisions as they are. Their number differs between repositories.
        if axis == PACKING_AXIS:
            sentences += _describe_unpacked(load["revisions"])
    return sentences


def _describe_time(load: Row, axis: str) -> list[str]:
    """Return a sentence on the time of a repository's load (axis `format`), or of its packing, or [].

    Example for `{"revisions": 5526, "seconds": 40.1, "seconds_by_state": {"pack": 2.0}, ...}`: `Loading 5,526
    revisions, all formats at once, took 40 s in memory. A disk takes longer.`, or `Packing 5,526 revisions
    took 2 s.`
    """
    revisions = words.count_of(load["revisions"], "revision")
    if axis == FORMAT_AXIS:
        work = f"Loading {revisions}, all formats at once,"
        seconds = load.get("seconds")
    else:
        work = f"Packing {revisions}"
        seconds = load["seconds_by_state"].get(PACKED)
    # The time is None if it is unknown, and 0 s if the loaded repository was packed already.
    if not seconds:
        return []
    duration = words.duration_from_1_s(seconds)
    remark = " in memory. A disk takes longer" if _is_in_memory(load, axis) else ""
    return [f"{work} took {duration}{remark}."]


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
    """Return a sentence for each git repository on the time of its upkeep: git's repacking and indexing.

    Example: `Its commands took, for 3,000 commits: one pack 2 s, one pack + bitmap 4 s.` The sentence stands
    on the card with the question `Which upkeep?`, to which `Its` refers.
    """
    sentences = []
    for load in _find_loads(results).values():
        # Each upkeep is a state that git's commands make from the loaded repository: {"one-pack": 2.0}.
        seconds_by_upkeep = load["seconds_by_state"]
        times = []
        for upkeep, seconds in seconds_by_upkeep.items():
            # Many packs are the result of many pushes, and not of a command of upkeep.
            if upkeep == Upkeep.MANY_PACKS:
                continue
            label = value_label(UPKEEP_AXIS, upkeep)
            times.append(f"{label} {words.duration_from_1_s(seconds)}")
        if times:
            commits = words.count_of(load["revisions"], "commit")
            storage = " in memory" if _is_in_memory(load, UPKEEP_AXIS) else ""
            sentences.append(f"Its commands took, for {commits}{storage}: {', '.join(times)}.")
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
                # The name is "" for a repository without a format.
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
