"""A Subversion repository with the tree as its one revision."""

from __future__ import annotations

import urllib.parse
from pathlib import Path

from vcsbench.sources.names import subversion_path
from vcsbench.subjects.tree.stores.store import WHAT, Store


class Svn(Store):
    """It carries names in UTF-8 without control characters."""

    def carries(self, name: bytes) -> bool:
        """Neither .svn nor one that would have to be escaped."""
        return name != b".svn" and subversion_path(name) == name

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Import all."""
        self.run("svnadmin", "create", path, home=work_in)
        url = f"file://{urllib.parse.quote(str(path))}"
        options = ("--no-ignore", "--no-auto-props", "--non-interactive", "--config-dir", work_in)
        self.run("svn", "import", "-q", *options, "-m", WHAT, source, url, home=work_in)


STORE = Svn
