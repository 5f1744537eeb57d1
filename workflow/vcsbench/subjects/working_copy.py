"""Define the subject `working_copy`: a Subversion working copy that a command checks out or updates."""

from __future__ import annotations

import fcntl
import filecmp
import hashlib
import json
import os
import re
import sqlite3
import stat
import urllib.parse
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench.errors import FULL, ProgramError, UserError
from vcsbench.external import file_url, pegged
from vcsbench.programs import Programs
from vcsbench.storages import extents, file_trees
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import FilesystemSubject, Words, require_axes
from vcsbench.subjects.repository import Repository, scaled_revisions
from vcsbench.subjects.templates import make_template, run_sources
from vcsbench.systems.fsfs import run_client

if TYPE_CHECKING:
    from vcsbench.records import Recipe, SubjectFacts, TreeRecord

FOLDER = "working-copies"
DATABASE = ".svn/wc.db"
# The ioctl that makes a file share the blocks of another one.
FICLONE = 0x40049409
# The preloaded library (workflow/native) writes a line here per client that installed files.
REFLINK_FILE = "reflinks"
_REFLINK_LINE = re.compile(r"cloned=(\d+) passed_on=(\d+) failed=(\d+) errno=(\d+)")
_WORKING_FILES = (
    "SELECT local_relpath, checksum FROM nodes "
    "WHERE op_depth = 0 AND kind = 'file' AND presence = 'normal' ORDER BY local_relpath"
)


class WorkingCopy(FilesystemSubject):
    """A working copy, alone on the file system under test. {working_copy} is its path.

    For an update (with `revisions_behind` in the command), it is a copy of a template: a working copy at an
    older revision. For a checkout, it does not exist before a run. {pristine_options} are options for its
    checkout; a pristine is the unchanged copy of a file in .svn/pristine. `revisions` are its revisions
    before and after a run; the first is 0 for a checkout.
    """

    def __init__(self, recipe: Recipe, number: int, run: Path, root: Path) -> None:
        """Set the paths. Raise UserError if the study lacks the axis filesystem.

        check() makes the file system and the templates (trees that serve many runs). restore() makes the
        state before a run.
        """
        require_axes("a working copy", {"filesystem": "filesystem" in recipe})
        super().__init__(recipe, number, run, root)
        # For an update: the number of revisions that it gets, 0 for one that changes nothing. None for a
        # checkout, which begins without a working copy.
        self.behind = recipe.get("revisions_behind")
        self.repository = Repository(recipe, number, run, root)
        self.path = self.filesystem.inside / "wc"
        self.folders = [self.path]
        self.client = Programs(**recipe["build"]["client"])
        # check() sets the real values (_make_templates): the youngest revision is only known then.
        self.revisions = (0, 0)
        self.template = ""

    def content_bytes(self) -> int:
        """Make the templates of this cell, and return the approximate bytes of a working copy.

        check() makes a file system with room for these bytes (FilesystemSubject).
        """
        export = self._make_templates()
        # A working copy has each file twice: the working file and its pristine.
        return 2 * export["bytes"]

    def _make_templates(self) -> TreeRecord:
        """Make the templates of this cell, set attributes about them, and return the record of the export.

        - `counterpart`: an export of the youngest revision, which the result of a run has to equal.
        - `revisions`: the revisions before and after a run.
        - `template`, `urls`: only for an update, the path and the URL of a working copy at an older revision.
        """
        self.repository.check()
        youngest = self.repository.metadata["youngest"]
        templates = WorkingCopyTemplates(self.recipe, self.repository, self.client)
        export = templates.export(youngest)
        self.counterpart = (Path(export["path"]), export["url"])
        # A checkout begins without a working copy: revision 0.
        first = 0
        if self.behind is not None:
            first = file_trees.older_revision(youngest, scaled_revisions(self.behind, self.recipe))
            record = templates.working_copy(first)
            self.template = record["path"]
            # svn has replaced the keyword $URL$ in files by the URL of the template. In files that the update
            # does not change, this text stays, also if the cell reads from another URL.
            self.urls = [record["url"]]
        self.revisions = (first, youngest)
        return export

    def words(self) -> Words:
        return {
            "working_copy": str(self.path),
            "pristine_options": self.recipe.get("pristine_options", []),
        }

    def restore(self) -> None:
        """Make the state before a run: nothing for a checkout, a copy of the template for an update.

        The copy gets the URL from which this cell reads. With `reflink` in the recipe, its working files
        share the disk blocks of their pristines.
        """
        # An update of 0 revisions changes nothing, so the working copy of the last run stays.
        if self.behind == 0 and self.path.exists():
            return
        self.filesystem.clear()
        is_checkout = self.behind is None
        if is_checkout:
            return
        # copy_tree() copies all disk blocks. If the copy shared them with the template, facts() would count
        # them as blocks that files of the working copy share.
        file_trees.copy_tree(self.template, self.path)
        assert self.origin
        if "remote" in self.recipe:
            # `svn relocate` connects to the user's server, and checks that the server has this repository.
            limit_s = self.recipe["time_limit_s"]
            run_client(self.client, "relocate", self.origin(), self.path, limit_s=limit_s)
        else:
            # The cell's server may not run yet. So the URL is written to the working copy's database.
            tree_path = f"/{self.repository.tree}".rstrip("/")
            set_root(self.path, self.origin().removesuffix(tree_path))
        if "reflink" in self.recipe:
            clone_working_files(self.path)

    def parts(self) -> dict[str, list[Path]]:
        """Return the paths of pristines, database and working files by part; {} without a working copy."""
        administrative = self.path / ".svn"
        if not administrative.exists():
            return {}
        parts = {
            "pristines": [administrative / "pristine"],
            "database": [administrative / "wc.db"],
            "working": [path for path in self.path.iterdir() if path != administrative],
        }
        # A part that does not exist is left out: Subversion 1.15 can check out without pristines.
        return {name: paths for name, paths in parts.items() if all(map(os.path.exists, paths))}

    def facts(self) -> SubjectFacts:
        """Check the working copy after the runs, and return its revisions, file system and disk space.

        Raise UserError if the working copy has local changes or is not at the youngest revision, or if a run
        with reflinks cloned no file.
        """
        self.filesystem.check()
        _, youngest = self.revisions
        check_clean(self.client, self.path, youngest)
        # Before an update, the copy of the template was written to the file system, too. So only the bytes of
        # a checkout are known.
        is_checkout = self.behind is None
        used_bytes = self.filesystem.used_bytes() if is_checkout else None
        return {
            "working_copy": {
                "path": str(self.path),
                "revisions": list(self.revisions),
                "filesystem": self.filesystem.describe(),
                "space": {**measure_disk_space(self.path), "used_bytes": used_bytes},
                "cloned": count_cloned_files(self.run, self.recipe),
            }
        }


def set_root(working_copy: Path, url: str) -> None:
    """Set the URL of the repository's root in a working copy, such as svn://127.0.0.1:40123/ruby."""
    # `svn relocate` would connect to the server, which may not run yet.
    with closing(sqlite3.connect(working_copy / DATABASE)) as database, database:
        database.execute("UPDATE repository SET root = ?", (url,))


def check_clean(client: Programs, path: Path, revision: int) -> None:
    """Raise UserError unless a working copy is at a revision and has no changes."""
    changes = run_client(client, "status", path).splitlines()
    if changes:
        raise UserError(
            f"{path}: the working copy is not clean after the runs: {changes[0]} (and {len(changes) - 1} "
            f"more). Run again."
        )
    present = run_client(client, "info", "--show-item", "revision", path)
    if present != str(revision):
        raise UserError(
            f"{path}: is at revision {present} after the runs, not {revision}. Run again."
        )


def measure_disk_space(path: Path) -> dict[str, int | None]:
    """Return the bytes on disk of all files in a folder: {"exclusive_bytes": 4096, "shared_bytes": 8192}.

    Shared bytes belong to several files (reflinks), and count once. Both are None if the file system does not
    report them.
    """
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            # The file behind a link may be outside of the folder.
            if not os.path.islink(file):
                files.append(file)
    try:
        usage = extents.disk_usage(files)
    except extents.ExtentsUnsupportedError:
        return {"exclusive_bytes": None, "shared_bytes": None}
    return {"exclusive_bytes": usage.exclusive, "shared_bytes": usage.shared}


def list_working_files(path: Path) -> list[tuple[str, str]]:
    """Return the versioned files of a working copy, sorted, each with the checksum of its pristine.

    Example: [("lib/a.c", "$sha1$0a4d55a8...")].
    """
    # The path may have signs that mean something in a URI. With mode=ro, the database is only read.
    uri = f"file:{urllib.parse.quote(os.fsencode(path / DATABASE))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        return database.execute(_WORKING_FILES).fetchall()


def clone_working_files(path: Path) -> None:
    """Let each working file share the disk blocks of its pristine, if both have the same content.

    A client that uses reflinks would have made such clones. Names, content, modes and times stay. Raise
    UserError if the file system refuses to clone, and OSError if it is full.
    """
    for name, checksum in list_working_files(path):
        # The checksum `$sha1$0a4d55a8...` has its pristine in .svn/pristine/0a/0a4d55a8....svn-base.
        digest = checksum.rpartition("$")[2]
        pristine = path / f".svn/pristine/{digest[:2]}/{digest}.svn-base"
        working = path / name
        # A working file with expanded keywords or other line ends differs from its pristine, and a clone
        # would change the file. A symbolic link is skipped, because the file behind it would be overwritten.
        if os.path.islink(working) or not filecmp.cmp(pristine, working, shallow=False):
            continue
        status = os.stat(working)
        # A file that needs a lock (svn:needs-lock) is read-only, and only root can open it for writing.
        os.chmod(working, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)
        with open(pristine, "rb") as source, open(working, "r+b") as target:
            try:
                fcntl.ioctl(target, FICLONE, source.fileno())
            except OSError as error:
                if error.errno in FULL:
                    error.filename = str(working)
                    raise
                raise UserError(
                    f"{working}: this file system refuses to clone ({error.strerror}). Leave out "
                    f"`reflink: on`."
                ) from None
        os.chmod(working, stat.S_IMODE(status.st_mode))
        # The client has the time of each working file in its database. With another time, it would read the
        # file in the next run, which takes measured time.
        os.utime(working, ns=(status.st_atime_ns, status.st_mtime_ns))


class _ReflinkLine(NamedTuple):
    """The counts of files that a client cloned, copied because they are no pristines, or failed to clone."""

    cloned: int
    passed_on: int
    failed: int
    error: int  # the errno of the last failure


def count_cloned_files(run: Path, recipe: Recipe) -> list[int] | None:
    """Return the number of files that the client cloned in each timed run, such as [812, 812].

    The preloaded library writes these numbers to the folder `run`. Return None without `reflink` in the
    recipe. Raise UserError if a run cloned no file, and so does not match its label.
    """
    if "reflink" not in recipe:
        return None
    file = run / REFLINK_FILE
    text = file.read_text() if file.exists() else ""
    lines = []
    for fields in _REFLINK_LINE.findall(text):
        lines.append(_ReflinkLine(*map(int, fields)))
    # The library adds a line for each run that installs files, and the timed runs come last.
    timed_lines = lines[-recipe["runs"] :]
    if len(timed_lines) < recipe["runs"]:
        raise UserError(
            "the library that clones files did nothing in some run: the client did not load it, or installs "
            "files in another way than that of Subversion 1.8 to 1.14. Use such a client."
        )
    for line in timed_lines:
        if not line.cloned:
            reason = "it installed no copies of pristines (svn:eol-style, svn:keywords, merges)"
            if line.failed:
                error = os.strerror(line.error)
                reason = f"this file system refuses ({error}, {line.failed} times)"
            raise UserError(f"a run cloned no file: {reason}. Leave out `reflink: on`.")
    return [line.cloned for line in timed_lines]


class WorkingCopyTemplates:
    """Working copies and exports of one repository, made once on the storage (make_template).

    The rounds use several equal copies of the repository. Keywords in the files of a template have the URL of
    the copy from which it was made.
    """

    def __init__(self, recipe: Recipe, repository: Repository, client: Programs) -> None:
        self.recipe = recipe
        self.repository = repository
        self.client = client
        self.workdir = WorkDir(recipe["storage"]["path"], repository.root)
        self.options = recipe.get("pristine_options", [])
        # In a guest, the files have other times. The host has checked the templates before.
        self.check_state = not recipe.get("is_in_guest")
        # These facts decide on the content of a template.
        key = [recipe["repository"]["identity"], repository.tree, self.options, recipe["binaries"]]
        self.digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]

    def working_copy(self, revision: int) -> TreeRecord:
        """Return the record of a working copy at a revision: {"path": ..., "url": ..., "bytes": ..., ...}.

        The working copy is made if it does not exist. Raise UserError if the revision lacks the tree, or if a
        disk or a working copy cannot hold the tree.
        """

        # make_template() calls this if there is no such working copy yet. No temporary folder is needed.
        def make(path: Path, _temporary: Path) -> TreeRecord:
            self._check_tree(revision)
            self._check_odd_paths(revision)
            return self._run_client("checkout", revision, path, self.options)

        return self._make_template(f"{self.digest}-{revision}", make)

    def export(self, revision: int) -> TreeRecord:
        """Return the record of an export of a revision, which a working copy has to equal."""

        def make(path: Path, _: Path) -> TreeRecord:
            return self._run_client("export", revision, path, [])

        return self._make_template(f"{self.digest}-{revision}-export", make)

    def _check_tree(self, revision: int) -> None:
        """Raise UserError if the tree, such as trunk, was at another path in a revision, or did not exist.

        Then a working copy at that revision could not be updated to the youngest tree.
        """
        tree = urllib.parse.unquote(self.repository.tree, errors="surrogateescape")
        # The client follows the youngest tree back to the revision, and prints its path there: ^/trunk.
        options = ("info", "--show-item", "relative-url", f"-r{revision}")
        try:
            printed = run_client(self.client, *options, self._tree_url)
        except ProgramError:
            # The revision has no such tree. The client can read the repository: it made the export before.
            printed = ""
        path_then = urllib.parse.unquote(printed.removeprefix("^"), errors="surrogateescape")
        path_now = os.path.normpath(f"/{tree}")
        if path_then != path_now:
            name = self.recipe["repository"]["name"]
            missing = file_trees.describe_missing_tree(tree, revision)
            raise UserError(
                f"{name} {missing}. Leave such cells out of the grid, or name another folder by TREE=."
            )

    def _check_odd_paths(self, revision: int) -> None:
        """Raise UserError if the tree at a revision has odd paths, which a disk or working copy cannot hold.

        Examples are a name of 300 bytes, and a path named .svn.
        """
        tree = urllib.parse.unquote(self.repository.tree, errors="surrogateescape")
        # The task "odd paths" prints two numbers: of paths that no disk can hold, and of paths named .svn.
        counts = run_sources("odd paths", str(self.repository.path), tree, str(revision))
        odd_paths = file_trees.OddPaths(*map(int, counts))
        # This number is only a part of the reason's text.
        behind = self.recipe.get("revisions_behind", 0)
        reason = file_trees.why_not_on_disk(self.recipe, lambda: odd_paths, behind)
        if reason:
            raise UserError(f"{reason}. Leave such cells out of the grid.")

    def _make_template(self, name: str, make: Callable[[Path, Path], TreeRecord]) -> TreeRecord:
        path = self.workdir.make(FOLDER) / name
        return make_template(path, make, check_state=self.check_state)

    def _run_client(
        self, command: str, revision: int, path: Path, options: Sequence[str]
    ) -> TreeRecord:
        """Check out or export the tree to a path. Return {"url": URL}: keywords in files expand to it."""
        common_options = ("-q", f"-r{revision}", "--ignore-externals")
        run_client(self.client, command, *options, *common_options, self._tree_url, path)
        return {"url": file_url(self.repository.path)}

    @property
    def _tree_url(self) -> str:
        return pegged(f"{file_url(self.repository.path)}/{self.repository.tree}".rstrip("/"))
