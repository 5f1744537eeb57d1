"""List all axes, and resolve the values of a study's axes in this environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vcsbench.axes import cache, client_server, subject_axes
from vcsbench.axes.axis import Axis, Environment
from vcsbench.axes.client_server import BUILD_AXIS, check_builds
from vcsbench.config.study import Study, TableDefinition
from vcsbench.errors import UserError

# An axis of a study that is not in here has a list of values, each for the word {<name>} in a command.
AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        # The study's file has the effect of a command on a recipe.
        Axis("command", changes_work=True),
        Axis("strategy"),
        cache.AXIS,
        *client_server.AXES,
        *subject_axes.AXES,
    )
}


def axis_of(name: str) -> Axis:
    """Return an axis by its name."""
    return AXES.get(name) or Axis(name)


def known_axes() -> list[str]:
    """Return the names of the axes in the table, sorted. They contribute to each cell."""
    return sorted(AXES)


def values_of(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis of a study here. Raise UserError for an unknown word."""
    return {name: _values(name, given, study, env) for name, given in study.axes.items()}


def _values(name: str, given: Sequence[str] | str, study: Study, env: Environment) -> list[str]:
    if not isinstance(given, str):
        values = list(given)
    else:
        words = {"commands": list(study.commands), **axis_of(name).words(env)}
        if given not in words:
            raise UserError(
                f"config/studies/{study.name}.yaml: `axes.{name}`: {given!r} stands for no values of this "
                f"axis; list them"
            )
        values = words[given]
    if name != "repo":
        return values
    # A repository may be for some studies only.
    return [
        repo
        for repo in values
        if study.name in env.repositories.get(repo, {}).get("studies", [study.name])
    ]


def findings_of(study: Study, env: Environment) -> list[str]:
    """Return sentences on the user's own repository, by the axes whose values depend on it."""
    return [text for name in study.axes_named() for text in axis_of(name).findings(env)]


def measured_values(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis. Raise UserError for one that cannot be measured anywhere, or if a table
    has nothing to compare."""
    values = values_of(study, env)
    for name, found in values.items():
        check_values(name, found, study, env)
    for table, definition in resolved_tables(study, values).items():
        compare = definition.get("compare")
        if compare and not compare["candidates"]:
            word, names = str(study.axes[compare["axis"]]), values[compare["axis"]]
            raise UserError(
                f"{env.config.where([word])}: `{word}` has {names[0]} only, and {study.name}'s table "
                f"{table} compares the first with the others; name another one (the same binaries under "
                f"another name show the noise)"
            )
    return values


def check_values(name: str, values: Sequence[str], study: Study, env: Environment) -> None:
    """Raise UserError if a study cannot be measured with these values of an axis."""
    if name == BUILD_AXIS:
        check_builds(study.name, env)
    for value in values:
        if reason := axis_of(name).why_invalid(value):
            raise UserError(f"config/studies/{study.name}.yaml: `axes.{name}`: {value} {reason}")


def order_of(
    study: Study, env: Environment, published: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the values of each axis in the order of tables and pages: the study's, or if the configuration
    names them, the published ones first."""
    named = study.axes_named()
    return {
        name: list(dict.fromkeys([*(published.get(name, ()) if name in named else ()), *values]))
        for name, values in values_of(study, env).items()
    }


def resolved_tables(
    study: Study, values: Mapping[str, Sequence[str]]
) -> dict[str, TableDefinition]:
    """Return the tables of a study, with `first` and `rest` replaced on axes with configured values."""
    return {name: _resolved(study, table, values) for name, table in study.tables.items()}


def _resolved(
    study: Study, table: TableDefinition, values: Mapping[str, Sequence[str]]
) -> TableDefinition:
    if "compare" not in table or table["compare"]["axis"] not in study.axes_named():
        return table
    compare = table["compare"].copy()
    names = values[compare["axis"]]
    if compare["baseline"] == "first":
        compare["baseline"] = next(iter(names), "")
    if compare["candidates"] == "rest":
        compare["candidates"] = [name for name in names if name != compare["baseline"]]
    return {**table, "compare": compare}
