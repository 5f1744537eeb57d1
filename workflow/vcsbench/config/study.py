"""Read a study: one published benchmark, a file in config/studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from vcsbench.config.study_models import Command, Published, StudyFile, TableDefinition
from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError


@dataclass(frozen=True)
class Study:
    """One file of config/studies; config.study_models.StudyFile documents its keys.

    `axes` has the values of each axis, in the order of a cell's path, or a word that axes.table resolves.
    """

    name: str
    title: str
    source: str
    axes: dict[str, list[str] | str]
    tables: dict[str, TableDefinition]
    commands: dict[str, Command] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    variance_group: list[str] = field(default_factory=list)
    scenario_axes: list[str] = field(default_factory=list)
    questions: dict[str, dict[str, object]] = field(default_factory=dict)
    trace_syscalls: dict[str, list[str]] | None = None
    featured_tables: list[str] = field(default_factory=list)
    published: Published | None = None
    authors: list[str] = field(default_factory=list)
    date: str = ""
    url: str = ""

    @property
    def numbers(self) -> dict[str, dict[str, str]]:
        """Return the files of its published numbers, each with the axis values of all of its rows."""
        numbers = self.published.numbers if self.published else []
        if isinstance(numbers, dict):
            return numbers
        return {name: {} for name in ([numbers] if isinstance(numbers, str) else numbers)}

    @property
    def findings(self) -> list[str]:
        """Return the names of its findings in findings.yaml."""
        return list((self.published.findings if self.published else None) or [self.name])

    @property
    def cost_class(self) -> list[str]:
        """Return the axes that determine how long a cell takes."""
        return list(dict.fromkeys([*self.variance_group, *self.block]))

    def axes_of(self, word: str) -> list[str]:
        """Return the axes with the values of a word: `repositories`, `servers`."""
        return [axis for axis, values in self.axes.items() if values == word]

    def axes_named(self) -> list[str]:
        """Return the axes with the values of any word."""
        return [axis for axis, values in self.axes.items() if isinstance(values, str)]

    @property
    def command_axis(self) -> str:
        """Return the axis with the word `commands`, otherwise `command`, which the study may lack."""
        return [*self.axes_of("commands"), "command"][0]

    def command_name(self, axes: Mapping[str, str]) -> str:
        """Return the name of a cell's command: its value of the command axis, or the first command without
        such an axis; "" for a study without commands."""
        axis = self.command_axis
        return axes.get(axis, "") if axis in self.axes else next(iter(self.commands), "")

    def command(self, axes: Mapping[str, str]) -> Command:
        """Return the command of a cell. Raise UserError if the study lacks it."""
        name = self.command_name(axes)
        if name not in self.commands:
            raise UserError(
                f"config/studies/{self.name}.yaml: `commands` has no {name}: it was published and is not "
                f"measured. Use in `grid.{self.name}` only {', '.join(self.commands)}."
            )
        return self.commands[name]


def load_study(path: str | Path) -> Study:
    """Read and check a study's file. Raise UserError with the file and the key."""
    path = Path(path)
    file = validate(read_yaml(path), StudyFile, lambda _keys: str(path))
    _check_tables(path, file)
    for key, axes in _axes_named(file):
        for axis in axes:
            if axis not in file.axes:
                raise UserError(
                    f"{path}: `{key}`: the study has no axis {axis}. Use one of {', '.join(file.axes)}."
                )
    _check_questions(path, file)
    typed = {"commands", "published", "tables", "questions"}
    return Study(
        name=path.stem,
        commands=file.commands,
        published=file.published,
        tables={
            name: cast(TableDefinition, table.model_dump(exclude_unset=True))
            for name, table in file.tables.items()
        },
        questions={
            axis: question.model_dump(exclude_unset=True)
            for axis, question in file.questions.items()
        },
        **file.model_dump(exclude=typed),
    )


def _check_tables(path: Path, file: StudyFile) -> None:
    """Raise UserError for an unknown table, and one without a metric and comparison, or with both."""
    for name in file.featured_tables:
        if name not in file.tables:
            raise UserError(
                f"{path}: `featured_tables`: no table {name}. Use one of {', '.join(file.tables)}."
            )
    for name, table in file.tables.items():
        if (table.metric is None) == (table.compare is None):
            raise UserError(
                f"{path}: `tables.{name}`: needs either `metric` or `compare`. Add one of them."
            )


def _check_questions(path: Path, file: StudyFile) -> None:
    """Raise UserError for a question with an unknown value of its axis."""
    for axis, question in file.questions.items():
        known = list(file.commands) if file.axes[axis] == "commands" else file.axes[axis]
        named = {
            "yes_value": [question.yes_value] if question.yes_value else [],
            "values": question.values or [],
            "actions": list(question.actions or {}),
        }
        for key, values in named.items():
            for value in values:
                if isinstance(known, list) and value not in known:
                    raise UserError(
                        f"{path}: `questions.{axis}.{key}`: the axis has no value {value}. Use one of "
                        f"{', '.join(known)}."
                    )


def _axes_named(file: StudyFile) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each key that names axes of the study, with these axes."""
    yield "block", file.block
    yield "variance_group", file.variance_group
    yield "scenario_axes", file.scenario_axes
    yield "questions", file.questions
    yield "trace_syscalls", file.trace_syscalls or ()
    for name, command in file.commands.items():
        yield f"commands.{name}.restrict_to", command.restrict_to or ()
    for name, table in file.tables.items():
        yield f"tables.{name}.where", table.where or ()
        yield f"tables.{name}.over", [table.over] if table.over else []
