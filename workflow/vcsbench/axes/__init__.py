"""List all axes, and resolve the values of a study's axes in this environment.

The axis `cache` is defined here: the steps before a run, and their promises about its caches. The evidence
of a run is compared with the promises, never with the name of the state.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from vcsbench.axes import client_server, subject_axes
from vcsbench.axes.axis import Axis, Environment
from vcsbench.config.models import unknown_name
from vcsbench.config.study import Study, TableDefinition
from vcsbench.errors import UserError
from vcsbench.records import Promises, Recipe, RecipeFilesystem, State
from vcsbench.storages.filesystems import IN_MEMORY, why_never_cold

COLD = """Cold means cold for this system's page cache. The caches of a RAID controller or a disk cannot be
cleared."""
GUEST_COLD = """Measured in a virtual machine ({}): cold means cold for its own page cache. The caches of the
hypervisor, a RAID controller or a disk cannot be cleared."""

# The keys of STATES with steps (prepared_cell.STEPS).
PHASES: tuple[Literal["setup", "first", "prepare"], ...] = ("setup", "first", "prepare")
_COLD_STEPS = ("stop-server", "sync", "clear-caches", "start-server", "touch-client")
_COLD: Promises = {"os": "cold", "server": "new"}
_KEPT: Promises = {"os": "hot", "server": "kept"}

# `setup`: steps before the first run. `prepare`: steps before each run. `first`: steps before the
# first timed run, if they differ. `warmup`: runs that do not count; `warmup_of_server`: more of them if there
# is a server. `discard`: one more run does not count if no cold run has read the copy lately
# (measure/cell_round.py). `runs`: the timed ones if the configuration has `auto`. `promises`: `os` is cold or
# hot; `server` is new (it has served nothing) or kept (it has served the runs before). `later_promises`:
# the promises of later runs, if they differ.
# Written pages of an earlier run are flushed before each run (sync), because they would disturb it.
# fmt: off
STATES: dict[str, State] = {
    "cold": {
        "setup": [], "prepare": ["restore", *_COLD_STEPS],
        "warmup": 0, "discard": True, "runs": 1, "promises": _COLD,
    },
    "hot-os": {
        "setup": [], "prepare": ["restore", "sync", "stop-server", "start-server"],
        "warmup": 1, "runs": 4, "promises": {"os": "hot", "server": "new"},
    },
    # Two runs fill the caches of the server. Without a server, one fills the page cache.
    "hot-svn": {
        "setup": ["start-server"], "prepare": ["restore", "sync"],
        "warmup": 1, "warmup_of_server": 1, "runs": 4, "promises": _KEPT,
    },
    "hot": {
        "setup": [*_COLD_STEPS], "prepare": ["restore", "sync"],
        "warmup": 1, "runs": 5, "promises": _KEPT,
    },
    # The column `run` has both states, so this is no value of the axis.
    "series": {
        "setup": [], "first": ["restore", *_COLD_STEPS], "prepare": ["restore", "sync"],
        "warmup": 0, "discard": True, "runs": 3, "promises": _COLD, "later_promises": _KEPT,
    },
    # For commands to which the axis does not apply.
    "served": {
        "setup": ["start-server"], "prepare": ["restore", "sync"],
        "warmup": 1, "runs": 2, "promises": _KEPT,
    },
    "": {
        "setup": ["start-server"], "prepare": ["restore", "sync"], "warmup": 1, "promises": {},
    },
}
# fmt: on


def _why_no_state(value: str) -> str:
    known = ", ".join(filter(None, STATES))
    return "" if value in STATES else f"is no state. Use one of {known}"


def _why_not(value: str, draft: Recipe, env: Environment) -> str:
    state, clearing = draft["state"], env.config.settings.clear_caches
    if not any("clear-caches" in state.get(phase, []) for phase in PHASES):
        return ""
    if state["promises"].get("os") != "cold" and env.machine.clearing(clearing):
        return ""
    storage: RecipeFilesystem = {"root": draft["storage"]["path"], "make": ""}
    place = draft.get("filesystem", storage)
    if place["make"] in IN_MEMORY or "guest" in place:
        return "files there are in memory, so they are never cold"
    return why_never_cold(env.machine, place["root"], clearing)


def _limits(values: Sequence[str], guests: Sequence[str]) -> list[str]:
    names = ", ".join(sorted(set(guests)))
    return [GUEST_COLD.format(names) if names else COLD]


# An axis that is not in here has a list of values, each for the word {<name>} in a command.
AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("command", changes_work=True),
        Axis("strategy"),
        Axis(
            "cache",
            needs_server=True,
            why_invalid=_why_no_state,
            recipe_keys=lambda value, env: {"state": STATES[value]},
            why_not=_why_not,
            limits=_limits,
        ),
        *client_server.AXES,
        *subject_axes.AXES,
    )
}


def axis_of(name: str) -> Axis:
    return AXES.get(name) or Axis(name)


def values_of(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis here. Raise UserError for an unknown word."""
    values: dict[str, list[str]] = {}
    for name, given in study.axes.items():
        if not isinstance(given, str):
            values[name] = list(given)
            continue
        by_word = {"commands": list(study.commands), **axis_of(name).values_by_word(env)}
        if given not in by_word:
            raise UserError(
                f"config/studies/{study.name}.yaml: `axes.{name}`: {given!r} stands for no values of this "
                f"axis. List them."
            )
        values[name] = by_word[given]
    if "repo" in values:
        studies = {repo: d.get("studies", [study.name]) for repo, d in env.repositories.items()}
        values["repo"] = [r for r in values["repo"] if study.name in studies.get(r, [study.name])]
    return values


def findings_of(study: Study, env: Environment) -> list[str]:
    return [text for name in study.axes_named() for text in axis_of(name).findings(env)]


def measured_values(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis. Raise UserError for one that cannot be measured anywhere, or if a
    table has nothing to compare."""
    values = values_of(study, env)
    if client_server.BUILD_AXIS in values and not env.builds:
        raise UserError(
            f"{env.config.where(['builds'])}: `builds` is missing, but {study.name} has the axis `build`. "
            f"Name at least one build, such as `system: {{}}`."
        )
    file = f"config/studies/{study.name}.yaml"
    for name, names in values.items():
        for value in names:
            if reason := axis_of(name).why_invalid(value):
                raise UserError(f"{file}: `axes.{name}`: {value!r} {reason}.")
    _check_defaults(study, env, file)
    for table, definition in resolved_tables(study, values).items():
        compare = definition.get("compare")
        if compare and not compare["candidates"]:
            word, names = str(study.axes[compare["axis"]]), values[compare["axis"]]
            raise UserError(
                f"{env.config.where([word])}: `{word}` has {names[0]} only, and {study.name}'s table "
                f"{table} compares the first with the others. Add another one. The same binaries under "
                f"another name show the noise."
            )
    return values


def _check_defaults(study: Study, env: Environment, file: str) -> None:
    """Raise UserError for a default that no cell can have, or that has no effect."""
    with_effect = [name for name, axis in AXES.items() if axis.recipe_keys is not Axis.recipe_keys]
    commands = study.commands
    groups = [("defaults", study.defaults, [*commands.values()])]
    groups += [(f"commands.{name}.defaults", c.defaults or {}, [c]) for name, c in commands.items()]
    for key, defaults, of in groups:
        if unknown := unknown_name(defaults, with_effect):
            raise UserError(f"{file}: `{key}`: no axis {unknown}")
        for name, value in defaults.items():
            if reason := AXES[name].why_invalid(value):
                raise UserError(f"{file}: `{key}.{name}`: {value!r} {reason}.")
            # Other values are defined by the configuration.
            AXES[name].recipe_keys(value, env)
            if name in study.axes and not any(name in (c.inapplicable_axes or ()) for c in of):
                text = "has no effect: the study has this axis. Remove it."
                raise UserError(f"{file}: `{key}.{name}`: {text}")


def order_of(
    study: Study, env: Environment, published: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the values of each axis in the order of tables and pages: the study's, or the published ones
    first if the configuration names the values."""
    named = study.axes_named()
    return {
        name: list(dict.fromkeys([*(published.get(name, ()) if name in named else ()), *values]))
        for name, values in values_of(study, env).items()
    }


def resolved_tables(
    study: Study, values: Mapping[str, Sequence[str]]
) -> dict[str, TableDefinition]:
    """Replace `first` and `rest` in the tables of a study, on axes with configured values."""
    tables = dict(study.tables)
    for table, definition in study.tables.items():
        if "compare" not in definition or definition["compare"]["axis"] not in study.axes_named():
            continue
        compare = definition["compare"].copy()
        names = values[compare["axis"]]
        if compare["baseline"] == "first":
            compare["baseline"] = next(iter(names), "")
        if compare["candidates"] == "rest":
            compare["candidates"] = [name for name in names if name != compare["baseline"]]
        tables[table] = {**definition, "compare": compare}
    return tables
