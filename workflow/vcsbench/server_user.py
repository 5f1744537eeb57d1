"""The user of root's servers: its ids, and the rights that vcsbench gives it to files and folders."""

import contextlib
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.kernel import PR_SET_PDEATHSIG, control_process, death_signal, libc, read

# Root's servers run as this user, in a group of their own, so that no other daemon of this user can read
# their files. Neither Debian nor systemd assigns the ids 65520 to 65533.
UNPRIVILEGED = "nobody"
SERVER_GROUP = 65531
ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")


class ServerIds(NamedTuple):
    """The user and the group of root's servers."""

    uid: int
    gid: int


def server_ids() -> ServerIds | None:
    """Return the ids of root's servers; None if this process is not root's.

    In a container without SERVER_GROUP, the group is that of the user. Raise UserError without the user.
    """
    if os.geteuid() != 0:
        return None
    try:
        user = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise UserError(
            f"root's servers run as {UNPRIVILEGED}, and there is no such user. "
            f"Run `useradd {UNPRIVILEGED}`."
        ) from None
    gid = SERVER_GROUP if _can_use_group(SERVER_GROUP) else user.pw_gid
    return ServerIds(user.pw_uid, gid)


def _can_use_group(gid: int) -> bool:
    # A line such as `0 100000 65536` has the first id inside of the container, its id outside, and the number
    # of ids. A kernel without user namespaces does not have this file.
    lines = read("/proc/self/gid_map").splitlines()
    for line in lines:
        first, _, count = map(int, line.split())
        if first <= gid < first + count:
            return True
    return not lines


# In place of a group.
UNCHANGED = -1


class Rights(NamedTuple):
    """The group (or UNCHANGED) and the mode of a file or folder."""

    gid: int
    mode: int


def granted_rights(mode: int) -> Rights:
    """Return the rights that grant() sets for a mode, such as 0o640 for a file that servers read.

    If this process is not root's, its servers run as its own user, so group and others get no rights.
    """
    ids = server_ids()
    return Rights(ids.gid, mode) if ids else Rights(UNCHANGED, mode & 0o700)


def grant(path: Path | int, mode: int) -> None:
    """Set the mode of a file or folder, and its group to the group of root's servers (granted_rights).

    `path` may be a descriptor. Access-control lists are removed, because a list that was inherited from the
    folder above could give other users rights.
    """
    for name in ACCESS_LISTS:
        # The file may have no such list, and the file system may support none.
        with contextlib.suppress(OSError):
            os.removexattr(path, name)
    rights = granted_rights(mode)
    if rights.gid != UNCHANGED:
        os.chown(path, -1, rights.gid)
    os.chmod(path, rights.mode)


def has_access_list(path: Path) -> bool:
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False
    return not set(ACCESS_LISTS).isdisjoint(names)


def closed_folder(path: Path) -> Path | None:
    """Return the lowest folder of a path that the user of root's servers cannot enter; None without one."""
    ids = server_ids()
    if not ids:
        return None
    for folder in (path, *path.parents):
        if folder.exists() and not _can_enter(folder.stat(), ids):
            return folder
    return None


def _can_enter(status: os.stat_result, ids: ServerIds) -> bool:
    # The kernel takes the right of the first class that fits: owner, group, others.
    if status.st_uid == ids.uid:
        right = stat.S_IXUSR
    elif status.st_gid == ids.gid:
        right = stat.S_IXGRP
    else:
        right = stat.S_IXOTH
    return bool(status.st_mode & right)


@contextlib.contextmanager
def as_server_user() -> Iterator[None]:
    """Read /proc in the `with` block as the user of root's servers, if this process is root's.

    Without CAP_SYS_PTRACE, as in a container, root may not read the open files, I/O counts and maps of
    another user's process. The user of the process may. The kernel decides by the thread's file-system ids.
    """
    try:
        ids = server_ids()
    except UserError:
        # Without the user, no server runs.
        ids = None
    if not ids:
        yield
        return
    # With each change of these ids, the kernel clears the signal that this process gets when its parent ends.
    parent = os.getppid()
    signal = death_signal()
    libc.setfsgid(ids.gid)
    libc.setfsuid(ids.uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
        if signal:
            control_process(PR_SET_PDEATHSIG, signal)
            # If the parent has ended by now, the kernel has sent no signal. So this process sends it.
            if os.getppid() != parent:
                os.kill(os.getpid(), signal)
