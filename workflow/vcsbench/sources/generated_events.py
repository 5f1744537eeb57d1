"""Define the events of a generated history, which a writer makes the dump stream or fast-import stream of."""

from typing import NamedTuple

from vcsbench.sources.generated_profiles import ProjectLayout


class CopyOrigin(NamedTuple):
    """The path and the revision that something is a copy of."""

    path: bytes
    revision: int


class RevisionBegun(NamedTuple):
    """The begin of a revision; the events up to the next one are its changes.

    `date` is Subversion's, such as b"2005-05-05T05:05:05.000000Z". Revision 0 has neither author nor message.
    """

    number: int
    date: bytes
    author: bytes | None = None
    message: bytes | None = None


class ProjectAdded(NamedTuple):
    """The folders of a new project: trunk, those of branches and tags, and all above them."""

    layout: ProjectLayout


class BranchAdded(NamedTuple):
    """A new branch: a copy of trunk."""

    path: bytes
    origin: CopyOrigin


class TagAdded(NamedTuple):
    """A new tag: a copy of a branch."""

    path: bytes
    origin: CopyOrigin


class FolderAdded(NamedTuple):
    """A new folder without files, or the copy of a folder of the same trunk.

    `has_files` is False if the copied folder, and all below it, are without files.
    """

    path: bytes
    origin: CopyOrigin | None = None
    has_files: bool = False


class FileAdded(NamedTuple):
    """A new file, or a copy of a file of the same trunk without another text."""

    path: bytes
    is_executable: bool
    properties: dict[bytes, bytes]
    text: bytes


class FileCopied(NamedTuple):
    """A copy of a file of the same trunk, with its text and properties."""

    path: bytes
    origin: CopyOrigin


class FileChanged(NamedTuple):
    """A file with another text."""

    path: bytes
    is_executable: bool
    text: bytes


class PathDeleted(NamedTuple):
    """A deleted file, or a folder with all below it."""

    path: bytes


Change = (
    ProjectAdded
    | BranchAdded
    | TagAdded
    | FolderAdded
    | FileAdded
    | FileCopied
    | FileChanged
    | PathDeleted
)
Event = RevisionBegun | Change
