"""Evaluate findings, and a user's expectations, on published and measured numbers.

A finding that differs has possible reasons: other conditions than published that explain its direction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from vcsbench import words
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, REPOSITORY_AXIS
from vcsbench.codes import ReasonCode, Verdict
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.statistics import finding_checks, verdicts
from vcsbench.statistics.aggregation import (
    MEAN,
    ROUNDING,
    add_key_columns,
    by_round,
    rows_of_statistic,
    rows_where,
)
from vcsbench.statistics.comparisons import Limits
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate
from vcsbench.statistics.expected_range import expected_range, range_text
from vcsbench.statistics.finding_checks import CellCheck, Conditions, Evaluation, EvaluationContext
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.shrinkage import NO_SHRINKAGE, Shrinkage, shrinkage_of
from vcsbench.statistics.verdicts import Reason

if TYPE_CHECKING:
    from vcsbench.config.definitions import FindingDefinition

DIFFERENT = (Verdict.WEAKER, Verdict.STRONGER, Verdict.GONE, Verdict.REVERSED)
# The rank of a kind of storage by the duration of a cold read.
SLOWNESS = {"RAM": 0, "SSD": 1, "spinning disk": 2}


def make_context(
    measured: pd.DataFrame,
    axes: Sequence[str],
    grid: Sequence[Mapping[str, str]],
    block: Sequence[str],
    limits: Limits,
    published: Conditions | None = None,
    study: str = "",
    by: Sequence[str] = (),
) -> EvaluationContext:
    """Return the facts about measurements that verdicts and their reasons use.

    `measured` has a row per run. `axes` and the columns `by` identify cells; cells with equal values of the
    axes `block` run next to each other. `grid` has the cells of the study: their axes, and `skip` with a text
    why one is not measured, or "". `published` are the conditions of the published numbers, such as the kind
    of storage; None if nothing was published.
    """

    def list_values(*columns: str) -> list[str]:
        values: list[str] = []
        for column in columns:
            if column in measured:
                values += [str(value) for value in measured[column].dropna().unique()]
        return values

    @cache
    def noise_of_statistic(statistic: str) -> Callable[[str], Noise]:
        frame, _ = add_key_columns(measured, by)
        return noise_by_metric(frame, [*axes, *by], block, statistic=statistic)

    # The scale is the share of a repository's revisions that was measured, such as 0.12. The smallest one
    # counts, because it is compared with the published scale to explain a weaker effect.
    scales: dict[str, float] = {}
    subject = same_work.subject_axis(axes)
    if subject:
        least_scales = measured.groupby(subject)["scale"].min().dropna()
        scales = {str(value): float(scale) for value, scale in least_scales.items()}
    return EvaluationContext(
        noise=lambda metric, statistic: noise_of_statistic(statistic)(metric),
        scales=scales,
        versions=list_values("client_version", "server_version"),
        storages=list_values("storage_kind"),
        study=study,
        published=published or Conditions(),
        # Cells of the empty repository measure start-up, and belong to no finding.
        grid=[row for row in grid if row.get(REPOSITORY_AXIS) != EMPTY],
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
    """Judge each finding, and return a row for it with the columns verdicts.OF_FINDINGS.

    A finding is a statement such as "f7 is at least 1.8 times as fast", whose value is computed from cells.
    `published` is a frame of read_published(), a row per cell. `measured` is a frame of the measurements, a
    row per run. Each may be None: then the column of its values is empty. `by` are further columns that
    identify cells as axes do. Without `context`, the verdicts know no noise and no conditions.

    Columns of the result that need an explanation:

    - `measured`: the mean over cells or pairs and rounds (geometric for ratios), or the least or greatest of
      the means of cells. `low` and `high` are its interval.
    - `published`: the published value of the measured cells, or of all cells if none of the measured ones was
      published. Its interval is the range that the last digits leave open: 2.4 s / 0.2 s is 12 times, or 9.4
      to 16.
    - `reasons`: JSON of the reasons for the verdict, then of what may explain a difference.
    """
    keys = [*axes, *by]
    context = context or EvaluationContext()
    published_rounds = None if published is None else aggregate_rounds(published, keys, by)
    # By statistic: most findings share one, and aggregating takes most of the time.
    measured_rounds: dict[str, pd.DataFrame] = {}
    rows = []
    for finding in findings:
        check = finding_checks.make_check(finding, keys)
        ours = Evaluation()
        possible: Sequence[Reason] = ()
        if measured is not None:
            statistic = check.statistic
            if statistic not in measured_rounds:
                measured_rounds[statistic] = aggregate_rounds(measured, keys, by, statistic)
            rounds = measured_rounds[statistic]
            ours = check.evaluate(rounds, context)
            shrinkage = NO_SHRINKAGE
            # Only a difference has possible reasons.
            if published_rounds is not None and ours.verdict in DIFFERENT:
                shrinkage = _shrinkage_of_finding(check, published_rounds, rounds, context)
            # Other conditions than published that can explain a difference.
            possible = reasons_of_difference(check, ours, rounds, context, shrinkage)
        theirs = _PublishedValue()
        if published_rounds is not None and check.metric in published_rounds:
            rows_published = rows_of_statistic(published_rounds, check.statistic)
            theirs = _published_value(check, rows_published, ours, context.limits.margin)
        rows.append(
            {
                "id": finding["id"],
                "statement": finding["statement"],
                "published": theirs.estimate.value,
                "published_low": theirs.estimate.low,
                "published_high": theirs.estimate.high,
                "measured": ours.estimate.value,
                "low": ours.estimate.low,
                "high": ours.estimate.high,
                "unit": check.unit,
                "over": ours.over,
                "expected": range_text(finding["expect"], context.limits.margin),
                "verdict": ours.verdict,
                "reasons": _reasons_json([*ours.reasons, *possible, *theirs.remarks]),
            }
        )
    return pd.DataFrame(rows, columns=verdicts.OF_FINDINGS)


def _shrinkage_of_finding(
    check: CellCheck, published: pd.DataFrame, measured: pd.DataFrame, context: EvaluationContext
) -> Shrinkage:
    """Return how much less time the finding's cells take than published, for cold and for warm caches.

    The finding itself may be about one state of the caches, such as `cold`. The comparison of cold with warm
    caches tells if the storage explains a difference, so the cells of all states are used.
    """
    axes = [axis for axis in check.axes if axis in published and axis in measured]
    where = {axis: check.where[axis] for axis in axes if axis in check.where and axis != CACHE_AXIS}
    # Scales are shares of a repository's revisions. If the published study measured only a part of them, the
    # amount of work now is relative to that part. Without a published scale, all of them are assumed.
    whole = context.published.scale or 1.0
    return shrinkage_of(
        rows_where(published, where),
        rows_where(measured, where),
        axes,
        same_work.subject_axis(check.axes),
        {name: scale / whole for name, scale in context.scales.items()},
    )


class _PublishedValue(NamedTuple):
    """A published value of a finding, and remarks if the value over all published cells is another."""

    estimate: Estimate = NO_ESTIMATE
    remarks: Sequence[Reason] = ()


def _published_value(
    check: CellCheck, published: pd.DataFrame, ours: Evaluation, margin: float
) -> _PublishedValue:
    """Return the published value of the cells that are measured here, and remarks about other cells.

    `published` has the published cells, `ours` the measured value with its cells. A finding was published
    over all cells: "1.8 times over six repositories". If only two of them are measured here, the published
    value of these two, such as 1.3, is the right value to compare with. A remark tells the value over all
    cells.

    If both 1.3 and the measured value lie on the same side of the expected range, the missing cells may
    explain why the finding differs. A second remark tells that. The value is over all published cells if
    nothing is measured, or if no measured cell was published.
    """
    rows = check.select_rows(published)
    values = check.compute_values(rows)
    over_all = check.estimate(values)
    number_of_all = check.count(values)
    shared = values
    if ours.estimate.n:
        shared = check.select_rows_with_values(ours.values, values)
    over_shared = check.estimate(shared)
    number_of_shared = check.count(shared)
    if number_of_shared == number_of_all or not over_shared.n:
        return _PublishedValue(_with_rounding(check, rows, values, over_all))
    published_text = words.count_of(number_of_all, check.noun)
    unit = "x" if over_all.is_ratio else f" {check.unit}".rstrip()
    value_text = f"{words.significant(over_all.value)}{unit}"
    facts = {"published": published_text, "value": over_all.value, "shown": value_text}
    remarks = [Reason(ReasonCode.ALL_PUBLISHED, facts)]
    expected = expected_range(check.finding["expect"], margin)
    is_same_side = expected.side_of(over_shared.value) == expected.side_of(ours.estimate.value)
    if ours.verdict in DIFFERENT and is_same_side:
        facts = {
            "measured": number_of_shared,
            "published": published_text,
            "value": over_shared.value,
        }
        remarks.append(Reason(ReasonCode.FEWER_CELLS, facts))
    return _PublishedValue(_with_rounding(check, rows, shared, over_shared), remarks)


def _with_rounding(
    check: CellCheck, published: pd.DataFrame, values: pd.DataFrame, estimate: Estimate
) -> Estimate:
    """Return a published value with the interval that the last digits of its numbers leave open.

    A printed 0.2 s was between 0.15 s and 0.25 s. All numbers are moved to the end of their range that makes
    the value least, then to the end that makes it greatest. `published` has the rows of the numbers, with
    half of the last digit in a column such as elapsed_s_rounding. `values` selects the cells of `estimate`. A
    metric that is computed from other columns has no such column, and the estimate is returned as it is.
    """
    rounding = f"{check.metric}{ROUNDING}"
    if not estimate.n or rounding not in published:
        return estimate
    ends = []
    # The ratio baseline / candidate is least with the smallest baseline and the largest candidate. So the
    # numbers of the candidate move in the other direction than the baseline's numbers.
    for sign in (-1, 1):
        signs = pd.Series(float(sign), index=published.index)
        if check.sides:
            is_candidate = published[check.compare["axis"]] == check.sides[1]
            signs = signs.mask(is_candidate, -float(sign))
        shifted = published[check.metric] + signs * published[rounding]
        moved = check.compute_values(published.assign(**{check.metric: shifted}))
        ends.append(check.estimate(check.select_rows_with_values(values, moved)).value)
    low, high = ends
    return replace(estimate, low=low, high=high)


def evaluate_expectations(
    expectations: Sequence[FindingDefinition],
    axes: Sequence[str],
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> pd.DataFrame:
    """Judge the expectations of the user, and return a row for each with the columns OF_EXPECTATIONS.

    An expectation is written like a finding, but the user is its author. It holds or fails. To fail in the
    opposite direction (reversed) is no different from failing by a little (weaker). So these four verdicts
    become `fails`, and `reproduced` becomes `holds`. The other verdicts stay, such as `undecided`.
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

    An expectation that holds passes. One that is undecided or too small to compare passes only with its key
    `allow_inconclusive`, one that was not measured only with `allow_not_measured`.
    """
    passes = []
    for expectation, verdict in zip(expectations, rows["verdict"], strict=True):
        does_pass = verdict == Verdict.HOLDS
        if verdict in (Verdict.UNDECIDED, Verdict.TOO_SMALL):
            does_pass = expectation.get("allow_inconclusive", False)
        elif verdict == Verdict.NOT_MEASURED:
            does_pass = expectation.get("allow_not_measured", False)
        passes.append("yes" if does_pass else "no")
    return rows.assign(passes=passes)[verdicts.OF_EXPECTATIONS]


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


def reasons_of_difference(
    check: CellCheck,
    ours: Evaluation,
    rounds: pd.DataFrame,
    context: EvaluationContext,
    shrinkage: Shrinkage = NO_SHRINKAGE,
) -> list[Reason]:
    """Return the conditions that may explain why a finding differs from the published one; otherwise [].

    A finding differs if it is weaker, stronger, gone or reversed. The likeliest reason comes first. `ours` is
    the measured value with its verdict, and `rounds` are the measured rounds of the study. `shrinkage` is how
    much less time cold and warm cells take than published.
    """
    if ours.verdict not in DIFFERENT or ours.values.empty:
        return []
    direction: Verdict | None = ours.verdict
    # A finding may be on values of cells ("the CPU is at least 90 % busy") that some cells reach and others
    # do not. A condition that is the same for all cells, such as the storage, cannot explain that. With the
    # direction None, possible_reasons() leaves such conditions out.
    if not check.sides:
        expected = expected_range(check.finding["expect"], context.limits.margin)
        for _, values in group_rows(ours.values, check.keys):
            if expected.contains(check.estimate(values).value):
                direction = None
    rows = check.select_rows_with_values(ours.values, check.select_rows(rounds))
    subject = same_work.subject_axis(check.axes)
    reasons = list(possible_reasons(direction, rows, subject, context, shrinkage))
    if shrinkage.is_known:
        # OTHER_STORAGE means here that cold results did not become faster by more than warm ones (in that
        # case it would be FASTER_STORAGE). Only cold results read the storage, so it explains least, and its
        # reason goes to the end: False sorts before True.
        reasons.sort(key=lambda reason: reason.code == ReasonCode.OTHER_STORAGE)
    return reasons


def possible_reasons(
    direction: Verdict | None,
    rows: pd.DataFrame,
    subject: str,
    context: EvaluationContext,
    shrinkage: Shrinkage = NO_SHRINKAGE,
) -> Iterator[Reason]:
    """Yield the conditions that differ from the published ones, and can explain how a finding differs.

    `direction` is how it differs: weaker, stronger, gone or reversed. With None, only conditions that may
    change a value in any direction are yielded. `rows` are the rounds of the finding's cells. `subject` is
    the axis of repositories or trees, "" without one. In their order:

    - other storage, if the commands read it, and if it can explain the direction
    - repositories smaller than published, for a weaker effect or none
    - a newer version of Subversion
    - servers that ran on another operating system
    - client and server on the same machine, for a stronger effect
    """
    published = context.published
    kinds = [kind for kind in context.storages if kind] if _reads_storage(rows) else []
    effects: set[Verdict] = set()
    for kind in kinds:
        effects |= _effects_of_storage(kind, published.storage)
    if published.storage not in kinds and direction in effects:
        facts: dict[str, object] = {
            "measured": words.enumeration(kinds),
            "published": published.storage,
        }
        if shrinkage.is_of_storage(context.limits.margin):
            facts |= {"cold": shrinkage.cold, "warm": shrinkage.warm}
            yield Reason(ReasonCode.FASTER_STORAGE, facts)
        else:
            yield Reason(ReasonCode.OTHER_STORAGE, facts)
    # Less work makes most effects weaker, because start-up is a larger part of the time.
    if direction in (Verdict.WEAKER, Verdict.GONE):
        yield from _reasons_of_scale(rows, subject, context)
    newer = []
    for version in dict.fromkeys(context.versions):
        if _is_newer(version, published.subversion):
            newer.append(version)
    if newer:
        facts = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason(ReasonCode.NEWER_VERSION, facts)
    # Only servers ran on another operating system. With the access `file`, a client reads the repository
    # itself, without a server.
    accesses = set(rows[ACCESS_AXIS]) if ACCESS_AXIS in rows else set()
    if published.system not in ("", "Linux") and accesses and "file" not in accesses:
        yield Reason(ReasonCode.OTHER_SYSTEM, {"published": published.system})
    # Published numbers with a server on another machine contain the time of the network. Measurements here do
    # not contain it, so the server's part of the time, and with it the effect of its settings, is larger.
    if published.server and direction == Verdict.STRONGER:
        yield Reason(ReasonCode.SAME_MACHINE)


def _reasons_of_scale(
    rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> Iterator[Reason]:
    """Yield a reason for each repository of the rows that is smaller than published.

    A scale is the share of a repository's revisions. Example: 0.05 here and 1.0 published yields `ruby has
    5 % of its published size`.
    """
    published_scale = context.published.scale
    if not subject or not published_scale:
        return
    for name in dict.fromkeys(rows[subject]):
        scale = context.scales.get(name)
        if scale is not None and scale < published_scale:
            share = 100 * scale / published_scale
            yield Reason(ReasonCode.SCALE, {"subject": name, "share": share})


def _reads_storage(rows: pd.DataFrame) -> bool:
    """Return True if some of the rows are of cells that read the storage, and not only warm caches.

    A study without the axis of caches measures commands that begin with cold ones.
    """
    caches = set(rows[CACHE_AXIS]) if CACHE_AXIS in rows else {""}
    return not all(cache_state(cache).is_hot for cache in caches)


def _effects_of_storage(kind: str, published: str) -> set[Verdict]:
    """Return the verdicts that storage of another kind than published can explain.

    Most findings are about reading less. Faster storage makes that gain smaller: weaker, gone or reversed.
    Slower storage makes it larger: stronger. Example: `SSD` here and `spinning disk` published explain a
    weaker effect. An unknown kind, such as a virtual disk, may be faster or slower. If no storage was
    published (""), the result is empty.
    """
    if not published:
        return set()
    ranks = [SLOWNESS[kind]] if kind in SLOWNESS else list(SLOWNESS.values())
    effects = set()
    if min(ranks) < SLOWNESS[published]:
        effects |= {Verdict.WEAKER, Verdict.GONE, Verdict.REVERSED}
    if max(ranks) > SLOWNESS[published]:
        effects.add(Verdict.STRONGER)
    return effects


def _is_newer(version: str, published: str) -> bool:
    """Compare major and minor numbers: 1.14.2 is newer than 1.9. An unknown version is not newer."""
    numbers = []
    for text in (version, published):
        match = re.match(r"(\d+)\.(\d+)", text)
        if not match:
            return False
        numbers.append((int(match[1]), int(match[2])))
    return numbers[0] > numbers[1]
