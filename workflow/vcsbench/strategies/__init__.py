"""Strategies of building a tree that are programs of ours. Their time includes the start of Python.

A strategy is a function here (vcsbench.modules.SHARED_MODULES), or `build` in a file with its name. It gets a
tree `source` and a path `target` that does not exist. Strategies run alone (__main__), so a file imports the
standard library, what it measures, and its neighbours.
"""

import itertools
import os


def start(source: str, target: str) -> None:
    """Build nothing: how long the interpreter takes to start, and a strategy of ours to be found."""


def copytree(source: str, target: str) -> None:
    """Copy with modes and times by shutil.copytree, symbolic links as links."""
    import shutil  # not a part of the start of the others

    shutil.copytree(source, target, symlinks=True)


def naive(source: str, target: str) -> None:
    """Make each folder, and read and write each file in its place: contents, links and executable files."""
    os.mkdir(target)
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_dir():
            naive(entry.path, path)
        else:
            _write(entry, path)


def rename(source: str, target: str) -> None:
    """Write each file and link to one temporary folder, under a number, and rename it into its place."""
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
                _write(entry, temporary)
            os.rename(temporary, path)
    os.rmdir(limbo)


def _write(entry: os.DirEntry[str], path: str) -> None:
    mode = entry.stat().st_mode & 0o777
    copy = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(entry.path, "rb") as original, os.fdopen(copy, "wb") as file:
        file.write(original.read())
