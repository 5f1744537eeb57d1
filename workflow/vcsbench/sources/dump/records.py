"""Check the headers and properties of a Subversion dump stream."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from vcsbench.external import parse_number

FORMAT = b"SVN-fs-dump-format-version"
UUID = b"UUID"
REVISION = b"Revision-number"
NODE = b"Node-path"
ACTION = b"Node-action"
KIND = b"Node-kind"
COPY_PATH, COPY_REVISION = b"Node-copyfrom-path", b"Node-copyfrom-rev"
PROPERTIES, TEXT = b"Prop-content-length", b"Text-content-length"
CONTENT = b"Content-length"
# A record has one of these.
RECORDS = (FORMAT, UUID, REVISION, NODE)
PATHS = (NODE, COPY_PATH)
# The largest value of each header that is a number. svnadmin reads 64 bits with a sign.
_LENGTH, _REVISION = 2**62, 2**40
NUMBERS = {
    FORMAT: 1000,
    REVISION: _REVISION,
    COPY_REVISION: _REVISION,
    PROPERTIES: _LENGTH,
    TEXT: _LENGTH,
    CONTENT: _LENGTH,
}
_MD5 = re.compile(rb"[0-9a-fA-F]{32}")
_SHA1 = re.compile(rb"[0-9a-fA-F]{40}")
_TRUTH = re.compile(rb"true|false")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TEXTS: Mapping[bytes, re.Pattern[bytes]] = {
    UUID: _UUID,
    KIND: re.compile(rb"file|dir"),
    ACTION: re.compile(rb"change|add|delete|replace"),
    b"Prop-delta": _TRUTH,
    b"Text-delta": _TRUTH,
    b"Text-content-md5": _MD5,
    b"Text-content-sha1": _SHA1,
    b"Text-copy-source-md5": _MD5,
    b"Text-copy-source-sha1": _SHA1,
    b"Text-delta-base-md5": _MD5,
    b"Text-delta-base-sha1": _SHA1,
}
KNOWN = frozenset([*NUMBERS, *_TEXTS, *PATHS])
_NAMES = [name.decode("ascii") for name in KNOWN]
# A name that is so similar to a known one is a damaged one.
SIMILAR = 0.85

END = b"PROPS-END\n"
DATE, MERGEINFO = b"svn:date", b"svn:mergeinfo"
_DATE = re.compile(rb"([1-9]\d{3,})-(0?[1-9]|1[0-2])-\d+T\d+:\d+:\d+\.\d+Z\n?")
# Subversion's own form before 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(rb"[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4} .*\)")
_EPOCH = 1970
# Subversion stores these for itself: svnadmin load refuses them as properties of files and folders.
_RESERVED = (b"svn:wc:", b"svn:entry:")
_RANGES = re.compile(rb"[1-9]\d*(-[1-9]\d*)?\*?(,[1-9]\d*(-[1-9]\d*)?\*?)*")


def why_wrong(key: bytes, value: bytes) -> str:
    """Return the fault of a header as a clause, or "" if there is none.

    svnadmin passes over a header with an unknown name. A name that is nearly a known one is damage, which
    svnadmin would not notice.
    """
    if b"\0" in key or b"\0" in value:
        return f"the header {shown(key)} holds a NUL character"
    if key in NUMBERS:
        fits = parse_number(value, NUMBERS[key]) is not None
    elif key in _TEXTS:
        fits = bool(_TEXTS[key].fullmatch(value))
    elif key in PATHS:
        return why_no_path(value)
    else:
        meant = get_close_matches(key.decode("latin-1"), _NAMES, 1, SIMILAR)
        return f"{shown(key)} is no header of a record, but nearly {meant[0]}" if meant else ""
    return "" if fits else f"{key.decode()} is {shown(value)}"


def why_no_path(path: bytes) -> str:
    """Return why svnadmin load refuses a path, or ""."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return f"the path {shown(path)} is not UTF-8"
    if {b".", b".."} & set(path.split(b"/")):
        return f"the path {shown(path)} has a part that is . or .."
    return ""


def shown(text: bytes) -> str:
    """Return the beginning of a text in quotes, for an error."""
    return repr(text[:60].decode("utf-8", "replace").rstrip("\n"))


def is_date(text: bytes) -> bool:
    """Return True if Subversion reads a text as a date. It accepts a 32nd day, and nothing before 1970."""
    if found := _DATE.fullmatch(text):
        return len(found[1]) > 4 or int(found[1]) >= _EPOCH
    return bool(_OLD_DATE.fullmatch(text))


def needs_bypass(name: bytes, value: bytes) -> bool:
    """Return True if svnadmin load refuses a property without --bypass-prop-validation."""
    if name.startswith(_RESERVED):
        return True
    if not name.startswith(b"svn:"):
        return False
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return True
    if name == DATE:
        return not is_date(value)
    if name == MERGEINFO:
        # svnadmin mends its line ends.
        return not all(map(_is_mergeinfo, value.replace(b"\r", b"").rstrip(b"\n").split(b"\n")))
    return b"\r" in value.partition(b"\0")[0]


def _is_mergeinfo(line: bytes) -> bool:
    path, _, ranges = line.rpartition(b":")
    if not line:
        return True
    if not path or (ranges and not _RANGES.fullmatch(ranges)):
        return False
    for one in filter(None, ranges.replace(b"*", b"").split(b",")):
        first, _, last = one.partition(b"-")
        if len(one) > 40 or (last and int(first) >= int(last)):
            return False
    return True
