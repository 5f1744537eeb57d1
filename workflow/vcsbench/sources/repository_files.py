"""Check the files of a user's repository before a program reads them.

This is the only place that decides on links. A repository is data from outside. A link in it can lead to
any file of the machine, and a pipe, a device or a file of the kernel such as /proc/kmsg blocks its reader or
never ends. svnadmin and git would follow all of them, and svnadmin hotcopy copies some links as links.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import one_line
from vcsbench.sources.base import readable

# Only these parts of a Subversion repository are read. `hooks` and `conf` belong to the site, often contain
# links to its scripts and passwords, and are neither read nor copied.
SVN_PARTS = ("format", "db", "locks")
# Only these parts of git's folder are read. Its hooks, its index and its submodules are not.
GIT_PARTS = ("HEAD", "commondir", "config", "packed-refs", "shallow", "refs", "objects")
# A linked work tree has its own HEAD, and everything else is in the common folder.
WORK_TREE_PARTS = ("HEAD", "commondir")
# git of before 2005, and later with core.preferSymlinkRefs, makes a symbolic ref as a link with this text.
# git reads the text of such a link and does not follow it, unless the text is no valid name of a ref.
SYMBOLIC_REF = "refs/"


def check_files(
    root: str | Path, parts: Iterable[str], remedy: str, *, allows_inner_links: bool = False
) -> None:
    """Raise UserError, which ends with `remedy`, for the first entry that is no plain file or folder.

    Look at the `parts` of the folder `root`, such as ("HEAD", "refs"), and at all below them, and open no
    file. A missing part is no fault. With `allows_inner_links`, links that cannot lead out of the repository
    are allowed: git repositories have them, and Subversion's have none. Also raise UserError for a folder
    that cannot be read.
    """
    # The folders whose entries are still to be checked.
    folders = []
    for part in parts:
        path = os.path.join(root, part)
        is_folder = _check_entry(root, path, remedy, allows_inner_links)
        if is_folder:
            folders.append(path)
    while folders:
        folder = folders.pop()
        try:
            with readable(Path(folder)), os.scandir(folder) as entries:
                for entry in entries:
                    # scandir() needs no further system call for most entries: 100,000 files take 0.1 s.
                    if entry.is_file(follow_symlinks=False):
                        continue
                    is_folder = _check_entry(root, entry.path, remedy, allows_inner_links)
                    if is_folder:
                        folders.append(entry.path)
        except UserError:
            # A commit or `svnadmin pack` removes folders while the repository is in use. That is no fault.
            if os.path.lexists(folder):
                raise


def _check_entry(root: str | Path, path: str, remedy: str, allows_inner_links: bool) -> bool:
    """Raise UserError, which ends with `remedy`, for a link, a pipe, a device or a socket.

    Return True for a folder, and False for a plain file, a path that does not exist, and an allowed link.
    """
    with readable(Path(path)):
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
    if stat.S_ISDIR(mode):
        return True
    if stat.S_ISREG(mode):
        return False
    if not stat.S_ISLNK(mode):
        raise UserError(f"{one_line(path)}: this is not a regular file. {remedy}")
    if not (allows_inner_links and _stays_in_repository(root, path)):
        target = one_line(os.readlink(path), 200)
        raise UserError(f"{one_line(path)}: this is a link to {target}. {remedy}")
    return False


def _stays_in_repository(root: str | Path, path: str) -> bool:
    """Return True for a link through which git can read no file outside of the repository `root`.

    - A symbolic ref: git takes the text of the link, such as `refs/heads/main`, for the name of a ref, and
      does not follow the link. The ref need not exist: the branch may have been deleted.
    - A link to a plain file below `root`, as after `ln -s main refs/heads/master`.

    A link to a folder is neither: git would follow it, perhaps in circles.
    """
    text = os.readlink(path)
    # With `..` in it, a text is no valid name of a ref, and git follows the link.
    is_ref_name = text.startswith(SYMBOLIC_REF) and ".." not in text
    is_symbolic_ref = is_ref_name and not os.path.isdir(path)
    if is_symbolic_ref:
        return True
    real_target = os.path.realpath(path)
    real_root = os.path.realpath(root)
    is_inside = os.path.commonpath([real_root, real_target]) == real_root
    return is_inside and os.path.isfile(real_target)
