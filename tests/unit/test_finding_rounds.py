"""Rounds for findings: which findings are open, how many rounds they need, and who comes first."""

import pytest

from unit.synthetic import finding, rows_frame
from vcsbench.codes import Result
from vcsbench.statistics import budget
from vcsbench.statistics.finding_rounds import OpenFinding, allocate_to_findings, list_open_findings
from vcsbench.statistics.findings import make_context
from vcsbench.statistics.settings import StudySettings


def open_findings(ratios, by=(), **changes):
    """Return the open findings if f6 takes `ratios` times f7 in rounds 1, 2, 3, ... of two commands."""
    rows = [
        {"command": command, "format": value, "round": number, "elapsed_s": elapsed}
        for command in ("log", "export")
        for number, ratio in enumerate(ratios, start=1)
        for value, elapsed in (("f6", ratio), ("f7", 1.0))
    ]
    frame = rows_frame(rows, scale=1.0)
    axes = {"command": [], "format": []}
    settings = StudySettings(axes, by, ["command"], {}, budget.Limits())
    context = make_context(frame, [], settings)
    return list_open_findings([finding(**changes)], frame, settings, context)


def test_finding_whose_interval_crosses_an_end_is_open_in_its_own_block():
    # The mean is 2.1, and the range ends at 2.2.
    ratios = [1.9, 2.3, 2.0, 2.2, 2.1]
    (found,) = open_findings(ratios)
    assert found.id == "f7-log" and found.blocks == {"log"}
    # The half width is 0.093 in logarithms, and must be 0.8 x 0.048: 5 x (0.093 / 0.038)^2 = 30 in all.
    assert found.further_rounds == pytest.approx(25, abs=3)
    # Tables may group by a further column.
    assert open_findings(ratios, by=["tester"]) == [found]


def test_finding_with_a_direction_and_a_ratio_near_1_is_open_until_its_effect_is_gone():
    # The mean is 1.002, which lies on the end 1 of the expected range. The margin is 1.1.
    expect = {"over": "mean", "direction": "faster"}
    (found,) = open_findings([1.15, 0.87, 1.1, 0.9, 1.02], expect=expect)
    # The half width is about 0.15 in logarithms, and must be 0.8 x 0.093.
    assert 5 < found.further_rounds < 25


@pytest.mark.parametrize(
    ("ratios", "changes"),
    [
        ([2.0, 2.01, 1.99, 2.0, 2.02], {}),  # reproduced
        ([1.2, 1.21, 1.19, 1.2, 1.22], {}),  # weaker
        ([2.1], {}),  # one round has no interval
        ([1.9, 2.3, 2.0], {"where": {"command": "dump"}}),  # not measured
    ],
)
def test_finding_with_verdict_or_without_values_is_not_open(ratios, changes):
    assert open_findings(ratios, **changes) == []


NEAR, FAR = OpenFinding("near", frozenset("a"), 4), OpenFinding("far", frozenset("ab"), 20)
ROUND_S = {"a": 10.0, "b": 5.0}


@pytest.mark.parametrize(
    ("findings", "batch_s", "seconds", "rounds"),
    [
        # Near first, then as many of far as the batch holds. Both share rounds of a.
        ([FAR, NEAR], 100, 1000, {"a": 4, "b": 4}),
        ([FAR, NEAR], 500, 1000, {"a": 20, "b": 20}),
        ([FAR], 100, 200, {}),  # the run cannot decide it
        ([NEAR], 20, 1000, {"a": 2}),
        ([OpenFinding("lost", frozenset("c"), 1)], 100, 1000, {}),  # no round of it was measured
        ([], 100, 1000, {}),
    ],
)
def test_allocate_to_findings_begins_with_the_quickest(findings, batch_s, seconds, rounds):
    assert allocate_to_findings(findings, ROUND_S, batch_s=batch_s, seconds=seconds) == rounds


def test_findings_come_before_comparisons_that_more_rounds_decide_sooner():
    quick = budget.Comparison("t", frozenset("b"), Result.UNDECIDED, 1)
    with_finding = budget.allocate_rounds([quick], ROUND_S, 600, [NEAR])
    assert with_finding.rounds == {"a": 4}
    assert budget.allocate_rounds([quick], ROUND_S, 600).rounds == {"b": 1}
