"""A store: what holds a tree as a strategy needs it, a version control system's repository with one commit
mostly."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from vcsbench.errors import UserError
from vcsbench.programs import CLIENT_ENVIRONMENT

# What a commit needs to say.
WHO, WHAT = "vcsbench <vcsbench@localhost>", "the tree"
Tracked = dict[tuple[int, int], str]


class Store:
    """A kind of store: a module beside this one with its own as STORE. This one is the tree as it is.

    `work_in` is a private folder for the time in which one is made, which goes away; `environment` is of
    the programs that make it, beside that of all clients.
    """

    environment: Mapping[str, str] = MappingProxyType({})

    def carries(self, name: bytes) -> bool:
        """Whether it can hold something by a name, of one folder or file."""
        return True

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Make it at `path`, where nothing is, from the tree `source`, all of whose names it carries."""
        copy(source, path)

    def clean(self, path: Path) -> None:
        """Take back what building a tree from it has left in it, before the next run."""

    def run(self, *words: str | Path, home: Path, at: Path | None = None) -> None:
        """Run a program with a home, there or in the folder `at`; a UserError with its last words where it
        fails."""
        own = {name: str(home) for name in ("HOME", "FOSSIL_HOME", "BRZ_HOME")}
        own |= {"USER": "vcsbench"}
        done = subprocess.run(
            [*map(str, words)],
            cwd=at or home,
            env={**os.environ, **CLIENT_ENVIRONMENT, **own, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            said = " ".join([*done.stdout.splitlines(), *done.stderr.splitlines()][-3:])
            raise UserError(
                f"{' '.join(map(str, words[:3]))}: exits with {done.returncode}: {said}"
            )


def copy(source: Path, path: Path, without: Collection[str] = ()) -> None:
    """Copy a tree: contents, modes, times, links of both kinds; at its top without some names.

    Pipes, devices and sockets are left out.
    """
    seen: Tracked = {}

    def of_file(one: str, other: str) -> str:
        state = os.lstat(one)
        first = seen.setdefault((state.st_dev, state.st_ino), other)
        if first == other:
            return shutil.copy2(one, other, follow_symlinks=False)
        os.link(first, other)
        return other

    def left(folder: str, names: list[str]) -> list[str]:
        at_top = Path(folder) == source
        return [
            name
            for name in names
            if (at_top and name in without) or is_special(os.path.join(folder, name))
        ]

    def is_special(file: str) -> bool:
        return stat.S_IFMT(os.lstat(file).st_mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)

    shutil.copytree(source, path, symlinks=True, copy_function=of_file, ignore=left)
