"""Find the conditions that may explain why a finding differs from the published one.

A disk serves only cold runs. If cold results take less time than published by more than warm ones do, the
storage is the likeliest reason. In the study of 2014, a cold log took 9.2 ms for each revision, and takes
0.28 ms on a solid-state disk: 33 times less. The warm log takes 4.6 times less, which processors and newer
versions explain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import ReasonCode, Verdict
from vcsbench.config.study import WITHOUT_SERVER
from vcsbench.evidence import same_work
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT_METRIC
from vcsbench.statistics.expected_range import expected_range
from vcsbench.statistics.finding_checks import (
    STORAGE_COLUMN,
    VERSION_COLUMNS,
    CellCheck,
    Evaluation,
    EvaluationContext,
    make_check,
)
from vcsbench.statistics.verdicts import Reason
from vcsbench.storages.disks import DiskKind

DIFFERENT = (Verdict.WEAKER, Verdict.STRONGER, Verdict.GONE, Verdict.REVERSED)
# The rank of a kind of storage by the duration of a cold read.
SLOWNESS = {"RAM": 0, DiskKind.RAM.value: 0, "SSD": 1, "spinning disk": 2}


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
        # A comparison with NaN is False: without both numbers, nothing is known.
        return self.cold > margin and self.cold > self.warm * margin


NO_SHRINKAGE = Shrinkage()


def reasons_of_difference(
    check: CellCheck,
    ours: Evaluation,
    rounds: pd.DataFrame,
    context: EvaluationContext,
    published: pd.DataFrame | None = None,
) -> list[Reason]:
    """Return the conditions that may explain why a finding differs, the likeliest first.

    A finding is a published statement, such as "f7 is 1.8 times as fast". `check` is of the finding, and
    `ours` its measured value with the verdict. The result is [] without a value, or with a verdict such as
    reproduced (not in DIFFERENT). `rounds` has the measured rounds of the study, and `published` its
    published numbers (None: unknown), both in the form of by_round(). `context` has the conditions of both,
    such as the storage. Example of a reason: SCALE with `{"subject": "ruby", "share": 5.0}`.
    """
    if ours.verdict not in DIFFERENT or ours.values.empty:
        return []
    # A finding on values of cells ("the CPU is at least 90 % busy") may hold for some cells and not for
    # others. A condition that moves all cells in one direction, such as the storage, cannot explain that. So
    # possible_reasons() gets no direction (None), and leaves out such conditions. `sides` are two compared
    # values, such as f6 and f7; [] without a comparison.
    compares_cells = bool(check.sides)
    holds_partly = not compares_cells and _holds_for_some_cells(check, ours, context.limits.margin)
    difference = None if holds_partly else ours.verdict
    # The rounds of the cells from which the measured value is computed.
    rows = check.select_rows_with_values(ours.values, check.select_rows(rounds))
    # How many times less time cold and warm runs take here than published.
    shrinkage = NO_SHRINKAGE
    if published is not None:
        shrinkage = _shrinkage_of_finding(check, rows, published, rounds, context)
    # The axis of the commands' input, such as "repo"; "" without one.
    subject = same_work.subject_axis(check.axes)
    reasons = list(possible_reasons(difference, rows, subject, context, shrinkage))
    # With both numbers known, OTHER_STORAGE means that cold runs did not gain more than warm ones. A faster
    # storage would show such a gain. So this reason is unlikely, and goes to the end of the list.
    if shrinkage.is_known:
        # False sorts before True. All other reasons keep their order.
        reasons.sort(key=lambda reason: reason.code == ReasonCode.OTHER_STORAGE)
    return reasons


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

    Usually, the likeliest condition comes first. `difference` is the verdict: weaker, stronger, gone or
    reversed. With None, only conditions that may change a value in any direction are yielded. `rows` are the
    rounds of the finding's cells. `subject` is their column with the name of the repository or tree, such as
    "repo"; "" without one. `context` has the published conditions, and those here. `shrinkage` has how many
    times less time cold and warm runs take here than published.
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
    # Of clients and servers of these cells. None is newer if no version was published ("").
    versions = context.known_values(rows, VERSION_COLUMNS)
    newer = [version for version in versions if words.is_newer(version, published.subversion)]
    if newer:
        facts = {"measured": words.enumeration(newer), "published": published.subversion}
        yield Reason(ReasonCode.NEWER_VERSION, facts)
    # In published studies, only servers ran on another system than Linux. Cells with the access `file`, or
    # without an access ("": a dump), use no server. A study without an axis of accesses has no servers.
    accesses = set(rows[ACCESS_AXIS]) if ACCESS_AXIS in rows else set()
    all_use_servers = bool(accesses) and accesses.isdisjoint(WITHOUT_SERVER)
    if published.system not in ("", "Linux") and all_use_servers:
        yield Reason(ReasonCode.OTHER_SYSTEM, {"published": published.system})
    # `published.server` is set if the server was on another machine. The published times contain the network,
    # and those here do not. Without the network, the effect of a server's setting is a larger share of the
    # time, so it is stronger.
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
    OTHER_STORAGE. `shrinkage` has both: published time / measured time. No reason is yielded if all cells
    have warm caches, if some of them have the published kind, or if the kind here or the published one is
    unknown. With `difference` None (no direction), no reason is yielded either. `rows` are the rounds of the
    finding's cells.
    """
    # In a study without the axis of caches, all cells have the state "", which does not promise warm caches.
    caches = set(rows[CACHE_AXIS]) if CACHE_AXIS in rows else {""}
    # Commands with warm caches do not read the storage.
    if all(cache_state(cache).is_hot for cache in caches):
        return
    # The kinds of storage of the finding's own cells, such as "SSD". Other cells may have another one.
    published = context.published.storage
    kinds = context.known_values(rows, [STORAGE_COLUMN])
    # The verdicts that one of the measured kinds can explain. A faster kind than the published one explains
    # that a finding is weaker, for example.
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

    Both kinds are such as "SSD" or "spinning disk". Most findings are about reading less. Faster storage
    makes that gain smaller: weaker, gone or reversed. Slower storage makes it larger: stronger. A kind
    without a rank, such as a virtual disk, may be faster or slower. If no storage was published (""), the
    result is empty.
    """
    if not published:
        return set()
    # A higher rank is slower: RAM 0, SSD 1, spinning disk 2. A kind without a rank may have any of these.
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

    A scale is the share of a repository's revisions. Example: 0.05 here and 1.0 published yields `ruby has
    5 % of its published revisions`. No reason is yielded without a published scale, and for the `subject` ""
    (cells without a repository).
    """
    published_scale = context.published.scale
    if not subject or not published_scale:
        return
    for name in dict.fromkeys(rows[subject]):
        scale = context.scales.get(name)
        if scale is not None and scale < published_scale:
            share_pct = 100 * scale / published_scale
            yield Reason(ReasonCode.SCALE, {"subject": name, "share": share_pct})


def _shrinkage_of_finding(
    check: CellCheck,
    rows: pd.DataFrame,
    published: pd.DataFrame,
    measured: pd.DataFrame,
    context: EvaluationContext,
) -> Shrinkage:
    """Return how many times less time the finding's cells take here than published: (cold=33.0, warm=4.6).

    Only a faster storage makes the number of cold caches larger than that of warm caches. The finding itself
    may be about one state of the caches, such as `cold`. So its cells, whose rounds are `rows`, are used in
    all states. `measured` and `published` have the rounds of all cells of the study. A cell that only one of
    these two frames has does not count.
    """
    axes = [axis for axis in check.axes if axis in published and axis in measured]
    # The same finding without its condition on the state of the caches.
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
    return shrinkage_of(
        in_all_states.select_rows(published),
        cells,
        axes,
        # The axis of the commands' input, such as "repo"; "" without one.
        same_work.subject_axis(check.axes),
        # A run here may read fewer revisions than the published one. This is a function of a command and a
        # repository, which returns their share, such as 0.23.
        partial(work_share, context=context),
    )


def work_share(command: str, repository: str, context: EvaluationContext) -> float:
    """Return the revisions that a command reads here as a share of those that it read in the published study.

    Scales are shares of a repository's revisions. `context` has the scale of each repository here, and the
    published one. A command with a limit reads the same number at any scale, as far as the repository has so
    many. Example: at the scale 0.1, `svn log --limit 20000` of 46,000 revisions reads 4,600 in place of
    20,000, which is the share 0.23.
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


def shrinkage_of(
    published: pd.DataFrame,
    measured: pd.DataFrame,
    axes: Sequence[str],
    subject_axis: str,
    share_of: Callable[[str, str], float],
) -> Shrinkage:
    """Return how many times less time cells take here than published, with cold and with warm caches.

    Only runs with cold caches read from the disk. So a faster disk makes the number of cold caches larger
    than that of warm ones. A row of a frame is `{"command": "log", "repo": "ruby", "cache": "cold",
    "elapsed_s": 10.0}`. The values of `axes` identify a cell, and its time is the mean of its rows. Cells
    that only one frame has do not count. Without an axis of caches, or without elapsed times in a frame, both
    numbers are NaN.

    `share_of` returns the share of the published work that a command does here, for a value of
    `subject_axis`, such as a repository. Example: 10 s were published and 0.4 s measured, with the share
    0.12: 10 x 0.12 / 0.4 = 3.
    """
    # A study may publish other numbers than times, such as a throughput.
    has_times = DEFAULT_METRIC in published and DEFAULT_METRIC in measured
    if CACHE_AXIS not in axes or not has_times:
        return NO_SHRINKAGE
    keys = list(axes)
    published_times = published.groupby(keys)[DEFAULT_METRIC].mean().rename("published")
    measured_times = measured.groupby(keys)[DEFAULT_METRIC].mean().rename("measured")
    # The cells that both frames have, with the columns `published` and `measured`.
    cells = published_times.reset_index().merge(measured_times.reset_index(), on=keys)
    # The share of the published work that each cell does. Without repositories, each does all of it.
    if subject_axis:
        commands = cells[COMMAND_AXIS] if COMMAND_AXIS in cells else [""] * len(cells)
        shares = []
        for command, subject in zip(commands, cells[subject_axis], strict=True):
            shares.append(share_of(command, subject))
    else:
        shares = [1.0] * len(cells)
    share = pd.Series(shares, index=cells.index, dtype=float)
    factors = cells["published"] * share / cells["measured"]
    # A time of 0 is a short one that was rounded. Its factor would be 0 or infinite, so its cell does not
    # count: where() makes the factor NaN, which mean() leaves out.
    is_number = np.isfinite(factors) & (factors > 0)
    logs = pd.Series(np.log(factors.where(is_number)))
    is_cold = cells[CACHE_AXIS].map(lambda name: cache_state(name).is_cold).astype(bool)
    # Geometric means. Without any number, the mean is NaN.
    cold, warm = np.exp(logs[is_cold].mean()), np.exp(logs[~is_cold].mean())
    return Shrinkage(cold=float(cold), warm=float(warm))
