"""Find the conditions that may explain why a finding differs from the published one.

A disk serves only cold runs. If cold results take less time than published by more than warm ones do, the
storage is the likeliest reason. In the study of 2014, a cold log took 9.2 ms for each revision, and takes
0.28 ms on a solid-state disk: 33 times less. The warm log takes 4.6 times less, which processors and newer
versions explain.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import ReasonCode, Verdict, WorkUnit
from vcsbench.config.study import WITHOUT_SERVER
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.statistics.evaluations import (
    STORAGE_COLUMN,
    VERSION_COLUMNS,
    Conditions,
    Evaluation,
    EvaluationContext,
)
from vcsbench.statistics.expected_range import expected_range
from vcsbench.statistics.finding_checks import (
    CellCheck,
    make_check,
)
from vcsbench.statistics.verdicts import Reason
from vcsbench.storages.disks import DiskKind

DIFFERENT = (Verdict.WEAKER, Verdict.STRONGER, Verdict.GONE, Verdict.REVERSED)
# The verdicts of findings whose published and measured times are compared.
COMPARED = (*DIFFERENT, Verdict.MIXED)
# The rank of a kind of storage by the duration of a cold read.
SLOWNESS = {"RAM": 0, DiskKind.RAM.value: 0, "SSD": 1, "spinning disk": 2}
# The figure of a work (same_work) that counts each unit. A log has revisions, an export has files.
FIGURES = {WorkUnit.REVISION: "revisions", WorkUnit.FILE: "files"}
# The columns of compare_times() with logarithms of times. No axis has such a name, because of the blank.
LOG_PUBLISHED, LOG_MEASURED = "log published", "log measured"


@dataclass(frozen=True)
class Shrinkage:
    """Published time / measured time for the same amount of work, as geometric means over equal cells.

    `cold` is over the cells with cold caches, `warm` over all others; NaN without such a cell.
    """

    cold: float = math.nan
    warm: float = math.nan

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.cold) and math.isfinite(self.warm)

    def is_of_storage(self, margin: float) -> bool:
        """Return True if cold results shrank, and more than warm ones, by the margin (such as 1.1)."""
        # A comparison with NaN is False.
        return self.cold > margin and self.cold > self.warm * margin


NO_SHRINKAGE = Shrinkage()


class CellWork(NamedTuple):
    """The work of a command in the published study and here, in a unit.

    Example: a log read 46,054 revisions then, and reads 1,382 here. Without a known unit (None), only the
    share is known: 1 then, and 0.03 here.
    """

    published: float
    measured: float
    unit: WorkUnit | None = None


@dataclass(frozen=True)
class MeanSeconds:
    """The time for a unit of work, published and measured, as geometric means over the same cells."""

    published: float = math.nan
    measured: float = math.nan

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.published) and math.isfinite(self.measured)

    @property
    def factor(self) -> float:
        return self.published / self.measured


@dataclass(frozen=True)
class WorkTimes:
    """The times of a finding's cells for the same amount of work, published and measured.

    `unit` is None if the published amount of work is unknown, or if cells have different units. The times are
    then for an unknown amount, and only their factor has a meaning. `cold` is over the cells with cold
    caches, `warm` over all others. A study without an axis of caches has only `any_state`.
    """

    unit: WorkUnit | None = None
    cold: MeanSeconds = MeanSeconds()
    warm: MeanSeconds = MeanSeconds()
    any_state: MeanSeconds = MeanSeconds()

    @property
    def shrinkage(self) -> Shrinkage:
        return Shrinkage(cold=self.cold.factor, warm=self.warm.factor)

    def remarks(self) -> list[Reason]:
        """Return the remark UNIT_TIMES with the seconds of a unit by state; [] if they are unknown.

        Its values are `{"unit": "revision", "seconds": {"cold": [0.0092, 0.00028]}}`.
        """
        by_state = {"cold": self.cold, "warm": self.warm, "": self.any_state}
        seconds = {}
        for state, times in by_state.items():
            if times.is_known:
                seconds[state] = [times.published, times.measured]
        if self.unit is None or not seconds:
            return []
        return [Reason(ReasonCode.UNIT_TIMES, {"unit": self.unit, "seconds": seconds})]


NO_TIMES = WorkTimes()


def reasons_of_difference(
    check: CellCheck,
    evaluation: Evaluation,
    rounds: pd.DataFrame,
    context: EvaluationContext,
    published: pd.DataFrame | None = None,
) -> list[Reason]:
    """Return the reasons that may explain why a finding differs from its statement, the likeliest first.

    A finding that is weaker, stronger, gone or reversed has reasons, such as SCALE with `{"subject": "ruby",
    "share": 5.0}`. The last entry is the remark UNIT_TIMES: the published and the measured time of a revision
    or file, if both are known. A mixed finding has only this remark, because no condition explains that its
    pairs disagree. Any other verdict has no entries.

    `rounds` has the measured rounds of the whole study (by_round), `published` its published numbers in the
    same form; None if they are unknown.
    """
    if evaluation.verdict not in COMPARED or evaluation.values.empty:
        return []
    rows = check.select_rows_with_values(evaluation.values, check.select_rows(rounds))
    times = NO_TIMES
    if published is not None:
        times = _times_of_finding(check, rows, published, rounds, context)
    remarks = times.remarks()
    if evaluation.verdict == Verdict.MIXED:
        return remarks
    difference = _difference_to_explain(check, evaluation, context.limits.margin)
    subject_axis = same_work.subject_axis(check.axes)
    # By how much cold times, and warm times, are shorter here than published, for the same work.
    shrinkage = times.shrinkage
    reasons = list(possible_reasons(difference, rows, subject_axis, context, shrinkage))
    # If both factors are known, OTHER_STORAGE means that cold times did not shrink more than warm ones. With
    # a faster storage, they would have. So this reason is unlikely, and comes last.
    if shrinkage.is_known:
        reasons.sort(key=lambda reason: reason.code == ReasonCode.OTHER_STORAGE)
    return [*reasons, *remarks]


def _difference_to_explain(
    check: CellCheck, evaluation: Evaluation, margin: float
) -> Verdict | None:
    """Return the verdict on a finding that differs; None if some of its cells have an expected value.

    Example of None: "the CPU is at least 90 % busy" holds for one cell, but not for another. Conditions that
    move all cells in one direction, such as a faster storage, do not explain that. With None,
    possible_reasons() leaves them out.
    """
    compares_cells = bool(check.sides)
    if not compares_cells and _holds_for_some_cells(check, evaluation, margin):
        return None
    return evaluation.verdict


def _holds_for_some_cells(check: CellCheck, evaluation: Evaluation, margin: float) -> bool:
    expected = expected_range(check.finding["expect"], margin)
    for _, values_of_cell in group_rows(evaluation.values, check.keys):
        if expected.contains(check.estimate(values_of_cell).value):
            return True
    return False


def possible_reasons(
    difference: Verdict | None,
    rows: pd.DataFrame,
    subject_axis: str,
    context: EvaluationContext,
    shrinkage: Shrinkage = NO_SHRINKAGE,
) -> Iterator[Reason]:
    """Yield the conditions in which the measurement differs from the published one, usually likeliest first.

    Only conditions that can cause the verdict `difference` are yielded: a smaller repository makes an effect
    weaker, not stronger. With None, these are the conditions that can change a value in any direction, such
    as a newer version.

    `rows` are the rounds of the finding's cells, and `subject_axis` is their axis with the names of
    repositories or trees, such as "repo"; "" without one. `shrinkage` has the factors by which cold and warm
    times are shorter here than published.
    """
    published = context.published
    yield from _reasons_of_storage(difference, rows, context, shrinkage)
    # Less work makes most effects weaker, because start-up is a larger part of the time.
    if difference in (Verdict.WEAKER, Verdict.GONE):
        yield from _reasons_of_scale(rows, subject_axis, context)
    # Only generated repositories have a scale.
    is_generated = subject_axis and any(
        context.scales.get(name) is not None for name in dict.fromkeys(rows[subject_axis])
    )
    if is_generated and published.history == "real":
        yield Reason(ReasonCode.GENERATED)
    versions = context.known_values(rows, VERSION_COLUMNS)
    newer = [version for version in versions if words.is_newer(version, published.subversion)]
    if newer:
        facts = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason(ReasonCode.NEWER_VERSION, facts)
    # In published studies, only servers ran on another system than Linux.
    accesses = set(rows[ACCESS_AXIS]) if ACCESS_AXIS in rows else set()
    all_use_servers = bool(accesses) and accesses.isdisjoint(WITHOUT_SERVER)
    if published.system not in ("", "Linux") and all_use_servers:
        yield Reason(ReasonCode.OTHER_SYSTEM, {"published": published.system})
    # `published.server` is set if the server was on another machine. Without the network, the effect of a
    # server's setting is a larger share of the time, so the effect is stronger here.
    if published.server and difference == Verdict.STRONGER:
        yield Reason(ReasonCode.SAME_MACHINE)


def _reasons_of_storage(
    difference: Verdict | None,
    rows: pd.DataFrame,
    context: EvaluationContext,
    shrinkage: Shrinkage,
) -> Iterator[Reason]:
    """Yield a reason if another kind of storage than the published one can explain the verdict `difference`.

    Example: a gain was published on a spinning disk, and is weaker on an SSD here. If cold times shrank more
    than warm ones, the times confirm the explanation, and the reason is FASTER_STORAGE. Otherwise, it is
    OTHER_STORAGE. To shrink is to be shorter here than published, for the same work.
    """
    # Runs with warm caches do not read the storage. In a study without the axis of caches, all cells have the
    # state "", which may be cold.
    caches = set(rows[CACHE_AXIS]) if CACHE_AXIS in rows else {""}
    if all(cache_state(cache).is_hot for cache in caches):
        return
    published_kind = context.published.storage
    # The list is empty if no kind is known. Then no verdict is explained.
    measured_kinds = context.known_values(rows, [STORAGE_COLUMN])
    explained_verdicts: set[Verdict] = set()
    for kind in measured_kinds:
        explained_verdicts |= _verdicts_explained_by(kind, published_kind)
    has_published_kind = published_kind in measured_kinds
    if has_published_kind or difference not in explained_verdicts:
        return
    kinds_text = words.enumeration(measured_kinds)
    facts: dict[str, object] = {"measured": kinds_text, "published": published_kind}
    if shrinkage.is_of_storage(context.limits.margin):
        facts |= {"cold": shrinkage.cold, "warm": shrinkage.warm}
        yield Reason(ReasonCode.FASTER_STORAGE, facts)
    else:
        yield Reason(ReasonCode.OTHER_STORAGE, facts)


def _verdicts_explained_by(measured_kind: str, published_kind: str) -> set[Verdict]:
    """Return the verdicts that a kind of storage can explain if another kind was published; "" is unknown.

    Most findings are about reading less, which gains less on a faster storage. So an SSD here explains that a
    gain published on a spinning disk is weaker, gone or reversed. A spinning disk here explains that a gain
    published on an SSD is stronger. Another kind, such as a virtual disk, may be faster or slower.
    """
    if not published_kind:
        return set()
    published_rank = SLOWNESS[published_kind]
    possible_ranks = list(SLOWNESS.values())
    if measured_kind in SLOWNESS:
        possible_ranks = [SLOWNESS[measured_kind]]
    can_be_faster = min(possible_ranks) < published_rank
    can_be_slower = max(possible_ranks) > published_rank
    verdicts = set()
    if can_be_faster:
        verdicts |= {Verdict.WEAKER, Verdict.GONE, Verdict.REVERSED}
    if can_be_slower:
        verdicts.add(Verdict.STRONGER)
    return verdicts


def _reasons_of_scale(
    rows: pd.DataFrame, subject_axis: str, context: EvaluationContext
) -> Iterator[Reason]:
    """Yield a reason for each repository of the rows that is smaller than the published one.

    Example: the scale 0.05 here and 1.0 published yields `ruby has 5 % of its published revisions`. Without a
    published scale, or a `subject_axis` (the column of the repositories), no reason is yielded.
    """
    published_scale = context.published.scale
    if not subject_axis or not published_scale:
        return
    for name in dict.fromkeys(rows[subject_axis]):
        scale = context.scales.get(name)
        if scale is not None and scale < published_scale:
            share_pct = 100 * scale / published_scale
            yield Reason(ReasonCode.SCALE, {"subject": name, "share": share_pct})


def _times_of_finding(
    check: CellCheck,
    rows: pd.DataFrame,
    published: pd.DataFrame,
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> WorkTimes:
    """Return the published and measured times of a finding's cells for the same work, cold and warm.

    Example: the finding is on the cold log of ruby, so `rows` has only rounds of this cell. The result also
    has the warm log of ruby, because a faster storage shortens cold times more than warm ones. `published`
    and `measured` have the rounds of all cells of the study.
    """
    check_in_all_states = _without_cache_state(check)
    published_cells = check_in_all_states.select_rows(published)
    measured_cells = check_in_all_states.select_rows(measured)
    axes = [axis for axis in check.axes if axis in published and axis in measured]
    other_axes = [axis for axis in axes if axis != CACHE_AXIS]
    if other_axes:
        # merge() joins by these axes. So the cells of `rows` remain, in all states of the caches. Published
        # cells need no such step, because compare_times() leaves out all that are not in `measured_cells`.
        measured_cells = measured_cells.merge(rows[other_axes].drop_duplicates())
    return compare_times(
        published=published_cells,
        measured=measured_cells,
        axes=axes,
        subject_axis=same_work.subject_axis(check.axes),
        work_of=partial(work_of_cell, context=context),
    )


def _without_cache_state(check: CellCheck) -> CellCheck:
    """Return the check of the same finding, but on its cells in all states of the caches."""
    finding = check.finding.copy()
    finding["where"] = {
        axis: values for axis, values in finding["where"].items() if axis != CACHE_AXIS
    }
    return make_check(finding, check.axes)


def work_of_cell(command: str, repository: str, work: str, context: EvaluationContext) -> CellWork:
    """Return the work of a command in the published study and here, in revisions or files if both are known.

    `work` is the work here, as JSON text: `{"revisions": 1382, "digest": "0ca9bf16"}`. The text is "" if the
    work is unknown, and has several lines if rounds did different work. Without revisions or files of both
    sides, the result is the share that follows from the scale of the repository (work_share).
    """
    figures: Mapping[str, object] = json.loads(work) if work and "\n" not in work else {}
    for unit, figure in FIGURES.items():
        amount = published_amount(unit, command, repository, context.published)
        count = figures.get(figure)
        if words.is_number(count) and count > 0 and not math.isnan(amount):
            return CellWork(amount, count, unit)
    return CellWork(1.0, work_share(command, repository, context))


def published_amount(unit: WorkUnit, command: str, repository: str, published: Conditions) -> float:
    """Return the revisions or files of a command in the published study; NaN if they were not published.

    A command reads all revisions of its repository, unless it has a limit (`svn log --limit 20000`), or a
    range (`svnadmin dump -r0:5000`).
    """
    if unit == WorkUnit.FILE:
        return published.files.get(repository, math.nan)
    revisions = published.revisions.get(repository)
    if revisions is None:
        return math.nan
    # Without a published scale, the study measured all revisions.
    amounts = [revisions * (published.scale or 1.0)]
    for limits in (published.limits, published.ranges):
        if command in limits:
            amounts.append(limits[command])
    return min(amounts)


def work_share(command: str, repository: str, context: EvaluationContext) -> float:
    """Return the revisions that a command reads here as a share of those that it read in the published study.

    A command with a limit reads the same number at any scale, as far as the repository has so many. Example:
    at the scale 0.1, `svn log --limit 20000` of 46,000 revisions reads 4,600 in place of 20,000, which is the
    share 0.23.
    """
    published = context.published
    # A repository without a scale has all of its revisions.
    scale = context.scales.get(repository, 1.0)
    # Without a published scale, the study measured all revisions.
    published_scale = published.scale or 1.0
    limit = published.limits.get(command)
    revisions = published.revisions.get(repository)
    # Without a limit, or with an unknown number of revisions, the command counts as reading all of them.
    if limit is None or revisions is None:
        return scale / published_scale
    return min(limit, scale * revisions) / min(limit, published_scale * revisions)


def compare_times(
    published: pd.DataFrame,
    measured: pd.DataFrame,
    axes: Sequence[str],
    subject_axis: str,
    work_of: Callable[[str, str, str], CellWork],
) -> WorkTimes:
    """Return the published and measured time of a unit of work, as means over the cells of both frames.

    Example: 10 s were published for 1,000 revisions, and 0.4 s measured for 120. Then the times of a revision
    are 10 ms and 3.3 ms. A row of a frame is a round of a cell, which the columns `axes` identify:
    `{"command": "log", "repo": "ruby", "cache": "cold", "elapsed_s": 0.4, "work": '{"revisions": 120}'}`.

    `work_of` returns the amounts of work of a cell, such as 1,000 and 120 revisions. Its arguments are the
    cell's command, its value of `subject_axis`, such as a repository, and its text in `work`.
    """
    # A study may publish other numbers than times, such as a throughput.
    has_times = DEFAULT_METRIC in published and DEFAULT_METRIC in measured
    if not axes or not has_times:
        return NO_TIMES
    cells = _mean_logs_by_cell(published, measured, list(axes))
    # Without a column of commands or of subjects, all cells share an unknown one.
    commands = cells[COMMAND_AXIS] if COMMAND_AXIS in cells else [""] * len(cells)
    subjects = cells[subject_axis] if subject_axis else [""] * len(cells)
    works = [
        work_of(command, subject, work)
        for command, subject, work in zip(commands, subjects, cells["work"], strict=True)
    ]
    # The logarithm of the time of a unit of work is ln(time) - ln(amount of work).
    log_published = cells[LOG_PUBLISHED] - np.log([work.published for work in works])
    log_measured = cells[LOG_MEASURED] - np.log([work.measured for work in works])
    cells = cells.assign(**{LOG_PUBLISHED: log_published, LOG_MEASURED: log_measured})
    units = {work.unit for work in works}
    unit = units.pop() if len(units) == 1 else None
    if CACHE_AXIS not in cells:
        return WorkTimes(unit, any_state=_mean_seconds(cells))
    is_cold = cells[CACHE_AXIS].map(lambda name: cache_state(name).is_cold).astype(bool)
    return WorkTimes(unit, cold=_mean_seconds(cells[is_cold]), warm=_mean_seconds(cells[~is_cold]))


def _mean_logs_by_cell(
    published: pd.DataFrame, measured: pd.DataFrame, keys: list[str]
) -> pd.DataFrame:
    """Return a row per cell that both frames have, with its `work` and the mean logarithms of its times.

    The columns `keys` identify a cell. Cells with a time of 0, which has no logarithm, are left out.
    """
    # Only short times that were rounded are 0. numpy returns minus infinity for them.
    with np.errstate(divide="ignore"):
        published_logs = np.log(published[DEFAULT_METRIC].astype(float))
        measured_logs = np.log(measured[DEFAULT_METRIC].astype(float))
    published_rounds = published.assign(**{LOG_PUBLISHED: published_logs})
    measured_rounds = measured.assign(**{LOG_MEASURED: measured_logs})
    if "work" not in measured_rounds:
        measured_rounds = measured_rounds.assign(work="")
    published_cells = published_rounds.groupby(keys)[LOG_PUBLISHED].mean().reset_index()
    # All rounds of a cell have the same text in `work` (by_round).
    measured_cells = measured_rounds.groupby(keys).agg({LOG_MEASURED: "mean", "work": "first"})
    cells = measured_cells.reset_index().merge(published_cells, on=keys)
    return cells[np.isfinite(cells[LOG_PUBLISHED]) & np.isfinite(cells[LOG_MEASURED])]


def _mean_seconds(cells: pd.DataFrame) -> MeanSeconds:
    """Return the geometric means of the published and of the measured times of cells; NaN of no cell."""
    means = np.exp(cells[[LOG_PUBLISHED, LOG_MEASURED]].mean())
    return MeanSeconds(float(means[LOG_PUBLISHED]), float(means[LOG_MEASURED]))
