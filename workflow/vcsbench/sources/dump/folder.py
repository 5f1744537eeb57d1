"""Follow one folder through the records of a dump stream."""

from __future__ import annotations

from collections.abc import Mapping

from vcsbench.sources.dump.records import ACTION, COPY_PATH, KIND, NODE


class FolderTracker:
    """`exists` is True if the history ends with a folder at the path, False if it does not.

    It is None where that depends on the content of a copied folder: the loaded repository decides.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.exists: bool | None = not path

    def add(self, headers: Mapping[bytes, bytes]) -> None:
        """Take the next node into account."""
        path = b"/".join(filter(None, headers[NODE].split(b"/")))
        action = headers.get(ACTION)
        if not path or action == b"change":
            return
        if path == self.path:
            kind = headers.get(KIND)
            self.exists = action != b"delete" and (kind == b"dir" if kind else None)
        elif self.path.startswith(path + b"/"):
            is_copy = action != b"delete" and COPY_PATH in headers
            self.exists = None if is_copy else False
