"""Define the subjects `tree`, a tree or a store of it, and `built_tree`, which a strategy builds from it.

Both are on one file system: the storage itself, or one with a copy for the cell-round.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
import urllib.parse
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench import modules
from vcsbench.errors import UserError
from vcsbench.external import file_url, pegged
from vcsbench.programs import Programs
from vcsbench.storages.file_trees import copy_tree, entries, next_directory, remove_path
from vcsbench.storages.workdir import WorkDir, resolve
from vcsbench.subjects import FilesystemSubject, Subject, Words, require_axes
from vcsbench.subjects.repository import Repository
from vcsbench.subjects.templates import make_template, refresh_template_state, run_sources
from vcsbench.subjects.tree_stores import STORES, keep_store
from vcsbench.systems.fsfs import run_client

if TYPE_CHECKING:
    from vcsbench.records import Head, Recipe, SubjectFacts, TreeRecord

TREES_FOLDER = "trees"
BUILD_FOLDER = "here"


class Tree(FilesystemSubject):
    """The input of a command that builds a tree, such as `cp`: a source tree, or a store of it.

    - The source is the youngest tree of a repository, or a folder of the user, as plain files.
    - A store is this tree in another form, such as a git repository with one commit. The command's key
      `store` is the kind of the store.

    Both are templates on the storage: they are made once, and serve many rounds. Words: {source} and {store}
    are the path of what the command reads, {store_url} the path in a URL.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Set the paths and the kind of store. Raise UserError if the study lacks an axis."""
        axes = {"repo": "repository" in recipe, "filesystem": "filesystem" in recipe}
        require_axes("a tree", axes)
        super().__init__(recipe, number, run, root)
        # The source is exported from this prepared repository. None: it is taken from a folder or repository
        # that needs no preparation (Source.head).
        self.repository: Repository | None = None
        if self.reads_repository(recipe):
            self.repository = Repository(recipe, number, run, root)
        # Such as "git". "" means that the command reads the source tree.
        self.store_kind = recipe.get("store", "")
        # The functions that make and clean stores of this kind.
        self.store = STORES[self.store_kind]
        # Some programs write to the store that they read. Only their stores need to be cleaned. All others
        # have the function keep_store(), which does nothing.
        self.gets_traces = self.store.clean is not keep_store
        # The templates are below this folder, by names that begin with a digest of the repository's identity.
        self.workdir = WorkDir(recipe["storage"]["path"], root)
        identity = recipe["repository"]["identity"]
        self.digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        # The copies that a timed run and an idle run read. An idle run, on an empty tree, only loads the
        # client's own files into the page cache. check() replaces both paths if no copies are needed.
        self.path = self.filesystem.inside / "store"
        self.idle = self.filesystem.inside / "idle"
        # The templates of stores that the command reads without a copy, and to which it may write.
        self.templates_in_use: list[Path] = []

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        return Repository.records(recipe) if cls.reads_repository(recipe) else []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Return True unless the source has its youngest tree without a loaded repository (Source.head)."""
        return not recipe["repository"]["head"]

    def check(self) -> None:
        """Put what the command reads on the file system under test: at `path`, and at `idle` for idle runs.

        `path` is a store, or the source tree for a command without a store. `idle` is the same of an empty
        tree. Also set `size` and `folders`.
        """
        # This makes the templates, and a file system with room for a tree and a store (content_bytes).
        super().check()
        self.size = self.store_record["content_bytes"]
        template = Path(self.store_record["path"])
        empty_template = self._make_empty_store()
        filesystem = self.recipe["filesystem"]
        is_storage = resolve(filesystem["root"], self.root) == self.workdir.storage
        if is_storage and not filesystem["make"]:
            # The file system under test is the storage, where the templates are. So no copies are needed.
            self.path = template
            self.idle = empty_template
            # A run may write to a store, so discard() refreshes the records of these.
            if self.store_kind:
                self.templates_in_use = [template, empty_template]
        else:
            # copy_tree() shares no blocks of the disk. If copy and template did, the built tree could share
            # these blocks as well. But only the measured command should decide what the built tree shares.
            copy_tree(template, self.path)
            copy_tree(empty_template, self.idle)
        self.folders = [self.path]

    def content_bytes(self) -> int:
        """Make the templates of tree and store, and return the bytes of both, for which room is needed."""
        # The host has made the file system of a guest, so the guest needs no size.
        if self.recipe.get("is_in_guest"):
            return 0
        if self.repository:
            self.repository.check()
        self._make_empty_store()
        return self.source_record["bytes"] + self.store_record["bytes"]

    def words(self) -> Words:
        return _make_words(self.path)

    def idle_words(self) -> Words:
        return _make_words(self.idle)

    def facts(self) -> SubjectFacts:
        """Return facts about the repository, its source tree (`tree`), and what the command read (`read`).

        The command read a store or, if `store` is "", the source tree. `left_out` is the number of names of
        the source that the store lacks. Raise UserError if the file system was unmounted.
        """
        self.filesystem.check()
        repository = self.recipe["repository"]
        source = self.source_record
        tree: dict[str, object] = {
            "name": repository["name"],
            "description": repository["description"],
            "scale": repository["scale"],
        }
        if source.get("notes"):
            tree["notes"] = source["notes"]
        tree["entries"] = source["entries"]
        tree["bytes"] = source["content_bytes"]
        return {
            # A copy, because the type checker refuses the recipe's dictionary, whose type has fewer keys.
            "repository": {**repository},
            "tree": tree,
            "read": {
                "path": str(self.path),
                "store": self.store_kind,
                "left_out": self.store_record.get("left_out", 0),
                "bytes": self.size,
                "filesystem": self.filesystem.describe(),
            },
        }

    def discard(self) -> None:
        super().discard()
        # A run may have written to a store: git, for example, notes a work tree in its repository. Without a
        # refreshed record, the store would be made again.
        for path in self.templates_in_use:
            with suppress(UserError, OSError):
                refresh_template_state(path)

    @cached_property
    def source_record(self) -> TreeRecord:
        """The facts about the tree, such as its path and bytes. A missing or changed tree is made first."""
        path = self.workdir.make(TREES_FOLDER) / f"{self.digest}-tree"
        # Some strategies make hard links to the files of the tree, which changes the times of these files. So
        # only the sizes are checked.
        return make_template(path, self._make_source, check_state=False, check_sizes=True)

    @cached_property
    def store_record(self) -> TreeRecord:
        """The facts about the store, or about the tree if the command reads the tree itself."""
        return self._make_store(self.digest, self.source_record)

    def _make_empty_store(self) -> Path:
        """Return the path of the store of an empty tree, which is made first if it does not exist.

        If the command reads the source tree, the path leads to an empty folder.
        """

        def make_folder(path: Path, _: Path) -> TreeRecord:
            path.mkdir()
            return {}

        empty = make_template(self.workdir.make(TREES_FOLDER) / "empty", make_folder)
        return Path(self._make_store("idle", empty)["path"])

    def _make_store(self, name: str, source: TreeRecord) -> TreeRecord:
        """Return the record of a store of the tree with the record `source`. Make the store if it is missing.

        If the command needs no store, return `source` itself. The name of the store's folder begins with
        `name`: trees/0123-git-89abcdef for "0123".
        """
        if not self.store_kind:
            return source
        # Other versions of the programs or of this code may make another store. So the name of the folder
        # has a digest of the programs (the recipe's `binaries`) and the code.
        code = modules.code_digest(modules.imported_files([__file__]))
        programs = json.dumps(self.recipe["binaries"], sort_keys=True)
        makers_digest = hashlib.sha256(f"{code} {programs}".encode()).hexdigest()[:8]
        folder = f"{name}-{self.store_kind}-{makers_digest}"

        # make_template() calls this if there is no such store yet.
        def make_store(path: Path, temporary: Path) -> TreeRecord:
            tree, left_out = self._leave_out_names(Path(source["path"]), temporary / "carried")
            # The settings in the user's home folder would change the store, so the programs get another home.
            home = temporary / "home"
            home.mkdir()
            self.store.make(tree, path, home)
            return {"left_out": left_out}

        # The state of a template has the times of its files, which are others in a guest. The host has made
        # and checked the store before it started the guest.
        check_state = not self.recipe.get("is_in_guest")
        path = self.workdir.make(TREES_FOLDER) / folder
        return make_template(path, make_store, check_state=check_state)

    def _leave_out_names(self, original: Path, copy: Path) -> tuple[Path, int]:
        """Return a tree with only the names that the store can have, and the number of names left out.

        A git repository cannot have `.GIT`, for example. If names are left out, the tree is a copy at `copy`,
        otherwise it is `original`. A folder that is left out takes its content with it.
        """
        # Each name counts, also in a folder that is left out.
        left_out = []
        for file, _ in entries(original):
            if not self.store.carries(os.path.basename(os.fsencode(file))):
                left_out.append(file)
        if not left_out:
            return original, 0
        copy_tree(original, copy)
        for file in left_out:
            # This does nothing if the file was removed with its folder.
            remove_path(copy / os.path.relpath(file, original))
        return copy, len(left_out)

    def _make_source(self, path: Path, temporary: Path) -> TreeRecord:
        """Make the source tree at `path`, and return notes on names that had to be changed, if there are any.

        The tree is an export of the prepared repository, or is taken from its head (checkout_head).
        make_template() also passes the private folder `temporary`, which is not needed here.
        """
        client = Programs(**self.recipe["build"]["client"])
        if self.repository:
            url = file_url(self.repository.path, self.repository.tree)
            run_client(client, "export", "-q", "--ignore-externals", pegged(url), path)
            return {}
        repository = self.recipe["repository"]
        # A folder must still have the identity that it had for the plan. The times of its files are a part of
        # this identity, and differ in a guest. So "" leaves the comparison out there.
        identity = "" if self.recipe.get("is_in_guest") else repository["identity"]
        command = shlex.join([*client.env_command(), client.find("svn")])
        return {"notes": checkout_head(repository["head"], path, command, identity)}


def _make_words(path: Path) -> Words:
    url = urllib.parse.quote(str(path))
    return {"source": str(path), "store": str(path), "store_url": url}


class BuiltTree(Subject):
    """The output of a command that builds a tree, such as `cp`, on the file system of its input, a Tree.

    {target} is its path.
    """

    def check(self) -> None:
        """Set the paths and `counterpart` (the tree to compare with), and clean up as before each run.

        The command reads a Tree: a source tree or a store, which is the same tree in another form, such as a
        git repository. Raise UserError if it reads something else.
        """
        if not isinstance(self.input, Tree):
            raise UserError(
                "`commands`: a built tree is made of a tree. Add `input: tree` to the command."
            )
        self.tree = self.input
        self.path = self.tree.filesystem.inside / BUILD_FOLDER / "built"
        self.folders = [self.path]
        self._choose_counterpart()
        # This removes a built tree, and the traces of earlier runs in the store.
        self.restore()

    def _choose_counterpart(self) -> None:
        """Set `counterpart` to the source tree, if the built tree has to equal it."""
        # A store may lack names: a git repository cannot have a file `.git`. A tree from it lacks them, too.
        lacks_names = bool(self.tree.store_record.get("left_out"))
        if lacks_names:
            return
        # Commands with another kind of work write something else than a tree, such as a single file.
        if self.recipe["work_kind"] != "built_tree":
            return
        source_tree = Path(self.tree.source_record["path"])
        # No command expands keywords such as $HeadURL$ here, so no URL in the files has to be normalised.
        no_url = ""
        self.counterpart = (source_tree, no_url)

    def words(self) -> Words:
        return {"target": str(self.path)}

    def idle_words(self) -> Words:
        return self.words()

    def restore(self) -> None:
        self.restore_after_idle_run()
        self.tree.store.clean(self.tree.path)

    def restore_after_idle_run(self) -> None:
        remove_path(self.path.parent)
        # Each run builds in another part of the disk.
        next_directory(self.tree.filesystem.inside, BUILD_FOLDER)
        # The idle run has read the store of the empty tree, and only this one is cleaned of traces. In a cold
        # cell, the store that a timed run reads must stay out of the caches.
        self.tree.store.clean(self.tree.idle)

    def discard(self) -> None:
        # check() may have failed before it set the path.
        if not self.folders:
            return
        with suppress(UserError, OSError):
            remove_path(self.path.parent)

    @cached_property
    def _lost(self) -> dict[str, int]:
        """The features that the last run has lost (count_lost_features). It is empty if that is unknown."""
        if not self.counterpart or not self.path.exists():
            return {}
        source, _ = self.counterpart
        return count_lost_features(source, self.path)

    def facts(self) -> SubjectFacts:
        return {"built": {"path": str(self.path), "lost": self._lost}}

    def flags(self) -> list[str]:
        return [f"no-{feature}" for feature, count in self._lost.items() if count]


def count_lost_features(source: Path, built: Path) -> dict[str, int]:
    """Return the numbers of features that a built tree has lost: files' modes, empty folders, hard links.

    Example: {"modes": 0, "empty-folders": 2, "hard-links": 1}. Most strategies cannot carry these features,
    so a loss is no error. The work of the run, a fingerprint (measure.work.inspect_built_tree), covers
    contents and executable bits. If it differs from that of the source, the run has failed before this call.
    """
    modes = 0
    empty_folders = 0
    hard_links = 0
    # The built file of each file of the source, both by device and inode.
    built_files: dict[tuple[int, int], tuple[int, int]] = {}
    for path, status in entries(source):
        copy = built / os.path.relpath(path, source)
        if stat.S_ISDIR(status.st_mode):
            # A missing folder was empty, because the built tree lacks no file.
            if not copy.is_dir():
                empty_folders += 1
        elif stat.S_ISREG(status.st_mode):
            copy_status = os.lstat(copy)
            if stat.S_IMODE(copy_status.st_mode) != stat.S_IMODE(status.st_mode):
                modes += 1
            file = (status.st_dev, status.st_ino)
            built_file = (copy_status.st_dev, copy_status.st_ino)
            # The first name of a file puts the file and its copy into the mapping. Each further name, a hard
            # link to the file, has to be a hard link to the same copy.
            if built_files.setdefault(file, built_file) != built_file:
                hard_links += 1
    return {"modes": modes, "empty-folders": empty_folders, "hard-links": hard_links}


def checkout_head(head: Head, path: Path, svn: str, identity: str = "") -> list[str]:
    """Put the tree of a source's head, its youngest tree, at a new path, without its history.

    Example of a head: {"kind": "git", "path": "/src/ruby", "commit": "9f86d081"}. `svn` is the start of the
    client's command line, for a shell (export_head). A source that is a folder ("directory") must still have
    this `identity`, if that is not "". Return notes on renamed and left-out names. Raise UserError with the
    last line of a process that failed.
    """
    # Each kind is a task of sources.main() with arguments of its own, which runs in another process.
    kind = head["kind"]
    if kind == "git":
        return run_sources(kind, head["path"], str(path), head["commit"])
    if kind == "directory":
        return run_sources(kind, head["path"], str(path), identity)
    # A Subversion repository. Without a `tree`, its task chooses the folder.
    arguments = [head["url"], str(path), svn, str(head["revision"])]
    if head["tree"] is not None:
        arguments.append(head["tree"])
    return run_sources(kind, *arguments)
