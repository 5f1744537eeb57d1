"""Which rounds each block of a study gets where a run has minutes: enough of all in the first pass, and in
each pass after it what a decision gave.

A decision is a file. It holds the rounds of each block in all, so the last one that gave any says
everything; one that gave none ends the run. Decisions are kept: what was decided is measured, whatever became
stale since.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcsbench.files import read_json

FOLDER = "results/budget"
# Values of the key `measure`: all cells; all but those that lack a round, which failed before; none, for a
# report of the results that there are.
ALL, UNFAILED, NOTHING = "all", "unfailed", "nothing"


def block_name(block: Sequence[str], axes: Mapping[str, Any]) -> str:
    """The name of a cell's block, from the axes on which its cells agree: `log/ruby/cold`."""
    return "/".join(str(axes.get(axis) or "-") for axis in block) or "all"


def subject_digest(subjects: Sequence[Mapping[str, Any]]) -> str:
    """What tells one block's histories from others of the same name."""
    texts = sorted({json.dumps(subject, sort_keys=True) for subject in subjects})
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def decision_of(study: str, number: int) -> str:
    """The file of the decision on what a pass of a study gives; the first pass has none."""
    return f"{FOLDER}/{study}/pass{number}.json"


def set_up_s() -> float:
    """What the set-up took before this run, as the Makefile has it: some 40 s in a fresh clone."""
    return float(os.environ.get("VCSBENCH_SETUP_SECONDS") or 0)


class Passes:
    """The passes of a study, as far as they are decided."""

    def __init__(self, study: str, root: Path, least: int, blocks: Mapping[str, str]) -> None:
        """`blocks` has each block with the digest of its histories; each gets at least `least` rounds.

        What was decided of a block of another history does not count.
        """
        self.study, self.root, self.least, self.blocks = study, root, least, blocks
        self._rounds = {1: dict.fromkeys(blocks, least)}
        self.last = 1
        for number in sorted(self._numbers(), reverse=True):
            if self._take(number):
                break

    def _numbers(self) -> list[int]:
        names = (path.name for path in (self.root / FOLDER / self.study).glob("pass*.json"))
        return [
            int(found[1]) for name in names if (found := re.fullmatch(r"pass(\d+)\.json", name))
        ]

    def _take(self, number: int) -> bool:
        decision = read_json(self.root / decision_of(self.study, number))
        if not decision.get("gives"):
            return False
        self.last = number
        rounds, of = decision["rounds"], decision["of"]
        self._rounds[number] = {
            block: max(self.least, rounds[block]) if of.get(block) == digest else self.least
            for block, digest in self.blocks.items()
        }
        return True

    @property
    def next(self) -> int:
        """The pass that is to be decided."""
        return self.last + 1

    def take(self) -> bool:
        """Take over the decision on the next pass, which was made; returns whether it gives any rounds."""
        return self._take(self.next)

    def rounds(self, number: int | None = None) -> dict[str, int]:
        """The rounds of each block once a pass is measured; by default the last that is decided."""
        return self._rounds.get(number or self.last, self._rounds[self.last])
