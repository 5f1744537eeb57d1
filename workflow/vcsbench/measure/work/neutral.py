"""Takes out of bytes what differs between copies, ports and protocols: the repository's URL.

Keywords that are expanded on export ($HeadURL$, $Header$, ...) carry it.
"""

from __future__ import annotations

import hashlib
import re

# The longest keyword that Subversion expands, and more than the longest URL of a copy.
LONGEST = 1024
CHUNK = 1 << 20
# So much of a URL is looked for first: that is quick, and most files have none.
GLANCE = 12
# A keyword of fixed width is padded or cut to it, its URL with it: %b is where that begins.
FIXED_WIDTH = rb"\$(?:HeadURL|URL|Header):: %b[^$\r\n]{0,255}\$"


class Neutral:
    """Makes bytes neutral: `urls`, by which the repository is known to what is read, become the same word in
    every cell; without any, or with "" alone, all bytes stay."""

    def __init__(self, *urls: str) -> None:
        roots = sorted({url.encode() for url in urls if url}, key=len, reverse=True)
        self._glances = {root[:GLANCE] for root in roots}
        fixed_width = [FIXED_WIDTH % re.escape(glance) for glance in self._glances]
        self._varying = re.compile(b"|".join([*fixed_width, *map(re.escape, roots)]))

    def _may_have(self, data: bytes) -> bool:
        return any(glance in data for glance in self._glances)

    def whole(self, data: bytes) -> bytes:
        """Data that is there as a whole."""
        if not self._may_have(data):
            return data
        return self._varying.sub(b"{url}", data)

    def digest(self) -> Digest:
        """A digest of data that comes in pieces."""
        return Digest(self)

    def split(self, data: bytes) -> int:
        """How much of the data can be made neutral before more of it has come."""
        end = max(0, len(data) - LONGEST)
        if self._may_have(data):
            for found in self._varying.finditer(data):
                if found.start() < end < found.end():
                    return found.end()
        return end


class Digest:
    """The digest and the length of neutral data that comes in pieces of any size."""

    def __init__(self, neutral: Neutral) -> None:
        self._neutral = neutral
        self._pieces: list[bytes] = []
        self._held = 0
        self._sum = hashlib.sha256()
        self.bytes = 0

    def update(self, data: bytes) -> None:
        """The next piece."""
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= CHUNK:
            held = b"".join(self._pieces)
            end = self._neutral.split(held)
            self._add(held[:end])
            self._pieces, self._held = [held[end:]], len(held) - end

    def end(self) -> str:
        """The digest, when all has come."""
        self._add(b"".join(self._pieces))
        self._pieces, self._held = [], 0
        return self._sum.hexdigest()[:16]

    def _add(self, data: bytes) -> None:
        data = self._neutral.whole(data)
        self._sum.update(data)
        self.bytes += len(data)
