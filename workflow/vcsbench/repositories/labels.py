"""Where copies are on a storage, and the label beside each that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Below the place, and what the servers serve.
FOLDER = "repositories"
# What a cold client is run against, so that its own files are not what a cold run times.
EMPTY = "empty"


def copy_of(place: Path, name: str, copy: int) -> Path:
    """Where copy number `copy` (from 1) of the variant `name` is."""
    return place / FOLDER / f"{name}.{copy}"


def label_of(copy: Path) -> Path:
    """The file beside a copy that says what the copy is; it is written when the copy is whole."""
    return copy.with_name(f"{copy.name}.json")


def read_label(copy: Path) -> dict[str, Any]:
    """What the label beside a copy says, or {} where the copy or its label is missing or broken."""
    try:
        label: dict[str, Any] = json.loads(label_of(copy).read_text())
        current = (copy / "db" / "current").stat()
    except (OSError, ValueError):
        return {}
    return label if current.st_mtime_ns == label.get("current_mtime_ns") else {}
