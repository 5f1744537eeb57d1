"""The axis `clients`: how many run a command at once, from one server, started together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis
from vcsbench.errors import UserError

if TYPE_CHECKING:
    from vcsbench.axes.here import Here
    from vcsbench.config.study import Study

# A process each, and a tree.
MOST = 256


class Clients(Axis):
    """The values are numbers. Where the axis does not apply, one client runs, and nothing launches it."""

    def check(self, values: list[str], study: Study, here: Here) -> None:
        """They have to be numbers of clients."""
        for value in values:
            if not (value.isdigit() and 1 <= int(value) <= MOST):
                raise UserError(
                    f"config/studies/{study.name}.yaml: `axes.{self.name}`: {value} is no number of clients; "
                    f"say one from 1 to {MOST}"
                )

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """How many."""
        return {"clients": int(value)} if value else {}


AXIS = Clients("clients")
