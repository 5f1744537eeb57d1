"""Expectations: what a user wants to hold, written like a finding and judged by the same code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from vcsbench.compare.bounds import INCONCLUSIVE, NOT_MEASURED, REPRODUCED
from vcsbench.compare.columns import OF_EXPECTATIONS
from vcsbench.compare.evaluation import Basis
from vcsbench.compare.findings import verdicts

# Nothing was published that could be reproduced: it holds.
HOLDS = "holds"


def expectation_verdicts(
    expectations: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    measured: pd.DataFrame,
    basis: Basis,
) -> pd.DataFrame:
    """A row per expectation: the columns of the findings, `published` empty, and `passes`.

    `verdict` is holds, differs, inconclusive or not measured.
    """
    rows = verdicts(expectations, axes, None, measured, basis)
    return _judged(expectations, rows.replace({"verdict": {REPRODUCED: HOLDS}}))


def unmeasured(study: str, expectations: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of a study that the configuration does not run."""
    rows = verdicts(expectations, [], None, None)
    return _judged(expectations, rows.assign(why=f"the key `studies` lacks {study}"))


def _judged(expectations: Sequence[Mapping[str, Any]], rows: pd.DataFrame) -> pd.DataFrame:
    """Whether `check` lets verdicts pass: what holds, and what the expectation allows."""
    allowing = {INCONCLUSIVE: "allow_inconclusive", NOT_MEASURED: "allow_not_measured"}
    pairs = zip(expectations, rows["verdict"], strict=True)
    passes = [verdict == HOLDS or e.get(allowing.get(verdict, ""), False) for e, verdict in pairs]
    return rows.assign(passes=["yes" if passed else "no" for passed in passes])[OF_EXPECTATIONS]
