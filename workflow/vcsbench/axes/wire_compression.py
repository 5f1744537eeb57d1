"""The axis `wire_compression`: how strongly svnserve compresses what it sends, and a client what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# As published; other values are svnserve's levels themselves. 5 is what it has where it is told none.
LEVELS = {"off": "0", "on": "1"}
HIGHEST = 9
LZ4 = """Wire compression: since Subversion 1.10 svnserve sends LZ4 at every level but 0 to a client that is
as new, so that `on` (level 1) and the levels above it are the same there; the published `on` was zlib."""


class WireCompression(Axis):
    """It is svnserve's: http compresses by other means, and over file nothing is sent."""

    of_server = True

    def unfit(self, value: str) -> str:
        """It has to be a level."""
        if value in LEVELS or (value.isdigit() and int(value) <= HIGHEST):
            return ""
        return f"is no level; say {', '.join(LEVELS)} or a number from 0 to {HIGHEST}"

    def applies(self, axes: Mapping[str, str]) -> bool:
        """To svn."""
        return axes.get("ra") == "svn"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """svnserve's option."""
        return {"server_options": ["--compression", LEVELS.get(value, value)]} if value else {}

    def limits(self, guests: Sequence[str]) -> list[str]:
        """What today's levels are."""
        return [LZ4]


AXIS = WireCompression("wire_compression")
