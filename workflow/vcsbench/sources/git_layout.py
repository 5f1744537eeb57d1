"""Find the folders of a user's git repository, and check their files before git opens one of them."""

import codecs
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import one_line, read_bytes
from vcsbench.sources.base import readable
from vcsbench.sources.repository_files import (
    GIT_PARTS,
    SYMBOLIC_REF,
    WORK_TREE_PARTS,
    check_files,
)

REF_BYTES = 1 << 14
ALTERNATES_BYTES = 1 << 20
PACK_SUFFIXES = (".pack", ".idx")
GIVE_CLONE = "Give a clone of the repository, which `git clone --mirror` makes."
# A string of C as git writes and reads it (unquote_c_style).
QUOTATION = re.compile(rb'"((?:[^"\\]|\\[abfnrtv\\"]|\\[0-3][0-7]{2})*)"')


class GitLayout(NamedTuple):
    """git's folder for this work tree, and git's for all work trees. In most repositories they are one."""

    folder: Path
    common: Path


def find_layout(path: Path) -> GitLayout | None:
    """Return the layout of the repository at a path: bare, a work tree's top, or a linked work tree.

    Return None if nothing there looks like a repository. Raise UserError for a damaged repository, and for a
    pipe, a device or a dangerous link in it (check_files).
    """
    folder = _find_git_folder(path)
    if folder is None:
        return None
    # The files in a folder are checked before one of them is opened. Links that stay in the repository are
    # harmless: an old git makes them in place of files such as HEAD. A linked work tree has only two files of
    # its own in `folder`, HEAD and commondir. All other parts are in the common folder.
    check_files(folder, WORK_TREE_PARTS, GIVE_CLONE, allows_inner_links=True)
    # The file `commondir` has the path of the common folder, relative to `folder`. As git does, read it only
    # up to a NUL. Other repositories lack the file: then the name is empty, and `common` is `folder` itself.
    content = read_optional(folder / "commondir", REF_BYTES)
    name = content.partition(b"\0")[0].rstrip(b"\r\n")
    common = folder / os.fsdecode(name)
    check_files(common, GIT_PARTS, GIVE_CLONE, allows_inner_links=True)
    for required in (folder / "HEAD", common / "objects"):
        if not os.path.lexists(required):
            raise UserError(
                f"{one_line(required)}: does not exist: the git repository is damaged, or its main "
                "repository was moved. Clone it again, or run `git worktree repair` there."
            )
    return GitLayout(folder, common)


def _find_git_folder(path: Path) -> Path | None:
    """Return git's folder for a path: /srv/x/.git for /srv/x, or the path itself if it is such a folder.

    Return None if nothing looks like git's. Open only one file: a `.git` that names another folder.
    """
    if not path.is_dir():
        return None
    # lexists() is also true for a broken link, whose own error helps more than `is not a git repository`.
    dot_git = path / ".git"
    if os.path.lexists(dot_git):
        return dot_git if os.path.isdir(dot_git) else _read_gitdir(dot_git)
    bare_names = ("HEAD", "objects")
    # git's folder of a linked work tree, such as /srv/x/.git/worktrees/y.
    work_tree_names = ("HEAD", "commondir")
    # A bare repository that has lost its HEAD. The error of find_layout() names that.
    damaged_names = ("objects", "refs", "config")
    for names in (bare_names, work_tree_names, damaged_names):
        if all(os.path.lexists(path / name) for name in names):
            return path
    return None


def _read_gitdir(file: Path) -> Path:
    """Return the folder that the file `.git` of a linked work tree names: `gitdir: /srv/x/worktrees/y`."""
    content = _read_limited(file, REF_BYTES).rstrip(b"\r\n")
    if not content.startswith(b"gitdir: "):
        raise UserError(
            f"{one_line(file)}: has no line `gitdir: FOLDER`. Clone the repository again."
        )
    folder = file.parent / os.fsdecode(content.removeprefix(b"gitdir: "))
    if not os.path.isdir(folder):
        raise UserError(
            f"{one_line(file)}: names the folder {one_line(folder)}, which does not exist. "
            "Give the main repository, or run `git worktree repair` in it."
        )
    return folder


def find_object_folders(common: Path) -> list[Path]:
    """Return the real folders of objects: first the repository's own, then all that it borrows from.

    `git clone --shared` makes a repository that borrows objects from another one, the lender. Raise UserError
    if the folder of a lender is missing, or has an entry that is dangerous to open, such as a pipe.
    """
    folders = [Path(os.path.realpath(common / "objects"))]
    # A lender may borrow, too: the list grows while it is read. Lenders may form a circle.
    for folder in folders:
        for lender in _read_lenders(folder):
            if lender not in folders:
                # "" is the lender's folder itself: all of it is checked.
                check_files(lender, [""], GIVE_CLONE, allows_inner_links=True)
                folders.append(lender)
    return folders


def _read_lenders(objects: Path) -> list[Path]:
    """Return the real folders of objects in info/alternates. Raise UserError if one does not exist."""
    file = objects / "info" / "alternates"
    lenders = []
    for name in parse_alternates(read_optional(file, ALTERNATES_BYTES)):
        # A name may be absolute, or relative to the folder of objects.
        lender = (objects / os.fsdecode(name)).absolute()
        if not os.path.isdir(lender):
            raise UserError(
                f"{one_line(file)}: the object folder {one_line(lender)} does not exist. Bring it back, or "
                "clone the repository again without --shared and --reference."
            )
        lenders.append(lender.resolve())
    return lenders


def parse_alternates(content: bytes) -> list[bytes]:
    r"""Return the names of folders in the content of `info/alternates`, usually one for each line.

    The line `/srv/a` gives b"/srv/a". The line `"/srv/b\tc"` gives a name with a tab between b and c. The
    rules are git's: by other rules, vcsbench would check other folders than git opens.
    """
    names = []
    # git reads a string of C, which ends at a NUL.
    text = content.partition(b"\0")[0] + b"\n"
    position = 0
    while position < len(text):
        # A name may stand between two ". Escapes in it, such as \t, are those of C.
        quotation = QUOTATION.match(text, position)
        if quotation:
            # Python has the same escapes. But \303 is a character in Python, and one byte in C.
            name = codecs.decode(quotation[1], "unicode_escape").encode("latin-1")
            # git skips one character behind the closing mark, whatever it is: usually the line end.
            position = quotation.end() + 1
        else:
            # A name without quotation, or with a wrong one, is taken as it stands.
            name = text[position : text.index(b"\n", position)]
            position += len(name) + 1
            is_comment = name.startswith(b"#")
            if is_comment:
                continue
        if name:
            names.append(name)
    return names


def list_folders(path: Path) -> list[Path]:
    """Return all folders from which git reads the repository at a path; [] without one there."""
    layout = find_layout(path)
    if layout is None:
        return []
    return [*layout, *find_object_folders(layout.common)]


def list_objects(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files and folders of the history in one of list_folders(), for is_private()."""
    for entry in os.scandir(folder):
        if entry.name in ("HEAD", "packed-refs", "objects"):
            yield entry
        elif entry.name == "pack" and entry.is_dir():
            yield entry
            for file in os.scandir(entry.path):
                # Other files, such as the marker pack-*.keep, are often private, but hold no history.
                if file.name.endswith(PACK_SUFFIXES):
                    yield file
        elif len(entry.name) == 2 and entry.is_dir():
            # Loose objects: the folder is named by the first two digits of their names.
            yield entry
            for file in os.scandir(entry.path):
                # git is still writing an object such as tmp_obj_x, which only its owner can read.
                if not file.name.startswith("tmp_"):
                    yield file


def read_ref(path: Path) -> bytes:
    """Return the content of HEAD or of a ref in a file: a commit's name, or `ref: refs/heads/main`."""
    with readable(path):
        target = os.readlink(path) if path.is_symlink() else ""
    # A symbolic ref of an old git is a link, which git reads as a text.
    if target.startswith(SYMBOLIC_REF):
        return b"ref: " + os.fsencode(target)
    return _read_limited(path, REF_BYTES).rstrip()


def _read_limited(path: Path, limit: int) -> bytes:
    with readable(path):
        return read_bytes(path, limit)


def read_optional(path: Path, limit: int) -> bytes:
    """Return the content of a file; b"" if it is missing. Raise UserError if it has over `limit` bytes."""
    with readable(path), suppress(FileNotFoundError):
        return read_bytes(path, limit)
    return b""
