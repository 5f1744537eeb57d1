"""The fingerprint of a command from the text that it printed."""

from __future__ import annotations

from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import CHUNK, Neutral


def read(stream: IO[bytes], neutral: Neutral) -> dict[str, int | str]:
    """lines, bytes and the digest of a text; the repository's URL in it counts as one word."""
    digest, lines = neutral.digest(), 0
    while data := stream.read(CHUNK):
        lines += data.count(b"\n")
        digest.update(data)
    return {"lines": lines, "digest": digest.end(), "bytes": digest.bytes}


KIND = Kind(PRINTED, read)
