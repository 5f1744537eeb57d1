"""Show by the extents of sampled files whether copies are interleaved on their device.

A step is a revision, or a shard of packed copies. Its position is the first extent of its file. Two copies
are together if files of the same step are much nearer (median) than two steps of one copy. Interleaved
copies form one group. Packed and unpacked copies are compared separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median

from vcsbench import words
from vcsbench.records import CopyLayout
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.filesystems import mount_of
from vcsbench.subjects import fsfs

STEPS = 100
# The ratio is near 0 for interleaved copies, and 3 for copies made one after another.
MAX_RATIO = 0.5

# The first byte on the device of each step, by copy. All copies are packed, or none.
Positions = Mapping[str, Mapping[int, int]]


def prove_interleaving(copies: Mapping[str, Path]) -> CopyLayout:
    """Return the layout of copies, by name, from their extents.

    - `verdict`: interleaved, partly, apart, alone or unknown.
    - `sentence`: the text after "The copies", with the evidence.
    - `apart`: the copies outside of the largest group.
    """
    try:
        return judge_layout(_read_positions(copies))
    except ExtentsUnsupportedError as error:
        kind = mount_of(next(iter(copies.values()))).filesystem or "this file system"
        return _unknown(f"{kind} does not report where files lie ({error})")
    except OSError as error:
        return _unknown(str(error))


def judge_layout(kinds: Sequence[Positions]) -> CopyLayout:
    count = sum(len(steps) for positions in kinds for steps in positions.values())
    if not count:
        return _unknown("no file lies in an extent of its own")
    if all(len(positions) < 2 for positions in kinds):
        return {"verdict": "alone", "sentence": "are the only copies of their kind", "apart": []}
    # A copy with a single step shows nothing.
    several = [{c: steps for c, steps in p.items() if len(steps) > 1} for p in kinds]
    comparable = [positions for positions in several if len(positions) > 1]
    same = [gap for positions in comparable for gap in _gaps_to_nearest_copy(positions)]
    if not same:
        return _unknown("there are too few revisions")
    other = {
        copy: median([abs(a - b) for a, b in combinations(steps.values(), 2)])
        for positions in comparable
        for copy, steps in positions.items()
    }
    groups = [_largest_group(positions, other) for positions in comparable]
    apart = sorted(other.keys() - set[str]().union(*groups))
    evidence = (
        f"the same revision or shard of the nearest other copy is {words.size(median(same))} away, another "
        f"one of the same copy {words.size(median(other.values()))} (medians of {count} sampled files, by "
        "FIEMAP)"
    )
    if not apart:
        verdict, sentence = "interleaved", "lie interleaved"
    elif len(apart) == len(other):
        verdict, sentence = "apart", "do NOT lie interleaved"
    else:
        number = words.count_of(len(apart), "copy lies", "copies lie")
        verdict, sentence = "partly", f"lie interleaved only in part, {number} apart"
    return {"verdict": verdict, "sentence": f"{sentence}: {evidence}", "apart": apart}


def _unknown(reason: str) -> CopyLayout:
    sentence = f"cannot be shown to lie interleaved: {reason}"
    return {"verdict": "unknown", "sentence": sentence, "apart": []}


def _gaps_to_nearest_copy(positions: Positions) -> Iterator[int]:
    for step in {step for steps in positions.values() for step in steps}:
        starts = sorted(steps[step] for steps in positions.values() if step in steps)
        gaps = [after - before for before, after in pairwise(starts)]
        for i in range(len(starts) if gaps else 0):
            yield min(gaps[max(0, i - 1) : i + 1])


def _largest_group(positions: Positions, other: Mapping[str, float]) -> set[str]:
    """Return the largest group of copies that are together; no copies if all are apart."""

    def are_together(a: str, b: str) -> bool:
        shared = positions[a].keys() & positions[b].keys()
        same = [abs(positions[a][step] - positions[b][step]) for step in shared]
        return bool(same) and median(same) <= MAX_RATIO * min(other[a], other[b])

    groups: list[set[str]] = []
    for copy in sorted(positions):
        near = [group for group in groups if any(are_together(copy, c) for c in group)]
        groups = [group for group in groups if group not in near] + [{copy}.union(*near)]
    largest = max(groups, key=len)
    return largest if len(largest) > 1 else set()


def _read_positions(copies: Mapping[str, Path]) -> list[Positions]:
    """Return the positions in packed copies, and those in the others."""
    shapes = {name: fsfs.check_shape(copy) for name, copy in copies.items()}
    shards = _sample(shape.packed for shape in shapes.values())
    revisions = _sample(shape.youngest for shape in shapes.values())
    kinds: dict[bool, dict[str, dict[int, int]]] = {True: {}, False: {}}
    for name, copy in copies.items():
        shape, is_packed = shapes[name], shapes[name].packed > 0
        if is_packed:
            files = {n: f"{n}.pack/pack" for n in shards if n < shape.packed}
        else:
            unpacked = (n for n in revisions if n <= shape.youngest)
            files = {n: fsfs.revision_file(n, shape.shard) for n in unpacked}
        extents = {n: first_extent(copy / "db" / "revs" / file) for n, file in files.items()}
        kinds[is_packed][name] = {n: extent.start for n, extent in extents.items() if extent}
    return [*kinds.values()]


def _sample(ends: Iterable[int]) -> list[int]:
    return sorted({n for end in set(ends) for n in range(0, end, max(1, end // STEPS))})
