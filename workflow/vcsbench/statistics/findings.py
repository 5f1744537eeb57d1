"""Evaluate findings, and a user's expectations, on published and measured numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING

import pandas as pd

from vcsbench import words
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import same_work
from vcsbench.statistics import verdicts
from vcsbench.statistics.aggregation import MEAN, add_key_columns, by_round, rows_of_statistic
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.finding_checks import CellCheck, Evaluation, EvaluationContext, check_of
from vcsbench.statistics.noise import noise_by_metric
from vcsbench.statistics.verdicts import Conditions, Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition


def context_of(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published: Conditions | None = None,
    study: str = "",
) -> EvaluationContext:
    def values(*columns: str) -> list[str]:
        known = [measured[column].dropna() for column in columns if column in measured]
        return [str(value) for column in known for value in column.unique()]

    subject = same_work.subject_axis(axes)
    lowest = measured.groupby(subject)["scale"].min().dropna() if subject else pd.Series()
    return EvaluationContext(
        noise=noise_by_metric(measured, axes, block),
        scales={str(value): float(scale) for value, scale in lowest.items()},
        versions=values("client_version", "server_version"),
        storages=values("storage_kind"),
        study=study,
        published=published or Conditions(),
        grid=[row for row in grid if row.get("repo") != EMPTY],
        limits=limits,
    )


def evaluate_findings(
    findings: Sequence[FindingDefinition],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    context: EvaluationContext | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a row per finding, with the columns verdicts.OF_FINDINGS.

    `published` is a frame of read_published, `measured` of the measurements; either may be None. `by` are
    columns that identify cells as axes do. `measured` of a row is the mean over rounds (geometric for
    ratios) of the median in each round, or the least or greatest such mean, `low` and `high` its interval.
    `published` is the value over the measured cells, or over all if none of them was published.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    known = None if published is None else rounds_of(published, keys, by)
    rounds = None if measured is None else cache(partial(rounds_of, measured, keys, by))
    rows = []
    for finding in findings:
        check, theirs, remarks = check_of(finding, keys), NO_ESTIMATE, list[Reason]()
        ours = check.evaluate(rounds(check.statistic), context) if rounds else Evaluation()
        if known is not None and check.metric in known:
            of_statistic = rows_of_statistic(known, check.statistic)
            theirs, remarks = _published(check, of_statistic, ours)
        reasons = [*ours.reasons, *remarks]
        rows.append(
            {
                "id": finding["id"],
                "statement": finding["statement"],
                "published": theirs.value,
                "measured": ours.estimate.value,
                "low": ours.estimate.low,
                "high": ours.estimate.high,
                "unit": check.unit,
                "over": ours.over,
                "expected": verdicts.bounds_text(finding),
                "verdict": ours.verdict,
                "why": "; ".join(reason.text for reason in reasons),
                "reasons": json.dumps([asdict(reason) for reason in reasons], default=float),
            }
        )
    return pd.DataFrame(rows, columns=verdicts.OF_FINDINGS)


def _published(
    check: CellCheck, published: pd.DataFrame, ours: Evaluation
) -> tuple[Estimate, list[Reason]]:
    """Return the published value of the measured cells, and remarks if all cells have another.

    It is a possible reason if it differs from the expected range as the measured value does.
    """
    known = check.values(check.involved(published))
    theirs, all_ = check.estimate(known), check.count(known)
    rows = check.rows_of(ours.values, known) if ours.estimate.n else known
    same, number = check.estimate(rows), check.count(rows)
    if number == all_ or not same.n:
        return theirs, []
    count = words.count_of(all_, check.noun)
    unit = "x" if theirs.is_ratio else f" {check.unit}".rstrip()
    shown = f"{words.significant(theirs.value)}{unit}"
    numbers = {"published": count, "value": theirs.value, "shown": shown}
    reasons = [Reason("all-published", numbers)]
    sides = [verdicts.side_of(check.finding, value) for value in (same.value, ours.estimate.value)]
    if ours.verdict == verdicts.DIFFERS and sides[0] == sides[1]:
        numbers = {"measured": number, "published": count, "value": same.value}
        reasons.append(Reason("fewer-cells", numbers))
    return same, reasons


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    rows = evaluate_findings(expectations, axes, None, measured, context)
    return _with_passes(
        expectations, rows.replace({"verdict": {verdicts.REPRODUCED: verdicts.HOLDS}})
    )


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    rows = evaluate_findings(expectations, [], None, None)
    return _with_passes(expectations, rows.assign(why=f"the key `studies` lacks {study}"))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    allowing = {
        verdicts.INCONCLUSIVE: "allow_inconclusive",
        verdicts.NOT_MEASURED: "allow_not_measured",
    }
    pairs = zip(expectations, rows["verdict"], strict=True)
    passes = [
        verdict == verdicts.HOLDS or e.get(allowing.get(verdict, ""), False) for e, verdict in pairs
    ]
    columns = verdicts.OF_EXPECTATIONS
    return rows.assign(passes=["yes" if passed else "no" for passed in passes])[columns]


def rounds_of(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    return by_round(add_key_columns(frame, by)[0], keys, statistic)
