"""The copies on a storage: which are missing or no longer as they were made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vcsbench.subjects.repository import state
from vcsbench.subjects.repository.audit import wrong_with
from vcsbench.subjects.repository.labels import Variant, copy_of, said_of

# So many files of the copies on a storage are looked at each time that the workflow starts: some 0.4 s.
# Of more files, those are taken that a random choice of shards has.
LOOKED_AT = 100_000
# Copies that are not there, or not what they should be, each with the reason.
Missing = dict[tuple[Variant, int], str]


def missing(
    place: Path, variants: Sequence[Variant], copies: int, files: float = math.inf
) -> Missing:
    """The copies that have to be made. About `files` files of them are looked at, by default all."""
    wanted = {
        (variant, number): copy_of(place, variant.name, number)
        for variant in variants
        for number in range(1, copies + 1)
    }
    labels = {copy: said_of(path) for copy, path in wanted.items()}
    there = sum(label.get("files", 0) for label in labels.values())
    share = files / there if there > files else 1.0
    found = {
        copy: wrong_with(path, labels[copy], *copy, _shards(labels[copy], share))
        for copy, path in wanted.items()
    }
    return {copy: why for copy, why in found.items() if why}


def _shards(label: dict[str, Any], share: float) -> int | None:
    if share >= 1:
        return None
    return math.ceil(share * sum(map(state.is_shard, label.get("state", {}))))
