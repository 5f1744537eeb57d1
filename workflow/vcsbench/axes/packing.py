"""The axis `packing`: whether `svnadmin pack` has packed the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench import words
from vcsbench.axes.axis import Axis, Parts
from vcsbench.formats import PACKABLE, made_of, number_of

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# Subversion's shards as every `svnadmin create` makes them; only full ones get packed.
SHARD = 1000
NOT_PACKED, PACKED = "nopack", "pack"
# What a part of the grid may name: the packing of the user's own repository; pack where a shard is full.
OWN, FULL = "own", "where full"


class Packing(Axis):
    """nopack or pack; `packings` stands for the user's own and the other."""

    speaks = True
    of_server = True

    def named(self, here: Here) -> tuple[str, list[str]]:
        """The own one first: it is what the other is compared with."""
        own = own_packing(here)
        return "packings", [own, *{NOT_PACKED, PACKED} - {own}]

    def wanted(self, named: list[str], values: list[str], here: Here) -> list[str]:
        """`own` and `where full` stand for what they are here."""
        own = own_packing(here)
        full = own if here.only and here.revisions(here.only) < SHARD else PACKED
        stands = {OWN: own, FULL: full}
        return list(dict.fromkeys(stands.get(name, name) for name in named))

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The repository's packing."""
        return {"repository": {"packing": value, "packed": value == PACKED}} if value else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """A repository of less than a shard has nothing to pack, nor has one without shards."""
        repository = parts.get("repository", {})
        name = repository.get("name")
        if value != PACKED or not name:
            return ""
        made = made_of(repository["format"]) if repository.get("format") else None
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
    """The packing of the user's own repository, by what is packed of it at all; nopack where it has none."""
    stored = here.stored
    return PACKED if not isinstance(stored, str) and stored.packed else NOT_PACKED


AXIS = Packing("packing")
