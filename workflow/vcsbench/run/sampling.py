"""The rounds that each block of a study gets in a run with minutes.

A checkpoint decides them, batch by batch, from all rounds before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vcsbench.plan.passes import NOTHING, UNFAILED, decision_of
from vcsbench.plan.plan import Plan


class SamplingState:
    """The decided batches of all studies."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.mode = plan, plan.config.settings.measure
        failed = plan.cells if self.mode == UNFAILED else []
        # The results that there are of each cell that failed.
        self.failed = {
            (cell.study, cell.path): set(filter(plan.is_fresh, exports))
            for cell in failed
            if not all(map(plan.is_fresh, exports := plan.exports_of(cell)))
        }

    def exports(self, study: str, decide: Callable[..., Any]) -> list[str]:
        """Return the exports of a study, once it is decided that there are no more rounds.

        `decide` is the function `get` of the checkpoint. Where a decision is missing it raises, and
        Snakemake calls this function again after the decision.
        """
        if self.mode == NOTHING:
            return self.plan.cell_files(study, only_fresh=True)
        if study not in self.plan.passes:
            return self.plan.cell_files(study)
        passes, gives = self.plan.passes[study], True
        while gives:
            decide(study=study, number=str(passes.next))
            gives = passes.take()
        return self._files(study)

    def calls(self, study: str) -> list[str]:
        """Return the files of the system calls of a study's cells."""
        return list(self.plan.calls_of(study, True if self.mode == NOTHING else None).values())

    def ceiling(self, study: str) -> list[str]:
        """Return the file of the machine's limits, for a study that draws them."""
        wanted = bool(self.plan.config.studies[study].machine_limits)
        file = f"results/ceiling/{study}.json"
        if wanted and self.mode == NOTHING:
            wanted = (self.plan.root / file).exists()
        return [file] if wanted else []

    def last(self, study: str) -> list[str]:
        """Return the file of the next decision. It is the last one if it gives no rounds."""
        passes = None if self.mode == NOTHING else self.plan.passes.get(study)
        return [decision_of(study, passes.next)] if passes else []

    def before(self, study: str, number: int) -> list[str]:
        """Return the exports of all batches before one."""
        return self._files(study, number - 1)

    def _files(self, study: str, after: int | None = None) -> list[str]:
        """Return the exports of all batches up to one. A cell that failed has those that exist."""
        return [
            export
            for cell in self.plan.measured(study)
            for export in self.plan.exports_of(cell, after)
            if export in self.failed.get((study, cell.path), (export,))
        ]

    def rounds_before(self, study: str, number: int) -> dict[str, int]:
        """Return the rounds that each block has before a batch."""
        passes = self.plan.passes.get(study)
        return passes.rounds(number - 1) if passes else {}

    def histories(self, study: str) -> dict[str, str]:
        """Return a digest of the histories of each block."""
        passes = self.plan.passes.get(study)
        return dict(passes.blocks) if passes else {}

    def decisions(self, study: str) -> list[str]:
        """Return the files of a study's decisions."""
        passes = self.plan.passes.get(study)
        return [decision_of(study, n) for n in range(2, passes.next + 1)] if passes else []
