"""Small dump streams, put together record by record, with all oddities that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping

DATE = b"2005-05-05T05:05:05.000000Z"
VERSION = b"SVN-fs-dump-format-version: 2\n\n"
UUID = b"UUID: 2f0cb5c1-9a62-4c55-8f6a-0d3c7a7a0001\n\n"


def block(properties: Mapping[bytes, bytes], deleted: tuple[bytes, ...] = ()) -> bytes:
    set_ones = b"".join(
        b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items()
    )
    return set_ones + b"".join(b"D %d\n%s\n" % (len(k), k) for k in deleted) + b"PROPS-END\n"


def lengths(properties: bytes, text: bytes | None = None) -> bytes:
    of_text = b"" if text is None else b"Text-content-length: %d\n" % len(text)
    whole = len(properties) + len(text or b"")
    return b"Prop-content-length: %d\n%sContent-length: %d\n" % (len(properties), of_text, whole)


def revision(number: int, properties: Mapping[bytes, bytes] | None = None) -> bytes:
    properties = {b"svn:date": DATE} if properties is None else properties
    made = block(properties)
    return b"Revision-number: %d\n%s\n%s\n" % (number, lengths(made), made)


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
    made = block(properties or {})
    head = b"Node-path: %s\nNode-kind: file\nNode-action: add\n" % path
    return head + more + lengths(made, text) + b"\n" + made + text + b"\n\n"


HEAD = VERSION + UUID + revision(0)
BASE = HEAD + revision(1, {b"svn:log": b"x", b"svn:date": DATE}) + folder(b"trunk")
