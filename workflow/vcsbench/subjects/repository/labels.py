"""What copies are of, where they are on a storage, and the label beside each: what it is, and whose."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.files import read_json, write_json

# Below the place, and what the servers serve.
FOLDER = "repositories"
# What a cold client is run against, so that its own files are not what a cold run times.
EMPTY = "empty"
# What a label keeps for looking after its copy, and no result needs.
BOOKKEEPING = ("variant", "copy", "path", "state", "digest", "seal")


class Variant(NamedTuple):
    """A repository in one format, packed or not. `identity` is its source's (Source.identity)."""

    repo: str
    format: str
    packing: str
    identity: str

    @property
    def name(self) -> str:
        """The variant's name on a storage."""
        return f"{self.repo}.{self.format}.{self.packing}"


def copy_of(place: Path, name: str, copy: int) -> Path:
    """Where copy number `copy` (from 1) of the variant `name` is."""
    return place / FOLDER / f"{name}.{copy}"


def label_of(copy: Path) -> Path:
    """The file beside a copy that says what the copy is; it is written when the copy is whole."""
    return copy.with_name(f"{copy.name}.json")


def write_label(copy: Path, says: Mapping[str, Any]) -> None:
    """Write the label of a copy: what is said of it, where it was made, and a digest of that."""
    label = {**says, "path": str(copy)}
    write_json(label_of(copy), {**label, "seal": _seal(label)})


def said_of(copy: Path) -> dict[str, Any]:
    """What the label beside a copy says, the copy itself not looked at; {} where there is none, or it is
    not as it was written."""
    label = read_json(label_of(copy))
    return label if label.get("seal") == _seal(label) else {}


def results_of(label: Mapping[str, Any]) -> dict[str, Any]:
    """What of a label results need."""
    return {key: value for key, value in label.items() if key not in BOOKKEEPING}


def withdraw(copy: Path) -> None:
    """Take the label away from a copy that is not what it says: the next run makes the copy anew."""
    label_of(copy).unlink(missing_ok=True)


def last_of(parts: Mapping[str, Any], youngest: int = sys.maxsize) -> int:
    """The last revision of a dump of a cell's repository: so many of the whole one as the command's
    `revisions` says, at a scale as much of them as of it; no later than the youngest."""
    if "revisions" not in parts:
        return youngest
    return min(part_of(parts["revisions"], parts), youngest)


def part_of(revisions: int, parts: Mapping[str, Any]) -> int:
    """As many of a number of revisions as a cell's repository, at its scale, is of the whole one."""
    return round(revisions * (parts["repository"]["scale"] or 1))


def _seal(label: Mapping[str, Any]) -> str:
    says = {key: value for key, value in label.items() if key != "seal"}
    return hashlib.blake2b(json.dumps(says, sort_keys=True).encode(), digest_size=8).hexdigest()
