"""Define the axis of the version control system, and why a system cannot load a source."""

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import SYSTEM_AXIS
from vcsbench.records import Recipe
from vcsbench.systems import SYSTEMS, repository_system


def _why_not_loaded(system: str, recipe: Recipe, env: Environment) -> str:
    """Return why the system of a cell cannot load its repository, in a clause; "" if it can, or need not.

    `system`, the cell's own value, is not used: most studies have one system, and not this axis.
    """
    repository = recipe.get("repository", {})
    source = env.sources.get(repository.get("name", ""))
    # The repository is on a server of the user's, on another machine.
    is_elsewhere = "remote" in recipe
    # If the source has its youngest tree itself (`head`), the tree is exported from there (subjects.tree).
    is_exported = recipe.get("input") == "tree" and bool(repository.get("head"))
    if source is None or not recipe.get("input") or is_elsewhere or is_exported:
        return ""
    loader = repository_system(repository)
    # A source gives its history in some forms, such as a dump stream. The system has to load one of them.
    if source.forms & loader.loadable_forms:
        return ""
    return loader.why_not_loaded(repository["name"], source.kind)


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
