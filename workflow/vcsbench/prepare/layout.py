"""Show from the extents of sampled files whether copies are interleaved on their device.

A step is a revision, or a shard of packed copies. Its position is the first extent of its file. Two copies
are together if files of the same step are much nearer (median) than two steps of one copy. Interleaved copies
form one group. Packed and unpacked copies are compared separately.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from vcsbench import words
from vcsbench.records import CopyLayout
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.filesystems import mount_of
from vcsbench.systems.base import Steps, Store

SAMPLED_STEPS = 100
# The ratio is near 0 for interleaved copies, and 3 for copies made one after another.
MAX_RATIO = 0.5
# The first byte on the device of each step, by copy. All copies are packed, or none.
Positions = Mapping[str, Mapping[int, int]]


class LayoutVerdict(enum.StrEnum):
    """The verdicts on the layout of copies."""

    INTERLEAVED = "interleaved"
    PARTLY = "partly"
    APART = "apart"
    # There is nothing to be interleaved with.
    ALONE = "alone"
    UNKNOWN = "unknown"


def prove_interleaving(copies: Mapping[Path, Store]) -> CopyLayout:
    """Return the layout of copies, each with the store that reads it, from their extents on the device.

    The key `sentence` of the result has the text after "The copies". The verdict is UNKNOWN if the extents
    cannot be read.
    """
    try:
        return judge_layout(_read_positions(copies))
    except ExtentsUnsupportedError as error:
        first_copy = next(iter(copies))
        kind = mount_of(first_copy).filesystem or "this file system"
        return _unknown(f"{kind} does not report where files lie ({error})")
    except OSError as error:
        return _unknown(str(error))


def judge_layout(kinds: Sequence[Positions]) -> CopyLayout:
    """Return the layout of copies from the places of their files on the device.

    A step is a revision or, in a packed copy, a shard (usually 1,000 revisions). Only copies of one kind,
    such as all packed ones, have the same steps. An entry of `kinds` has the bytes at which sampled steps
    begin, for each copy of a kind: {"a": {0: 0, 1: 8192}, "b": {0: 4096, 1: 12288}}. These copies are
    interleaved: each step is 4,096 bytes away from the same step of the other copy, and 8,192 bytes from the
    other step of its own copy. The verdict is:

    - INTERLEAVED if the compared copies of each kind lie together: all are in its _largest_group().
    - PARTLY if only some of them are, and APART if none is.
    - ALONE if no kind has two copies, and UNKNOWN if no files can be compared.
    """
    has_positions = any(steps for positions in kinds for steps in positions.values())
    if not has_positions:
        return _unknown("no file lies in an extent of its own")
    if all(len(positions) < 2 for positions in kinds):
        sentence = "are the only copies of their kind"
        return {"verdict": LayoutVerdict.ALONE, "sentence": sentence, "apart": []}
    comparison = _compare_copies(kinds)
    # Either no kind has two copies with several steps, or no step was sampled in two of its copies.
    if not comparison.same_step_gaps:
        return _unknown("there are too few revisions")

    apart = sorted(comparison.copies - comparison.grouped)
    if not apart:
        verdict = LayoutVerdict.INTERLEAVED
        statement = "lie interleaved"
    elif len(apart) == len(comparison.copies):
        verdict = LayoutVerdict.APART
        statement = "do NOT lie interleaved"
    else:
        verdict = LayoutVerdict.PARTLY
        number = words.count_of(len(apart), "copy lies", "copies lie")
        statement = f"lie interleaved only in part, {number} apart"
    same_step = words.size(median(comparison.same_step_gaps))
    own_steps = words.size(median(comparison.own_step_gaps))
    sentence = (
        f"{statement}: the same revision or shard of the nearest other copy is {same_step} away, another one "
        f"of the same copy {own_steps} (medians of {comparison.files} sampled files, by FIEMAP)"
    )
    return {"verdict": verdict, "sentence": sentence, "apart": apart}


class _CopyDistances(NamedTuple):
    """The distances between the steps of the compared copies of all kinds, in bytes on the device.

    - `copies`, `grouped`: the names of the compared copies, and those in the largest group of their kind.
    - `same_step_gaps`: for each step of each copy, the bytes to the same step of the nearest other copy.
    - `own_step_gaps`: for each copy, the median of the bytes between two of its own steps.
    - `files`: the number of sampled files.
    """

    copies: set[str]
    grouped: set[str]
    same_step_gaps: list[int]
    own_step_gaps: list[float]
    files: int


def _compare_copies(kinds: Sequence[Positions]) -> _CopyDistances:
    """Return the distances between copies of the same kind. A kind without two such copies is left out."""
    copies: set[str] = set()
    grouped: set[str] = set()
    same_step_gaps: list[int] = []
    own_step_gaps: list[float] = []
    files = 0
    for positions_of_kind in kinds:
        # With a single step, a copy has no distance between its own steps.
        positions = {copy: steps for copy, steps in positions_of_kind.items() if len(steps) > 1}
        if len(positions) < 2:
            continue
        gap_by_copy = {copy: _gap_between_steps(steps) for copy, steps in positions.items()}
        copies |= positions.keys()
        grouped |= _largest_group(positions, gap_by_copy)
        same_step_gaps += _gaps_to_nearest_copy(positions)
        own_step_gaps += gap_by_copy.values()
        files += sum(len(steps) for steps in positions.values())
    return _CopyDistances(copies, grouped, same_step_gaps, own_step_gaps, files)


def _unknown(reason: str) -> CopyLayout:
    sentence = f"cannot be shown to lie interleaved: {reason}"
    return {"verdict": LayoutVerdict.UNKNOWN, "sentence": sentence, "apart": []}


def _gap_between_steps(steps: Mapping[int, int]) -> float:
    """Return the median distance of two steps of one copy, in bytes."""
    return median([abs(a - b) for a, b in combinations(steps.values(), 2)])


def _gaps_to_nearest_copy(positions: Positions) -> Iterator[int]:
    """Yield the bytes from each step of each copy to the same step of the nearest other copy."""
    all_steps = {step for steps in positions.values() for step in steps}
    for step in all_steps:
        starts = sorted(steps[step] for steps in positions.values() if step in steps)
        # The distances between neighbours on the device: [4096, 8192] for the starts [0, 4096, 12288].
        gaps = [after - before for before, after in pairwise(starts)]
        # Without a gap, only one copy has this step in an extent of its own.
        if gaps:
            # Before the first copy, and behind the last one, there is no gap. The other gap takes its place.
            gaps_before = [gaps[0], *gaps]
            gaps_behind = [*gaps, gaps[-1]]
            yield from map(min, gaps_before, gaps_behind)


def _largest_group(positions: Positions, step_gaps: Mapping[str, float]) -> set[str]:
    """Return the names of the largest group of copies that lie together on disk; an empty set without any.

    `step_gaps` has the median distance between two steps of each copy: {"a": 8192.0, "b": 8192.0}. Two copies
    lie together if the median distance between the same step of both, such as 4,096, is at most half
    (MAX_RATIO) of both distances in `step_gaps`.
    """

    def are_together(first: str, second: str) -> bool:
        shared_steps = positions[first].keys() & positions[second].keys()
        if not shared_steps:
            return False
        gaps = [abs(positions[first][step] - positions[second][step]) for step in shared_steps]
        return median(gaps) <= MAX_RATIO * min(step_gaps[first], step_gaps[second])

    groups: list[set[str]] = []
    for copy in sorted(positions):
        # Two copies may have no sampled step in common. So a copy joins a group if it is together with one
        # member. The groups that the same copy joins become one.
        joined = {copy}
        other_groups = []
        for group in groups:
            if any(are_together(copy, member) for member in group):
                joined |= group
            else:
                other_groups.append(group)
        groups = [*other_groups, joined]
    largest = max(groups, key=len, default=set())
    return largest if len(largest) > 1 else set()


def _read_positions(copies: Mapping[Path, Store]) -> list[Positions]:
    """Return the positions of the sampled steps of copies, for each kind such as packed copies (Steps).

    Example of one kind: {"ruby.f7.nopack.1": {0: 4096, 50: 819200}}, with the bytes of revisions 0 and 50.
    """
    steps_by_copy = {copy: store.steps(copy) for copy, store in copies.items()}
    kinds: dict[str, dict[str, dict[int, int]]] = {}
    for copy, steps in steps_by_copy.items():
        # Only the same step of two copies can be compared. So all copies of a kind get the same sample, with
        # steps up to the end of the shortest and of each longer repository.
        ends = [other.ends.get(steps.kind, 0) for other in steps_by_copy.values()]
        positions = kinds.setdefault(steps.kind, {})
        positions[copy.name] = _locate(steps, _sample(ends))
    return list(kinds.values())


def _locate(steps: Steps, sample: Sequence[int]) -> dict[int, int]:
    """Return the first byte on the device of the sampled steps of one copy, as far as it has them."""
    positions = {}
    for step in sample:
        if step <= steps.last:
            extent = first_extent(steps.file(step))
            # A small file inside of its inode has no extent, and so no position.
            if extent:
                positions[step] = extent.start
    return positions


def _sample(ends: Iterable[int]) -> list[int]:
    """Return about SAMPLED_STEPS evenly spaced steps below each end: [0, 50, 100, ..., 4950] for 5000."""
    steps: set[int] = set()
    for end in set(ends):
        steps.update(range(0, end, max(1, end // SAMPLED_STEPS)))
    return sorted(steps)
