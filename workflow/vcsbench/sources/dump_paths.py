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
    """A path that no disk can hold (IMPOSSIBLE_PATHS), or no working copy (RESERVED_PATHS)."""

    path: bytes
    is_impossible: bool


class PathTracker:
    """Follow the folder to export, and the odd paths, through records.

    `has_tree` is True if there is a folder at `tree` now. It is None if that depends on a copy whose content
    or kind (file or folder) is not known.
    """

    def __init__(self, tree: str) -> None:
        self._tree = tree.encode(errors="surrogateescape")
        # The root always exists.
        self.has_tree: bool | None = not self._tree
        # The odd paths that exist now: at most MOST_ODD_PATHS, and none that came with a copied folder.
        self._odd_paths: set[bytes] = set()

    def follow(self, headers: Mapping[bytes, bytes]) -> OddPath | None:
        """Update `has_tree` and the odd paths by a record. Return the record's path if it adds an odd path.

        `headers` are the record's, such as {b"Node-path": b"trunk/.svn", b"Node-action": b"add"}.
        """
        # svnadmin takes /trunk//a and ./trunk/a for trunk/a.
        names = [name for name in headers[NODE_PATH].split(b"/") if name not in (b"", b".")]
        path = b"/".join(names)
        # One of add, change, delete and replace. A replacement deletes the path and adds it again.
        action = headers.get(ACTION, b"change")
        # Only the root has an empty path. A change makes no new path.
        if not path or action == b"change":
            return None
        prefix = path + b"/"
        if action != b"add":
            # The slash behind `odd` is for the case that `odd` is the deleted or replaced path itself.
            self._odd_paths = {
                odd for odd in self._odd_paths if not (odd + b"/").startswith(prefix)
            }
        # True for the path trunk if the exported folder is trunk/lib.
        is_above_tree = self._tree.startswith(prefix)
        if action == b"delete":
            if path == self._tree or is_above_tree:
                self.has_tree = False
            return None
        if path == self._tree:
            # The record of a copy may lack the kind, so that the copy may be a file.
            self.has_tree = headers[NODE_KIND] == b"dir" if NODE_KIND in headers else None
        elif is_above_tree:
            # A new folder is empty. The content of a copied folder is not known.
            self.has_tree = None if COPY_PATH in headers else False
        # An export of trunk writes trunk/a as `a`, so `trunk/` does not count against the limits of a path.
        odd_path = OddPath(path, is_impossible(path.removeprefix(self._tree + b"/")))
        if not odd_path.is_impossible and not is_reserved(path):
            return None
        if len(self._odd_paths) < MOST_ODD_PATHS:
            # Of a path of megabytes, the stored beginning is longer than PATH_BYTES, and so still odd.
            self._odd_paths.add(path[: 2 * PATH_BYTES])
        return odd_path

    def count_odd_paths(self, tree: str) -> OddPaths:
        """Return the numbers of odd paths below a folder, such as trunk: impossible and reserved ones."""
        prefix = tree_prefix(tree)
        paths = [path for path in self._odd_paths if path.startswith(prefix)]
        impossible = sum(is_impossible(path.removeprefix(prefix)) for path in paths)
        return OddPaths(impossible, len(paths) - impossible)
