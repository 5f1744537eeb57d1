"""Published times against measured ones, from cold and from warm caches."""

import math

import pandas as pd
import pytest

from vcsbench.codes import ReasonCode, Verdict
from vcsbench.statistics.difference_reasons import (
    NO_SHRINKAGE,
    Shrinkage,
    possible_reasons,
    shrinkage_of,
    work_share,
)
from vcsbench.statistics.finding_checks import Conditions, EvaluationContext

AXES = ["command", "repo", "cache"]
MARGIN = 1.1


def whole(_command, _repository):
    return 1.0


def frame(cold, warm, command="log"):
    rows = [("cold", cold), ("hot-os", warm)]
    cells = [{"command": command, "repo": "ruby", "cache": c, "elapsed_s": s} for c, s in rows]
    return pd.DataFrame(cells)


def test_shrinkage_counts_share_of_revisions():
    # The log of 2014: 46,054 revisions in 422.1 s cold and 13.4 s warm. Here, a tenth of them.
    shrinkage = shrinkage_of(frame(422.1, 13.4), frame(1.3, 0.29), AXES, "repo", lambda *_: 0.1)
    assert shrinkage.cold == pytest.approx(422.1 * 0.1 / 1.3)
    assert shrinkage.warm == pytest.approx(13.4 * 0.1 / 0.29)
    assert shrinkage.is_of_storage(MARGIN)


@pytest.mark.parametrize(
    ("shrinkage", "is_of_storage"),
    [
        (Shrinkage(2.0, 2.0), False),
        (Shrinkage(2.19, 2.0), False),
        (Shrinkage(2.21, 2.0), True),
        (Shrinkage(1.0, 2.0), False),
        (Shrinkage(9.0, math.nan), False),
    ],
)
def test_is_of_storage_needs_margin_and_both_numbers(shrinkage, is_of_storage):
    assert shrinkage.is_of_storage(MARGIN) == is_of_storage


def test_shrinkage_uses_cells_of_both_frames_and_geometric_means():
    published = pd.concat([frame(8.0, 4.0), frame(1.0, 1.0, "export"), frame(1.0, 1.0, "dump")])
    measured = pd.concat([frame(1.0, 1.0), frame(0.5, 1.0, "export")])
    shrinkage = shrinkage_of(published, measured, AXES, "repo", whole)
    assert shrinkage.cold == pytest.approx(4.0) and shrinkage.warm == pytest.approx(2.0)


def test_shrinkage_without_cold_cells_or_cache_axis_is_unknown():
    warm = frame(1.0, 1.0).query("cache != 'cold'")
    assert math.isnan(shrinkage_of(warm, warm, AXES, "repo", whole).cold)
    assert math.isnan(shrinkage_of(warm, warm, ["command", "repo"], "repo", whole).warm)


@pytest.mark.parametrize("lacking", ["published", "measured"])
def test_shrinkage_without_elapsed_times_is_unknown(lacking):
    frames = {"published": frame(8.0, 4.0), "measured": frame(1.0, 1.0)}
    frames[lacking] = frames[lacking].rename(columns={"elapsed_s": "throughput_mb_s"})
    shrinkage = shrinkage_of(frames["published"], frames["measured"], AXES, "repo", whole)
    assert shrinkage is NO_SHRINKAGE


@pytest.mark.parametrize(
    ("kind", "is_reason"),
    [
        ("RAM disk", False),
        ("RAM", False),
        ("spinning disk", True),
        # Its image may be on any disk.
        ("loop device", True),
    ],
)
def test_storage_in_memory_explains_no_larger_gain_than_on_a_disk(kind, is_reason):
    rows = pd.DataFrame({"command": ["log"], "cache": ["cold"]})
    published = Conditions(storage="SSD")
    context = EvaluationContext(cells=rows.assign(storage_kind=kind), published=published)
    reasons = possible_reasons(Verdict.STRONGER, rows, "", context)
    expected = [ReasonCode.OTHER_STORAGE] if is_reason else []
    assert [reason.code for reason in reasons] == expected


@pytest.mark.parametrize(
    ("history", "scales", "is_reason"),
    [
        ("real", {"ruby": 1.0}, True),
        # A dump file has no scale.
        ("real", {}, False),
        ("generated", {"ruby": 1.0}, False),
        ("", {"ruby": 1.0}, False),
    ],
)
@pytest.mark.parametrize("difference", [Verdict.STRONGER, Verdict.REVERSED, None])
def test_generated_history_explains_what_was_published_on_real_ones(
    history, scales, is_reason, difference
):
    rows = pd.DataFrame({"command": ["log"], "repo": ["ruby"], "cache": ["cold"]})
    context = EvaluationContext(scales=scales, published=Conditions(history=history))
    expected = [ReasonCode.GENERATED] if is_reason else []
    found = possible_reasons(difference, rows, "repo", context)
    assert [reason.code for reason in found] == expected
    # A study of trees has no repositories.
    assert list(possible_reasons(difference, rows, "", context)) == []


@pytest.mark.parametrize(
    ("command", "repository", "scale", "share"),
    [
        ("dump", "ruby", 0.1, 0.1),
        # 4,605 revisions here, and 20,000 of 46,054 there.
        ("log", "ruby", 0.1, 0.23027),
        ("log", "ruby", 1.0, 1.0),
        # Half of the repository still has more revisions than the limit.
        ("log", "ruby", 0.5, 1.0),
        ("log", "mine", 0.5, 0.5),
    ],
)
def test_work_share_counts_limit_of_a_command(command, repository, scale, share):
    published = Conditions(1.0, revisions={"ruby": 46054}, limits={"log": 20000})
    context = EvaluationContext(scales={repository: scale}, published=published)
    assert work_share(command, repository, context) == pytest.approx(share)
