"""Manage the one folder that vcsbench makes on each storage. Nothing outside of it is written or removed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import SMALL_FILE, read_bytes
from vcsbench.files import read_json, take_lock, write_json
from vcsbench.storages.file_trees import check_mount, open_folder, remove_path

MARKER = ".vcsbench"
MODE = 0o750
TARGETS, STAGING = "targets", "loading"
# Loaded repositories, in a folder for each repository and format.
LOADED = "loaded"
SUBFOLDERS = (
    *("repositories", STAGING, LOADED, "making", "dumps", TARGETS, "discarded", "working-copies"),
    "trees",
)
_INCOMPLETE = {MARKER, f".{MARKER}.new"}
ENDS_IN_S = 60.0


def owner_of(workdir: Path) -> str:
    """Return the checkout in the marker of this user's work folder; "" without a marker."""
    try:
        with open_folder(workdir) as folder:
            return _owner(folder)
    except OSError:
        return ""


def _owner(folder: int) -> str:
    is_own = os.fstat(folder).st_uid == os.geteuid()
    owner = read_json(_marker(folder), follow_links=False).get("owner") if is_own else ""
    with contextlib.suppress(UnicodeEncodeError):
        return owner if isinstance(owner, str) and b"\0" not in os.fsencode(owner) else ""
    return ""


def _marker(folder: int) -> Path:
    # By its path, the folder may be another one a moment later.
    return Path(f"/proc/self/fd/{folder}", MARKER)


def _lacks_marker(folder: int) -> bool:
    """Return True if an open folder of this user has only names of vcsbench, and no marker.

    A run was killed before it wrote the marker, or systemd-tmpfiles removed the marker because nothing had
    read it for 30 days.
    """
    is_own = os.fstat(folder).st_uid == os.geteuid()
    if not is_own or not set(os.listdir(folder)) <= _INCOMPLETE.union(SUBFOLDERS):
        return False
    try:
        marker = read_bytes(_marker(folder), SMALL_FILE, follow_links=False)
    except (OSError, UserError) as error:
        return isinstance(error, FileNotFoundError)
    return not marker.strip(b"\0")


def resolve(folder: str | Path, root: str | Path) -> Path:
    return Path(os.path.realpath(Path(root, folder)))


class WorkDir:
    """vcsbench's folder on a storage, one for each checkout.

    `storage` is the configured folder, `root` the checkout.
    """

    def __init__(self, storage: str | Path, root: str | Path) -> None:
        self.storage = resolve(storage, root)
        self.owner = os.path.realpath(root)
        name = hashlib.sha256(self.owner.encode()).hexdigest()[:8]
        self.path = self.storage / f"vcsbench-{name}"

    def make(self, *below: str) -> Path:
        """Make the work folder and a folder in it, and return that. Raise UserError if that fails."""
        if not self.storage.is_dir():
            raise UserError(f"{self.storage}: is not a folder. Make it, or use another folder.")
        try:
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            with self._open() as folder:
                if _lacks_marker(folder):
                    write_json(_marker(folder), {"owner": self.owner})
                # systemd-tmpfiles would remove a marker that is older than the copies.
                os.utime(_marker(folder), follow_symlinks=False)
                self._protect(folder)
            with self._open(below, make=True):
                return self.path.joinpath(*below)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made: {error.strerror}. Use another folder in `storages` or "
                f"`scratch`."
            ) from None

    def lock(self, wait_s: float = 0.0) -> int | None:
        """Take the lock of the work folder for a session, and return its descriptor; None without a folder.

        The end of this process frees the lock. Raise UserError if another session holds it for longer than
        `wait_s`: a checkout in another container may have the same path, and so the same work folder.
        """
        try:
            with self._open() as folder:
                # A file that is open for writing keeps its file system from being made read-only.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                marker = os.open(MARKER, flags, dir_fd=folder)
            is_locked = take_lock(marker, wait_s)
        except (UserError, OSError):
            # If a job needs the folder, it prints what is wrong with it.
            return None
        if is_locked:
            return marker
        os.close(marker)
        raise UserError(
            f"{self.path}: another workflow run works in this folder. Wait for it, or use another folder in "
            f"`storages` or `scratch`."
        )

    def _protect(self, folder: int) -> None:
        """Give access to the owner only and, if that is root, to the servers' group.

        A file system without owners and modes ignores that: see check_protected().
        """
        ids, status = processes.server_ids(), os.fstat(folder)
        has_group = not ids or status.st_gid == ids[1]
        has_mode = stat.S_IMODE(status.st_mode) == (MODE if ids else MODE & 0o700)
        if not (has_group and has_mode) or processes.has_access_list(self.path):
            with contextlib.suppress(PermissionError):
                processes.grant(folder, MODE)

    def check_protected(self) -> None:
        """Raise UserError if other users could read a private repository in the work folder."""
        is_open = stat.S_IMODE(os.stat(self.path).st_mode) & 0o007
        if is_open or processes.has_access_list(self.path):
            raise UserError(
                f"{self.storage}: its file system keeps no modes, so all users would read the repository, "
                f"which they cannot now. Use another folder in `storages` or `scratch`."
            )

    def check_reachable(self) -> None:
        """Raise UserError if the user of root's servers cannot enter the work folder."""
        if folder := processes.closed_folder(self.path):
            raise UserError(
                f"{self.storage}: the servers run as nobody, who cannot enter {folder}. Use a folder in "
                f"`storages` that everybody can enter, such as /var/tmp, or chmod o+x it."
            )

    def remove(self, *below: str) -> None:
        """Remove a file or folder in the work folder. Without a name, remove everything that vcsbench made.

        Files of somebody else and the folder around them stay. Raise UserError if the folder is not this
        checkout's, or if another file system is mounted in it.
        """
        if not os.path.lexists(self.path):
            return
        with contextlib.suppress(FileNotFoundError), self._open(below[:-1]) as folder:
            for name in below[-1:] or SUBFOLDERS:
                _remove_while_written(self.path.joinpath(*below[:-1], name), folder)
            try:
                if not below and set(os.listdir(folder)) <= _INCOMPLETE:
                    for file in _INCOMPLETE:
                        remove_path(self.path / file, folder)
                    self.path.rmdir()
            except OSError as error:
                raise _not_removed(self.path, error) from None

    @contextlib.contextmanager
    def _open(self, below: Sequence[str] = (), make: bool = False) -> Iterator[int]:
        """Open a folder in the work folder, or make it, and yield its descriptor.

        Raise UserError if the work folder is not this checkout's, or if `below` leads over a link or a mount.
        """
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(open_folder(self.path))
                is_own = _owner(folder) == self.owner or _lacks_marker(folder)
            except (NotADirectoryError, PermissionError):
                is_own = False
            if not is_own:
                raise self._foreign()
            path = self.path
            for name in below:
                path, above = path / name, folder
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=above)
                try:
                    folder = stack.enter_context(open_folder(name, above))
                except NotADirectoryError:
                    text = f"{path}: this is a link or a file, not a folder. Move it elsewhere."
                    raise UserError(text) from None
                check_mount(folder, above, path)
                # A run may have been killed before it set the mode.
                if make and stat.S_IMODE(os.fstat(folder).st_mode) == 0o700:
                    os.fchmod(folder, 0o755)
            yield folder

    def _foreign(self) -> UserError:
        remedy = f"Move it, or remove it: rm -r {shlex.quote(str(self.path))}"
        uid = os.lstat(self.path).st_uid
        if uid not in (os.geteuid(), 0):
            remedy = f"Have user {uid} or root remove it, or use another folder in `storages`"
        return UserError(f"{self.path}: vcsbench did not make this. {remedy}.")


def _not_removed(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be removed: {error.strerror}. Remove it, and run again.")


def _remove_while_written(path: Path, above: int) -> None:
    """Remove a path in which a process that a killed job started may still make or remove files.

    `above` is the open folder around it.
    """
    deadline = time.monotonic() + ENDS_IN_S
    while True:
        try:
            return remove_path(path, above)
        except OSError as error:
            if error.errno == errno.EROFS:
                raise
            if error.errno != errno.ENOTEMPTY or time.monotonic() > deadline:
                raise _not_removed(path, error) from None
            time.sleep(0.05)


def _entries(folder: Path, pattern: str = "*") -> Iterable[Path]:
    # glob() raises for a name that is too long.
    return folder.glob(pattern) if os.path.isdir(folder) else ()


def abandoned_workdirs(storage: Path) -> list[WorkDir]:
    """Return the work folders on a storage whose checkouts do not exist here."""
    paths = _entries(storage, "vcsbench-*")
    workdirs = ((path, WorkDir(storage, owner_of(path) or "/")) for path in paths)
    return [w for path, w in workdirs if w.path == path and not os.path.lexists(w.owner)]


@contextlib.contextmanager
def run_folder(root: str | Path) -> Iterator[Path]:
    """Make a temporary folder, and hold its lock: after a kill, remove_abandoned() can take the lock."""
    made = tempfile.TemporaryDirectory(prefix=_prefix(root), ignore_cleanup_errors=True)
    with made as path, open_folder(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield Path(path)


def remove_abandoned(root: str | Path, workdirs: Sequence[WorkDir]) -> list[Path]:
    """Remove what killed jobs left, and return the paths.

    These are run folders without a lock; in `workdirs`, whose locks the caller holds, also written targets,
    folders of loads at work, and loaded repositories without a record. Process ids tell nothing about
    owners in other containers.
    """
    prefix, removed = _prefix(root), []
    refusals = contextlib.suppress(UserError, OSError)
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with refusals:
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            with open_folder(path) as folder:
                if take_lock(folder):
                    remove_path(path)
                    removed.append(path)
    for workdir in workdirs:
        written = [*_entries(workdir.path / TARGETS), *_entries(workdir.path / STAGING)]
        for path in _entries(workdir.path / LOADED, "*/*"):
            record = read_json(
                Path(root, "results", "loaded", path.parent.name, f"{path.name}.json")
            )
            if record.get("path") != str(path):
                written.append(path)
        for path in written:
            with refusals:
                workdir.remove(*path.relative_to(workdir.path).parts)
                removed.append(path)
    return removed


def _prefix(root: str | Path) -> str:
    return f"{WorkDir('/', root).path.name}-"
