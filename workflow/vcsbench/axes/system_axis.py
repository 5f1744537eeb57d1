"""Define the axis of the version control system, and why a system cannot load a source."""

from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import SYSTEM_AXIS
from vcsbench.records import Recipe
from vcsbench.systems import SYSTEMS, repository_system


def _why_not_loaded(system: str, recipe: Recipe, env: Environment) -> str:
    """Return why the system of a cell cannot load its repository, in a clause; "" if it can, or need not.

    `system` is not used. Each check of an axis gets the cell's value on that axis (Axis.why_not), and here
    the value is "" in most studies. The recipe has the system of the cell in any case.
    """
    repository = recipe.get("repository", {})
    source = env.sources.get(repository.get("name", ""))
    # With `remote`, the repository is on a server of the user's, on another machine.
    if source is None or not recipe.get("input") or "remote" in recipe:
        return ""
    # The command needs only the youngest tree. If the source has the tree itself, at the place `head`, it is
    # copied from there, and no history is loaded (subjects.tree).
    if recipe["input"] == "tree" and repository.get("head"):
        return ""
    system_of_cell = repository_system(repository)
    # A source gives its history in some forms, such as a dump stream. The system has to load one of them.
    if source.forms & system_of_cell.loadable_forms:
        return ""
    return system_of_cell.why_not_loaded(repository["name"], source.kind)


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
