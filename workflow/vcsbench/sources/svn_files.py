"""Check, list and digest the files of a Subversion repository."""

import hashlib
import itertools
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.external import FILE_SCHEME, PATH_ERRORS, local_path
from vcsbench.sources.repository_files import SVN_PARTS, check_files

REPLACE = "Replace it by a regular file or folder, or give another repository."
# Of older shards, only the folder is part of the identity.
YOUNGEST_SHARDS = 3
YOUNGEST_FILES = 5000
# 200,000 files take 0.6 s, and 2 s from a device. Subversion gives a file the mode of the last file.
LISTED_FILES = 10_000


def is_svn_repository(path: Path) -> bool:
    """Return True if a Subversion repository lies at `path`, not merely below or above it."""
    # Subversion 1.0 wrote no fs-type: all was in Berkeley DB.
    names = ("fs-type", "DB_CONFIG")
    return (path / "format").exists() and any((path / "db" / name).exists() for name in names)


def check_repository(path: Path) -> None:
    """Raise UserError if a repository has links, pipes or devices (repository_files)."""
    check_files(path, SVN_PARTS, REPLACE)


def check_local_url(url: str) -> None:
    """Raise UserError if the repository of a file:// URL has links, pipes or devices.

    For file://, svn and svnrdump open the files of the repository themselves. For a URL of a server, only the
    server opens files.
    """
    if not url.startswith(FILE_SCHEME):
        return
    # The URL may name another host, or a folder that this user may not enter.
    try:
        path = local_path(url)
        repositories = [folder for folder in (path, *path.parents) if is_svn_repository(folder)]
    except PATH_ERRORS as error:
        raise UserError(f"{url}: {error}. Correct the address.") from None
    # The repository of file:///srv/x/trunk is /srv/x, a folder above the path of the URL.
    if repositories:
        check_repository(repositories[0])


def list_history(repository: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files and folders from which somebody can read a history; of many files an even sample."""
    yield from (entry for entry in os.scandir(repository) if entry.name == "db")
    for entry in os.scandir(repository / "db"):
        if entry.name in ("current", "revs", "revprops"):
            yield entry
    # The folders db/revs and db/revprops. The folders in them are shards, of usually 1,000 revisions each.
    for top in _revision_folders(repository):
        yield from (entry for entry in os.scandir(top) if entry.is_dir())
        number = sum(1 for _ in _revision_files(top))
        # At most LISTED_FILES are yielded. islice() accepts no step of 0.
        step = max(1, math.ceil(number / LISTED_FILES))
        yield from itertools.islice(_revision_files(top), None, None, step)


def content_digest(repository: Path) -> str:
    """Return a digest that changes when the history of the repository does, without reading a file.

    The digest covers the names, sizes and times of the youngest files of revisions and of revision
    properties, and the names and times of their folders. Neither reading nor `rsync -a` changes these.
    """
    digest = hashlib.sha256()
    for top in _revision_folders(repository):
        # A shard is a folder of usually 1,000 revisions. An old repository has none: its files lie in `top`.
        shards = [entry.path for entry in _list_by_number(top) if entry.is_dir()]
        # New revisions and packing change the youngest shards or the time of `top`, so older shards are not
        # listed: a large repository has thousands.
        for folder in (top, *shards[-YOUNGEST_SHARDS:]):
            digest.update(_describe_state("", os.stat(folder)))
            for entry in _list_by_number(folder)[-YOUNGEST_FILES:]:
                digest.update(_describe_state(entry.name, entry.stat()))
    return digest.hexdigest()


def _revision_folders(repository: Path) -> list[str]:
    folders = [os.path.join(repository, "db", name) for name in ("revs", "revprops")]
    # A repository in Berkeley DB has no such folders.
    return [folder for folder in folders if os.path.isdir(folder)]


def _revision_files(top: str) -> Iterator[os.DirEntry[str]]:
    for entry in os.scandir(top):
        if entry.is_dir():
            yield from os.scandir(entry.path)
        else:
            yield entry


def _list_by_number(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as scanned:
        # 10 comes after 9, and 3.pack between 2 and 4.
        return sorted(scanned, key=lambda entry: (len(entry.name.split(".")[0]), entry.name))


def _describe_state(name: str, state: os.stat_result) -> bytes:
    facts = f"{state.st_size} {state.st_mtime_ns}"
    if stat.S_ISDIR(state.st_mode):
        # A folder's size depends on the file system, and rsync copies its time in whole seconds.
        facts = f"{state.st_mtime_ns // 10**9}"
    return os.fsencode(name) + f"\0{facts}\n".encode()
