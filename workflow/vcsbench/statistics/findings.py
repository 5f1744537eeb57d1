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
from vcsbench.statistics.evaluations import (
    FACT_COLUMNS,
    NOTHING_PUBLISHED,
    Conditions,
    Evaluation,
    EvaluationContext,
)
from vcsbench.statistics.expected_range import expected_range, range_text
from vcsbench.statistics.finding_checks import (
    CellCheck,
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

    `measured` has a row per run, `grid` a row per cell of the study, measured or not. `published` has the
    conditions under which the published numbers were measured.
    """
    # The columns that identify a cell: the axes, and further columns by which the study groups its runs.
    keys = [*settings.axes, *settings.by]
    frame, _ = add_key_columns(measured, settings.by)
    # The versions and the storage of a cell. A key may be a version itself, and a frame must not have a
    # column twice.
    names = dict.fromkeys([*keys, *FACT_COLUMNS])
    columns = [name for name in names if name in frame]
    return EvaluationContext(
        noise=_noise_by_metric_and_statistic(frame, keys, settings.block),
        scales=_least_scales(measured, settings.axes),
        cells=frame[columns].drop_duplicates(),
        published=published,
        # Cells of the empty repository measure start-up, and belong to no finding.
        grid=[row for row in grid if row.get(REPOSITORY_AXIS) != EMPTY],
        limits=settings.limits,
    )


def _noise_by_metric_and_statistic(
    frame: pd.DataFrame, keys: Sequence[str], block: Sequence[str]
) -> Callable[[str, str], Noise]:
    """Return a function from a metric and a statistic of the runs of a round to the noise of the study.

    Example: noise("elapsed_s", "best") is the noise of the best times of the rounds. `keys` are the columns
    that identify a cell, `block` those that identify its block.
    """

    # Runs are reduced to rounds once for all metrics of a statistic, because this takes most of the time.
    @cache
    def noise_of_statistic(statistic: str) -> Callable[[str], Noise]:
        return noise_by_metric(frame, keys, block, statistic=statistic)

    def noise(metric: str, statistic: str) -> Noise:
        noise_of_metric = noise_of_statistic(statistic)
        return noise_of_metric(metric)

    return noise


def _least_scales(measured: pd.DataFrame, axes: Sequence[str]) -> dict[str, float]:
    """Return the scale of each repository, the generated share of its published history: {"ruby": 0.12}.

    Of several scales of a repository, the smallest one is returned, because it can explain a weaker effect.
    Repositories without a scale are left out.
    """
    # The axis with the names of repositories, such as `repo`.
    subject = same_work.subject_axis(axes)
    if not subject:
        return {}
    least_scales = measured.groupby(subject)["scale"].min().dropna()
    return {str(name): float(scale) for name, scale in least_scales.items()}


def evaluate_findings(
    findings: Sequence[FindingDefinition],
    axes: Sequence[str],
    published: pd.DataFrame | None,
    measured: pd.DataFrame | None,
    context: EvaluationContext | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return a row per finding with its published and measured value, its verdict, and the reasons.

    `published` has a row per cell (read_published), `measured` a row per run. With None, the values are
    empty. The columns `axes` and `by` identify a cell. `context` is of make_context(); without it, there is
    no noise. Some columns of a row (FINDING_COLUMNS): `{"id": "f7-is-faster", "published": 2.4, "measured":
    2.0, "low": 1.9, "high": 2.1, "over": "mean of 12 pairs", "verdict": "reproduced"}`.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    margin = context.limits.margin
    published_rounds = None if published is None else aggregate_rounds(published, keys, by)
    # A function, because findings may be about different statistics, such as the best run of a round.
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
            # Conditions here that differ from the published ones, and may explain another value.
            explanations = reasons_of_difference(check, evaluation, rounds, context, published_rows)
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
    check: CellCheck, published: pd.DataFrame | None, evaluation: Evaluation, margin: float
) -> _PublishedValue:
    """Return the published value of the cells that are measured here, and remarks about other cells.

    A finding was published over all cells: "1.8 times over six repositories". If only two of these are
    measured here, the result is the published value of the two, such as 1.3. If all of them are measured,
    or none, the result is the value over all. The interval is made by _with_rounding().
    """
    if published is None or check.metric not in published:
        return _PublishedValue()
    rows = check.select_rows(published)
    all_values = check.compute_values(rows)
    # An estimate without a value is over 0 rounds (`n`).
    is_measured = bool(evaluation.estimate.n)
    if is_measured:
        # The published values of those cells or pairs that are measured here.
        shared_values = check.select_rows_with_values(evaluation.values, all_values)
        shared_estimate = check.estimate(shared_values)
        has_shared_value = bool(shared_estimate.n)
        is_part = check.count(shared_values) < check.count(all_values)
        if has_shared_value and is_part:
            value = _with_rounding(check, rows, shared_values, shared_estimate)
            remarks = _remark_on_published_cells(
                check, all_values, shared_values, evaluation, margin
            )
            return _PublishedValue(value, remarks)
    return _PublishedValue(_with_rounding(check, rows, all_values, check.estimate(all_values)))


def _remark_on_published_cells(
    check: CellCheck,
    all_values: pd.DataFrame,
    shared_values: pd.DataFrame,
    evaluation: Evaluation,
    margin: float,
) -> list[Reason]:
    """Return remarks on a finding that was published over more cells or pairs than are measured here.

    `all_values` are published for all cells or pairs, `shared_values` for those that are measured here. The
    first remark, ALL_PUBLISHED, has the published value of all. The second one, FEWER_CELLS, is only there if
    the published numbers of the measured cells deviate from the expected range as the measured ones do.
    """
    published_value_of_all = check.estimate(all_values)
    published_value_of_shared = check.estimate(shared_values).value
    # `1.8x` or `92 %`.
    unit = "x" if published_value_of_all.is_ratio else f" {check.unit}".rstrip()
    published_text = words.count_of(check.count(all_values), check.noun)
    facts_of_all = {
        "published": published_text,
        "value": published_value_of_all.value,
        "shown": f"{words.significant(published_value_of_all.value)}{unit}",
    }
    remarks = [Reason(ReasonCode.ALL_PUBLISHED, facts_of_all)]
    # Example: the expected range is 1.8 to 2.3. Two of six cells are measured, and have 1.2. Published is 1.3
    # for these two, which is below the range, too. So the other four cells may explain the difference.
    expected = expected_range(check.finding["expect"], margin)
    measured_side = expected.side_of(evaluation.estimate.value)
    deviate_likewise = expected.side_of(published_value_of_shared) == measured_side
    if evaluation.verdict in DIFFERENT and deviate_likewise:
        facts_of_shared = {
            "measured": check.count(shared_values),
            "published": published_text,
            "value": published_value_of_shared,
        }
        remarks.append(Reason(ReasonCode.FEWER_CELLS, facts_of_shared))
    return remarks


def _with_rounding(
    check: CellCheck, published: pd.DataFrame, values: pd.DataFrame, estimate: Estimate
) -> Estimate:
    """Return a published value with the interval that the last digits of its numbers leave open.

    2.4 s / 0.2 s is 12 times, or 9.4 to 16, because a printed 0.2 s was between 0.15 s and 0.25 s. `estimate`
    is the published value of the cells or pairs in `values`. `published` has the numbers of these cells, and
    maybe of others. A computed metric has no column such as elapsed_s_rounding, and keeps its estimate.
    """
    if not estimate.n or f"{check.metric}{ROUNDING}" not in published:
        return estimate
    ends = []
    for direction in (-1.0, 1.0):
        moved_values = check.compute_values(_move_to_ends(check, published, direction))
        moved_estimate = check.estimate(check.select_rows_with_values(values, moved_values))
        ends.append(moved_estimate.value)
    low, high = ends
    return replace(estimate, low=low, high=high)


def _move_to_ends(check: CellCheck, published: pd.DataFrame, direction: float) -> pd.DataFrame:
    """Return the published rows with each number at that end of its range that makes values least (-1).

    With the direction +1, values become greatest. The least ratio baseline / candidate of 2.4 s / 0.2 s is
    2.35 s / 0.25 s: the baseline's number moves down, the candidate's number up.
    """
    directions = pd.Series(direction, index=published.index)
    # Without sides, a value is a single number, so all numbers move in the same direction.
    if check.sides:
        _, candidate = check.sides
        is_candidate = published[check.compared_axis] == candidate
        directions = directions.mask(is_candidate, -direction)
    half_of_last_digit = published[f"{check.metric}{ROUNDING}"]
    moved_numbers = published[check.metric] + directions * half_of_last_digit
    return published.assign(**{check.metric: moved_numbers})


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    """Return a row per expectation of the user with its verdict, and the other EXPECTATION_COLUMNS.

    An expectation is evaluated as a finding without a published value. Then its verdict is renamed:
    `reproduced` becomes `holds`, and `weaker`, `stronger`, `gone` and `reversed` become `fails`. The other
    verdicts stay, such as `undecided`. `measured` has a row per run.
    """
    context_of_expectations = replace(context, are_expectations=True)
    rows = evaluate_findings(
        expectations, axes, published=None, measured=measured, context=context_of_expectations
    )
    new_names = dict.fromkeys(DIFFERENT, Verdict.FAILS)
    new_names[Verdict.REPRODUCED] = Verdict.HOLDS
    return _with_passes(expectations, rows.replace({"verdict": new_names}))


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
