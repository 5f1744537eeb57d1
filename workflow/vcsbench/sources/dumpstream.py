"""Records of a Subversion dump stream, format 2: full texts, properties whole."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5

Properties = Mapping[bytes, bytes]

FORMAT = b"SVN-fs-dump-format-version: 2\n\n"


def header(uuid: str) -> bytes:
    """The first records of a stream: its format and the repository's UUID."""
    return FORMAT + b"UUID: %s\n\n" % uuid.encode("ascii")


def property_block(properties: Properties) -> bytes:
    """Properties as the dump format has them, PROPS-END included."""
    parts = []
    for key, value in properties.items():
        parts.append(b"K %d\n%s\nV %d\n%s\n" % (len(key), key, len(value), value))
    parts.append(b"PROPS-END\n")
    return b"".join(parts)


def revision(number: int, properties: Properties) -> bytes:
    """The record that begins revision `number`."""
    block = property_block(properties)
    return b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n" % (
        number,
        len(block),
        len(block),
        block,
    )


def copyfrom(path: bytes, number: int) -> bytes:
    """The two lines that make a node a copy of `path` at revision `number`."""
    return b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n" % (number, path)


def directory(
    path: bytes,
    action: bytes = b"add",
    origin: bytes = b"",
    properties: Properties | None = None,
) -> bytes:
    """A directory that is added, changed or (with `origin` from copyfrom()) copied."""
    start = b"Node-path: %s\nNode-kind: dir\nNode-action: %s\n%s" % (path, action, origin)
    if properties is None:
        return start + b"\n\n"
    block = property_block(properties)
    return start + b"Prop-content-length: %d\nContent-length: %d\n\n%s\n\n" % (
        len(block),
        len(block),
        block,
    )


def file_head(
    path: bytes,
    action: bytes,
    origin: bytes = b"",
    properties: Properties | None = None,
    text_length: int | None = None,
    text_md5: bytes = b"",
) -> bytes:
    """The record of a file up to its text, after which come the text and two line ends.

    `text_length` None keeps the text (of the copy's origin, or the one before the change), and
    `properties` None keeps the properties.
    """
    parts = [b"Node-path: %s\nNode-kind: file\nNode-action: %s\n%s" % (path, action, origin)]
    length = 0
    block = b""
    if properties is not None:
        block = property_block(properties)
        length = len(block)
        parts.append(b"Prop-content-length: %d\n" % length)
    if text_length is not None:
        length += text_length
        parts.append(b"Text-content-length: %d\n" % text_length)
        if text_md5:
            parts.append(b"Text-content-md5: %s\n" % text_md5)
    if text_length is not None or properties is not None:
        parts.append(b"Content-length: %d\n" % length)
    parts.append(b"\n")
    parts.append(block)
    return b"".join(parts)


def file(
    path: bytes,
    action: bytes,
    origin: bytes = b"",
    properties: Properties | None = None,
    text: bytes | None = None,
) -> bytes:
    """The whole record of a file that is added, changed or copied; see file_head()."""
    if text is None:
        return file_head(path, action, origin, properties) + b"\n\n"
    digest = md5(text, usedforsecurity=False).hexdigest().encode("ascii")
    head = file_head(path, action, origin, properties, len(text), digest)
    return b"".join((head, text, b"\n\n"))


def deletion(path: bytes) -> bytes:
    """A node that is deleted, with all below it."""
    return b"Node-path: %s\nNode-action: delete\n\n\n" % path
