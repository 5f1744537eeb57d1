"""Make recipes: everything that a cell's measurement depends on. The digest of a recipe decides staleness."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

from vcsbench import isolation
from vcsbench.axes import AXES, axis_of
from vcsbench.axes.axis import Environment
from vcsbench.axes.build_axis import binaries_of, linked_of
from vcsbench.axes.cache_states import CacheState
from vcsbench.axes.server_axes import use_system_access
from vcsbench.axes.storage_axes import use_cell_storage
from vcsbench.axis_names import ACCESS_AXIS, FILESYSTEM_AXIS
from vcsbench.config.study import Command, Study
from vcsbench.modules import cell_code
from vcsbench.plan.grid import CellSpec
from vcsbench.programs import server_files_digest
from vcsbench.records import Promises, Recipe, State
from vcsbench.sources import is_private
from vcsbench.storages.disks import storage_identity
from vcsbench.storages.filesystems import IN_MEMORY, lacks_journal, mount_of
from vcsbench.storages.workdir import can_be_closed, resolve

# The keys of a command in a study that its recipe has, too.
COMMAND_KEYS = (
    *("argv", "stdin", "environment", "input", "output", "runs", "revisions", "output_location"),
    *("revisions_behind", "scale_revisions", "store", "program", "needs", "fixed_cost", "clones"),
    *("measure_sync", "change", "traffic"),
)
AUTO = "auto"
# The shortest delay of a round trip on a slow line, such as `line` (20 ms), and not `office` (1 ms).
SLOW_LINE_MS = 10
# The keys of a recipe that change no result. A run within its time limit takes the same time with another
# limit.
NOT_DIGESTED = ("time_limit_s",)
# The keys of a recipe that do not change the system calls of a run.
NOT_TRACED = ("study", "cell", "axes", "state", "runs", "clearing", "time_limit_s", "digest")


class Network(StrEnum):
    """The network in which the server of a cell listens."""

    # The cell has no server, or runs in a guest with its own network.
    NONE = ""
    # A network namespace made by root.
    OWN = "own"
    # A network namespace in a user namespace.
    USER = "user"
    # The machine's own network.
    SHARED = "shared"


# All cells of a server configuration, or on a storage, share these.
_files_digest = cache(server_files_digest)
_identity = cache(storage_identity)


def draft_recipe(study: Study, axes: Mapping[str, str], env: Environment) -> Recipe:
    """Return the recipe of a cell, without the digests of code and files: they take time to compute.

    Example: {"argv": "{svn} log {url}", "runs": 4, "repository": {"name": "ruby", "format": "f7", ...}, ...}.
    `axes` has the cell's value on each axis, such as {"command": "log", "format": "f7"}. Other axes take the
    default of the command or the study.
    """
    command = study.command(axes)
    defaults = _defaults_of_cell(study, command, axes, env)
    keys = _with_axes(_keys_of_command(command, env), axes, defaults, env)
    recipe = _with_number_of_runs(keys)
    # Four keys depend on several axes. The first two functions change the recipe itself.
    # git has another server for `http` than Subversion. This sets `access`.
    use_system_access(recipe, axes.get(ACCESS_AXIS) or defaults.get(ACCESS_AXIS, ""))
    # A working copy may be on the file system of the cell's storage. This sets `filesystem`.
    use_cell_storage(recipe, axes.get(FILESYSTEM_AXIS) or defaults.get(FILESYSTEM_AXIS, ""), env)
    recipe["state"] = _state_of_cell(recipe, command)
    recipe["network"] = choose_network(recipe, env)
    return recipe


def _defaults_of_cell(
    study: Study, command: Command, axes: Mapping[str, str], env: Environment
) -> dict[str, str]:
    """Return the values of axes that a cell has without a value of its own: {"packing": "pack", ...}.

    They come from the study, the cell's repository and the command. Later ones replace earlier ones.
    """
    defaults = dict(study.defaults)
    # The configuration can fix the packing of a repository for all studies.
    repository = env.repositories.get(axes.get("repo", ""), {})
    if "packing" in repository:
        defaults["packing"] = str(repository["packing"])
    if command.defaults is not None:
        defaults.update(command.defaults)
    return defaults


def _with_number_of_runs(keys: dict[str, object]) -> Recipe:
    """Return keys as a recipe, with a number of timed runs in place of "auto"."""
    # The keys come from many places, so their types cannot be checked.
    recipe = cast("Recipe", keys)
    if keys["runs"] != AUTO:
        return recipe
    link = recipe.get("link")
    # Over a slow line, most of the time is waiting, which scatters little, and a run takes long.
    if link and link["delay_ms"] >= SLOW_LINE_MS:
        runs = 1
    else:
        runs = recipe["state"].get("runs", 1)
    return {**recipe, "runs": runs}


def _with_axes(
    command_keys: Mapping[str, object],
    axes: Mapping[str, str],
    defaults: Mapping[str, str],
    env: Environment,
) -> dict[str, object]:
    """Return a recipe's keys of the command, with those that the cell's value on each axis adds.

    The value "f7" on the axis `format` adds {"repository": {"format": "f7"}}. An axis without a value has the
    value in `defaults`, if there is one.
    """
    all_keys = dict(command_keys)
    # An axis that the cell does not have may have a default, so the loop is over all known axes.
    for name in _all_axes(axes):
        value = axes.get(name) or defaults.get(name, "")
        for key, part in axis_of(name).recipe_keys(value, env).items():
            before = all_keys.get(key)  # from the command, or from another axis
            if isinstance(part, Mapping) and isinstance(before, Mapping):
                # Two axes may set parts of one mapping, such as the repository's name and its format.
                all_keys[key] = {**before, **part}
            elif isinstance(part, list) and isinstance(before, list):
                # Two axes may add options of the client.
                all_keys[key] = [*before, *part]
            else:
                all_keys[key] = part
    return all_keys


def _keys_of_command(command: Command, env: Environment) -> dict[str, object]:
    """Return the keys of a recipe that its command sets: {"argv": "{svn} log {url}", "runs": "auto", ...}."""
    keys: dict[str, object] = {
        "stdin": "",
        "environment": {},
        "input": "",
        "output": "",
        "runs": env.config.settings.runs,
        "work_kind": command.work,
    }
    values = {key: getattr(command, key) for key in COMMAND_KEYS}
    # A key that the command does not set is None. It keeps its default above, or stays out of the recipe.
    return keys | {key: value for key, value in values.items() if value is not None}


def _all_axes(axes: Mapping[str, str]) -> list[str]:
    """Return the axes with code of their own, which set keys of each recipe, and the study's own axes."""
    own_axes = [name for name in axes if name not in AXES]
    return [*sorted(AXES), *own_axes]


def _state_of_cell(recipe: Recipe, command: Command) -> State:
    """Return the cache state of a cell: its steps, its own number of warm-up runs, and its promises.

    A promise is a fact that the evidence of each run must show, such as {"os": "cold", "server": "new"}.
    """
    # All cells share the dictionary of a state (STATES).
    state = recipe["state"].copy()
    # This is a default for the recipe's own `runs`, which are set already. In the recipe, it would only make
    # results out of date if it changed.
    state.pop("runs", None)
    # These further warm-up runs fill the caches of a server.
    warmup_of_server = state.pop("warmup_of_server", 0)
    is_remote = "remote" in recipe
    if recipe["access"]["server"] or is_remote:
        state["warmup"] += warmup_of_server
    # The command's own number replaces that of the state, and `discard`: one more run that does not count.
    if command.warmup is not None:
        state["warmup"] = command.warmup
        state["discard"] = False
    # vcsbench cannot see a server on another machine, so the state promises nothing about it.
    if is_remote:
        state["promises"] = _without_server(state["promises"])
        if "later_promises" in state:
            state["later_promises"] = _without_server(state["later_promises"])
    return state


def _without_server(promises: Promises) -> Promises:
    promises = promises.copy()
    promises.pop("server", None)
    return promises


def why_not(axes: Mapping[str, str], draft: Recipe, env: Environment) -> str:
    """Return the first reason why a cell cannot be measured on this machine, as a clause; "" if it can.

    For example, "mkfs.xfs is not installed (Debian: xfsprogs)".
    """
    for name in _all_axes(axes):
        # "" for an axis that the cell does not have. The draft may have a default value on this axis.
        value = axes.get(name, "")
        # `remote` is the user's own server on another machine, which vcsbench does not start.
        if value and "remote" in draft and axis_of(name).needs_server:
            host = draft["remote"]["host"]
            return f"{name} is a server setting, and vcsbench can neither set nor see it on {host}"
        reason = axis_of(name).why_not(value, draft, env)
        if reason:
            return reason
    return (
        why_not_isolated(draft, env)
        or why_not_closed(draft, env)
        or why_not_cold_commit(draft, env)
    )


def complete_recipe(cell: CellSpec, draft: Recipe, env: Environment) -> Recipe:
    """Return the complete recipe of a cell: its draft, with digests of code, server files and binaries.

    The last key is the `digest` of all other keys but NOT_DIGESTED. A result with another digest is out of
    date. So a key that cannot change a result is left empty or out.
    """
    # "" without a server configuration, and for systems other than Subversion, which read none.
    files_digest = ""
    if draft["server_folder"] and draft["access"]["files"]:
        files = tuple(draft["access"]["files"])
        files_digest = _files_digest(env.root / draft["server_folder"], files)
    # The way to clear caches, such as "drop-caches". Without a step that clears them, it changes no result.
    clearing = ""
    if CacheState(draft["state"]).clears_caches:
        clearing = env.machine.clearing(env.config.settings.clear_caches)
    recipe: Recipe = {
        "study": cell.study,
        "cell": cell.path,
        "axes": cell.axes,
        **draft,
        "time_limit_s": env.config.settings.time_limit_s,
        "clearing": clearing,
        "code": cell_code(draft),
        "server_files_digest": files_digest,
        # The digests of programs and Subversion's libraries, and the digests of all libraries that they load.
        "binaries": binaries_of(draft, env),
        "linked": linked_of(draft, env),
        # The folder that the command writes to.
        "targets": _target_folder(draft, env),
    }
    if "repository" in draft:
        # The mean size of spacers: files that scatter the files of a repository's copies on the disk.
        recipe["fragmentation_kib"] = env.config.settings.fragmentation_kib
    # The nodes of a cluster (`is_elsewhere`) have different disks, but have to agree on the digest.
    if not env.is_elsewhere:
        recipe["disks"] = {folder: _identity(folder) for folder in _folders(recipe, env)}
    digested = {key: value for key, value in recipe.items() if key not in NOT_DIGESTED}
    recipe["digest"] = recipe_digest(digested)
    return recipe


def recipe_digest(content: object) -> str:
    """Return 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _target_folder(draft: Recipe, env: Environment) -> str:
    """Return the folder that the command of a cell writes to, such as /dev/shm; "" if it writes nothing."""
    if not draft["output"]:
        return ""
    if "filesystem" in draft:
        return str(draft["filesystem"]["root"])
    storage = draft["storage"]["path"]
    # "storage", "scratch" (a folder that is mostly in RAM) or "auto".
    location = draft.get("output_location", env.config.settings.output_location)
    if location == AUTO:
        # On a storage without a journal, creating files is slow for minutes after a deletion.
        location = "scratch" if lacks_journal(storage) else "storage"
    folder = env.config.settings.scratch if location == "scratch" else storage
    return str(resolve(folder, env.root))


def _folders(recipe: Recipe, env: Environment) -> list[str]:
    """Return the folders whose disks take part in a measurement: of storage, output and working copy."""
    folders = {str(resolve(recipe["storage"]["path"], env.root))}
    filesystem = recipe.get("filesystem", {})
    # In a guest, the folders exist only there.
    if "guest" not in filesystem:
        folders.add(recipe["targets"])
        folders.add(filesystem.get("root", ""))
    folders.discard("")
    return sorted(folders)


def choose_network(draft: Recipe, env: Environment) -> Network:
    """Return the most private network that this process may give to the server of a cell."""
    # A guest has its own network. A cell over file://, for example, has no server.
    if "guest" in draft.get("filesystem", {}) or not draft["access"]["server"]:
        return Network.NONE
    if isolation.is_allowed(isolation.unshare_network):
        return Network.OWN
    # A network in a user namespace takes time, so only a private repository is worth it.
    if is_private_cell(draft, env) and isolation.is_allowed(isolation.unshare_user):
        return Network.USER
    return Network.SHARED


def why_not_isolated(draft: Recipe, env: Environment) -> str:
    """Return why a cell's server would wrongly show a private repository to all users; "" if it would not."""
    # In the machine's own network, the server answers every user of the machine.
    is_hidden = draft["network"] != Network.SHARED
    if is_hidden or env.config.settings.shared_servers or not is_private_cell(draft, env):
        return ""
    name = draft["repository"]["name"]
    return (
        f"{name} is not readable by all users of this machine, and its server would be: this user may have "
        f"no network namespace; run as root, or set `shared_servers: true` if all users may read it"
    )


def why_not_closed(draft: Recipe, env: Environment) -> str:
    """Return why other users could read a private repository's files in a cell's folders; "" if they cannot.

    vcsbench closes its folders to other users by a mode. Some file systems, such as vfat, keep no modes.
    """
    if not is_private_cell(draft, env):
        return ""
    # _folders() needs this key, which a draft lacks.
    recipe: Recipe = {**draft, "targets": _target_folder(draft, env)}
    folders = _folders(recipe, env)
    # The file system of a guest (virtual machine) is an image in this folder of the host.
    if "scratch" in draft.get("filesystem", {}):
        folders.append(draft["filesystem"]["scratch"])
    for folder in folders:
        if not can_be_closed(Path(folder)):
            name = draft["repository"]["name"]
            return (
                f"{name} is not readable by all users of this machine, and its files in {folder} would be: "
                f"the file system there keeps no modes; use another folder"
            )
    return ""


def why_not_cold_commit(draft: Recipe, env: Environment) -> str:
    """Return why a commit from a working copy cannot be cold, in a clause; "" if it can, or for other cells.

    A commit reads its working copy, and files in memory are never cold. The axis `cache` checks the storage
    of the repository only.
    """
    if draft["output"] != "changed_working_copy" or not CacheState(draft["state"]).is_cold:
        return ""
    folder = _target_folder(draft, env)
    kind = mount_of(folder).filesystem
    if kind not in IN_MEMORY:
        return ""
    return (
        f"the working copy lies in {folder}, a {kind}: files in memory are never cold; set "
        f"`output_location: storage`"
    )


def is_private_cell(draft: Recipe, env: Environment) -> bool:
    name = draft.get("repository", {}).get("name", "")
    return is_private(env.repositories.get(name, {}))


class TracedCell(NamedTuple):
    """The cell whose trace counts the system calls of another one, and a digest of its run."""

    path: str
    digest: str


def trace_digest(recipe: Recipe) -> str:
    """Return a digest of everything in a recipe that can change the system calls of its command.

    Cells that differ only in the state of caches have the same digest, so one trace counts for all of them.
    """
    traced = {key: value for key, value in recipe.items() if key not in NOT_TRACED}
    command = f"{recipe['argv']} {recipe['stdin']}"
    axes = {}
    for axis, value in recipe["axes"].items():
        # An axis with code of its own (AXES), such as `format`, has its value in other keys of the recipe. It
        # counts here only if the command has the value, as in {format}.
        if axis not in AXES or f"{{{axis}}}" in command:
            axes[axis] = value
    traced["axes"] = axes
    return recipe_digest(traced)


def traced_cells(recipes: Iterable[Recipe]) -> dict[str, TracedCell]:
    """Return the traced cell of each cell by path.

    Cells that make the same calls share the trace of the first one: {"log/hot": TracedCell("log/cold", ...)}.
    """
    first_by_digest: dict[str, str] = {}
    traced: dict[str, TracedCell] = {}
    for recipe in recipes:
        digest = trace_digest(recipe)
        path = first_by_digest.setdefault(digest, recipe["cell"])
        traced[recipe["cell"]] = TracedCell(path, digest)
    return traced
