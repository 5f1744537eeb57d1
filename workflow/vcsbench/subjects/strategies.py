"""Build a tree by a strategy, a way to write files: python -I strategies.py NAME SOURCE TARGET.

Most strategies copy the tree `source` to the new path `target`. The start of Python is a part of their time:
this file imports nothing of vcsbench, and a strategy imports what it measures.
"""

import itertools
import os
import sys


def start(source: str, target: str) -> None:
    """Build nothing. This measures the start of the interpreter, which is part of all other strategies."""


def copytree(source: str, target: str) -> None:
    """Copy the tree `source` to `target` by shutil.copytree: with modes and times, and links as links."""
    import shutil

    shutil.copytree(source, target, symlinks=True)


def naive(source: str, target: str) -> None:
    """Build a copy of the tree `source` at `target`: make each folder, link and file at its final path."""
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
    """Build a copy of `source` at `target`: make each entry in a temporary folder, and rename it into place.

    Bazaar's TreeTransform does the same in its folder "limbo". Folders are renamed while they are empty.
    """
    name = ".limbo"
    # If the tree has an entry `.limbo` itself, the temporary folder is `.limbo~`.
    while os.path.lexists(f"{source}/{name}"):
        name += "~"
    limbo = f"{target}/{name}"
    os.mkdir(target)
    os.mkdir(limbo)
    numbers = itertools.count()
    # Folders whose entries are still to be built: the path in `source`, and the path in `target`.
    waiting = [(source, target)]
    while waiting:
        folder, target_folder = waiting.pop()
        for entry in os.scandir(folder):
            path = os.path.join(target_folder, entry.name)
            temporary = f"{limbo}/{next(numbers)}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), temporary)
            elif entry.is_dir():
                os.mkdir(temporary)
                # The content of the folder is built after the rename() below.
                waiting.append((entry.path, path))
            else:
                _write(entry, temporary)
            os.rename(temporary, path)
    os.rmdir(limbo)


def _write(entry: os.DirEntry[str], path: str) -> None:
    """Write the content of a file to a new path, with the mode of the file as far as the umask allows it."""
    mode = entry.stat().st_mode & 0o777
    copy = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(entry.path, "rb") as original, os.fdopen(copy, "wb") as file:
        file.write(original.read())


def start_breezy(source: str, target: str) -> None:
    """Build nothing. This measures the start of the interpreter with the modules of `transform`."""
    import breezy
    import breezy.bzr
    import breezy.controldir
    import breezy.transform

    with breezy.initialize():
        pass


def transform(source: str, target: str) -> None:
    """Make a Breezy working tree at `target`, and add the files, folders and links of `source` to it.

    All additions are one TreeTransform of Breezy: it writes them to a temporary folder "limbo", and apply()
    renames them into place. The format is 2a, today's usual one.
    """
    import breezy
    import breezy.bzr
    import breezy.controldir
    import breezy.transform

    with breezy.initialize():
        format_2a = breezy.controldir.format_registry.make_controldir("2a")
        tree = breezy.controldir.ControlDir.create_standalone_workingtree(target, format_2a)
        with tree.lock_tree_write(), tree.transform() as changes:
            number = 0
            # Folders whose entries are still to be added: the path in `source`, and the added folder.
            waiting = [(source, changes.root)]
            while waiting:
                folder, parent = waiting.pop()
                for entry in os.scandir(folder):
                    # Breezy requires an identity of each entry that no other entry has. A number will do.
                    number += 1
                    identity = b"%d" % number
                    if entry.is_symlink():
                        link_target = os.readlink(entry.path)
                        changes.new_symlink(entry.name, parent, link_target, identity)
                    elif entry.is_dir():
                        new_folder = changes.new_directory(entry.name, parent, identity)
                        waiting.append((entry.path, new_folder))
                    else:
                        is_executable = bool(entry.stat().st_mode & 0o100)
                        with open(entry.path, "rb") as file:
                            content = [file.read()]
                            changes.new_file(entry.name, parent, content, identity, is_executable)
            changes.apply()


STRATEGIES = {
    "start": start,
    "copytree": copytree,
    "naive": naive,
    "rename": rename,
    "start_breezy": start_breezy,
    "transform": transform,
}


if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    STRATEGIES[name](*paths)
