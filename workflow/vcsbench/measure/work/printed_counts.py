"""The fingerprint of a command from the counts that svnbench prints."""

from __future__ import annotations

import re
from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import Neutral

COUNT = re.compile(rb"\s*([\d,]+) (\D+)")
# These differ between runs and between protocols: mod_dav_svn adds properties of its own.
VARYING = (
    "seconds taken",
    "bytes transferred over network",
    "properties",
    "bytes in properties",
)


def read(stream: IO[bytes], _neutral: Neutral) -> dict[str, int | str]:
    """The counts that svnbench prints, a line each, under the names that it gives them."""
    found: dict[str, int | str] = {}
    for line in stream:
        match = COUNT.fullmatch(line.rstrip())
        if match and (name := match[2].decode("ascii", "replace")) not in VARYING:
            found[name.replace(" ", "_")] = int(match[1].replace(b",", b""))
    return found


# It counts what it does, and says so if it is not told to be quiet.
KIND = Kind(PRINTED, read, without=("-q", "--quiet"))
