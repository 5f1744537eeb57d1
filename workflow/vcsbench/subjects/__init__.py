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

    In each round, the cell calls check() first, restore() before each run, facts() and flags() after all
    runs, and discard() at the end.
    """

    # The bytes in `folders`; 0 if unknown.
    size: int = 0
    # The tree that the written tree has to equal, and the URL in the keywords of its files, such as
    # $HeadURL$. `urls` are other URLs that the keywords of the written tree may have.
    counterpart: tuple[Path, str] | None = None
    urls: Sequence[str] = ()
    # For an output: the subject that the command reads, and a function that returns the URL of its tree.
    input: Subject | None = None
    origin: Callable[[], str] | None = None
    # The folder that a server serves; None if no server can serve the subject. `name` is the subject's name
    # in this folder, and `idle_name` the name of a repository without content there.
    served: Path | None = None
    name: str = ""
    idle_name: str = ""
    # True if the command changes its input. restore() then puts the input back.
    is_written: bool = False
    # True if a run may leave files in its input, such as the entry of a work tree in a git repository.
    gets_traces: bool = False

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Set the attributes. check() makes the files of the subject, or checks them.

        `run` is the cell's private folder in round `number`, and `root` the checkout of vcsbench.
        """
        self.recipe = recipe
        self.number = number
        self.run = run
        self.root = root
        # The paths whose content is cleared from the page cache, and whose share in memory is recorded.
        self.folders: list[Path] = []

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """Return the outputs of Snakemake's rules that the subject needs, such as results/dumps/ruby.json."""
        return []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Return True if the subject needs a copy of a Subversion repository."""
        return False

    def check(self) -> None:
        """Raise UserError if the subject does not match the recipe."""

    def check_unchanged(self, closely: bool = False) -> None:
        """Raise UserError if the subject changed since check().

        `closely` is True after a failure: every file, and the mount of the file system, are then checked.
        """

    def prepare(self) -> int:
        """Make the templates that a guest needs, and return the bytes of the guest's file system."""
        return 0

    def words(self) -> Words:
        """Return the words that commands may use, such as {"tree": "trunk"} for {tree}."""
        return {}

    def idle_words(self) -> Words:
        """Return the words of an idle run: the command on something empty, such as an empty tree.

        In a cold cell, an idle run loads the client's own files into the cache, so that only the subject is
        cold. Return {} if there is no idle run.
        """
        return {}

    def restore(self) -> None:
        """Reset the subject before a run, outside the timed region."""

    def restore_after_idle_run(self) -> None:
        """Reset the subject after an idle run. A file that a timed run will read must not be read here."""
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
        """Return facts about the subject after the runs. They are stored with the results of the round."""
        return {}

    def flags(self) -> list[str]:
        """Return the flags (warnings) of all runs of the round, such as ["nothing-packed"]."""
        return []


def require_axes(subject: str, axes: Mapping[str, bool]) -> None:
    """Raise UserError for the first axis that `subject` needs and the study lacks.

    `axes` has True for an axis of the study: require_axes("a tree", {"repo": True, "filesystem": False}).
    """
    names = ", ".join(axes)
    for axis, is_in_study in axes.items():
        if not is_in_study:
            raise UserError(f"`axes`: {subject} needs {names}. The study has no {axis}. Add it.")


class FilesystemSubject(Subject):
    """A subject on `filesystem`: a folder of the user's, or a file system that is made for one round.

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
    """An output: the file or tree that a command writes. It is removed before each run.

    It is on the storage under test or in the scratch folder. {target} is its path. If several clients write
    at once, each has a {target} of its own, in one folder.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        super().__init__(recipe, number, run, root)
        # Such as /var/tmp/vcsbench-1a2b3c4d/targets/4711. No other process of this machine has this number.
        self.path = WorkDir(recipe["targets"], root).make(TARGETS) / str(os.getpid())
        self.folders = [self.path]

    def words(self) -> Words:
        path = self.path / CLIENT_NUMBER if "clients" in self.recipe else self.path
        return {"target": str(path)}

    def idle_words(self) -> Words:
        return self.words()

    def restore(self) -> None:
        remove_path(self.path)
        # A single client makes the path itself. Several clients need a folder for their paths.
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
