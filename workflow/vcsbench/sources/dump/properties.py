"""The properties of a record of a dump stream."""

from __future__ import annotations

import re

END = b"PROPS-END\n"
# A property's name, with its length; or the name of one that a delta takes away.
_NAME = re.compile(rb"([KD]) ([0-9]+)\n")
_VALUE = re.compile(rb"V ([0-9]+)\n")
# What Subversion reads as a date, if not as a sensible one: it does not mind a 32nd day.
_DATE = re.compile(rb"[1-9]\d{3,}-(0?[1-9]|1[0-2])-\d+T\d+:\d+:\d+\.\d+Z\n?")
# And its own form before 0.14: Tue 3 Oct 2000 09:00:00.000 (day 277, dst 1, gmt_off -18000)
_OLD_DATE = re.compile(rb"[A-Z][a-z]{2} \d+ [A-Z][a-z]{2} \d{4} .*\)")


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
