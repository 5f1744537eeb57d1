"""The fingerprint of `svnadmin dump` from its stream."""

from __future__ import annotations

from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import CHUNK, Neutral

# A repository of another format has another UUID where its source has none.
UUID = b"UUID: "
REVISION = b"Revision-number: "
NODE = b"Node-path: "
LENGTH = b"Content-length: "


def read(stream: IO[bytes], neutral: Neutral) -> dict[str, int | str]:
    """revisions, nodes, bytes and the digest of a dump, its UUID apart.

    Every other byte of it is the same whatever the repository's format, packing and copy are.
    """
    digest = neutral.digest()
    revisions = nodes = length = 0
    for line in stream:
        if line == b"\n":
            digest.update(line)
            while length > 0 and (data := stream.read(min(length, CHUNK))):
                digest.update(data)
                length -= len(data)
            length = 0
        elif not line.startswith(UUID):
            digest.update(line)
            if line.startswith(LENGTH):
                length = int(line[len(LENGTH) :])
            revisions += line.startswith(REVISION)
            nodes += line.startswith(NODE)
    return {"revisions": revisions, "nodes": nodes, "digest": digest.end(), "bytes": digest.bytes}


KIND = Kind(PRINTED, read)
