"""Define the axis `cache`: the states of caches, with the steps before a run and their promises.

The evidence of a run is compared with the promises, never with the name of the state. A new state is one
entry of STATES, and its label in workflow/report/words.yaml.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import CACHE_AXIS
from vcsbench.records import Promises, Recipe, State
from vcsbench.storages.filesystems import IN_MEMORY, why_never_cold, why_not_cleared

COLD = """Cold means cold for this system's page cache. The caches of a RAID controller or a disk cannot be
cleared."""
GUEST_COLD = """Measured in a virtual machine ({}): cold means cold for its own page cache. The caches of the
hypervisor, a RAID controller or a disk cannot be cleared."""

# The keys of a state with steps (cell_setup.STEPS).
PHASES: tuple[Literal["setup", "first", "prepare"], ...] = ("setup", "first", "prepare")
_COLD_STEPS = ("stop-server", "sync", "clear-caches", "start-server", "touch-client")
_COLD: Promises = {"os": "cold", "server": "new"}
_KEPT: Promises = {"os": "hot", "server": "kept"}


@dataclass(frozen=True)
class CacheState:
    """One state of the caches of system and server, such as cold.

    `steps` has the steps before a run and the promises about the run (STATES), and goes into recipes.
    `pictogram` stands for the state in tables; "" for a state that is no value of the axis.
    """

    steps: State
    pictogram: str = ""

    @property
    def is_cold(self) -> bool:
        """Return True if the first timed run finds nothing in the page cache."""
        return self.steps["promises"].get("os") == "cold"

    @property
    def is_hot(self) -> bool:
        """Return True if the operating system has all files in memory."""
        return self.steps["promises"].get("os") == "hot"

    @property
    def keeps_server(self) -> bool:
        """Return True if the timed runs use the server of the runs before."""
        return self.steps["promises"].get("server") == "kept"

    @property
    def needs_kept_server(self) -> bool:
        """Return True if some timed run uses the server of the runs before."""
        # Most states lack this key. In a series, the first run has a new server, and later runs keep it.
        later = self.steps.get("later_promises", {})
        return self.keeps_server or later.get("server") == "kept"

    @property
    def clears_caches(self) -> bool:
        """Return True if the caches of the system are cleared before some run."""
        return any("clear-caches" in self.steps.get(phase, []) for phase in PHASES)


# The coldest first. In `steps`: `setup`: steps before the first run. `prepare`: steps before each run.
# `first`: steps before the first timed run, if they differ. `warmup`: runs that do not count;
# `warmup_of_server`: more of them if there is a server. `discard`: one more run does not count if no cold run
# has read the copy lately (measure/discarded_run.py). `runs`: the timed ones if the configuration has `auto`.
# `promises`: `os` is cold or hot; `server` is new (it has served nothing) or kept (it has served the runs
# before). `later_promises`: the promises of later runs, if they differ.
# Written pages of an earlier run are flushed before each run (sync), because they would disturb it.
# A pictogram is a square: empty, half full (the OS cache), full (the server's cache, too).
# fmt: off
STATES: dict[str, CacheState] = {
    "cold": CacheState({
        "setup": [], "prepare": ["restore", *_COLD_STEPS],
        "warmup": 0, "discard": True, "runs": 1, "promises": _COLD,
    }, "□"),
    "hot-os": CacheState({
        "setup": ["load-files"], "prepare": ["restore", "sync", "stop-server", "start-server"],
        "warmup": 1, "runs": 4, "promises": {"os": "hot", "server": "new"},
    }, "◧"),
    "hot": CacheState({
        "setup": [*_COLD_STEPS], "prepare": ["restore", "sync"],
        "warmup": 1, "runs": 5, "promises": _KEPT,
    }, "■"),
    # Two runs fill the caches of the server. Without a server, one is enough.
    "hot-server": CacheState({
        "setup": ["load-files", "start-server"], "prepare": ["restore", "sync"],
        "warmup": 1, "warmup_of_server": 1, "runs": 4, "promises": _KEPT,
    }, "■"),
    # The column `run` has both states, so this is no value of the axis.
    "series": CacheState({
        "setup": [], "first": ["restore", *_COLD_STEPS], "prepare": ["restore", "sync"],
        "warmup": 0, "discard": True, "runs": 3, "promises": _COLD, "later_promises": _KEPT,
    }),
    # For `defaults` of commands to which the axis does not apply.
    "served": CacheState({
        "setup": ["load-files", "start-server"], "prepare": ["restore", "sync"],
        "warmup": 1, "runs": 2, "promises": _KEPT,
    }),
    # The axis does not apply, and no default names a state.
    "": CacheState({
        "setup": ["start-server"], "prepare": ["restore", "sync"], "warmup": 1, "promises": {},
    }),
}
# fmt: on


def cache_state(value: object) -> CacheState:
    """Return a state by its name. Published numbers may have other names: their state promises nothing."""
    return STATES.get(str(value), STATES[""])


def warmest_first(values: Sequence[str]) -> list[str]:
    """Return the cache states among some values, the warmest first: ["hot", "cold"]."""
    return [name for name in reversed(STATES) if name in values]


def pictograms() -> dict[str, str]:
    """Return the pictograms by value, the coldest first."""
    return {name: state.pictogram for name, state in STATES.items() if state.pictogram}


def _why_no_state(cache: str) -> str:
    if cache in STATES:
        return ""
    # The entry "" is no value that a user can give.
    names = ", ".join(filter(None, STATES))
    return f"is no state. Use one of {names}"


def _why_not_in_state(cache: str, recipe: Recipe, env: Environment) -> str:
    """Return why a cell cannot have the cache state of its recipe, such as `cold`, in a clause; "" if it can.

    `cache`, the cell's own value, is not used. It is "" for a cell whose state is a default of the study, and
    the recipe has the state in both cases.
    """
    state = CacheState(recipe["state"])
    # sshd starts a new svnserve for each connection.
    if recipe["access"]["server"] == "sshd" and state.needs_kept_server:
        return "svnserve -t ends with each connection, so it keeps no cache"
    if not state.clears_caches:
        return ""
    # The user's setting of the way to clear caches, such as drop-caches.
    clearing = env.config.settings.clear_caches
    # In the state `hot`, caches are cleared only at the beginning of a series, and no timed run is cold. So
    # the files need not be on a disk, and this machine only needs a way to clear caches.
    if not state.is_cold:
        return why_not_cleared(env.machine, clearing)
    # A cold run must read its files from a disk: that of the storage, or that of the cell's own file system.
    if "filesystem" not in recipe:
        return why_never_cold(env.machine, recipe["storage"]["path"], clearing)
    filesystem = recipe["filesystem"]
    if "guest" in filesystem:
        return "vcsbench cannot clear the page cache of a guest, so files there are never cold"
    # `make` is the kind of file system that vcsbench makes, such as tmpfs; "" for an existing folder.
    if filesystem["make"] in IN_MEMORY:
        return "files there are in memory, so they are never cold"
    return why_never_cold(env.machine, filesystem["root"], clearing)


def _limits(
    values: Sequence[str], guests: Sequence[str], measured: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return what cold means here. `guests` are the names of the virtual machines that measured, if any."""
    names = ", ".join(sorted(set(guests)))
    return [GUEST_COLD.format(names) if names else COLD]


AXIS = Axis(
    CACHE_AXIS,
    needs_server=True,
    why_invalid=_why_no_state,
    recipe_keys=lambda value, env: {"state": STATES[value].steps},
    why_not=_why_not_in_state,
    limits=_limits,
)
