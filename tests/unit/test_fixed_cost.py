"""Fixed cost: its cells in the grid, its share of each cell, and its part in findings."""

import math

import pandas as pd
import pytest

from unit.study_grid import study_environment, study_grid
from unit.synthetic import finding
from vcsbench.codes import Verdict
from vcsbench.errors import UserError
from vcsbench.evidence.collection import separate_fixed_cost
from vcsbench.plan.grid import is_fixed_cost
from vcsbench.statistics.findings import evaluate_findings

STUDY = "fsfs-san-2014"
AXES = ["command", "access", "repo", "format", "cache"]
COLD = {"command": "log", "config": "slow", "cache": "cold"}
SVN = "svn/empty/f6/nopack/slow/hot-server"


@pytest.mark.parametrize(
    ("include", "why_skip", "expected"),
    [
        # One per command, access and server configuration.
        ({"access": ["http", "svn"]}, "", ["http/empty/f6/nopack/slow/hot-server", SVN]),
        ({"access": "svn", "format": "f6", "packing": "pack"}, "", [SVN]),
        # The warmest cache that is not skipped.
        ({"access": "file", "format": "f7"}, "hot-server", ["file/empty/f7/nopack/slow/hot-os"]),
    ],
)
def test_grid_has_fixed_cost_cells(include, why_skip, expected):
    def skip(axes):
        return "no server" if axes["cache"] == why_skip else ""

    _, cells = study_grid(STUDY, {**COLD, **include}, why_skip=skip)
    paths = [cell.path for cell in cells if is_fixed_cost(cell.axes)]
    assert paths == [f"log/{path}" for path in expected]


def test_configuration_with_a_repository_called_empty_is_refused():
    empty = {"source": "generated", "profile": "ruby", "scale": 0.01}
    with pytest.raises(UserError, match="reserved"):
        study_environment(STUDY, repositories={"empty": empty})


def runs(repo, elapsed, count=5, **more):
    cell = {"command": "log", "access": "svn", "repo": repo, "format": "f6", "cache": "hot"} | more
    path = "/".join(str(cell[axis]) for axis in AXES)
    facts = {"user_s": 0.01, "system_s": 0.0, "host": "here", "flags": ""}
    facts |= {"elapsed_s": elapsed, "work": '{"kind": "log"}'}
    row = {"cell": path, **cell, "run": 1, **facts}
    return [row | {"round": n} for n in range(1, count + 1)]


def measured(*rows):
    return separate_fixed_cost(pd.DataFrame([row for part in rows for row in part]), AXES)[0]


def test_with_fixed_cost_relates_the_median_to_the_same_command_on_an_empty_repository():
    rows = runs("ruby", 0.1), runs("ruby", 0.05, access="http"), runs("empty", 0.02)
    frame = measured(*rows)
    by_access = frame.groupby("access")["fixed_share"].first()
    assert by_access["svn"] == pytest.approx(0.2)
    assert math.isnan(by_access["http"])
    assert set(frame["repo"]) == {"ruby"}
    on_another_host = [row | {"host": "there"} for row in rows[2]]
    assert measured(*rows[:2], on_another_host)["fixed_share"].isna().all()


def test_with_fixed_cost_leaves_out_invalid_runs():
    rows = [runs("ruby", 0.1), runs("empty", 0.02)]
    # Three of five runs are invalid, and would be the medians.
    for row in (*rows[0][:3], *rows[1][:3]):
        row |= {"elapsed_s": 10 * row["elapsed_s"], "flags": ["clock"], "delayed_acks": 1}
    frame = measured(*rows)
    assert frame["fixed_cost_s"].unique() == pytest.approx([0.02])
    assert frame["fixed_share"].unique() == pytest.approx([0.2])


@pytest.mark.parametrize(
    ("elapsed", "columns", "empty", "share"),
    [
        (0.1, {"delayed_acks": 1}, {"elapsed_s": 0.02, "delayed_acks": 0}, 0.6),
        (0.1, {"delayed_acks": 1}, {"elapsed_s": 0.06, "delayed_acks": 1}, 0.6),
        # A busy client does not wait for them.
        (1.0, {"user_s": 0.5, "system_s": 0.3, "server_cpu_s": 0.2}, {}, 0.1),
        (1.0, {"user_s": 0.5, "busy_s": 0.98, "cores": 1}, {}, 0.12),
        (1.0, {"user_s": 0.5, "busy_s": 0.98, "cores": 2}, {}, 0.5),
    ],
)
def test_with_fixed_cost_counts_waits_for_delayed_acknowledgements(elapsed, columns, empty, share):
    late = [row | columns for row in runs("ruby", elapsed, delayed_acks=10)]
    frame = measured(late, [row | empty for row in runs("empty", 0.1, delayed_acks=0)])
    assert frame["fixed_share"].unique() == pytest.approx([share])


@pytest.mark.parametrize(
    ("network", "share"),
    [
        *((network, 0.5) for network in ("", "loopback", "namespace")),
        # Over a line with a delay, the waits are part of the measurement.
        *((network, 0.1) for network in ("office", "line", "far")),
    ],
)
def test_delayed_acknowledgements_over_a_made_line_are_no_fixed_cost(network, share):
    late = runs("ruby", 1.0, network=network, delayed_acks=10)
    empty = runs("empty", 0.1, network=network, delayed_acks=0)
    frame, _ = separate_fixed_cost(pd.DataFrame([*late, *empty]), [*AXES, "network"])
    assert frame["fixed_share"].unique() == pytest.approx([share])


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (1.0, Verdict.REPRODUCED),
        (0.030, Verdict.TOO_SMALL),
        # Against 0.025 s, a start-up of 0.02 s explains no factor of 2.
        (0.05, Verdict.REPRODUCED),
    ],
)
def test_verdicts_of_mostly_fixed_cost_are_too_small(seconds, verdict):
    sides = runs("ruby", seconds), runs("ruby", seconds / 2, format="f7")
    check = finding(expect={"over": "mean", "at_least": 1.8})
    frame = measured(*sides, runs("empty", 0.02))
    assert evaluate_findings([check], AXES, None, frame)["verdict"].tolist() == [verdict]


def test_value_of_small_pairs_is_greatest_of_means_over_rounds():
    rows = [runs("empty", 0.02), runs("empty", 0.02, access="file")]
    # Each access has ratios of 2 and 1/2 in turn, so its mean is 1. The greatest of each round is 2.
    for odd, access in enumerate(("svn", "file")):
        slow = runs("ruby", 0.056, count=6, access=access)
        for row in slow[odd::2]:
            row["elapsed_s"] = 0.014
        rows += [slow, runs("ruby", 0.028, count=6, access=access, format="f7")]
    check = finding(expect={"over": "max", "at_least": 1.8})
    (row,) = evaluate_findings([check], AXES, None, measured(*rows)).to_dict("records")
    assert (row["verdict"], row["measured"]) == (Verdict.TOO_SMALL, pytest.approx(1.0))
