"""What commit and tag objects say, and the revision properties that it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from vcsbench.sources import dumpstream

# Control characters but tab and the line's end, and what is no character.
_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
# What Subversion's dates can hold.
LAST_SECOND = 253402300799


@dataclass(frozen=True)
class Message:
    """Who made a commit or tag, when (seconds since 1970), and what they say about it."""

    author: str
    seconds: int
    text: str

    def properties(self, seconds: int) -> dict[bytes, bytes]:
        """The properties of a revision with the date `seconds`."""
        date = dumpstream.date(datetime.fromtimestamp(seconds, UTC))
        properties = {b"svn:log": self.text.encode("utf-8"), b"svn:date": date}
        if self.author:
            properties[b"svn:author"] = self.author.encode("utf-8")
        return properties


def parse_object(data: bytes) -> Message:
    """Read a raw commit or annotated tag, in whatever encoding it is.

    The date is the committer's: it tells when the commit came to be where it is.
    """
    head, _, text = data.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key:  # a line that begins with a space continues a signature
            fields.setdefault(key, value)
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    tagger = fields.get(b"tagger", b"")
    author = fields.get(b"author", tagger).partition(b"<")[0]
    return Message(
        author=" ".join(_REFUSED.sub(" ", decode(author, encoding)).split()),
        seconds=_seconds(fields.get(b"committer", tagger)),
        text=_lines(decode(text, encoding)),
    )


def decode(data: bytes, encoding: str) -> str:
    """Text of a stated encoding, which may be wrong, unknown or a lie."""
    try:
        return data.decode(encoding)
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _seconds(signature: bytes) -> int:
    """The date in `Name <mail> 1234567890 +0100`, or 0 where there is none."""
    words = signature.rpartition(b">")[2].split()
    try:
        return min(max(int(words[0]), 0), LAST_SECOND)
    except (IndexError, ValueError):
        return 0


def _lines(text: str) -> str:
    """The text as svn:log can be: line ends are LF, and no control characters but tab."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", text)
