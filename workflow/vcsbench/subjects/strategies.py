"""Strategies of building a tree that are programs of ours: python -I strategies.py NAME SOURCE TARGET.

A strategy gets a tree `source` and a new path `target`. The start of Python is a part of its time: this
file imports nothing of vcsbench, and a strategy imports what it measures.
"""

import itertools
import os
import sys


def start(source: str, target: str) -> None:
    """Build nothing: how long the interpreter takes to start, and a strategy of ours to be found."""


def copytree(source: str, target: str) -> None:
    """Copy with modes and times by shutil.copytree, symbolic links as links."""
    import shutil

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


def start_breezy(source: str, target: str) -> None:
    """Build nothing: how long the interpreter takes to start and to import the modules of `transform`."""
    import breezy
    import breezy.bzr
    import breezy.controldir
    import breezy.transform

    with breezy.initialize():
        pass


def transform(source: str, target: str) -> None:
    """Make a working tree of today's format by Breezy, and fill it in one of Bazaar's TreeTransforms."""
    import breezy
    import breezy.bzr
    import breezy.controldir
    import breezy.transform

    with breezy.initialize():
        today = breezy.controldir.format_registry.make_controldir("2a")
        tree = breezy.controldir.ControlDir.create_standalone_workingtree(target, today)
        with tree.lock_tree_write(), tree.transform() as changes:
            number, waiting = 0, [(source, changes.root)]
            while waiting:
                folder, parent = waiting.pop()
                for entry in os.scandir(folder):
                    number += 1
                    about = (entry.name, parent)
                    identity = b"%d" % number
                    if entry.is_symlink():
                        changes.new_symlink(*about, os.readlink(entry.path), identity)
                    elif entry.is_dir():
                        waiting.append((entry.path, changes.new_directory(*about, identity)))
                    else:
                        executable = bool(entry.stat().st_mode & 0o100)
                        with open(entry.path, "rb") as file:
                            changes.new_file(*about, [file.read()], identity, executable)
            changes.apply()


STRATEGIES = {
    strategy.__name__: strategy
    for strategy in (start, copytree, naive, rename, start_breezy, transform)
}


if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    STRATEGIES[name](*paths)
