"""The fingerprint of `svnadmin dump` from its stream."""

from __future__ import annotations

import re
from typing import IO

from vcsbench.measure.work.kind import PRINTED, Kind
from vcsbench.measure.work.neutral import CHUNK, Digest, Neutral

REVISION = b"Revision-number: "
NODE = b"Node-path: "
LENGTH = b"Content-length: "
# A repository of another format has another UUID where its source has none, and up to format 3 no SHA-1.
LEFT_OUT = re.compile(rb"UUID: |Text-[a-z-]+-sha1: ")
# The lengths of revision 0 are left out with its date: without one in the source, it is the time of the load.
OF_REVISION_0 = re.compile(rb"(Prop-content-|Content-)length: ")
DATE = re.compile(rb"^K 8\nsvn:date\nV \d+\n[^\n]*\n", re.MULTILINE)
LARGEST_REVISION_0 = 1 << 20


def read(stream: IO[bytes], neutral: Neutral) -> dict[str, int | str]:
    """Return revisions, nodes, bytes and the digest of a dump, without UUID, SHA-1 and revision 0's date.

    Every other byte is the same for all formats, packings and copies of a repository.
    """
    digest = neutral.digest()
    revisions = nodes = length = 0
    is_revision_0 = False
    for line in stream:
        if line == b"\n":
            digest.update(line)
            if is_revision_0 and length <= LARGEST_REVISION_0:
                digest.update(DATE.sub(b"", stream.read(length)))
            else:
                _add(digest, stream, length)
            length, is_revision_0 = 0, False
            continue
        if line.startswith(LENGTH):
            length = int(line[len(LENGTH) :])
        if line.startswith(REVISION):
            revisions += 1
            is_revision_0 = line == b"Revision-number: 0\n"
        nodes += line.startswith(NODE)
        if not LEFT_OUT.match(line) and not (is_revision_0 and OF_REVISION_0.match(line)):
            digest.update(line)
    return {"revisions": revisions, "nodes": nodes, "digest": digest.end(), "bytes": digest.bytes}


def _add(digest: Digest, stream: IO[bytes], length: int) -> None:
    while length > 0 and (data := stream.read(min(length, CHUNK))):
        digest.update(data)
        length -= len(data)


KIND = Kind(PRINTED, read)
