"""The one folder that vcsbench makes on a storage; nothing outside of it is ever written or removed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import read_bytes
from vcsbench.files import write_json
from vcsbench.processes import closed
from vcsbench.storages.mounts import read_mounts

MARKER = ".vcsbench"
MARKER_LIMIT = 1 << 16
# For the owner and the servers' group.
MODE = 0o750
# All that vcsbench makes in its folder.
OURS = (
    *("repositories", "loading", "making", "dumps", "targets", "discarded", "working-copies"),
    "trees",
)
# How long a process that a killed job started may still write.
ENDS_IN_S = 10.0
# What is there when a run was ended while it wrote the marker.
_BEGUN = {MARKER, f".{MARKER}.new"}


def owner_of(place: Path) -> str:
    """Return the checkout that made a folder on a storage; "" if the folder is not its and ours.

    Another user may have put anything into a folder of his own: it is not opened.
    """
    try:
        there = os.lstat(place)
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid():
            return ""
        content = json.loads(_marker(place))
    except (OSError, ValueError, RecursionError):
        return ""
    owner = content.get("owner") if isinstance(content, dict) else ""
    return owner if isinstance(owner, str) else ""


def _marker(place: Path) -> bytes:
    """Return the marker's content, or something that is no marker."""
    try:
        return read_bytes(place / MARKER, MARKER_LIMIT, follow_links=False)
    except (OSError, UserError):
        return b"?"


def make_folder(folder: Path) -> None:
    """Make a folder that all may enter who can enter the one above it, whatever the umask is."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o755)


def resolve(folder: str | Path, root: str | Path) -> Path:
    """The folder itself that a configured one names, be it a link or relative to the checkout `root`: what
    is recorded of a storage or compared with one is always this."""
    return Path(os.path.realpath(Path(root, folder)))


class Place:
    """vcsbench's folder on a storage, one for each checkout of the workflow.

    `storage` is the configured folder, `root` the checkout: two checkouts never share a place.
    """

    def __init__(self, storage: str | Path, root: str | Path) -> None:
        self.storage = resolve(storage, root)
        self.owner = os.path.realpath(root)
        name = hashlib.sha256(self.owner.encode()).hexdigest()[:8]
        self.path = self.storage / f"vcsbench-{name}"

    def make(self, *below: str) -> Path:
        """Make the place, and a folder in it; a UserError where the storage does not allow it."""
        if not self.storage.is_dir():
            raise UserError(
                f"{self.storage}: the storage is not a folder; make it, or name another one"
            )
        try:
            self._make()
            self._check(below)
            self._protect()
            folder = self.path
            for name in below:
                folder /= name
                make_folder(folder)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made: {error.strerror}; name another folder in `storages` "
                f"or `scratch`"
            ) from None
        return folder

    def _make(self) -> None:
        try:
            self.path.mkdir(mode=0o700)
        except FileExistsError:
            if not self._is_begun():
                return
        write_json(self.path / MARKER, {"owner": self.owner})

    def _protect(self) -> None:
        """Keep everybody out of the folder but its owner and, if that is root, the servers' group.

        A file system without owners and modes refuses that, or ignores it: see is_protected().
        """
        ids = processes.server_ids()
        there = os.stat(self.path, follow_symlinks=False)
        has_group = not ids or there.st_gid == ids[1]
        if not has_group or stat.S_IMODE(there.st_mode) != (MODE if ids else MODE & 0o700):
            with contextlib.suppress(PermissionError):
                processes.grant(self.path, MODE)

    def is_protected(self) -> bool:
        """Return True if other users of the machine cannot enter the folder. It has to be there."""
        return not stat.S_IMODE(os.stat(self.path).st_mode) & 0o007

    def check_protected(self) -> None:
        """Raise UserError if other users can read in the folder, where a private repository would go."""
        if not self.is_protected():
            raise UserError(
                f"{self.storage}: its file system keeps no modes, so all users would read the repository, "
                f"which they cannot now. Name another folder in `storages` or `scratch`."
            )

    def check_open(self) -> None:
        """A UserError where the user whom root's servers run as cannot enter the place."""
        if folder := closed(self.path):
            raise UserError(
                f"{self.storage}: the servers run as nobody, who cannot enter {folder}; name a folder "
                f"in `storages` that everybody can enter, such as /var/tmp, or chmod o+x it"
            )

    def remove(self, *below: str) -> None:
        """Remove a folder or file in the place, if it is there; without a name, all that vcsbench made,
        and the place itself unless somebody put something else there.

        A UserError where the place is not ours, or another file system is mounted in what is to go.
        """
        if not os.path.lexists(self.path):
            return
        self._check(below[:-1])
        for name in [below] if below else [(name,) for name in OURS]:
            self._remove(self.path.joinpath(*name))
        if not below:
            try:
                if set(os.listdir(self.path)) <= _BEGUN:
                    for file in _BEGUN:
                        (self.path / file).unlink(missing_ok=True)
                    self.path.rmdir()
            except OSError as error:
                raise UserError(f"{self.path}: cannot be removed: {error.strerror}") from None

    def _remove(self, target: Path) -> None:
        mounted = [m.point for m in read_mounts() if Path(m.point).is_relative_to(target)]
        if mounted:
            raise UserError(
                f"{target}: is not removed: something is mounted at {mounted[0]}; unmount it, and run again"
            )
        if target.is_dir() and not target.is_symlink():
            _remove_tree(target)
        else:
            target.unlink(missing_ok=True)

    def _is_own_folder(self) -> bool:
        there = os.lstat(self.path)
        return stat.S_ISDIR(there.st_mode) and there.st_uid == os.geteuid()

    def _is_begun(self) -> bool:
        """Whether a run made the place that ended before its marker was written; never a link, nor what is
        somebody's."""
        if not self._is_own_folder() or not set(os.listdir(self.path)) <= _BEGUN:
            return False
        marker = self.path / MARKER
        return not os.path.lexists(marker) or _marker(self.path).strip(b"\0") == b""

    def _check(self, below: Sequence[str] = ()) -> None:
        """A UserError where the place, or a folder on the way to what is in it, is not ours."""
        is_ours = self._is_own_folder() and (owner_of(self.path) == self.owner or self._is_begun())
        if not is_ours:
            raise UserError(
                f"{self.path}: is in the way: vcsbench did not make it, and will not touch it; "
                f"move it elsewhere"
            )
        for number in range(1, len(below) + 1):
            folder = self.path.joinpath(*below[:number])
            if folder.is_symlink():
                raise UserError(
                    f"{folder}: is in the way: it is a link, which vcsbench did not make, and will not "
                    f"follow; move it elsewhere"
                )


def _remove_tree(folder: Path) -> None:
    """Remove a folder, in which a process that a killed job started may still make or remove files."""
    deadline = time.monotonic() + ENDS_IN_S
    while os.path.lexists(folder):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            is_busy = error.errno in (errno.ENOTEMPTY, errno.ENOENT)
            if not is_busy or time.monotonic() > deadline:
                raise UserError(
                    f"{folder}: cannot be removed: {error.strerror}. Remove it, and run again."
                ) from None
            time.sleep(0.05)
