"""The builds that the configuration names: where the binaries of each are, client and server apart."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vcsbench.config.validation import dotted, read_yaml
from vcsbench.errors import UserError
from vcsbench.programs import PROGRAMS, Programs

Where = Callable[[Sequence[Any]], str]
SIDES = ("client", "server")
# Environments are made below this folder of the workflow's.
ENVIRONMENTS = Path("results", "builds")


@dataclass(frozen=True)
class Build:
    """One value of the axis. `environments` are the conda environments that it takes, by the name of
    the folder that each is made in."""

    client: Programs = field(default_factory=Programs)
    server: Programs = field(default_factory=Programs)
    environments: Mapping[str, str] = field(default_factory=dict)

    def has_made(self, programs: Programs) -> bool:
        """Whether a side's programs are in one of the conda environments."""
        return os.path.basename(programs.prefix) in self.environments

    def spec(self) -> dict[str, dict[str, str]]:
        """The build as a cell's spec has it: how to find the programs of each side."""
        return {"client": self.client._asdict(), "server": self.server._asdict()}


# What a cell without the axis is measured with.
ON_PATH = Build()


def read_builds(definitions: Mapping[str, Any], root: Path, where: Where) -> dict[str, Build]:
    """The builds that the configuration defines, by name.

    `where` tells the file that a path of keys comes from. Raises a UserError where a build is not there.
    """
    reader = _Reader(definitions, root, where)
    return {name: reader.build(name) for name in definitions}


def environment_record(name: str, root: Path) -> str:
    """The record of a conda environment, relative to the workflow's folder. One whose environment is gone
    is removed, so that the rule that makes both runs again."""
    record = ENVIRONMENTS / f"{name}.sha256"
    if (root / record).exists() and not (root / ENVIRONMENTS / name).is_dir():
        (root / record).unlink()
    return str(record)


class _Reader:
    def __init__(self, definitions: Mapping[str, Any], root: Path, where: Where) -> None:
        self.definitions = definitions
        self.root = root
        self.where = where

    def build(self, name: str) -> Build:
        definition = self.definitions[name] or {}
        apart = [side for side in SIDES if side in definition]
        alone = [key for key in definition if key not in SIDES]
        if apart and alone:
            raise self._error(
                ["builds", name],
                f"has `{apart[0]}` and `{alone[0]}`: where client and server differ, the places "
                f"belong below `client` and `server`",
            )
        if not apart:
            programs, environments = self._place(["builds", name], definition)
            return Build(programs, programs, environments)
        sides, environments = {}, {}
        for side in apart:
            sides[side], made = self._side(["builds", name, side], definition[side])
            environments |= made
        return Build(**sides, environments=environments)

    def _side(self, keys: list[Any], wanted: Any) -> tuple[Programs, dict[str, str]]:
        """A side of a build: a place of its own, or the name of a build that has one."""
        if not isinstance(wanted, str):
            return self._place(keys, wanted)
        if wanted not in self.definitions:
            raise self._error(
                keys, f"{wanted!r} is not defined; `builds` has {', '.join(self.definitions)}"
            )
        definition = self.definitions[wanted] or {}
        if any(side in definition for side in SIDES):
            raise self._error(
                keys,
                f"{wanted!r} has a client and a server of its own; name a place, or a build of one",
            )
        return self._place(["builds", wanted], definition)

    def _place(
        self, keys: list[Any], definition: Mapping[str, Any]
    ) -> tuple[Programs, dict[str, str]]:
        if "prefix" in definition and "conda" in definition:
            raise self._error(keys, "has both `prefix` and `conda`; a build is in one place")
        if "conda" in definition:
            return self._environment([*keys, "conda"], definition["conda"])
        libraries = self._library_path(keys, definition)
        if "prefix" not in definition:
            if libraries:
                raise self._error(
                    keys,
                    "has `library_path` without `prefix`; name the prefix, /usr for the system's",
                )
            return Programs(), {}
        keys = [*keys, "prefix"]
        prefix = self._folder(keys, definition["prefix"])
        programs = Programs(prefix, libraries)
        known = ("svn", "svnserve", "svnadmin", "svnbench", "apache2", "httpd")
        if not any(map(programs.find, known)) and not programs.mod_dav_svn:
            raise self._error(
                keys,
                f"{prefix} has no svn, svnserve or any other of Subversion's programs in "
                f"{' or '.join(PROGRAMS)}; name the folder that `make install` was told as --prefix",
            )
        return programs, {}

    def _library_path(self, keys: list[Any], definition: Mapping[str, Any]) -> str:
        text = definition.get("library_path", "")
        parts = [part for part in text.split(":") if part]
        return ":".join(self._folder([*keys, "library_path"], part) for part in parts)

    def _folder(self, keys: list[Any], text: str) -> str:
        folder = os.path.normpath(self.root / Path(text).expanduser())
        if not os.path.isdir(folder):
            raise self._error(
                keys, f"{folder}: there is no such folder; build there first, or take the build out"
            )
        return folder

    def _environment(self, keys: list[Any], text: str) -> tuple[Programs, dict[str, str]]:
        file = Path(os.path.normpath(self.root / Path(text).expanduser()))
        if not file.is_file():
            raise self._error(
                keys, f"{file}: there is no such file; it is to be a conda environment's"
            )
        content = read_yaml(file)
        if not isinstance(content, Mapping) or not content.get("dependencies"):
            raise self._error(
                keys, f"{file}: has no `dependencies`, as a conda environment's file has"
            )
        # Another content is another build, in another folder: so the folder's name tells what is in it.
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem)
        name = f"{stem}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
        return Programs(str(self.root / ENVIRONMENTS / name)), {name: str(file)}

    def _error(self, keys: Sequence[Any], text: str) -> UserError:
        return UserError(f"{self.where(keys)}: `{dotted(keys)}`: {text}")
