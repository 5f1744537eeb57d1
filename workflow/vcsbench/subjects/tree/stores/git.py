"""A bare git repository with the tree as its one commit, in one pack as after `git gc`."""

from __future__ import annotations

from pathlib import Path

from vcsbench.subjects.tree.stores.store import WHAT, Store


class Git(Store):
    """It carries all names but its own; what .gitignore names as well."""

    def carries(self, name: bytes) -> bool:
        """All but .git."""
        return name.lower() != b".git"

    def make(self, source: Path, path: Path, work_in: Path) -> None:
        """Add all, commit, pack."""
        git = ("git", f"--git-dir={path}", f"--work-tree={source}")
        who = ("-c", "user.name=vcsbench", "-c", "user.email=vcsbench@localhost")
        self.run("git", "init", "-q", "--bare", path, home=work_in)
        self.run(*git, "add", "-A", "-f", source, home=work_in)
        self.run(*git, *who, "commit", "-q", "--allow-empty", "-m", WHAT, home=work_in)
        self.run(*git, "repack", "-a", "-d", "-q", home=work_in)
        (path / "index").unlink(missing_ok=True)

    def clean(self, path: Path) -> None:
        """Forget the work trees that were removed."""
        self.run("git", f"--git-dir={path}", "worktree", "prune", home=path)


STORE = Git
