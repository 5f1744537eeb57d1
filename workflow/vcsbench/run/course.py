"""What a run is at, in words, from what Snakemake tells of its jobs and the jobs of themselves."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vcsbench import processes, progress, words
from vcsbench.measure.lock import Holder, lock_holder
from vcsbench.run.lock import MARK
from vcsbench.run.timeleft import TimeLeft
from vcsbench.wholefile import read_json

# The rules that prepare, or do all of it elsewhere: what they are at, and what they have done,
# with the value of their wildcard.
PREPARING = {
    "load": ("{stage} {of}", "loaded {of}"),
    "copies": ("{stage} on {of}", "made the copies on {of}"),
    "build": ("{stage} {of}", "made the build {of}"),
    # On a node of a cluster, which says more in its log.
    "share": ("measuring share {of} on a node", "measured share {of}"),
}
# The rule that counts system calls, and the one that measures.
COUNTING = "calls"
MEASURING = "cell"
# The one that decides which cells get more rounds, in a run that has minutes.
DECIDING = "decide"
# Of a stage that has come less far, nobody can tell how long it takes.
TOLD_S = 5.0
TOLD_SHARE = 0.02


@dataclass
class Job:
    """A job that runs: its rule, wildcards and log, and when it began."""

    rule: str
    wildcards: Mapping[str, str]
    log: str
    began: float

    @property
    def of(self) -> str:
        """What a job that prepares is about: the rule's only wildcard."""
        return next(iter(self.wildcards.values()), "")


class Course:
    """What a run is at. `kind_of` says of a cell, by study and path, which ones take about as long. `ends_at`
    is the moment at which the minutes of a run are up that has some: until then more is decided."""

    def __init__(self, kind_of: Callable[[str, str], Hashable]) -> None:
        self._kind_of = kind_of
        self._running: dict[int, Job] = {}
        # By rule.
        self._all: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._failed = 0
        # While other measurements held the machine's lock.
        self._waited_s = 0.0
        self._left = TimeLeft()
        self._since: dict[str, float] = {}
        self.ends_at: float | None = None

    def expect(self, jobs: Iterable[tuple[str, Mapping[str, str]]]) -> int:
        """The jobs that have yet to run, each by rule and wildcards; how many cell-rounds are among them."""
        jobs = list(jobs)
        coming = Counter(rule for rule, _ in jobs)
        self._all = coming + self._ended
        cells = (wildcards for rule, wildcards in jobs if rule == MEASURING)
        self._left.expect(self._kind_of(one["study"], one["cell"]) for one in cells)
        return coming[MEASURING]

    def asked_for(self, number: int) -> str:
        """What to say of so many cell-rounds that are to be measured."""
        if self._ended[MEASURING]:
            return f"{cell_rounds(number, ' more')} to measure"
        more = "" if self.ends_at is None else ", then more where they answer most"
        return f"{cell_rounds(number)} to measure{more}"

    def began(self, number: int, job: Job) -> None:
        """A job of this number begins."""
        self._running[number] = job
        if job.rule in PREPARING:
            progress.forget(job.log)
        if job.rule == MEASURING:
            self._left.begin(job.began)
        self._since.setdefault(self.stage(), job.began)

    def ended(self, number: int, failed: bool, now: float) -> str:
        """A job has ended; returns what is to be told of that, or ""."""
        job = self._running.pop(number, None)
        if job is None:
            return ""
        self._ended[job.rule] += 1
        took = now - job.began
        if job.rule == MEASURING:
            self._failed += failed
            kind = self._kind_of(job.wildcards["study"], job.wildcards["cell"])
            waited_s = _waited_s(job)
            self._waited_s += waited_s
            self._left.end(kind, max(0.0, took - waited_s), now)
            return "" if self._remain(MEASURING) else self._measured(now)
        if job.rule in PREPARING and not failed:
            return f"{PREPARING[job.rule][1].format(of=job.of)} in {words.duration(took)}"
        return ""

    def _remain(self, rule: str) -> int:
        return self._all[rule] - self._ended[rule]

    def _measured(self, now: float) -> str:
        took = words.duration(now - self._since.get(MEASURING, now) - self._waited_s)
        return f"measured {cell_rounds(self._all[MEASURING])}{self._said_failed()} in {took}"

    def _said_left(self, now: float) -> str:
        """How long yet: of a run that has minutes, until these are up, if it is not answered before."""
        left = self._left.seconds(now)
        if self.ends_at is None:
            return _left(left)
        return _left(max(left or 0.0, self.ends_at - now), "at most ")

    def _said_failed(self) -> str:
        return f" ({self._failed:,} failed)" if self._failed else ""

    def stage(self) -> str:
        """What the run is at, as one word that stays the same while it is."""
        if not self._all:
            return "plan"
        rules = {job.rule for job in self._running.values()}
        if preparing := sorted(rules & PREPARING.keys()):
            return preparing[0]
        if DECIDING in rules:
            return DECIDING
        for stage in (COUNTING, MEASURING):
            if stage in rules or (self._ended[stage] and self._remain(stage)):
                return stage
        before = (*PREPARING, COUNTING, MEASURING)
        return "report" if not any(map(self._remain, before)) else "begin"

    def seconds(self, now: float) -> float:
        """For how long it has been at that."""
        return now - self._since.get(self.stage(), now)

    def line(self, now: float) -> str:
        """What the run is at, how far, and how long yet, where that is known."""
        stage = self.stage()
        if stage in PREPARING:
            jobs = [job for job in self._running.values() if job.rule in PREPARING]
            return "; ".join(part for job in jobs for part in _parts(job))
        if stage == COUNTING:
            far = f"{self._ended[COUNTING]:,} of {self._all[COUNTING]:,}"
            return f"counting the system calls of commands: {far}"
        if stage == MEASURING:
            far = f"{self._ended[MEASURING]:,} of {cell_rounds(self._all[MEASURING])}"
            if holder := other_holder():
                return f"measuring: {far}; waiting for another measurement: {holder}"
            return f"measuring: {far}{self._said_failed()}{self._said_left(now)}"
        if stage == DECIDING:
            return "deciding where more rounds answer most"
        if stage == "report":
            ended, every = self._ended.total(), self._all.total()
            own = sum(self._ended[rule] for rule in (*PREPARING, COUNTING, MEASURING))
            return (
                f"making tables and report: {ended - own} of {every - own}" if every > own else ""
            )
        return "planning" if stage == "plan" else "preparing"


def other_holder() -> Holder | None:
    """Return the holder of the machine's lock if it is not a process of this run."""
    run = os.environ.get(MARK)
    holder = lock_holder() if run else None
    return None if holder and f"{MARK}={run}" in processes.environment(holder.pid) else holder


def _waited_s(job: Job) -> float:
    """Return the seconds for which a finished cell-round waited for other measurements on the machine."""
    study, cell, number = (job.wildcards.get(key, "") for key in ("study", "cell", "round"))
    context = read_json(Path("results", "cells", study, cell, f"round{number}.context.json"))
    return float(context.get("took", {}).get("waited_s") or 0.0)


def cell_rounds(number: int, more: str = "") -> str:
    """So many cell-rounds, or so many more."""
    return f"{number:,}{more} cell-round{'s' if number != 1 else ''}"


def _parts(job: Job) -> Iterable[str]:
    """What a job is at that prepares something: a clause for each of its stages."""
    phrase = PREPARING[job.rule][0]
    told = progress.read(job.log)
    # One that has counted nothing waits for another.
    counted = [stage for stage in told if stage["done"] or stage["total"]] or told[-1:]
    for stage in counted:
        yield f"{phrase.format(stage=stage['name'], of=job.of)}{_how_far(stage)}"
    if not counted:
        yield phrase.format(stage="preparing", of=job.of)


def _how_far(stage: Mapping[str, Any]) -> str:
    done, total, seconds = stage["done"], stage["total"], stage["seconds"]
    if not stage["unit"] or not (done or total):
        return f": {words.duration(seconds)} so far"
    if stage["unit"] == "bytes":
        far = words.size(done) + (f" of {words.size(total)}" if total else "")
    else:
        far = f"{done:,}{f' of {total:,}' if total else ''} {stage['unit']}"
    known = seconds >= TOLD_S and done >= TOLD_SHARE * total > 0
    return f": {far}{_left(seconds * (total - done) / done if known and done else None)}"


def _left(seconds: float | None, how: str = "") -> str:
    return "" if seconds is None else f", {how}{words.duration(seconds)} left"
