"""Whose system calls are counted: those of each cell, and those of cells that run the same thing only
once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vcsbench.axes import with_files

# Of a recipe, what says how often and from which caches a command runs, and what it is called.
_HOW = ("study", "cell", "axes", "state", "runs", "clearing", "time_limit_s", "digest")


class Counted(NamedTuple):
    """The cell under whose path calls are counted, and a digest of what then runs."""

    path: str
    digest: str


def digest_of(recipe: Mapping[str, Any]) -> str:
    """A digest of what runs for a cell, whatever the state of its caches is."""
    argv = f"{recipe['argv']} {recipe['stdin']}"
    # What an axis with a file says is in the recipe.
    axes = {a: v for a, v in recipe["axes"].items() if a not in with_files() or f"{{{a}}}" in argv}
    what = {key: value for key, value in recipe.items() if key not in _HOW} | {"axes": axes}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


def shared(recipes: Iterable[Mapping[str, Any]]) -> dict[str, Counted]:
    """By a cell's path whose counts are its own: those of the first that runs the same."""
    first: dict[str, str] = {}
    found = {}
    for recipe in recipes:
        digest = digest_of(recipe)
        found[recipe["cell"]] = Counted(first.setdefault(digest, recipe["cell"]), digest)
    return found
