"""A tree on disk as records of a dump stream."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from vcsbench.sources import dumpstream
from vcsbench.sources.names import subversion_path
from vcsbench.treefiles import ADMINISTRATIVE, entries

LEFT_OUT = "what a version control system keeps in the tree was left out"
ESCAPED = "a path that is not UTF-8, or has control characters, was escaped"
SPECIAL = "what is neither file, folder nor link was left out"
LINKED = "a hard link became a file of its own"


class Nodes:
    """The tree below `root`, at the path `top` of a repository; what is changed or left out is counted."""

    def __init__(self, root: Path, top: bytes) -> None:
        self.root = root
        self.top = top
        self.changed: Counter[str] = Counter()

    def records(self) -> Iterator[bytes]:
        """A record for each folder, file and link."""
        yield dumpstream.directory(self.top)
        seen = set[tuple[int, int]]()
        for path, state in entries(self.root):
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
                text = Path(path).read_bytes()
                yield dumpstream.file(at, b"add", properties=properties, text=text)
            else:
                self.changed[SPECIAL] += 1

    def notes(self) -> list[str]:
        """What was changed or left out, and how often."""
        found = [f"{said} ({number} times)" for said, number in self.changed.items() if number]
        left = any(name in ADMINISTRATIVE for name in os.listdir(self.root))
        return [*found, *[LEFT_OUT] * left]
