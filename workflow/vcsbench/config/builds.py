"""Find the binaries of the builds in the configuration."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vcsbench.config.models import BuildPlace, Side
from vcsbench.config.validation import Keys, read_yaml
from vcsbench.errors import UserError
from vcsbench.programs import PROGRAM_FOLDERS, Programs

# A rule makes conda environments there.
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


class _Side(NamedTuple):
    """The programs of client or server, and its conda environment file by the name of its folder."""

    programs: Programs
    environments: Mapping[str, str] = MappingProxyType({})


def git_builds(builds: Mapping[str, Build]) -> list[Programs]:
    """Return the sides of builds (client, server) that have a git of their own, each once."""
    sides = [side for build in builds.values() for side in (build.client, build.server)]
    return [side for side in dict.fromkeys(sides) if side.prefix and side.find("git")]


@dataclass(frozen=True)
class BuildReader:
    """Read the values of the axis `build`. A build without a place has the programs on the PATH.

    A place is a folder (`prefix`) or a conda environment. `error` makes the error about a key (Config.error).
    """

    definitions: Mapping[str, BuildPlace | None]
    root: Path
    error: Callable[[Keys, str], UserError]

    def read(self) -> dict[str, Build]:
        """Return the builds by name. Raise UserError if one does not exist."""
        builds = {}
        for name, definition in self.definitions.items():
            keys = ["builds", name]
            if definition and definition.has_sides:
                client = self._read_side([*keys, "client"], definition.client)
                server = self._read_side([*keys, "server"], definition.server)
            else:
                client = self._read_place(keys, definition)
                server = client
            environments = {**client.environments, **server.environments}
            builds[name] = Build(client.programs, server.programs, environments)
        return builds

    def _read_side(self, keys: list[str], side: str | Side | None) -> _Side:
        """Return the programs of client or server, by a place, a build's name, or None for the PATH."""
        if not isinstance(side, str):
            return self._read_place(keys, side)
        definition = self.definitions[side]
        if definition and definition.has_sides:
            text = f"{side!r} has different places for client and server. Use a place, or a build with one."
            raise self.error(keys, text)
        return self._read_place(["builds", side], definition)

    def _read_place(self, keys: list[str], place: Side | None) -> _Side:
        """Return the programs of a place: a folder (`prefix`), a conda environment, or the PATH (None).

        `keys` is its place in the configuration: ["builds", "trunk", "client"].
        """
        if place is None or (place.prefix is None and place.conda is None):
            return _Side(Programs())
        if place.conda is not None:
            return self._read_environment([*keys, "conda"], self._absolute(place.conda))
        return _Side(self._read_prefix(keys, place.prefix or "", place.library_path or ""))

    def _read_prefix(self, keys: list[str], prefix: str, library_path: str) -> Programs:
        """Return the programs below a prefix. `library_path` is their LD_LIBRARY_PATH, such as "/a:/b".

        Raise UserError if one of the folders does not exist, or if the prefix has no git, and no program and
        no module of Subversion.
        """
        libraries = []
        for folder in library_path.split(":"):
            # The loader would take an empty name for the working folder, so the name is left out.
            if folder:
                libraries.append(self._existing_folder([*keys, "library_path"], folder))
        keys_of_prefix = [*keys, "prefix"]
        prefix = self._existing_folder(keys_of_prefix, prefix)
        programs = Programs(prefix, ":".join(libraries))
        # A build may have an httpd of its own, by either name.
        names = ("svn", "svnserve", "svnadmin", "svnbench", "apache2", "httpd", "git")
        has_program = any(programs.find(name) for name in names)
        # A build may have the module mod_dav_svn alone. This machine's httpd then loads it.
        if not has_program and not programs.mod_dav_svn:
            raise self.error(
                keys_of_prefix,
                f"{prefix} has no svn, svnserve or any other of Subversion's programs in "
                f"{' or '.join(PROGRAM_FOLDERS)}, and no git. Use the folder that was configured with "
                f"--prefix.",
            )
        return programs

    def _absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.root / os.path.expanduser(text)))

    def _existing_folder(self, keys: list[str], text: str) -> str:
        folder = self._absolute(text)
        if not os.path.isdir(folder):  # is_dir() raises for long names
            reason = f"{folder}: no such folder. Build there first, or remove the build."
            raise self.error(keys, reason)
        return str(folder)

    def _read_environment(self, keys: list[str], file: Path) -> _Side:
        """Return the programs of a conda environment, which a rule makes later from this file.

        Raise UserError if the file is missing or damaged, or has no `dependencies`.
        """
        content = read_yaml(file) if os.path.isfile(file) else None
        if not isinstance(content, Mapping) or not content.get("dependencies"):
            text = f"{file}: no such file with `dependencies`. Use the file of a conda environment."
            raise self.error(keys, text)
        # The folder of an environment has a digest in its name, so that a changed file makes a new one.
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem)
        name = f"{stem}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
        return _Side(Programs(str(self.root / ENVIRONMENTS / name)), {name: str(file)})
