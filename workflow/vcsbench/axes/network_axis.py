"""Define the axis of the network between client and server."""

import hashlib
from pathlib import Path

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import ACCESS_AXIS, LINK_AXIS
from vcsbench.deployment.link import LINKS, LOOPBACK, Link, Shaper, choose_shaper, why_no_link
from vcsbench.records import Recipe

RELAY_SOURCE = Path("workflow", "native", "relay.c")
# The accesses of commands that use no network.
ACCESSES_WITHOUT_NETWORK = ("", "file")
LINE_NOTE = """The network between client and server is made on this machine: delay, rate and lost packets are
a line's, with no other traffic on it, and client and server share the processors."""


def _link_keys(link_name: str, env: Environment) -> Recipe:
    """Return the key `link` of a recipe: the simulated line between client and server; {} without a line.

    Example for the name "line": `{"link": {"delay_ms": 20, "rate_mbit": 100, "loss_pct": 0, "shaper":
    "netem", "relay": ""}}`. The shaper delays packets: it is the kernel's netem, or vcsbench's own program
    relay. `relay` has the digest of this program's source; "" without the program.
    """
    if link_name in ("", LOOPBACK):
        return {}
    link = LINKS[link_name]
    # If this machine has no shaper (None), _why_no_network() later returns the reason to skip the cell.
    shaper = choose_shaper(link) or Shaper.NONE
    relay = ""
    if shaper == Shaper.RELAY:
        # Each compiler makes another program of the same source, so the digest covers the source.
        source = (env.root / RELAY_SOURCE).read_bytes()
        relay = hashlib.sha256(source).hexdigest()[:16]
    return {
        "link": {
            "delay_ms": link.delay_ms,
            "rate_mbit": link.rate_mbit,
            "loss_pct": link.loss_pct,
            "shaper": shaper.value,
            "relay": relay,
        }
    }


def _why_no_network(link_name: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot have its link (the simulated line), in a clause; "" if it can, or has none."""
    link = recipe.get("link")
    if not link:
        return ""
    if "guest" in recipe.get("filesystem", {}):
        return "client and server in a guest have one network"
    return why_no_link(Link(link["delay_ms"], link["rate_mbit"], link["loss_pct"]))


AXIS = Axis(
    LINK_AXIS,
    needs_server=True,
    applies=lambda axes: axes.get(ACCESS_AXIS, "") not in ACCESSES_WITHOUT_NETWORK,
    why_invalid=lambda value: (
        "" if value in (LOOPBACK, *LINKS) else f"is none of {', '.join((LOOPBACK, *LINKS))}"
    ),
    recipe_keys=_link_keys,
    why_not=_why_no_network,
    limits=lambda values, guests, measured: [LINE_NOTE] if {*values} & {*LINKS} else [],
)
