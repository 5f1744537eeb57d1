"""How it is told what a command did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from vcsbench.measure.work.neutral import Neutral

# Figures by name: numbers, and a `digest` of what was printed or written.
Fingerprint = dict[str, int | str]
Reader = Callable[[IO[bytes], Neutral], Fingerprint]

# In the fingerprint of what is another work by design.
APART = "apart"

# Of a command that only prints, a run that does not count tells what all of them do.
PRINTED = "what one of the runs that do not count prints"


class Kind(NamedTuple):
    """How it is told what a command did; `says` that in words.

    `read` reads what it prints, to the end and in constant memory; `look` at what it wrote, after each timed
    run. Without either, nothing tells. `without` are the options that silence it.
    """

    says: str
    read: Reader | None = None
    look: Callable[[Path, Neutral], Fingerprint] | None = None
    without: Sequence[str] = ()
