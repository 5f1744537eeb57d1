"""The copies on a storage: which there are, which are missing, and making those."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.repositories import fsfs
from vcsbench.repositories.interleave import Copying, make_copies
from vcsbench.repositories.labels import EMPTY, FOLDER, copy_of, label_of, read_label
from vcsbench.repositories.load import say
from vcsbench.repositories.place import Place
from vcsbench.wholefile import write_json

# Asking for the residency of 100,000 files takes a second, and loads their inodes.
SAMPLED_FILES = 500
LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class Variant:
    """A repository in one format, packed or not. `identity` is its source's (Source.identity)."""

    repo: str
    format: str
    packing: str
    identity: str

    @property
    def name(self) -> str:
        """The variant's name on a storage."""
        return f"{self.repo}.{self.format}.{self.packing}"


def is_whole(place: Path, variant: Variant, copy: int) -> bool:
    """Whether a copy is there, whole, and made from the variant's source as it is now."""
    return read_label(copy_of(place, variant.name, copy)).get("identity") == variant.identity


def missing(place: Path, variants: Sequence[Variant], copies: int) -> list[tuple[Variant, int]]:
    """The copies that have to be made."""
    return [
        (variant, copy)
        for variant in variants
        for copy in range(1, copies + 1)
        if not is_whole(place, variant, copy)
    ]


def recorded(record: Path, variants: Sequence[Variant]) -> list[Variant]:
    """Those of the variants that the record of a storage has as they are now."""
    labels = _read_record(record).get("repositories", {})
    return [v for v in variants if labels.get(v.name, {}).get("identity") == v.identity]


def moment(record: Path) -> str:
    """When the copies of a record were made; "" where there is no record."""
    return str(_read_record(record).get("made", ""))


def _read_record(record: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return content


def make_missing(
    place: Place,
    variants: Sequence[Variant],
    copies: int,
    loaded: dict[str, dict[str, Any]],
    spacer_kib: float,
    seed: int,
) -> dict[str, dict[str, Any]]:
    """Make the copies that are missing on a place, all of them interleaved.

    `loaded` has by repository what the rule that loads wrote of it. Returns the label of each
    variant by name. A UserError where the storage has no room.
    """
    place.make(FOLDER)
    wanted = missing(place.path, variants, copies)
    copyings = []
    for variant, copy in wanted:
        source = _source(place.path, variant, copies, loaded[variant.repo])
        destination = copy_of(place.path, variant.name, copy)
        place.remove(FOLDER, label_of(destination).name)
        place.remove(FOLDER, destination.name)
        copyings.append(Copying(source, destination, fsfs.files(source)))
    _check_room(place, copyings)
    if copyings:
        _copy(place, copyings, spacer_kib, seed)
    for (variant, _), copying in zip(wanted, copyings, strict=True):
        write_json(label_of(copying.destination), _label(variant, copying, loaded[variant.repo]))
    if not (place.path / FOLDER / EMPTY / "format").exists():
        place.remove(FOLDER, EMPTY)
        fsfs.create(place.path / FOLDER / EMPTY, "f7")
    return {v.name: read_label(copy_of(place.path, v.name, 1)) for v in variants}


def _source(place: Path, variant: Variant, copies: int, loaded: dict[str, Any]) -> Path:
    scratch = Path(loaded["path"]) / f"{variant.format}.{variant.packing}"
    if loaded["identity"] == variant.identity and (scratch / "format").exists():
        return scratch
    for copy in range(1, copies + 1):
        if is_whole(place, variant, copy):
            return copy_of(place, variant.name, copy)
    raise UserError(
        f"results/loaded/{variant.repo}.json: the loaded repository {scratch} has vanished; "
        f"remove that file and run again"
    )


def _check_room(place: Place, copyings: Sequence[Copying]) -> None:
    block = os.statvfs(place.path).f_frsize
    need = sum(-(-size // block) * block for c in copyings for _, _, size in c.files)
    there = os.statvfs(place.path)
    free = there.f_bavail * there.f_frsize
    say(f"{len(copyings)} copies need {gib(need)}; {place.path} has {gib(free)}")
    files = sum(len(copying.files) for copying in copyings)
    if need > free or (there.f_files and files > there.f_favail):
        raise UserError(
            f"{place.path}: the copies need {gib(need)} in {files} files, and there are {gib(free)} and "
            f"{there.f_favail} files free; name another folder in `storages`, or lower `copies` or the scale"
        )


def gib(size: float) -> str:
    """A size in GiB, as messages have it."""
    return f"{size / 2**30:.2f} GiB"


def _copy(place: Place, copyings: Sequence[Copying], spacer_kib: float, seed: int) -> None:
    spacers = place.make("spacers")
    try:
        make_copies(copyings, spacers, spacer_kib, seed)
    except OSError as error:
        for copying in copyings:
            place.remove(FOLDER, copying.destination.name)
        if error.errno == errno.ENOSPC:
            raise UserError(
                f"{place.path}: the storage is full; free some space, lower `copies`, or name another "
                f"folder in `storages`"
            ) from None
        raise UserError(f"{place.path}: copying failed: {error}") from None
    finally:
        place.remove("spacers")


def _label(variant: Variant, copying: Copying, loaded: dict[str, Any]) -> dict[str, Any]:
    copy = copying.destination
    return {
        "repo": variant.repo,
        "format": variant.format,
        "packing": variant.packing,
        "identity": variant.identity,
        "youngest": fsfs.youngest(copy),
        "packed_shards": fsfs.packed_shards(copy),
        "files": len(copying.files),
        "bytes": sum(size for _, _, size in copying.files),
        "tree": loaded["tree"],
        "notes": loaded["notes"],
        "sample": _sample(copying),
        "current_mtime_ns": (copy / "db" / "current").stat().st_mtime_ns,
    }


def _sample(copying: Copying) -> list[str]:
    """The files whose residency in the cache is asked: the large ones, and some of the others."""
    large = [name for _, name, size in copying.files if size >= LARGE_BYTES]
    small = [name for _, name, size in copying.files if 0 < size < LARGE_BYTES]
    chosen = random.Random(0).sample(small, min(SAMPLED_FILES, len(small)))
    return sorted(large + chosen)
