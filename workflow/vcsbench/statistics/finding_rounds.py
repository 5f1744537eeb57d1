"""Find the published findings that more rounds can judge, and give them rounds before all comparisons.

The default of a study repeats its findings. Without this, most rounds go to cells that are quick to measure,
and findings on slow cells stay undecided.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pandas as pd

from vcsbench.codes import ReasonCode, Verdict
from vcsbench.plan.result_state import block_name
from vcsbench.statistics import finding_checks
from vcsbench.statistics.evaluations import Evaluation, EvaluationContext
from vcsbench.statistics.findings import rounds_by_statistic
from vcsbench.statistics.settings import StudySettings

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

# A verdict needs an interval that crosses no end of the expected range, or one within the margin around 1
# (the effect is gone). A run looks at its findings up to four times, and each look is another chance of a
# wrong verdict. So the half width of the interval must become this share of the distance from the value to
# the end. Of 100 findings whose true value is the end itself, 10 get a verdict with the share 1.0, and 8 with
# 0.8. After one look only, 5 of them get a verdict.
SHARE_OF_DISTANCE = 0.8


@dataclass(frozen=True)
class OpenFinding:
    """A finding without a verdict: the blocks of its cells, and the further rounds that should decide it.

    Example: `OpenFinding("ssd-log-packing-cold", frozenset({"log/ruby/cold"}), 7)`.
    """

    id: str
    blocks: frozenset[str]
    further_rounds: int

    def round_seconds(self, round_s: Mapping[str, float]) -> float:
        """Return the seconds of a round of all blocks. `round_s` has the seconds of each measured block."""
        # A block that was not measured takes infinitely long, so its finding gets no rounds.
        return sum(round_s.get(block, math.inf) for block in self.blocks)

    def seconds(self, round_s: Mapping[str, float]) -> float:
        """Return the seconds of the further rounds."""
        return self.further_rounds * self.round_seconds(round_s)


def list_open_findings(
    findings: Sequence[FindingDefinition],
    measured: pd.DataFrame,
    settings: StudySettings,
    context: EvaluationContext,
) -> list[OpenFinding]:
    """Return the undecided findings that get a verdict with more rounds, and how many rounds each needs.

    The number is a forecast from the scatter of the rounds so far (_further_rounds). `measured` has a row per
    run, and `context` is made by findings.make_context().
    """
    # Tables may group by further columns (`by`), such as `run`, which then identify a cell, too.
    keys = [*settings.axes, *settings.by]
    aggregate_measured = rounds_by_statistic(measured, keys, settings.by)
    open_findings = []
    for finding in findings:
        check = finding_checks.make_check(finding, keys)
        rounds = aggregate_measured(check.statistic)
        further_rounds = _further_rounds(check.evaluate(rounds, context))
        if further_rounds is None:
            continue
        blocks = _blocks_of_cells(check.select_rows(rounds), keys, settings.block)
        open_findings.append(OpenFinding(finding["id"], blocks, further_rounds))
    return open_findings


def _blocks_of_cells(
    rounds: pd.DataFrame, keys: Sequence[str], block_axes: Sequence[str]
) -> frozenset[str]:
    """Return the names of the blocks of cells: a cold log of ruby in f6 or f7 is in `log/ruby/cold`.

    `rounds` has the rounds of the cells. A block has the cells that are measured next to each other: those
    with equal values on the axes `block_axes`, here command, repository and cache.
    """
    blocks = set()
    for values in rounds[list(keys)].drop_duplicates().itertuples(index=False):
        cell = dict(zip(keys, values, strict=True))
        blocks.add(block_name(block_axes, cell))
    return frozenset(blocks)


def _further_rounds(evaluation: Evaluation) -> int | None:
    """Return the further rounds that should decide a finding; None if it is decided, or no rounds help."""
    if evaluation.verdict != Verdict.UNDECIDED:
        return None
    # An undecided finding that rounds can decide has the reason NEEDS_ROUNDS: `{"needed": 20, "n": 5}`.
    for reason in evaluation.reasons:
        if reason.code == ReasonCode.NEEDS_ROUNDS:
            numbers = cast("Mapping[str, float]", reason.values)
            # The width of an interval shrinks with the root of the rounds, hence the square.
            needed = numbers["needed"] / SHARE_OF_DISTANCE**2
            return math.ceil(needed - numbers["n"])
    return None


def allocate_to_findings(
    findings: Sequence[OpenFinding],
    round_s: Mapping[str, float],
    *,
    batch_s: float,
    seconds: float,
) -> Counter[str]:
    """Return the further rounds of each block in the next batch: `{"log/ruby/cold": 4}`; {} if none help.

    `batch_s` is the time of this batch, and `seconds` the rest of the run. The quickest finding comes first.
    A finding that cannot be decided in the rest of the run gets no rounds, and neither do slower findings. A
    finding that needs more than this batch gets the rounds that fit, and more in the next batch.
    """
    rounds: Counter[str] = Counter()
    taken_s = 0.0
    for finding in sorted(findings, key=lambda finding: finding.seconds(round_s)):
        if finding.seconds(round_s) > seconds - taken_s:
            break
        # Rounds that an earlier finding gave to these blocks are counted again, so some time of the batch may
        # stay unused.
        rounds_that_fit = int((batch_s - taken_s) / finding.round_seconds(round_s))
        rounds_of_finding = min(finding.further_rounds, rounds_that_fit)
        for block in finding.blocks:
            # A block gets the most rounds of its findings, not the sum: 4 and 7 give 7.
            more = max(0, rounds_of_finding - rounds[block])
            rounds[block] += more
            taken_s += more * round_s[block]
    # `+` leaves out the blocks that got no rounds.
    return +rounds
