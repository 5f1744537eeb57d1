"""The fingerprint of a command that several clients run at once, from the trees that they wrote."""

from __future__ import annotations

from pathlib import Path

from vcsbench.measure.work import tree
from vcsbench.measure.work.kind import Fingerprint, Kind
from vcsbench.measure.work.neutral import Neutral


def look(targets: Path, neutral: Neutral) -> Fingerprint:
    """That of one tree, if all are the same; else how many different ones there are, which is like no other
    run's."""
    found = {tuple(tree.look(path, neutral).items()) for path in sorted(targets.iterdir())}
    return dict(*found) if len(found) == 1 else {"different_trees": len(found)}


KIND = Kind("the files that each of the clients has written, which have to be the same", look=look)
