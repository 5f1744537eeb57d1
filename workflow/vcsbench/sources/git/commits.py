"""Commit objects, and the revision properties that they become."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

# What Subversion's dates can hold.
LAST_SECOND = 253402300799


@dataclass(frozen=True)
class Commit:
    """What of a commit object goes into a revision. `parents` and `tree` are object names."""

    tree: bytes
    parents: tuple[bytes, ...]
    author: str
    seconds: int
    message: str


def parse_commit(data: bytes) -> Commit:
    """Read a raw commit object, in whatever encoding it is."""
    head, _, message = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    parents = []
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"parent":
            parents.append(value)
        elif key:  # a line that begins with a space continues a signature
            fields.setdefault(key, value)
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    return Commit(
        tree=fields[b"tree"],
        parents=tuple(parents),
        author=_one_line(decode(fields.get(b"author", b"").partition(b"<")[0], encoding)),
        seconds=_seconds(fields.get(b"committer", b"")),
        message=_lines(decode(message, encoding)),
    )


def decode(data: bytes, encoding: str) -> str:
    """Text of a stated encoding, which may be wrong, unknown or a lie."""
    try:
        return data.decode(encoding)
    except (LookupError, UnicodeDecodeError, ValueError):
        return data.decode("utf-8", "replace")


def _seconds(committer: bytes) -> int:
    """The date in `Name <mail> 1234567890 +0100`, or 0 where there is none."""
    words = committer.rpartition(b">")[2].split()
    try:
        return min(max(int(words[0]), 0), LAST_SECOND)
    except (IndexError, ValueError):
        return 0


def _lines(message: str) -> str:
    """The message as svn:log can be: line ends are LF, no control characters but tab."""
    text = message.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(char if _printable(char) else "\N{REPLACEMENT CHARACTER}" for char in text)


def _printable(char: str) -> bool:
    return char in "\n\t" or (char >= " " and char != "\x7f" and not "\ud800" <= char <= "\udfff")


def _one_line(name: str) -> str:
    return " ".join("".join(char if _printable(char) else " " for char in name).split())


def revision_properties(commit: Commit, identity: bytes, seconds: int) -> dict[bytes, bytes]:
    """The revision's properties; `seconds` since 1970 is its date."""
    properties = {
        b"svn:log": commit.message.encode("utf-8"),
        b"svn:date": datetime.fromtimestamp(seconds, UTC)
        .strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        .encode("ascii"),
        b"git:commit": identity,
    }
    if commit.author:
        properties[b"svn:author"] = commit.author.encode("utf-8")
    return properties
