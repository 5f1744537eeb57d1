"""The fingerprint of `svnadmin load` from the repository that it filled."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.measure.work import dump
from vcsbench.measure.work.kind import Kind
from vcsbench.measure.work.neutral import Neutral
from vcsbench.subjects.repository import fsfs


def look(repository: Path, neutral: Neutral) -> dict[str, int | str]:
    """youngest, and of a dump of the whole repository its revisions, nodes, bytes and digest: the same
    whatever the format is, and that of the dump that was loaded."""
    with subprocess.Popen(
        ["svnadmin", "dump", "-q", repository],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stderr
        found = dump.read(process.stdout, neutral)
        said = process.stderr.read().decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        raise UserError(f"{repository}: what was loaded cannot be dumped: {' '.join(said[-1:])}")
    return {"youngest": fsfs.youngest(repository), **found}


KIND = Kind("a dump of the repository that a run filled", look=look)
