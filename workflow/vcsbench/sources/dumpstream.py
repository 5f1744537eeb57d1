"""Records of a Subversion dump stream, format 2: full texts, properties whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import md5
from itertools import accumulate

Properties = Mapping[bytes, bytes]


def header(uuid: str) -> bytes:
    """The first records of a stream: its format and the repository's UUID."""
    return b"SVN-fs-dump-format-version: 2\n\nUUID: %s\n\n" % uuid.encode("ascii")


def date(moment: datetime) -> bytes:
    """A moment, in UTC, as svn:date has it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode("ascii")


def above(path: bytes) -> Iterable[bytes]:
    """The directories that a path lies in, the outermost first."""
    return accumulate(path.split(b"/")[:-1], lambda outer, name: outer + b"/" + name)


def property_block(properties: Properties) -> bytes:
    """Properties as the dump format has them, PROPS-END included."""
    parts = (b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items())
    return b"".join(parts) + b"PROPS-END\n"


def revision(number: int, properties: Properties) -> bytes:
    """The record that begins revision `number`."""
    block = property_block(properties)
    lengths = b"Prop-content-length: %d\nContent-length: %d\n" % (len(block), len(block))
    return b"Revision-number: %d\n%s\n%s\n" % (number, lengths, block)


def copyfrom(path: bytes, number: int) -> bytes:
    """The two lines that make a node a copy of `path` at revision `number`."""
    return b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n" % (number, path)


def directory(path: bytes, origin: bytes = b"") -> bytes:
    """A directory that is added or (with `origin` from copyfrom()) copied."""
    return b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n" % (path, origin)


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
    head = b"Node-path: %s\nNode-kind: file\nNode-action: %s\n%s" % (path, action, origin)
    block = b""
    if properties is not None:
        block = property_block(properties)
        head += b"Prop-content-length: %d\n" % len(block)
    if text_length is not None:
        head += b"Text-content-length: %d\n" % text_length
    if text_md5:
        head += b"Text-content-md5: %s\n" % text_md5
    if text_length is not None or properties is not None:
        head += b"Content-length: %d\n" % (len(block) + (text_length or 0))
    return head + b"\n" + block


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
