"""The axis `network_delay`: what is added to each packet between client and server in a guest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.storages import guest

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

NONE = "0"
# As tc takes it.
DELAY = re.compile(r"0|[1-9][0-9]*(us|ms)")


class NetworkDelay(Axis):
    """0, or a time such as 100us or 1ms. It is on loopback: NFS and svnserve have it alike."""

    def unfit(self, value: str) -> str:
        """It has to be a time."""
        return (
            "" if DELAY.fullmatch(value) else "is no delay; say 0, or a time such as 100us or 1ms"
        )

    def applies(self, axes: Mapping[str, str]) -> bool:
        """To what a guest has."""
        return axes.get("filesystem") in guest.FOLDERS

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The delay, if there is any."""
        return {"delay": value} if value and value != NONE else {}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """It takes a guest, and netem in it."""
        if "delay" not in parts:
            return ""
        if "guest" not in parts.get("filesystem", {}):
            return (
                "a delay is added in a guest only: what lies before a server of yours is as it is"
            )
        return guest.why_no_delay(here.root)


AXIS = NetworkDelay("network_delay")
