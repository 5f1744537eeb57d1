"""Read the file of a study, and check the rules that several of its keys have to keep."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vcsbench.axis_names import (
    ACCESS_AXIS,
    ARRIVAL_AXIS,
    CLIENTS_AXIS,
    COMMITTERS_AXIS,
    FILESYSTEM_AXIS,
    READERS_AXIS,
)
from vcsbench.config.models import check_words, unknown_name
from vcsbench.config.study import (
    LISTS,
    SUBJECT_WORDS,
    WITHOUT_SERVER,
    WORDS,
    Command,
    Study,
    StudyFile,
    TableDefinition,
    TrafficDefinition,
    axis_values,
    path_part,
)
from vcsbench.config.validation import read_mapping, validate
from vcsbench.errors import UserError
from vcsbench.metrics import COUNT
from vcsbench.programs import WORD

# The axes of commands with the key `traffic`, and the words of a committer's request.
TRAFFIC_AXES = (READERS_AXIS, COMMITTERS_AXIS, ARRIVAL_AXIS)
TRAFFIC_WORDS = ("client", "change")


def load_study(path: str | Path) -> Study:
    """Return the study in a file, with the name of the file. Raise UserError with the file and the key.

    The model StudyFile checks each part of the file, such as a table. The other checks compare several parts.
    """
    path = Path(path)
    file = validate(read_mapping(path), StudyFile, lambda _keys: str(path))
    _check_path_parts(path, file)
    for name, question in file.questions.items():
        # The name of a question is its axis, unless the question has the key `axis`.
        unknown = unknown_name([question.get("axis", name)], file.axes)
        if unknown:
            raise UserError(f"{path}: `questions.{name}`: the study has no axis {unknown}")
    _check_named_values(path, file)
    for name, table in file.tables.items():
        _check_columns(path, file, name, table)
    # model_construct() checks nothing: the keys have been checked above.
    study = Study.model_construct(**dict(file), name=path.stem)
    for name, command in study.commands.items():
        _CommandCheck(path, study, name, command).check_all()
    return study


def _check_path_parts(path: Path, file: StudyFile) -> None:
    """Raise UserError for two values that would have the same path in results.

    A blank becomes a hyphen in a path, so `log -v` and `log-v` both become log-v. The results of one would
    overwrite the other's results.
    """
    # By key in the file: {"commands": ["log -v"], "axes.format": ["f6", "f7"]}.
    values_by_key = {"commands": list(file.commands)}
    for axis, values in file.axes.items():
        if isinstance(values, list):
            values_by_key[f"axes.{axis}"] = values
    for key, values in values_by_key.items():
        value_by_part: dict[str, str] = {}
        for value in values:
            part = path_part(value)
            if part in value_by_part:
                raise UserError(
                    f"{path}: `{key}`: {value_by_part[part]!r} and {value!r} have one path in "
                    f"results, {part}. Rename one of them."
                )
            value_by_part[part] = value


def _check_named_values(path: Path, file: StudyFile) -> None:
    """Raise UserError for a key that names a value which its axis does not have, such as `cache: tepid`."""
    for named in _named_values(file):
        choices = file.axes[named.axis]
        if choices == "commands":
            choices = list(file.commands)
        # Values that are defined elsewhere cannot be checked here.
        if isinstance(choices, str):
            continue
        # "": the axis does not apply.
        unknown = unknown_name([value for value in named.values if value], choices)
        if unknown:
            raise UserError(f"{path}: `{named.key}`: the axis has no value {unknown}")


class _NamedValues(NamedTuple):
    """A key that names values of an axis: ("tables.speed.where.format", "format", ["f6", "f7"])."""

    key: str
    axis: str
    values: list[str]


def _named_values(file: StudyFile) -> Iterator[_NamedValues]:
    """Yield each key of a study's file that names values of an axis. Each axis in a `where` is such a key."""
    for name, question in file.questions.items():
        axis = question.get("axis", name)
        yield _NamedValues(f"questions.{name}.values", axis, question.get("values", []))
        if "yes_value" in question:
            yield _NamedValues(f"questions.{name}.yes_value", axis, [question["yes_value"]])
        yield from _selected_values(f"questions.{name}.where", question.get("where", {}))
    for name, table in file.tables.items():
        if "compare" in table:
            key, axis = f"tables.{name}.compare", table["compare"]["axis"]
            yield _NamedValues(f"{key}.baseline", axis, [table["compare"]["baseline"]])
            candidates = table["compare"]["candidates"]
            if candidates != "rest":
                yield _NamedValues(f"{key}.candidates", axis, list(candidates))
        yield from _selected_values(f"tables.{name}.where", table.get("where", {}))
    for title, example in file.examples.items():
        key = f"examples.{title}"
        yield from _selected_values(f"{key}.where", example.get("where", {}))
        yield from _selected_values(f"{key}.columns", example["columns"])
        for name, row in example["rows"].items():
            yield from _selected_values(f"{key}.rows.{name}", row.get("where", {}))
    for name, command in file.commands.items():
        yield from _selected_values(f"commands.{name}.restrict_to", command.restrict_to or {})
    yield from _selected_values("trace_syscalls", file.trace_syscalls or {})
    # Files that lack the columns of some axes have their values here: {"f7.csv": {"format": "f7"}}.
    if file.published is not None and isinstance(file.published.numbers, dict):
        for name, values_of_file in file.published.numbers.items():
            yield from _selected_values(f"published.numbers.{name}", values_of_file)


def _selected_values(key: str, where: Mapping[str, object]) -> Iterator[_NamedValues]:
    """Yield the values of each axis in a mapping below a key, such as {"format": ["f6", "f7"]}."""
    for axis, selected in where.items():
        yield _NamedValues(f"{key}.{axis}", axis, axis_values(selected))


def _check_columns(path: Path, file: StudyFile, table_name: str, table: TableDefinition) -> None:
    """Raise UserError if `rows`, `columns` or `over` of a table names a column that the table does not have.

    In a table that compares the values of an axis, `candidate` takes the place of this axis. A table of
    several counts (`each`) has the column `count` with their names.
    """
    columns = list(file.axes)
    if "compare" in table:
        columns.remove(table["compare"]["axis"])
        columns.append("candidate")
    if "each" in table:
        columns.append(COUNT)
    columns += table.get("by", [])
    names_by_key = {"rows": table["rows"], "columns": table["columns"]}
    if "over" in table:
        names_by_key["over"] = [table["over"]]
    for key, names in names_by_key.items():
        unknown = unknown_name(names, columns)
        if unknown:
            place = f"{path}: `tables.{table_name}.{key}`"
            raise UserError(f"{place}: the table has no column {unknown}")


@dataclass(frozen=True)
class _CommandCheck:
    """The checks of one command of a study, whose file is at `path`. They raise UserError with the key."""

    path: Path
    study: Study
    name: str
    command: Command

    def check_all(self) -> None:
        """Raise UserError for a command that cannot be run, or that has a key without effect."""
        self._check_templates()
        self._check_axes_of_clients()
        if self.command.traffic is not None:
            self._check_traffic(self.command.traffic)
        # Without {url}, the client would not talk to the server at all.
        if self._needs_url() and not self._uses_url():
            raise self._error(
                "argv",
                f"the axis `{ACCESS_AXIS}` applies, and the command has no {{url}}, so a server would do "
                f"nothing. Use {{url}}, or add `{ACCESS_AXIS}` to `inapplicable_axes`.",
            )
        self._check_reads_of_files()
        self._check_effects()

    def _error(self, key: str, text: str) -> UserError:
        return UserError(f"{self.path}: `commands.{self.name}.{key}`: {text}")

    @property
    def _applicable_axes(self) -> set[str]:
        """Return the axes that apply to the command."""
        return set(self.study.axes).difference(self.command.inapplicable_axes or ())

    @property
    def _default_by_axis(self) -> dict[str, str]:
        """Return the values of axes that do not apply, or that the study does not have."""
        return {**self.study.defaults, **(self.command.defaults or {})}

    def _values_of(self, axis: str) -> str | list[str]:
        """Return the values of an axis in the command's cells, or a word for values defined elsewhere."""
        values: str | list[str] = self.study.axes[axis]
        if self.command.restrict_to is not None:
            values = self.command.restrict_to.get(axis, values)
        return values

    def _templates(self) -> dict[str, str]:
        """Return the templates of the command by their keys, such as {"argv": "{svn} log {url}"}."""
        templates = {"argv": self.command.argv, "stdin": self.command.stdin or ""}
        if self.command.traffic is not None:
            templates["traffic.commit"] = self.command.traffic.get("commit", "")
        return templates

    def _check_templates(self) -> None:
        """Raise UserError if a template of the command, such as `{svn} log {url}`, cannot be filled in."""
        command = self.command
        for key, template in self._templates().items():
            # The words that may be in braces.
            words = [*self.study.axes, *WORDS]
            if key == "traffic.commit":
                words += TRAFFIC_WORDS
            if command.program is not None:
                words.append("program")
            for kind in (command.input, command.output):
                if kind is not None:
                    words += SUBJECT_WORDS[kind]
            try:
                _check_template(template, words)
            except ValueError as error:
                raise self._error(key, str(error)) from None

    def _check_axes_of_clients(self) -> None:
        """Raise UserError if an axis for the number of clients applies to the command without an effect.

        TRAFFIC_AXES have an effect on commands with the key `traffic` only, and the axis `clients` on all
        others. Without this check, a cell's label could have another number of clients than its run.
        """
        has_traffic = self.command.traffic is not None
        axes_without_effect = (CLIENTS_AXIS,) if has_traffic else TRAFFIC_AXES
        for axis in axes_without_effect:
            if axis in self._applicable_axes:
                kind = "without" if has_traffic else "with"
                raise self._error(
                    "inapplicable_axes",
                    f"lacks `{axis}`, which has an effect on commands {kind} `traffic` only. Add it.",
                )

    def _check_traffic(self, traffic: TrafficDefinition) -> None:
        """Raise UserError if other keys of the command do not fit its key `traffic`.

        Example of `traffic`: `{"seconds": 10, "commit": "{svn} import {change} {url}/{client}"}`.
        """
        if "commit" in traffic and self.command.input != "committed_repository":
            text = "must be `committed_repository`, because committers write to it. Set it."
            raise self._error("input", text)
        if self.command.stdin is not None:
            text = "has no effect on a command with `traffic`. Remove it."
            raise self._error("stdin", text)
        if self._has_committers() and "commit" not in traffic:
            raise self._error(
                "traffic.commit",
                f"is missing, and there are {COMMITTERS_AXIS}. Add it, or measure with "
                f'`{COMMITTERS_AXIS}: "0"` only.',
            )

    def _has_committers(self) -> bool:
        """Return True if a cell of the command has a number of committers other than "0"."""
        if COMMITTERS_AXIS not in self._applicable_axes:
            return self._default_by_axis.get(COMMITTERS_AXIS, "0") != "0"
        return any(number != "0" for number in self._values_of(COMMITTERS_AXIS))

    def _needs_url(self) -> bool:
        """Return True if the command may be measured over a server."""
        if ACCESS_AXIS not in self._applicable_axes:
            return self._default_by_axis.get(ACCESS_AXIS, "") not in WITHOUT_SERVER
        accesses = self._values_of(ACCESS_AXIS)
        # A word stands for accesses that are defined elsewhere, with servers among them.
        return isinstance(accesses, str) or not WITHOUT_SERVER.issuperset(accesses)

    def _uses_url(self) -> bool:
        """Return True if the command reaches a server: by a URL in it, or by the URL of a working copy."""
        command = self.command
        template = f"{command.argv} {command.stdin}"
        if "{url}" in template or "{push_url}" in template:
            return True
        # A working copy that exists before the run has the URL, as a checkout of Fossil has.
        exists = command.revisions_behind is not None or command.change is not None
        return exists and ("{working_copy}" in command.argv or "{checkout}" in command.argv)

    def _check_reads_of_files(self) -> None:
        """Raise UserError if a command that is measured over a server also gets the path of the repository.

        The client could read the files itself. The label would then name a server that did little.
        """
        if not self._needs_url():
            return
        for key, template in self._templates().items():
            if "{repository}" in template:
                raise self._error(
                    key,
                    "{repository} is a path of files, which a client could read without its server. "
                    f"Use {{url}}, or add `{ACCESS_AXIS}` to `inapplicable_axes`.",
                )

    def _check_effects(self) -> None:
        """Raise UserError for a key of the command that has no effect in this study."""
        axes_with_value = self._applicable_axes | self._default_by_axis.keys()
        # The value of the axis `filesystem` is the place where the command writes.
        has_filesystem = FILESYSTEM_AXIS in axes_with_value
        if self.command.clones is not None and not has_filesystem:
            text = "has no effect without the axis `filesystem`. Add the axis, or remove the key."
            raise self._error("clones", text)
        if self.command.output_location is not None and has_filesystem:
            text = "has no effect: the command writes to its `filesystem`. Remove it."
            raise self._error("output_location", text)
        # The value of this axis is the command itself, so the two keys below cannot restrict it.
        command_axis = self.study.command_axis
        axes_by_key = {
            "inapplicable_axes": self.command.inapplicable_axes or [],
            "restrict_to": list(self.command.restrict_to or {}),
        }
        for key, axes in axes_by_key.items():
            if command_axis in axes:
                text = f"has no effect on the axis `{command_axis}`. Remove it there."
                raise self._error(key, text)


def _check_template(template: str, words: Collection[str]) -> None:
    """Raise ValueError if the template of a command cannot be filled in (cell_setup.fill_template).

    Only `words` may be in its braces. Example: `{svn} log {url}`.
    """
    check_words(template, words)
    try:
        arguments = shlex.split(template)
    except ValueError as error:
        raise ValueError(f"{error}. Close the quotation mark.") from None
    if template and not arguments:
        raise ValueError("names no program. Write the command.")
    for argument in arguments:
        for word in WORD.findall(argument):
            # Several arguments cannot be a piece of one argument, as in `--x={svnadmin_args}`.
            placeholder = f"{{{word}}}"
            if word in LISTS and argument != placeholder:
                raise ValueError(
                    f"{placeholder} stands for several arguments. Put spaces around it."
                )
