"""How Snakemake is led through the passes of a run that has minutes: what it measures depends on decisions
that are made when what came before them is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vcsbench.plan.passes import decision_of, set_up_s
from vcsbench.run.house import House
from vcsbench.run.partial import measures, only_tells
from vcsbench.wholefile import read_json


class Walk:
    """The passes of all studies."""

    def __init__(self, house: House) -> None:
        self.plan, self.began = house.plan, house.began
        # A cell that lacks a round has failed, if another Snakemake was here just now.
        failed = self.plan.cells if measures() else []
        self.failed = {
            cell.path: set(filter(self.plan.is_fresh, exports))
            for cell in failed
            if not all(map(self.plan.is_fresh, exports := self.plan.exports_of(cell)))
        }

    def exports(self, study: str, decide: Callable[..., Any]) -> list[str]:
        """The cell-rounds that a study's measurements are made of, once it is decided that there are no more.
        `decide` is the checkpoint's function, which interrupts this one where a decision is to be made first;
        Snakemake then calls it again."""
        if only_tells():
            return self.plan.cell_files(study, only_fresh=True)
        if study not in self.plan.passes:
            return self.plan.cell_files(study)
        passes, gives = self.plan.passes[study], True
        while gives:
            decide(study=study, number=str(passes.next))
            gives = passes.take()
        return self._files(study)

    def calls(self, study: str) -> list[str]:
        """The files of the system calls of a study's cells."""
        return list(self.plan.calls_of(study, True if only_tells() else None).values())

    def ceiling(self, study: str) -> list[str]:
        """The file of the machine's ceiling, for a study that is drawn with it."""
        wanted = bool(self.plan.config.studies[study].machine_limits)
        file = f"results/ceiling/{study}.json"
        if wanted and only_tells():
            wanted = (self.plan.root / file).exists()
        return [file] if wanted else []

    def last(self, study: str) -> list[str]:
        """The decision on the next pass: the last one, when it gives nothing."""
        passes = None if only_tells() else self.plan.passes.get(study)
        return [decision_of(study, passes.next)] if passes else []

    def before(self, study: str, number: int) -> list[str]:
        """The exports of all passes before one."""
        return self._files(study, number - 1)

    def _files(self, study: str, after: int | None = None) -> list[str]:
        """The exports of all passes up to one; of a cell that failed, those that there are."""
        return [
            export
            for cell in self.plan.measured(study)
            for export in self.plan.exports_of(cell, after)
            if export in self.failed.get(cell.path, (export,))
        ]

    def is_unfinished(self) -> bool:
        """Whether this run has not come to the last decision."""
        files = (self.plan.root / file for study in self.plan.passes for file in self.last(study))
        return any(not path.exists() or path.stat().st_mtime < self.began for path in files)

    def seconds_left(self) -> float | None:
        """How long this run may take at the most, by its minutes and by what had been spent when the last
        decision was made; None where its rounds are fixed."""
        if not self.plan.passes:
            return None
        left = -set_up_s()
        for study in self.plan.passes:
            files = (self.plan.root / file for file in self.decisions(study))
            spent_s = max(
                (float(read_json(file).get("spent_s") or 0) for file in files), default=0.0
            )
            left += max(0.0, 60 * (self.plan.config.minutes_of(study) or 0.0) - spent_s)
        return max(0.0, left)

    def rounds_before(self, study: str, number: int) -> dict[str, int]:
        """The rounds that each block has before a pass."""
        passes = self.plan.passes.get(study)
        return passes.rounds(number - 1) if passes else {}

    def histories(self, study: str) -> dict[str, str]:
        """What tells the histories of each block from others of the same name."""
        passes = self.plan.passes.get(study)
        return dict(passes.blocks) if passes else {}

    def decisions(self, study: str) -> list[str]:
        """The files of a study's decisions."""
        passes = self.plan.passes.get(study)
        return [decision_of(study, n) for n in range(2, passes.next + 1)] if passes else []
