"""A study: one published benchmark, as a file in config/studies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vcsbench.config.validation import read_yaml, validate
from vcsbench.errors import UserError


@dataclass(frozen=True)
class Study:
    """One file of config/studies, as it stands there.

    `axes` maps each axis, in the order of a cell's path, to its values or to `repositories` or
    `servers` or `builds`. `commands` is empty for a study that has published numbers only. Cells of a
    round that agree on the axes of `block` run next to each other; those that agree on `noise_class`
    scatter alike.
    """

    name: str
    title: str
    source: str
    axes: dict[str, list[str] | str]
    tables: dict[str, dict[str, Any]]
    commands: dict[str, dict[str, Any]] = field(default_factory=dict)
    block: list[str] = field(default_factory=list)
    noise_class: list[str] = field(default_factory=list)
    published: dict[str, Any] | None = None

    def resolved(self, builds: Iterable[str]) -> Study:
        """The study with the builds that the configuration names, in its order, for the values of an
        axis that takes them from there; tables that compare the `first` with the `rest` name them, too.
        """
        axes = {a: [*builds] if v == "builds" else v for a, v in self.axes.items()}
        named = {axis for axis, values in self.axes.items() if values == "builds"}
        tables = {name: _named(table, named, builds) for name, table in self.tables.items()}
        return replace(self, axes=axes, tables=tables)


def _named(table: dict[str, Any], named: set[str], builds: Iterable[str]) -> dict[str, Any]:
    compare = table.get("compare", {})
    if compare.get("axis") not in named:
        return table
    compare = dict(compare)
    if compare["baseline"] == "first":
        compare["baseline"] = next(iter(builds), "")
    if compare["candidates"] == "rest":
        compare["candidates"] = [name for name in builds if name != compare["baseline"]]
    return {**table, "compare": compare}


def load_study(path: str | Path) -> Study:
    """Read and check a study's file; a UserError names the file and the key."""
    path = Path(path)
    raw = read_yaml(path)
    validate(raw, "study", lambda _key: str(path))
    for name, command in raw.get("commands", {}).items():
        if command["work"] == "tree" and not command.get("target"):
            raise UserError(
                f"{path}: `commands.{name}.work`: tree is what a command with `target: true` wrote; "
                f"say how it is told what this one did, or add `target: true`"
            )
    return Study(name=path.stem, **raw)
