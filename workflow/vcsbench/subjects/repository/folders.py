"""The folder of a repository's tree of which the log of a folder is asked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO

from vcsbench.subjects.repository import svnadmin


def largest(repository: Path, tree: str) -> str:
    """The path of the folder right below `tree` with the most files and folders in it, the first by name of
    several; the tree's own path where it has none."""
    above = f"{tree}/".lstrip("/").encode(errors="surrogateescape")

    def read(output: IO[bytes]) -> Counter[bytes]:
        paths = (line.rstrip(b"\n").lstrip(b"/").removeprefix(above) for line in output)
        return Counter(path.partition(b"/")[0] for path in paths if b"/" in path.rstrip(b"/"))

    found = svnadmin.reading(read, "tree", "--full-paths", repository, tree, program="svnlook")
    if not found:
        return tree
    most = min(found, key=lambda name: (-found[name], name))
    return (above + most).decode(errors="surrogateescape")
