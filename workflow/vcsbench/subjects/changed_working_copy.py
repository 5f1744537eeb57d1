"""Define the subject `changed_working_copy`: a working copy with the change that a command commits."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.errors import UserError
from vcsbench.external import file_url, pegged
from vcsbench.programs import Programs
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.workdir import TARGETS, WorkDir
from vcsbench.subjects import Subject, Words
from vcsbench.subjects.committed_repository import CommittedRepository
from vcsbench.subjects.folder_backup import FolderBackup
from vcsbench.subjects.repository import scaled_revisions
from vcsbench.subjects.working_copy import DATABASE, list_working_files, set_root
from vcsbench.systems import fsfs
from vcsbench.systems.fsfs import run_client

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts

THOUSAND_FILES, LARGE_BINARY = "thousand-files", "large-binary"
THOUSAND = 1000
LARGE_BYTES = 50_000_000
# The start of the names of new files.
NEW = "vcsbench-new"
# The text that is added to other files. It has no line end: Subversion refuses files with mixed line ends.
ADDED_TEXT = b"changed by vcsbench"


class ChangedWorkingCopy(Subject):
    """A working copy of the repository to which the cell commits, with the same change before each run.

    {working_copy} is its path. The `change` one-file adds a text to the middle one of all files, sorted by
    path. thousand-files adds the text to 1,000 files that are spread evenly (the number is scaled), and adds
    new files if the tree has too few. large-binary adds a file of 48 MiB that cannot be compressed.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Set the paths. restore() makes the working copy.

        Raise UserError for a cell with the axis filesystem or clients: commits do not support these two.
        """
        for axis in ("filesystem", "clients"):
            if axis in recipe:
                raise UserError(
                    f"{recipe['cell']}: a command that commits has no axis {axis}. Name it in the command's "
                    f"`inapplicable_axes`."
                )
        super().__init__(recipe, number, run, root)
        self.change = recipe["change"]
        # Such as /var/tmp/vcsbench-1a2b3c4d/targets/4711-working-copy, with the id of this process.
        self.path = WorkDir(recipe["targets"], root).make(TARGETS) / f"{os.getpid()}-working-copy"
        self.working_copy = self.path / "changed"
        # An empty working copy without changes. A commit of it does nothing, but loads the client's own files
        # into the cache before a cold run.
        self.idle_copy = self.path / "idle"
        self.folders = [self.working_copy]
        self.client = Programs(**recipe["build"]["client"])
        # restore() sets the names of the changed files, and the backup of the state before a run.
        self.changed: Sequence[str] = ()
        self.backup: FolderBackup | None = None

    @property
    def repository(self) -> CommittedRepository:
        if not isinstance(self.input, CommittedRepository):
            raise UserError(
                "`output: changed_working_copy` needs `input: committed_repository`. Set both."
            )
        return self.input

    @property
    def inspected(self) -> Path:
        return self.repository.path

    def words(self) -> Words:
        return {"working_copy": str(self.working_copy)}

    def idle_words(self) -> Words:
        return {"working_copy": str(self.idle_copy)}

    def restore(self) -> None:
        """Make the working copy before the first run, and put it back before each other run."""
        if self.backup is None:
            self.backup = self._make_working_copy()
        self.backup.put_back()

    def _make_working_copy(self) -> FolderBackup:
        """Check out and change the working copy, set `changed`, and return a backup of the working copy.

        Also check out `idle_copy`, an empty working copy. The command runs on it before a cold run, so that
        the client's own files are in the cache.
        """
        # A killed process with the same id may have left this folder.
        remove_path(self.path)
        self.path.mkdir()
        # The checkouts read the repository from the disk, also in a cell with a server.
        root_url = file_url(self.repository.path)
        tree_path = f"/{self.repository.tree}".rstrip("/")
        options = ("-q", "--ignore-externals", f"-r{self.repository.base}")
        # Without a limit, the checkout of a very large tree could take hours.
        run_client(
            self.client,
            "checkout",
            *options,
            pegged(root_url + tree_path),
            self.working_copy,
            limit_s=self.recipe["time_limit_s"],
        )
        empty_options = ("-q", "--depth", "empty", "-r0")
        run_client(self.client, "checkout", *empty_options, pegged(root_url), self.idle_copy)
        if self.change == LARGE_BINARY:
            # Random bytes cannot be compressed. The fixed seed makes them the same in each round.
            self.changed = self._add_files(1, random.Random(1).randbytes(LARGE_BYTES))
        else:
            self.changed = self._change_files()
        # A commit goes to the URL in the working copy, which is still that of the checkout. origin() returns
        # the URL for the cell, such as svn://host:40123/x/trunk. Each cell that commits has an origin().
        assert self.origin
        root_url_of_cell = self.origin().removesuffix(tree_path)
        is_served = not root_url_of_cell.startswith("file:")
        if is_served:
            set_root(self.working_copy, root_url_of_cell)
        # A commit also changes the client's database, .svn/wc.db.
        files_to_copy = [DATABASE, *self.changed]
        return FolderBackup(self.working_copy, self.path / "backup", files_to_copy)

    def _list_files(self) -> list[str]:
        """Return the versioned files that can be changed, sorted by path."""
        files = []
        for name, _ in list_working_files(self.working_copy):
            path = self.working_copy / name
            # A link leads to another file. A file that needs a lock lacks the owner's right to write (0o200).
            if not path.is_symlink() and path.stat().st_mode & 0o200:
                files.append(name)
        return files

    def _change_files(self) -> list[str]:
        """Add a text to one file or to 1,000 files, and return the names of the changed files.

        The 1,000 are scaled with the history of the repository: 5 files at a scale of 0.005.
        """
        number = 1
        if self.change == THOUSAND_FILES:
            number = max(1, scaled_revisions(THOUSAND, self.recipe))
        files = self._list_files()
        # The list is divided into equal parts. The file in the middle of each part is changed, such as
        # files[2] and files[7] of 10 files in 2 parts.
        parts = min(number, len(files))
        changed = []
        for part in range(parts):
            middle = (2 * part + 1) * len(files) // (2 * parts)
            name = files[middle]
            with open(self.working_copy / name, "ab") as file:
                file.write(ADDED_TEXT)
            changed.append(name)
        return changed + self._add_files(number - parts, ADDED_TEXT)

    def _add_files(self, number: int, content: bytes) -> list[str]:
        """Add new files with a content to the top folder of the working copy, and return their names.

        Raise UserError if the repository has a file of such a name.
        """
        names = [f"{NEW}-{index + 1}" for index in range(number)]
        for name in names:
            path = self.working_copy / name
            if os.path.lexists(path):
                raise UserError(f"{name}: the repository has a file of this name. Rename it there.")
            path.write_bytes(content)
        if names:
            run_client(self.client, "add", "-q", *[self.working_copy / name for name in names])
        return names

    def check_run(self) -> None:
        """Raise UserError unless the run has committed one revision."""
        base = self.repository.base
        youngest = fsfs.youngest(self.repository.path)
        if youngest == base + 1:
            return
        done = "nothing" if youngest == base else f"{youngest - base} revisions"
        raise UserError(
            f"the run committed {done}: the youngest revision is {youngest}, and {base + 1} is expected. "
            f"Correct the command's `argv`."
        )

    def facts(self) -> SubjectFacts:
        """Return the change and the number of its files. Raise UserError if the last run left changes."""
        # After a commit of all changes, `svn status` prints nothing.
        options = ("-q", "--ignore-externals")
        changes = run_client(self.client, "status", *options, self.working_copy).splitlines()
        if changes:
            raise UserError(
                f"{self.working_copy}: has changes after the commit: {changes[0]} (and {len(changes) - 1} "
                f"more). Correct the command's `argv`."
            )
        return {"commit": {"change": self.change, "files": len(self.changed)}}

    def discard(self) -> None:
        with suppress(UserError, OSError):
            remove_path(self.path)
