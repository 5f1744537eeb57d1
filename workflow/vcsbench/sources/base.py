"""Define the interface of sources, and what all sources use: definitions, programs and compressed files."""

import contextlib
import gzip
import hashlib
import io
import lzma
import os
import stat
import urllib.parse
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.external import is_url, one_line, open_regular
from vcsbench.formats import Shape
from vcsbench.processes import Program
from vcsbench.records import Head
from vcsbench.storages.file_trees import OddPaths
from vcsbench.storages.filesystems import REFUSALS, free_bytes

FILE_SCHEME = "file://"
Definition = Mapping[str, Any]
UNREACHABLE = (OSError, ValueError, RuntimeError)
TRUNK = "trunk"
MAGICS = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class SizeEstimate:
    """A rough size, from before the preparation, for the choice of disk or RAM.

    `repository_bytes` is the size of the loaded repository, not packed. `files` and `tree_bytes` are those
    of the youngest revision's export, 0 if unknown.
    """

    revisions: int
    repository_bytes: int
    files: int = 0
    tree_bytes: int = 0


@dataclass
class Facts:
    """The youngest revision, notes on changes and omissions with their counts, the options without which
    `svnadmin load` refuses the history, and the revisions whose date Subversion cannot read.
    """

    revisions: int = 0
    notes: list[str] = field(default_factory=list)
    load_options: list[str] = field(default_factory=list)
    bogus_dates: list[int] = field(default_factory=list)


def notes_of(counts: Mapping[str, int]) -> list[str]:
    return [f"{what}: {number}." for what, number in counts.items() if number]


class Source(Protocol):
    """A history that can be written as a dump stream, the same bytes each time.

    The methods with a body fit a user's source.
    """

    kind: str
    doing: str = "loading"

    def identity(self) -> str:
        """Return a hex digest that changes when the history changes. Takes milliseconds."""

    def check(self) -> None:
        """Raise UserError if there is no usable history."""
        return

    def check_unchanged(self, identity: str) -> None:
        """Raise UserError if the source has another identity now.

        After a call of identity(), write() writes just that state of a repository, and ignores later commits.
        """
        return

    def check_history(self) -> None:
        """Raise UserError if old parts of the history are missing, as far as seconds show it."""
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

    def odd_paths(self, behind: int = 0) -> OddPaths:
        """Return the numbers of odd paths in the exported tree, `behind` revisions before the youngest; 0 if
        unknown.
        """
        return OddPaths()

    def coming(self) -> int:
        """Return the number of revisions that write() writes, as far as that is known yet."""
        return self.estimate().revisions

    def write(self, out: BinaryIO) -> Facts:
        """Write the dump stream. Raise UserError if the source turns out to be broken."""

    def tree(self, loaded: Path) -> str:
        """Return the path in the repository that export exports; "" is the root.

        `loaded` is a Subversion repository with this history. Raise UserError if the path is not in it.
        """

    def head(self) -> Head:
        """Return the place of the youngest tree without the history, as plain data with a `kind`.

        Return {} if only a loaded repository has it.
        """
        return {}

    def stored(self) -> Shape | str:
        """Return the layout of the user's repository on disk, or a clause on why it is unknown."""
        return f"a source of kind {self.kind} has no format of Subversion's"

    def place(self, revision: int) -> str:
        """Return the place in the source of the revision that is loaded as `revision`; "" for the same
        number.
        """
        return ""


def digest_of(*words: object) -> str:
    text = " ".join(map(str, words))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def digest_of_file(kind: str, path: Path) -> str:
    state = path.stat()
    return digest_of(kind, path.resolve(), state.st_size, state.st_mtime_ns)


def is_server_url(text: str) -> bool:
    """Return True for a URL of a server, and False for a path or a URL of a local repository."""
    return is_url(text) and not text.startswith(FILE_SCHEME)


def local_path(text: str) -> Path:
    """Return a path as the user wrote it, with ~ and file://. It need not exist.

    Raise one of UNREACHABLE without permission, for an unknown user, or for an impossible name.
    """
    if text.startswith(FILE_SCHEME):
        plain = Path(text.removeprefix(FILE_SCHEME).removeprefix("localhost"))
        if not plain.is_absolute():
            raise ValueError("a path behind file:// begins with a slash")
        path = plain if plain.exists() else Path(urllib.parse.unquote(os.fspath(plain)))
    else:
        path = Path(text).expanduser()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
    return path


def unreachable(text: str, error: Exception) -> str:
    shown = text if len(text) <= 80 else text[:77] + "..."
    reason = getattr(error, "strerror", None) or error
    return f"{shown!r} cannot be read: {reason}. Check the path and its permissions."


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise UserError for a file that cannot be read. Errors in writing pass."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.errno in REFUSALS:
            raise
        name = error.filename if isinstance(error.filename, str | bytes) else path
        why = f"cannot be read: {error.strerror}. Check its path and its permissions."
        raise UserError(f"{one_line(name, 200)}: {why}") from error


def is_closed(path: Path, below: Iterable[os.DirEntry[str]] = ()) -> bool:
    """Return True if others cannot reach and read a file or folder, or one of the entries below it."""
    place = Path(os.path.realpath(path))
    if any(not folder.stat().st_mode & stat.S_IXOTH for folder in place.parents):
        return True
    return not can_others_read(place.stat()) or any(
        is_closed(Path(entry.path)) if entry.is_symlink() else not can_others_read(entry.stat())
        for entry in below
    )


def can_others_read(state: os.stat_result) -> bool:
    needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(state.st_mode) else 0)
    return state.st_mode & needed == needed


class Options:
    """The keys of one source's definition. The configuration checks types, numbers and choices."""

    def __init__(self, name: str, definition: Definition, where: str, *keys: str) -> None:
        """Raise UserError for a key other than `source` and `keys`."""
        self._keys = f"{where}: `repositories.{name}"
        self._definition = definition
        for key in definition:
            if key != "source" and key not in keys:
                raise self.error(
                    key, f"this is no key of its source. Use one of {', '.join(keys)}."
                )

    def place_of(self, key: str) -> str:
        return f"{self._keys}.{key}`"

    def error(self, key: str, message: str) -> UserError:
        return UserError(f"{self.place_of(key)}: {message}")

    def text(self, key: str) -> str:
        if self._definition.get(key) is None:
            raise self.error(key, "the key is missing. Add it.")
        return str(self._definition[key])

    def path(self) -> Path:
        """Return the path; see local_path(). Subversion and reports need UTF-8."""
        text = self.text("path")
        if is_server_url(text):
            raise self.error("path", "this is a URL. Give the path of a local repository or file.")
        try:
            path = local_path(text)
            os.fspath(path).encode()
        except UnicodeEncodeError:
            raise self.error("path", f"{text} is not UTF-8. Rename the file or folder.") from None
        except UNREACHABLE as error:
            raise self.error("path", unreachable(text, error)) from error
        return path

    def tree(self) -> str | None:
        is_given = self._definition.get("tree") is not None
        return self.text("tree").strip("/") if is_given else None


class LocalSource(Source):
    """A source at a local path, whose definition has the `keys`."""

    keys: tuple[str, ...] = ("path",)

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where, *self.keys)
        self._path = self._options.path()
        self._tree = self._options.tree()

    def check_unchanged(self, identity: str) -> None:
        if self.identity() != identity:
            raise self.changed()

    def changed(self) -> UserError:
        return self._wrong("changed since this run began. Run again.")

    def _wrong(self, what: str) -> UserError:
        return self._options.error("path", f"{self._path} {what}")

    def _check_file(self) -> None:
        if not self._path.is_file():
            what = "is no file" if self._path.exists() else "does not exist"
            raise self._wrong(f"{what}. Check the path.")
        try:
            self._path.open("rb").close()
        except OSError as error:
            raise self._options.error("path", unreachable(os.fspath(self._path), error)) from error

    def estimate(self) -> SizeEstimate:
        with readable(self._path):
            return self._estimate


def check_space(need: int, folder: Path, where: str) -> None:
    free = free_bytes(folder)
    if need > free:
        raise UserError(
            f"{where}: its tree has {words.size(need)}, and {folder} has {words.size(free)} free. Name "
            "another folder in `storages`, or give a smaller tree."
        )


def compression(path: Path) -> str:
    start = read_start(path, 8)
    return next((name for magic, name in MAGICS.items() if start.startswith(magic)), "")


def read_start(path: Path, length: int) -> bytes:
    """Return the first bytes of a regular file."""
    with open(open_regular(path), "rb") as file:
        # Files of the kernel that block or never end, such as /proc/kmsg, have the size 0.
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return file.read(length)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield the decompressed content of a file.

    Reading a damaged file raises one of DAMAGED, or UserError from the program zstd.
    """
    kind = compression(path)
    if kind != "zstd":
        with open(open_regular(path), "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                yield io.BytesIO()  # see read_start()
                return
            decompress: Any = {"gzip": gzip.open, "xz": lzma.open}.get(kind)
            yield decompress(file, "rb") if decompress else file
        return
    try:
        zstd = Program(["zstd", "-dcq", os.path.abspath(path)], f"{path}: zstd failed")
    except UserError as error:
        raise UserError(
            f"{path}: only the program zstd can read it. Install the package zstd, or decompress the file."
        ) from error
    with zstd as program:
        yield program.stdout
        if program.stdout.read(1):
            program.process.kill()
        else:
            program.finish()
