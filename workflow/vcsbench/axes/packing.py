"""The axis `packing`: whether `svnadmin pack` has packed the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# Subversion's shards as every `svnadmin create` makes them; only full ones get packed.
SHARD = 1000
PACKED = "pack"


class Packing(Axis):
    """nopack or pack."""

    speaks = True
    of_server = True

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The repository's packing."""
        return {"repository": {"packing": value, "packed": value == PACKED}} if value else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """A repository of less than a shard has nothing to pack."""
        name = parts.get("repository", {}).get("name")
        if value != PACKED or not name:
            return ""
        revisions = here.revisions(name)
        if revisions >= SHARD:
            return ""
        return f"{name} has {revisions} revisions, fewer than a shard of {SHARD}: there is nothing to pack"


AXIS = Packing("packing")
