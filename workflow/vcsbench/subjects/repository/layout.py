"""Whether copies do lie interleaved: the proof by the extents of a sample of their files.

A step is a revision, or of packed copies a shard; where its file begins on the device is its first extent.
Two copies lie together if the same step of both is much nearer, in the median, than two steps of one copy
are to each other. Interleaved copies are one group of such pairs; of copies made one after another none lies
together with another. Packed copies and others are looked at each among themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from vcsbench.storages.extents import NotAsked, first_extent
from vcsbench.storages.mounts import mount_of
from vcsbench.subjects.repository import fsfs

# Steps of each repository; opening a file that is not in the cache reads from the device.
STEPS = 100
# Two copies lie together where the same step of both is at most so much as far away as other steps of
# one: 0.5. Interleaved, it is near 0; where one copy follows the other, it is 3.
NEARER = 0.5

# A step is ("revision", 17) or ("shard", 3).
Step = tuple[str, int]
# Copy, step, and the first byte of the step's file on the device.
Place = tuple[str, Step, int]


def prove(copies: Mapping[str, Path]) -> dict[str, Any]:
    """What the extents of copies (by name) show.

    Returns `verdict` (interleaved, partly, apart, alone, unknown), a `sentence` for reports that goes on
    from "The copies", how many `files` were asked for, the names of the copies that lie `apart` from the
    rest, and two medians, None where they are not known: `same_step_bytes` from a file to the same step of
    the nearest other copy, and `other_step_bytes` to other steps of its own.
    """
    try:
        places = list(_places(copies))
    except NotAsked as error:
        kind = mount_of(next(iter(copies.values()))).filesystem or "this file system"
        return _unknown(
            f"asked whether they lie interleaved: {kind} does not say where files lie ({error})"
        )
    except OSError as error:
        return _unknown(f"asked whether they lie interleaved: {error}")
    return judge(places)


def judge(places: Sequence[Place]) -> dict[str, Any]:
    """As prove(), from the places of files."""
    at: dict[str, dict[str, dict[Step, int]]] = defaultdict(lambda: defaultdict(dict))
    for copy, step, start in places:
        at[step[0]][copy][step] = start
    if not at:
        return _unknown("shown to lie interleaved: no file lies in an extent of its own")
    kinds = [_Kind(copies) for copies in at.values() if len(copies) > 1]
    if not kinds:
        return _said("alone", "are one of each kind, and have nothing to lie beside", len(places))
    told = [kind for kind in kinds if kind.other]
    if not told:
        return _unknown("shown to lie interleaved: there are too few revisions", len(places))
    same = median([distance for kind in told for distance in kind.nearest()])
    other = median([distance for kind in told for distance in kind.other.values()])
    shown = (
        f"the same revision or shard of the nearest other copy is {_size(same)} away, another one of the "
        f"same copy {_size(other)} (medians of {len(places)} sampled files, by FIEMAP)"
    )
    groups = [kind.groups() for kind in told]
    apart = sorted(copy for of_kind in groups for copy in _outside(of_kind))
    if not apart:
        verdict, sentence = "interleaved", f"lie interleaved: {shown}"
    elif all(len(of_kind[0]) == 1 for of_kind in groups):
        verdict, sentence = "apart", f"do NOT lie interleaved: {shown}"
    else:
        names = f"{', '.join(apart)} {'lies' if len(apart) == 1 else 'lie'} apart from the rest"
        verdict, sentence = "partly", f"lie interleaved only in part: {names}; {shown}"
    distances = {"same_step_bytes": same, "other_step_bytes": other}
    return _said(verdict, sentence, len(places), apart=apart, **distances)


class _Kind:
    """The copies of one kind, packed or not: by copy, where each step's file begins."""

    def __init__(self, at: Mapping[str, Mapping[Step, int]]) -> None:
        self.at = at
        # By copy, how far two different steps are from each other.
        self.other = {
            copy: median([abs(one - two) for one, two in combinations(starts.values(), 2)])
            for copy, starts in at.items()
            if len(starts) > 1
        }

    def nearest(self) -> list[int]:
        """For each file how far it is to the same step of the nearest other copy."""
        by_step: dict[Step, list[int]] = defaultdict(list)
        for starts in self.at.values():
            for step, start in starts.items():
                by_step[step].append(start)
        return [
            min(abs(start - another) for another in starts[:i] + starts[i + 1 :])
            for starts in by_step.values()
            if len(starts) > 1
            for i, start in enumerate(starts)
        ]

    def groups(self) -> list[set[str]]:
        """The groups of copies that lie together, largest first."""
        found: list[set[str]] = []
        for copy in sorted(self.at):
            near = [group for group in found if any(self._together(copy, other) for other in group)]
            found = [group for group in found if group not in near] + [{copy}.union(*near)]
        return sorted(found, key=lambda members: (-len(members), min(members)))

    def _together(self, one: str, two: str) -> bool:
        shared = self.at[one].keys() & self.at[two].keys()
        if not shared or one not in self.other or two not in self.other:
            return False
        same = median([abs(self.at[one][step] - self.at[two][step]) for step in shared])
        return same <= NEARER * min(self.other[one], self.other[two])


def _outside(groups: list[set[str]]) -> set[str]:
    """The copies that are not in the largest group; all of them where no two lie together."""
    if len(groups) > 1 and len(groups[0]) == 1:
        return set().union(*groups)
    return set().union(*groups[1:])


def _size(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB" if size >= 10 << 20 else f"{size / 2**10:,.0f} KiB"


def _said(verdict: str, sentence: str, files: int, **shown: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"apart": [], "same_step_bytes": None, "other_step_bytes": None}
    return {"verdict": verdict, "sentence": sentence, "files": files, **nothing, **shown}


def _unknown(why: str, files: int = 0) -> dict[str, Any]:
    return _said("unknown", f"cannot be {why}", files)


def _places(copies: Mapping[str, Path]) -> Iterator[Place]:
    """Where sampled steps of each copy begin. Copies that share steps are asked for the same ones."""
    packed = {name: fsfs.packed_shards(copy) for name, copy in copies.items()}
    youngest = {name: fsfs.youngest(copy) for name, copy in copies.items()}
    shards, revisions = _evenly(packed.values()), _evenly(youngest.values())
    for name, copy in copies.items():
        size = fsfs.shard_size(copy)
        files: dict[Step, str] = {
            ("shard", n): f"{n}.pack/pack" for n in shards if n < packed[name]
        } or {
            ("revision", n): f"{n // size}/{n}" if size else f"{n}"
            for n in revisions
            if n <= youngest[name]
        }
        for step, file in files.items():
            extent = first_extent(copy / "db" / "revs" / file)
            if extent:
                yield name, step, extent.start


def _evenly(ends: Iterable[int]) -> list[int]:
    """Numbers below each of the ends, spread evenly, not next to each other where that can be."""
    return sorted({n for end in set(ends) for n in range(0, end, max(1, end // STEPS))})
