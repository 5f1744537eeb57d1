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
    """One of IMPOSSIBLE_PATHS or RESERVED_PATHS."""

    path: bytes
    is_impossible: bool


class PathTracker:
    """Follows one folder, and the paths that no disk or working copy can hold.

    `has_tree`: True if there is a folder at `tree` now, None if that depends on the content of a copied
    folder, which is not known.
    """

    def __init__(self, tree: str) -> None:
        self._tree = tree.encode(errors="surrogateescape")
        # The root always exists.
        self.has_tree: bool | None = not self._tree
        # The first odd paths that exist now, without those in copied folders.
        self._odd_paths: set[bytes] = set()

    def follow(self, headers: Mapping[bytes, bytes]) -> OddPath | None:
        """Update `has_tree` and the odd paths by a record. Return the record's path if it adds an odd one.

        `headers` are the record's, such as {b"Node-path": b"trunk/.svn", b"Node-action": b"add"}. A path is
        odd if no disk can hold it (a name of 300 bytes), or no working copy (`.svn`). `has_tree` is True
        while the exported folder, `_tree` such as b"trunk", exists.
        """
        # svnadmin takes /trunk//a and ./trunk/a for trunk/a.
        names = [name for name in headers[NODE_PATH].split(b"/") if name not in (b"", b".")]
        path = b"/".join(names)
        # One of add, change, delete and replace. A replacement deletes the path and adds it again.
        action = headers.get(ACTION, b"change")
        # Only the root has an empty path. A change makes no new path.
        if not path or action == b"change":
            return None
        if action != b"add":
            # The path is deleted or replaced, with all odd paths below it.
            below = path + b"/"
            self._odd_paths = {odd for odd in self._odd_paths if not (odd + b"/").startswith(below)}
        is_deleted = action == b"delete"
        if path == self._tree:
            # A copy may leave its kind out.
            is_folder = headers[NODE_KIND] == b"dir" if NODE_KIND in headers else None
            self.has_tree = False if is_deleted else is_folder
        elif self._tree.startswith(path + b"/"):
            # A folder above `_tree` is new and empty, or a copy with unknown content.
            is_copy = COPY_PATH in headers
            self.has_tree = None if is_copy and not is_deleted else False
        if is_deleted:
            return None
        # An export of trunk writes trunk/a as `a`, so `trunk/` does not count against the limits of a path.
        odd_path = OddPath(path, is_impossible(path.removeprefix(self._tree + b"/")))
        # Impossible on a disk, or reserved by working copies: otherwise the path is not odd.
        if not odd_path.is_impossible and not is_reserved(path):
            return None
        if len(self._odd_paths) < MOST_ODD_PATHS:
            # A path may have megabytes, so only its beginning is stored.
            self._odd_paths.add(path[: 2 * PATH_BYTES])
        return odd_path

    def count_odd_paths(self, tree: str) -> OddPaths:
        """Return the numbers of odd paths below a folder."""
        prefix = tree_prefix(tree)
        paths = [path for path in self._odd_paths if path.startswith(prefix)]
        impossible = sum(is_impossible(path.removeprefix(prefix)) for path in paths)
        return OddPaths(impossible, len(paths) - impossible)
