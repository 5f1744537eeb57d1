"""Noise floors from twins."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from vcsbench.compare.noise import floors, noise_table

AXES = ["command", "ra", "format", "cache"]
NOISE_CLASS = ["command", "cache", "ra"]


def frame_of(*pairs, command="log", flags=""):
    """Measurements of cells f1, f2, ... and their twins, from a list of their times each."""
    rows = []
    for number, both in enumerate(pairs, start=1):
        for suffix, times in zip(("", "~2"), both, strict=True):
            axes = {"command": command, "ra": "svn", "format": f"f{number}", "cache": "cold"}
            for round_, elapsed in enumerate(times, start=1):
                cell = "/".join(axes.values()) + suffix
                rows.append({"cell": cell, **axes, "round": round_, "elapsed_s": elapsed})
    return pd.DataFrame(rows).assign(user_s=0.1, system_s=0.1, host="here", flags=flags)


ONE = ([1.0, 1.1, 0.9, 1.0, 1.2], [1.05, 1.0, 1.0, 0.98, 1.1])


def test_the_floor_of_one_pair_is_the_upper_limit_of_what_they_differ_by():
    row = noise_table(frame_of(ONE), AXES, NOISE_CLASS).iloc[0]
    d = np.log(ONE[0]) - np.log(ONE[1])
    theirs = stats.ttest_1samp(np.sign(d.mean()) * d, 0).confidence_interval(0.95)
    assert row["noise_floor"] == pytest.approx(math.exp(theirs.high))
    assert row["differed"] == pytest.approx(math.exp(abs(d.mean())))
    assert row["spread"] == pytest.approx(math.exp(d.std(ddof=1)))
    assert (row["twins"], row["rounds"]) == (1, 5)
    assert row["cells"] == "log/svn/f1/cold~2"
    assert row["detectable"] > row["noise_floor"] > row["differed"] >= 1


def test_which_of_the_two_took_longer_does_not_matter():
    there, back = (
        noise_table(frame_of(ONE), AXES, NOISE_CLASS),
        noise_table(frame_of(ONE[::-1]), AXES, NOISE_CLASS),
    )
    assert there["noise_floor"].tolist() == pytest.approx(back["noise_floor"].tolist())


def test_twins_of_a_class_are_pooled():
    other = ([2.0, 2.0, 2.1, 2.0, 2.0], [2.2, 2.1, 2.2, 2.2, 2.1])
    row = noise_table(frame_of(ONE, other), AXES, NOISE_CLASS).iloc[0]
    d = np.array([np.log(a) - np.log(b) for a, b in (ONE, other)])
    spread = math.sqrt(d.var(axis=1, ddof=1).mean())
    differed = math.sqrt((d.mean(axis=1) ** 2).mean())
    floor = differed + stats.t.ppf(0.975, 8) * spread / math.sqrt(5)
    assert (row["twins"], row["rounds"]) == (2, 5)
    assert row["spread"] == pytest.approx(math.exp(spread))
    assert row["noise_floor"] == pytest.approx(math.exp(floor))


def test_what_drifts_alike_is_no_noise():
    drift = [3.0, 2.0, 1.5, 1.2, 1.0]
    row = noise_table(frame_of((drift, drift)), AXES, NOISE_CLASS).iloc[0]
    assert row["noise_floor"] == pytest.approx(1)


def test_classes_are_the_studys():
    frame = pd.concat([frame_of(ONE), frame_of(ONE[::-1], command="export")])
    frame.loc[frame["command"] == "export", "elapsed_s"] **= 3
    table = noise_table(frame, AXES, NOISE_CLASS)
    assert table[["command", "cache", "ra"]].to_numpy().tolist() == [
        ["log", "cold", "svn"],
        ["export", "cold", "svn"],
    ]
    known = floors(frame, AXES, NOISE_CLASS)
    log, export = ({"command": c, "cache": "cold", "ra": "svn"} for c in ("log", "export"))
    assert (known.of(log), known.of(export)) == pytest.approx(tuple(table["noise_floor"]))
    assert known.over([log, export]) == known.of(export) > known.of(log)


def test_a_class_without_twins_has_no_floor():
    frame = pd.concat([frame_of(ONE), frame_of(ONE, command="export")])
    frame = frame[~((frame["command"] == "export") & frame["cell"].str.endswith("~2"))]
    table = noise_table(frame, AXES, NOISE_CLASS)
    assert table["twins"].tolist() == [1, 0]
    assert math.isnan(table["noise_floor"][1])
    known = floors(frame, AXES, NOISE_CLASS)
    export = {"command": "export", "cache": "cold", "ra": "svn"}
    assert math.isnan(known.of(export))
    assert math.isnan(known.over([{**export, "command": "log"}, export]))


def test_one_round_has_no_floor():
    table = noise_table(frame_of(([1.0], [1.1])), AXES, NOISE_CLASS)
    assert table["twins"].tolist() == [0]
    assert table["noise_floor"].isna().all()


def test_runs_with_a_false_label_are_left_out():
    frame = frame_of(ONE)
    wrong = frame.assign(elapsed_s=9.0, round=frame["round"] + 5, flags="warm")
    both = noise_table(pd.concat([frame, wrong]), AXES, NOISE_CLASS)
    pd.testing.assert_frame_equal(both, noise_table(frame, AXES, NOISE_CLASS))


def test_rounds_on_different_hosts_are_not_paired():
    frame = frame_of(ONE)
    frame["host"] = np.where(frame["cell"].str.endswith("~2"), "here", "there")
    assert noise_table(frame, AXES, NOISE_CLASS)["twins"].tolist() == [0]


def test_a_study_without_these_axes_has_one_class():
    frame = frame_of(ONE).drop(columns=["command", "ra", "cache"])
    table = noise_table(frame, ["format"], NOISE_CLASS)
    assert table["twins"].tolist() == [1]
    assert floors(frame, ["format"], NOISE_CLASS).of({"format": "f1"}) == table["noise_floor"][0]
