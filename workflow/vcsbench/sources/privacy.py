"""Check if all users of the machine can read a source."""

import os
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import FILE_SCHEME, PATH_ERRORS, local_path
from vcsbench.sources import svn_files
from vcsbench.sources.base import Definition
from vcsbench.sources.git_layout import list_folders, list_objects
from vcsbench.sources.git_source import GitSource
from vcsbench.sources.svn_source import SvnSource
from vcsbench.sources.tree_source import DirectorySource
from vcsbench.storages.file_trees import entries


def is_private(definition: Definition) -> bool:
    """Return True if not all users of the machine can read a source, such as a repository of mode 700."""
    url = definition.get("url")
    if url is not None:
        # A server may require a password, so what it has counts as private.
        is_local = str(url).startswith(FILE_SCHEME)
        return not is_local or _is_private_path(str(url), SvnSource.kind)
    # A generated source has no path.
    path = definition.get("path")
    return path is not None and _is_private_path(str(path), str(definition["source"]))


@cache
def _is_private_path(text: str, kind: str) -> bool:
    """Return True if other users cannot read the path `text`, or at least one file of its history."""
    try:
        return _has_closed_file(local_path(text), kind)
    except (UserError, *PATH_ERRORS):
        # A path that cannot be checked counts as private.
        return True


def _has_closed_file(path: Path, kind: str) -> bool:
    """Return True if a source is closed: other users cannot read its path, or a file of its history."""
    if kind == SvnSource.kind:
        return _is_closed(path, svn_files.list_history(path))
    if kind == GitSource.kind:
        # git reads several folders: the folders of a linked work tree's main repository, and of other
        # repositories from which this one borrows objects.
        for folder in list_folders(path):
            if _is_closed(folder, list_objects(folder)):
                return True
        # The path itself may be a work tree, which is none of these folders.
        return _is_closed(path)
    if kind == DirectorySource.kind:
        return _is_closed(path) or not all(_can_others_read(state) for _, state in entries(path))
    # The file of a dump.
    return _is_closed(path)


def _is_closed(path: Path, below: Iterable[os.DirEntry[str]] = ()) -> bool:
    """Return True if other users cannot reach and read a file or folder, or one of the entries `below` it."""
    real_path = Path(os.path.realpath(path))
    # To reach a file, all folders above it must be entered; they need not be listed.
    for folder in real_path.parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            return True
    if not _can_others_read(real_path.stat()):
        return True
    # A link leads to a file of the same repository, or the repository is refused (repository_files).
    return not all(_can_others_read(entry.stat()) for entry in below)


def _can_others_read(state: os.stat_result) -> bool:
    """Return True if other users can read a file or folder. The modes of links and pipes do not matter."""
    needed = 0
    if stat.S_ISDIR(state.st_mode):
        needed = stat.S_IROTH | stat.S_IXOTH
    elif stat.S_ISREG(state.st_mode):
        needed = stat.S_IROTH
    return state.st_mode & needed == needed
