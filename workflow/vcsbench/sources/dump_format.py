"""Write records of Subversion's dump format, version 2.

A revision, a folder, a file or a deletion is a record: headers, a blank line, properties and text.
"""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import accumulate
from typing import NamedTuple

Properties = Mapping[bytes, bytes]
SPECIAL, EXECUTABLE = {b"svn:special": b"*"}, {b"svn:executable": b"*"}
# A longer text is passed on in chunks, without a checksum. The checksum would have to come before the text.
WHOLE_BYTES = 16 << 20
END = b"PROPS-END\n"


class CopyOrigin(NamedTuple):
    """The path and the revision of the original of a copy."""

    path: bytes
    revision: int


def header(name: str) -> bytes:
    """Return the beginning of the stream of a history, with a UUID that is made of `name`."""
    return header_with_uuid(str(uuid.uuid5(uuid.NAMESPACE_OID, name)))


def header_with_uuid(text: str) -> bytes:
    return b"SVN-fs-dump-format-version: 2\n\nUUID: %s\n\n" % text.encode("ascii")


def date(moment: datetime) -> bytes:
    """Return a date as Subversion writes it: 2005-05-05T05:05:05.000000Z"""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode("ascii")


def folders_above(path: bytes) -> Iterable[bytes]:
    """Return the folders above a path, the outermost first: a and a/b for a/b/c."""
    return accumulate(path.split(b"/")[:-1], lambda outer, name: outer + b"/" + name)


def property_block(properties: Properties) -> bytes:
    """Return properties as lengths, names (K) and values (V), up to the line PROPS-END."""
    parts = (b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items())
    return b"".join(parts) + END


def revision(number: int, properties: Properties) -> bytes:
    block = property_block(properties)
    head = b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n"
    return head % (number, len(block), len(block), block)


def directory(path: bytes, origin: CopyOrigin | None = None) -> bytes:
    """Return the record of a new folder: empty, or a copy of `origin`."""
    head = b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n"
    return head % (path, _copy_headers(origin))


def _copy_headers(origin: CopyOrigin | None) -> bytes:
    if origin is None:
        return b""
    headers = b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n"
    return headers % (origin.revision, origin.path)


def file(
    path: bytes,
    action: bytes,
    *,
    origin: CopyOrigin | None = None,
    properties: Properties | None = None,
    text: bytes | None = None,
) -> bytes:
    """Return the record that adds or changes a file at a path of the repository, such as b"trunk/a".

    The action is b"add" or b"change". An added file is a copy of `origin`, unless `origin` is None. If `text`
    is None, a copy keeps the text of its origin, and a changed file keeps its own text. The same applies to
    `properties`. b"" is an empty text, and with {} the file has no properties.
    """
    # Each record ends with two line ends, as svnadmin dump writes it.
    if text is None:
        return _file_head(path, action, origin=origin, properties=properties) + b"\n\n"
    # svnadmin load compares the checksum with the text.
    digest = hashlib.md5(text, usedforsecurity=False).hexdigest().encode("ascii")
    head = _file_head(
        path,
        action,
        origin=origin,
        properties=properties,
        text_bytes=len(text),
        checksum=b"Text-content-md5: %s\n" % digest,
    )
    return b"".join((head, text, b"\n\n"))


def file_records(
    path: bytes,
    action: bytes,
    *,
    properties: Properties | None,
    size: int,
    chunks: Iterable[bytes],
    origin: CopyOrigin | None = None,
) -> Iterator[bytes]:
    """Yield the parts of the record of a file, so that a large text need not be in memory as a whole.

    The action is b"add" or b"change". An added file is a copy of `origin`, unless `origin` is None. If
    `properties` is None, the file keeps its properties. The `chunks` are the text. They must have `size`
    bytes in total, because the record states this length in front of the text. The record of a text of more
    than WHOLE_BYTES has no checksum, which would also stand in front of the text.
    """
    if size <= WHOLE_BYTES:
        text = b"".join(chunks)
        yield file(path, action, origin=origin, properties=properties, text=text)
        return
    yield _file_head(path, action, origin=origin, properties=properties, text_bytes=size)
    yield from chunks
    yield b"\n\n"


def _file_head(
    path: bytes,
    action: bytes,
    *,
    origin: CopyOrigin | None,
    properties: Properties | None,
    text_bytes: int | None = None,
    checksum: bytes = b"",
) -> bytes:
    """Return the beginning of a file's record, up to its text: the headers and the properties.

    `properties` is None if the file keeps its properties. `text_bytes` is the length of the text, None if the
    file keeps its text. `checksum` is the header Text-content-md5 with its line end, or b"".
    """
    head = b"Node-path: %s\nNode-kind: file\nNode-action: %s\n" % (path, action)
    head += _copy_headers(origin)
    block = b""
    if properties is not None:
        block = property_block(properties)
        head += b"Prop-content-length: %d\n" % len(block)
    if text_bytes is not None:
        head += b"Text-content-length: %d\n%s" % (text_bytes, checksum)
    # Content-length is the sum of both lengths. A record that keeps properties and text has no such header.
    if properties is not None or text_bytes is not None:
        head += b"Content-length: %d\n" % (len(block) + (text_bytes or 0))
    return head + b"\n" + block


def deletion(path: bytes) -> bytes:
    return b"Node-path: %s\nNode-action: delete\n\n\n" % path
