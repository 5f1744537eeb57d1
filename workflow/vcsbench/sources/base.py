"""Define the interface of sources, and what all sources use: definitions, paths, errors and notes."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from vcsbench import words
from vcsbench.errors import UserError
from vcsbench.external import FILE_SCHEME, PATH_ERRORS, is_url, local_path, one_line
from vcsbench.formats import Shape
from vcsbench.history_forms import HistoryForm
from vcsbench.records import Head
from vcsbench.storages.file_trees import OddPaths, older_revision
from vcsbench.storages.filesystems import REFUSALS, free_bytes

# An entry of `repositories`. The configuration has checked its types (config.models).
Definition = Mapping[str, Any]
TRUNK = "trunk"


@dataclass(frozen=True)
class SizeEstimate:
    """A rough size, from before the preparation, for the choice of disk or RAM.

    `repository_bytes` is the size of the loaded repository, not packed. `has_revision_files` is True if each
    revision is a file of its own there, as in Subversion.
    """

    revisions: int
    repository_bytes: int
    has_revision_files: bool = True


@dataclass
class Facts:
    """Facts about a history that was written.

    - `revisions`: the youngest revision.
    - `notes`: sentences for reports on changes and omissions, with their counts.
    - `load_options`: the options without which `svnadmin load` refuses the history.
    - `bogus_dates`: the revisions whose date Subversion cannot read.
    - `busy_file`: the file of the tree that is changed most often, below the tree's path; "" if unknown.
    """

    revisions: int = 0
    notes: list[str] = field(default_factory=list)
    load_options: list[str] = field(default_factory=list)
    bogus_dates: list[int] = field(default_factory=list)
    busy_file: str = ""


def format_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a note for each count above 0: `Submodules left out: 3.` for {"Submodules left out": 3}."""
    return [f"{subject}: {number}." for subject, number in counts.items() if number]


class Source(Protocol):
    """A history that can be written as a dump stream or a stream for git, the same bytes each time.

    The methods that have a body here are defaults. A source replaces those that do not fit it.
    """

    kind: str
    # The name of the stage that a progress display shows.
    doing: str = "loading"

    @property
    def forms(self) -> frozenset[HistoryForm]:
        """The forms in which the source can give its history."""
        # Source.write_fast_import() only raises an error.
        has_git_stream = type(self).write_fast_import is not Source.write_fast_import
        if has_git_stream:
            return frozenset({HistoryForm.DUMP, HistoryForm.FAST_IMPORT})
        return frozenset({HistoryForm.DUMP})

    def identity(self) -> str:
        """Return a hex digest that changes when the history changes. This takes milliseconds.

        After later commits, write() writes the former state of a local repository, or raises UserError. After
        a change of a dump file or directory, check_unchanged() raises UserError. The digest of a URL of
        Subversion does not cover the history.
        """

    def check(self) -> None:
        """Raise UserError if the source has no usable history."""
        return

    def check_unchanged(self, identity: str) -> None:
        """Raise UserError if the source has another identity now."""
        return

    def scale(self) -> float:
        """Return the share of the published repository that is generated; 1.0 for a user's history."""
        return 1.0

    def describe(self) -> str:
        """Return one line for reports."""

    def estimate(self) -> SizeEstimate:
        """Return the estimated size, after seconds. Raise UserError for damage that these seconds show."""
        return self._estimate

    @cached_property
    def _estimate(self) -> SizeEstimate: ...

    def odd_paths(self, behind: int = 0) -> OddPaths:
        """Return the numbers of paths in the exported tree that no disk, or no working copy, can hold.

        The tree is that of `behind` revisions before the youngest. Unknown numbers are 0.
        """
        return OddPaths()

    def why_no_update(self, behind: int) -> str:
        """Return why no update can begin `behind` revisions before the youngest; "" if it can, or if unknown.

        The result is a clause without its subject, such as `has only 2 revisions, ...`.
        """
        return ""

    def expected_revisions(self) -> int:
        """Return the number of revisions that write() writes, as far as that is known yet."""
        return self.estimate().revisions

    def write(self, out: BinaryIO) -> Facts:
        """Write the dump stream. Raise UserError if the source turns out to be broken."""

    def write_fast_import(self, out: BinaryIO) -> Facts:
        """Write a stream for `git fast-import`. Raise UserError if the source has no such stream."""
        raise UserError(
            f"{self.describe()}: only a generated history and a git repository as it is (`history: as-is`) "
            "can be loaded into git. Use one of them."
        )

    def tree(self, loaded: Path) -> str:
        """Return the path in the repository that commands export or check out, such as trunk; "" is the root.

        `loaded` is a Subversion repository with this history. Raise UserError if the path is not in it.
        """
        return TRUNK

    def head(self) -> Head:
        """Return where a command can read the youngest tree of the source, without loading its history.

        Such as {"kind": "git", "path": "/srv/x", "commit": "0a4d..."}. Return {} for a dump file and a
        generated history: their tree exists only in a loaded repository.
        """
        return {}

    def read_layout(self) -> Shape | str:
        """Return the layout of the user's repository on disk, or a clause on why it is unknown."""
        return f"a source of kind {self.kind} has no format of Subversion's"

    def describe_place(self, revision: int) -> str:
        """Return where a dump file has a loaded revision; "" for other sources.

        Such as `revision 7 of /srv/x.dump, at byte 1,234 of the stream`.
        """
        return ""


def digest_values(*values: object) -> str:
    """Return a hex digest of values, in this order."""
    text = " ".join(map(str, values))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def is_server_url(text: str) -> bool:
    """Return True for a URL of a server, and False for a path or a URL of a local repository."""
    return is_url(text) and not text.startswith(FILE_SCHEME)


def describe_unreachable(text: str, error: Exception) -> str:
    """Return the sentence of an error for the path `text` and one of PATH_ERRORS.

    Such as `'/srv/x' cannot be read: Permission denied. Check the path and its permissions.`
    """
    short_path = text if len(text) <= 80 else text[:77] + "..."
    reason = getattr(error, "strerror", None) or error
    return f"{short_path!r} cannot be read: {reason}. Check the path and its permissions."


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Replace an OSError of the `with` block about a file that cannot be read by a UserError.

    The UserError names the file of the OSError, or `path` if the OSError has no file. An OSError about a full
    disk, or about a program that reads no more output, passes unchanged: the read file is not at fault.
    """
    try:
        yield
    except OSError as error:
        # REFUSALS has the numbers of errors for a full or read-only disk, on which the output is written.
        if isinstance(error, BrokenPipeError) or error.errno in REFUSALS:
            raise
        # After an error of a descriptor, `filename` is the descriptor's number, which helps no user.
        name = error.filename if isinstance(error.filename, str | bytes) else path
        fault = f"cannot be read: {error.strerror}. Check its path and its permissions."
        raise UserError(f"{one_line(name, 200)}: {fault}") from error


class Options:
    """The keys of one source's definition, such as {"source": "git", "path": "/srv/x"}."""

    def __init__(self, name: str, definition: Definition, where: str, *keys: str) -> None:
        """Raise UserError for a key other than `source` and `keys`.

        `where` is the file of the configuration, and `name` the name in its `repositories`.
        """
        self._prefix = f"{where}: `repositories.{name}"
        self._definition = definition
        for key in definition:
            if key != "source" and key not in keys:
                raise self.error(
                    key, f"this is no key of its source. Use one of {', '.join(keys)}."
                )

    def describe_key(self, key: str) -> str:
        """Return the place of a key for errors: config/config.yaml: `repositories.mine.path`"""
        return f"{self._prefix}.{key}`"

    def error(self, key: str, message: str) -> UserError:
        return UserError(f"{self.describe_key(key)}: {message}")

    def get_text(self, key: str) -> str:
        """Return the value of a key. Raise UserError if the key is missing."""
        if self._definition.get(key) is None:
            raise self.error(key, "the key is missing. Add it.")
        return str(self._definition[key])

    def get_path(self) -> Path:
        """Return the value of the key `path`, with ~ and file:// replaced (local_path).

        The path need not exist. Raise UserError for the URL of a server, and for a path that cannot be
        reached or is not UTF-8. Subversion and reports need UTF-8.
        """
        text = self.get_text("path")
        if is_server_url(text):
            raise self.error("path", "this is a URL. Give the path of a local repository or file.")
        try:
            path = local_path(text)
            # encode() is called only for its error about bytes that are not UTF-8.
            os.fspath(path).encode()
        except UnicodeEncodeError:
            # This error is a ValueError, one of PATH_ERRORS, so it is caught first.
            raise self.error("path", f"{text} is not UTF-8. Rename the file or folder.") from None
        except PATH_ERRORS as error:
            raise self.error("path", describe_unreachable(text, error)) from error
        return path

    def get_tree(self) -> str | None:
        """Return the value of `tree` without slashes around it; "" is the root, and None a missing key."""
        if self._definition.get("tree") is None:
            return None
        return self.get_text("tree").strip("/")


class LocalSource(Source):
    """A source at a local path, whose definition has the `keys`."""

    keys: tuple[str, ...] = ("path",)

    def __init__(self, name: str, definition: Definition, where: str) -> None:
        self._options = Options(name, definition, where, *self.keys)
        self._path = self._options.get_path()
        self._tree = self._options.get_tree()

    def check_unchanged(self, identity: str) -> None:
        if self.identity() != identity:
            raise self.changed_error()

    def changed_error(self) -> UserError:
        return self._path_error("changed since this run began. Run again.")

    def _path_error(self, what: str) -> UserError:
        return self._options.error("path", f"{self._path} {what}")

    def _check_exists(self) -> None:
        if not self._path.exists():
            raise self._path_error("does not exist. Check the path.")

    def estimate(self) -> SizeEstimate:
        with readable(self._path):
            return self._estimate

    def why_no_update(self, behind: int) -> str:
        revisions = self.estimate().revisions
        # With equal revisions, nothing would be updated under the label of an update.
        if older_revision(revisions, behind) < revisions:
            return ""
        return (
            f"has only {words.count_of(revisions, 'revision')}, so an update has nothing to fetch"
        )


def check_space(need: int, folder: Path, where: str) -> None:
    """Raise UserError if a tree of `need` bytes does not fit into a folder. `where` is the tree's source."""
    free = free_bytes(folder)
    if need > free:
        raise UserError(
            f"{where}: its tree has {words.size(need)}, and {folder} has {words.size(free)} free. Name "
            "another folder in `storages`, or give a smaller tree."
        )
