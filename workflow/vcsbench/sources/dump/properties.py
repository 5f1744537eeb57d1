"""The properties of a record of a dump stream."""

from __future__ import annotations

import re

END = b"PROPS-END\n"
# A property's name, with its length; or the name of one that a delta takes away.
_NAME = re.compile(rb"([KD]) ([0-9]+)\n")
_VALUE = re.compile(rb"V ([0-9]+)\n")


def is_property_block(block: bytes) -> bool:
    """Whether names and values are as long as they say, and END comes right after them."""
    at: int | None = 0
    while at is not None and (name := _NAME.match(block, at)):
        at = _after(block, name.end(), int(name[2]))
        if at is not None and name[1] == b"K":
            value = _VALUE.match(block, at)
            at = _after(block, value.end(), int(value[1])) if value else None
    return at is not None and block[at:] == END


def _after(block: bytes, start: int, length: int) -> int | None:
    """Where the line after a text begins, or None where none does after so many bytes."""
    end = start + length
    return end + 1 if block[end : end + 1] == b"\n" else None
