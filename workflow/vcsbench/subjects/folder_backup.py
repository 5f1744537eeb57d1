"""Put a folder back to its content before a run, and check that this has succeeded."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.folder_states import join, walk

_DIGEST_MODULUS = 1 << 128


class FolderBackup:
    """A backup of a folder: the states of its files, and copies of those files that a run may change.

    A run may change the copied files, and add new files. put_back() raises an error after any other change.
    """

    def __init__(self, folder: Path, copies: Path, names: Iterable[str]) -> None:
        """Copy the files that a run may change (`names`: paths below `folder`) to the new folder `copies`."""
        self.folder = folder
        # {"db/current": copies/0, ...}
        self.copies = {name: copies / str(number) for number, name in enumerate(names)}
        copies.mkdir()
        for name, copy in self.copies.items():
            shutil.copy2(folder / name, copy)
        # The states (os.lstat) of all files and folders by their paths below `folder`.
        self.states = dict(self._list_states())
        # {path: (identity, digest)}. A file with the same identity as before is not read again.
        self.known_digests: dict[str, tuple[str, int]] = {}
        self.digest = self._read_digest()

    def put_back(self) -> None:
        """Remove what was added to the folder, and restore what was changed, since the backup was made.

        Raise UserError if anything without a copy was changed or removed, or if the content of the folder
        then differs from that in the backup.
        """
        present = dict(self._list_states())
        # In reverse order, the content of a folder comes before the folder.
        for name in sorted(present.keys() - self.states.keys(), reverse=True):
            remove_path(self.folder / name)
        for name, state in self.states.items():
            # _restore() raises UserError for a folder, and for a file without a copy.
            if name not in present or _identity(present[name]) != _identity(state):
                self._restore(name, state)
        # The digest includes the contents of restored files. So a damaged copy in the backup is noticed.
        if self._read_digest() != self.digest:
            raise UserError(
                f"{self.folder}: cannot be put back to its content before the run. Run again; if it fails "
                f"again, check the device."
            )

    def _restore(self, name: str, state: os.stat_result) -> None:
        """Copy a file back, with the owner in `state`. Raise UserError if the backup has no copy of it."""
        path = self.folder / name
        if name not in self.copies:
            raise UserError(
                f"{path}: was changed or removed, and a commit only adds such files. Check the command's "
                f"`argv`, and stop other programs that write there."
            )
        remove_path(path)
        shutil.copy2(self.copies[name], path)
        os.chown(path, state.st_uid, state.st_gid)
        # The new file has another inode and another ctime.
        self.states[name] = os.lstat(path)

    def _list_states(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield each path below the folder with its state, a folder before its content."""
        for folder, entries in walk(self.folder):
            for name, status in entries:
                yield join(folder, name), status

    def _read_digest(self) -> str:
        """Return a digest of the names, modes and contents of everything below the folder now.

        A file without a copy counts by its state (_identity) instead of its content.
        """
        # A sum is the same in any order of the files.
        total = 0
        for name, status in self._list_states():
            identity = _identity(status)
            known_identity, number = self.known_digests.get(name, ("", 0))
            if known_identity != identity:
                number = self._digest_entry(name, status)
                self.known_digests[name] = (identity, number)
            total += number
        return f"{total % _DIGEST_MODULUS:032x}"

    def _digest_entry(self, name: str, status: os.stat_result) -> int:
        """Return a digest as a number: of the content of a file with a copy, otherwise of the identity."""
        if name not in self.copies:
            text = f"{name}\0{_identity(status)}"
            return _as_number(hashlib.blake2b(os.fsencode(text), digest_size=16))
        digest = hashlib.blake2b(os.fsencode(f"{name}\0{status.st_mode}\0"), digest_size=16)
        with open(self.folder / name, "rb") as file:
            hashlib.file_digest(file, lambda: digest)
        return _as_number(digest)


def _as_number(digest: hashlib.blake2b) -> int:
    return int.from_bytes(digest.digest(), "big")


def _identity(status: os.stat_result) -> str:
    """Return the state of a file or folder as text. It changes with each write to a file."""
    # No program can set the ctime of a file back. The times of a folder change with its entries, which have
    # states of their own, so a folder has only owner and mode here.
    owner = f"{status.st_mode} {status.st_uid} {status.st_gid}"
    if stat.S_ISDIR(status.st_mode):
        return owner
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{owner} {status.st_ino} {status.st_size} {times}"
