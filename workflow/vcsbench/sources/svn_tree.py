"""Find and summarize the tree of a Subversion repository that is exported."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.processes import Program, output
from vcsbench.sources import svn_names
from vcsbench.sources.base import TRUNK, LocalSource
from vcsbench.storages.file_trees import OddPaths

# Only a tree that was copied into itself many times has more.
MAX_ENTRIES = 10_000_000


def describe_failure(repository: str | Path, program: str) -> str:
    """Return the beginning of an error: `/srv/x: svnadmin dump failed (try ...)`."""
    return f"{repository}: {program} failed (try `svnadmin verify`, or a newer Subversion)"


class TreeSummary(NamedTuple):
    """The folder for the command `log`, and the numbers of odd paths in a tree."""

    folder: str
    odd_paths: OddPaths


def summarize_tree(repository: Path, tree: str, revision: int | None = None) -> TreeSummary:
    """Return the largest folder of a tree, and the numbers of its odd paths, at a revision.

    The largest folder is one directly in `tree`, such as trunk/lib, with the most entries at all depths. It
    is `tree` itself if no folder has entries. One run of svnlook, which may take minutes, finds both results.
    Raise UserError if the revision has no such tree, or if the tree is too large.
    """
    prefix = svn_names.tree_prefix(tree)
    # The number of entries, at all depths, in each folder at the top of the tree, such as {b"lib": 12}.
    entry_counts: Counter[bytes] = Counter()
    impossible = 0
    reserved = 0
    argv = ["svnlook", "tree", "--full-paths"]
    if revision is not None:
        argv += ["-r", str(revision)]
    # A path may begin with a minus.
    argv += ["--", os.path.abspath(repository), tree]
    with Program(argv, describe_failure(repository, "svnlook tree")) as program:
        for number, line in enumerate(program.stdout):
            # Line 0 is the tree itself, which counts as a folder.
            if number == MAX_ENTRIES:
                raise UserError(
                    f"{repository}: /{tree} has more than {MAX_ENTRIES:,} files and folders. Name a smaller "
                    "folder in `tree` or by TREE=."
                )
            # `trunk/`, `trunk/lib/` and `trunk/lib/file` become "", `lib` and `lib/file`. The root is `/`.
            path = line.rstrip(b"\n").lstrip(b"/").removeprefix(prefix).rstrip(b"/")
            # `lib/file` counts for `lib`. `lib` itself does not, so an empty folder is never the largest.
            top, slash, _ = path.partition(b"/")
            if slash:
                entry_counts[top] += 1
            impossible += svn_names.is_impossible(path)
            reserved += svn_names.is_reserved(path)
        program.finish()
    folder = tree
    if entry_counts:
        # The most entries come first, and then the first name.
        largest = min(entry_counts, key=lambda name: (-entry_counts[name], name))
        folder = (prefix + largest).decode(errors="surrogateescape")
    return TreeSummary(folder, OddPaths(impossible, reserved))


def choose_tree(names: bytes) -> str:
    """Return the folder to export by default: trunk if it is a folder, otherwise "", the root.

    `names` are the lines of the root's entries, such as b"trunk/", where a slash marks a folder.
    """
    return TRUNK if f"{TRUNK}/".encode() in names.split(b"\n") else ""


class SourceWithTree(LocalSource):
    """A source whose definition can name the folder that export exports."""

    keys = ("path", "tree")

    def _find_tree(self, repository: Path) -> str:
        """Return the path of the folder to export, in the youngest revision of a repository.

        That is the `tree` in the definition of the source. Without it, the folder is trunk if trunk exists,
        otherwise "", the root. Raise UserError if the definition's `tree` is no folder in the repository.
        """
        # This prints the entries of the root, and with a path at its end, the entries of that path.
        list_root = ["svnlook", "tree", "-N", "--full-paths", "--", os.path.abspath(repository)]
        failure = describe_failure(repository, "svnlook tree")
        if self._tree is None:
            return choose_tree(output(list_root, failure))
        if self._tree == "":
            return self._tree
        try:
            # The text of an error is "", because the error is caught here.
            printed = output([*list_root, self._tree], "")
        except UserError:
            # Either the path is missing, or the repository is damaged. If it is damaged, svnlook fails at the
            # root as well, and this call raises an error with the reason.
            output(list_root, failure)
            printed = b""
        # The first line is the path itself, with a slash behind a folder.
        is_folder = printed.split(b"\n")[0].endswith(b"/")
        if not is_folder:
            raise self._options.error(
                "tree",
                f"{self._path} has no folder {self._tree[:200]!r} at its youngest revision. Name another by "
                "TREE=, or use TREE=/ for the root.",
            )
        return self._tree
