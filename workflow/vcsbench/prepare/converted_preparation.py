"""Load a source into a repository of Mercurial or Fossil, by way of git, and verify it."""

import threading
import time
from pathlib import Path

from vcsbench import processes, progress
from vcsbench.errors import UserError
from vcsbench.prepare.git_preparation import import_history
from vcsbench.prepare.preparation import Preparation, Task, describe_load
from vcsbench.records import LoadRecord
from vcsbench.sources import Source
from vcsbench.storages.file_trees import remove_path
from vcsbench.systems import system_of
from vcsbench.systems.base import keep_commit_count
from vcsbench.systems.fossil import FOSSIL_FILE, FOSSIL_USER, fossil_environment, run_fossil
from vcsbench.systems.git_program import run_git, start_git
from vcsbench.systems.mercurial import run_hg
from vcsbench.systems.plain_system import PLAIN_FORMAT


class ConvertedPreparation(Preparation):
    """The preparation of a system that reads git's history.

    `_convert` makes a repository from git's, and `_verify` checks one.
    """

    def load(self, source: Source, fmt: str, staging: Path) -> LoadRecord:
        """Load a source into a git repository, convert that to the format `fmt`, and verify the result.

        The result is the repository <fmt>.plain in the folder `staging`, such as hg.plain. Raise UserError if
        a step fails, or if the result is no repository of the format.
        """
        begun = time.monotonic()
        path = staging / f"{fmt}.{PLAIN_FORMAT}"
        git_repository = staging / "history.git"
        try:
            with progress.stage(source.doing, unit="commits"):
                facts = import_history(source, git_repository)
            commits = int(run_git(git_repository, "rev-list", "--count", "--all"))
            with progress.stage(f"converting to {fmt}"):
                self._convert(git_repository, path)
            with progress.stage("verifying"):
                self._verify(path)
        finally:
            remove_path(git_repository)
        # mismatch() and later checks of copies read the number in the repository.
        keep_commit_count(path, commits)
        record = describe_load(source, facts, PLAIN_FORMAT, commits, begun)
        mismatch = system_of(fmt).store.mismatch(path, fmt, PLAIN_FORMAT)
        if mismatch:
            raise UserError(f"{path}: was loaded, but {mismatch}.")
        return record

    def list_tasks(self, folder: Path, fmt: str, stop: threading.Event) -> list[Task]:
        # Copies are made while tasks run. A verification writes into the repository, so load() verifies.
        return []

    def _convert(self, git: Path, path: Path) -> None:
        raise NotImplementedError

    def _verify(self, path: Path) -> None:
        raise NotImplementedError


class MercurialPreparation(ConvertedPreparation):
    """Mercurial's own extension `convert` reads git. Branches become bookmarks."""

    def _convert(self, git: Path, path: Path) -> None:
        options = ("convert", "--quiet", "--source-type", "git", "--dest-type", "hg")
        run_hg(*options, git, path, settings=["extensions.convert="])
        # Only a later conversion would read this map of commits.
        remove_path(path / ".hg" / "shamap")
        # Without its caches, a server that may not write them would compute them for each request.
        run_hg("debugupdatecaches", "-R", path)

    def _verify(self, path: Path) -> None:
        run_hg("verify", "--quiet", "-R", path)


class FossilPreparation(ConvertedPreparation):
    """Fossil reads the stream of `git fast-export`."""

    def _convert(self, git: Path, path: Path) -> None:
        path.mkdir()
        argv = ["fossil", "import", "--git", str(path / FOSSIL_FILE), "-A", FOSSIL_USER]
        # Fossil writes a user's settings to its home, which must not be in the repository that is copied.
        home = path.parent
        failure = f"{path}: fossil import failed"
        with start_git(git, "fast-export", "--all", "--signed-tags=strip") as exporter:
            with processes.Program(
                argv, failure, env=fossil_environment(home), stdin=exporter.stdout
            ) as importer:
                importer.read_all()
            exporter.finish()
        # The import stores each version of a file in full. The rebuild makes the repository smaller.
        run_fossil(home, "rebuild", path / FOSSIL_FILE, "--compress", "--vacuum")

    def _verify(self, path: Path) -> None:
        run_fossil(path.parent, "test-integrity", "-R", path / FOSSIL_FILE)
