"""One run at a time in a checkout; what a killed run left there is put right before the next begins."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import signal
import socket
import sys
import time
import types
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.progress import cleared
from vcsbench.storages import full
from vcsbench.storages.mounts import mount_of

# Marks all that a run starts, which inherits it: the folder that the run is in.
MARK = "VCSBENCH_RUN_IN"
# Of a run: held while it lasts, with the host's name inside; and touched when it begins.
LOCK = ".snakemake/vcsbench.lock"
WRITTEN = (".snakemake", "results", "reports")
# Arguments of Snakemake's with which it runs nothing.
LOOKING = re.compile(
    r"-[a-zA-Z]*n[a-zA-Z]*|--(dry-?run|lint|unlock|summary|detailed-summary|list.*|lc|lr|ll|dag|rulegraph|"
    r"filegraph|d3dag|report|archive|cleanup-.*|list-changes|containerize|help|version|delete-.*)(=.*)?"
)
# A disk or RAM of this host's.
LOCAL = ("ext", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "overlay", "tmpfs")
GRACE_S = 2.0

# Whether the user has ended this Snakemake by Ctrl-C.
interrupted = False


def begin(root: Path) -> int:
    """Take a checkout's lock and put right what a killed run left: processes that still work on its
    files, Snakemake's own lock. Returns the lock's descriptor, which is held until it is closed.

    Raises a UserError where another run is at work, or the folders cannot be written.
    """
    if full := is_full(root):
        raise UserError(f"{full}: the file system is full; free some space and run again")
    _check_writable(root)
    lock, earlier = _take(root)
    left = end_marked(root)
    if left:
        say(f"ended {left} processes that a killed run left behind")
    _unlock(root, earlier)
    return lock


def begin_here(root: Path, arguments: Sequence[str]) -> bool:
    """The same for a Snakemake that is started without `make`, if its arguments make it run anything.
    Returns whether what lies in the folder may be touched: a Snakemake that only looks holds no lock, and
    a run may begin at any moment."""
    if os.environ.get(MARK) == os.path.realpath(root):
        return True  # the process that started this one has done it
    if any(LOOKING.fullmatch(word) for word in arguments):
        return False
    begin(root)
    os.environ[MARK] = os.path.realpath(root)
    signal.signal(signal.SIGINT, _interrupt)
    return True


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    global interrupted
    interrupted = True
    signal.default_int_handler(number, frame)


def say(text: str) -> None:
    """A line on standard error, if anybody still listens there."""
    with suppress(OSError):
        print(f"{cleared(sys.stderr)}vcsbench: {text}", file=sys.stderr, flush=True)


def marked(root: Path) -> list[int]:
    """The processes that carry a checkout's mark, but this one and its ancestors."""
    wanted = f"{MARK}={os.path.realpath(root)}"
    others = {*processes.everybody()} - {os.getpid(), *processes.ancestors()}
    return [pid for pid in others if wanted in processes.environment(pid)]


def end_marked(root: Path) -> int:
    """End all processes that carry a checkout's mark; returns how many there were."""
    first = left = marked(root)
    processes.send(first, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = marked(root)
    # Some may be started while others are ended.
    while left:
        processes.send(left, signal.SIGKILL)
        time.sleep(0.02)
        left = marked(root)
    return len(first)


def _take(root: Path) -> tuple[int, str]:
    """The lock and the host of the run that had it last; a UserError where somebody holds it.

    It is the kernel's, so it ends with its holder, however that ends.
    """
    path = root / LOCK
    try:
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {_remedy(path)}") from None
    earlier = os.read(lock, 256).decode(errors="replace").strip("\0\n")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UserError(
            f"another run is at work in {root} (on {earlier or 'this host'}); wait for it, or end it"
        ) from None
    return lock, earlier


def _unlock(root: Path, earlier: str) -> None:
    """Remove Snakemake's own lock, which nobody holds who lives."""
    locks = sorted((root / ".snakemake" / "locks").glob("*.lock"))
    here = socket.gethostname()
    local = mount_of(root).filesystem.startswith(LOCAL)
    if locks and earlier and earlier != here and not local:
        # It may be alive there, where we cannot see it. (A container's name changes; its disk does not.)
        raise UserError(
            f"the last run in {root} was on {earlier}. If it has ended: snakemake --unlock"
        )
    (root / LOCK).write_text(f"{here}\n")
    for lock in locks:
        lock.unlink(missing_ok=True)
    if locks:
        say("removed the lock that a killed run left behind")


def is_full(root: Path) -> str:
    """The first of the folders that a run writes whose file system is full; "" if none is."""
    for folder in (root, *(root / name for name in WRITTEN)):
        if folder.exists() and full.takes_no_more(folder):
            return str(folder)
    return ""


def _check_writable(root: Path) -> None:
    """A UserError where a folder of a run's cannot be written, as after a run of another user's."""
    folders = [root]
    for name in WRITTEN:
        folders += [root / name, *filter(Path.is_dir, (root / name).glob("*"))]
    for folder in folders:
        if folder.exists() and not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise UserError(f"{folder}: cannot be written; {_remedy(folder)}")


def _remedy(path: Path) -> str:
    there = path if path.exists() else path.parent
    flags = os.statvfs(there).f_flag if there.exists() else 0
    if flags & os.ST_RDONLY:
        return "its file system is read-only: run from a copy of the folder elsewhere"
    me, owner = _name(os.geteuid()), _name(there.stat().st_uid)
    return f"it belongs to {owner}, and you are {me}: run as {owner}, or make {me} its owner (chown -R)"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
