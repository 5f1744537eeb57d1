"""The progress of a run in words: its present stage, one count of cell-rounds, and the time left.

All moments are seconds of the monotonic clock. Paths are relative to the checkout, in which Snakemake works.
"""

import os
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from vcsbench import process_facts, progress, words
from vcsbench.environment import RUN_ROOT
from vcsbench.machine_lock import describe_process, lock_holder
from vcsbench.plan.result_state import read_context
from vcsbench.result_paths import CellRound

# The rules that prepare, each with the words for a job that runs and for one that has ended.
PREPARING_RULES = {
    "load": ("{stage} {name}", "loaded {name}"),
    "pack": ("{stage} {name}", "packed {name}"),
    "dump": ("{stage} {name}", "dumped {name}"),
    "copy_repo": ("{stage} on {name}", "made the copies on {name}"),
    "build": ("{stage} {name}", "made the build {name}"),
    "node_job": ("measuring job {name} on a node", "measured job {name}"),
}
MEASURING_RULE = "cell"
COUNTING_RULE = "calls"
DECIDING_RULE = "decide"
# Before all these rules have ended, a table belongs to another study.
RULES_BEFORE_REPORT = (*PREPARING_RULES, MEASURING_RULE, COUNTING_RULE, DECIDING_RULE)
# The mean of fewer cell-rounds gives no estimate.
MIN_SAMPLES = 5
# A stage of a job has an estimate after these seconds, and after this part of the stage.
MIN_STAGE_S = 5.0
MIN_STAGE_PART = 0.02


class RunStage(Enum):
    """The present activity of a run."""

    PLANNING = "planning"
    PREPARING = "preparing"
    COUNTING = "counting system calls"
    MEASURING = "measuring"
    DECIDING = "allocating more rounds"
    REPORTING = "making tables and report"


@dataclass
class Job:
    """A running job of Snakemake. `waited_s` is how long it has waited for another measurement."""

    rule: str
    wildcards: Mapping[str, str]
    log: str
    started: float
    waited_s: float = 0.0

    def describe_running(self, stage: str) -> str:
        """Return, for example, "loading ruby f7"."""
        return PREPARING_RULES[self.rule][0].format(stage=stage, name=self._name())

    def describe_ended(self) -> str:
        """Return, for example, "loaded ruby f7"."""
        return PREPARING_RULES[self.rule][1].format(name=self._name())

    def _name(self) -> str:
        return " ".join(self.wildcards.values())


class RunProgress:
    """The state of a run, from the events of its jobs."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.stage = RunStage.PLANNING
        self.running: dict[int, Job] = {}
        # The numbers of jobs by rule, over the whole session.
        self.total: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.failed = 0
        # The seconds of each measured cell-round, and of all waiting for other measurements.
        self.measured_s: list[float] = []
        self.waited_s = 0.0
        # The process of another measurement that holds the machine, 0 without one.
        self.other_holder = 0

    def expect(self, jobs: Mapping[str, int]) -> None:
        """Take the number of jobs of each rule, which Snakemake counts once, at the begin."""
        self.total = Counter({rule: number for rule, number in jobs.items() if rule != "total"})
        self.stage = RunStage.PREPARING

    def expect_all(self, total: int) -> None:
        """Take the number of all jobs. It grows when a decision has added rounds of cells to measure."""
        added = total - self.total.total()
        if added > 0 and self.ended[DECIDING_RULE]:
            # One of the new jobs is the next decision. The others measure a round of a cell each.
            self.total.update({MEASURING_RULE: added - 1, DECIDING_RULE: 1})

    def start(self, number: int, job: Job) -> None:
        self.running[number] = job
        self._update_stage()

    def end(self, number: int, has_failed: bool, now: float) -> str:
        """Remove the job `number`, which has ended. Return a message about it; "" for most jobs.

        For example: "loaded ruby f7 in 52 s". After the last planned cell-round, the message is "measured 593
        cell-rounds (1 failed)".
        """
        job = self.running.pop(number, None)
        if job is None:
            return ""
        self.ended[job.rule] += 1
        self._update_stage()
        if job.rule in PREPARING_RULES and not has_failed:
            return f"{job.describe_ended()} in {words.duration(now - job.started)}"
        if job.rule != MEASURING_RULE:
            self.waited_s += job.waited_s
            return ""
        self.failed += has_failed
        names = job.wildcards
        number_of_round = int(names.get("round", 0))
        result = CellRound(names.get("study", ""), names.get("cell", ""), number_of_round)
        context = read_context(result.context)
        # The job's time is an estimate. The context has the exact time, but a failed cell-round has none.
        waited_s = job.waited_s
        if context is not None:
            waited_s = context["took"].get("waited_s", waited_s)
        self.waited_s += waited_s
        self.measured_s.append(now - job.started - waited_s)
        is_batch_measured = self.ended[MEASURING_RULE] == self.total[MEASURING_RULE]
        if not is_batch_measured:
            return ""
        return f"measured {cell_rounds(self.ended[MEASURING_RULE])}{self._describe_failures()}"

    def observe_machine(self, now: float) -> None:
        """Update `other_holder`, the process of another measurement, and how long jobs have waited for it."""
        self.other_holder = 0
        if self.stage in (RunStage.MEASURING, RunStage.COUNTING):
            self.other_holder = _other_holder()
        if self.other_holder:
            for job in self.running.values():
                job.waited_s = now - job.started

    def count_left(self, *rules: str) -> int:
        return sum(max(0, self.total[rule] - self.ended[rule]) for rule in rules)

    def line(self, now: float) -> str:
        """Return the present stage with its count, the time left, and the measurement that the run waits for.

        For example: "measuring: 312 of 593 cell-rounds, 14 min left".
        """
        text = self._describe_stage()
        left_s = self.seconds_left(now)
        if left_s is not None:
            text += f", {words.duration(left_s)} left"
        if self.other_holder:
            text += f"; waiting for {_describe_holder(self.other_holder)}"
        return text

    def seconds_left(self, now: float) -> float | None:
        """Return the time until all is measured; None if it is unknown.

        A run with a time limit ends when the limit is reached, but not before its first rounds are measured.
        Time in which another measurement holds the machine does not count.
        """
        if self.stage in (RunStage.PLANNING, RunStage.REPORTING):
            return None
        estimates: list[float] = []
        limit_s = progress.run_limit_s()
        if limit_s is not None:
            waited_s = self.waited_s + sum(job.waited_s for job in self.running.values())
            spent_s = now - self.began - waited_s
            estimates.append(max(0.0, limit_s - spent_s))
        if self.stage is RunStage.PREPARING:
            for job in self.running.values():
                estimates += _estimates_of_stages(job)
        elif len(self.measured_s) >= MIN_SAMPLES and self.count_left(MEASURING_RULE):
            mean_s = statistics.fmean(self.measured_s)
            estimates.append(self.count_left(MEASURING_RULE) * mean_s)
        # The run lasts until all of these times have passed.
        return max(estimates, default=None)

    def _update_stage(self) -> None:
        """Take the stage from the running jobs. Between two jobs, the stage stays."""
        rules = {job.rule for job in self.running.values()}
        if rules & PREPARING_RULES.keys():
            self.stage = RunStage.PREPARING
        elif DECIDING_RULE in rules:
            self.stage = RunStage.DECIDING
        elif COUNTING_RULE in rules:
            self.stage = RunStage.COUNTING
        elif MEASURING_RULE in rules:
            self.stage = RunStage.MEASURING
        elif rules and not self.count_left(COUNTING_RULE, MEASURING_RULE):
            # Only other jobs run, such as the tables of a study. Another study may still have to be prepared.
            is_prepared = not self.count_left(*RULES_BEFORE_REPORT)
            self.stage = RunStage.REPORTING if is_prepared else RunStage.PREPARING

    def _describe_stage(self) -> str:
        """Return the stage with its count, without the time left."""
        if self.stage is RunStage.PREPARING:
            jobs = [job for job in self.running.values() if job.rule in PREPARING_RULES]
            texts = [text for job in jobs for text in _describe_job(job)]
            return "; ".join(texts) or self.stage.value
        if self.stage is RunStage.MEASURING:
            # A job may start before Snakemake reports that a decision has added it.
            running = sum(job.rule == MEASURING_RULE for job in self.running.values())
            ended = self.ended[MEASURING_RULE]
            total = max(self.total[MEASURING_RULE], ended + running)
            failures = self._describe_failures()
            return f"{self.stage.value}: {ended:,} of {cell_rounds(total)}{failures}"
        if self.stage is RunStage.COUNTING:
            cells = words.count_of(self.total[COUNTING_RULE], "cell")
            return f"{self.stage.value}: {self.ended[COUNTING_RULE]:,} of {cells}"
        if self.stage is RunStage.REPORTING:
            rules = [rule for rule in self.total if rule not in RULES_BEFORE_REPORT]
            total = sum(self.total[rule] for rule in rules)
            return f"{self.stage.value}: {total - self.count_left(*rules)} of {total} steps"
        return self.stage.value

    def _describe_failures(self) -> str:
        return f" ({self.failed:,} failed)" if self.failed else ""


def cell_rounds(number: int) -> str:
    return f"{number:,} cell-round{'s' if number != 1 else ''}"


def _other_holder() -> int:
    """Return the process of another run that holds the machine's lock; 0 without one."""
    root = os.environ.get(RUN_ROOT)
    holder = lock_holder() if root else 0
    # All jobs of this run have this variable.
    if holder and f"{RUN_ROOT}={root}" in process_facts.environment(holder):
        return 0
    return holder


def _describe_holder(pid: int) -> str:
    """Return the folder of another measurement, or the process if its folder is not readable."""
    for variable in process_facts.environment(pid):
        name, _, value = variable.partition("=")
        if name == RUN_ROOT:
            return value
    with suppress(OSError):
        # `vcsbench measure` works in its checkout, and has no run.
        return os.readlink(f"/proc/{pid}/cwd")
    return describe_process(pid)


def _describe_job(job: Job) -> list[str]:
    """Return a text for each stage of a job, for example "loading ruby f7: 548 of 2,011 revisions"."""
    stages = progress.read_stages(job.log)
    # A stage without a count shows only that the job runs, so it is left out, unless all are without one.
    counted = [stage for stage in stages if stage.done or stage.total] or stages[-1:]
    if not counted:
        return [job.describe_running("preparing")]
    return [f"{job.describe_running(stage.name)}: {_extent(stage)}" for stage in counted]


def _extent(stage: progress.Stage) -> str:
    """Return how far a stage is, for example "548 of 2,011 revisions", or its time without a count."""
    if not stage.unit or not (stage.done or stage.total):
        return f"{words.duration(stage.seconds)} so far"
    if stage.unit == "bytes":
        done = words.size(stage.done)
        return f"{done} of {words.size(stage.total)}" if stage.total else done
    if stage.total:
        return f"{stage.done:,} of {stage.total:,} {stage.unit}"
    return f"{stage.done:,} {stage.unit}"


def _estimates_of_stages(job: Job) -> Iterator[float]:
    """Yield the seconds left of the stages of a job that have a count."""
    for stage in progress.read_stages(job.log):
        has_samples = stage.seconds >= MIN_STAGE_S and stage.done >= MIN_STAGE_PART * stage.total
        if stage.total and stage.done and has_samples:
            yield stage.seconds * (stage.total - stage.done) / stage.done
