"""A Subversion repository with the tree as its one revision."""

from __future__ import annotations

from pathlib import Path

from vcsbench.subjects.tree.stores.store import WHAT, Store
from vcsbench.urls import file_url, pegged

CONTROL = {*range(32), 127}


class Svn(Store):
    """It carries names in UTF-8 without control characters."""

    def carries(self, name: bytes) -> bool:
        """Neither .svn nor one that it refuses."""
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
        return name != b".svn" and not CONTROL & set(name)

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Import all."""
        self.run("svnadmin", "create", path, home=work_in)
        url = pegged(file_url(path))
        options = ("--no-ignore", "--no-auto-props", "--non-interactive", "--config-dir", work_in)
        self.run("svn", "import", "-q", *options, "-m", WHAT, source, url, home=work_in)


STORE = Svn
