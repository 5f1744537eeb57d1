"""Makes the copies that are missing on a storage."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import copies, fsfs, state
from vcsbench.subjects.repository.copies import Variant
from vcsbench.subjects.repository.digests import Read
from vcsbench.subjects.repository.interleave import Copying, make_copies
from vcsbench.subjects.repository.labels import (
    BOOKKEEPING,
    EMPTY,
    FOLDER,
    copy_of,
    label_of,
    said_of,
    withdraw,
)
from vcsbench.subjects.repository.load import say
from vcsbench.wholefile import write_json

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
        wanted = copies.missing(place.path, variants, numbers)
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
        if not copies.empty_is_whole(place.path):
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
    scratch = Path(loaded["path"]) / f"{variant.format}.{variant.packing}"
    if loaded["identity"] == variant.identity and (scratch / "format").exists():
        return scratch
    for copy in range(1, numbers + 1):
        if copies.is_whole(place, variant, copy):
            return copy_of(place, variant.name, copy)
    for copy in range(1, numbers + 1):
        withdraw(copy_of(place, variant.name, copy))
    raise UserError(
        f"{place}: no copy of {variant.name} is whole, and what was loaded is gone; run again: it is "
        f"loaded anew"
    )


def _check_room(place: Place, copyings: Sequence[Copying]) -> None:
    there = os.statvfs(place.path)
    block = there.f_frsize
    need = sum(-(-file.size // block) * block for c in copyings for file in c.files)
    free = there.f_bavail * block
    say(f"{len(copyings)} copies need {gib(need)}; {place.path} has {gib(free)}")
    files = sum(len(copying.files) for copying in copyings)
    if need > free or (there.f_files and files > there.f_favail):
        raise UserError(
            f"{place.path}: the copies need {gib(need)} in {files} files, and there are {gib(free)} and "
            f"{there.f_favail} files free; free some space, or {ELSEWHERE}, and run again"
        )


def gib(size: float) -> str:
    """A size in GiB, as messages have it."""
    return f"{size / 2**30:.2f} GiB"


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
        for (variant, _), copying, found in zip(wanted, copyings, read, strict=True):
            label = _label(variant, copying, found, loaded[variant.repo])
            write_json(label_of(copying.destination), label)
    except BaseException:
        for copying in copyings:
            _remove_copy(place, copying.destination)
        raise
    finally:
        place.remove(WORK)


def _check_source(source: Path, found: Read) -> None:
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
    fsfs.create(empty, "f7")
    write_json(label_of(empty), {"state": state.take(empty)})


def _label(
    variant: Variant, copying: Copying, found: Read, loaded: dict[str, Any]
) -> dict[str, Any]:
    copy = copying.destination
    return {
        "repo": variant.repo,
        "format": variant.format,
        "packing": variant.packing,
        "identity": variant.identity,
        "youngest": fsfs.youngest(copy),
        "packed_shards": fsfs.packed_shards(copy),
        "files": len(copying.files),
        "bytes": sum(file.size for file in copying.files),
        "tree": loaded["tree"],
        "notes": loaded["notes"],
        "digest": found.digest,
        "state": found.state,
    }
