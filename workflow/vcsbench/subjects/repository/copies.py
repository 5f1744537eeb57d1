"""The copies on a storage: which there are, and which are missing or no longer as they were made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench.subjects.repository import state
from vcsbench.subjects.repository.audit import wrong_with
from vcsbench.subjects.repository.labels import copy_of, said_of
from vcsbench.subjects.repository.variant import Variant

# So many files of the copies on a storage are looked at each time that the workflow starts: some 0.4 s.
# Of more files, those are taken that a random choice of shards has.
LOOKED_AT = 100_000
# So many copies that have to be made again are named.
SAID = 3
# Copies that are not there, or not what they should be, each with the reason.
Missing = dict[tuple[Variant, int], str]


def is_whole(place: Path, variant: Variant, number: int) -> bool:
    """Whether a copy is there, as it was made, and made from the variant's source as it is now."""
    copy = copy_of(place, variant.name, number)
    return not wrong_with(copy, said_of(copy), variant, number)


def missing(
    place: Path, variants: Sequence[Variant], copies: int, files: float = math.inf
) -> Missing:
    """The copies that have to be made. About `files` files of them are looked at, by default all."""
    wanted = [(variant, number) for variant in variants for number in range(1, copies + 1)]
    paths = [copy_of(place, variant.name, number) for variant, number in wanted]
    labels = [said_of(path) for path in paths]
    there = sum(label.get("files", 0) for label in labels)
    share = files / there if there > files else 1.0
    found = {
        (variant, number): wrong_with(path, label, variant, number, _shards(label, share))
        for (variant, number), path, label in zip(wanted, paths, labels, strict=True)
    }
    return {copy: why for copy, why in found.items() if why}


def _shards(label: dict[str, Any], share: float) -> int | None:
    if share >= 1:
        return None
    return math.ceil(share * sum(map(state.is_shard, label.get("state", {}))))


def said_of_gone(place: Path, gone: Mapping[tuple[Variant, int], str]) -> str:
    """A line that names copies that are no longer there or no longer as they were made, and why."""
    said = [f"{variant.name}.{number}: {why}" for (variant, number), why in gone.items()][:SAID]
    more = [f"and {len(gone) - SAID} more"] if len(gone) > SAID else []
    return (
        f"{place}: {len(gone)} copies have vanished or were changed, and are made again "
        f"({'; '.join(said + more)})"
    )


def recorded(record: Path, variants: Sequence[Variant]) -> list[Variant]:
    """Those of the variants that the record of a storage has as they are now."""
    labels = read_record(record).get("repositories", {})
    return [v for v in variants if labels.get(v.name, {}).get("identity") == v.identity]


def moment(record: Path) -> str:
    """When the copies of a record were made; "" where there is no record."""
    return str(read_record(record).get("made", ""))


def read_record(record: Path) -> dict[str, Any]:
    """What the record of copies, or of what was loaded, says; {} where there is none."""
    try:
        content: dict[str, Any] = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return content
