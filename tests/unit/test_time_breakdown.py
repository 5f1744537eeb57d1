"""The time that a run took, from its results."""

from datetime import datetime, timedelta

import pandas as pd
import pytest

from vcsbench.evidence.measurements import PAUSE_S, time_breakdown
from vcsbench.files import write_json

BEGAN = datetime(2026, 11, 22, 4, 0, 0)


def frame(*rounds):
    """Return cell-rounds from their start in seconds, command, round, duration and waiting time."""
    rows = [
        {
            "cell": f"{command}/cold",
            "command": command,
            "round": float(number),
            "started_at": (BEGAN + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "waited_s": waited,
            "cell_round_s": took,
            "elapsed_s": 0.4 * took,
        }
        for at, command, number, took, waited in rounds
    ]
    return pd.DataFrame(rows)


def test_time_breakdown_has_cell_rounds_and_waiting():
    rows = frame((0, "log", 1, 10, 0), (10.5, "dump", 1, 4, 0), (15, "log", 2, 12, 0))
    breakdown = time_breakdown(rows, ["command"], [])
    assert breakdown.measuring_s == 26 and breakdown.waiting_s == pytest.approx(1.0)
    assert breakdown.blocks["log"].rounds == 2 and breakdown.blocks["log"].round_s == pytest.approx(
        11.5
    )
    assert breakdown.total_s == pytest.approx(27)
    rows = frame((0, "log", 1, 10, 0))
    breakdown = time_breakdown(pd.concat([rows, rows]), ["command"], [])
    assert breakdown.total_s == 10 and breakdown.timed_s == 8, "each of two runs was timed"


def test_time_breakdown_excludes_pauses_and_other_measurements():
    stopped = frame((0, "log", 1, 10, 0), (10 + PAUSE_S + 1, "log", 2, 10, 0))
    assert time_breakdown(stopped, ["command"], []).waiting_s == 0
    kept_out = frame((0, "log", 1, 10, 0), (310, "log", 2, 10, 299))
    assert time_breakdown(kept_out, ["command"], []).waiting_s == pytest.approx(1)
    assert time_breakdown(kept_out, ["command"], []).total_s == pytest.approx(21)


def test_time_breakdown_includes_preparation_records(tmp_path):
    write_json(tmp_path / "loaded.json", {"seconds": 40.5})
    records = [tmp_path / "loaded.json", tmp_path / "vanished.json"]
    assert time_breakdown(frame((0, "log", 1, 10, 0)), ["command"], records).total_s == 50.5
    nothing = frame((0, "log", 1, 10, 0)).iloc[:0]
    assert time_breakdown(nothing, ["command"], records).total_s == 40.5
