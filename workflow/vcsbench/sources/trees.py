"""Find the folder that export exports in the youngest revision of a Subversion repository."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.sources.process import output


def default_tree(repository: Path) -> str:
    """Return "trunk" if the youngest revision has such a folder, otherwise "", the root."""
    failure = f"{repository}: svnlook tree failed"
    argv = ["svnlook", "tree", "-N", "--full-paths", "--", os.path.abspath(repository)]
    return "trunk" if b"trunk/" in output(argv, failure).split(b"\n") else ""


def has_folder(repository: Path, tree: str) -> bool:
    """Return True if the youngest revision has a folder `tree`."""
    argv = ["svnlook", "tree", "-N", "--", os.path.abspath(repository), tree]
    try:
        # A slash at the end of a name marks a folder.
        return output(argv, "").split(b"\n")[0].endswith(b"/")
    except UserError:
        return False


def check_tree(repository: Path, tree: str, missing: Callable[[], UserError]) -> None:
    """Raise the error that `missing` returns if the youngest revision has no folder `tree`."""
    if not has_folder(repository, tree):
        raise missing()
