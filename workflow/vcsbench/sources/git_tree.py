"""Write a tree of a git repository as a folder."""

import os
from collections import Counter
from itertools import chain
from pathlib import Path

from vcsbench.sources import git_objects, svn_names
from vcsbench.sources.base import check_space, format_notes
from vcsbench.sources.git_conversion import SUBMODULES
from vcsbench.sources.git_objects import Blob, TreeEntry
from vcsbench.sources.git_repository import Git


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder and return notes on renames and omissions.

    Names are as in the loaded history. No name is `..` or has a slash, and no two entries have one path
    (git_objects.check_paths, svn_names.subversion_path), so nothing is written outside of the folder.
    """
    counts = Counter[str]()
    entries = git_objects.read_tree(git, commit)
    check_space(sum(entry.size for entry in entries), folder.parent, git.where)
    _make_folder(os.fsencode(folder))
    files: list[tuple[bytes, TreeEntry]] = []
    # Folders come before their content.
    for entry in entries:
        if entry.mode == git_objects.SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        name = svn_names.subversion_path(entry.path)
        if name != entry.path:
            counts[svn_names.RENAMED] += 1
        path = os.fsencode(folder) + b"/" + name
        if entry.mode == git_objects.FOLDER:
            _make_folder(path)
        else:
            files.append((path, entry))
    links: list[tuple[bytes, bytes]] = []
    with git_objects.open_blobs(git) as reader:
        blobs = reader.read([entry.object for _, entry in files])
        for (path, entry), blob in zip(files, blobs, strict=True):
            if entry.mode == git_objects.SYMLINK:
                text = _read_target(blob)
                if svn_names.is_link_target(text):
                    links.append((path, text))
                    continue
                counts[svn_names.LINKS] += 1
                blob = Blob(blob.size, chain([text], blob.chunks))
            _write_file(path, blob, is_executable=entry.mode == git_objects.EXECUTABLE)
    # At the end, so that no file is written through a link.
    for path, target in links:
        os.symlink(target, path)
    return format_notes(counts)


def _make_folder(path: bytes) -> None:
    os.mkdir(path)
    # Whatever the umask is: servers and clients run as other users.
    os.chmod(path, 0o755)


def _read_target(blob: Blob) -> bytes:
    """Return the target of a link; b"", which is none, for one that is too long."""
    if blob.size > svn_names.LONGEST_TARGET:
        return b""
    return b"".join(blob.chunks)


def _write_file(path: bytes, blob: Blob, is_executable: bool) -> None:
    with open(path, "xb") as file:
        file.writelines(blob.chunks)
        os.fchmod(file.fileno(), 0o755 if is_executable else 0o644)
