"""Small dump streams, built record by record with any oddities."""

from collections.abc import Mapping

from vcsbench.sources import dump_format
from vcsbench.sources.dump_format import CopyOrigin
from vcsbench.sources.dump_format import deletion as deleted

__all__ = ["deleted"]
DATE = b"2005-05-05T05:05:05.000000Z"
VERSION = b"SVN-fs-dump-format-version: 2\n\n"
UUID = b"UUID: 2f0cb5c1-9a62-4c55-8f6a-0d3c7a7a0001\n\n"


def block(properties: Mapping[bytes, bytes], deleted: tuple[bytes, ...] = ()) -> bytes:
    end = b"".join(b"D %d\n%s\n" % (len(key), key) for key in deleted) + dump_format.END
    return dump_format.property_block(properties).removesuffix(dump_format.END) + end


def lengths(properties: bytes, text: bytes | None = None) -> bytes:
    text_length = b"" if text is None else b"Text-content-length: %d\n" % len(text)
    sizes = (len(properties), text_length, len(properties) + len(text or b""))
    return b"Prop-content-length: %d\n%sContent-length: %d\n" % sizes


def revision(number: int, properties: Mapping[bytes, bytes] | None = None) -> bytes:
    return dump_format.revision(number, {b"svn:date": DATE} if properties is None else properties)


def folder(path: bytes, more: bytes = b"") -> bytes:
    """Return the record of a new folder, with more headers."""
    return b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n" % (path, more)


def copied(path: bytes, origin: bytes, at: int) -> bytes:
    return dump_format.directory(path, CopyOrigin(origin, at))


def file(
    path: bytes,
    text: bytes = b"hello",
    properties: Mapping[bytes, bytes] | None = None,
    more: bytes = b"",
) -> bytes:
    data = block(properties or {})
    head = b"Node-path: %s\nNode-kind: file\nNode-action: add\n" % path
    return head + more + lengths(data, text) + b"\n" + data + text + b"\n\n"


HEAD = VERSION + UUID + revision(0)
BASE = HEAD + revision(1, {b"svn:log": b"x", b"svn:date": DATE}) + folder(b"trunk")
