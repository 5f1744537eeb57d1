"""A Fossil repository with the tree as a check-in."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from vcsbench.subjects.tree.stores.store import WHAT, Store, copy

# What it does not ask about.
SETTINGS = {"crlf-glob": "*", "encoding-glob": "*", "binary-glob": "*", "allow-symlinks": "on"}


class Fossil(Store):
    """It carries names in UTF-8 without what is special in its own patterns and on other systems."""

    def carries(self, name: bytes) -> bool:
        """Neither its own, nor one that it refuses."""
        refused = set(rb'\*[]?":<>|') | set(range(32)) | {127}
        try:
            name.decode()
        except UnicodeDecodeError:
            return False
        return name not in (b"_FOSSIL_", b".fslckout") and not refused & set(name)

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Add all and commit, in a check-out that goes away."""
        self.run("fossil", "init", path, "-A", "vcsbench", home=work_in)
        tree = work_in / "check-out"
        copy(source, tree)
        self.run("fossil", "open", "--force", "--keep", path, home=work_in, at=tree)
        for name, value in SETTINGS.items():
            self.run("fossil", "settings", name, value, home=work_in, at=tree)
        if any(source.iterdir()):
            self.run("fossil", "add", "--dotfiles", "--ignore", "", ".", home=work_in, at=tree)
            words = ("commit", "-m", WHAT, "--no-warnings", "--user-override", "vcsbench")
            self.run("fossil", *words, home=work_in, at=tree)
        self.run("fossil", "close", "--force", home=work_in, at=tree)

    def clean(self, path: Path) -> None:
        """Forget the check-outs, which were removed."""
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DELETE FROM config WHERE name GLOB 'ckout:*'")


STORE = Fossil
