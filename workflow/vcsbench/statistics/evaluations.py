"""The types of an evaluation of a finding: published conditions, facts about measured numbers, the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from vcsbench.codes import Verdict
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.noise import NO_NOISE, Noise
from vcsbench.statistics.verdicts import Reason

# The columns of measurements with the versions of client and server, such as `1.14.2`.
VERSION_COLUMNS = ("client_version", "server_version")
# The column of measurements with the kind of the storage, such as `SSD`.
STORAGE_COLUMN = "storage_kind"
FACT_COLUMNS = (*VERSION_COLUMNS, STORAGE_COLUMN)


@dataclass(frozen=True)
class Conditions:
    """Conditions under which published numbers were measured. An unpublished condition is None or "".

    Examples: the scale 1.0 (all revisions), Subversion `1.9`, storage `SSD`, a `server` on another machine,
    system `Windows`, history `real`. `revisions` has the number of revisions of each repository, and `files`
    that of the files of its tree. `limits` has the most revisions that a command reads at any scale: {"log":
    20000}. `ranges` has the last revision of commands that read a part of the repository, which shrinks with
    the scale: {"dump": 5000}.
    """

    scale: float | None = None
    subversion: str = ""
    storage: str = ""
    server: str = ""
    system: str = ""
    revisions: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    ranges: Mapping[str, int] = field(default_factory=dict)
    history: str = ""


NOTHING_PUBLISHED = Conditions()


@dataclass(frozen=True)
class EvaluationContext:
    """Facts about measured numbers that a verdict and its reasons use.

    - `scales`: the least measured share of the revisions of each repository: {"ruby": 0.12}.
    - `cells`: the axes of each measured cell, with those of the FACT_COLUMNS that were measured. A cell has a
      row for each different combination.
    - `noise`: a function from a metric and a statistic of runs to the noise.
    - `grid`: the cells of the study, with `skip`: why one is not measured, or "".
    - `baselines`: the frame of pair_cells of each saved baseline.
    - `are_expectations`: False for findings, which were published. True for the expectations of a user, which
      hold or fail.
    """

    scales: Mapping[str, float] = field(default_factory=dict)
    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    published: Conditions = NOTHING_PUBLISHED
    noise: Callable[[str, str], Noise] = lambda _metric, _statistic: NO_NOISE
    grid: Sequence[Mapping[str, str]] = ()
    baselines: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    are_expectations: bool = False

    def known_values(self, rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
        """Return the different values of some `columns` of `self.cells`, only of the cells that `rows` has.

        Example: `rows` are the rounds of cells on a disk, and other cells of the study are in RAM. Then the
        column STORAGE_COLUMN has the values ["SSD"]. Unknown values are left out.
        """
        if rows.empty:
            return []
        cells = self.cells
        # The axes identify a cell in both frames.
        shared_columns = [str(name) for name in cells if name in rows]
        # Without a shared column, all cells count.
        if shared_columns:
            # merge() leaves out the cells that `rows` lacks.
            cells = cells.merge(rows[shared_columns].drop_duplicates(), on=shared_columns)
        values: list[str] = []
        for name in columns:
            if name in cells:
                values += [str(value) for value in cells[name].dropna() if value != ""]
        return list(dict.fromkeys(values))


@dataclass(frozen=True)
class Evaluation:
    """A measured value, the verdict on it and its reasons; `over` is the reduction: `least of 12 cells`.

    `values` has the rows of CellCheck.compute_values from which the value is computed. It is empty without a
    value, and for a comparison with a saved baseline. The default is a finding without measurements.
    """

    estimate: Estimate = NO_ESTIMATE
    verdict: Verdict = Verdict.NOT_MEASURED
    reasons: Sequence[Reason] = ()
    over: str = ""
    values: pd.DataFrame = field(default_factory=pd.DataFrame)
