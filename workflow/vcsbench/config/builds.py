"""Find the client and server binaries of the configured builds."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.config.validation import Keys, dotted, read_yaml
from vcsbench.errors import UserError
from vcsbench.programs import PROGRAMS, Programs

if TYPE_CHECKING:
    from vcsbench.config.models import BuildPlace, Side

# Environments are made below this folder of the workflow's.
ENVIRONMENTS = Path("results", "builds")


@dataclass(frozen=True)
class Build:
    """One value of the axis `build`. `environments` has its conda environment files by folder name."""

    client: Programs = field(default_factory=Programs)
    server: Programs = field(default_factory=Programs)
    environments: Mapping[str, str] = field(default_factory=dict)

    def has_made(self, programs: Programs) -> bool:
        """Return True if the programs are in one of the conda environments."""
        return os.path.basename(programs.prefix) in self.environments


# The build of cells without the axis.
ON_PATH = Build()


def read_builds(
    definitions: Mapping[str, BuildPlace | None], root: Path, where: Callable[[Keys], str]
) -> dict[str, Build]:
    """Return the configured builds, by name. A build without a place has the programs on the PATH.

    `where` returns the file of a path of keys. Raise UserError if a build does not exist.
    """
    reader = _Reader(definitions, root, where)
    return {name: reader.build(name) for name in definitions}


def environment_record(name: str, root: Path) -> str:
    """Return the record file of a conda environment, relative to the workflow's folder.

    A record without its environment is removed, because the rule then makes both again.
    """
    record = ENVIRONMENTS / f"{name}.sha256"
    if (root / record).exists() and not (root / ENVIRONMENTS / name).is_dir():
        (root / record).unlink()
    return str(record)


class _Reader:
    def __init__(
        self,
        definitions: Mapping[str, BuildPlace | None],
        root: Path,
        where: Callable[[Keys], str],
    ) -> None:
        self.definitions = definitions
        self.root = root
        self.where = where

    def build(self, name: str) -> Build:
        definition, keys = self.definitions[name], ["builds", name]
        client, server = _sides(definition)
        if client is None and server is None:
            programs, environments = self._place(keys, definition)
            return Build(programs, programs, environments)
        for key in ("prefix", "conda", "library_path"):
            if getattr(definition, key) is not None:
                side = "server" if client is None else "client"
                raise self._error(
                    keys,
                    f"has `{side}` and `{key}`: a place is either for both sides or below "
                    f"`client` and `server`. Move it there.",
                )
        client_programs, of_client = self._side([*keys, "client"], client)
        server_programs, of_server = self._side([*keys, "server"], server)
        return Build(client_programs, server_programs, of_client | of_server)

    def _side(self, keys: list[str], side: str | Side | None) -> tuple[Programs, dict[str, str]]:
        """Return the programs of a side: its own place, or the name of a build with one place."""
        if not isinstance(side, str):
            return self._place(keys, side)
        if side not in self.definitions:
            raise self._error(
                keys, f"{side!r} is not defined. Use one of {', '.join(self.definitions)}."
            )
        definition = self.definitions[side]
        if any(_sides(definition)):
            raise self._error(
                keys,
                f"{side!r} has different places for client and server. Use a place, or a build with one.",
            )
        return self._place(["builds", side], definition)

    def _place(
        self, keys: list[str], place: BuildPlace | Side | None
    ) -> tuple[Programs, dict[str, str]]:
        if place is None:
            return Programs(), {}
        if place.prefix is not None and place.conda is not None:
            raise self._error(keys, "has both `prefix` and `conda`. Remove one of them.")
        if place.conda is not None:
            return self._environment([*keys, "conda"], place.conda)
        libraries = self._library_path([*keys, "library_path"], place.library_path or "")
        if place.prefix is None:
            if libraries:
                raise self._error(
                    keys,
                    "has `library_path` without `prefix`. Add the prefix (/usr for the system's programs).",
                )
            return Programs(), {}
        keys = [*keys, "prefix"]
        prefix = self._folder(keys, place.prefix)
        programs = Programs(prefix, libraries)
        known = ("svn", "svnserve", "svnadmin", "svnbench", "apache2", "httpd")
        if not any(map(programs.find, known)) and not programs.mod_dav_svn:
            raise self._error(
                keys,
                f"{prefix} has no svn, svnserve or any other of Subversion's programs in "
                f"{' or '.join(PROGRAMS)}. Use the folder that was configured with --prefix.",
            )
        return programs, {}

    def _library_path(self, keys: list[str], text: str) -> str:
        return ":".join(self._folder(keys, part) for part in text.split(":") if part)

    def _folder(self, keys: list[str], text: str) -> str:
        folder = os.path.normpath(self.root / Path(text).expanduser())
        if not os.path.isdir(folder):
            raise self._error(
                keys, f"{folder}: no such folder. Build there first, or remove the build."
            )
        return folder

    def _environment(self, keys: list[str], text: str) -> tuple[Programs, dict[str, str]]:
        file = Path(os.path.normpath(self.root / Path(text).expanduser()))
        if not file.is_file():
            raise self._error(keys, f"{file}: no such file. Use the file of a conda environment.")
        content = read_yaml(file)
        if not isinstance(content, Mapping) or not content.get("dependencies"):
            raise self._error(
                keys, f"{file}: has no `dependencies`. Use the file of a conda environment."
            )
        # Another content is another build, in another folder.
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem)
        name = f"{stem}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
        return Programs(str(self.root / ENVIRONMENTS / name)), {name: str(file)}

    def _error(self, keys: Keys, text: str) -> UserError:
        return UserError(f"{self.where(keys)}: `{dotted(keys)}`: {text}")


def _sides(build: BuildPlace | None) -> tuple[str | Side | None, str | Side | None]:
    return (build.client, build.server) if build else (None, None)
