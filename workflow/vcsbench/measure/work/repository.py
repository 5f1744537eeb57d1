"""The fingerprint of `svnadmin load` from the repository that it filled."""

from __future__ import annotations

from pathlib import Path

from vcsbench.measure.work import dump
from vcsbench.measure.work.kind import Kind
from vcsbench.measure.work.neutral import Neutral
from vcsbench.subjects import fsfs


def look(repository: Path, neutral: Neutral) -> dict[str, int | str]:
    """youngest, and of a dump of the whole repository its revisions, nodes, bytes and digest: the same
    whatever the format is, and that of the dump that was loaded."""
    found = fsfs.read_output(lambda output: dump.read(output, neutral), "dump", "-q", repository)
    return {"youngest": fsfs.youngest(repository), **found}


KIND = Kind("a dump of the repository that a run filled", look=look)
