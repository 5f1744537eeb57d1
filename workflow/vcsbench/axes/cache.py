"""The axis `cache`: what happens before a run so that its caches are what its label says, and what that
promises. A run is certified by the promises, never by a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vcsbench.axes.axis import Axis, Parts
from vcsbench.errors import UserError
from vcsbench.storages.describe import why_never_cold
from vcsbench.storages.mounts import IN_MEMORY

if TYPE_CHECKING:
    from vcsbench.axes.here import Here

COLD = """Cold means cold for this system's page cache. What a RAID controller or the disk itself keeps
below it is out of reach; the drift over the rounds shows how much faster repeated cold runs still get."""
GUEST_COLD = """Measured in a guest ({}): cold is guest-cold. It is cold for this system's page cache, and
what the hypervisor, a RAID controller or the disk keeps below is out of reach; the drift over the rounds
shows how much faster repeated cold runs still get."""

NOWHERE_ELSE = "what is written there lies in memory: it cannot be cold"

# When steps are done.
STEPS = ("setup", "first", "prepare")
_COLD_STEPS = ("stop-server", "sync", "clear-caches", "start-server", "touch-client")

# `setup` are the steps (measure/steps.py) before the first run, `prepare` those before each run, `warmup` the
# runs that do not count, `warmup_of_server` those beyond them where there is a server; each of these has the
# same preparation as the timed one. `discard`: another run does not count where no such run has read the copy
# lately (measure/discarded.py). `runs` are the timed ones where the configuration says `auto`
# (docs/structure.md says where the numbers come from).
# `first` are the steps before the first of the timed runs, where these differ from those before the others.
# `promises`: `os` is cold or hot; `server` is new (it has served nothing), kept (it has served the runs
# before), or nothing is promised of it; `then` has those of all runs but the first, where these differ.
# Written pages of an earlier run are flushed before each run (sync): they would disturb it.
STATES: dict[str, dict[str, Any]] = {
    # The run that is discarded warms whatever lies below the guest.
    "cold": {
        "setup": [],
        "prepare": ["restore", *_COLD_STEPS],
        "warmup": 0,
        "discard": True,
        "runs": 1,
        "promises": {"os": "cold", "server": "new"},
    },
    # The run that warms up fills the OS cache; the server that is timed has served nothing.
    "hot-os": {
        "setup": [],
        "prepare": ["restore", "sync", "stop-server", "start-server"],
        "warmup": 1,
        "runs": 4,
        "promises": {"os": "hot", "server": "new"},
    },
    # The server is kept: two runs fill its caches. Where there is none, one fills the OS cache.
    "hot-svn": {
        "setup": ["start-server"],
        "prepare": ["restore", "sync"],
        "warmup": 1,
        "warmup_of_server": 1,
        "runs": 4,
        "promises": {"os": "hot", "server": "kept"},
    },
    # The run straight after a cold one, server kept.
    "hot": {
        "setup": [*_COLD_STEPS],
        "prepare": ["restore", "sync"],
        "warmup": 1,
        "runs": 5,
        "promises": {"os": "hot", "server": "kept"},
    },
    # Several runs one after another against one server: the first from cold caches, what it has left is the
    # others'. No value of the axis: it has both, by the column `run`.
    "series": {
        "setup": [],
        "first": ["restore", *_COLD_STEPS],
        "prepare": ["restore", "sync"],
        "warmup": 0,
        "discard": True,
        "runs": 3,
        "promises": {"os": "cold", "server": "new", "then": {"os": "hot", "server": "kept"}},
    },
    # One server whose caches a run before has filled; for what the axis does not apply to.
    "served": {
        "setup": ["start-server"],
        "prepare": ["restore", "sync"],
        "warmup": 1,
        "runs": 2,
        "promises": {"os": "hot", "server": "kept"},
    },
    # A study without the axis: as it comes, after a run that does not count.
    "": {
        "setup": ["start-server"],
        "prepare": ["restore", "sync"],
        "warmup": 1,
        "promises": {},
    },
}


class Cache(Axis):
    """The values are the states."""

    speaks = True
    of_server = True

    def part(self, value: str, here: Here) -> dict[str, Any]:
        """The state's steps and promises. A UserError where there is no such state."""
        if value not in STATES:
            known = ", ".join(filter(None, STATES))
            raise UserError(f"cache: there is no state {value!r}; there are {known}")
        state = dict(STATES[value])
        if here.config.settings.skip_client_warmup:
            for steps in STEPS:
                if steps in state:
                    state[steps] = [step for step in state[steps] if step != "touch-client"]
        return {"state": state}

    def why_not(self, value: str, parts: Parts, here: Here) -> str:
        """Caches may be impossible to clear, or a storage never cold."""
        state = parts["state"]
        if "clear-caches" not in steps_of(state):
            return ""
        if state["promises"].get("os") != "cold" and here.machine.clearing(
            here.config.settings.clear_caches
        ):
            return ""  # that a run before it is not quite cold makes no label false
        on = parts.get("filesystem", {"root": parts["storage"]["path"], "make": ""})
        if on["make"] in IN_MEMORY or "guest" in on:
            return NOWHERE_ELSE
        return why_never_cold(here.machine, on["root"], here.config.settings.clear_caches)

    def limits(self, guests: Sequence[str]) -> list[str]:
        """What cold can mean here."""
        named = ", ".join(sorted(set(guests)))
        return [GUEST_COLD.format(named) if named else COLD]


def steps_of(state: Mapping[str, Any]) -> list[str]:
    """All steps of a state, in their order."""
    return [step for when in STEPS for step in state.get(when, [])]


def promises(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the state of a cell-round has promised, from its context. Those measured before contexts said it
    have the state's name."""
    if "promises" in context:
        return dict(context["promises"])
    name = (context.get("axes") or {}).get("cache", "")
    return dict(STATES.get(name, STATES[""])["promises"])


AXIS = Cache("cache")
