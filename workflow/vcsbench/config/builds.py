"""Find the client and server binaries of the configured builds."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.config.validation import Keys, read_yaml
from vcsbench.errors import UserError
from vcsbench.programs import PROGRAMS, Programs

if TYPE_CHECKING:
    from vcsbench.config.models import BuildPlace, Side

ENVIRONMENTS = Path("results", "builds")


@dataclass(frozen=True)
class Build:
    """One value of the axis `build`. `environments` has its conda environment files by folder name."""

    client: Programs = field(default_factory=Programs)
    server: Programs = field(default_factory=Programs)
    environments: Mapping[str, str] = field(default_factory=dict)

    def has_made(self, programs: Programs) -> bool:
        return os.path.basename(programs.prefix) in self.environments


ON_PATH = Build()


def read_builds(
    definitions: Mapping[str, BuildPlace | None],
    root: Path,
    error: Callable[[Keys, str], UserError],
) -> dict[str, Build]:
    """Return the builds by name. A build without a place has the programs on the PATH.

    `error` returns the error about a key (Config.error). Raise UserError if a build does not exist.
    """
    reader = _Reader(definitions, root, error)
    return {name: reader.build(name) for name in definitions}


def environment_record(name: str, root: Path) -> str:
    """Return the record file of a conda environment, relative to the workflow's folder.

    A record without its environment is removed, because the rule then makes both again.
    """
    record = ENVIRONMENTS / f"{name}.sha256"
    if (root / record).exists() and not (root / ENVIRONMENTS / name).is_dir():
        (root / record).unlink()
    return str(record)


@dataclass(frozen=True)
class _Reader:
    definitions: Mapping[str, BuildPlace | None]
    root: Path
    error: Callable[[Keys, str], UserError]

    def build(self, name: str) -> Build:
        definition, keys = self.definitions[name], ["builds", name]
        if not (sides := definition.sides if definition else {}):
            programs, environments = self._place(keys, definition)
            return Build(programs, programs, environments)
        client, client_environments = self._side([*keys, "client"], sides.get("client"))
        server, server_environments = self._side([*keys, "server"], sides.get("server"))
        return Build(client, server, client_environments | server_environments)

    def _side(self, keys: list[str], side: str | Side | None) -> tuple[Programs, dict[str, str]]:
        if not isinstance(side, str):
            return self._place(keys, side)
        if side not in self.definitions:
            known = ", ".join(self.definitions)
            raise self.error(keys, f"{side!r} is not defined. Use one of {known}.")
        definition = self.definitions[side]
        if definition and definition.sides:
            text = f"{side!r} has different places for client and server. Use a place, or a build with one."
            raise self.error(keys, text)
        return self._place(["builds", side], definition)

    def _place(self, keys: list[str], place: Side | None) -> tuple[Programs, dict[str, str]]:
        if place is None:
            return Programs(), {}
        if place.conda is not None:
            return self._environment([*keys, "conda"], self._path(place.conda))
        parts = [part for part in (place.library_path or "").split(":") if part]
        libraries = ":".join(self._folder([*keys, "library_path"], part) for part in parts)
        if place.prefix is None:
            return Programs(), {}
        prefix = self._folder([*keys, "prefix"], place.prefix)
        programs = Programs(prefix, libraries)
        known = ("svn", "svnserve", "svnadmin", "svnbench", "apache2", "httpd")
        if not any(map(programs.find, known)) and not programs.mod_dav_svn:
            raise self.error(
                [*keys, "prefix"],
                f"{prefix} has no svn, svnserve or any other of Subversion's programs in "
                f"{' or '.join(PROGRAMS)}. Use the folder that was configured with --prefix.",
            )
        return programs, {}

    def _path(self, text: str) -> Path:
        return Path(os.path.normpath(self.root / Path(text).expanduser()))

    def _folder(self, keys: list[str], text: str) -> str:
        folder = self._path(text)
        if not os.path.isdir(folder):  # is_dir() raises for long names
            text = f"{folder}: no such folder. Build there first, or remove the build."
            raise self.error(keys, text)
        return str(folder)

    def _environment(self, keys: list[str], file: Path) -> tuple[Programs, dict[str, str]]:
        if not os.path.isfile(file):
            raise self.error(keys, f"{file}: no such file. Use the file of a conda environment.")
        content = read_yaml(file)
        if not isinstance(content, Mapping) or not content.get("dependencies"):
            text = f"{file}: has no `dependencies`. Use the file of a conda environment."
            raise self.error(keys, text)
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem)
        name = f"{stem}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
        return Programs(str(self.root / ENVIRONMENTS / name)), {name: str(file)}
