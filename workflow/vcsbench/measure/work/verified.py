"""The fingerprint of `svnadmin verify` from the revisions that it says it has verified."""

from __future__ import annotations

import re
from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import Neutral

VERIFIED = re.compile(rb"\* Verified revision (\d+)\.\s*")


def read(stream: IO[bytes], _neutral: Neutral) -> dict[str, int | str]:
    """revisions (0 is one), and the youngest of them."""
    revisions, youngest = 0, -1
    for line in stream:
        if found := VERIFIED.fullmatch(line):
            revisions += 1
            youngest = max(youngest, int(found[1]))
    return {"revisions": revisions, "youngest": youngest}


# It says them if it is not told to be quiet.
KIND = Kind(PRINTED, read, without=("-q", "--quiet"))
