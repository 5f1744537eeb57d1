"""List, copy and remove trees of files, and count the paths that a disk or a working copy cannot hold."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import processes
from vcsbench.errors import UserError, printable
from vcsbench.kernel import number_in
from vcsbench.storages.filesystems import raise_write_error

if TYPE_CHECKING:
    from vcsbench.records import Recipe

# Folders that are no part of a tree: Subversion cannot check out .svn.
ADMINISTRATIVE_FOLDERS = {
    ".svn",
    ".git",
    ".hg",
    ".bzr",
    ".jj",
    "_darcs",
    "CVS",
    "_FOSSIL_",
    ".fslckout",
}
NAME_BYTES = 255
# svn export and checkout first write a link under its name with `.tmp`.
LINK_NAME_BYTES = NAME_BYTES - len(".tmp")
# Linux's limit, without the folder of an export.
PATH_BYTES = 3500
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
MAX_DEPTH = 256
IMPOSSIBLE_PATHS = (
    f"that no disk can hold (a name over {NAME_BYTES} bytes; a path over {PATH_BYTES:,} bytes; over "
    f"{MAX_DEPTH} folders)"
)
RESERVED_PATHS = "named .svn, which a working copy cannot hold"
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000


class OddPaths(NamedTuple):
    """The numbers of a tree's IMPOSSIBLE_PATHS, and of its other RESERVED_PATHS."""

    impossible: int = 0
    reserved: int = 0


def entries(
    root: Path, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of everything below a folder, folders before their content, sorted by name.

    Entries with a name of ADMINISTRATIVE_FOLDERS, such as .git, are left out with their content, and counted
    by name in `left_out`. Raise UserError if folders are nested deeper than MAX_DEPTH.
    """
    # A stack of iterators: the remaining entries of each folder from `root` down to the present folder.
    stack = [_scan(os.fspath(root))]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        if entry.name in ADMINISTRATIVE_FOLDERS:
            if left_out is not None:
                left_out[entry.name] += 1
            continue
        yield entry.path, entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            if len(stack) > MAX_DEPTH:
                raise UserError(
                    f"{printable(os.fspath(root))}: folders are nested deeper than {MAX_DEPTH}. Choose a "
                    "folder further down, or remove the deepest folders."
                )
            stack.append(_scan(entry.path))


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    # The order of bytes does not depend on a locale. Digests of trees need that.
    with os.scandir(folder) as scanned:
        return iter(sorted(scanned, key=lambda entry: os.fsencode(entry.name)))


@contextlib.contextmanager
def open_folder(path: str | Path, above: int | None = None) -> Iterator[int]:
    """Open a folder, and yield its descriptor. No link is followed. `above` is the open folder around it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        yield folder
    finally:
        os.close(folder)


def check_mount(folder: int, above: int, path: Path) -> None:
    """Raise UserError if an open folder, with this path, is on another mount than the folder around it."""
    # After `mount --bind`, both folders have the same device. So the kernel's numbers of the mounts count.
    mounts = {number_in(f"/proc/self/fdinfo/{opened}", "mnt_id:") for opened in (folder, above)}
    if len(mounts) > 1:
        raise UserError(f"{path}: something is mounted here. Unmount it, and run again.")


def remove_path(path: Path, above: int | None = None) -> None:
    """Remove a file, a link, or a folder with its content. Do nothing if the path does not exist.

    Links are removed, and only links above the path are followed. `above` is a descriptor of the folder
    around the path; without `above`, that folder is opened here. Raise UserError if something is mounted in
    the folder, and OSError with the path if the path cannot be removed.
    """
    # Each call is relative to an open folder. With paths, somebody could put a link in place of a folder
    # after the check, and files elsewhere would be removed. shutil.rmtree is as safe, but it enters mounts.
    # All calls are in one `try`, because each of them can raise an error without the path.
    try:
        if above is None:
            with open_folder(os.path.realpath(path.parent)) as opened:
                remove_path(path, opened)
            return
        mode = os.stat(path.name, dir_fd=above, follow_symlinks=False).st_mode
        if not stat.S_ISDIR(mode):
            os.unlink(path.name, dir_fd=above)
            return
        with open_folder(path.name, above) as folder:
            check_mount(folder, above, path)
            # A copied tree keeps its modes. An ordinary user cannot empty a folder that is read-only.
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                with contextlib.suppress(PermissionError):
                    os.fchmod(folder, stat.S_IRWXU)
            for name in os.listdir(folder):
                remove_path(path / name, folder)
        os.rmdir(path.name, dir_fd=above)
    except FileNotFoundError:
        pass
    except OSError as error:
        # An error of a call relative to an open folder has only the name, or the number of a descriptor. An
        # error of a nested remove_path() has its whole path already.
        if error.filename == path.name or not isinstance(error.filename, str):
            error.filename = str(path)
        raise


def next_directory(above: Path, name: str) -> Path:
    """Make the folder `name` in the folder `above`, in a random part of the disk, and return its path.

    Where files were removed lately, writing a tree is slow for minutes on an ext4 without a journal
    (lacks_journal). From a random part, nothing was removed, most likely.
    """
    # ext4 spreads the folders in a marked folder over the disk, and chooses the part by the name. The mark is
    # the flag T of chattr. File systems without this flag raise an error, and any part is as good.
    with open_folder(above) as folder, contextlib.suppress(OSError):
        (flags,) = struct.unpack("i", fcntl.ioctl(folder, FS_IOC_GETFLAGS, bytes(4)))
        fcntl.ioctl(folder, FS_IOC_SETFLAGS, struct.pack("i", flags | FS_TOPDIR_FL))
    # A random name gives a random part. The name `name` would always give the same part. A renamed folder
    # stays where it is on the disk.
    new = above / os.urandom(16).hex()
    new.mkdir()
    return new.rename(above / name)


def copy_tree(source: str | Path, path: Path) -> None:
    """Copy a tree to a new path: contents, modes, times, symbolic and hard links, without shared blocks."""
    try:
        # With -T, `path` itself becomes the copy, and not a folder in it.
        processes.run_program(["cp", "-aT", "--reflink=never", source, path])
    except UserError as error:
        # Callers expect an OSError for a full or read-only disk. raise_write_error() raises only that.
        raise_write_error(str(error), path)
        raise


def allocated_bytes(path: Path) -> int:
    """Return the bytes of the disk blocks of all files below a folder; 0 without the folder."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                # `st_blocks` counts in units of 512 bytes on all file systems.
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return total


def older_revision(youngest: int, behind: int) -> int:
    """Return the revision of a working copy that is `behind` revisions before the youngest one.

    Revision 0 has no files, and 1 often only the folders trunk, branches and tags. So the result is at least
    2, or the youngest revision if the repository has fewer.
    """
    return max(min(2, youngest), youngest - behind)


def describe_missing_tree(tree: str, revision: int) -> str:
    """Return in a clause that a repository did not have its tree, such as trunk, in an older revision."""
    return (
        f"has no {printable(tree)} in revision {revision:,} (it was added, moved or replaced since)"
    )


def why_not_on_disk(recipe: Recipe, count: Callable[[], OddPaths], behind: int = 0) -> str:
    """Return in a clause why a cell cannot write the tree of its repository; "" if it can, or writes none.

    Example: "ruby has 2 paths named .svn, which a working copy cannot hold, so its tree cannot be checked
    out". `count` counts paths of the tree, which is `behind` revisions older than the youngest one.
    """
    # What the command reads and writes, such as "repository" and "working_copy".
    subjects = {recipe["input"], recipe["output"]}
    has_working_copy = bool(subjects & {"working_copy", "changed_working_copy"})
    has_tree = bool(subjects & {"tree", "built_tree"})
    # The command exports or checks out {tree} to {target}. Other commands with a {target} lack {tree}.
    writes_target = "target" in subjects and "{tree}" in recipe["argv"]
    # Counting takes minutes in a large repository, and is needed only for a cell that writes a tree.
    if not (writes_target or has_working_copy or has_tree):
        return ""
    name = recipe["repository"]["name"]
    if behind:
        name += f", {behind:,} revisions before its youngest,"
    odd_paths = count()
    if odd_paths.impossible:
        number = _number_of_paths(odd_paths.impossible)
        return f"{name} has {number} {IMPOSSIBLE_PATHS}, so its tree cannot be written"
    # An exported tree can have paths named .svn, and a working copy cannot. The command may make one itself.
    checks_out_target = writes_target and bool({"checkout", "co"} & set(recipe["argv"].split()))
    if odd_paths.reserved and (has_working_copy or checks_out_target):
        number = _number_of_paths(odd_paths.reserved)
        return f"{name} has {number} {RESERVED_PATHS}, so its tree cannot be checked out"
    return ""


def _number_of_paths(number: int) -> str:
    return "1 path" if number == 1 else f"{number:,} paths"
