"""The fingerprint of a command from what it printed: any text, or the counts that svnbench prints."""

from __future__ import annotations

import re
from typing import IO

from vcsbench.measure.work.neutral import CHUNK, Neutral

COUNT = re.compile(rb"\s*([\d,]+) (\D+)")
# These differ between runs and between protocols: mod_dav_svn adds properties of its own.
VARYING = (
    "seconds taken",
    "bytes transferred over network",
    "properties",
    "bytes in properties",
)


def text(stream: IO[bytes], neutral: Neutral) -> dict[str, int | str]:
    """lines, bytes and the digest of a text; the repository's URL in it counts as one word."""
    digest, lines = neutral.digest(), 0
    while data := stream.read(CHUNK):
        lines += data.count(b"\n")
        digest.update(data)
    return {"lines": lines, "digest": digest.end(), "bytes": digest.bytes}


def counts(stream: IO[bytes], _neutral: Neutral) -> dict[str, int | str]:
    """The counts that svnbench prints, a line each, under the names that it gives them."""
    found: dict[str, int | str] = {}
    for line in stream:
        match = COUNT.fullmatch(line.rstrip())
        if match and (name := match[2].decode("ascii", "replace")) not in VARYING:
            found[name.replace(" ", "_")] = int(match[1].replace(b",", b""))
    return found
