"""Makes the copies that are missing on a storage."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.progress import say
from vcsbench.subjects.repository import (
    audit,
    copies,
    fsfs,
    labels,
    nursery,
    state,
    svnadmin,
    verifying,
)
from vcsbench.subjects.repository.digests import Content
from vcsbench.subjects.repository.interleave import Copying, make_copies
from vcsbench.subjects.repository.labels import Variant, copy_of, said_of

# What is not to stay while copies are made.
WORK = "making"
ELSEWHERE = "lower `copies` or the scale, or name another folder in `storages`"
# By variant and number.
Copyings = dict[tuple[Variant, int], Copying]
# A copy, its label, and a label that was being written.
_COPY = re.compile(
    r"\.?[A-Za-z0-9][\w.-]*\.(?:f\d+|as-is)(?:-today)?(?:-to-f\d+)?\.(?:nopack|partly|pack)\.\d+"
    r"(?:\.json(?:\.new)?)?"
)


def make_missing(
    place: Place,
    variants: Sequence[Variant],
    numbers: int,
    loaded: dict[str, dict[str, Any]],
    fragmentation_kib: float,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Make those of the `numbers` copies of each variant that are missing on a place, interleaved.

    `loaded` has by repository what the rule that loads wrote of it. Returns what is to be known of each
    variant, by name. A UserError where the storage has no room, a DamagedError where what was loaded is
    damaged, which is verified meanwhile; no half copy is left then.
    """
    with full.told(place.path, ELSEWHERE):
        place.make(labels.FOLDER)
        place.remove(WORK)  # what an interrupted run left
        _remove_unlabelled(place)
        missing = copies.missing(place.path, variants, numbers)
        copyings = {}
        for variant, copy in missing:
            there = [n for n in range(1, numbers + 1) if (variant, n) not in missing]
            source = _source(place.path, variant, numbers, there, loaded[variant.repo])
            destination = copy_of(place.path, variant.name, copy)
            copyings[variant, copy] = Copying(source, destination, fsfs.files(source))
        for copying in copyings.values():
            _remove_copy(place, copying.destination)
        _check_room(place, copyings, fragmentation_kib)
        if copyings:
            _copy(place, copyings, loaded, fragmentation_kib, seed)
        if not audit.empty_is_whole(place.path):
            empty = place.path / labels.FOLDER / labels.EMPTY
            _remove_copy(place, empty)
            svnadmin.create(empty, "f7")
            labels.write_label(empty, {"state": state.take(empty)})
    return {v.name: labels.results_of(said_of(copy_of(place.path, v.name, 1))) for v in variants}


def _remove_unlabelled(place: Place) -> None:
    """Remove what copies a killed run left half made, wanted now or not."""
    for path in sorted((place.path / labels.FOLDER).iterdir()):
        copy = path.with_name(path.name.lstrip(".").removesuffix(".new").removesuffix(".json"))
        half = path.name.endswith(".new") or not said_of(copy) or not copy.exists()
        if _COPY.fullmatch(path.name) and half:
            place.remove(labels.FOLDER, path.name)


def _remove_copy(place: Place, copy: Path) -> None:
    # The label first: half a copy has none.
    place.remove(labels.FOLDER, labels.label_of(copy).name)
    place.remove(labels.FOLDER, copy.name)


def _source(
    place: Path, variant: Variant, numbers: int, whole: Sequence[int], loaded: dict[str, Any]
) -> Path:
    """What to make copies of a variant from: what was loaded, or one of those that are `whole`."""
    scratch = nursery.loaded(loaded, variant)
    if scratch:
        return scratch
    if whole:
        return copy_of(place, variant.name, whole[0])
    for copy in range(1, numbers + 1):
        labels.withdraw(copy_of(place, variant.name, copy))
    raise UserError(
        f"{place}: no copy of {variant.name} is whole, and what was loaded is gone or was changed; run "
        f"again: it is loaded anew"
    )


def _check_room(place: Place, copyings: Copyings, fragmentation_kib: float) -> None:
    there = os.statvfs(place.path)
    block = there.f_frsize
    files = [file for copying in copyings.values() for file in copying.files]
    need = sum(-(-file.size // block) * block for file in files)
    # They lie between the copies until all of these are made: for 250,000 revisions they are larger by far.
    steps = sum(len({file.revision for file in copying.files}) for copying in copyings.values())
    spacers = round(steps * fragmentation_kib * 1024)
    need += spacers
    free = there.f_bavail * block
    of_spacers = f", spacers of {words.size(spacers)} included" if spacers else ""
    say(
        f"{len(copyings)} copies need {words.size(need)}{of_spacers}; {place.path} has {words.size(free)}"
    )
    lower = "lower `fragmentation_kib`, " if spacers else ""
    if need > free or (there.f_files and len(files) > there.f_favail):
        raise UserError(
            f"{place.path}: the copies need {words.size(need)}{of_spacers} in {len(files)} files, and there "
            f"are {words.size(free)} and {there.f_favail} files free; free some space, {lower}or "
            f"{ELSEWHERE}, and run again"
        )


def _copy(
    place: Place,
    copyings: Copyings,
    loaded: dict[str, dict[str, Any]],
    fragmentation_kib: float,
    seed: int,
) -> None:
    """Make the copies and then their labels: all, or none of them."""
    made = list(copyings.values())
    # None has a label, and can be measured, before what it was made from is verified.
    into = {Path(loaded[variant.repo].get("path", "")) for variant, _ in copyings}
    sources = {copying.source.parent for copying in made}
    try:
        with verifying.beside(sorted(into & sources)):
            read = make_copies(made, place.make(WORK), fragmentation_kib, seed)
        for copying, found in zip(made, read, strict=True):
            _check_source(copying.source, found)
        for (variant, copy), found in zip(copyings, read, strict=True):
            keys = ("tree", "folder", "notes", "load_options")
            facts = {key: loaded[variant.repo].get(key, []) for key in keys}
            _label(copyings[variant, copy], variant, copy, {**facts, **found._asdict()})
    except BaseException:
        for copying in made:
            _remove_copy(place, copying.destination)
        raise
    finally:
        place.remove(WORK)


def _check_source(source: Path, found: Content) -> None:
    """A copy that others were made from has to be what it was made as itself, to the last byte."""
    label = said_of(source)
    if label and label["digest"] != found.digest:
        labels.withdraw(source)
        raise UserError(
            f"{source}: its files have other bytes than were written, though none was written to since: "
            f"look after the device; run again, and the copy is made anew"
        )


def _label(copying: Copying, variant: Variant, copy: int, facts: Mapping[str, Any]) -> None:
    shape = fsfs.shape(copying.destination)
    says = {
        "variant": variant.name,
        **variant._asdict(),
        "youngest": shape.youngest,
        "packed_shards": shape.packed,
        "files": len(copying.files),
        "bytes": sum(file.size for file in copying.files),
        **facts,
        "copy": copy,
    }
    labels.write_label(copying.destination, says)
