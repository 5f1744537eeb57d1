"""Published times against measured ones, from cold and from warm caches."""

import json
import math
from functools import partial

import pandas as pd
import pytest

from vcsbench.codes import ReasonCode, Verdict, WorkUnit
from vcsbench.statistics import texts
from vcsbench.statistics.difference_reasons import (
    NO_TIMES,
    CellWork,
    Shrinkage,
    compare_times,
    possible_reasons,
    published_amount,
    work_of_cell,
    work_share,
)
from vcsbench.statistics.evaluations import Conditions, EvaluationContext

AXES = ["command", "repo", "cache"]
MARGIN = 1.1


def whole(_command, _repository, _work):
    return CellWork(1.0, 1.0)


def tenth(_command, _repository, _work):
    return CellWork(1.0, 0.1)


def frame(cold, warm, command="log"):
    rows = [("cold", cold), ("hot-os", warm)]
    cells = [{"command": command, "repo": "ruby", "cache": c, "elapsed_s": s} for c, s in rows]
    return pd.DataFrame(cells)


def test_shrinkage_counts_share_of_revisions():
    # The log of 2014: 46,054 revisions in 422.1 s cold and 13.4 s warm. Here, a tenth of them.
    times = compare_times(frame(422.1, 13.4), frame(1.3, 0.29), AXES, "repo", tenth)
    shrinkage = times.shrinkage
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
    shrinkage = compare_times(published, measured, AXES, "repo", whole).shrinkage
    assert shrinkage.cold == pytest.approx(4.0) and shrinkage.warm == pytest.approx(2.0)


def test_shrinkage_without_cold_cells_or_cache_axis_is_unknown():
    warm = frame(1.0, 1.0).query("cache != 'cold'")
    assert math.isnan(compare_times(warm, warm, AXES, "repo", whole).shrinkage.cold)
    without_axis = compare_times(warm, warm, ["command", "repo"], "repo", whole)
    assert math.isnan(without_axis.shrinkage.warm)


@pytest.mark.parametrize("lacking", ["published", "measured"])
def test_shrinkage_without_elapsed_times_is_unknown(lacking):
    frames = {"published": frame(8.0, 4.0), "measured": frame(1.0, 1.0)}
    frames[lacking] = frames[lacking].rename(columns={"elapsed_s": "throughput_mb_s"})
    times = compare_times(frames["published"], frames["measured"], AXES, "repo", whole)
    assert times is NO_TIMES


def test_compare_times_leaves_out_cell_with_time_of_0():
    published = pd.concat([frame(8.0, 4.0), frame(0.0, 2.0, "export")])
    measured = pd.concat([frame(1.0, 1.0), frame(1.0, 0.0, "export")])
    shrinkage = compare_times(published, measured, AXES, "repo", whole).shrinkage
    assert (shrinkage.cold, shrinkage.warm) == pytest.approx((8.0, 4.0))


# The log of 2014 on ruby, and a history of 1,000 revisions here.
RUBY = Conditions(1, revisions={"ruby": 46054})
LOG = json.dumps({"revisions": 1000, "bytes": 1})


def of_ruby(command, repository, work):
    return work_of_cell(command, repository, work, EvaluationContext(published=RUBY))


def test_compare_times_of_log_has_milliseconds_of_each_revision():
    measured = frame(0.28, 0.09).assign(work=LOG)
    times = compare_times(frame(422.1, 18.9), measured, AXES, "repo", of_ruby)
    (remark,) = times.remarks()
    assert (remark.code, remark.values["unit"]) == (ReasonCode.UNIT_TIMES, WorkUnit.REVISION)
    seconds = remark.values["seconds"]
    assert seconds["cold"] == pytest.approx([0.0092, 0.00028], rel=0.005)
    assert seconds["warm"] == pytest.approx([0.00041, 0.00009], rel=0.005)
    text = texts.reason_text(remark)
    assert text.endswith("cold 9.2 → 0.28 ms, warm 0.41 → 0.090 ms")
    # Their quotients are the shrinkage.
    assert times.shrinkage.cold == pytest.approx(seconds["cold"][0] / seconds["cold"][1])
    # Rounds are averaged by their factors, as in tables.
    rounds = pd.concat([measured.assign(elapsed_s=s) for s in (0.1, 0.4)])
    times = compare_times(frame(422.1, 18.9), rounds, AXES, "repo", of_ruby)
    assert times.cold.measured == pytest.approx(0.2 / 1000)


@pytest.mark.parametrize(
    ("work", "changes"),
    [
        ("", {}),
        # Its rounds did different work.
        (f"{LOG}\n{LOG[:-1]} }}", {}),
        # Nobody published how many files the tree has.
        (json.dumps({"files": 719}), {}),
        (LOG, {"repo": "mine"}),
    ],
)
def test_times_of_unknown_work_have_no_remark(work, changes):
    published = frame(422.1, 18.9).assign(**changes)
    measured = frame(0.28, 0.09).assign(work=work, **changes)
    times = compare_times(published, measured, AXES, "repo", of_ruby)
    assert times.remarks() == [] and math.isfinite(times.shrinkage.cold)


def test_times_of_cells_with_different_units_have_no_remark():
    measured = frame(0.28, 0.09).assign(work=LOG)
    published = pd.concat([frame(422.1, 18.9), frame(9.0, 4.0, "export")])
    export = frame(1.0, 0.5, "export").assign(work=json.dumps({"files": 719}))
    both = pd.concat([measured, export])
    assert compare_times(published, both, AXES, "repo", of_ruby).remarks() == []
    assert compare_times(published, measured, AXES, "repo", of_ruby).remarks() != []


def test_times_of_a_study_without_states_of_caches_are_of_each_file():
    published = Conditions(1, files={"large": 27000})
    context = EvaluationContext(published=published)
    theirs = pd.DataFrame({"command": ["checkout"], "repo": ["large"], "elapsed_s": [27.0]})
    ours = theirs.assign(elapsed_s=1.0, work=json.dumps({"files": 2000}))
    work_of = partial(work_of_cell, context=context)
    (remark,) = compare_times(theirs, ours, ["command", "repo"], "repo", work_of).remarks()
    assert remark.values["unit"] == WorkUnit.FILE
    assert remark.values["seconds"] == {"": pytest.approx([0.001, 0.0005])}
    assert texts.reason_text(remark).endswith(": 1.0 → 0.50 ms")


@pytest.mark.parametrize(
    ("command", "repository", "amount"),
    [
        # The log of 2014 ends after 50,000 revisions, and the dump of the SSD study is of 5,000.
        ("log", "bsd", 50000),
        ("log", "ruby", 46054),
        ("dump", "bsd", 5000),
        ("verify", "bsd", 263988),
    ],
)
def test_published_amount_counts_limit_and_range_of_a_command(command, repository, amount):
    revisions = {"ruby": 46054, "bsd": 263988}
    published = Conditions(1, revisions=revisions, limits={"log": 50000}, ranges={"dump": 5000})
    assert published_amount(WorkUnit.REVISION, command, repository, published) == amount
    assert math.isnan(published_amount(WorkUnit.REVISION, command, "mine", published))


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
