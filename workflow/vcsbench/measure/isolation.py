"""Measure alone: one measurement at a time on a machine, and a network of its own for the server."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import namespaces, processes
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.kernelfile import read

if TYPE_CHECKING:
    from vcsbench.records import Recipe

# The first folder that every user may write, and where nobody can remove the file of another user.
LOCK_FOLDERS = ("/run/lock", "/dev/shm", "/tmp")
LOCK_NAME = "vcsbench.lock"
# A file may not be readable between its creation by another user and the setting of its mode.
TRIES = 20
RETRY_S = 0.05
COMMAND_LENGTH = 120


def _is_shared(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_writable = status.st_mode & stat.S_ISVTX and status.st_mode & 0o002
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and bool(is_writable)


LOCK_PATH = os.path.join(next(filter(_is_shared, LOCK_FOLDERS), LOCK_FOLDERS[-1]), LOCK_NAME)


class Holder(NamedTuple):
    """The process that holds the lock. An unknown user or command is "?", an unknown time ""."""

    pid: int
    user: str
    command: str
    started_at: str

    def __str__(self) -> str:
        since = f", started at {self.started_at}" if self.started_at else ""
        return f"process {self.pid} of {self.user} ({self.command}{since})"


@contextmanager
def machine_lock() -> Iterator[int]:
    """Hold the machine's lock, and yield its descriptor. Print the holder on standard error while waiting.

    The timed programs inherit the descriptor, so a program that outlives its cell still keeps the lock.
    Raise UserError if the lock file is not a plain file.
    """
    fd = _open()
    try:
        while not _acquire(fd):
            os.close(fd)
            fd = _open()
        yield fd
    finally:
        os.close(fd)


def lock_holder(path: str | None = None) -> Holder | None:
    """Return the process that holds the machine's lock; None if nobody does, or the kernel hides it."""
    try:
        status = os.lstat(path or LOCK_PATH)
    except OSError:
        return None
    # "7: FLOCK  ADVISORY  WRITE 4711 fe:00:131090 0 EOF"; the device is in hexadecimal.
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in read("/proc/locks").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == inode:
            return _describe(int(words[4]))
    return None


def _describe(pid: int) -> Holder:
    """Describe a process. A process chooses its own command line: it is escaped and cut."""
    user, started_at = "?", ""
    with suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        started_at = datetime.fromtimestamp(processes.started_at(pid)).strftime("%H:%M:%S")
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = f"user {uid}"
    words = processes.command_line(pid) if pid > 0 else []
    command = printable(" ".join(words).replace("\n", " ")) or "?"
    return Holder(pid, user, command[:COMMAND_LENGTH], started_at)


def _acquire(fd: int) -> bool:
    """Wait for the lock. Return False if the file was replaced in the meantime."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = lock_holder() or "the kernel shows no holder"
        print(
            f"waiting for another measurement on this machine: {holder}",
            file=sys.stderr,
            flush=True,
        )
        fcntl.flock(fd, fcntl.LOCK_EX)
    with suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.lstat(LOCK_PATH))
    return False


def _open() -> int:
    """Open the lock file, and create it if it is missing. Raise UserError if it is not a plain file.

    Any user may have created something with its name: a link is not followed, and a pipe does not block.
    """
    for attempt in range(TRIES):
        try:
            return _checked(_open_or_create())
        except PermissionError as error:
            if attempt == TRIES - 1:
                raise _lock_error(error.strerror) from None
            time.sleep(RETRY_S)
        except FileNotFoundError as error:
            if not Path(LOCK_PATH).parent.is_dir():
                raise _lock_error(error.strerror) from None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            raise _lock_error("this is a link" if is_link else error.strerror) from None
    raise _lock_error("another program creates and removes it all the time")


def _open_or_create() -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(LOCK_PATH, flags)  # the file of another user can be locked, but not written
    except FileNotFoundError:
        with suppress(FileExistsError):
            fd = os.open(LOCK_PATH, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask is
            return fd
        return os.open(LOCK_PATH, flags)


def _checked(fd: int) -> int:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(fd)
        raise _lock_error("this is no file of its own")
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != 0o644:
        os.fchmod(fd, 0o644)
    return fd


def _lock_error(reason: str | None) -> UserError:
    owner = ""
    with suppress(OSError):
        owner = f" (user {os.lstat(LOCK_PATH).st_uid})"
    return UserError(
        f"{LOCK_PATH}: cannot be the lock of measurements on this machine: "
        f"{reason or 'it cannot be opened'}. Have its owner{owner} or root remove it, and run again."
    )


def enter_user_namespace(recipe: Recipe) -> None:
    """Enter a user namespace if the recipe requires it. Call this before the process starts a thread."""
    if recipe.get("network") == "user" and not recipe.get("looked_at"):
        try:
            namespaces.enter_user_namespace()
        except OSError as error:
            raise _network_error(error) from None


def isolate_network(recipe: Recipe, stack: ExitStack) -> None:
    """Give the process the network that the recipe requires, until `stack` ends. A guest has its own."""
    enter_user_namespace(recipe)
    if recipe.get("network") == "own" and not recipe.get("looked_at"):
        try:
            stack.enter_context(namespaces.own_network())
        except OSError as error:
            raise _network_error(error) from None


def _network_error(error: OSError) -> UserError:
    return UserError(
        f"the server's network: this process may not have its own, as it could when the run began "
        f"({error.strerror}). Run again, as the same user."
    )
