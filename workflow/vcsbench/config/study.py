"""Read a study: one published benchmark, a file in config/studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vcsbench.config.study_models import Command, Published, StudyFile
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
    tables: dict[str, dict[str, Any]]
    commands: dict[str, Command] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    variance_group: list[str] = field(default_factory=list)
    scenario_axes: list[str] = field(default_factory=list)
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    trace_syscalls: dict[str, list[str]] | None = None
    machine_limits: str = ""
    featured_tables: list[str] = field(default_factory=list)
    published: Published | None = None
    authors: list[str] = field(default_factory=list)
    date: str = ""
    url: str = ""

    @property
    def numbers(self) -> dict[str, dict[str, str]]:
        """Return the files of its published numbers, each with the axis values of all of its rows."""
        given = self.published.numbers if self.published else []
        if isinstance(given, dict):
            return given
        return {name: {} for name in ([given] if isinstance(given, str) else given)}

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
        return [axis for axis, given in self.axes.items() if given == word]

    def axes_named(self) -> list[str]:
        """Return the axes with the values of any word."""
        return [axis for axis, given in self.axes.items() if isinstance(given, str)]

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
                f"config/studies/{self.name}.yaml: `commands` has no {name}, which was published and is not "
                f"measured; name those to measure in `grid.{self.name}`: {', '.join(self.commands)}"
            )
        return self.commands[name]


def load_study(path: str | Path) -> Study:
    """Read and check a study's file. Raise UserError with the file and the key."""
    path = Path(path)
    raw = read_yaml(path)
    checked = validate(raw, StudyFile, lambda _keys: str(path))
    _check_tables(path, checked)
    for key, axes in _axes_named(raw):
        for axis in axes:
            if axis not in raw["axes"]:
                raise UserError(
                    f"{path}: `{key}`: the study has no axis {axis}; it has {', '.join(raw['axes'])}"
                )
    for table in raw.get("featured_tables", []):
        if table not in raw["tables"]:
            raise UserError(
                f"{path}: `featured_tables`: there is no table {table}; there are {', '.join(raw['tables'])}"
            )
    _check_questions(path, raw)
    typed = {"commands": checked.commands, "published": checked.published}
    return Study(name=path.stem, **{**raw, **typed})


def _check_tables(path: Path, study: StudyFile) -> None:
    """Raise UserError for a table without a metric and comparison, or with both."""
    for name, table in study.tables.items():
        if (table.metric is None) == (table.compare is None):
            raise UserError(
                f"{path}: `tables.{name}`: it needs either `metric` or `compare`. Give one of them."
            )


def _check_questions(path: Path, raw: Mapping[str, Any]) -> None:
    """Raise UserError for a question with an unknown value of its axis."""
    for axis, question in raw.get("questions", {}).items():
        known = raw["axes"][axis]
        known = list(raw.get("commands", {})) if known == "commands" else known
        named = {
            "yes_value": [question["yes_value"]] if "yes_value" in question else [],
            "values": question.get("values", []),
            "actions": list(question.get("actions", {})),
        }
        for key, values in named.items():
            for value in values:
                if isinstance(known, list) and value not in known:
                    raise UserError(
                        f"{path}: `questions.{axis}.{key}`: the axis has no value {value}; it has "
                        f"{', '.join(known)}"
                    )


def _axes_named(raw: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield each key that names axes of the study, with these axes."""
    for key in ("block", "variance_group", "scenario_axes", "questions", "trace_syscalls"):
        yield key, list(raw.get(key, []))
    yield "machine_limits", [raw["machine_limits"]] if "machine_limits" in raw else []
    for name, command in raw.get("commands", {}).items():
        yield f"commands.{name}.restrict_to", list(command.get("restrict_to", []))
    for name, table in raw["tables"].items():
        yield f"tables.{name}.where", list(table.get("where", {}))
        yield f"tables.{name}.over", [table["over"]] if "over" in table else []
