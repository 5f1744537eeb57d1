"""FSFS's formats: what the values of the axis `format` mean, and what a repository's files say of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from vcsbench.external import SMALL_FILE, parse_number, printable, read_bytes, read_number

# The axis value of a format, and the release for which `svnadmin create --compatible-version` makes it. No f5
# was ever released.
RELEASES = {
    "f1": "1.1",
    "f2": "1.4",
    "f3": "1.5",
    "f4": "1.6",
    "f6": "1.8",
    "f7": "1.9",
    "f8": "1.10",
}
NEWEST = "f8"
# The largest number in a repository's own files.
LARGEST = 2**40
# From these on: shards, packing, and revisions that are addressed logically.
SHARDED, PACKABLE, LOGICAL = 3, 4, 7
_VALUE = re.compile(r"(f\d)(?:-to-(f\d))?")


class Made(NamedTuple):
    """What a repository with a value of the axis is: made in the format `created`, and upgraded in place to
    `format` where that is another. `f6-to-f8` was made in f6, and `svnadmin upgrade`d."""

    created: str
    format: str

    @property
    def is_upgraded(self) -> bool:
        """Whether it was made in an older format than it has."""
        return self.created != self.format

    @property
    def is_sharded(self) -> bool:
        """Whether its revisions lie in shards; an upgrade leaves them where they are."""
        return number_of(self.created) >= SHARDED

    @property
    def is_logical(self) -> bool:
        """Whether its revisions are addressed logically; an upgrade leaves that as it was."""
        return number_of(self.created) >= LOGICAL

    @property
    def value(self) -> str:
        """The axis value."""
        return upgraded(self.created, self.format)


class Said(NamedTuple):
    """What db/format says: the number, the revisions per shard (0 where the layout is linear), and whether
    revisions are addressed logically."""

    number: int
    shard: int
    is_logical: bool


def made_of(value: str) -> Made:
    """What a value of the axis means. A ValueError where it is none."""
    found = _VALUE.fullmatch(value)
    if not found or {found[1], found[2] or found[1]} - set(RELEASES):
        raise ValueError(f"{value} is no format")
    made = Made(found[1], found[2] or found[1])
    if found[2] and number_of(made.format) <= number_of(made.created):
        raise ValueError(f"{value} is no upgrade")
    return made


def upgraded(created: str, to: str) -> str:
    """The axis value of a repository that is made in one format and upgraded in place to another; that of
    the format where both are the same."""
    return created if created == to else f"{created}-to-{to}"


def number_of(fmt: str) -> int:
    """The number of a format: 7 of f7."""
    return int(fmt.removeprefix("f"))


def read_format(path: Path) -> Said:
    """Return the content of a repository's db/format. Raise OSError, ValueError or UserError without one."""
    text = read_bytes(path / "db" / "format", SMALL_FILE).decode("ascii")
    first, *lines = text.splitlines() or [""]
    said = dict(line.split(" ", 1) for line in lines if " " in line)
    layout = said.get("layout", "linear").split()
    shard = parse_number(layout[1], LARGEST) or 0 if layout[0] == "sharded" else 0
    number = parse_number(first, LARGEST)
    if number is None:
        raise ValueError(
            f"{path}/db/format begins with {printable(first[:40])!r}, which is no number"
        )
    return Said(number, shard, said.get("addressing", "").startswith("logical"))


def packed_of(path: Path, shard: int) -> int:
    """How many shards of a repository are packed, whose shards hold so many revisions."""
    unpacked = path / "db" / "min-unpacked-rev"
    return read_number(unpacked, LARGEST) // shard if shard and unpacked.exists() else 0
