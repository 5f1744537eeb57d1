"""Write records of Subversion's dump format, version 2.

A revision, a folder, a file or a deletion is a record: headers, a blank line, properties and text.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import accumulate

Properties = Mapping[bytes, bytes]
SPECIAL, EXECUTABLE = {b"svn:special": b"*"}, {b"svn:executable": b"*"}
# A longer text is passed on in chunks, without its checksum, which would have to come first.
WHOLE_BYTES = 16 << 20
END = b"PROPS-END\n"


def header(uuid: str) -> bytes:
    return b"SVN-fs-dump-format-version: 2\n\nUUID: %s\n\n" % uuid.encode("ascii")


def date(moment: datetime) -> bytes:
    """Return a date as Subversion writes it: 2005-05-05T05:05:05.000000Z"""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode("ascii")


def folders_above(path: bytes) -> Iterable[bytes]:
    """Return the folders above a path, the outermost first: a and a/b for a/b/c."""
    return accumulate(path.split(b"/")[:-1], lambda outer, name: outer + b"/" + name)


def property_block(properties: Properties) -> bytes:
    parts = (b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items())
    return b"".join(parts) + END


def revision(number: int, properties: Properties) -> bytes:
    block = property_block(properties)
    head = b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n"
    return head % (number, len(block), len(block), block)


def copyfrom(path: bytes, number: int) -> bytes:
    """Return the headers of a copy from a path in a revision."""
    return b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n" % (number, path)


def directory(path: bytes, origin: bytes = b"") -> bytes:
    """Return the record of a new folder. `origin` is of copyfrom()."""
    return b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n" % (path, origin)


def file(
    path: bytes,
    action: bytes,
    origin: bytes = b"",
    properties: Properties | None = None,
    text: bytes | None = None,
) -> bytes:
    """Return the record that adds or changes a file at a path of the repository, such as b"trunk/a".

    The action is b"add" or b"change". `origin` has the headers of copyfrom() if the file is a copy, b"" if
    not. `text` None keeps the text of the origin, or of the file before the change; b"" makes it empty.
    `properties` None keeps the properties in the same way; {} removes all.
    """
    if text is None:
        return _file_head(path, action, origin, properties, None, b"") + b"\n\n"
    digest = hashlib.md5(text, usedforsecurity=False).hexdigest().encode("ascii")
    # svnadmin load compares it with the text.
    checksum = b"Text-content-md5: %s\n" % digest
    head = _file_head(path, action, origin, properties, len(text), checksum)
    return b"".join((head, text, b"\n\n"))


def file_records(
    path: bytes,
    action: bytes,
    origin: bytes,
    properties: Properties | None,
    size: int,
    chunks: Iterable[bytes],
) -> Iterator[bytes]:
    """Yield the record of a file in parts, so that a large text need not be in memory as a whole.

    The `chunks` of its text must have `size` bytes together: the record states this length in front of them.
    The other arguments are as in file().
    """
    if size <= WHOLE_BYTES:
        yield file(path, action, origin, properties, b"".join(chunks))
        return
    yield _file_head(path, action, origin, properties, size, b"")
    yield from chunks
    yield b"\n\n"


def _file_head(
    path: bytes,
    action: bytes,
    origin: bytes,
    properties: Properties | None,
    text_bytes: int | None,
    checksum: bytes,
) -> bytes:
    """Return the headers and the properties of a file's record, which the text follows.

    `text_bytes` is the length of the text, None if the file keeps its text. `checksum` is the whole header
    with the text's MD5, b"" without one. `properties` None keeps the file's properties.
    """
    head = b"Node-path: %s\nNode-kind: file\nNode-action: %s\n%s" % (path, action, origin)
    block = b""
    if properties is not None:
        block = property_block(properties)
        head += b"Prop-content-length: %d\n" % len(block)
    content_bytes = len(block)
    if text_bytes is not None:
        head += b"Text-content-length: %d\n%s" % (text_bytes, checksum)
        content_bytes += text_bytes
    # A record with neither properties nor text has no Content-length.
    if properties is not None or text_bytes is not None:
        head += b"Content-length: %d\n" % content_bytes
    return head + b"\n" + block


def deletion(path: bytes) -> bytes:
    return b"Node-path: %s\nNode-action: delete\n\n\n" % path
