"""Define the networks between client and server, by round-trip time, rate and lost packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcsbench.records import RecipeLink

# The values of the axis `network`, without `loopback`, which is no link of its own. A rate of 0 has no limit.
LINKS: dict[str, RecipeLink] = {
    # For comparisons with loopback: a pair of interfaces without delay.
    "namespace": {"delay_ms": 0, "rate_mbit": 0, "loss_pct": 0},
    "office": {"delay_ms": 1, "rate_mbit": 1000, "loss_pct": 0},
    "line": {"delay_ms": 20, "rate_mbit": 100, "loss_pct": 0},
    "far": {"delay_ms": 80, "rate_mbit": 20, "loss_pct": 0.1},
}


def why_no_link() -> str:
    """Return why this machine cannot make a link, in a clause; "" if it can."""
    return "vcsbench cannot make a network between namespaces yet"
