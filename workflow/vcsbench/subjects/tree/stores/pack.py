"""The tree in one file, as workflow/native/build_tree.c reads it."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

from vcsbench.files import entries
from vcsbench.subjects.tree.stores.store import Store

HEAD = struct.Struct("<cIIQ")


class Pack(Store):
    """A head, the name and the content of each entry, a folder before what is in it."""

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Write it."""
        seen: dict[tuple[int, int], bytes] = {}
        with path.open("wb") as pack:
            for file, state in entries(source):
                name = os.fsencode(os.path.relpath(file, source))
                kind, content = _content(file, state)
                first = seen.setdefault((state.st_dev, state.st_ino), name)
                if kind == b"f" and first != name:
                    kind, content = b"h", first
                mode = stat.S_IMODE(state.st_mode)
                pack.write(HEAD.pack(kind, mode, len(name), len(content)))
                pack.write(name + b"\0" + content + b"\0")


def _content(file: str, state: os.stat_result) -> tuple[bytes, bytes]:
    if stat.S_ISDIR(state.st_mode):
        return b"d", b""
    if stat.S_ISLNK(state.st_mode):
        return b"l", os.readlink(os.fsencode(file))
    return b"f", Path(file).read_bytes()


STORE = Pack
