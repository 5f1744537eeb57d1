"""A plain recursive copy: each folder is made, each file read and written in its place."""

import os


def build(source: str, target: str) -> None:
    """Copy the tree `source` to `target`, which is not there: contents, links, and modes as the umask has
    them."""
    os.mkdir(target)
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
        elif entry.is_dir():
            build(entry.path, path)
        else:
            write(entry, path)


def write(entry: os.DirEntry[str], path: str) -> None:
    """Write a file's copy to a path."""
    mode = entry.stat().st_mode & 0o777
    with open(entry.path, "rb") as original, os.fdopen(_new(path, mode), "wb") as copy:
        copy.write(original.read())


def _new(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
