"""List all axes, and resolve the values of a study's axes in this environment."""

from collections.abc import Iterable, Mapping, Sequence

from vcsbench.axes import (
    build_axis,
    cache_states,
    client_axes,
    deployment_axes,
    git_axes,
    network_axis,
    repository_axes,
    server_axes,
    storage_axes,
    system_axis,
)
from vcsbench.axes.axis import Axis, Environment
from vcsbench.axis_names import BUILD_AXIS, COMMAND_AXIS, REPOSITORY_AXIS, STRATEGY_AXIS
from vcsbench.config.models import unknown_name
from vcsbench.config.study import Command, Study, TableDefinition
from vcsbench.errors import UserError

# Any other axis of a study has a list of values, which replace the placeholder {<name>} in its commands.
AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis(COMMAND_AXIS, changes_work=True),
        Axis(STRATEGY_AXIS),
        cache_states.AXIS,
        build_axis.AXIS,
        *server_axes.AXES,
        *client_axes.AXES,
        *deployment_axes.AXES,
        network_axis.AXIS,
        system_axis.AXIS,
        *git_axes.AXES,
        *repository_axes.AXES,
        *storage_axes.AXES,
    )
}
# A study gives this word instead of a list on its axis of commands.
COMMANDS = "commands"


def axis_of(name: str) -> Axis:
    """Return an axis by its name. One that a user has added has no functions."""
    return AXES.get(name) or Axis(name)


def values_of(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis of a study, with this configuration and on this machine.

    A study gives a list of values, or a word that stands for configured ones (Axis). For example
    `{"cache": ["cold"], "build": "builds"}` becomes `{"cache": ["cold"], "build": ["trunk", "mine"]}`.
    Repositories whose definition names other studies only are left out. Raise UserError for an unknown word.
    """
    values: dict[str, list[str]] = {}
    for name, given in study.axes.items():
        if isinstance(given, list):
            values[name] = list(given)
            continue
        # A word, such as `repositories`, stands for the names in the configuration.
        by_word = axis_of(name).values_by_word(env)
        # Any axis can have the study's commands as values, also one with another name than `command`.
        by_word.setdefault(COMMANDS, list(study.commands))
        if given not in by_word:
            raise UserError(
                f"config/studies/{study.name}.yaml: `axes.{name}`: {given!r} stands for no values of this "
                f"axis. List them."
            )
        values[name] = by_word[given]
    if REPOSITORY_AXIS in values:
        values[REPOSITORY_AXIS] = [
            repo for repo in values[REPOSITORY_AXIS] if _is_for_study(repo, study, env)
        ]
    return values


def _is_for_study(repo: str, study: Study, env: Environment) -> bool:
    """Return True unless the repository's definition names other studies only (its key `studies`)."""
    definition = env.repositories.get(repo, {})
    return "studies" not in definition or study.name in definition["studies"]


def findings_of(study: Study, env: Environment) -> list[str]:
    """Return sentences on the user's repository, from the axes whose values the configuration defines."""
    findings = []
    for name in study.axes_named():
        findings += axis_of(name).findings(env)
    return findings


def measured_values(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis that a study is to measure: `{"cache": ["cold", "hot"]}`.

    Raise UserError in these cases:
    - The study has the axis `build`, and the configuration has no build.
    - No machine can measure a value, such as `cache: tepid`.
    - A default is wrong (_check_defaults).
    - A table compares the first value of a configured axis with the others, and there is only one value.

    A value that only this machine cannot measure is no error: its cells are skipped later.
    """
    values = values_of(study, env)
    if BUILD_AXIS in values and not env.builds:
        raise UserError(
            f"{env.config.where(['builds'])}: `builds` is missing, but {study.name} has the axis `build`. "
            f"Name at least one build, such as `system: {{}}`."
        )
    file = f"config/studies/{study.name}.yaml"
    for name, names in values.items():
        for value in names:
            reason = axis_of(name).why_invalid(value)
            if reason:
                raise UserError(f"{file}: `axes.{name}`: {value!r} {reason}.")
    _check_defaults("defaults", study.defaults, study.commands.values(), study, env)
    for name, command in study.commands.items():
        _check_defaults(f"commands.{name}.defaults", command.defaults or {}, [command], study, env)
    for table, definition in resolved_tables(study, values).items():
        compare = definition.get("compare")
        if compare and not compare["candidates"]:
            # The table had `candidates: rest`, and its axis has one value only. resolved_tables() replaces
            # `rest` only on an axis with a word, such as `builds`. So a value is missing in the key `builds`.
            word = str(study.axes[compare["axis"]])
            names = values[compare["axis"]]
            content = f"has {names[0]} only" if names else "is empty"
            raise UserError(
                f"{env.config.where([word])}: `{word}` {content}, and {study.name}'s table {table} compares "
                f"the first with the others. Add another one. The same binaries under another name show the "
                f"noise."
            )
    return values


def _check_defaults(
    key: str,
    defaults: Mapping[str, str],
    commands: Iterable[Command],
    study: Study,
    env: Environment,
) -> None:
    """Raise UserError for a wrong default, or one without effect.

    `defaults` are values of axes, such as `{"cache": "served"}`. They hold for cells without a value of their
    own: the study lacks the axis, or it does not apply to the cell's command. `key` is their place in the
    study's file: `defaults`, or `commands.log.defaults`. `commands` are the commands that they are for.

    A default is wrong if vcsbench knows no such axis, or if no machine can measure its value. It has no
    effect if the study has the axis, and the axis applies to each of the commands.
    """
    # The errors add the closing backquote, some of them after the name of an axis.
    place = f"config/studies/{study.name}.yaml: `{key}"
    # A default acts only through the keys of the recipe that it sets. Axes that set none are no axes here:
    # `strategy`, for example, or an axis that a user has added.
    with_effect = [name for name, axis in AXES.items() if axis.recipe_keys is not Axis.recipe_keys]
    unknown = unknown_name(defaults, with_effect)
    if unknown:
        raise UserError(f"{place}`: no axis {unknown}")
    # For each command, the axes of the study that apply to it.
    applied = [set(study.axes).difference(command.inapplicable_axes or ()) for command in commands]
    for name, value in defaults.items():
        reason = AXES[name].why_invalid(value)
        if reason:
            raise UserError(f"{place}.{name}`: {value!r} {reason}.")
        # The configuration defines other values, such as builds. recipe_keys() raises UserError if one is
        # missing there. Its result is not needed.
        AXES[name].recipe_keys(value, env)
        # If the axis applies to all of the commands, each of their cells has its own value of the axis. Then
        # no cell takes the default.
        if name in study.axes and all(name in axes for axes in applied):
            raise UserError(f"{place}.{name}`: has no effect: the study has this axis. Remove it.")


def order_of(
    study: Study, env: Environment, published: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the values of each axis in the order of tables and pages.

    The order is the study's. On an axis with a word, such as `builds`, the configuration names the values.
    Then the `published` values of the axis come first, in their order.

    Example: with the word `repositories`, the published ["ruby", "wine"] and the configured ["mine", "ruby"]
    become ["ruby", "wine", "mine"].
    """
    order = {}
    for name, values in values_of(study, env).items():
        # Only an axis with a word: the configuration may name other values than the published ones.
        if name in study.axes_named():
            values = [*published.get(name, ()), *values]
        order[name] = list(dict.fromkeys(values))
    return order


def resolved_tables(
    study: Study, values: Mapping[str, Sequence[str]]
) -> dict[str, TableDefinition]:
    """Return the tables of a study, with values in place of `first` and `rest`.

    On an axis with a word, such as `builds`, a study cannot know the names of the values. So its tables can
    have `baseline: first` and `candidates: rest`. With the builds a, b and c, the baseline is "a", and the
    candidates are ["b", "c"]. Other tables stay as they are.
    """
    tables = dict(study.tables)
    for table, definition in study.tables.items():
        if "compare" not in definition or definition["compare"]["axis"] not in study.axes_named():
            continue
        compare = definition["compare"].copy()
        names = values[compare["axis"]]
        if compare["baseline"] == "first":
            # "" without any value: measured_values() then raises the error.
            compare["baseline"] = next(iter(names), "")
        if compare["candidates"] == "rest":
            compare["candidates"] = [name for name in names if name != compare["baseline"]]
        tables[table] = {**definition, "compare": compare}
    return tables
