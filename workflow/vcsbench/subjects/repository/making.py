"""Makes the copies that are missing on a storage."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.progress import say
from vcsbench.subjects.repository import audit, copies, fsfs, nursery, state, svnadmin
from vcsbench.subjects.repository.digests import Content
from vcsbench.subjects.repository.interleave import Copying, make_copies
from vcsbench.subjects.repository.labels import (
    BOOKKEEPING,
    EMPTY,
    FOLDER,
    copy_of,
    label_of,
    said_of,
    withdraw,
    write_label,
)
from vcsbench.subjects.repository.variant import Variant

# What is not to stay while copies are made.
WORK = "making"
ELSEWHERE = "lower `copies` or the scale, or name another folder in `storages`"
# A copy, its label, and a label that was being written.
_COPY = re.compile(r"\.?[A-Za-z0-9][\w.-]*\.f\d+\.(?:no)?pack\.\d+(?:\.json(?:\.new)?)?")


def make_missing(
    place: Place,
    variants: Sequence[Variant],
    numbers: int,
    loaded: dict[str, dict[str, Any]],
    spacer_kib: float,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Make those of the `numbers` copies of each variant that are missing on a place, interleaved.

    `loaded` has by repository what the rule that loads wrote of it. Returns what is to be known of each
    variant, by name. A UserError where the storage has no room; no half copy is left then.
    """
    with full.told(place.path, ELSEWHERE):
        place.make(FOLDER)
        place.remove(WORK)  # what an interrupted run left
        _remove_unlabelled(place)
        wanted = list(copies.missing(place.path, variants, numbers))
        copyings = []
        for variant, copy in wanted:
            source = _source(place.path, variant, numbers, loaded[variant.repo])
            copyings.append(
                Copying(source, copy_of(place.path, variant.name, copy), fsfs.files(source))
            )
        for copying in copyings:
            _remove_copy(place, copying.destination)
        _check_room(place, copyings)
        if copyings:
            _copy(place, wanted, copyings, loaded, spacer_kib, seed)
        if not audit.empty_is_whole(place.path):
            _make_empty(place)
    labels = {v.name: said_of(copy_of(place.path, v.name, 1)) for v in variants}
    return {
        name: {key: value for key, value in label.items() if key not in BOOKKEEPING}
        for name, label in labels.items()
    }


def _remove_unlabelled(place: Place) -> None:
    """Remove what copies a killed run left half made, wanted now or not."""
    for path in sorted((place.path / FOLDER).iterdir()):
        copy = path.with_name(path.name.lstrip(".").removesuffix(".new").removesuffix(".json"))
        half = path.name.endswith(".new") or not said_of(copy) or not copy.exists()
        if _COPY.fullmatch(path.name) and half:
            place.remove(FOLDER, path.name)


def _remove_copy(place: Place, copy: Path) -> None:
    # The label first: half a copy has none.
    place.remove(FOLDER, label_of(copy).name)
    place.remove(FOLDER, copy.name)


def _source(place: Path, variant: Variant, numbers: int, loaded: dict[str, Any]) -> Path:
    scratch = nursery.loaded(loaded, variant)
    if scratch:
        return scratch
    for copy in range(1, numbers + 1):
        if copies.is_whole(place, variant, copy):
            return copy_of(place, variant.name, copy)
    for copy in range(1, numbers + 1):
        withdraw(copy_of(place, variant.name, copy))
    raise UserError(
        f"{place}: no copy of {variant.name} is whole, and what was loaded is gone or was changed; run "
        f"again: it is loaded anew"
    )


def _check_room(place: Place, copyings: Sequence[Copying]) -> None:
    there = os.statvfs(place.path)
    block = there.f_frsize
    need = sum(-(-file.size // block) * block for c in copyings for file in c.files)
    free = there.f_bavail * block
    say(f"{len(copyings)} copies need {words.size(need)}; {place.path} has {words.size(free)}")
    files = sum(len(copying.files) for copying in copyings)
    if need > free or (there.f_files and files > there.f_favail):
        raise UserError(
            f"{place.path}: the copies need {words.size(need)} in {files} files, and there are "
            f"{words.size(free)} and {there.f_favail} files free; free some space, or {ELSEWHERE}, and run "
            f"again"
        )


def _copy(
    place: Place,
    wanted: Sequence[tuple[Variant, int]],
    copyings: Sequence[Copying],
    loaded: dict[str, dict[str, Any]],
    spacer_kib: float,
    seed: int,
) -> None:
    """Make the copies and then their labels: all, or none of them."""
    try:
        read = make_copies(copyings, place.make(WORK), spacer_kib, seed)
        for copying, found in zip(copyings, read, strict=True):
            _check_source(copying.source, found)
        for (variant, copy), copying, found in zip(wanted, copyings, read, strict=True):
            says = _says(variant, copying, found, loaded[variant.repo])
            write_label(copying.destination, {**says, "copy": copy})
    except BaseException:
        for copying in copyings:
            _remove_copy(place, copying.destination)
        raise
    finally:
        place.remove(WORK)


def _check_source(source: Path, found: Content) -> None:
    """A copy that others were made from has to be what it was made as itself, to the last byte."""
    label = said_of(source)
    if label and label["digest"] != found.digest:
        withdraw(source)
        raise UserError(
            f"{source}: its files have other bytes than were written, though none was written to since: "
            f"look after the device; run again, and the copy is made anew"
        )


def _make_empty(place: Place) -> None:
    empty = place.path / FOLDER / EMPTY
    _remove_copy(place, empty)
    svnadmin.create(empty, "f7")
    write_label(empty, {"state": state.take(empty)})


def _says(
    variant: Variant, copying: Copying, found: Content, loaded: dict[str, Any]
) -> dict[str, Any]:
    shape = fsfs.shape(copying.destination)
    return {
        "variant": variant.name,
        "repo": variant.repo,
        "format": variant.format,
        "packing": variant.packing,
        "identity": variant.identity,
        "youngest": shape.youngest,
        "packed_shards": shape.packed,
        "files": len(copying.files),
        "bytes": sum(file.size for file in copying.files),
        "tree": loaded["tree"],
        "notes": loaded["notes"],
        "digest": found.digest,
        "state": found.state,
    }
