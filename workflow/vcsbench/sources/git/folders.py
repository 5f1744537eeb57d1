"""Which directories there are: git has none, Subversion wants each added and deleted."""

from __future__ import annotations

from collections.abc import Iterable


def above(path: bytes) -> list[bytes]:
    """The directories that a path lies in, the topmost first; not the root."""
    found = []
    at = path.find(b"/")
    while at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found


class Folders:
    """The directories of the current tree, each with how many files lie below it."""

    def __init__(self, lasting: Iterable[bytes] = ()) -> None:
        """`lasting` directories exist from the start and stay when they are empty."""
        self._files: dict[bytes, int] = dict.fromkeys(lasting, 1)

    def update(
        self, removed: Iterable[bytes], added: Iterable[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Take files away and put others in.

        Returns the topmost paths to delete (files, or directories that are now empty), and the
        directories to add, parents first.
        """
        removed = list(removed)
        emptied = set()
        for path in removed:
            for folder in above(path):
                self._files[folder] -= 1
                if self._files[folder] == 0:
                    emptied.add(folder)
        made = []
        for path in added:
            for folder in above(path):
                if folder not in self._files:
                    made.append(folder)
                self._files[folder] = self._files.get(folder, 0) + 1
                emptied.discard(folder)
        for folder in emptied:
            del self._files[folder]
        return self._topmost(removed, emptied), made

    def _topmost(self, removed: list[bytes], emptied: set[bytes]) -> list[bytes]:
        deleted = dict.fromkeys(
            next((folder for folder in above(path) if folder in emptied), path) for path in removed
        )
        return list(deleted)
