"""Define subjects: the input and output of a cell's command, such as a repository or a tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.axis_names import SYSTEM_AXIS
from vcsbench.errors import UserError
from vcsbench.storages.cell_filesystem import CellFilesystem
from vcsbench.storages.file_trees import allocated_bytes, remove_path
from vcsbench.storages.workdir import TARGETS, WorkDir

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts

# The words of commands, with their values or a function that returns them. Example: {"tree": "trunk", "svn":
# ["/usr/bin/svn", "--non-interactive"]}.
Word = str | Sequence[str]
Words = dict[str, Word | Callable[[], Word]]
# A placeholder in words: the number of the client, if several run at once.
CLIENT_NUMBER = "@CLIENT@"


class Subject:
    """The data that a cell's command reads or writes in a round, such as a copy of a repository.

    The cell calls check(), before each run restore(), after all runs facts() and flags(), and discard().
    """

    # The bytes in `folders`; 0 if unknown.
    size: int = 0
    # The tree that a written tree has to equal, and the URL in its keywords. `urls`: other URLs in keywords.
    counterpart: tuple[Path, str] | None = None
    urls: Sequence[str] = ()
    # Of a subject that is written: the subject that the cell reads, and a function for the URL of its tree.
    input: Subject | None = None
    origin: Callable[[], str] | None = None
    # The folder that a server serves; None without a server. `name`: the subject below this folder,
    # `idle_name`: a repository without content there.
    served: Path | None = None
    name: str = ""
    idle_name: str = ""
    # The command changes its input, and restore() puts the input back.
    is_written: bool = False
    # A run may leave files in its input, such as the entry of a work tree in a git repository.
    gets_traces: bool = False

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Set the attributes. check() makes the files of the subject, or checks them.

        `recipe` has everything that the measurement of the cell depends on. `run` is the cell's private
        folder in round `number`, and `root` the checkout.
        """
        self.recipe = recipe
        self.number = number
        self.run = run
        self.root = root
        # Paths that are cleared from caches, and whose share in memory is queried.
        self.folders: list[Path] = []

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """Return the files of the Snakemake rules that prepare the subject, relative to the checkout."""
        return []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Return True if the subject needs a copy of a Subversion repository."""
        return False

    def check(self) -> None:
        """Raise UserError if the subject does not match the recipe."""

    def check_unchanged(self, closely: bool = False) -> None:
        """Raise UserError if the subject changed since check().

        `closely`: after a failure, with every file and with the mount of the file system.
        """

    def prepare(self) -> int:
        """Make the templates that a guest (a virtual machine) needs. Return the bytes of its file system."""
        return 0

    def words(self) -> Words:
        """Return the words that commands may use, such as {tree}."""
        return {}

    def idle_words(self) -> Words:
        """Return the words of commands for a run that does nothing, such as on an empty tree; {} without one.

        In a cold cell, such a run loads the client's own files into the cache, so that only the subject is
        cold.
        """
        return {}

    def restore(self) -> None:
        """Reset the subject before a run, outside the timed region."""

    def restore_after_idle_run(self) -> None:
        """Reset the subject after a run that does nothing. What a timed run reads must not be read here."""
        self.restore()

    def check_run(self) -> None:
        """Raise UserError if the timed run that has ended did not do what its cell's label says."""

    def grown_bytes(self) -> int:
        """Return the bytes of the files that the run which has ended added to the subject."""
        return 0

    @property
    def inspected(self) -> Path:
        """The path whose content shows the work of a run."""
        return self.folders[0]

    def parts(self) -> dict[str, list[Path]]:
        """Return the parts whose shares in memory are recorded: {"database": [Path("/x/.svn/wc.db")]}."""
        return {}

    def discard(self) -> None:
        """Remove the files of the cell-round, also after a check() that failed."""

    def facts(self) -> SubjectFacts:
        """Return facts about the subject after the runs, for the context: the file about a cell-round."""
        return {}

    def flags(self) -> list[str]:
        """Return the flags of all runs of the cell-round, such as "nothing-packed"."""
        return []


def require_axes(subject: str, axes: Mapping[str, bool]) -> None:
    """Raise UserError for the first axis that the study lacks.

    `axes` has True for an axis of the study. Example: require_axes("a tree", {"repo": True, "filesystem":
    False}).
    """
    names = ", ".join(axes)
    for axis, is_in_study in axes.items():
        if not is_in_study:
            raise UserError(f"`axes`: {subject} needs {names}. The study has no {axis}. Add it.")


class FilesystemSubject(Subject):
    """A subject on a file system of the cell-round: `filesystem`.

    content_bytes() makes the templates of the subject's files, and returns the bytes of these files.
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

    {target} is its path. If several clients write at once, each has a {target} of its own, in one folder.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        # The recipe's `targets` is the configured folder for outputs, such as /var/tmp. The path is then
        # /var/tmp/vcsbench-1a2b3c4d/targets/4711: no other process of this machine has the same number.
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

    def facts(self) -> SubjectFacts:
        # Counting takes time for a large tree. Only a study that compares systems needs the bytes.
        if SYSTEM_AXIS not in self.recipe["axes"]:
            return {}
        return {"kept_bytes": allocated_bytes(self.path)}

    def discard(self) -> None:
        # The next workflow run tries again (workdir.remove_abandoned).
        with suppress(UserError, OSError):
            remove_path(self.path)
