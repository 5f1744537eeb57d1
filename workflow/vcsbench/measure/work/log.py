"""The fingerprint of `svn log`, with or without -v, from what it printed."""

from __future__ import annotations

import re
from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import Neutral

SEPARATOR = b"-" * 72 + b"\n"
# r12 | author | date | 3 lines
HEADING = re.compile(rb"r\d+ \|.*?(?: \| (\d+) lines?)?\n", re.DOTALL)
PATH = b"   "


def read(stream: IO[bytes], neutral: Neutral) -> dict[str, int | str]:
    """revisions, paths (the changed ones, 0 without -v), bytes, and the digest of the text.

    A message may look like anything, headings of other revisions included: its heading says how many
    lines it has.
    """
    digest = neutral.digest()
    revisions = paths = lines = message = 0
    before, in_heading = b"", False
    for line in stream:
        digest.update(line)
        if message:
            message -= 1
        elif before == SEPARATOR and (heading := HEADING.fullmatch(line)):
            revisions += 1
            lines, in_heading = int(heading[1] or 0), True
        elif in_heading and line.startswith(PATH):
            paths += 1
        elif in_heading and line == b"\n":
            message, in_heading = lines, False
        before = line
    return {"revisions": revisions, "paths": paths, "digest": digest.end(), "bytes": digest.bytes}


KIND = Kind(PRINTED, read)
