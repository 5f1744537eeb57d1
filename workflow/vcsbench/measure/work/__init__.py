"""What a command did, read from what it printed or wrote: its fingerprint.

Cells are compared only where these are equal (vcsbench.evidence.samework). A study's command says
in its key `work` which of these kinds is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from vcsbench.measure.work import dump, log, printed
from vcsbench.measure.work.neutral import Neutral

# Figures by name: numbers, and a `digest` of what was printed or written.
Fingerprint = dict[str, int | str]
Reader = Callable[[IO[bytes], Neutral], Fingerprint]


# Of a command that only prints, the first of the runs that do not count tells what all of them do.
PRINTED = "what the first of the runs that do not count prints"


class Kind(NamedTuple):
    """How it is told what a command did; `says` that in words.

    `read` reads what it prints, to the end and in constant memory; None where the tree that it wrote
    tells instead (tree.read), or nothing does. `without` are the options that silence it.
    """

    says: str
    read: Reader | None = None
    without: Sequence[str] = ()


KINDS = {
    "log": Kind(PRINTED, log.read),
    # svnbench counts what it does, and says so if it is not told to be quiet.
    "counts": Kind(PRINTED, printed.counts, without=("-q", "--quiet")),
    "dump": Kind(PRINTED, dump.read),
    "text": Kind(PRINTED, printed.text),
    "tree": Kind("the files that each timed run has written"),
    "none": Kind("nothing tells what the command did, so it is compared with nothing"),
}
