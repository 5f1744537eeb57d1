"""Evaluate findings, and a user's expectations, on published and measured numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from vcsbench import words
from vcsbench.axis_names import REPOSITORY_AXIS
from vcsbench.codes import ReasonCode, Verdict
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import same_work
from vcsbench.statistics import finding_checks, verdicts
from vcsbench.statistics.aggregation import (
    MEAN,
    ROUNDING,
    add_key_columns,
    by_round,
    rows_of_statistic,
)
from vcsbench.statistics.comparisons import STATISTIC
from vcsbench.statistics.difference_reasons import DIFFERENT, reasons_of_difference
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.expected_range import expected_range, range_text
from vcsbench.statistics.finding_checks import (
    FACT_COLUMNS,
    NOTHING_PUBLISHED,
    CellCheck,
    Conditions,
    Evaluation,
    EvaluationContext,
)
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.settings import StudySettings
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition


def make_context(
    measured: pd.DataFrame,
    grid: Sequence[Mapping[str, str]],
    settings: StudySettings,
    published: Conditions = NOTHING_PUBLISHED,
) -> EvaluationContext:
    """Return the facts about measurements that verdicts and their reasons use.

    `measured` has a row per run, `grid` a row per cell of the study, measured or not.
    """
    keys = [*settings.axes, *settings.by]
    frame, _ = add_key_columns(measured, settings.by)

    # The rounds of a statistic are computed once for all metrics.
    @cache
    def noise_of_statistic(statistic: str) -> Callable[[str], Noise]:
        return noise_by_metric(frame, keys, settings.block, statistic=statistic)

    def noise(metric: str, statistic: str) -> Noise:
        noise_of_metric = noise_of_statistic(statistic)
        return noise_of_metric(metric)

    # The least share of the revisions counts, because the scale is to explain a weaker effect.
    scales: dict[str, float] = {}
    subject = same_work.subject_axis(settings.axes)
    if subject:
        least_scales = measured.groupby(subject)["scale"].min().dropna()
        scales = {str(value): float(scale) for value, scale in least_scales.items()}
    # A key column may be a version itself, and a frame must not have a column twice.
    columns = [name for name in dict.fromkeys([*keys, *FACT_COLUMNS]) if name in frame]
    return EvaluationContext(
        noise=noise,
        scales=scales,
        cells=frame[columns].drop_duplicates(),
        published=published,
        # Cells of the empty repository measure start-up, and belong to no finding.
        grid=[row for row in grid if row.get(REPOSITORY_AXIS) != EMPTY],
        limits=settings.limits,
    )


def evaluate_findings(
    findings: Sequence[FindingDefinition],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    context: EvaluationContext | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a row per finding with its values, its verdict and the other columns of FINDING_COLUMNS.

    `published` has a row per cell (read_published), `measured` a row per run. With None, the columns of the
    published or measured values are empty. `by` are columns that identify cells in addition to `axes`.
    Without a `context` (make_context), there is no noise. Some columns of a row: `{"id": "f7-is-faster",
    "published": 2.4, "measured": 2.0, "low": 1.9, "high": 2.1, "over": "mean of 12 pairs", "verdict":
    "reproduced"}`.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    margin = context.limits.margin
    published_rounds = None if published is None else aggregate_rounds(published, keys, by)
    aggregate_measured = None if measured is None else rounds_by_statistic(measured, keys, by)
    rows = []
    for finding in findings:
        check = finding_checks.make_check(finding, keys)
        published_rows = None
        if published_rounds is not None:
            published_rows = _rows_of_published_statistic(check, published_rounds)
        evaluation = Evaluation()
        explanations: Sequence[Reason] = ()
        if aggregate_measured is not None:
            rounds = aggregate_measured(check.statistic)
            evaluation = check.evaluate(rounds, context)
            explanations = reasons_of_difference(check, evaluation, rounds, context, published_rows)
        published_value = _PublishedValue()
        if published_rows is not None and check.metric in published_rows:
            published_value = _published_value(check, published_rows, evaluation, margin)
        reasons = [*evaluation.reasons, *explanations, *published_value.remarks]
        rows.append(_finding_row(check, evaluation, published_value.estimate, reasons, margin))
    return pd.DataFrame(rows, columns=verdicts.FINDING_COLUMNS)


def _rows_of_published_statistic(check: CellCheck, published: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows of a finding's statistic, with the keys that measured cells have.

    Published numbers may have a row for each statistic, such as `median`. The column `statistic` is then one
    of the keys of a cell. Measured cells have "" in this column, so published cells get "" as well.
    """
    rows = rows_of_statistic(published, check.published_statistic)
    return rows.assign(**{STATISTIC: ""}) if STATISTIC in rows else rows


def _finding_row(
    check: CellCheck,
    evaluation: Evaluation,
    published: Estimate,
    reasons: Sequence[Reason],
    margin: float,
) -> dict[str, object]:
    """Return the row of a finding, with the columns verdicts.FINDING_COLUMNS."""
    finding = check.finding
    return {
        "id": finding["id"],
        "statement": finding["statement"],
        "published": published.value,
        "published_low": published.low,
        "published_high": published.high,
        "measured": evaluation.estimate.value,
        "low": evaluation.estimate.low,
        "high": evaluation.estimate.high,
        "unit": check.unit,
        "over": evaluation.over,
        "expected": range_text(finding["expect"], margin),
        "verdict": evaluation.verdict,
        "reasons": _reasons_json(reasons),
    }


class _PublishedValue(NamedTuple):
    """A published value of a finding, and remarks if it is not over all published cells."""

    estimate: Estimate = NO_ESTIMATE
    remarks: Sequence[Reason] = ()


def _published_value(
    check: CellCheck, published: pd.DataFrame, evaluation: Evaluation, margin: float
) -> _PublishedValue:
    """Return the published value of the cells that are measured here, and remarks about other cells.

    A finding was published over all cells: "1.8 times over six repositories". If only two of these are
    measured here, the result is the published value of the two, such as 1.3. If all of them are measured,
    or none, the result is the value over all. The interval is that of _with_rounding().
    """
    rows = check.select_rows(published)
    values = check.compute_values(rows)
    # The number of rounds `n` is 0 without a measured value.
    if evaluation.estimate.n:
        shared = check.select_rows_with_values(evaluation.values, values)
        over_shared = check.estimate(shared)
        is_part = check.count(shared) < check.count(values)
        # Here `n` is 0 if no measured cell was published.
        if is_part and over_shared.n:
            remarks = _remark_on_published_cells(check, values, shared, evaluation, margin)
            return _PublishedValue(_with_rounding(check, rows, shared, over_shared), remarks)
    return _PublishedValue(_with_rounding(check, rows, values, check.estimate(values)))


def _remark_on_published_cells(
    check: CellCheck,
    values: pd.DataFrame,
    shared: pd.DataFrame,
    evaluation: Evaluation,
    margin: float,
) -> list[Reason]:
    """Return remarks on a finding that was published over more cells or pairs than are measured here.

    `values` has the published values of all cells or pairs, `shared` those of the measured ones. The first
    remark has the value over all. The second remark is only there if the missing cells may explain the
    verdict.
    """
    over_all, over_shared = check.estimate(values), check.estimate(shared)
    # `1.8x` or `92 %`.
    unit = "x" if over_all.is_ratio else f" {check.unit}".rstrip()
    value_text = f"{words.significant(over_all.value)}{unit}"
    published_text = words.count_of(check.count(values), check.noun)
    facts_of_all = {"published": published_text, "value": over_all.value, "shown": value_text}
    remarks = [Reason(ReasonCode.ALL_PUBLISHED, facts_of_all)]
    # The measured value and the published value of the same cells may be on the same side of the expected
    # range: 1.2 and 1.3 are below 1.8 to 2.3. Then the cells that are not measured may explain a difference.
    expected = expected_range(check.finding["expect"], margin)
    measured_side = expected.side_of(evaluation.estimate.value)
    is_same_side = expected.side_of(over_shared.value) == measured_side
    if evaluation.verdict in DIFFERENT and is_same_side:
        facts_of_shared = {
            "measured": check.count(shared),
            "published": published_text,
            "value": over_shared.value,
        }
        remarks.append(Reason(ReasonCode.FEWER_CELLS, facts_of_shared))
    return remarks


def _with_rounding(
    check: CellCheck, published: pd.DataFrame, values: pd.DataFrame, estimate: Estimate
) -> Estimate:
    """Return a published value with the interval that the last digits of its numbers leave open.

    2.4 s / 0.2 s is 12 times, or 9.4 to 16, because a printed 0.2 s was between 0.15 s and 0.25 s. Without a
    column such as elapsed_s_rounding, which a computed metric lacks, the estimate is returned as it is.
    `estimate` is over the cells or pairs of `values`. `published` may have more of them.
    """
    rounding = f"{check.metric}{ROUNDING}"
    if not estimate.n or rounding not in published:
        return estimate
    ends = []
    # All numbers are moved to the end of their range that makes the value least (-1), then to the end that
    # makes it greatest (+1). The least ratio baseline / candidate is 2.35 s / 0.25 s: the numbers of the
    # candidate move up while those of the baseline move down.
    for direction in (-1.0, 1.0):
        directions = pd.Series(direction, index=published.index)
        # Without sides, each value is a number of its own, and all numbers move in the same direction.
        if check.sides:
            _, candidate = check.sides
            is_candidate = published[check.compared_axis] == candidate
            directions = directions.mask(is_candidate, -direction)
        moved_numbers = published[check.metric] + directions * published[rounding]
        moved = check.compute_values(published.assign(**{check.metric: moved_numbers}))
        moved_estimate = check.estimate(check.select_rows_with_values(values, moved))
        ends.append(moved_estimate.value)
    low, high = ends
    return replace(estimate, low=low, high=high)


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    """Return a row per expectation of the user with its verdict, and the other EXPECTATION_COLUMNS.

    An expectation has the form of a finding, but holds or fails: to fail in the opposite direction (reversed)
    is no different from failing by a little (weaker). A certain gain of 3 % fails for the direction `faster`,
    because the gain is below the margin (gone). `measured` has a row per run.
    """
    context = replace(context, are_expectations=True)
    rows = evaluate_findings(expectations, axes, None, measured, context)
    renamed = dict.fromkeys(DIFFERENT, Verdict.FAILS)
    renamed[Verdict.REPRODUCED] = Verdict.HOLDS
    return _with_passes(expectations, rows.replace({"verdict": renamed}))


def unmeasured_expectations(study: str, expectations: Sequence[FindingDefinition]) -> pd.DataFrame:
    """Return the rows of expectations on a study that the configuration does not measure."""
    rows = evaluate_findings(expectations, [], None, None)
    reasons = _reasons_json([Reason(ReasonCode.STUDY_NOT_MEASURED, {"study": study})])
    return _with_passes(expectations, rows.assign(reasons=reasons))


def _with_passes(expectations: Sequence[FindingDefinition], rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the column `passes`: `yes` or `no`, which decides the exit code of `make check`.

    An expectation that holds passes. If it is undecided or too small to compare, it passes only with its key
    `allow_inconclusive`. If it was not measured, it passes only with `allow_not_measured`.
    """
    passes = []
    for expectation, verdict in zip(expectations, rows["verdict"], strict=True):
        does_pass = verdict == Verdict.HOLDS
        if verdict in (Verdict.UNDECIDED, Verdict.TOO_SMALL):
            does_pass = expectation.get("allow_inconclusive", False)
        elif verdict == Verdict.NOT_MEASURED:
            does_pass = expectation.get("allow_not_measured", False)
        passes.append("yes" if does_pass else "no")
    return rows.assign(passes=passes)[verdicts.EXPECTATION_COLUMNS]


def _reasons_json(reasons: Sequence[Reason]) -> str:
    """Return reasons as JSON: `[{"code": "scale", "values": {"subject": "ruby", "share": 5.0}}]`."""
    # `default` converts the numbers of numpy.
    return json.dumps([asdict(reason) for reason in reasons], default=float)


def aggregate_rounds(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str], statistic: str = MEAN
) -> pd.DataFrame:
    """Return the rows of by_round of a frame. `keys` are its axes and the columns `by`."""
    frame, _ = add_key_columns(frame, by)
    return by_round(frame, keys, statistic)


def rounds_by_statistic(
    frame: pd.DataFrame, keys: Sequence[str], by: Sequence[str]
) -> Callable[[str], pd.DataFrame]:
    """Return a function from a statistic, such as `mean`, to the rows of aggregate_rounds().

    The function computes the rows of a statistic only once (cache). Most findings share a statistic, and
    aggregating takes most of the time.
    """
    return cache(lambda statistic: aggregate_rounds(frame, keys, by, statistic))
