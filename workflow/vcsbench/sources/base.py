"""Define the interface of sources, and the helpers that all sources use."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vcsbench.errors import UserError
from vcsbench.records import Head

# Files whose permissions decide who can read a Subversion repository, a git repository, or a git work tree.
HISTORY = ("db", "db/revs", "db/current", "objects", "HEAD", ".git", ".git/objects", ".git/HEAD")
FILE_SCHEME = "file://"
# A repository's definition in the configuration.
Definition = Mapping[str, Any]
# Errors of local_path().
UNREACHABLE = (OSError, ValueError, RuntimeError)


@dataclass(frozen=True)
class SizeEstimate:
    """A rough size, from before the preparation, for the choice of disk or RAM.

    `repository_bytes` is the size of the loaded repository, not packed. `files` and `tree_bytes` are those of
    the youngest revision's export, 0 if unknown.
    """

    revisions: int
    repository_bytes: int
    files: int = 0
    tree_bytes: int = 0


@dataclass
class Facts:
    """The youngest revision that was written, notes on changes and omissions with their counts, and the
    options without which `svnadmin load` refuses the history."""

    revisions: int = 0
    notes: list[str] = field(default_factory=list)
    load_options: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stored:
    """The layout of a Subversion repository on disk: format number, revisions per shard (0 without shards),
    logical addressing, full and packed shards, and the settings in effect (formats.effective_settings)."""

    number: int
    shard: int
    is_logical: bool
    full: int
    packed: int
    settings: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A history that can be written as a dump stream, the same bytes each time.

    The methods with a body fit a user's source.
    """

    kind: str
    # The name of the progress stage.
    doing: str = "loading"

    def identity(self) -> str:
        """Return a hex digest that changes when the history changes. Takes milliseconds."""

    def check(self) -> None:
        """Raise UserError if there is no usable history."""
        return

    def scale(self) -> float:
        """Return the part of the published size; 1.0 for a user's history."""
        return 1.0

    def describe(self) -> str:
        """Return one line for reports."""

    def estimate(self) -> SizeEstimate:
        """Return the estimated size. May take seconds, the first time."""
        return self._estimate

    @cached_property
    def _estimate(self) -> SizeEstimate: ...

    def coming(self) -> int:
        """Return the number of revisions that write() writes, as far as that is known yet."""
        return self.estimate().revisions

    def write(self, out: BinaryIO) -> Facts:
        """Write the dump stream. Raise UserError if the source turns out to be broken."""

    def tree(self, loaded: Path | None = None) -> str:
        """Return the path in the repository that export exports; "" is the root.

        `loaded` is a Subversion repository with this history, if there is one. Raise UserError if the path is
        not in it.
        """

    def head(self) -> Head:
        """Return the place of the youngest tree without the history, as plain data with a `kind`.

        Return {} if only a loaded repository has it.
        """
        return {}

    def stored(self) -> Stored | str:
        """Return the layout of the user's repository on disk, or a clause on why it is unknown."""
        return f"a source of kind {self.kind} has no format of Subversion's"

    def repository(self) -> Path | None:
        """Return the local FSFS repository that can be copied as it is; None for other sources."""
        return None

    def at(self, copy: Path) -> Source:
        """Return this source, read from a copy of its repository."""
        raise UserError(f"{self.describe()}: no repository to read at {copy}.")

    def place(self, revision: int) -> str:
        """Return the place in the source of the revision that is loaded as `revision`; "" if it has the same
        number there."""
        return ""


def digest_of(*words: object) -> str:
    """Return a hex digest of words."""
    text = " ".join(map(str, words))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def digest_of_file(kind: str, path: Path) -> str:
    """Return a hex digest of a file's path, size and time."""
    state = path.stat()
    return digest_of(kind, path.resolve(), state.st_size, state.st_mtime_ns)


def local_path(text: str) -> Path:
    """Return a path as the user wrote it, with ~ and file://. It need not exist.

    Raise one of UNREACHABLE without permission, for an unknown user, or for an impossible name.
    """
    if text.startswith(FILE_SCHEME):
        # A path that exists as written is not percent-decoded.
        plain = Path(text.removeprefix(FILE_SCHEME).removeprefix("localhost"))
        path = plain if plain.exists() else Path(urllib.parse.unquote(os.fspath(plain)))
    else:
        path = Path(text).expanduser()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
    return path


def unreachable(text: str, error: Exception) -> str:
    """Return the message about a path that local_path() refused."""
    shown = text if len(text) <= 80 else text[:77] + "..."
    return f"{shown!r} cannot be read: {getattr(error, 'strerror', None) or error}"


def is_private(definition: Definition) -> bool:
    """Return True if a source, by its definition, is not readable by all users of the machine.

    A source behind a server counts as private: the server may have asked for a password.
    """
    if url := definition.get("url"):
        return not str(url).startswith(FILE_SCHEME) or _is_closed(str(url))
    path = definition.get("path")
    return _is_closed(str(path)) if path else False


@cache
def _is_closed(text: str) -> bool:
    try:
        path = Path(os.path.realpath(local_path(text)))
        return any(part.stat().st_mode & needed != needed for part, needed in _needed_modes(path))
    except UNREACHABLE:
        return True


def _needed_modes(path: Path) -> Iterator[tuple[Path, int]]:
    """Yield the mode bits that others need to reach and read a source."""
    for folder in path.parents:
        yield folder, stat.S_IXOTH
    for file in (path, *(path / name for name in HISTORY)):
        if file.is_dir():
            yield file, stat.S_IXOTH | stat.S_IROTH
        elif file.exists():
            yield file, stat.S_IROTH


class Options:
    """The keys of one source's definition. Errors are UserError and name the key."""

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self.where = f"{where}: repositories.{name}"
        self._definition = definition

    def error(self, key: str, message: str) -> UserError:
        """Return an error about a key."""
        return UserError(f"{self.where}.{key}: {message}")

    def allow(self, *keys: str) -> None:
        """Refuse every key but `source` and these."""
        for key in self._definition:
            if key != "source" and key not in keys:
                raise self.error(key, f"is no key of this source; it has {', '.join(keys)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string that can be an argument of a program. Without a default, the key must exist."""
        return self._word(key, self._text(key, default))

    def _text(self, key: str, default: str | None = None) -> str:
        value = self._definition.get(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be a text that is not empty, not {value!r}")
        return value

    def _word(self, key: str, value: str) -> str:
        """Check that a text can be an argument of a program, and return it."""
        try:
            os.fsencode(value)
        except UnicodeEncodeError:
            raise self.error(key, f"has half of a character: {value[:80]!r}") from None
        if "\0" in value:
            raise self.error(key, f"has a NUL character: {value[:80]!r}")
        return value

    def path(self, key: str) -> Path:
        """Return a path; see local_path()."""
        text = self._text(key)
        try:
            return local_path(text)
        except UNREACHABLE as error:
            raise self.error(key, unreachable(text, error)) from error

    def check_file(self, key: str, path: Path) -> None:
        """Check that a file exists and can be read."""
        if not path.is_file():
            what = "is no file" if path.exists() else "does not exist"
            raise self.error(key, f"{path} {what}")
        try:
            path.open("rb").close()
        except OSError as error:
            raise self.error(key, f"{path}: {error.strerror}") from error

    def tree(self) -> str | None:
        """Return the path inside the repository at `tree`, or None."""
        value = self._definition.get("tree")
        if value is not None and not isinstance(value, str):
            raise self.error("tree", f"must be a path inside the repository, not {value!r}")
        return None if value is None else self._word("tree", value).strip("/")

    def no_tree(self, path: Path, tree: str) -> UserError:
        """Return the error about a folder `tree` that the youngest revision lacks."""
        return self.error(
            "tree",
            f"{path} has no folder {tree[:200]!r} at its youngest revision; name another by TREE=, or "
            "TREE=/ for the root",
        )

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """Return a string that is one of `choices`."""
        value = self.text(key, default)
        if value not in choices:
            raise self.error(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number."""
        value = self._definition.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, not {value!r}")
        return value

    def whole(self, key: str, default: int) -> int:
        """Return a whole number."""
        value = self.number(key, default)
        if value != int(value):
            raise self.error(key, f"must be a whole number, not {value!r}")
        return int(value)
