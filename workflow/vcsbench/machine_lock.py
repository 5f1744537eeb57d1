"""Measure one at a time: the lock of all measurements on a machine, also of other users."""

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

from vcsbench import process_facts
from vcsbench.errors import UserError
from vcsbench.external import one_line, open_regular
from vcsbench.files import why_no_file
from vcsbench.kernel import read

# A file may not be readable between its creation by another user and the setting of its mode.
OPEN_TRIES = 20
RETRY_S = 0.05
# The part of a command line that a message shows.
COMMAND_LENGTH = 120
LOCK_NAME = "vcsbench.lock"
LOCK_FOLDERS = ("/run/lock", "/dev/shm", "/tmp")


def _lock_path() -> str:
    """Return the file of the machine's lock, which is the same for all users.

    It is in the first folder where all users can make a file, and cannot remove a file of others.
    """
    for folder in LOCK_FOLDERS:
        path = os.path.join(folder, LOCK_NAME)
        # The file system of a folder with the right mode may still be read-only.
        if _is_shared(folder) and (os.path.lexists(path) or not why_no_file(folder)):
            return path
    # No folder is suitable. _open_lock() raises the error.
    return os.path.join(LOCK_FOLDERS[-1], LOCK_NAME)


def _is_shared(folder: str) -> bool:
    """Return True for a folder of root's with the mode of /tmp. Return False for a link to one."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    is_of_root = stat.S_ISDIR(status.st_mode) and status.st_uid == 0
    can_all_write = bool(status.st_mode & stat.S_IWOTH)
    # With this bit, only its owner can remove a file.
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    return is_of_root and can_all_write and is_sticky


LOCK_PATH = _lock_path()


def check_lock() -> None:
    """Raise UserError if the machine's lock cannot be opened."""
    os.close(_open_lock())


@contextmanager
def machine_lock() -> Iterator[int]:
    """Hold the machine's lock, and yield its descriptor. Print the holder on standard error while waiting.

    The timed programs inherit the descriptor, so a program that outlives its cell still keeps the lock.
    Raise UserError if the lock file is not a plain file, or cannot be opened.
    """
    fd = _open_lock()
    try:
        # If somebody removes the file during the wait, others make and lock a new file, and the lock of the
        # removed file protects nothing.
        while not _acquire(fd):
            reopened = _open_lock()
            os.close(fd)
            fd = reopened
        yield fd
    finally:
        os.close(fd)


def lock_holder() -> int:
    """Return the process that holds the machine's lock; 0 without one, or if the kernel hides it."""
    try:
        status = os.lstat(LOCK_PATH)
    except OSError:
        return 0
    # `7: FLOCK  ADVISORY  WRITE 4711 fe:00:131090 0 EOF` is a lock of process 4711 on the file with the inode
    # 131090 of the device fe:00 (in hexadecimal).
    inode = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in read("/proc/locks").splitlines():
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == inode:
            # A number below 1 is no process that this one can see.
            return max(0, int(words[4]))
    return 0


def describe_process(pid: int) -> str:
    """Return a process with its user, command and start.

    Example: `process 4711 of ann (python -m vcsbench, started at 14:03:00)`.
    """
    user, since = "?", ""
    # The process may have ended.
    with suppress(OSError):
        uid = os.stat(f"/proc/{pid}").st_uid
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            # In a container, the user may have no name.
            user = f"user {uid}"
        start = datetime.fromtimestamp(process_facts.started_at(pid))
        since = f", started at {start:%H:%M:%S}"
    # A process chooses its command line itself, perhaps with control characters.
    command = one_line(" ".join(process_facts.command_line(pid)) or "?", COMMAND_LENGTH)
    return f"process {pid} of {user} ({command}{since})"


def _acquire(fd: int) -> bool:
    """Wait for the lock of an open file. Return False if the file is not at LOCK_PATH any more."""
    # A first attempt without waiting shows if another process holds the lock.
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = lock_holder()
        holder = describe_process(pid) if pid else "the kernel shows no holder"
        message = f"waiting for another measurement on this machine: {holder}"
        print(message, file=sys.stderr, flush=True)
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(LOCK_PATH))
    except OSError:
        return False


def _open_lock() -> int:
    """Return a descriptor of the lock file, which is created if it is missing.

    Any user may have created something with its name: a link is not followed, and a pipe does not block.
    Raise UserError if it is not a plain file, or cannot be opened after OPEN_TRIES attempts.
    """
    # The last error about permissions.
    refusal = ""
    for _ in range(OPEN_TRIES):
        try:
            # In a folder such as /tmp, the kernel may refuse to open a file of another user with O_CREAT.
            with suppress(FileExistsError):
                os.close(os.open(LOCK_PATH, os.O_CREAT | os.O_EXCL, 0o644))
            fd = open_regular(LOCK_PATH, follow_links=False)
        except FileNotFoundError:
            # Another process removed the file between the two calls.
            continue
        except PermissionError as error:
            # Another user may have just created the file, and will give the right to read it (_share_lock).
            refusal = os.strerror(error.errno or 0)
            time.sleep(RETRY_S)
            continue
        except UserError:
            # open_regular() refuses a folder, a pipe or a device.
            raise _lock_error("this is no file") from None
        except OSError as error:
            fault = "this is a link" if error.errno == errno.ELOOP else str(error.strerror)
            raise _lock_error(fault) from None
        _share_lock(fd)
        return fd
    # Without a refusal, the file was missing in each attempt.
    raise _lock_error(refusal or "another program creates and removes it all the time")


def _share_lock(fd: int) -> None:
    """Let other users read an open lock file of this user's, with any umask. They need that to lock it.

    Close the file and raise UserError if it has another name, too (a hard link): its mode must not change.
    """
    status = os.fstat(fd)
    if status.st_nlink > 1:
        os.close(fd)
        raise _lock_error("this is no file of its own")
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != 0o644:
        os.fchmod(fd, 0o644)


def _lock_error(reason: str) -> UserError:
    try:
        owner = os.lstat(LOCK_PATH).st_uid
        remedy = f"Have its owner (user {owner}) or root remove it"
    except OSError:
        remedy = f"Allow this user to make a file in one of {', '.join(LOCK_FOLDERS)}"
    return UserError(
        f"{LOCK_PATH}: cannot be the lock of measurements on this machine: {reason}. {remedy}, and run "
        f"again."
    )
