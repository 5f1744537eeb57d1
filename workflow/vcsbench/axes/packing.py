"""The axis `packing`: whether `svnadmin pack` has packed the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench import words
from vcsbench.axes.axis import Axis, Parts
from vcsbench.formats import PACKABLE, Made, made_of, number_of

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# Subversion's shards as every `svnadmin create` makes them; only full ones get packed.
SHARD = 1000
NOT_PACKED, PARTLY_PACKED, PACKED = "nopack", "partly", "pack"
# A part of the grid may name these: the packing of the user's own repository; pack if a shard is full.
CURRENT, IF_PACKABLE = "current", "if_packable"


class Packing(Axis):
    """nopack or pack; `packings` stands for the user's own and the others. `partly` is the packing of the
    user's own repository if some of its full shards are packed."""

    speaks = True
    of_server = True

    def named(self, here: Here) -> tuple[str, list[str]]:
        """Return the baseline first: the others are compared with it."""
        own = own_packing(here)
        return "packings", [own, *{NOT_PACKED, PACKED} - {own}]

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """Replace `current` and `if_packable` by their values here."""
        own = own_packing(here)
        full = own if here.only and here.revisions(here.only) < SHARD else PACKED
        stands = {CURRENT: own, IF_PACKABLE: full}
        return list(dict.fromkeys(stands.get(name, name) for name in named))

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The repository's packing."""
        return {"repository": {"packing": value, "packed": value != NOT_PACKED}} if value else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """A repository of less than a shard has nothing to pack, nor has one without shards."""
        repository = parts.get("repository", {})
        name = repository.get("name")
        made = made_of(repository["format"]) if repository.get("format") else None
        if made and made.is_as_is:
            return _why_not_as_is(value, made, here)
        if value == PARTLY_PACKED:
            return "only a repository of your own as it is can be partly packed"
        if value != PACKED or not name:
            return ""
        if made and not made.is_sharded:
            return f"a repository that was made in {made.created} has no shards: there is nothing to pack"
        if made and number_of(made.format) < PACKABLE:
            return f"Subversion packs no repository of {made.format}"
        revisions = here.revisions(name)
        if revisions >= SHARD:
            return ""
        return f"{name} has {revisions} revisions, fewer than a shard of {SHARD}: there is nothing to pack"

    def own(self, here: Here) -> list[str]:
        """The packing that is the baseline, and why."""
        stored, own = here.stored, own_packing(here)
        if isinstance(stored, str):
            return []
        full = words.count_of(stored.full, "full shard")
        return [f"It has {full}, {stored.packed} packed: {own} is the baseline."]


def own_packing(here: Here) -> str:
    """Return the packing of the user's own repository; nopack if it has none."""
    stored = here.stored
    if isinstance(stored, str) or not stored.packed:
        return NOT_PACKED
    return PACKED if stored.packed == stored.full else PARTLY_PACKED


def _why_not_as_is(value: str, made: Made, here: Here) -> str:
    """Return why the user's own repository cannot be copied with a packing; "" if it can."""
    stored, own = here.stored, own_packing(here)
    if isinstance(stored, str) or value == own:
        return ""  # the axis `format` has the reason
    if value != PACKED:
        return f"{here.only} is {own}, and a copy keeps that: svnadmin cannot unpack"
    number = number_of(made.format) if made.is_upgraded else stored.number
    if not stored.shard:
        return f"{here.only} has no shards: there is nothing to pack"
    if number < PACKABLE:
        return f"Subversion packs no repository of f{number}"
    if not stored.full:
        return f"{here.only} has no full shard of {stored.shard}: there is nothing to pack"
    return ""


AXIS = Packing("packing")
