"""The fingerprint of a command from the tree that it wrote."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from vcsbench.measure.work.kind import Kind
from vcsbench.measure.work.neutral import CHUNK, Neutral

# A working copy's own; the tree is what is beside it.
ADMINISTRATIVE = ".svn"


def look(target: Path, neutral: Neutral) -> dict[str, int | str]:
    """files, directories, symlinks, bytes in files, and the digest of a tree.

    The digest is of names, contents, the executable bit and where symlinks lead. The repository's URL,
    which expanded keywords carry, counts as one word.
    """
    return fingerprint(entries(target), neutral)


def fingerprint(
    found: Iterable[tuple[bytes, bytes, int]], neutral: Neutral
) -> dict[str, int | str]:
    """That of what is found: the name within the tree, the path and the mode of each."""
    counted = {"files": 0, "directories": 0, "symlinks": 0, "bytes": 0}
    total = hashlib.sha256()
    for name, path, mode in found:
        total.update(name + b"\0")
        if stat.S_ISLNK(mode):
            counted["symlinks"] += 1
            total.update(b"l" + os.readlink(path) + b"\0")
        elif stat.S_ISDIR(mode):
            counted["directories"] += 1
            total.update(b"d\0")
        else:
            digest, size = _file(path, neutral)
            counted["files"] += 1
            counted["bytes"] += size
            total.update((b"x" if mode & stat.S_IXUSR else b"f") + digest + b"\0")
    return {**counted, "digest": total.hexdigest()[:16]}


def entries(target: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """The name within the tree, the path and the mode of all there is, in an order that is always
    the same; what the target itself is comes first."""
    root = os.fsencode(target)
    try:
        mode = os.lstat(root).st_mode
    except FileNotFoundError:
        return
    yield b"", root, mode
    pending = [(b"", root)] if stat.S_ISDIR(mode) else []
    while pending:
        above, folder = pending.pop()
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            if os.fsdecode(entry.name) == ADMINISTRATIVE:
                continue
            name = above + entry.name
            mode = entry.stat(follow_symlinks=False).st_mode
            yield name, entry.path, mode
            if stat.S_ISDIR(mode):
                pending.append((name + b"/", entry.path))


def _file(path: bytes, neutral: Neutral) -> tuple[bytes, int]:
    """The digest of a file's content, and its bytes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        # A buffer of the file's size: larger ones cost more than reading does.
        size = os.fstat(descriptor).st_size
        data = os.read(descriptor, min(size, CHUNK))
        if size < CHUNK:
            data = neutral.whole(data)
            return hashlib.sha256(data).hexdigest()[:16].encode(), len(data)
        digest = neutral.digest()
        while data:
            digest.update(data)
            data = os.read(descriptor, CHUNK)
        return digest.end().encode(), digest.bytes
    finally:
        os.close(descriptor)


KIND = Kind("the files that each timed run has written", look=look)
