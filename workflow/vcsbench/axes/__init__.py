"""List all axes, and resolve the values of a study's axes in this environment."""

from collections.abc import Mapping, Sequence

from vcsbench.axes import cache_states, client_server, subject_axes
from vcsbench.axes.axis import Axis, Environment
from vcsbench.config.models import unknown_name
from vcsbench.config.study import Study, TableDefinition
from vcsbench.errors import UserError

# An axis that is not in here has a list of values, each for the word {<name>} in a command.
AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis("command", changes_work=True),
        Axis("strategy"),
        cache_states.AXIS,
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
