"""Subjects: the input and output of a cell's command, such as a repository or a tree."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.storages.cell_filesystem import CellFilesystem
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import TARGETS, WorkDir

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts, TreeRecord

# The words of commands, with their values or a function that returns them.
Word = str | Sequence[str]
Words = dict[str, Word | Callable[[], Word]]
# A placeholder in words: the number of the client, if several run at once.
CLIENT_NUMBER = "@CLIENT@"
TEMPORARY_PREFIX = "making-"
# Mean overhead of a file on disk: half a block and an inode.
OVERHEAD_BYTES = 4096
PYTHONPATH = str(Path(__file__).parents[2])


class Subject:
    """The subject of round `number`. `run` is the private folder of the cell-round, `root` the checkout.

    - `folders`: cleared from caches, and checked for residency. `size`: their bytes, 0 if unknown.
    - `counterpart`: the tree that a written tree has to equal, and the URL in its keywords.
    - `input`: the subject that the cell reads, if this one is written. `urls`: other URLs in keywords.
    - `origin` returns the URL of the tree that the cell reads.
    - `served`: the folder that a server serves. `name`: the name of the subject below it.
    """

    size: int = 0
    counterpart: tuple[Path, str] | None = None
    origin: Callable[[], str] | None = None
    input: Subject | None = None
    urls: Sequence[str] = ()
    served: Path | None = None
    name: str = ""

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        self.recipe = recipe
        self.number = number
        self.run = run
        self.root = root
        self.folders: list[Path] = []

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """Return the files of the rules that prepare the subject, relative to the checkout."""
        return []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        return False

    def check(self) -> None:
        """Raise UserError if the subject does not match the recipe."""

    def check_unchanged(self, closely: bool = False) -> None:
        """Raise UserError if the subject changed since check().

        `closely`: after a failure, with every file and with the mount of the file system.
        """

    def prepare(self) -> int:
        """Prepare the input of a guest on the host. Return the bytes that its file system needs."""
        return 0

    def words(self) -> Words:
        return {}

    def idle_words(self) -> Words:
        """Return words for a run that does nothing, which loads a cold client's own files into the cache.

        Empty if the kind has no such run.
        """
        return {}

    def restore(self) -> None:
        """Reset the subject before a run, outside the timed region."""

    def parts(self) -> dict[str, list[Path]]:
        """Return paths whose residency is recorded by itself, by the name of the part."""
        return {}

    def discard(self) -> None:
        """Remove the files of the cell-round."""

    def facts(self) -> SubjectFacts:
        return {}

    def flags(self) -> list[str]:
        return []


def require_axes(subject: str, axes: Mapping[str, bool]) -> None:
    """Raise UserError for the first axis that the study lacks."""
    for axis, is_there in axes.items():
        if not is_there:
            names = ", ".join(axes)
            raise UserError(f"`axes`: {subject} needs {names}. The study has no {axis}. Add it.")


class FilesystemSubject(Subject):
    """A subject on a file system of the cell-round: `filesystem`.

    content_bytes() prepares the templates of its files, and returns the bytes of these.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        self.filesystem = CellFilesystem(recipe["filesystem"], root)

    def content_bytes(self) -> int:
        raise NotImplementedError

    def prepare(self) -> int:
        return self.filesystem.size_for(self.content_bytes())

    def check(self) -> None:
        self.filesystem.open(self.content_bytes())

    def check_unchanged(self, closely: bool = False) -> None:
        if closely:
            self.filesystem.check()

    def discard(self) -> None:
        self.filesystem.close()

    def flags(self) -> list[str]:
        return self.filesystem.flags()


class Target(Subject):
    """A file or tree that is removed before each run, on the storage under test or in the scratch folder.

    {target} is its path. Several clients write at once: each has a path of its own in one folder.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        self.path = WorkDir(recipe["targets"], root).make(TARGETS) / str(os.getpid())
        self.folders = [self.path]

    def words(self) -> Words:
        path = self.path / CLIENT_NUMBER if "clients" in self.recipe else self.path
        return {"target": str(path)}

    def idle_words(self) -> Words:
        return self.words()

    def restore(self) -> None:
        remove_path(self.path)
        if "clients" in self.recipe:
            self.path.mkdir()

    def discard(self) -> None:
        with suppress(UserError, OSError):
            remove_path(self.path)


def run_sources(*arguments: str) -> list[str]:
    """Run sources.main, and return the lines that it prints. Raise UserError with its last line if it fails.

    It is a process, so that a change of the code of sources makes no result stale.
    """
    program = "import sys; from vcsbench import sources; sources.main(*sys.argv[1:])"
    done = processes.run_program(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        may_fail=True,
    )
    if done.code:
        lines = done.errors.strip().splitlines()
        raise UserError(lines[-1] if lines else f"{arguments[0]}: exit code {done.code}")
    return done.output.splitlines()


def make_template(
    path: Path, make: Callable[[Path, Path], TreeRecord], check_sizes: bool = False
) -> TreeRecord:
    """Return the record of a template, which `make` makes unless it is complete.

    The record is written last, next to the template. `make` gets the path and a private folder.
    `check_sizes`: make the template again if its sizes changed.
    """
    file = path.with_name(f"{path.name}.json")
    record = cast("TreeRecord", read_json(file))
    is_complete = path.exists() and "entries" in record
    if is_complete and not (check_sizes and not _sizes(path).items() <= record.items()):
        return record
    file.unlink(missing_ok=True)
    for leftover in (path, *path.parent.glob(f"{TEMPORARY_PREFIX}*")):
        remove_path(leftover)
    with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=path.parent) as temporary:
        facts = make(path, Path(temporary))
    record = {"path": str(path), **_sizes(path), **facts}
    write_json(file, record)
    return record


def _sizes(path: Path) -> TreeRecord:
    """Return entries (1 for a file), approximate bytes on disk, and bytes of content."""
    status = [os.lstat(path)]
    if path.is_dir():
        status = [
            os.lstat(os.path.join(folder, name))
            for folder, folders, names in os.walk(path)
            for name in (*folders, *names)
        ]
    return {
        "entries": len(status),
        "bytes": sum(s.st_size + OVERHEAD_BYTES for s in status),
        "content_bytes": sum(s.st_size for s in status if stat.S_ISREG(s.st_mode)),
    }
