"""The dump format of Subversion: records, numbers, dates, and names that Subversion accepts."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import accumulate

from vcsbench.external import parse_number
from vcsbench.storages.file_trees import (
    ADMINISTRATIVE,
    LINK_NAME_BYTES,
    MAX_DEPTH,
    NAME_BYTES,
    PATH_BYTES,
)

Properties = Mapping[bytes, bytes]
SPECIAL, EXECUTABLE = {b"svn:special": b"*"}, {b"svn:executable": b"*"}
# A longer text is passed on in chunks, without its checksum, which would have to come first.
WHOLE_BYTES = 16 << 20

FORMAT = b"SVN-fs-dump-format-version"
UUID = b"UUID"
REVISION = b"Revision-number"
NODE = b"Node-path"
ACTION = b"Node-action"
KIND = b"Node-kind"
COPY_PATH, COPY_REVISION = b"Node-copyfrom-path", b"Node-copyfrom-rev"
PROPERTIES, TEXT = b"Prop-content-length", b"Text-content-length"
CONTENT = b"Content-length"
NUMBERS = {FORMAT: 1000, **dict.fromkeys((REVISION, COPY_REVISION), 2**40)}
NUMBERS |= dict.fromkeys((PROPERTIES, TEXT, CONTENT), 2**62)
END = b"PROPS-END\n"
DATE = b"svn:date"
# svn_time_from_cstring() ignores what follows, and reads an empty number as 0.
_DATE = re.compile(rb"(\d{0,9})-(\d{0,9})-(\d{0,9})T\d*:\d*:\d*\.\d*Z")
# Before Subversion 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(
    rb"\s*\S{1,3}\s*\d+\s*(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s*(\d{4,9})\s+\d\d?:\s*\d\d?"
    rb":\s*\d\d?\.\s*\d{1,6}\s*\(day\s*\d{1,3},\s*dst\s*\d+,\s*gmt_off\s*-?\d{1,6}"
)
LONGEST_TARGET = 4095
RENAMED = (
    "Paths renamed, as .svn to ?\\046svn, because Subversion refuses their names, version control systems "
    "reserve them, or they are too long"
)
LINKS = (
    "Symbolic links made plain files, because Subversion makes none whose target is empty, over "
    f"{LONGEST_TARGET:,} bytes, not UTF-8, or has a line end or NUL"
)
# Subversion's own messages show a refused byte as `?\010` (decimal). A `?` that begins such an escape is
# escaped itself, so two names never become one.
_REFUSED = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff\ufffe\uffff]|\?(?=\\(?:[0-9]{3}|#))")
_RESERVED = rb"(?:(?i:\.git)|\.\.?|%s)?" % b"|".join(
    re.escape(name.encode()) for name in sorted(ADMINISTRATIVE) if name != ".git"
)
_RESERVED_NAME = re.compile(_RESERVED)
_ODD = re.compile(
    rb"[\x00-\x1f\x7f]|\xef\xbf[\xbe\xbf]|\?\\(?:[0-9]{3}|#)|(?:\A|/)"
    + _RESERVED
    + rb"(?:/|\Z)|[^/]{%d}" % (LINK_NAME_BYTES + 1)
)


def header(uuid: str) -> bytes:
    return b"SVN-fs-dump-format-version: 2\n\nUUID: %s\n\n" % uuid.encode("ascii")


def date(moment: datetime) -> bytes:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode("ascii")


def above(path: bytes) -> Iterable[bytes]:
    return accumulate(path.split(b"/")[:-1], lambda outer, name: outer + b"/" + name)


def property_block(properties: Properties) -> bytes:
    parts = (b"K %d\n%s\nV %d\n%s\n" % (len(k), k, len(v), v) for k, v in properties.items())
    return b"".join(parts) + END


def revision(number: int, properties: Properties) -> bytes:
    block = property_block(properties)
    head = b"Revision-number: %d\nProp-content-length: %d\nContent-length: %d\n\n%s\n"
    return head % (number, len(block), len(block), block)


def copyfrom(path: bytes, number: int) -> bytes:
    return b"Node-copyfrom-rev: %d\nNode-copyfrom-path: %s\n" % (number, path)


def directory(path: bytes, origin: bytes = b"") -> bytes:
    return b"Node-path: %s\nNode-kind: dir\nNode-action: add\n%s\n\n" % (path, origin)


def file(
    path: bytes,
    action: bytes,
    origin: bytes = b"",
    properties: Properties | None = None,
    text: bytes | None = None,
    size: int | None = None,
) -> bytes:
    """Return the record of a file. With `size` instead of `text`, it ends where the text begins.

    None keeps the text or the properties of the origin, or of the file before.
    """
    head = b"Node-path: %s\nNode-kind: file\nNode-action: %s\n%s" % (path, action, origin)
    block, length = b"", len(text) if text is not None else size
    if properties is not None:
        block = property_block(properties)
        head += b"Prop-content-length: %d\n" % len(block)
    if length is not None:
        head += b"Text-content-length: %d\n" % length
    if text is not None:
        digest = hashlib.md5(text, usedforsecurity=False).hexdigest().encode("ascii")
        head += b"Text-content-md5: %s\n" % digest
    if length is not None or properties is not None:
        head += b"Content-length: %d\n" % (len(block) + (length or 0))
    end = b"" if size is not None else b"\n\n"
    return b"".join((head, b"\n", block, text or b"", end))


def file_records(
    path: bytes,
    action: bytes,
    origin: bytes,
    properties: Properties | None,
    size: int,
    chunks: Iterable[bytes],
) -> Iterator[bytes]:
    if size <= WHOLE_BYTES:
        yield file(path, action, origin, properties, b"".join(chunks))
        return
    yield file(path, action, origin, properties, size=size)
    yield from chunks
    yield b"\n\n"


def deletion(path: bytes) -> bytes:
    return b"Node-path: %s\nNode-action: delete\n\n\n" % path


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def header_number(key: bytes, value: bytes) -> int | None:
    """Return the number of a header, or None for anything else. svnadmin accepts a plus before it."""
    digits = value.strip()
    has_plus = digits[:1] == b"+" and digits[1:2].isdigit()
    return parse_number(digits[has_plus:], NUMBERS[key])


def is_impossible(path: bytes) -> bool:
    """Return True for one of IMPOSSIBLE_PATHS. Of the names, the last one decides."""
    path = path.rstrip(b"/")
    is_long = len(path.rpartition(b"/")[2]) > NAME_BYTES
    return is_long or len(path) > PATH_BYTES or path.count(b"/") > MAX_DEPTH


def is_reserved(path: bytes) -> bool:
    """Return True for one of RESERVED_PATHS. The last name decides."""
    return path.rpartition(b"/")[2] == b".svn"


def quoted(text: bytes) -> str:
    return repr(text[:60].decode("utf-8", "replace").rstrip("\n"))


def is_date(text: bytes) -> bool:
    """Return True if Subversion reads a text as a date. It accepts a 32nd day, and nothing before 1970."""
    text = text.partition(b"\0")[0]
    match = _DATE.match(text)
    if match:
        year, month, day = (int(number or b"0") for number in match.groups())
        return 1 <= month <= 12 and (year, month, day) >= (1970, 1, 1)
    old = _OLD_DATE.match(text)
    return old is not None and int(old[1]) >= 1970


def escape(text: bytes) -> bytes:
    def escaped(match: re.Match[str]) -> str:
        return "".join(f"?\\{byte:03d}" for byte in match[0].encode("utf-8", "surrogateescape"))

    # A byte that is not UTF-8 becomes U+DC80 to U+DCFF, whose low byte is that byte.
    return _REFUSED.sub(escaped, text.decode("utf-8", "surrogateescape")).encode("utf-8")


def is_link_target(target: bytes) -> bool:
    is_odd = b"\n" in target or b"\0" in target or not is_utf8(target)
    return 0 < len(target) <= LONGEST_TARGET and not is_odd


def link(target: bytes) -> tuple[Properties, bytes]:
    """Return the properties and the text of a link, or of a plain file if Subversion can make no link."""
    return (SPECIAL, b"link " + target) if is_link_target(target) else ({}, target)


def subversion_path(path: bytes) -> bytes:
    """Return the path that Subversion and all disks can have. Two names never become one."""
    if is_utf8(path) and not _ODD.search(path):
        return path
    return b"/".join(map(_rename, path.split(b"/")))


def _rename(name: bytes) -> bytes:
    if not name:
        return b"?\\000"
    if _RESERVED_NAME.fullmatch(name):
        dots = len(name) if name in (b".", b"..") else 1
        return (b"?\\%03d" % name[0]) * dots + name[dots:]
    new = escape(name)
    if len(new) <= LINK_NAME_BYTES:
        return new
    end = b"?\\#" + hashlib.sha256(name).hexdigest()[:16].encode()
    return new[: LINK_NAME_BYTES - len(end)].decode("utf-8", "ignore").encode() + end
