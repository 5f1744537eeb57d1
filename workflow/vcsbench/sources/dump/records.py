"""The headers and properties of a record of a dump stream, and what they may say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

FORMAT = b"SVN-fs-dump-format-version"
UUID = b"UUID"
REVISION = b"Revision-number"
NODE = b"Node-path"
# A record has one of these.
RECORDS = (FORMAT, UUID, REVISION, NODE)

_NUMBER = re.compile(rb"[0-9]+")
_MD5 = re.compile(rb"[0-9a-fA-F]{32}")
_SHA1 = re.compile(rb"[0-9a-fA-F]{40}")
_TRUTH = re.compile(rb"true|false")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PATH = re.compile(rb".*")  # the root's is empty
# What svnadmin knows, and what it wants to read there.
KNOWN: Mapping[bytes, re.Pattern[bytes]] = {
    FORMAT: _NUMBER,
    UUID: _UUID,
    REVISION: _NUMBER,
    NODE: _PATH,
    b"Node-kind": re.compile(rb"file|dir"),
    b"Node-action": re.compile(rb"change|add|delete|replace"),
    b"Node-copyfrom-rev": _NUMBER,
    b"Node-copyfrom-path": _PATH,
    b"Prop-content-length": _NUMBER,
    b"Text-content-length": _NUMBER,
    b"Content-length": _NUMBER,
    b"Prop-delta": _TRUTH,
    b"Text-delta": _TRUTH,
    b"Text-content-md5": _MD5,
    b"Text-content-sha1": _SHA1,
    b"Text-copy-source-md5": _MD5,
    b"Text-copy-source-sha1": _SHA1,
    b"Text-delta-base-md5": _MD5,
    b"Text-delta-base-sha1": _SHA1,
}
_NAMES = [name.decode("ascii") for name in KNOWN]
# Two names are taken for one that is damaged when so much of them is the same.
ALIKE = 0.85

END = b"PROPS-END\n"
# A property's name, with its length; or the name of one that a delta takes away.
_NAME = re.compile(rb"([KD]) ([0-9]+)\n")
_VALUE = re.compile(rb"V ([0-9]+)\n")
# What Subversion reads as a date, if not as a sensible one: it does not mind a 32nd day.
_DATE = re.compile(rb"[1-9]\d{3,}-(0?[1-9]|1[0-2])-\d+T\d+:\d+:\d+\.\d+Z\n?")
# And its own form before 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(rb"[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4} .*\)")


def why_wrong(key: bytes, value: bytes) -> str:
    """What is wrong with a header; "" where nothing is. One with a name of its own is passed over, as
    svnadmin does; one whose name is nearly a known one lost it, and svnadmin would miss it silently."""
    pattern = KNOWN.get(key)
    if pattern is None:
        meant = get_close_matches(key.decode("latin-1"), _NAMES, 1, ALIKE)
        return f"{shown(key)} is no header of a record, but nearly {meant[0]}" if meant else ""
    return "" if pattern.fullmatch(value) else f"{key.decode()} is {shown(value)}"


def shown(text: bytes) -> str:
    """The beginning of a text, for an error."""
    return repr(text[:60].decode("utf-8", "replace").rstrip("\n"))


def read_properties(block: bytes) -> dict[bytes, bytes] | None:
    """The properties that a block sets; None where a name or value is not as long as it says, or END
    does not come right after them."""
    found: dict[bytes, bytes] = {}
    at = 0
    while name := _NAME.match(block, at):
        at = name.end() + int(name[2]) + 1
        if block[at - 1 : at] != b"\n":
            return None
        if name[1] == b"K":
            value = _VALUE.match(block, at)
            if not value:
                return None
            at = value.end() + int(value[1]) + 1
            if block[at - 1 : at] != b"\n":
                return None
            found[block[name.end() : name.end() + int(name[2])]] = block[value.end() : at - 1]
    return found if block[at:] == END else None


def is_date(text: bytes) -> bool:
    """Whether Subversion can read a date: svnadmin verify refuses a revision with any other."""
    return bool(_DATE.fullmatch(text) or _OLD_DATE.fullmatch(text))
