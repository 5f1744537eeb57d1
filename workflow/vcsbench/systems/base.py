"""Define the interface of a version control system, and of its repositories on disk."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from vcsbench.external import read_number
from vcsbench.history_forms import HistoryForm
from vcsbench.storages import folder_states
from vcsbench.storages.folder_states import StoredFile

if TYPE_CHECKING:
    from vcsbench.records import Access, RecipeRepository


# The file with the number of commits, next to a repository's own files: the system would have to count them.
COMMITS = "vcsbench-commits"
MOST_COMMITS = 1 << 40
# About as many revisions of a history count for one step of a copy in a system with few files. A packed
# repository of Subversion has as many in a shard.
REVISIONS_PER_STEP = 1000


def keep_commit_count(path: Path, commits: int) -> None:
    (path / COMMITS).write_text(f"{commits}\n")


def read_commit_count(path: Path) -> int:
    """Return the number of commits of a repository. Raise OSError or UserError if it cannot be read."""
    return read_number(path / COMMITS, MOST_COMMITS)


class Steps(NamedTuple):
    """The steps in which the files of a repository were written, such as its revisions, numbered from 0.

    - `kind`, such as "packed": only repositories of one kind have the same steps, and are compared.
    - `ends`: by kind, a number of steps. All copies of the kind take a sample of the steps below it.
    - `last`: the last step of this repository. `file` returns the path of a step's file.
    """

    kind: str
    ends: Mapping[str, int]
    last: int
    file: Callable[[int], Path]


class Store:
    """The repositories of a system on disk. A format and a state, such as f7 and pack, describe each."""

    def create_empty(self, path: Path) -> None:
        """Make a repository without content, on which a command does nothing."""
        raise NotImplementedError

    def mismatch(self, path: Path, fmt: str, state: str, last: int | None = None) -> str:
        """Return the first difference between a repository and its label, as a clause; "" if there is none.

        The label is the format `fmt`, such as f7, and the `state`, such as pack. `last` is the expected
        youngest revision or number of commits, None for any. A repository that cannot be read differs, too:
        nothing is raised.
        """
        raise NotImplementedError

    def facts(self, path: Path) -> dict[str, Any]:
        """Return facts for results, such as {"youngest": 2762}. Raise OSError, ValueError or UserError."""
        raise NotImplementedError

    def list_files(self, path: Path) -> list[StoredFile]:
        """Return the files of a repository in the order in which a server would have written them."""
        raise NotImplementedError

    def finish_copy(self, path: Path, files: Sequence[StoredFile]) -> None:
        """Complete a new copy, whose files are written already. By default, there is nothing to do.

        `files` are the files of the copy's source (list_files). For git, the times of packs matter. For
        Fossil, the copy becomes read-only.
        """

    def is_sampled(self, folder: str) -> bool:
        """Return True for one of many equal folders, of which only a sample is checked for changes."""
        return False

    def changed_folder(self, path: Path, state: dict[str, str], sample: int | None = None) -> str:
        """Return the first folder that was changed since `state` was read (read_state); "" if none was.

        Of the folders for which is_sampled() is True, only `sample` random ones are checked; None: all.
        """
        return folder_states.changed_folder(path, state, self.is_sampled, sample)

    def steps(self, path: Path) -> Steps:
        """Return the steps of a repository. Raise OSError, ValueError or UserError if it cannot be read."""
        raise NotImplementedError


def regular_files(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name of each file of a repository, as a path below it, and its state.

    Raise OSError for a link, a pipe or a device: no system makes one, and its copy could not be verified.
    """
    for folder, entries in folder_states.walk(path):
        for name, status in entries:
            relative = folder_states.join(folder, name)
            if stat.S_ISREG(status.st_mode):
                yield relative, status
            elif not stat.S_ISDIR(status.st_mode):
                raise OSError(f"{path / relative} is neither a file nor a folder")


class FileStore(Store):
    """Repositories of plain files: a server reads them in no particular order."""

    def list_files(self, path: Path) -> list[StoredFile]:
        """Return the files, sorted by time and name. The step of a file is its place in this order."""
        files = sorted(regular_files(path), key=lambda file: (file[1].st_mtime_ns, file[0]))
        return [
            StoredFile(step, name, status.st_size, status.st_mode & 0o777)
            for step, (name, status) in enumerate(files)
        ]

    def steps(self, path: Path) -> Steps:
        """Return a step for each file."""
        files = self.list_files(path)
        kind = f"{len(files)} files"
        ends = {kind: len(files)}
        return Steps(kind, ends, last=len(files) - 1, file=lambda step: path / files[step].name)


class System:
    """A version control system, such as Subversion."""

    # The name in recipes, the name in texts, and the name of one of its versions of a history.
    name = ""
    title = ""
    unit = "revision"
    # The programs on the PATH, the client first, and those without which nothing of the system is measured.
    programs: Sequence[str] = ()
    required_programs: Sequence[str] = ()
    # The keys of a recipe's repository that decide on the format and the state of a copy, the last one on the
    # state.
    axes: Sequence[str] = ()
    # The repository without content, next to the copies.
    empty_name = "empty"
    # The repositories on disk.
    store: Store
    # The ways to reach a repository, by the values of the axis `access`.
    accesses: ClassVar[Mapping[str, Access]] = {}
    # The programs that a server of each kind runs, as in the names of digests.
    servers: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # The forms of a history that the system can load. By default, it converts a history that git has loaded.
    loadable_forms: frozenset[HistoryForm] = frozenset({HistoryForm.FAST_IMPORT})

    def has_format(self, fmt: str) -> bool:
        raise NotImplementedError

    def stored_as(self, repository: RecipeRepository) -> tuple[str, str]:
        """Return the format and the state of a recipe's repository, such as ("f7", "pack")."""
        raise NotImplementedError

    def describe(self, fmt: str, state: str) -> dict[str, str]:
        """Return the keys of results for a format and a state: {"format": "f7", "packing": "pack"}."""
        raise NotImplementedError

    def why_not_loaded(self, name: str, source_kind: str) -> str:
        """Return why a source without one of `loadable_forms` cannot be loaded, in a clause with the remedy.

        `name` is that of the repository, and `source_kind` that of its source, such as "dump".
        """
        return (
            f"{self.title} cannot load {name}, only a generated history; measure such a repository"
        )

    def estimate_steps(self, state: str, revisions: int) -> int:
        """Return about how many steps (Store.steps) a copy in a state has. By default, files are few."""
        return math.ceil(revisions / REVISIONS_PER_STEP)

    def name_on_server(self, name: str) -> str:
        """Return the name that a URL has for the repository in a folder, such as a copy."""
        return name

    def is_made(self, state: str) -> bool:
        """Return True if a repository gets a state after it was loaded, from the loaded one."""
        raise NotImplementedError

    def size_factor(self, state: str) -> float:
        """Return about how many times as large as the loaded repository one in a state is. By default, 1."""
        return 1.0
