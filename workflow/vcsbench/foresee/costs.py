"""What cell-rounds take, from some that were measured: earlier results, or those of a calibration."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.evidence import hyperfine_export
from vcsbench.files import read_json
from vcsbench.measure.context import host
from vcsbench.plan import twins
from vcsbench.plan.plan import Plan

# Of a cell-round beyond hyperfine and its hooks: a Python, the server's start and end, Snakemake's own
# (docs/structure.md, `overhead`, measures it).
AROUND_S = 0.22

Axes = Mapping[str, str]


class Seen(NamedTuple):
    """What a cell-round took: seconds in all, Snakemake's included; of which each run took `runs_s`, timed or
    not; the timed ones are `times`."""

    study: str
    axes: Axes
    wall_s: float
    runs_s: float
    times: Sequence[float]


class Costs:
    """What the cell-rounds of a plan take, by those that were seen."""

    def __init__(self, plan: Plan, seen: Iterable[Seen], says: str) -> None:
        """`says` is where that is known from, in a clause."""
        self.plan = plan
        self.says = says
        self.seen: dict[tuple[str, ...], list[Seen]] = {}
        for one in seen:
            self.seen.setdefault(self._class(one.study, one.axes), []).append(one)

    def _class(self, study: str, axes: Axes) -> tuple[str, ...]:
        named = self.plan.config.studies[study].cost_class
        return (study, *twins.class_of(axes, named))

    def __bool__(self) -> bool:
        return bool(self.seen)

    def alike(self, study: str, axes: Axes) -> list[Seen]:
        """The cell-rounds that tell best what those of a cell take: the cell's own, those of its class, or
        those that agree with it on the most axes. [] where nothing of the study was seen."""
        of_class = self.seen.get(self._class(study, axes), [])
        own = [one for one in of_class if one.axes == axes]
        if own or of_class:
            return own or of_class
        known = [one for ones in self.seen.values() for one in ones if one.study == study]
        agree = [sum(axes.get(a) == v for a, v in one.axes.items()) for one in known]
        return [one for one, n in zip(known, agree, strict=True) if n == max(agree)]

    def cell_round_s(self, study: str, axes: Axes) -> float | None:
        """What a cell-round of a cell takes, Snakemake's part included; None where nothing tells."""
        alike = self.alike(study, axes)
        return statistics.fmean(one.wall_s for one in alike) if alike else None

    def run_s(self, study: str, axes: Axes) -> float | None:
        """What one timed run of a cell takes; None where nothing tells."""
        times = [time for one in self.alike(study, axes) for time in one.times]
        return statistics.fmean(times) if times else None

    def rounds(self) -> list[list[float]]:
        """By cell, what a run took in each of the rounds that were seen."""
        found: dict[tuple[str, ...], list[float]] = {}
        for one in (one for ones in self.seen.values() for one in ones):
            key = (one.study, *one.axes.values())
            found.setdefault(key, []).append(statistics.fmean(one.times))
        return list(found.values())


def seen_here(plan: Plan) -> Costs:
    """What the results that there are tell: of the same repositories, on this host."""
    seen, me = [], host()["id"]
    for cell in plan.cells:
        repository = plan.parts(cell).get("repository", {})
        for export in plan.exports_of(cell):
            context = read_json(plan.root / export.replace(".json", ".context.json"))
            known = context.get("repository", {}).get("identity") == repository.get("identity")
            here = context.get("host", {}).get("id") == me
            if "took" in context and known and here and (plan.root / export).exists():
                seen.append(told(context, plan.root / export))
    return Costs(plan, seen, f"{len(seen)} cell-rounds of earlier runs")


def told(context: Mapping[str, Any], export: Path) -> Seen:
    """What a cell-round took, from its two files. How long it waited for other measurements is no part."""
    took_s = context["took"]["hyperfine_s"] * (1 + len(context["set_aside"])) + AROUND_S
    times = [run.elapsed_s for run in hyperfine_export.read(export)]
    runs_s = (len(times) + context["warmup"]) * statistics.fmean(times)
    return Seen(context["study"], context["axes"], took_s, runs_s, times)
