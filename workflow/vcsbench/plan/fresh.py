"""Whether a cell-round has a result, and which recipe it was measured with."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

Digest = Callable[[str, str], str]


class Measured(NamedTuple):
    """The study, the cell and the digest of the recipe that a cell-round was measured with."""

    study: str
    cell: str
    digest: str


def only_fresh(exports: Sequence[str], digest_of: Digest) -> list[str]:
    """Return the exports that are up to date."""
    return [path for path in exports if is_fresh(path, digest_of)]


def is_fresh(export: str, digest_of: Digest) -> bool:
    """Return True if an export exists, and was measured with the present recipe.

    `digest_of` returns the digest of a cell's recipe, by study and path.
    """
    measured = recorded_as(os.path.abspath(export))
    return measured is not None and measured.digest == digest_of(measured.study, measured.cell)


@cache
def recorded_as(export: str) -> Measured | None:
    """Return the recipe of an export as its context has it, without a check of the export's content.

    A run looks at thousands of results before it starts. Each is written whole, so that the check can wait.
    """
    measured = _read(f"{export.removesuffix('.json')}.context.json")
    return measured[0] if measured and os.path.exists(export) else None


def measured_as(export: str | Path) -> Measured | None:
    """Return the recipe of an export; None where it or its context is missing or damaged."""
    path = str(export)
    found = _read(f"{path.removesuffix('.json')}.context.json")
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None
    return found[0] if found and found[1] == digest else None


def _read(context: str) -> tuple[Measured, str] | None:
    try:
        with open(context, "rb") as file:
            content = json.loads(file.read())
        measured = Measured(content["study"], content["cell"], content["recipe_digest"])
        return measured, str(content["export_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
