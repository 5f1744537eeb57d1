"""A Breezy branch with the tree as its one commit, in today's format, and no files beside that."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType

from vcsbench.subjects.tree.stores.store import WHAT, WHO, Store, copy


class Brz(Store):
    """It carries names in UTF-8."""

    environment = MappingProxyType({"BRZ_LOG": "/dev/null", "BRZ_EMAIL": WHO})

    def carries(self, name: bytes) -> bool:
        """Neither .bzr, nor what is no UTF-8 or has line breaks."""
        try:
            return name != b".bzr" and not {"\n", "\r", "\\"} & set(name.decode())
        except UnicodeDecodeError:
            return False

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Add all, commit, and take the files away."""
        brz = (sys.executable, "-I", "-m", "breezy")
        # Else it leaves out what it takes for the leavings of compilers.
        for folder in (work_in, work_in / "breezy"):
            folder.mkdir(exist_ok=True)
            (folder / "ignore").write_text("")
        copy(source, path)
        self.run(*brz, "init", "-q", "--format=2a", path, home=work_in)
        self.run(*brz, "add", "-q", path, home=work_in)
        self.run(*brz, "commit", "-q", "--unchanged", "-m", WHAT, path, home=work_in)
        self.run(*brz, "remove-tree", "-q", "--force", path, home=work_in)


STORE = Brz
