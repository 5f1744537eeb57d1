"""Branches and tags of a git repository."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from vcsbench.sources.git.command import Git

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


def branches(git: Git) -> list[Ref]:
    """The local branches, then origin's that have no local one of the same name."""
    local = _refs(git, HEADS)
    names = {ref.name for ref in local} | {b"HEAD"}
    return local + [ref for ref in _refs(git, REMOTES) if ref.name not in names]


def tags(git: Git) -> list[Ref]:
    """The tags of commits."""
    return _refs(git, TAGS)


def _refs(git: Git, prefix: bytes) -> list[Ref]:
    lines = git.output(
        "for-each-ref", "--format=%(objectname) %(refname) %(taggerdate:unix)", prefix.decode()
    ).splitlines()
    refs = [line.split(b" ") for line in lines]  # no name has a space
    commits = _commits(git, [target for target, *_ in refs])
    return [
        Ref(name[len(prefix) :], target, commit, int(date or 0))
        for (target, name, date), commit in zip(refs, commits, strict=True)
        if commit
    ]


def _commits(git: Git, objects: list[bytes]) -> list[bytes]:
    """The commit that each object leads to; nothing for one that leads to none."""
    if not objects:
        return []
    with git.start("cat-file", "--batch-check", stdin=subprocess.PIPE) as program:
        request = b"".join(name + b"^{commit}\n" for name in objects)
        answers, _ = program.process.communicate(request)
    words = [line.split() for line in answers.splitlines()]
    return [word[0] if len(word) == 3 else b"" for word in words]
