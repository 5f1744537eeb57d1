"""Run git on a private bare repository that borrows the objects of a user's repository.

No configuration, hook, filter, attribute, replacement, graft or variable of the user takes part.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.sources.git import repository
from vcsbench.sources.git.repository import Layout
from vcsbench.sources.process import Program

HEADS = b"refs/heads/"
REMOTES = b"refs/remotes/origin/"
TAGS = b"refs/tags/"
# Variables that git itself needs: its program, its libraries, and where temporary files may lie.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
# commit-graph and multi-pack-index repeat what the objects say, and may lie.
CONFIGURATION = """\
[core]
	repositoryformatversion = {version}
	bare = true
	attributesFile = /dev/null
	hooksPath = /dev/null
	fsmonitor = false
	commitGraph = false
	multiPackIndex = false
	useReplaceRefs = false
[attr]
	tree = {empty}
[protocol]
	allow = never
[gc]
	auto = 0
[extensions]
"""


@dataclass(frozen=True)
class Ref:
    """A branch or tag: its short name, the object that it names, and the commit that this leads
    to. For an annotated tag the two differ, and it has a date (seconds since 1970; else 0)."""

    name: bytes
    target: bytes
    commit: bytes
    seconds: int = 0


@contextmanager
def open_repository(path: Path) -> Iterator[Git]:
    """Yield git on the repository at a path: bare, a work tree's top, or a linked work tree.

    Raise UserError with git's own reason where git cannot read it.
    """
    layout = repository.find_layout(path)
    if layout is None:
        raise UserError(f"{repository.shown(path)} is not a git repository")
    with tempfile.TemporaryDirectory(prefix="vcsbench-git-") as folder:
        yield Git(layout, Path(folder))


class Git:
    """A private bare repository with the refs and the borrowed objects of a user's repository."""

    def __init__(self, layout: Layout, private: Path) -> None:
        self.layout = layout
        self._private = private
        for name in ("refs", "objects/info", "objects/pack"):
            (private / name).mkdir(parents=True)
        self._write("HEAD", b"ref: refs/heads/none\n")
        self._configure()
        lenders = map(repository.quote, repository.object_folders(layout))
        self._write("objects/info/alternates", b"".join(line + b"\n" for line in lenders))
        self.shallow = repository.read_shallow(layout)
        if self.shallow:
            self._write("shallow", self.shallow)
        self.refs = repository.read_refs(layout)
        self._write(
            "packed-refs", b"".join(b"%s %s\n" % (self.refs[n], n) for n in sorted(self.refs))
        )
        self.head = repository.read_head(layout)
        self._write("HEAD", self.head + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        (self._private / name).write_bytes(content)

    def _configure(self) -> None:
        """Write our own configuration with the format of the user's repository, and have git check it."""
        settings = self._settings()
        self._refuse_partial(settings)
        version = settings.get("core.repositoryformatversion", "0")
        extensions = {
            key.removeprefix("extensions."): value
            for key, value in settings.items()
            if key.startswith("extensions.")
        }
        empty = EMPTY_TREE["sha256" if extensions.get("objectformat") == "sha256" else "sha1"]
        text = CONFIGURATION.format(version=_quoted(version), empty=empty)
        of_user = "".join(f"\t{key} = {_quoted(value)}\n" for key, value in extensions.items())
        self._write("config", (text + of_user).encode(errors="surrogateescape"))
        self._run("rev-parse", "--git-dir")
        if extensions.get("refstorage", "files") != "files":
            raise UserError(
                f"{self.layout.shown}: its refs are stored as "
                f"{printable(extensions['refstorage'])}, not as files. "
                "Run `git refs migrate --ref-format=files` in it, or clone it with --ref-format=files."
            )
        kept = ("objectformat", "noop", "preciousobjects")
        of_user = "".join(f"\t{k} = {_quoted(v)}\n" for k, v in extensions.items() if k in kept)
        self._write("config", (text + of_user).encode(errors="surrogateescape"))

    def _settings(self) -> dict[str, str]:
        """Return the user's configuration without the files that it includes."""
        text = repository.read_config(self.layout)
        listed = self._run("config", "--file", "-", "--no-includes", "--list", "-z", text=text)
        lines = [line.partition("\n") for line in os.fsdecode(listed).split("\0") if line]
        return {key: value for key, _, value in lines}

    def _refuse_partial(self, settings: dict[str, str]) -> None:
        off = ("false", "no", "off", "0")
        promisors = [
            k for k, v in settings.items() if k.endswith(".promisor") and v.lower() not in off
        ]
        if promisors or "extensions.partialclone" in settings:
            raise UserError(
                f"{self.layout.shown} is a partial clone, which lacks files. Clone it again without --filter."
            )

    def _argv(self, *arguments: str) -> list[str]:
        private = str(self._private)
        return ["git", "-C", private, f"--git-dir={private}", *arguments]

    def _environment(self) -> dict[str, str]:
        inherited = {key: os.environ[key] for key in INHERITED if key in os.environ}
        return inherited | {
            "HOME": str(self._private),
            "XDG_CONFIG_HOME": str(self._private),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_GRAFT_FILE": os.devnull,
            "GIT_NO_REPLACE_OBJECTS": "1",
            # Nothing is fetched into a partial clone; git before 2.44 knows only the second of these.
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    def _run(self, *arguments: str, text: bytes = b"") -> bytes:
        """Return the output of a git command about the configuration; UserError with git's own reason."""
        done = subprocess.run(
            self._argv(*arguments), input=text, capture_output=True, env=self._environment()
        )
        if done.returncode:
            config = repository.shown(self.layout.common / "config")
            reason = " ".join(done.stderr.decode(errors="backslashreplace").split())
            reason = printable(reason.removeprefix("fatal: ").removeprefix("error: "))
            reason = reason.replace("standard input", config).replace(
                str(self._private), self.layout.shown
            )
            raise UserError(
                f"{self.layout.shown}: git cannot read this repository: {reason}. "
                f"Use a newer git, or mend {config}."
            )
        return done.stdout

    def output(self, *arguments: str) -> bytes:
        """Return the output of a git command; UserError with git's own reason if it fails."""
        with self.start(*arguments) as program:
            return program.whole()

    def start(self, *arguments: str, stdin: int | IO[Any] = subprocess.DEVNULL) -> Program:
        """Start a git command, whose output is read while it runs."""
        failure = (
            f"{self.layout.shown}: git {arguments[0]} failed (try `git fsck`, or clone it again)"
        )
        return Program(self._argv(*arguments), failure, self._environment(), stdin)

    def branches(self) -> list[Ref]:
        """Return the local branches, then origin's that have no local one of the same name."""
        local = self._refs(HEADS)
        names = {ref.name for ref in local} | {b"HEAD"}
        return local + [ref for ref in self._refs(REMOTES) if ref.name not in names]

    def tags(self) -> list[Ref]:
        """Return the tags of commits."""
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
        """Return the commit that each ref's object leads to; nothing for one that leads to none."""
        with self.start("cat-file", "--batch-check", stdin=subprocess.PIPE) as program:
            request = b"".join(target + b"^{commit}\n" for target, *_ in refs)
            answers, _ = program.process.communicate(request)
        words = [line.split() for line in answers.splitlines()]
        return [word[0] if len(word) == 3 else b"" for word in words]


def _quoted(value: str) -> str:
    """Return a value in the quotes of git's configuration."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
