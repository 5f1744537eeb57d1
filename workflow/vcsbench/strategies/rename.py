"""A recursive copy that writes every file and link to one temporary folder first, under a number for a name,
and renames it into its place."""

import itertools
import os

from vcsbench.strategies import naive


def build(source: str, target: str) -> None:
    """Copy the tree `source` to `target`, which is not there: contents, links, and modes as the umask has
    them."""
    limbo = f"{target}/.limbo"
    while os.path.lexists(limbo.replace(target, source)):
        limbo += "~"
    os.mkdir(target)
    os.mkdir(limbo)
    numbers = itertools.count()
    waiting = [(source, target)]
    while waiting:
        folder, above = waiting.pop()
        for entry in os.scandir(folder):
            path = os.path.join(above, entry.name)
            temporary = f"{limbo}/{next(numbers)}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), temporary)
            elif entry.is_dir():
                os.mkdir(temporary)
                waiting.append((entry.path, path))
            else:
                naive.write(entry, temporary)
            os.rename(temporary, path)
    os.rmdir(limbo)
