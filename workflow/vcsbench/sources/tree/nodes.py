"""Write a tree on disk as records of a dump stream."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import open_regular, printable
from vcsbench.sources import dumpstream
from vcsbench.sources.names import subversion_path
from vcsbench.treefiles import entries

LEFT_OUT = "what a version control system keeps in the tree was left out"
ESCAPED = "a path that is not UTF-8, or has control characters, was escaped"
SPECIAL = "what is neither file, folder nor link was left out"
LINKED = "a hard link became a file of its own"
# Larger files are copied in chunks, without a checksum in the record.
WHOLE_BYTES = CHUNK = 2**24


class Nodes:
    """The tree below `root`, at the path `top` of a repository.

    `changed` counts the names that were changed or left out, by reason.
    """

    def __init__(self, root: Path, top: bytes) -> None:
        self.root = root
        self.top = top
        self.changed: Counter[str] = Counter()
        self.administrative: Counter[str] = Counter()

    def records(self) -> Iterator[bytes]:
        """Yield the records of all folders, files and links."""
        yield dumpstream.directory(self.top)
        seen = set[tuple[int, int]]()
        for path, state in entries(self.root, self.administrative):
            name = os.fsencode(os.path.relpath(path, self.root))
            known = subversion_path(name)
            self.changed[ESCAPED] += known != name
            at = self.top + b"/" + known
            if stat.S_ISDIR(state.st_mode):
                yield dumpstream.directory(at)
            elif stat.S_ISLNK(state.st_mode):
                text = b"link " + os.readlink(os.fsencode(path))
                yield dumpstream.file(at, b"add", properties={b"svn:special": b"*"}, text=text)
            elif stat.S_ISREG(state.st_mode):
                self.changed[LINKED] += (state.st_dev, state.st_ino) in seen
                seen.add((state.st_dev, state.st_ino))
                properties = {b"svn:executable": b"*"} if state.st_mode & stat.S_IXUSR else {}
                yield from _file(at, path, properties)
            else:
                self.changed[SPECIAL] += 1

    def notes(self) -> list[str]:
        """Return a sentence and a count for each kind of change."""
        counts = {**self.changed, LEFT_OUT: self.administrative.total()}
        return [f"{said} ({number} times)" for said, number in counts.items() if number]


def _file(at: bytes, path: str, properties: dumpstream.Properties) -> Iterator[bytes]:
    """Yield the record of a file in parts."""
    with open(open_regular(path, follow_links=False), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= WHOLE_BYTES:
            yield dumpstream.file(at, b"add", properties=properties, text=file.read())
            return
        yield dumpstream.file_head(at, b"add", properties=properties, text_length=size)
        while size and (chunk := file.read(min(size, CHUNK))):
            size -= len(chunk)
            yield chunk
        if size:
            raise UserError(
                f"{printable(path)}: the file became shorter while it was read. Run again."
            )
        yield b"\n\n"
