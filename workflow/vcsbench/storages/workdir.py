"""Manage the only folder that vcsbench makes on each storage. Nothing outside of it is written or removed."""

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
from functools import cache
from pathlib import Path

from vcsbench import server_user
from vcsbench.errors import UserError
from vcsbench.files import read_json, take_lock
from vcsbench.storages.file_trees import check_mount, open_folder, remove_path

# The keys of the configuration whose folders have a work folder, for the remedies of errors.
KEYS = "`storages`, `filesystems` or `scratch`"
MODE = 0o750
TARGETS, STAGING = "targets", "loading"
# Loaded repositories, in a folder for each repository and format.
LOADED_FOLDER = "loaded"
SUBFOLDERS = (
    "repositories",
    STAGING,
    LOADED_FOLDER,
    "making",
    "dumps",
    TARGETS,
    "discarded",
    "working-copies",
    "trees",
)
# A file in the work folders that earlier versions made.
OLD_MARKER = ".vcsbench"
ENDS_IN_S = 60.0


def resolve(folder: str | Path, root: str | Path) -> Path:
    """Return a configured folder without links; a relative one is below the checkout `root`."""
    return Path(os.path.realpath(Path(root, folder)))


class WorkDir:
    """The work folder: the only folder of a checkout of vcsbench on a storage.

    `storage` is a folder of the configuration, such as /var/tmp, and `root` the checkout. The work folder is
    then /var/tmp/vcsbench-1a2b3c4d. It is this checkout's if it is a folder of this user, and no link.
    """

    def __init__(self, storage: str | Path, root: str | Path) -> None:
        self.storage = resolve(storage, root)
        self.owner = os.path.realpath(root)
        # The digest of the checkout's path: checkouts that share a storage have folders of different names.
        name = hashlib.sha256(self.owner.encode()).hexdigest()[:8]
        self.path = self.storage / f"vcsbench-{name}"

    def make(self, *below: str) -> Path:
        """Make the work folder and the folders `below` it that are missing. Return the path of the last one.

        make("dumps") returns /var/tmp/vcsbench-1a2b3c4d/dumps. Raise UserError if a folder cannot be made, or
        if the work folder is not this checkout's.
        """
        if not self.storage.is_dir():
            raise UserError(f"{self.storage}: is not a folder. Make it, or use another folder.")
        try:
            # Nobody else may enter the folder before _protect() has set its group.
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            with self._open() as folder:
                self._protect(folder)
            with self._open(below, make=True):
                return self.path.joinpath(*below)
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made: {error.strerror}. Use another folder in {KEYS}."
            ) from None

    def lock(self, wait_s: float = 0.0) -> int | None:
        """Take the lock of the work folder, and return the descriptor of the folder, which holds the lock.

        Two checkouts in different containers may have the same path, and so the same work folder. Return None
        if the folder cannot be opened, or if its file system has no locks. Raise UserError if another session
        holds the lock for longer than `wait_s`.
        """
        try:
            # The copy of the descriptor keeps the folder open after the `with` block.
            with self._open() as opened:
                folder = os.dup(opened)
        except (UserError, OSError):
            # A job that needs the folder prints what is wrong with the folder.
            return None
        try:
            # The lock lasts as long as the folder is open. Nothing closes it before this process ends.
            if take_lock(folder, wait_s):
                return folder
        except OSError:
            # Some network file systems have no locks (ENOLCK). The lock of the checkout still holds.
            os.close(folder)
            return None
        os.close(folder)
        raise UserError(
            f"{self.path}: another workflow run works in this folder. Wait for it, or use another folder in "
            f"{KEYS}."
        )

    def _protect(self, folder: int) -> None:
        """Let only the owner into the open work folder and, if that is root, the group of root's servers.

        Root's servers run as another user. A file system without owners and modes ignores this: see
        check_protected().
        """
        status = os.fstat(folder)
        # The group is that of root's servers, or UNCHANGED: any group will do.
        rights = server_user.granted_rights(MODE)
        has_group = rights.gid in (server_user.UNCHANGED, status.st_gid)
        is_granted = has_group and stat.S_IMODE(status.st_mode) == rights.mode
        # The folder may inherit an access-control list from the storage, which can let other users in.
        if not is_granted or server_user.has_access_list(self.path):
            with contextlib.suppress(PermissionError):
                server_user.grant(folder, MODE)

    def check_protected(self) -> None:
        """Raise UserError if other users could read a private repository in the work folder."""
        if _is_open(self.path):
            raise UserError(
                f"{self.storage}: its file system keeps no modes, so other users could read the repository, "
                f"which they cannot now. Use another folder in {KEYS}."
            )

    def check_reachable(self) -> None:
        """Raise UserError if the user of root's servers cannot enter the work folder or one above it."""
        folder = server_user.closed_folder(self.path)
        if folder:
            raise UserError(
                f"{self.storage}: the servers run as nobody, who cannot enter {folder}. Use a folder in "
                f"`storages` that everybody can enter, such as /var/tmp, or chmod o+x it."
            )

    def remove(self, *below: str) -> None:
        """Remove a file or folder in the work folder: remove("dumps", "ruby") removes its dumps/ruby.

        Without a name, remove everything that vcsbench made. Then files of somebody else stay, and the work
        folder around them. Raise UserError if the work folder is not this checkout's, if another file system
        is mounted in what is removed, or if something cannot be removed.
        """
        if not os.path.lexists(self.path):
            return
        # If a folder on the way to the file does not exist, the file is already gone.
        with contextlib.suppress(FileNotFoundError):
            if below:
                with self._open(below[:-1]) as above:
                    _remove_while_written(self.path.joinpath(*below), above)
            else:
                with self._open() as folder:
                    self._remove_all(folder)

    def _remove_all(self, folder: int) -> None:
        """Remove all that vcsbench made in the open work folder, and the folder if it is empty then.

        Raise UserError if something cannot be removed.
        """
        for name in (*SUBFOLDERS, OLD_MARKER):
            _remove_while_written(self.path / name, folder)
        try:
            self.path.rmdir()
        except OSError as error:
            # With a file of somebody else, the folder stays.
            if error.errno != errno.ENOTEMPTY:
                raise _not_removed(self.path, error) from None

    @contextlib.contextmanager
    def _open(self, below: Sequence[str] = (), make: bool = False) -> Iterator[int]:
        """Open the work folder, or the folder `below` it, and yield its descriptor.

        `below` has a name for each step, such as ("targets", "4711"). `make` makes missing folders below the
        work folder. Raise UserError if the work folder is not this checkout's, or if a step is a link, a file
        or a mount. Raise FileNotFoundError for a missing folder.
        """
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(open_folder(self.path))
                # In /tmp, for example, another user can make a folder with the name of ours.
                is_own = os.fstat(folder).st_uid == os.geteuid()
            except (NotADirectoryError, PermissionError):
                is_own = False
            if not is_own:
                raise self._foreign()
            # Somebody could put a link into a path between two steps, and vcsbench would write or remove
            # files in another place. So each step starts from the descriptor of the folder before.
            path = self.path
            for name in below:
                path = path / name
                folder = _enter_folder(stack, path, folder, make)
            yield folder

    def _foreign(self) -> UserError:
        """Return the error for something at the path of the work folder that cannot be used as one."""
        uid = os.lstat(self.path).st_uid
        if uid == os.geteuid():
            # Something of this user is there, but no folder that can be opened.
            command = f"rm -r {shlex.quote(str(self.path))}"
            text = f"{self.path}: vcsbench did not make this. Move it, or remove it: {command}."
            return UserError(text)
        # Another user made it. Or the file system gives new files to this user, as NFS with root_squash or
        # the mount option uid= does.
        return UserError(
            f"{self.path}: belongs to user {uid}, and not to you. Have user {uid} or root remove it, or use "
            f"another folder in {KEYS}."
        )


def _is_open(folder: Path) -> bool:
    """Return True if users other than the owner and root's servers have rights in a work folder."""
    status = os.stat(folder)
    rights = server_user.granted_rights(MODE)
    # A group may have rights only if it is the group of root's servers.
    allowed = rights.mode
    if rights.gid not in (server_user.UNCHANGED, status.st_gid):
        allowed &= ~stat.S_IRWXG
    # A folder may inherit other bits, such as that of its group (S_ISGID), which give nobody a right.
    given = stat.S_IMODE(status.st_mode) & 0o777
    return bool(given & ~allowed) or server_user.has_access_list(folder)


@cache
def can_be_closed(storage: Path) -> bool:
    """Return True if vcsbench can close its folder on a storage to other users, as a private tree needs.

    Some file systems keep no modes, such as vfat. To see this, a folder is made there and removed again. Also
    return True if no folder can be made, because another check before the run reports that with its reason.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".vcsbench-", dir=storage) as folder:
            with contextlib.suppress(PermissionError):
                server_user.grant(Path(folder), MODE)
            return not _is_open(Path(folder))
    except (OSError, UserError):
        # UserError: grant() looks up the user of root's servers, who may not exist.
        return True


def _enter_folder(stack: contextlib.ExitStack, path: Path, above: int, make: bool) -> int:
    """Open a folder until `stack` is left, and return its descriptor. `above` is the open folder around it.

    With `make`, a missing folder is made. Raise UserError if `path` is a link, a file or a mount.
    """
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path.name, 0o700, dir_fd=above)
    try:
        folder = stack.enter_context(open_folder(path.name, above))
    except NotADirectoryError:
        text = f"{path}: this is a link or a file, not a folder. Move it elsewhere."
        raise UserError(text) from None
    check_mount(folder, above, path)
    # mkdir() obeys the umask, so the mode of a new folder is set here. Until then, its mode 700 shows that it
    # is new. A folder of an earlier run that was killed before this line has this mode, too.
    if make and stat.S_IMODE(os.fstat(folder).st_mode) == 0o700:
        os.fchmod(folder, 0o755)
    return folder


def _not_removed(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be removed: {error.strerror}. Remove it, and run again.")


def _remove_while_written(path: Path, above: int) -> None:
    """Remove a file or folder, and try again while another process still makes files in the folder.

    A killed job may leave such a process, which ends soon. `above` is the descriptor of the folder around the
    path. Raise UserError if the path cannot be removed within ENDS_IN_S, and OSError on a read-only file
    system.
    """
    deadline = time.monotonic() + ENDS_IN_S
    while True:
        try:
            remove_path(path, above)
            return
        except OSError as error:
            # A job has a message of its own for a storage that became read-only, so this error is passed on.
            if error.errno == errno.EROFS:
                raise
            # The process made a file after the folder was emptied, and before the folder was removed.
            is_being_written = error.errno == errno.ENOTEMPTY
            if not is_being_written or time.monotonic() > deadline:
                raise _not_removed(path, error) from None
            time.sleep(0.05)


def _entries(folder: Path, pattern: str = "*") -> Iterable[Path]:
    # glob() raises for a name that is too long.
    return folder.glob(pattern) if os.path.isdir(folder) else ()


@contextlib.contextmanager
def run_folder(root: str | Path) -> Iterator[Path]:
    """Make a temporary folder for the `with` block, hold its lock, and yield its path.

    If this process is killed, the kernel frees the lock, and a later remove_abandoned() removes the folder.
    """
    made = tempfile.TemporaryDirectory(prefix=_prefix(root), ignore_cleanup_errors=True)
    with made as path, open_folder(path) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield Path(path)


def _prefix(root: str | Path) -> str:
    """Return the beginning of the names of a checkout's run folders, such as `vcsbench-1a2b3c4d-`."""
    return f"{WorkDir('/', root).path.name}-"


def remove_abandoned(root: str | Path, workdirs: Sequence[WorkDir]) -> list[Path]:
    """Remove what killed jobs of the checkout `root` left, and return the removed paths.

    The caller holds the locks of the work folders `workdirs`.
    """
    removed = _remove_run_folders(root)
    for workdir in workdirs:
        for path in _find_leftovers(Path(root), workdir):
            # A leftover that cannot be removed now does no harm. The next run tries again.
            with contextlib.suppress(UserError, OSError):
                workdir.remove(*path.relative_to(workdir.path).parts)
                removed.append(path)
    return removed


def _remove_run_folders(root: str | Path) -> list[Path]:
    """Remove the run folders (run_folder) of a checkout that no process has locked; return their paths."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(f"{_prefix(root)}*"):
        with contextlib.suppress(UserError, OSError):
            status = os.lstat(path)
            # In the temporary folder, another user may have made something with this name.
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            # A process id would not show a process in another container. So the lock decides.
            with open_folder(path) as folder:
                if take_lock(folder):
                    remove_path(path)
                    removed.append(path)
    return removed


def _find_leftovers(root: Path, workdir: WorkDir) -> list[Path]:
    """Return what killed jobs left in a work folder: targets, loads, and repositories without a record."""
    leftovers = [*_entries(workdir.path / TARGETS), *_entries(workdir.path / STAGING)]
    for path in _entries(workdir.path / LOADED_FOLDER, "*/*"):
        record = read_json(root / "results" / "loaded" / path.parent.name / f"{path.name}.json")
        # A load writes its record last. A repository without a record is not used, and is loaded again.
        if record.get("path") != str(path):
            leftovers.append(path)
    return leftovers
