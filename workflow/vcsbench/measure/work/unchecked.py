"""The fingerprint of a tree that is another one by design: it is compared where a table names it."""

from __future__ import annotations

from pathlib import Path

from vcsbench.measure.work import tree
from vcsbench.measure.work.kind import APART, Fingerprint, Kind
from vcsbench.measure.work.neutral import Neutral


def look(target: Path, neutral: Neutral) -> Fingerprint:
    """That of the tree, and that it stands apart."""
    return {**tree.look(target, neutral), APART: 1}


KIND = Kind("the files that each timed run has written, which are others by design", look=look)
