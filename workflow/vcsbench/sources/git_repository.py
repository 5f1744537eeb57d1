"""Read a user's git repository: its files without git, its objects by git on a private bare repository.

No configuration, hook, filter, attribute, replacement, graft or variable of the user takes part. git itself
would follow its configuration, run its programs and wait for its pipes.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from vcsbench.errors import UserError
from vcsbench.external import one_line, printable, read_bytes
from vcsbench.sources.base import Program

# Limits for HEAD, a ref, `.git` and `commondir`; for the configuration; for `packed-refs` and `shallow`.
REF_BYTES = 1 << 14
CONFIG_BYTES = 1 << 24
LIST_BYTES = 1 << 29
# git's limit for a chain of symbolic refs.
SYMBOLIC_DEPTH = 5
MAX_ALTERNATES = 100
MAX_REFS = 5_000_000

_OBJECT = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
# `git check-ref-format` refuses these.
_BAD_REF = re.compile(rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|\.lock(?:/|\Z)|/\.|\.\Z|/\Z")
_ESCAPE = re.compile(rb'\\([abfnrtv"\\]|[0-7]{3})')
_LETTERS = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
HEADS = b"refs/heads/"
REMOTES = b"refs/remotes/origin/"
TAGS = b"refs/tags/"
# Variables that git itself needs: its program, its libraries, and where temporary files may lie.
INHERITED = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
EMPTY_TREE = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
# commit-graph and multi-pack-index repeat data of the objects, perhaps wrongly.
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
[advice]
	graftFileDeprecated = false
[extensions]
"""


@dataclass(frozen=True)
class GitLayout:
    """The folders of a repository: as given, git's for this work tree, and git's for all work trees."""

    path: Path
    folder: Path
    common: Path

    @property
    def shown(self) -> str:
        """The path as given, safe to print."""
        return one_line(self.path)


def find_layout(path: Path) -> GitLayout | None:
    """Return the layout of the repository at a path: bare, a work tree's top, or a linked work tree.

    Return None if nothing there looks like one. Raise UserError for a damaged one.
    """
    if not path.is_dir():
        return None
    inner = path / ".git"
    if os.path.lexists(inner):
        folder = inner if os.path.isdir(inner) else _linked(inner, path)
    elif _looks_bare(path):
        folder = path
    else:
        return None
    common = folder
    if os.path.lexists(folder / "commondir"):
        common = folder / os.fsdecode(_read(folder / "commondir", REF_BYTES).rstrip(b"\n"))
    for needed in (folder / "HEAD", common / "objects"):
        if not os.path.lexists(needed):
            raise UserError(
                f"{one_line(needed)}: does not exist: the git repository is damaged, or its main "
                "repository was moved. Clone it again, or run `git worktree repair` in the main repository."
            )
    return GitLayout(path, folder, common)


def work_tree_above(path: Path) -> Path | None:
    """Return the nearest folder above a path that has a git repository."""
    above = path.resolve().parents
    return next((folder for folder in above if os.path.lexists(folder / ".git")), None)


def _looks_bare(path: Path) -> bool:
    has = {
        name
        for name in ("HEAD", "objects", "refs", "commondir", "config")
        if os.path.lexists(path / name)
    }
    return (
        {"HEAD", "objects"} <= has
        or {"HEAD", "commondir"} <= has
        or {"objects", "refs", "config"} <= has
    )


def _linked(file: Path, path: Path) -> Path:
    """Return the folder that a file `.git` names."""
    text = _read(file, REF_BYTES).rstrip(b"\n")
    if not text.startswith(b"gitdir: "):
        raise UserError(
            f"{one_line(file)}: has no line `gitdir: FOLDER`. Clone the repository again."
        )
    folder = path / os.fsdecode(text.removeprefix(b"gitdir: "))
    if b"\0" in text or not os.path.isdir(folder):
        raise UserError(
            f"{one_line(file)}: names the folder {one_line(folder)}, which does not exist. "
            "Give the main repository, or run `git worktree repair` in it."
        )
    return folder


@contextmanager
def _readable(path: str | Path) -> Iterator[None]:
    """Turn the system's errors about a path into UserError."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{one_line(path)}: git's file cannot be read: {why}. Make it readable, or clone the repository."
        ) from error


def _read(path: Path, limit: int) -> bytes:
    with _readable(path):
        return read_bytes(path, limit)


def _read_optional(path: Path, limit: int) -> bytes:
    return _read(path, limit) if os.path.lexists(path) else b""


def read_head(layout: GitLayout) -> bytes:
    """Return HEAD: `ref: refs/heads/NAME` or the name of a commit."""
    path = layout.folder / "HEAD"
    if path.is_symlink() and (target := os.fsencode(os.readlink(path))).startswith(b"refs/"):
        value = b"ref: " + target  # as git wrote it before 2005
    else:
        value = _value(_read(path, REF_BYTES))
    if not value:
        raise UserError(
            f"{one_line(path)}: names neither a branch nor a commit: the git repository is "
            "damaged. Clone it again."
        )
    return value


def _value(text: bytes) -> bytes:
    """Return the ref or object in a ref's file, or b"" if it has none."""
    text = text.rstrip()
    if text.startswith(b"ref:"):
        name = text[4:].strip()
        return b"ref: " + name if is_ref_name(name) else b""
    return text if _OBJECT.fullmatch(text) else b""


def is_ref_name(name: bytes) -> bool:
    """Return True if git accepts the name of a ref."""
    return name.startswith(b"refs/") and not _BAD_REF.search(name)


def read_refs(layout: GitLayout) -> dict[bytes, bytes]:
    """Return the object of each ref; refs that are broken, or replace objects, are left out."""
    values = dict(_packed_refs(layout.common / "packed-refs"))
    values |= _loose_refs(layout.common / "refs")
    refs = {}
    for name, value in values.items():
        for _ in range(SYMBOLIC_DEPTH):
            if not value.startswith(b"ref: "):
                break
            value = values.get(value[5:], b"")
        if _OBJECT.fullmatch(value) and not name.startswith(b"refs/replace/"):
            refs[name] = value
    return refs


def _packed_refs(path: Path) -> Iterator[tuple[bytes, bytes]]:
    for line in _read_optional(path, LIST_BYTES).splitlines():
        value, _, name = line.partition(b" ")
        if _OBJECT.fullmatch(value) and is_ref_name(name):
            yield name, value


def _loose_refs(top: Path) -> dict[bytes, bytes]:
    refs = {}
    waiting = [(os.fsencode(top), b"refs")]
    while waiting:
        folder, above = waiting.pop()
        if not os.path.isdir(folder):
            continue
        with _readable(os.fsdecode(folder)), os.scandir(folder) as entries:
            for entry in entries:
                name = above + b"/" + entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, name))
                elif is_ref_name(name):
                    value = _value(_read(Path(os.fsdecode(entry.path)), REF_BYTES))
                    refs[name] = value
        if len(refs) > MAX_REFS:
            raise UserError(
                f"{one_line(top)}: has more than {MAX_REFS} refs. Clone the one branch."
            )
    return refs


def object_folders(layout: GitLayout) -> list[Path]:
    """Return the folders of objects: the repository's own and all that it borrows from.

    Raise UserError if one is missing, or has files that are not regular.
    """
    folders = [Path(os.path.realpath(layout.common / "objects"))]
    for folder in folders:
        _check_files(folder)
        file = folder / "info" / "alternates"
        for line in _read_optional(file, CONFIG_BYTES).split(b"\n"):
            if not line or line.startswith(b"#"):
                continue
            lender = (folder / os.fsdecode(_unquote(line))).absolute()
            if b"\0" in line or not os.path.isdir(lender):
                raise UserError(
                    f"{one_line(file)}: the object folder {one_line(lender)} does not exist. "
                    "Bring it back, or clone the repository again without --shared and --reference."
                )
            if (lender := lender.resolve()) not in folders:
                folders.append(lender)
        if len(folders) > MAX_ALTERNATES:
            raise UserError(
                f"{one_line(file)}: borrows from more than {MAX_ALTERNATES} folders. Clone the repository."
            )
    return folders


def _check_files(folder: Path) -> None:
    """Refuse pipes and devices among the objects, because git would wait for them."""
    with _readable(folder):
        for entry in os.scandir(folder):
            is_used = len(entry.name) == 2 or entry.name in ("pack", "info")
            if not (is_used and entry.is_dir()):
                continue
            for file in os.scandir(entry.path):
                if not file.is_file() and not file.is_dir() and os.path.exists(file.path):
                    raise UserError(
                        f"{one_line(file.path)}: this is not a regular file. Clone the repository again."
                    )


def pack_bytes(layout: GitLayout) -> int:
    """Return the size of a repository's own objects."""
    objects = layout.common / "objects"
    with _readable(objects):
        folders = [
            entry.path for entry in os.scandir(objects) if entry.is_dir() and entry.name != "info"
        ]
        files = (file for folder in folders for file in os.scandir(folder) if file.is_file())
        return sum(
            file.stat().st_size
            for file in files
            if not file.name.endswith((".idx", ".rev", ".bitmap"))
        )


def _unquote(line: bytes) -> bytes:
    """Return a line of `alternates` without the quotes of C."""
    if not (line.startswith(b'"') and line.endswith(b'"') and len(line) > 1):
        return line

    def byte(match: re.Match[bytes]) -> bytes:
        text = match[1]
        number = int(text, 8) & 0xFF if len(text) == 3 else _LETTERS.get(text[0], text[0])
        return bytes([number])

    return _ESCAPE.sub(byte, line[1:-1])


def quote(path: Path) -> bytes:
    """Return a path as a line of `alternates`, with every unusual byte escaped."""
    escaped = b"".join(
        bytes([b]) if 0x20 <= b < 0x7F and b not in b'"\\' else b"\\%03o" % b
        for b in os.fsencode(path)
    )
    return b'"' + escaped + b'"'


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
    layout = find_layout(path)
    if layout is None:
        raise UserError(f"{one_line(path)} is not a git repository")
    with tempfile.TemporaryDirectory(prefix="vcsbench-git-") as folder:
        yield Git(layout, Path(folder))


class Git:
    """A private bare repository with the refs and the borrowed objects of a user's repository."""

    def __init__(self, layout: GitLayout, private: Path) -> None:
        self.layout = layout
        self._private = private
        for name in ("refs", "objects/info", "objects/pack"):
            (private / name).mkdir(parents=True)
        self._write("HEAD", b"ref: refs/heads/none\n")
        self._configure()
        lenders = map(quote, object_folders(layout))
        self._write("objects/info/alternates", b"".join(line + b"\n" for line in lenders))
        # The commits whose parents a shallow clone lacks.
        self.shallow = _read_optional(layout.common / "shallow", LIST_BYTES)
        if self.shallow:
            self._write("shallow", self.shallow)
        self.refs = read_refs(layout)
        self._write(
            "packed-refs", b"".join(b"%s %s\n" % (self.refs[n], n) for n in sorted(self.refs))
        )
        self.head = read_head(layout)
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
        harmless = ("objectformat", "noop", "preciousobjects")
        of_user = "".join(f"\t{k} = {_quoted(v)}\n" for k, v in extensions.items() if k in harmless)
        self._write("config", (text + of_user).encode(errors="surrogateescape"))

    def _settings(self) -> dict[str, str]:
        """Return the user's configuration without the files that it includes."""
        text = _read_optional(self.layout.common / "config", CONFIG_BYTES)
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
            config = one_line(self.layout.common / "config")
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
            return program.read_all()

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
