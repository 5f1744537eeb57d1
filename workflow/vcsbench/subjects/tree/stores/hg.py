"""A Mercurial repository with the tree as its one commit, and no files beside that."""

from __future__ import annotations

import os
from pathlib import Path

from vcsbench.subjects.tree.stores.store import WHAT, WHO, Store, copy


class Hg(Store):
    """It carries all names without line breaks; what .hgignore names as well."""

    def carries(self, name: bytes) -> bool:
        """Neither .hg nor a line break."""
        return name != b".hg" and not {b"\n"[0], b"\r"[0]} & set(name)

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Add all, commit, and take the files away."""
        copy(source, path)
        names = work_in / "names"
        names.write_bytes(b"\0".join(_files(os.fsencode(path))))
        self.run("hg", "init", path, home=work_in)
        if names.stat().st_size:
            self.run("hg", "-R", path, "add", "-q", f"listfile0:{names}", home=work_in, at=path)
            self.run("hg", "-R", path, "commit", "-q", "-u", WHO, "-m", WHAT, home=work_in)
            self.run("hg", "-R", path, "update", "-q", "null", home=work_in)
        names.unlink()


def _files(top: bytes) -> list[bytes]:
    found = [
        os.path.relpath(os.path.join(folder, name), top)
        for folder, folders, names in os.walk(top)
        for name in (*names, *[f for f in folders if os.path.islink(os.path.join(folder, f))])
    ]
    return sorted(found)


STORE = Hg
