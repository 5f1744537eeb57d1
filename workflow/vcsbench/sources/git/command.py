"""Running git on a repository of the user's, which is only ever read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO, Any

from vcsbench.sources.process import Program


def environment(path: Path) -> dict[str, str]:
    """This process' environment without what would make git look elsewhere."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return kept | {
        # The repository is at the path itself, not in some folder above it.
        "GIT_CEILING_DIRECTORIES": str(path.resolve().parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_NO_REPLACE_OBJECTS": "1",
        # Nothing is fetched into a partial clone; git before 2.44 knows only the second of these.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


class Git:
    """The git repository at a path: bare, a work tree's top, or a linked work tree's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def output(self, *arguments: str) -> bytes:
        """What a git command prints; UserError with its last words when it fails."""
        with self.start(*arguments) as program:
            return program.whole()

    def start(self, *arguments: str, stdin: int | IO[Any] = subprocess.DEVNULL) -> Program:
        """A git command that runs while its output is read."""
        # It may belong to somebody else: reading it runs nothing of theirs.
        argv = ["git", "-c", "safe.directory=*", "-C", str(self.path), *arguments]
        failure = f"{self.path}: git {arguments[0]} failed"
        return Program(argv, failure, environment(self.path), stdin)
