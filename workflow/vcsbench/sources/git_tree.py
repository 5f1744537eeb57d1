"""Write a tree of a git repository as a folder."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from vcsbench.sources import git_objects, svn_names
from vcsbench.sources.base import check_space, format_notes
from vcsbench.sources.git_conversion import SUBMODULES
from vcsbench.sources.git_objects import FOLDER_MODE, SUBMODULE, SYMLINK_MODE, TreeEntry
from vcsbench.sources.git_repository import Git


def write_tree(git: Git, commit: str, folder: Path) -> list[str]:
    """Write the tree of a commit to a new folder, and return notes on what differs from the tree in git.

    Differences are as in the loaded history: names such as `.svn` are escaped, a link that Subversion refuses
    becomes a plain file, and submodules are left out. Raise UserError if the disk has too little space, or if
    the tree is damaged.
    """
    entries = git_objects.read_tree(git, commit)
    # `folder` itself does not exist yet.
    check_space(sum(entry.size for entry in entries), folder.parent, git.where)
    root = os.fsencode(folder)
    _make_folder(root)
    counts = {SUBMODULES: 0, svn_names.RENAMED_NOTE: 0, svn_names.LINKS_NOTE: 0}
    # The files and links by the paths at which they are written.
    files: dict[bytes, TreeEntry] = {}
    # The entries list a folder before its content. Nothing is written outside of `folder`: subversion_path()
    # escapes `..`, and read_tree() has checked that each path is below a folder of the tree.
    for entry in entries:
        if entry.mode == SUBMODULE:
            counts[SUBMODULES] += 1
            continue
        name = svn_names.subversion_path(entry.path)
        if name != entry.path:
            counts[svn_names.RENAMED_NOTE] += 1
        path = root + b"/" + name
        if entry.mode == FOLDER_MODE:
            _make_folder(path)
        else:
            files[path] = entry
    counts[svn_names.LINKS_NOTE] = _write_files(git, files)
    return format_notes(counts)


def _make_folder(path: bytes) -> None:
    os.mkdir(path)
    # The umask must not restrict the folder, because servers and clients run as other users.
    os.chmod(path, 0o755)


def _write_files(git: Git, files: Mapping[bytes, TreeEntry]) -> int:
    """Write the files and links of a tree, each to the path that is its key in `files`.

    Return the number of links that became plain files, because Subversion can make no link to their targets.
    The folders of all paths must exist.
    """
    link_targets: dict[bytes, bytes] = {}
    plain_links = 0
    with git_objects.open_blobs(git) as reader:
        blobs = reader.read([entry.object for entry in files.values()])
        for (path, entry), blob in zip(files.items(), blobs, strict=True):
            if entry.mode != SYMLINK_MODE:
                mode = 0o755 if entry.mode == git_objects.EXECUTABLE_MODE else 0o644
                _write_file(path, blob.chunks, mode)
                continue
            # Without properties, the text is the target itself, and not `link TARGET`.
            text, properties = git_objects.read_link(blob)
            if properties:
                link_targets[path] = b"".join(text.chunks).removeprefix(b"link ")
            else:
                plain_links += 1
                _write_file(path, text.chunks, 0o644)
    # The links are made at the end, so that no file is written through a link.
    for path, target in link_targets.items():
        os.symlink(target, path)
    return plain_links


def _write_file(path: bytes, chunks: Iterable[bytes], mode: int) -> None:
    with open(path, "xb") as file:
        file.writelines(chunks)
        os.fchmod(file.fileno(), mode)
