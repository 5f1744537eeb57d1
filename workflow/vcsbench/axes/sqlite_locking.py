"""The axis `sqlite_locking`: how a working copy's database is locked, for each transaction or for the whole
command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

# Of the client's configuration: section [working-copy].
OPTIONS = {
    "default": [],
    "exclusive": ["--config-option", "config:working-copy:exclusive-locking=yes"],
}


class SqliteLocking(Axis):
    """default or exclusive."""

    def unfit(self, value: str) -> str:
        """It has to be one of them."""
        return "" if value in OPTIONS else f"is no way of locking; say {' or '.join(OPTIONS)}"

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The client's option, and the probe that looks at what the client then does."""
        if not value:
            return {}
        return {"client_options": OPTIONS[value], "locking": value, "probe": "locks"}


AXIS = SqliteLocking("sqlite_locking")
