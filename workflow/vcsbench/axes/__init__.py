"""List all axes, and resolve the values of a study's axes in this environment."""

from collections.abc import Collection, Mapping, Sequence

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
    """Return an axis by its name. An axis that only a study's file names has the defaults of class Axis."""
    return AXES.get(name) or Axis(name)


def values_of(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis of a study.

    The study's file gives each axis a list of values, or one word in place of the list. So `{"cache":
    ["cold"], "build": "builds"}` becomes `{"cache": ["cold"], "build": ["trunk", "mine"]}`. A repository is
    left out if its definition names other studies only. Raise UserError for a word that stands for nothing.
    """
    values: dict[str, list[str]] = {}
    for axis, list_or_word in study.axes.items():
        if isinstance(list_or_word, list):
            values[axis] = list(list_or_word)
            continue
        # Any axis may have the study's commands as values, such as `operation: commands`.
        by_word = {COMMANDS: list(study.commands), **axis_of(axis).values_by_word(env)}
        if list_or_word not in by_word:
            raise UserError(
                f"config/studies/{study.name}.yaml: `axes.{axis}`: {list_or_word!r} stands for no values of "
                f"this axis. List them."
            )
        values[axis] = by_word[list_or_word]
    # The key `studies` of a repository's definition can restrict the repository to some studies.
    if REPOSITORY_AXIS in values:
        measured = []
        for repo in values[REPOSITORY_AXIS]:
            definition = env.repositories.get(repo, {})
            if "studies" not in definition or study.name in definition["studies"]:
                measured.append(repo)
        values[REPOSITORY_AXIS] = measured
    return values


def findings_of(study: Study, env: Environment) -> list[str]:
    """Return sentences on the user's own repository, such as `Exports read the folder trunk.`

    The sentences come from the axes with a word in place of values, such as `format: formats`.
    """
    findings = []
    for name in study.axes_with_word():
        findings += axis_of(name).findings(env)
    return findings


def measured_values(study: Study, env: Environment) -> dict[str, list[str]]:
    """Return the values of each axis that a study is to measure: `{"cache": ["cold", "hot"]}`.

    Raise UserError for a study that cannot be measured with this configuration (values_of, _check_axes).
    """
    values = values_of(study, env)
    _check_axes(study, env, values)
    return values


def _check_axes(study: Study, env: Environment, values: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for a fault of a study's axes:

    - The study has the axis `build`, and the configuration has no builds.
    - No machine can measure a value, such as `cache: tepid`. A value that only this machine cannot measure is
      no fault: its cells are skipped later.
    - A default is wrong, or has no effect (_check_defaults).
    - A table compares a value with all others of its axis, and there are no others (_check_candidates).

    `values` are the lists of values_of(). The study itself (`study.axes`) may have a word in place of a list,
    such as `build: builds`.
    """
    file = f"config/studies/{study.name}.yaml"
    if BUILD_AXIS in values and not env.builds:
        raise UserError(
            f"{env.config.source_of(['builds'])}: `builds` is missing, but {study.name} has the axis "
            f"`build`. Name at least one build, such as `system: {{}}`."
        )
    for axis, values_of_axis in values.items():
        for value in values_of_axis:
            reason = axis_of(axis).why_invalid(value)
            if reason:
                raise UserError(f"{file}: `axes.{axis}`: {value!r} {reason}.")
    # The defaults of a study are for all of its commands, the defaults of a command only for this command.
    _check_defaults(study, env, "defaults", study.defaults, study.commands.values())
    for name, command in study.commands.items():
        key = f"commands.{name}.defaults"
        _check_defaults(study, env, key, command.defaults or {}, [command])
    _check_candidates(study, env, values)


def _check_candidates(study: Study, env: Environment, values: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for a table that has nothing to compare its baseline with.

    `candidates: rest` stands for all values of an axis but the baseline. With a single value, there are none.
    """
    for table, definition in resolved_tables(study, values).items():
        comparison = definition.get("compare")
        if not comparison or comparison["candidates"]:
            continue
        axis = comparison["axis"]
        # An axis with a list keeps its `rest`, and a list of candidates is never empty. So this axis has a
        # word, such as `build: builds`. The word is the key of the configuration that lacks a value.
        word = str(study.axes[axis])
        content = f"has {values[axis][0]} only" if values[axis] else "is empty"
        raise UserError(
            f"{env.config.source_of([word])}: `{word}` {content}, and {study.name}'s table {table} "
            f"compares the first with the others. Add another one. The same binaries under another "
            f"name show the noise."
        )


def _check_defaults(
    study: Study,
    env: Environment,
    key: str,
    defaults: Mapping[str, str],
    commands: Collection[Command],
) -> None:
    """Raise UserError for a wrong default of a study, or one without effect.

    A default is the value on an axis for cells without a value of their own: `{"cache": "served"}`. It is
    wrong if vcsbench has no such axis, if the axis sets no keys of a recipe, or if no machine can measure the
    value. It has no effect if each cell of `commands` has a value of its own. `key` is the place of the
    defaults in the study's file: `commands.log.defaults`.
    """
    file = f"config/studies/{study.name}.yaml"
    # A default changes a cell by the keys that its axis sets in the cell's recipe (`recipe_keys`). An axis
    # that keeps the function of the class, such as `strategy`, sets no keys.
    with_keys = [name for name, axis in AXES.items() if axis.recipe_keys is not Axis.recipe_keys]
    unknown = unknown_name(defaults, with_keys)
    if unknown:
        raise UserError(f"{file}: `{key}`: no axis {unknown}")
    for name, value in defaults.items():
        reason = AXES[name].why_invalid(value)
        if reason:
            raise UserError(f"{file}: `{key}.{name}`: {value!r} {reason}.")
        # This call is made only for its error about a value that the configuration lacks, such as a build.
        AXES[name].recipe_keys(value, env)
        # The cells of a command have a value of their own if the study has the axis, unless the command
        # names it as inapplicable.
        is_axis_of_study = name in study.axes
        is_inapplicable = any(name in (command.inapplicable_axes or ()) for command in commands)
        if is_axis_of_study and not is_inapplicable:
            raise UserError(
                f"{file}: `{key}.{name}`: has no effect: the study has this axis. Remove it."
            )


def values_in_order(
    study: Study, env: Environment, published: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return the values of each axis in the order of tables and pages, each value once.

    The order is that in the study's file. `published` has the values with published numbers, by axis. On an
    axis with a word, such as `repo: repositories`, the published values come before those in the
    configuration: ["ruby", "wine"] and ["mine", "ruby"] become ["ruby", "wine", "mine"].
    """
    order = values_of(study, env)
    for name in study.axes_with_word():
        order[name] = [*published.get(name, ()), *order[name]]
    return {name: list(dict.fromkeys(values)) for name, values in order.items()}


def resolved_tables(
    study: Study, values: Mapping[str, Sequence[str]]
) -> dict[str, TableDefinition]:
    """Return the tables of a study, with values in place of `baseline: first` and `candidates: rest`.

    `first` and `rest` are only replaced on an axis with a word for its values, such as `build: builds`. With
    the builds a, b and c, `{"axis": "build", "baseline": "first", "candidates": "rest"}` becomes `{"axis":
    "build", "baseline": "a", "candidates": ["b", "c"]}`.
    """
    tables = dict(study.tables)
    for table, definition in study.tables.items():
        if "compare" not in definition:
            continue
        comparison = definition["compare"].copy()
        axis = comparison["axis"]
        if axis not in study.axes_with_word():
            continue
        if comparison["baseline"] == "first":
            # Without any value, the baseline is "". _check_axes() then raises an error about the candidates.
            comparison["baseline"] = values[axis][0] if values[axis] else ""
        if comparison["candidates"] == "rest":
            baseline = comparison["baseline"]
            comparison["candidates"] = [value for value in values[axis] if value != baseline]
        tables[table] = {**definition, "compare": comparison}
    return tables
