"""One measurement at a time on a machine, over all workflows and users."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.kernelfile import read

# The first that every user of the machine may write, and in which nobody can remove the file of another user.
FOLDERS = ("/run/lock", "/dev/shm", "/tmp")
NAME = "vcsbench.lock"
# Between its creation by another user and the setting of its mode a file may not be readable.
TRIES = 20
RETRY_S = 0.05
COMMAND_LENGTH = 120


def _path() -> str:
    return os.path.join(next(filter(_is_shared, FOLDERS), FOLDERS[-1]), NAME)


def _is_shared(folder: str) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    is_writable = found.st_mode & stat.S_ISVTX and found.st_mode & 0o002
    return stat.S_ISDIR(found.st_mode) and found.st_uid == 0 and bool(is_writable)


PATH = _path()


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

    The timed programs inherit the descriptor, so that one that outlives its cell still keeps others out.
    Raise UserError if the lock file is not one.
    """
    fd = _open()
    try:
        while not _is_taken(fd):
            os.close(fd)
            fd = _open()
        yield fd
    finally:
        os.close(fd)


def lock_holder(path: str | None = None) -> Holder | None:
    """Return the process that holds the machine's lock; None if nobody does, or the kernel shows nobody."""
    try:
        found = os.lstat(path or PATH)
    except OSError:
        return None
    # "7: FLOCK  ADVISORY  WRITE 4711 fe:00:131090 0 EOF"; the device is in hexadecimal.
    inode = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in read("/proc/locks").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == inode:
            return _describe(int(words[4]))
    return None


def _describe(pid: int) -> Holder:
    """Describe a process. A command line is any process's own text: it is escaped and cut."""
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


def _is_taken(fd: int) -> bool:
    """Wait until the lock is ours. Return False if the file was replaced in the meantime."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = lock_holder()
        print(
            f"waiting for another measurement on this machine: {holder or 'the kernel shows no holder'}",
            file=sys.stderr,
            flush=True,
        )
        fcntl.flock(fd, fcntl.LOCK_EX)
    with suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.lstat(PATH))
    return False


def _open() -> int:
    """Open the lock file, and create it if it is missing. Raise UserError if it is no plain file.

    Any user may have made something under its name: a link is not followed, and a pipe does not block.
    """
    for attempt in range(TRIES):
        try:
            return _checked(_open_or_create())
        except PermissionError as error:
            if attempt == TRIES - 1:
                raise _refusal(error.strerror) from None
            time.sleep(RETRY_S)
        except FileNotFoundError as error:
            if not Path(PATH).parent.is_dir():
                raise _refusal(error.strerror) from None
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            raise _refusal("this is a link" if is_link else error.strerror) from None
    raise _refusal("another program creates and removes it all the time")


def _open_or_create() -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(PATH, flags)  # the file of another user can be locked, but not written
    except FileNotFoundError:
        with suppress(FileExistsError):
            fd = os.open(PATH, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(fd, 0o644)  # whatever the umask is
            return fd
        return os.open(PATH, flags)


def _checked(fd: int) -> int:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise _refusal("this is no file of its own")
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != 0o644:
        os.fchmod(fd, 0o644)
    return fd


def _refusal(why: str | None) -> UserError:
    owner = ""
    with suppress(OSError):
        owner = f" (user {os.lstat(PATH).st_uid})"
    return UserError(
        f"{PATH}: cannot be the lock of measurements on this machine: {why or 'it cannot be opened'}. "
        f"Have its owner{owner} or root remove it, and run again."
    )
