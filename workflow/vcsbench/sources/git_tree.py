"""Write a tree of a git repository as a folder."""

import os
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from vcsbench.sources import git_objects, svn_names
from vcsbench.sources.base import check_space, format_notes
from vcsbench.sources.git_conversion import SUBMODULES
from vcsbench.sources.git_objects import Blob, TreeEntry
from vcsbench.sources.git_repository import Git


class NewFile(NamedTuple):
    """A file or link to write: its path, and its entry in the tree."""

    path: bytes
    entry: TreeEntry


class NewLink(NamedTuple):
    """A link to make."""

    path: bytes
    target: bytes


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names are as in the loaded history. No name is `..` or has a slash, and no two entries have one path
    (git_objects.check_paths, svn_names.subversion_path), so nothing is written outside of the folder.
    """
    counts = Counter[str]()
    entries = git_objects.read_tree(git, commit)
    check_space(sum(entry.size for entry in entries), folder.parent, git.where)
    files = _make_folders(entries, os.fsencode(folder), counts)
    links = _write_files(git, files, counts)
    # At the end, so that no file is written through a link.
    for link in links:
        os.symlink(link.target, link.path)
    return format_notes(counts)


def _make_folders(entries: list[TreeEntry], root: bytes, counts: Counter[str]) -> list[NewFile]:
    """Make the folders of a tree below `root`, and return the files and links that must be written there.

    Names are changed as in the loaded history: `.svn` becomes `?\\046svn`. `counts` gets the number of
    changed names, and of submodules, which are left out.
    """
    files = []
    _make_folder(root)
    # Folders come before their content.
    for entry in entries:
        if entry.mode == git_objects.SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        name = svn_names.subversion_path(entry.path)
        if name != entry.path:
            counts[svn_names.RENAMED_NOTE] += 1
        path = root + b"/" + name
        if entry.mode == git_objects.FOLDER_MODE:
            _make_folder(path)
        else:
            files.append(NewFile(path, entry))
    return files


def _write_files(git: Git, files: list[NewFile], counts: Counter[str]) -> list[NewLink]:
    """Write all files, and return the links for the caller to make.

    A link that Subversion could not make, for example with an empty target, is a plain file in the loaded
    history. So it is written here as a plain file whose content is the target, and counted in `counts`.
    """
    links = []
    with git_objects.open_blobs(git) as reader:
        blobs = reader.read([file.entry.object for file in files])
        for file, blob in zip(files, blobs, strict=True):
            if file.entry.mode == git_objects.SYMLINK_MODE:
                # A target that is too long is not read: it may have gigabytes.
                is_short = blob.size <= svn_names.LONGEST_TARGET
                target = b"".join(blob.chunks) if is_short else b""
                if svn_names.is_link_target(target):
                    links.append(NewLink(file.path, target))
                    continue
                counts[svn_names.LINKS_NOTE] += 1
                # A short target was read above, so it is put in front of the chunks that are left: none.
                # Of a long target nothing was read: then `target` is empty, and the chunks are all of it.
                blob = Blob(blob.size, chain([target], blob.chunks))
            is_executable = file.entry.mode == git_objects.EXECUTABLE_MODE
            _write_file(file.path, blob, is_executable)
    return links


def _make_folder(path: bytes) -> None:
    os.mkdir(path)
    # Whatever the umask is: servers and clients run as other users.
    os.chmod(path, 0o755)


def _write_file(path: bytes, blob: Blob, is_executable: bool) -> None:
    with open(path, "xb") as file:
        file.writelines(blob.chunks)
        os.fchmod(file.fileno(), 0o755 if is_executable else 0o644)
