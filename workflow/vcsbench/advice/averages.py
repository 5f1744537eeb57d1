"""The mean ratio of each candidate of a card, such as a build, over all cases."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from vcsbench.advice.answers import Answer
from vcsbench.advice.candidates import list_candidates, pairs_by_candidate
from vcsbench.advice.cards import AverageRatio, Card
from vcsbench.advice.decision import Sides
from vcsbench.codes import AnswerKind
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.plan.grid import AxisValues
from vcsbench.statistics.aggregation import pair_rows
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate, interval, ratio_interval
from vcsbench.statistics.noise import CellKey, CellPair, Noise
from vcsbench.statistics.variances import Variance, sum_variances

# The mean over cases of the ratio of two values, baseline / candidate (CaseAverages.mean).
Mean = Callable[[Sequence[AxisValues], Sides], Estimate]
# With two rounds, 95 % intervals of averages over one block held the truth in 91 to 92 % of simulated cases.
MIN_AVERAGE_ROUNDS = 3


def with_averages(card: Card, mean: Mean) -> Card:
    """Return the card with the mean ratio of each candidate over all cases, and the answer of the first one.

    A candidate that is the same build as the baseline is a noise check, and gets no answer.
    """
    averages = {}
    for name, members in pairs_by_candidate(card.cases).items():
        wheres = [case.where for case, _ in members]
        # A question about builds has one table with one baseline. So all pairs here have the same sides.
        average = mean(wheres, members[0][1].sides)
        # JSON has no NaN. An unknown mean is left out.
        if math.isfinite(average.value):
            averages[name] = AverageRatio(average.value, average.low, average.high)
    card = replace(card, averages=averages)
    builds = [each for each in list_candidates(card) if not each.is_noise_check]
    # The kind decides the place of the card. Pages list NOT_MEASURED last, although the card may have the
    # result of a noise check. EQUAL keeps the card in its place.
    answer = builds[0].answer if builds else Answer(AnswerKind.EQUAL)
    return replace(card, answer=answer)


@dataclass(frozen=True)
class CaseAverages:
    """The rounds of a study, from which the ratio of two values of an axis is averaged over cases.

    `rounds` has a row for each cell, host and round (by_round). The axes in `order` identify a cell, and the
    axes `block` its block.
    """

    rounds: pd.DataFrame
    axis: str
    order: Sequence[str]
    block: Sequence[str]
    noise: Noise

    def mean(self, wheres: Sequence[AxisValues], sides: Sides) -> Estimate:
        """Return the geometric mean of the ratios baseline / candidate over cases, with its interval.

        `wheres` has the values of the other axes of each case: {"command": "log", "cache": "cold"}. Return
        NO_ESTIMATE (NaN) if no round has both sides, if there are several hosts, or if a block has fewer than
        MIN_AVERAGE_ROUNDS (3) rounds with all its cases.
        """
        ratios = self._ratios_by_round(wheres, sides)
        # Hosts differ in speed, so an average over several of them would describe none of them.
        if ratios.empty or self.rounds["host"].nunique() != 1:
            return NO_ESTIMATE
        blocks = [self._block_mean(rows, sides) for _, rows in group_rows(ratios, self.block)]
        # With few rounds in a block, the interval of the mean over all blocks would be too narrow.
        if any(block.n < MIN_AVERAGE_ROUNDS for block in blocks):
            return NO_ESTIMATE
        return _mean_of_blocks(blocks)

    def _ratios_by_round(self, wheres: Sequence[AxisValues], sides: Sides) -> pd.DataFrame:
        """Return a row for each case of `wheres` and each round that both `sides` have.

        A row has the axes except the compared one, `round`, and two new columns. `key` has the values of
        these axes as a tuple, ("log", "cold"). `log` is the logarithm of the ratio baseline / candidate.
        """
        other_axes = [name for name in self.order if name != self.axis]
        pairs = pair_rows(self.rounds, self.axis, sides, [*other_axes, "host", "round"])
        keys = list(zip(*(pairs[name] for name in other_axes), strict=True))
        logs = np.log(pairs[f"{DEFAULT_METRIC}_baseline"] / pairs[f"{DEFAULT_METRIC}_candidate"])
        ratios = pairs.assign(key=pd.Series(keys, pairs.index, dtype=object), log=logs)
        included = {tuple(where.get(name, "") for name in other_axes) for where in wheres}
        return ratios[ratios["key"].isin(included)]

    def _block_mean(self, ratios: pd.DataFrame, sides: Sides) -> Estimate:
        """Return the geometric mean ratio in a block, over the rounds in which all its cases were measured.

        `ratios` has the block's rows of _ratios_by_round().
        """
        # A row for each round, a column for each case. A round that lacks a case is dropped: the mean of
        # fewer cases is not comparable with the means of other rounds.
        logs = ratios.pivot(index="round", columns="key", values="log").dropna().sort_index()
        case_keys = [tuple(key) for key in logs.columns]
        # fsum() does not depend on the order of the cases.
        means_of_rounds = logs.apply(math.fsum, axis=1) / len(case_keys)
        estimate = ratio_interval(means_of_rounds, averaged=len(case_keys))
        # The interval of this estimate rests on the scatter of a few rounds. with_error() returns one that
        # also uses the noise of these cells and of the whole study.
        cell_pairs = [self._cells_of_case(key, sides) for key in case_keys]
        return self.noise.with_error(estimate, cell_pairs)

    def _cells_of_case(self, key: CellKey, sides: Sides) -> CellPair:
        """Return the keys of the two cells that a case compares, the candidate's first.

        A case has no value of the compared axis, a cell has: ("log", "cold") gives ("log", "new", "cold") and
        ("log", "old", "cold").
        """
        baseline, candidate = sides
        position = self.order.index(self.axis)
        before, after = key[:position], key[position:]
        return (*before, candidate, *after), (*before, baseline, *after)


def _mean_of_blocks(blocks: Sequence[Estimate]) -> Estimate:
    """Return the geometric mean of the mean ratios of blocks, each weighted by its number of cases."""
    # `averaged` is the number of cases that the ratio of a block averages.
    case_count = math.fsum(block.averaged for block in blocks)
    log_sum = math.fsum(block.averaged * math.log(block.value) for block in blocks)
    # Blocks run at different times, so their errors are independent. The variance of the mean is then the sum
    # of each block's variance times its squared share.
    variances = []
    for block in blocks:
        share = block.averaged / case_count
        variances.append(Variance(block.error**2, block.degrees).scaled(share**2))
    mean_variance = sum_variances(variances)
    # Without any scatter, the error is 0 with infinite degrees of freedom. The interval is then a point with
    # any number of degrees, so 1 will do.
    degrees = mean_variance.degrees if mean_variance.variance else 1.0
    fewest_rounds = min(block.n for block in blocks)
    mean_log = log_sum / case_count
    error = math.sqrt(mean_variance.variance)
    return interval(mean_log, error, degrees, fewest_rounds, case_count)
