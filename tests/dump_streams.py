"""Small dump streams, built record by record with any oddities."""

from __future__ import annotations

from collections.abc import Mapping

DATE = b"2005-05-05T05:05:05.000000Z"
VERSION = b"SVN-fs-dump-format-version: 2\n\n"
UUID = b"UUID: 2f0cb5c1-9a62-4c55-8f6a-0d3c7a7a0001\n\n"


def block(properties: Mapping[bytes, bytes], deleted: tuple[bytes, ...] = ()) -> bytes:
    parts = [b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items()]
    parts += [b"D %d\n%s\n" % (len(k), k) for k in deleted]
    return b"".join(parts) + b"PROPS-END\n"


def lengths(properties: bytes, text: bytes | None = None) -> bytes:
    text_length = b"" if text is None else b"Text-content-length: %d\n" % len(text)
    sizes = (len(properties), text_length, len(properties) + len(text or b""))
    return b"Prop-content-length: %d\n%sContent-length: %d\n" % sizes


def revision(number: int, properties: Mapping[bytes, bytes] | None = None) -> bytes:
    data = block({b"svn:date": DATE} if properties is None else properties)
    return b"Revision-number: %d\n%s\n%s\n" % (number, lengths(data), data)


def folder(path: bytes, more: bytes = b"") -> bytes:
    return b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n" % (path, more)


def copied(path: bytes, origin: bytes, at: int) -> bytes:
    return folder(path, b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n" % (at, origin))


def deleted(path: bytes) -> bytes:
    return b"Node-path: %s\nNode-action: delete\n\n\n" % path


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
