"""Define the axis of the version control system, and why a system cannot load a source."""

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import SYSTEM_AXIS
from vcsbench.records import Recipe
from vcsbench.sources.base import HistoryForm
from vcsbench.sources.git_source import GitSource
from vcsbench.systems import GIT, SUBVERSION, SYSTEMS, repository_system

# The forms of a history that a system can load. A source gives at least one form (Source.forms).
LOADABLE_FORMS = {
    SUBVERSION.name: {HistoryForm.DUMP},
    GIT.name: {HistoryForm.FAST_IMPORT, HistoryForm.GIT_FILES},
}
# All other systems convert a history that git has loaded.
CONVERTED_FORMS = {HistoryForm.FAST_IMPORT}


def _why_not_loaded(system: str, recipe: Recipe, env: Environment) -> str:
    """Return why the system of a cell cannot load its repository, in a clause; "" if it can, or need not.

    A cell is one measured combination of values, and `recipe` has everything that it depends on. `system`,
    the cell's own value on this axis, is not used: most studies have one system, and not this axis.
    """
    repository = recipe.get("repository", {})
    source = env.sources.get(repository.get("name", ""))
    # The repository is on a server of the user's, on another machine.
    is_elsewhere = "remote" in recipe
    # If the source has its youngest tree itself (`head`), the tree is exported from there (subjects.tree).
    is_exported = recipe.get("input") == "tree" and bool(repository.get("head"))
    # Nothing is loaded in these two cases, without a repository, and for a command that reads nothing.
    if source is None or not recipe.get("input") or is_elsewhere or is_exported:
        return ""
    loader = repository_system(repository)
    # A source gives its history in some forms, such as a dump stream. The system has to load one of them.
    if source.forms & LOADABLE_FORMS.get(loader.name, CONVERTED_FORMS):
        return ""
    # Each reason below has the remedy for its combination of source and system.
    name = repository["name"]
    if loader is SUBVERSION:
        return (
            f"{name} stays a git repository (`history: as-is`), which Subversion cannot load; use `history: "
            "first-parent`"
        )
    if loader is GIT and source.kind == GitSource.kind:
        return (
            f"{name} is converted to Subversion, and git loads it only as it is; set `history: as-is`, or "
            f"name with REPO= no other study than git-server"
        )
    loadable = "a generated history"
    if loader is GIT:
        loadable += " or a git repository as it is"
    return f"{loader.title} cannot load {name}, only {loadable}; measure such a repository"


AXIS = Axis(
    SYSTEM_AXIS,
    needs_server=True,
    # No two systems do the same: a clone has all history, and a working copy has not.
    changes_work=True,
    why_invalid=lambda value: (
        "" if value in SYSTEMS else f"is no system. Use one of {', '.join(SYSTEMS)}"
    ),
    recipe_keys=lambda value, env: {"repository": {"system": value}} if value else {},
    why_not=_why_not_loaded,
)
