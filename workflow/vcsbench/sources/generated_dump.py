"""Write the events of a generated history as the records of a dump stream."""

from collections.abc import Iterable, Iterator

from vcsbench.sources import dump_format
from vcsbench.sources.generated_events import (
    BranchAdded,
    CopyOrigin,
    Event,
    FileAdded,
    FileChanged,
    FileCopied,
    FolderAdded,
    PathDeleted,
    ProjectAdded,
    RevisionBegun,
    TagAdded,
)
from vcsbench.sources.generated_profiles import ProjectLayout


def dump_records(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield the records of events."""
    for event in events:
        yield from _records(event)


def _records(event: Event) -> Iterator[bytes]:
    match event:
        case RevisionBegun():
            yield dump_format.revision(event.number, _properties(event))
        case ProjectAdded():
            yield from map(dump_format.directory, _list_folders(event.layout))
        case BranchAdded() | TagAdded():
            yield dump_format.directory(event.path, _copyfrom(event.origin))
        case FolderAdded():
            origin = _copyfrom(event.origin) if event.origin else b""
            yield dump_format.directory(event.path, origin)
        case FileAdded():
            properties = event.properties
            yield dump_format.file(event.path, b"add", properties=properties, text=event.text)
        case FileCopied():
            yield dump_format.file(event.path, b"add", origin=_copyfrom(event.origin))
        case FileChanged():
            yield dump_format.file(event.path, b"change", text=event.text)
        case PathDeleted():
            yield dump_format.deletion(event.path)


def _properties(revision: RevisionBegun) -> dict[bytes, bytes]:
    properties = {}
    if revision.message is not None:
        properties[b"svn:log"] = revision.message
    if revision.author is not None:
        properties[b"svn:author"] = revision.author
    properties[b"svn:date"] = revision.date
    return properties


def _list_folders(layout: ProjectLayout) -> list[bytes]:
    """Return trunk, the folders for branches and tags, and all above them, each folder once."""
    # The keys are a set in this order: layouts share folders.
    folders: dict[bytes, None] = {}
    for path in (layout.trunk, *layout.branches, *layout.tags):
        for folder in (*dump_format.folders_above(path), path):
            folders[folder] = None
    return list(folders)


def _copyfrom(origin: CopyOrigin) -> bytes:
    return dump_format.copyfrom(origin.path, origin.revision)
