"""Variances with their degrees of freedom: of sums, and of the rounds of cells without drift."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# The limits of the loop in _two_way_residuals(). Blocks without gaps need two steps, and blocks that lack a
# fifth of their rounds need about four.
MAX_STEPS = 100
SMALL_STEP = 1e-6


class Variance(NamedTuple):
    """A variance with its degrees of freedom: how well it is known (infinite: exactly)."""

    variance: float
    degrees: float = math.inf

    def scaled(self, factor: float) -> "Variance":
        """Return the variance of a value that is multiplied by the root of the factor."""
        return Variance(self.variance * factor, self.degrees)


def sum_variances(variances: Iterable[Variance]) -> Variance:
    """Return the variance of a sum of independent terms, with degrees of freedom by Satterthwaite (1946).

    Terms with the variance 0 do not count; without any other term, the sum is 0 with infinite degrees.
    Example: 4 with 10 degrees and 4 with 10 give 8 with 20. But 4 with 10 and 0.01 with 1 give 4.01 with
    10.05, because the term that is known badly is small.
    """
    terms = [term for term in variances if term.variance]
    total = math.fsum(term.variance for term in terms)
    # Half of the variance of the total, which is an estimate. The usual shortcut takes the smallest degrees
    # of all terms. These could be 1, and would make the interval six times as wide.
    half_of_variance = math.fsum(term.variance**2 / term.degrees for term in terms)
    # Terms that are known exactly add 0.
    degrees = total**2 / half_of_variance if half_of_variance else math.inf
    return Variance(total, degrees)


def residual_squares(logs: np.ndarray, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how much the rounds of each cell scatter: the sum of squared residuals, and its degrees.

    `logs` has the logarithms of times: a row per cell, and a column per round (NaN if missing). `blocks` has
    the number of each cell's block (cells that are measured next to each other), such as [0, 0, 1]. The two
    arrays of the result have an entry per cell. The sum divided by its degrees of freedom is the variance of
    one round.

    A slow minute of the machine makes all cells of a block slower, and cancels in the ratio of two cells. So
    a residual is a logarithm minus the mean of its cell, and minus the drift that all cells of the block
    share in this round (two-way analysis of variance). Example: two cells of a block have the rounds [1, 2]
    and [5, 6]. Their residuals are 0, because both rose by 1. A cell with one round, or alone in its block,
    has the sum 0 and 0 degrees.
    """
    squares, degrees = np.zeros(len(logs)), np.zeros(len(logs))
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        residuals = _two_way_residuals(logs[rows])
        squares[rows] = (residuals**2).sum(axis=1)
        degrees[rows] = _two_way_degrees(np.isfinite(logs[rows]))
    return squares, degrees


def _two_way_residuals(logs: np.ndarray) -> np.ndarray:
    """Return the logarithms of a block without the means of its rounds and of its cells.

    `logs` and the result have a row per cell and a column per round. A missing logarithm is NaN in `logs`,
    and 0 in the result.
    """
    is_measured = np.isfinite(logs)
    # The mean of a round or a cell without any value becomes 0 / 1.
    cells_of_round = np.maximum(is_measured.sum(axis=0), 1)
    rounds_of_cell = np.maximum(is_measured.sum(axis=1), 1)[:, None]
    residuals = np.where(is_measured, logs, 0.0)
    # Without gaps, it is exact to subtract the means of rounds and of cells once. With gaps, the mean of a
    # cell contains only the drift of the rounds that the cell has.
    for _ in range(MAX_STEPS):
        drift = residuals.sum(axis=0) / cells_of_round
        residuals = np.where(is_measured, residuals - drift, 0.0)
        levels = residuals.sum(axis=1, keepdims=True) / rounds_of_cell
        residuals = np.where(is_measured, residuals - levels, 0.0)
        # The means of the rounds were 0 before those of the cells (`levels`) were subtracted. If the levels
        # are small, both are nearly 0.
        if np.abs(levels).max(initial=0.0) < SMALL_STEP:
            break
    return residuals


def _two_way_degrees(is_measured: np.ndarray) -> np.ndarray:
    """Return the degrees of freedom of each cell of a block. `is_measured` has a row per cell.

    A block of c cells and r rounds has (c - 1)(r - 1), shared equally: 12 cells in 5 rounds have 3.67 each,
    which is 5 x (1 - 1 / 12) x (1 - 1 / 5). With gaps, each cell counts only its own rounds.
    """
    cells_of_round = is_measured.sum(axis=0)
    # A round of a single cell has a residual of 0, because its drift is unknown. So it does not count.
    is_shared = is_measured & (cells_of_round > 1)
    free = np.where(is_shared, 1 - 1 / np.maximum(cells_of_round, 1), 0.0).sum(axis=1)
    rounds_of_cell = np.maximum(is_shared.sum(axis=1), 1)
    return np.asarray(free * (1 - 1 / rounds_of_cell))
