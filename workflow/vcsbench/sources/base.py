"""What every source of a dump stream has in common."""

from __future__ import annotations

import contextlib
import hashlib
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vcsbench.errors import UserError


@dataclass(frozen=True)
class Estimate:
    """A rough forecast, made before anything is prepared: it decides on disk and RAM.

    `repository_bytes` is the size of the non-packed repository that is loaded from it, `files` and
    `tree_bytes` what export exports of its youngest revision, 0 where only that would tell.
    """

    revisions: int
    repository_bytes: int
    files: int = 0
    tree_bytes: int = 0


@dataclass
class Facts:
    """The youngest revision that was written, a sentence for each change or omission with its count, and the
    options without which `svnadmin load` refuses the history."""

    revisions: int = 0
    notes: list[str] = field(default_factory=list)
    load_options: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stored:
    """How a Subversion repository lies on disk: the number of its format, the revisions per shard (0 where it
    has no shards), whether they are addressed logically, how many shards are full and packed, and the
    settings in effect (formats.effective_settings)."""

    number: int
    shard: int
    is_logical: bool
    full: int
    packed: int
    settings: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A history that can be written as a dump stream, the same bytes each time.

    What is not abstract here fits what the user brought, and a stream that is made on the fly.
    """

    kind: str
    # What its stream is loaded by: where it is made meanwhile, that as well.
    doing: str = "loading"

    def identity(self) -> str:
        """A hex digest that changes when the history changes. Takes milliseconds."""

    def check(self) -> None:
        """Raise UserError when there is no usable history there."""
        return

    def scale(self) -> float:
        """The part of the published size that this is; 1.0 for what the user brought."""
        return 1.0

    def describe(self) -> str:
        """One line for reports."""

    def estimate(self) -> Estimate:
        """How big it will be. May take seconds, the first time."""
        return self._estimate

    @cached_property
    def _estimate(self) -> Estimate: ...

    def coming(self) -> int:
        """How many revisions write() writes, as far as that is known yet."""
        return self.estimate().revisions

    def write(self, out: BinaryIO) -> Facts:
        """Write the dump stream to `out`. UserError when the source turns out to be broken."""

    def tree(self, loaded: Path | None = None) -> str:
        """Return the path in the repository that export exports; "" is the root. `loaded` is a Subversion
        repository with this history, where there is one. Raise UserError if the path is not in it."""

    def head(self) -> dict[str, Any]:
        """Where the youngest tree is to be had without the history, as plain data with its `kind`; {} where
        it takes a loaded repository."""
        return {}

    def stored(self) -> Stored | str:
        """How the user's own repository lies on disk; a clause on why that is not known, where it is not."""
        return f"a source of kind {self.kind} has no format of Subversion's"

    def repository(self) -> Path | None:
        """Return the local FSFS repository that can be copied as it is; None for other sources."""
        return None

    def at(self, copy: Path) -> Source:
        """Return this source, read from a copy of its repository."""
        raise UserError(f"{self.describe()}: there is no repository to read at {copy}.")

    def place(self, revision: int) -> str:
        """Where, in what write() has read, the history's revision begins that is loaded as `revision`:
        for an error. "" where nobody could look it up: it has its own number, and lies nowhere else."""
        return ""


def digest_of(*words: object) -> str:
    """A hex digest of what tells a history from others."""
    text = " ".join(map(str, words))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def digest_of_file(kind: str, path: Path) -> str:
    """That of a file, by its path, size and time."""
    state = path.stat()
    return digest_of(kind, path.resolve(), state.st_size, state.st_mtime_ns)


# What local_path() raises.
UNREACHABLE = (OSError, ValueError, RuntimeError)


def local_path(text: str) -> Path:
    """The path that the user wrote; ~ is a home, file:// is allowed before it.

    It need not exist. One of UNREACHABLE where this cannot even be asked: no right to, no such
    user, no possible name.
    """
    if text.startswith("file://"):
        # Plain text is allowed there, too: a path that exists as it is written is that path.
        plain = Path(text.removeprefix("file://").removeprefix("localhost"))
        path = plain if plain.exists() else Path(urllib.parse.unquote(os.fspath(plain)))
    else:
        path = Path(text).expanduser()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
    return path


def unreachable(text: str, error: Exception) -> str:
    """The sentence about a path that local_path() refused."""
    shown = text if len(text) <= 80 else text[:77] + "..."
    return f"{shown!r} cannot be read: {getattr(error, 'strerror', None) or error}"


class Options:
    """The keys of one source's definition, read with errors that name the key."""

    def __init__(self, name: str, definition: Mapping[str, Any], where: str) -> None:
        self.where = f"{where}: repositories.{name}"
        self._definition = definition

    def error(self, key: str, sentence: str) -> UserError:
        """The UserError that says what is wrong with `key`."""
        return UserError(f"{self.where}.{key}: {sentence}")

    def allow(self, *keys: str) -> None:
        """Refuse every key but `source` and these."""
        for key in self._definition:
            if key != "source" and key not in keys:
                raise self.error(key, f"is no key of this source; it has {', '.join(keys)}")

    def text(self, key: str, default: str | None = None) -> str:
        """The string at `key`; an absent one without a default is an error."""
        value = self._definition.get(key, default)
        if value is None:
            raise self.error(key, "is missing")
        if not isinstance(value, str) or not value:
            raise self.error(key, f"must be a text that is not empty, not {value!r}")
        return value

    def path(self, key: str) -> Path:
        """The file or folder at `key`; ~ is the user's home, file:// is allowed before it."""
        text = self.text(key)
        try:
            return local_path(text)
        except UNREACHABLE as error:
            raise self.error(key, unreachable(text, error)) from error

    def check_file(self, key: str, path: Path) -> None:
        """A UserError where the file at `key` is none, or cannot be read."""
        if not path.is_file():
            what = "is no file" if path.exists() else "does not exist"
            raise self.error(key, f"{path} {what}")
        try:
            path.open("rb").close()
        except OSError as error:
            raise self.error(key, f"{path}: {error.strerror}") from error

    def tree(self) -> str | None:
        """The path inside the repository at `tree`, or None where there is no such key."""
        value = self._definition.get("tree")
        if value is not None and not isinstance(value, str):
            raise self.error("tree", f"must be a path inside the repository, not {value!r}")
        return None if value is None else value.strip("/")

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """The string at `key`, which is one of `choices`; absent, it is an error or the default."""
        value = self.text(key, default)
        if value not in choices:
            raise self.error(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def number(self, key: str, default: float) -> float:
        """The number at `key`."""
        value = self._definition.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, not {value!r}")
        return value

    def whole(self, key: str, default: int) -> int:
        """The whole number at `key`."""
        value = self.number(key, default)
        if value != int(value):
            raise self.error(key, f"must be a whole number, not {value!r}")
        return int(value)
