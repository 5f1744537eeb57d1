"""Where copies are on a storage, and the label beside each that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcsbench.subjects.repository import state

# Below the place, and what the servers serve.
FOLDER = "repositories"
# What a cold client is run against, so that its own files are not what a cold run times.
EMPTY = "empty"
# What a label keeps for looking after its copy, and no result needs.
BOOKKEEPING = ("state", "digest")


def copy_of(place: Path, name: str, copy: int) -> Path:
    """Where copy number `copy` (from 1) of the variant `name` is."""
    return place / FOLDER / f"{name}.{copy}"


def label_of(copy: Path) -> Path:
    """The file beside a copy that says what the copy is; it is written when the copy is whole."""
    return copy.with_name(f"{copy.name}.json")


def read_label(copy: Path, shards: int | None = None) -> dict[str, Any]:
    """What the label beside a copy says, or {} where the copy or its label is missing, or the copy is no
    longer as it was made. `shards` bounds what is looked at (state.changed)."""
    label = said_of(copy)
    return label if label and not state.changed(copy, label["state"], shards) else {}


def said_of(copy: Path) -> dict[str, Any]:
    """What the label beside a copy says, the copy itself not looked at; {} where there is none."""
    try:
        label = json.loads(label_of(copy).read_text())
    except (OSError, ValueError):
        return {}
    return label if isinstance(label, dict) and isinstance(label.get("state"), dict) else {}


def withdraw(copy: Path) -> None:
    """Take the label away from a copy that is not what it says: the next run makes the copy anew."""
    label_of(copy).unlink(missing_ok=True)
