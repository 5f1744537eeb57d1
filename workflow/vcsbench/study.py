"""A study: one published benchmark, as a file in config/studies."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.validation import read_yaml, validate


@dataclass(frozen=True)
class Study:
    """One file of config/studies, as it stands there.

    `axes` maps each axis, in the order of a cell's path, to its values or to `repositories` or
    `servers`. `commands` is empty for a study that has published numbers only.
    """

    name: str
    title: str
    source: str
    axes: dict[str, list[str] | str]
    tables: dict[str, dict[str, Any]]
    commands: dict[str, dict[str, Any]] = field(default_factory=dict)
    published: dict[str, Any] | None = None


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
