"""What findings ask of a run's minutes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from unit.test_findings import AXES, finding, measured
from vcsbench.statistics.budget import (
    Comparison,
    ComparisonSettings,
    probability_decided,
    rounds_needed_by_findings,
)
from vcsbench.statistics.contract import Limits

RATIOS = [2.0, 2.1, 1.9, 2.05, 1.95, 2.0]


def wants(*findings: dict[str, Any], commands: tuple[str, ...] = ("log",)) -> list[Comparison]:
    frame = measured(RATIOS, commands)
    order = {axis: sorted(set(frame[axis])) for axis in AXES}
    return rounds_needed_by_findings(
        findings, frame, ComparisonSettings({}, order, ["command"], Limits(min_rounds=5))
    )


def test_a_finding_wants_rounds_until_its_interval_crosses_no_bound() -> None:
    """Four times as many for a bound that is half as far away."""
    mean = sum(map(math.log, RATIOS)) / len(RATIOS)
    near, far, clear = (
        wants(finding(expect={"over": "median", "at_most": math.exp(mean + away)}))[0]
        for away in (0.01, 0.02, 0.5)
    )
    assert near.blocks == {"log"} and near.rounds == len(RATIOS)
    assert not near.is_precise_enough and near.needed / far.needed == pytest.approx(4, rel=0.05)
    assert clear.is_precise_enough and clear.needed == 5


def test_a_finding_that_is_nearly_told_is_worth_rounds() -> None:
    """What lacks but few of its rounds is told less often than not, and not nearly always."""
    mean = sum(map(math.log, RATIOS)) / len(RATIOS)
    bounds = (math.exp(mean + away / 1000) for away in range(10, 100))
    found = (wants(finding(expect={"over": "median", "at_most": bound}))[0] for bound in bounds)
    nearly = [one for one in found if not one.is_precise_enough][-1]
    assert 0.3 < probability_decided(np.array([nearly.rounds / nearly.needed]))[0] < 0.5


def test_it_counts_as_the_pairs_that_it_has_each_in_its_own_block() -> None:
    where = {"command": ["log", "null-log", "export"]}
    found = wants(finding(where=where), commands=("log", "null-log"))
    assert [[*one.blocks] for one in found] == [["log"], ["null-log"]]
    level = finding(level="elapsed_s", expect={"over": "max", "at_most": 9.0})
    del level["compare"]
    assert len(wants(level)) == 2  # cells


def test_what_is_not_measured_or_lies_on_its_bound_asks_for_nothing() -> None:
    assert wants(finding(where={"command": "export"})) == []
    assert wants(finding(compare={"to": "before"})) == []
    logs = [math.log(ratio) for ratio in RATIOS]
    bound = math.exp(sum(logs) / len(logs))
    (one,) = wants(finding(expect={"over": "median", "at_most": bound}))
    assert one.needed > 10**6
