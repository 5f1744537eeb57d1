"""Make recipes: everything that a cell's measurement depends on. The digest of a recipe decides staleness."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple, cast

from vcsbench import isolation
from vcsbench.axes import AXES, axis_of
from vcsbench.axes.axis import Environment
from vcsbench.axes.build_axis import binaries_of, linked_of
from vcsbench.config.study import Command, Study
from vcsbench.modules import cell_code
from vcsbench.plan.grid import CellSpec
from vcsbench.programs import server_files_digest
from vcsbench.records import Promises, Recipe
from vcsbench.sources import is_private
from vcsbench.storages.disks import storage_identity
from vcsbench.storages.filesystems import lacks_journal
from vcsbench.storages.workdir import resolve

# The keys of a command in a study that its recipe has, too.
COMMAND_KEYS = (
    *("argv", "stdin", "environment", "input", "output", "runs", "revisions", "output_location"),
    *("revisions_behind", "store", "program", "needs", "fixed_cost", "clones", "measure_sync"),
)
AUTO = "auto"
# A network namespace made by root, one in a user namespace, the machine's own network.
OWN, USER, SHARED = "own", "user", "shared"
NOT_TRACED = ("study", "cell", "axes", "state", "runs", "clearing", "time_limit_s", "digest")

_files_digest = cache(server_files_digest)
_identity = cache(storage_identity)


def draft_recipe(study: Study, axes: Mapping[str, str], env: Environment) -> Recipe:
    """Return the recipe of a cell without digests: the keys of its command and those of each axis.

    Two axes may set parts of one mapping, such as the repository's name and its format.
    """
    command = study.command(axes)
    contributions: dict[str, object] = {
        "stdin": "",
        "environment": {},
        "input": "",
        "output": "",
        "runs": env.config.settings.runs,
        "work_kind": command.work,
    }
    for key in COMMAND_KEYS:
        given = getattr(command, key)
        if given is not None:
            contributions[key] = given
    defaults = _defaults(study, command, axes, env)
    for name in _axes(axes):
        keys = axis_of(name).recipe_keys(axes.get(name) or defaults.get(name, ""), env)
        for key, value in keys.items():
            before = contributions.get(key)
            if isinstance(value, Mapping) and isinstance(before, Mapping):
                value = {**before, **value}
            contributions[key] = value
    draft = cast("Recipe", contributions)
    # The state of caches has numbers of runs for all cells. Here they become those of this cell.
    state = draft["state"].copy()
    server_warmup = state.pop("warmup_of_server", 0)
    if draft["access"]["server"] or "remote" in draft:
        state["warmup"] += server_warmup
    if command.warmup is not None:
        state |= {"warmup": command.warmup, "discard": False}
    runs = state.pop("runs", 1)
    if contributions["runs"] == AUTO:
        draft["runs"] = runs
    draft["network"] = network_of(draft, env)
    if "remote" in draft:
        state["promises"] = _without_server(state["promises"])
        if "later_promises" in state:
            state["later_promises"] = _without_server(state["later_promises"])
    return {**draft, "state": state}


def why_not(axes: Mapping[str, str], draft: Recipe, env: Environment) -> str:
    for name in _axes(axes):
        if "remote" in draft and axes.get(name) and axis_of(name).needs_server:
            host = draft["remote"]["host"]
            return f"{name} is a server setting, and vcsbench can neither set nor see it on {host}"
        reason = axis_of(name).why_not(axes.get(name, ""), draft, env)
        if reason:
            return reason
    return why_not_isolated(draft, env)


def recipe_of(cell: CellSpec, draft: Recipe, env: Environment) -> Recipe:
    """Return the draft, digests of code, server files and binaries, and the `digest` of all that."""
    server_folder = env.root / draft["server_folder"]
    files = tuple(draft["access"]["files"]) if draft["server_folder"] else ()
    recipe: Recipe = {
        "study": cell.study,
        "cell": cell.path,
        "axes": cell.axes,
        **draft,
        "time_limit_s": env.config.settings.time_limit_s,
        "clearing": env.machine.clearing(env.config.settings.clear_caches),
        "code": cell_code(draft),
        "server_files_digest": _files_digest(server_folder, files) if files else "",
        "binaries": binaries_of(cell.axes, draft, env),
        "linked": linked_of(cell.axes, draft, env),
        "targets": _target_folder(draft, env),
    }
    if "repository" in draft:
        # It decides where the files of the copies lie.
        recipe["fragmentation_kib"] = env.config.settings.fragmentation_kib
    # The nodes of a cluster have disks of their own. They have to agree on the digest.
    if not env.is_elsewhere:
        recipe["disks"] = {folder: _identity(folder) for folder in _folders(recipe, env)}
    return {**recipe, "digest": recipe_digest(recipe)}


def recipe_digest(content: object) -> str:
    """Return 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _axes(axes: Mapping[str, str]) -> Iterable[str]:
    return dict.fromkeys([*sorted(AXES), *axes])


def _target_folder(draft: Recipe, env: Environment) -> str:
    if not draft["output"]:
        return ""
    if "filesystem" in draft:
        return str(draft["filesystem"]["root"])
    storage = draft["storage"]["path"]
    location = draft.get("output_location", env.config.settings.output_location)
    if location == "auto":
        location = "scratch" if lacks_journal(storage) else "storage"
    folder = env.config.settings.scratch if location == "scratch" else storage
    return str(resolve(folder, env.root))


def _folders(recipe: Recipe, env: Environment) -> list[str]:
    """Return the folders whose disks take part in a measurement."""
    folders = [str(resolve(recipe["storage"]["path"], env.root))]
    filesystem = recipe.get("filesystem", {})
    # In a guest, the folder exists only there.
    if "guest" not in filesystem:
        folders += [folder for folder in (recipe["targets"], filesystem.get("root")) if folder]
    return sorted({*folders})


def _defaults(
    study: Study, command: Command, axes: Mapping[str, str], env: Environment
) -> dict[str, str]:
    repository = env.repositories.get(axes.get("repo", ""), {})
    packing = {"packing": repository["packing"]} if "packing" in repository else {}
    return {**study.defaults, **packing, **(command.defaults or {})}


def _without_server(promises: Promises) -> Promises:
    rest = promises.copy()
    rest.pop("server", None)
    return rest


def network_of(draft: Recipe, env: Environment) -> str:
    """Return the network of a server; "" without a server of ours, and in a guest."""
    if "guest" in draft.get("filesystem", {}) or not draft["access"]["server"]:
        return ""
    if isolation.is_allowed(isolation.unshare_network):
        return OWN
    is_closed = is_private_cell(draft, env)
    return USER if is_closed and isolation.is_allowed(isolation.unshare_user) else SHARED


def why_not_isolated(draft: Recipe, env: Environment) -> str:
    """Return why a cell must not be measured: its server would show a private repository to all users."""
    is_allowed = draft["network"] != SHARED or env.config.settings.shared_servers
    if is_allowed or not is_private_cell(draft, env):
        return ""
    name = draft["repository"]["name"]
    return (
        f"{name} is not readable by all users of this machine, and its server would be: this user may have "
        f"no network namespace; run as root, or set `shared_servers: true` if all users may read it"
    )


def is_private_cell(draft: Recipe, env: Environment) -> bool:
    name = draft.get("repository", {}).get("name", "")
    return is_private(env.repositories.get(name, {}))


class TracedCell(NamedTuple):
    """The cell whose trace counts the system calls of another one, and a digest of its run."""

    path: str
    digest: str


def trace_digest(recipe: Recipe) -> str:
    argv = f"{recipe['argv']} {recipe['stdin']}"
    axes = {
        axis: value
        for axis, value in recipe["axes"].items()
        if axis not in AXES or f"{{{axis}}}" in argv
    }
    return recipe_digest(
        {k: value for k, value in recipe.items() if k not in NOT_TRACED} | {"axes": axes}
    )


def traced_cells(recipes: Iterable[Recipe]) -> dict[str, TracedCell]:
    first: dict[str, str] = {}
    digests = {recipe["cell"]: trace_digest(recipe) for recipe in recipes}
    return {path: TracedCell(first.setdefault(d, path), d) for path, d in digests.items()}
