"""Define the axes of git repositories: their upkeep, and the number and storage of their refs."""

from vcsbench import words
from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import REF_STORAGE_AXIS, REFS_AXIS, UPKEEP_AXIS
from vcsbench.config.builds import git_builds
from vcsbench.config.configuration import EMPTY
from vcsbench.records import Recipe, RecipeRepository
from vcsbench.systems import GIT
from vcsbench.systems.git_program import git_version
from vcsbench.systems.git_store import (
    AS_IS_REFS,
    LEAST_PUSHES,
    MANY_PACKS_UPKEEPS,
    REF_STORAGES,
    UPKEEPS,
    Upkeep,
    find_maker,
    parse_state,
    why_git_too_old,
    why_no_state,
)


def _list_upkeeps(env: Environment) -> list[str]:
    """Return the upkeeps (forms of a git repository's objects, such as "one-pack"), the baseline first."""
    # Only a repository of the user has an upkeep of its own (`as-is`). It is the first of UPKEEPS.
    if env.config.settings.repository is not None:
        return list(UPKEEPS)
    candidates = [upkeep for upkeep in UPKEEPS if upkeep not in (Upkeep.AS_IS, Upkeep.ONE_PACK)]
    return [Upkeep.ONE_PACK, *candidates]


def _select_upkeeps(named: list[str], values: list[str], env: Environment) -> list[str]:
    """Return the upkeeps that a part of a grid names, such as "as-is". `values` are those to compare."""
    # A generated history has no upkeep of its own (`as-is`). The name is then left out without an error, so
    # that one grid fits all histories.
    return [name for name in named if name != Upkeep.AS_IS or name in values]


def _why_no_upkeep(upkeep: str, recipe: Recipe, env: Environment) -> str:
    """Return why git on this machine cannot make the repository of a cell, in a clause; "" if it can.

    git may be missing or too old, or the history too short. The recipe may have its upkeep from a default, so
    `upkeep`, the cell's own value, is not used.
    """
    repository = recipe.get("repository", {})
    if repository.get("system") != GIT.name:
        return ""
    # Snakemake deploys another git than that on the PATH of this process.
    reason = "" if env.machine.deployed else _why_git_cannot_make(repository, env)
    return reason or _why_too_short(repository, env)


def _why_git_cannot_make(repository: RecipeRepository, env: Environment) -> str:
    """Return why no git of this machine can make a repository, in a clause; "" if one can.

    git may be missing or too old, for vcsbench or for the state of the repository.
    """
    version = git_version()
    if not version:
        return "git is not installed (Debian: git)"
    too_old = why_git_too_old(version)
    if too_old:
        return too_old
    # A study that forgets the axis `upkeep` names no state to check here. variant_of() raises an error later.
    if "upkeep" not in repository:
        return ""
    # The name of the state, such as "bitmap_20000-loose".
    _, state_name = GIT.stored_as(repository)
    state = parse_state(state_name)
    # A git of a build may make what the one on the PATH is too old for.
    if find_maker(state, git_builds(env.builds)):
        return ""
    return why_no_state(state, version)


def _why_too_short(repository: RecipeRepository, env: Environment) -> str:
    """Return why the history of a repository has too few commits for many packs, in a clause; "" if not."""
    name = repository.get("name", "")
    # The repository with the fixed cost has a state of its own. One on another machine has no source here.
    is_made = name in env.sources and name != EMPTY
    if not is_made or repository.get("upkeep") not in MANY_PACKS_UPKEEPS:
        return ""
    commits = env.revisions(name)
    if commits >= LEAST_PUSHES:
        return ""
    return f"{name} has {words.count_of(commits, 'commit')}, and many packs need {LEAST_PUSHES}"


AXES = (
    Axis(
        UPKEEP_AXIS,
        values_by_word=lambda env: {"upkeeps": _list_upkeeps(env)},
        source="workflow/vcsbench/systems/git_store.py",
        needs_server=True,
        why_invalid=lambda value: (
            "" if value in UPKEEPS else f"is no upkeep. Use one of {', '.join(UPKEEPS)}"
        ),
        select=_select_upkeeps,
        recipe_keys=lambda value, env: (
            {"repository": {"system": GIT.name, "upkeep": value}} if value else {}
        ),
        why_not=_why_no_upkeep,
    ),
    Axis(
        REFS_AXIS,
        needs_server=True,
        # A clone of more refs is other work.
        changes_work=True,
        why_invalid=lambda value: (
            ""
            if value == AS_IS_REFS or (value.isdecimal() and int(value) > 0)
            else f"is no number of refs. Use {AS_IS_REFS} or a number above 0"
        ),
        recipe_keys=lambda value, env: {"repository": {"refs": value}} if value else {},
    ),
    Axis(
        REF_STORAGE_AXIS,
        needs_server=True,
        why_invalid=lambda value: (
            "" if value in REF_STORAGES else f"is no storage of refs. Use {', '.join(REF_STORAGES)}"
        ),
        recipe_keys=lambda value, env: {"repository": {"ref_storage": value}} if value else {},
    ),
)
