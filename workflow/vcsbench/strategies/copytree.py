"""Python's shutil.copytree, with symbolic links as links."""

import shutil


def build(source: str, target: str) -> None:
    """Copy the tree `source` to `target`, which is not there; modes and times too."""
    shutil.copytree(source, target, symlinks=True)
