"""One run at a time in a checkout: its lock, and the checks before a run begins."""

from __future__ import annotations

import fcntl
import os
import pwd
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import printable
from vcsbench.files import read_json, write_json
from vcsbench.progress import cleared
from vcsbench.storages import full
from vcsbench.storages.mounts import mount_of

# vcsbench's own folder in a checkout: the lock, the state of the last run, the options of the present one.
FOLDER = ".vcsbench"
LOCK = f"{FOLDER}/lock"
STATE = f"{FOLDER}/run.json"
OPTIONS = f"{FOLDER}/options.json"
# Made by a Snakemake whose jobs failed; a Snakemake that did not start a job makes none.
FAILED = f"{FOLDER}/failed"
# Made by a Snakemake that found the folder locked.
LOCKED = f"{FOLDER}/locked"
# A disk or RAM of this host. No other host can work on it.
LOCAL = ("ext", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay", "tmpfs")
WRITTEN = (FOLDER, ".snakemake", "results", "reports")


def say(text: str) -> None:
    """Print a line on standard error, if somebody still reads it."""
    with suppress(OSError):
        print(f"{cleared(sys.stderr)}vcsbench: {printable(text)}", file=sys.stderr, flush=True)


@contextmanager
def checkout_lock(root: Path) -> Iterator[int]:
    """Hold a checkout's lock and yield its descriptor.

    The kernel frees the lock when all processes that inherited the descriptor have ended. Raises a
    UserError where another run holds it, or where the run's folders cannot be written.
    """
    if full_folder := find_full(root):
        raise UserError(f"{full_folder}: the file system is full. Free some space and run again.")
    _check_writable(root)
    path = root / LOCK
    try:
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. {_remedy(path)}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        host = last_host(root) or "this host"
        raise UserError(
            f"{root}: another run is at work here (on {host}). Wait for it, or end it."
        ) from None
    try:
        yield lock
    finally:
        os.close(lock)


def last_host(root: Path) -> str:
    """Return the host of the last run in a checkout, or ""."""
    return str(read_json(root / STATE).get("host", ""))


def write_host(root: Path) -> None:
    """Record that a run begins on this host. A full disk is no reason to fail."""
    with suppress(OSError):
        write_json(root / STATE, {"host": socket.gethostname()})


def is_of_this_host(root: Path) -> bool:
    """Return True if no run of another host can be at work in a checkout."""
    host = last_host(root)
    return host in ("", socket.gethostname()) or mount_of(root).filesystem.startswith(LOCAL)


def find_full(root: Path) -> str:
    """Return the first folder that a run writes whose file system is full, or ""."""
    for folder in (root, *(root / name for name in WRITTEN)):
        if folder.exists() and full.takes_no_more(folder):
            return str(folder)
    return ""


def _check_writable(root: Path) -> None:
    folders = [root]
    for name in WRITTEN:
        folders += [root / name, *filter(Path.is_dir, (root / name).glob("*"))]
    for folder in folders:
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise UserError(f"{folder}: cannot be written. {_remedy(folder)}")


def _remedy(path: Path) -> str:
    existing = path if path.exists() else path.parent
    flags = os.statvfs(existing).f_flag if existing.exists() else 0
    if flags & os.ST_RDONLY:
        return "Its file system is read-only: run in a copy of the checkout elsewhere."
    me, owner = _user(os.geteuid()), _user(existing.stat().st_uid)
    return f"It belongs to {owner}, and you are {me}: run as {owner}, or make {me} its owner (chown -R)."


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
