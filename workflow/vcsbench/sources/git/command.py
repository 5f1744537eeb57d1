"""Running git on a repository of the user's, which is only ever read, and its branches and tags."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vcsbench.sources.process import Program

HEADS = b"refs/heads/"
REMOTES = b"refs/remotes/origin/"
TAGS = b"refs/tags/"


@dataclass(frozen=True)
class Ref:
    """A branch or tag: its short name, the object that it names, and the commit that this leads
    to. For an annotated tag the two differ, and it has a date (seconds since 1970; else 0)."""

    name: bytes
    target: bytes
    commit: bytes
    seconds: int = 0


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

    def branches(self) -> list[Ref]:
        """The local branches, then origin's that have no local one of the same name."""
        local = self._refs(HEADS)
        names = {ref.name for ref in local} | {b"HEAD"}
        return local + [ref for ref in self._refs(REMOTES) if ref.name not in names]

    def tags(self) -> list[Ref]:
        """The tags of commits."""
        return self._refs(TAGS)

    def _refs(self, prefix: bytes) -> list[Ref]:
        lines = self.output(
            "for-each-ref", "--format=%(objectname) %(refname) %(taggerdate:unix)", prefix.decode()
        ).splitlines()
        refs = [line.split(b" ") for line in lines]  # no name has a space
        return [
            Ref(name[len(prefix) :], target, commit, int(date or 0))
            for (target, name, date), commit in zip(refs, self._commits(refs), strict=True)
            if commit
        ]

    def _commits(self, refs: list[list[bytes]]) -> list[bytes]:
        """The commit that each ref's object leads to; nothing for one that leads to none."""
        with self.start("cat-file", "--batch-check", stdin=subprocess.PIPE) as program:
            request = b"".join(target + b"^{commit}\n" for target, *_ in refs)
            answers, _ = program.process.communicate(request)
        words = [line.split() for line in answers.splitlines()]
        return [word[0] if len(word) == 3 else b"" for word in words]
