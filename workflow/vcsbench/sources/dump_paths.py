"""Follow the exported folder and odd paths through the nodes of a dump stream."""

from collections.abc import Mapping
from typing import NamedTuple

from vcsbench.sources.svn_names import is_impossible, is_reserved, tree_prefix
from vcsbench.storages.file_trees import PATH_BYTES, OddPaths

# Headers of the record of a path.
NODE_PATH = b"Node-path"
ACTION = b"Node-action"
NODE_KIND = b"Node-kind"
COPY_PATH = b"Node-copyfrom-path"
# A stream of only odd paths would fill the memory.
MOST_ODD_PATHS = 1000


class OddPath(NamedTuple):
    """A path that no disk can hold, such as one with a very long name (IMPOSSIBLE_PATHS).

    Otherwise (`is_impossible` is False) a path named .svn, which no working copy can hold (RESERVED_PATHS).
    """

    path: bytes
    is_impossible: bool


class PathTracker:
    """Follow the exported folder `tree`, such as trunk, and the odd paths through the records of a stream.

    `has_tree` is True if there is a folder at `tree` after the records so far, and False if not. It is None
    if that is unknown: the folder may be a part of a copied folder, or the copy at `tree` may be a file. Odd
    paths (OddPath) are counted, because cells that would write them are skipped.
    """

    def __init__(self, tree: str) -> None:
        self._tree = tree.encode(errors="surrogateescape")
        # The root always exists.
        self.has_tree: bool | None = not self._tree
        # The odd paths that exist now: at most MOST_ODD_PATHS, and none that came with a copied folder.
        self._odd_paths: set[bytes] = set()

    def follow(self, headers: Mapping[bytes, bytes]) -> OddPath | None:
        """Update `has_tree` and the odd paths by the record of a path. Return it if it is added and odd.

        `has_tree` is True if the exported folder exists now, and None if that is unknown. An odd path is one
        that no disk can hold (too long, for example), or no working copy (named .svn). `headers` are the
        record's, such as {b"Node-path": b"trunk/.svn", b"Node-action": b"add"}.
        """
        # svnadmin takes /trunk//a and ./trunk/a for trunk/a.
        names = [name for name in headers[NODE_PATH].split(b"/") if name not in (b"", b".")]
        path = b"/".join(names)
        # One of add, change, delete and replace. A replacement deletes the path and adds it again.
        action = headers.get(ACTION, b"change")
        # Only the root has an empty path, and it always exists. A change makes no new path.
        if not path or action == b"change":
            return None
        if action != b"add":
            self._delete(path)
        if action == b"delete":
            return None
        self._update_tree(path, headers)
        return self._add_if_odd(path)

    def _delete(self, path: bytes) -> None:
        """Forget a deleted path, and all paths below it."""
        # With a slash at the end, `trunk/` begins `trunk/` and `trunk/lib/`, and not `trunk2/`.
        prefix = path + b"/"
        self._odd_paths = {odd for odd in self._odd_paths if not (odd + b"/").startswith(prefix)}
        if (self._tree + b"/").startswith(prefix):
            self.has_tree = False

    def _update_tree(self, path: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Set `has_tree` if a record adds the exported folder, or a folder above it."""
        if path == self._tree:
            # The record of a copy may lack the kind, so that the copy may be a file.
            self.has_tree = headers[NODE_KIND] == b"dir" if NODE_KIND in headers else None
        # For example, the path is trunk, and the exported folder trunk/lib.
        elif self._tree.startswith(path + b"/"):
            # A new folder is empty. The record of a copied folder does not show its content.
            self.has_tree = None if COPY_PATH in headers else False

    def _add_if_odd(self, path: bytes) -> OddPath | None:
        """Add a new path to the odd paths, and return it, if it is impossible or reserved (OddPath)."""
        # An export of trunk writes trunk/a as `a`, so `trunk/` does not count against the limits of a path.
        odd_path = OddPath(path, is_impossible(path.removeprefix(self._tree + b"/")))
        if not odd_path.is_impossible and not is_reserved(path):
            return None
        if len(self._odd_paths) < MOST_ODD_PATHS:
            # A path may have megabytes. Its stored part is still longer than PATH_BYTES, the limit of disks.
            self._odd_paths.add(path[: 2 * PATH_BYTES])
        return odd_path

    def count_odd_paths(self, tree: str) -> OddPaths:
        """Return the numbers of odd paths below a folder, such as trunk: impossible and reserved ones."""
        prefix = tree_prefix(tree)
        paths = [path for path in self._odd_paths if path.startswith(prefix)]
        impossible = sum(is_impossible(path.removeprefix(prefix)) for path in paths)
        return OddPaths(impossible, len(paths) - impossible)
