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
from vcsbench.statistics.expected_range import expected_range
from vcsbench.statistics.finding_checks import (
    STORAGE_COLUMN,
    VERSION_COLUMNS,
    CellCheck,
    Conditions,
    Evaluation,
    EvaluationContext,
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
    ours: Evaluation,
    rounds: pd.DataFrame,
    context: EvaluationContext,
    published: pd.DataFrame | None = None,
) -> list[Reason]:
    """Return the conditions that may explain why a finding differs, the likeliest first, and its times.

    `rounds` and `published` (None: unknown) are of the whole study, in the form of by_round(). Example of a
    reason: SCALE with `{"subject": "ruby", "share": 5.0}`. The last reason is the remark UNIT_TIMES, if the
    time for each revision or file is known. A mixed finding has only this remark, because no condition
    explains that its pairs disagree. Any other verdict, such as reproduced, has no reasons.
    """
    if ours.verdict not in COMPARED or ours.values.empty:
        return []
    rows = check.select_rows_with_values(ours.values, check.select_rows(rounds))
    times = NO_TIMES
    if published is not None:
        times = _times_of_finding(check, rows, published, rounds, context)
    if ours.verdict not in DIFFERENT:
        return times.remarks()
    # A finding on values of cells ("the CPU is at least 90 % busy") may hold for some cells and not for
    # others. A condition that moves all cells in one direction, such as the storage, cannot explain the
    # verdict then.
    compares_cells = bool(check.sides)
    holds_partly = not compares_cells and _holds_for_some_cells(check, ours, context.limits.margin)
    difference = None if holds_partly else ours.verdict
    shrinkage = times.shrinkage
    subject = same_work.subject_axis(check.axes)
    reasons = list(possible_reasons(difference, rows, subject, context, shrinkage))
    # With both numbers known, OTHER_STORAGE means that cold runs did not gain more than warm ones. A faster
    # storage would show such a gain. So the reason is unlikely, and comes last.
    if shrinkage.is_known:
        reasons.sort(key=lambda reason: reason.code == ReasonCode.OTHER_STORAGE)
    return [*reasons, *times.remarks()]


def _holds_for_some_cells(check: CellCheck, ours: Evaluation, margin: float) -> bool:
    expected = expected_range(check.finding["expect"], margin)
    for _, values_of_cell in group_rows(ours.values, check.keys):
        if expected.contains(check.estimate(values_of_cell).value):
            return True
    return False


def possible_reasons(
    difference: Verdict | None,
    rows: pd.DataFrame,
    subject: str,
    context: EvaluationContext,
    shrinkage: Shrinkage = NO_SHRINKAGE,
) -> Iterator[Reason]:
    """Yield the conditions that differ from the published ones, and can explain how a finding differs.

    Usually, the likeliest condition comes first. `difference` is the verdict. With None, only conditions that
    may change a value in any direction are yielded. `rows` are the rounds of the finding's cells. `subject`
    is their column with the name of the repository or tree, such as "repo"; "" without one.
    """
    published = context.published
    yield from _reasons_of_storage(difference, rows, context, shrinkage)
    # Less work makes most effects weaker, because start-up is a larger part of the time.
    if difference in (Verdict.WEAKER, Verdict.GONE):
        yield from _reasons_of_scale(rows, subject, context)
    # Only generated repositories have a scale.
    is_generated = subject and any(
        context.scales.get(name) is not None for name in dict.fromkeys(rows[subject])
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
    """Yield a reason if another kind of storage than published can explain the verdict `difference`.

    The reason is FASTER_STORAGE if the times of cold results shrank more than those of warm ones, otherwise
    OTHER_STORAGE. No reason is yielded if all cells have warm caches, if some of them have the published
    kind, if a kind is unknown, or if `difference` is None.
    """
    # In a study without the axis of caches, all cells have the state "", which does not promise warm caches.
    caches = set(rows[CACHE_AXIS]) if CACHE_AXIS in rows else {""}
    # Commands with warm caches do not read the storage.
    if all(cache_state(cache).is_hot for cache in caches):
        return
    published = context.published.storage
    kinds = context.known_values(rows, [STORAGE_COLUMN])
    explained_verdicts: set[Verdict] = set()
    for kind in kinds:
        explained_verdicts |= _effects_of_storage(kind, published)
    if published in kinds or difference not in explained_verdicts:
        return
    facts: dict[str, object] = {"measured": words.enumeration(kinds), "published": published}
    if shrinkage.is_of_storage(context.limits.margin):
        facts |= {"cold": shrinkage.cold, "warm": shrinkage.warm}
        yield Reason(ReasonCode.FASTER_STORAGE, facts)
    else:
        yield Reason(ReasonCode.OTHER_STORAGE, facts)


def _effects_of_storage(kind: str, published: str) -> set[Verdict]:
    """Return the verdicts on findings that storage of a kind can explain, in place of the published kind.

    Most findings are about reading less. Faster storage makes the gain smaller: weaker, gone or reversed.
    Slower storage makes the gain larger: stronger. A kind without a rank, such as a virtual disk, may be
    faster or slower.
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


def _reasons_of_scale(
    rows: pd.DataFrame, subject: str, context: EvaluationContext
) -> Iterator[Reason]:
    """Yield a reason for each repository in the column `subject` of the rows that is smaller than published.

    Example: the scale 0.05 here and 1.0 published yields `ruby has 5 % of its published revisions`. Without a
    published scale, or a `subject`, no reason is yielded.
    """
    published_scale = context.published.scale
    if not subject or not published_scale:
        return
    for name in dict.fromkeys(rows[subject]):
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
    """Return the times of the finding's cells here and in the published study, for the same work.

    The finding itself may be about one state of the caches, such as `cold`. Its cells, whose rounds are
    `rows`, are used in all states, because the states are compared. `measured` and `published` have the
    rounds of all cells of the study. A cell that only one of the two frames has does not count.
    """
    axes = [axis for axis in check.axes if axis in published and axis in measured]
    finding = check.finding.copy()
    finding["where"] = {
        axis: values for axis, values in finding["where"].items() if axis != CACHE_AXIS
    }
    in_all_states = make_check(finding, check.axes)
    cells = in_all_states.select_rows(measured)
    other_axes = [axis for axis in axes if axis != CACHE_AXIS]
    if other_axes:
        # merge() joins by these axes, so only cells of `rows` remain, in all states of the caches.
        cells = cells.merge(rows[other_axes].drop_duplicates())
    return compare_times(
        in_all_states.select_rows(published),
        cells,
        axes,
        same_work.subject_axis(check.axes),
        # A run here may do less work than the published one.
        partial(work_of_cell, context=context),
    )


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
    """Return the times of cells here and in the published study for the same work, cold and warm.

    A row of a frame is `{"command": "log", "repo": "ruby", "cache": "cold", "elapsed_s": 10.0, "work":
    '{"revisions": 6000}'}`. The time of a cell is the geometric mean of its rows. Cells that only one frame
    has do not count.

    `work_of` is a function of a command, a value of `subject_axis`, such as a repository, and the work here
    as text. Example: 10 s were published for 1,000 revisions, and 0.4 s measured for 120. Then the times are
    10 ms and 3.3 ms for each revision.
    """
    # A study may publish other numbers than times, such as a throughput.
    has_times = DEFAULT_METRIC in published and DEFAULT_METRIC in measured
    if not axes or not has_times:
        return NO_TIMES
    keys = list(axes)
    # A time of 0 is a short one that was rounded, and has no logarithm. Its cell is left out below.
    with np.errstate(divide="ignore"):
        published_rows = published.assign(published=np.log(published[DEFAULT_METRIC].astype(float)))
        measured_rows = measured.assign(measured=np.log(measured[DEFAULT_METRIC].astype(float)))
    if "work" not in measured_rows:
        measured_rows = measured_rows.assign(work="")
    published_logs = published_rows.groupby(keys)["published"].mean().reset_index()
    # All rounds of a cell have the same text in `work` (by_round).
    cells = measured_rows.groupby(keys).agg({"measured": "mean", "work": "first"}).reset_index()
    cells = cells.merge(published_logs, on=keys)
    cells = cells[np.isfinite(cells["published"]) & np.isfinite(cells["measured"])]
    # Without a column of commands or of subjects, all cells share an unknown one.
    commands = cells[COMMAND_AXIS] if COMMAND_AXIS in cells else [""] * len(cells)
    subjects = cells[subject_axis] if subject_axis else [""] * len(cells)
    works = [
        work_of(command, subject, work)
        for command, subject, work in zip(commands, subjects, cells["work"], strict=True)
    ]
    # From now on, the logarithms are those of the time for a unit of work.
    cells = cells.assign(
        published=cells["published"] - np.log([work.published for work in works]),
        measured=cells["measured"] - np.log([work.measured for work in works]),
    )
    units = {work.unit for work in works}
    unit = units.pop() if len(units) == 1 else None
    if CACHE_AXIS not in cells:
        return WorkTimes(unit, any_state=_mean_seconds(cells))
    is_cold = cells[CACHE_AXIS].map(lambda name: cache_state(name).is_cold).astype(bool)
    return WorkTimes(unit, cold=_mean_seconds(cells[is_cold]), warm=_mean_seconds(cells[~is_cold]))


def _mean_seconds(cells: pd.DataFrame) -> MeanSeconds:
    """Return the geometric means of the logarithms `published` and `measured`; NaN of no cell."""
    means = np.exp(cells[["published", "measured"]].mean())
    return MeanSeconds(float(means["published"]), float(means["measured"]))
