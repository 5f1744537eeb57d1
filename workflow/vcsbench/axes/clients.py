"""The axis `clients`: how many run a command at once, from one server, started together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# A process each, and a tree.
MOST = 256


class Clients(Axis):
    """The values are numbers. Where the axis does not apply, one client runs, and nothing launches it."""

    def unfit(self, value: str) -> str:
        """It has to be a number of clients."""
        if value.isdigit() and 1 <= int(value) <= MOST:
            return ""
        return f"is no number of clients; say one from 1 to {MOST}"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """How many."""
        return {"clients": int(value)} if value else {}


AXIS = Clients("clients")
