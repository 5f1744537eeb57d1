"""The copies on a storage: which there are, and which are missing or no longer as they were made."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vcsbench.subjects.repository import state
from vcsbench.subjects.repository.labels import (
    EMPTY,
    FOLDER,
    copy_of,
    label_of,
    read_label,
    said_of,
)

# So many files of the copies on a storage are looked at each time that the workflow starts: some 0.4 s.
# Of more files, those are taken that a random choice of shards has.
LOOKED_AT = 100_000
# So many copies that have to be made again are named.
SAID = 3


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
    """Whether a copy is there, as it was made, and made from the variant's source as it is now."""
    path = copy_of(place, variant.name, copy)
    return _is_whole(path, said_of(path), variant)


def _is_whole(
    copy: Path, label: dict[str, Any], variant: Variant, shards: int | None = None
) -> bool:
    """The same of a copy with its label; `shards` bounds what is looked at (state.changed)."""
    return label.get("identity") == variant.identity and not state.changed(
        copy, label["state"], shards
    )


def missing(
    place: Path, variants: Sequence[Variant], copies: int, files: float = math.inf
) -> list[tuple[Variant, int]]:
    """The copies that have to be made. About `files` files of them are looked at, by default all."""
    wanted = [(variant, copy) for variant in variants for copy in range(1, copies + 1)]
    labels = [said_of(copy_of(place, variant.name, copy)) for variant, copy in wanted]
    there = sum(label.get("files", 0) for label in labels)
    share = files / there if there > files else 1.0
    return [
        (variant, copy)
        for (variant, copy), label in zip(wanted, labels, strict=True)
        if not _is_whole(copy_of(place, variant.name, copy), label, variant, _shards(label, share))
    ]


def _shards(label: dict[str, Any], share: float) -> int | None:
    if share >= 1:
        return None
    return math.ceil(share * sum(map(state.is_shard, label.get("state", {}))))


def empty_is_whole(place: Path) -> bool:
    """Whether the empty repository is there that cold clients are run against."""
    return bool(read_label(place / FOLDER / EMPTY))


def said_of_gone(place: Path, gone: Sequence[tuple[Variant, int]]) -> str:
    """A line that names copies that are no longer there or no longer as they were made, and why."""
    said = [f"{v.name}.{n}: {_why(copy_of(place, v.name, n))}" for v, n in gone[:SAID]]
    more = [f"and {len(gone) - SAID} more"] if len(gone) > SAID else []
    return (
        f"{place}: {len(gone)} copies have vanished or were changed, and are made again "
        f"({'; '.join(said + more)})"
    )


def _why(copy: Path) -> str:
    label = said_of(copy)
    if not copy.exists():
        return "it is gone"
    if not label:
        return f"{label_of(copy).name} is gone"
    where = state.changed(copy, label["state"])
    return f"something changed in {'its folder' if where == '.' else where}"


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
