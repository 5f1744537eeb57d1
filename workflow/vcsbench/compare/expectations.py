"""Expectations: what a user wants to hold, written like a finding and judged by the same code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench.compare.bounds import INCONCLUSIVE, NOT_MEASURED, REPRODUCED
from vcsbench.compare.evaluation import Basis
from vcsbench.compare.findings import COLUMNS as FINDING_COLUMNS
from vcsbench.compare.findings import verdicts

# `passes` is `yes` or `no`: what `check` makes of the verdict.
COLUMNS = [*FINDING_COLUMNS, "passes"]
# Nothing was published that could be reproduced: it holds.
HOLDS = "holds"


def expectation_verdicts(
    expectations: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    measured: pd.DataFrame,
    basis: Basis,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """A row per expectation: the columns of the findings, `published` empty, and `passes`.

    `verdict` is holds, differs, inconclusive or not measured.
    """
    rows = verdicts(expectations, axes, None, measured, basis, by)
    rows["verdict"] = rows["verdict"].replace(REPRODUCED, HOLDS)
    said = zip(expectations, rows["verdict"], strict=True)
    return rows.assign(passes=["yes" if passes(e, word) else "no" for e, word in said])[COLUMNS]


def passes(expectation: Mapping[str, Any], verdict: str) -> bool:
    """Whether `check` lets a verdict pass: what holds, and what the expectation allows."""
    allowed = {
        HOLDS: True,
        INCONCLUSIVE: expectation.get("allow_inconclusive", False),
        NOT_MEASURED: expectation.get("allow_not_measured", False),
    }
    return bool(allowed.get(verdict, False))


def unmeasured(study: str, expectations: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of a study that the configuration does not run."""
    rows = verdicts(expectations, [], None, None).assign(why=f"the key `studies` lacks {study}")
    allowed = ["yes" if passes(e, NOT_MEASURED) else "no" for e in expectations]
    return rows.assign(passes=allowed)[COLUMNS]
