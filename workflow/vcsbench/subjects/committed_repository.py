"""Define the subject `committed_repository`: a private copy of a repository, to which a command commits."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import formats, server_user
from vcsbench.deployment import hooks
from vcsbench.errors import UserError
from vcsbench.storages.file_trees import copy_tree, remove_path
from vcsbench.storages.folder_states import join, walk
from vcsbench.storages.workdir import TARGETS, WorkDir
from vcsbench.subjects import Words
from vcsbench.subjects.folder_backup import FolderBackup
from vcsbench.subjects.repository import Repository
from vcsbench.systems import fsfs

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts

# The servers' group may write to the folders of the repository, and to files that are no revisions.
WRITABLE, WRITABLE_FILE, READABLE = 0o770, 0o660, 0o750


class CommittedRepository(Repository):
    """A repository to which the command commits: a private copy, made in one round, of a prepared copy.

    A run writes to the private copy only, and restore() puts the private copy back before a run. {repository}
    is its path. `base` is its youngest revision before a run, and 0 before restore(). `hooks` is the value of
    the axis `hooks`, and "" without the axis.
    """

    is_written = True

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Choose the prepared copy of round `number`, and set the paths of its private copy (restore).

        `run` is the cell's private folder in this round, and `root` the checkout of vcsbench. Raise UserError
        for a server on another machine.
        """
        super().__init__(recipe, number, run, root)
        # The recipe has this key only if the user's own server is measured, on another machine.
        if "remote" in recipe:
            raise UserError(
                f"{recipe['cell']}: vcsbench commits to its own copies only. Leave `server` out of the "
                f"configuration, or commits out of the grid."
            )
        workdir = WorkDir(recipe["storage"]["path"], root)
        # Such as /var/tmp/vcsbench-1a2b3c4d/targets/4711-repository, with the id of this process.
        self.private = workdir.make(TARGETS) / f"{os.getpid()}-repository"
        # The server serves a new folder, and not the folder of the prepared copies. check() puts an empty
        # repository into it, and restore() the private copy.
        self.path = self.private / "served" / self.name
        self.served = self.path.parent
        self.folders = [self.path]
        self.hooks = recipe.get("hooks", "")
        # The first restore() sets both: the youngest revision of the private copy before a commit, and the
        # backup that puts the copy back after a commit.
        self.base = 0
        self.backup: FolderBackup | None = None

    def check(self) -> None:
        """Check the prepared copy, and make the folder that the server serves, with an empty repository."""
        super().check()
        # A killed process with the same id may have left the folder.
        remove_path(self.private)
        self.path.parent.mkdir(parents=True)
        # Root's servers run as another user. Only they and this user may enter these folders.
        for folder in (self.private, self.path.parent):
            server_user.grant(folder, READABLE)
        # Requests to the empty repository show that the server refuses what its settings forbid.
        copy_tree(self.prepared.with_name(self.idle_name), self.path.with_name(self.idle_name))

    def restore(self) -> None:
        """Make the private copy before the first run, and put it back before each other run."""
        if self.backup is None:
            copy_tree(self.prepared, self.path)
            # If a user had locked a path in the repository, Subversion would refuse the commit.
            remove_path(self.path / "db" / "locks")
            hooks.install_hooks(self.path, self.hooks)
            self.base = fsfs.youngest(self.path)
            files_to_copy = self._grant_writing()
            self.backup = FolderBackup(self.path, self.private / "backup", files_to_copy)
        self.backup.put_back()

    def _grant_writing(self) -> list[str]:
        """Give root's servers, which run as another user, the right to commit.

        Return the files that the backup has to copy: all but the revisions, for example "db/current".
        """
        # A commit adds the files of its revision, and changes no file of an earlier revision. It also changes
        # files of no revision, such as db/current, db/txn-current and db/rep-cache.db.
        files_to_copy = []
        for folder, entries in walk(self.path):
            # No commit writes the hooks and the configuration, so servers get no right to write there.
            is_writable = folder not in ("hooks", "conf")
            server_user.grant(self.path / folder, WRITABLE if is_writable else READABLE)
            for name, status in entries:
                file = join(folder, name)
                # True for everything below db/revs and db/revprops.
                is_revision = fsfs.is_shard(file)
                if is_revision or not stat.S_ISREG(status.st_mode):
                    continue
                files_to_copy.append(file)
                if is_writable:
                    server_user.grant(self.path / file, WRITABLE_FILE)
        return files_to_copy

    def check_run(self) -> None:
        """Raise UserError if the run has committed, and a hook has not run."""
        missing = hooks.find_missing_marks(self.path, self.hooks)
        if missing and fsfs.youngest(self.path) > self.base:
            raise UserError(
                f"the hook {missing[0]} has not run, and the cell is labelled `hooks: {self.hooks}`. Use a "
                f"Subversion that runs hooks."
            )

    def grown_bytes(self) -> int:
        """Return the bytes of the files of revisions that the run has added."""
        shape = formats.read_shape(self.path)
        total = 0
        for revision in range(self.base + 1, shape.youngest + 1):
            # Such as 1/1234 in shards (folders) of 1,000 revisions.
            file = fsfs.revision_file(revision, shape.shard)
            for kind in ("revs", "revprops"):
                total += (self.path / "db" / kind / file).stat().st_size
        return total

    def discard(self) -> None:
        with suppress(UserError, OSError):
            remove_path(self.private)

    def idle_words(self) -> Words:
        # No repository: an idle command must not commit.
        return {"tree": ""}

    def facts(self) -> SubjectFacts:
        """Put the copy back after the last run, and return the facts. Raise UserError if it differs then."""
        if self.backup:
            self.backup.put_back()
        return super().facts()

    def flags(self) -> list[str]:
        # "apart" is about the place of the prepared copy on the disk. The private copy is in another place.
        return [flag for flag in super().flags() if flag != "apart"]
