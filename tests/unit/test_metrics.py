"""Metrics: their definitions, and the direction of a metric where more is better."""

import numpy as np
import pytest

from unit.synthetic import rows_frame
from vcsbench.metrics import HIGH, LOW, METRICS, Metric, metric_of
from vcsbench.statistics.findings import evaluate_findings
from vcsbench.statistics.tables import make_table

AXES = {"command": ["log"], "format": ["f6", "f7"], "cache": ["cold"]}
COMPARE = {"axis": "format", "baseline": "f6", "candidates": ["f7"], "metric": "rate"}


def rate(better):
    return Metric(
        name="rate",
        title="Rate",
        unit="MB/s",
        reading="How much in a second.",
        quantity="rate",
        needs=("mb", "elapsed_s"),
        parts={"mb": lambda run: run["mb"], "elapsed_s": lambda run: run["elapsed_s"]},
        value=lambda part: part["mb"] / part["elapsed_s"],
        better=better,
    )


@pytest.fixture(params=[HIGH, LOW])
def better(request, monkeypatch):
    """A metric `rate` where more, or less, is better."""
    monkeypatch.setitem(METRICS, "rate", rate(request.param))
    return str(request.param)


def measured(f6=1.0, f7=2.0, runs=1):
    """Return measurements of five rounds with a duplicate, at some MB/s for f6 and f7."""
    random = np.random.default_rng(1)
    rows = [
        {"cell": f"log/{value}/cold{suffix}", "format": value, "round": round_, "run": run}
        | {"mb": mb * random.normal(1, 0.001), "elapsed_s": 1.0}
        for value, suffix, mb in (("f6", "", f6), ("f7", "", f7), ("f7", "~2", f7))
        for round_ in (1.0, 2.0, 3.0, 4.0, 5.0)
        for run in (1.0, 2.0, 3.0)[:runs]
    ]
    return rows_frame(rows, command="log", cache="cold")


def test_table_call_uses_words_of_metric(better):
    block = ["command", "cache"]
    table = make_table(measured(), "f6-vs-f7", {"compare": COMPARE}, AXES, block)
    (row,) = table.to_dict("records")
    assert row["value"] == pytest.approx(-50, abs=1)
    assert row["ratio"] == pytest.approx(0.5, rel=0.01)
    assert row["call"] == "higher"
    table = make_table(measured(2.0, 1.0), "t", {"compare": COMPARE}, AXES, block)
    (back,) = table.to_dict("records")
    assert (back["call"], back["error"] > 0) == ("lower", True)
    assert metric_of("rate").words.better == ("higher" if better == HIGH else "lower")


def test_finding_depends_on_value_only_and_names_an_unmeasured_metric(better):
    compare = {"axis": "format", "baseline": "f7", "candidate": "f6", "metric": "rate"}
    finding = {"id": "x", "statement": "y", "where": {}, "compare": compare}
    finding |= {"expect": {"over": "median", "at_least": 1.8, "at_most": 2.2}}
    level = {"id": "z", "statement": "y", "where": {"format": "f7"}, "level": "rate"}
    level |= {"expect": {"over": "min", "at_least": 3}}
    rows = evaluate_findings([finding, level], list(AXES), None, measured())
    assert rows["verdict"].tolist() == ["reproduced", "differs"]
    assert rows["measured"].tolist() == pytest.approx([2, 2], rel=0.01)
    frame = measured().drop(columns="mb")
    (row,) = evaluate_findings([finding], list(AXES), frame[[*AXES]], frame).to_dict("records")
    assert row["verdict"] == "not measured"
    assert row["why"].startswith("no metric: rate ")
    assert make_table(frame, "t", {"compare": COMPARE}, AXES, []).empty


def test_reduce_best_and_worst_run(better):
    frame = measured(runs=3)
    found = {}
    for reduce in ("median", "best", "worst"):
        definition = {"metric": "rate", "reduce": reduce}
        table = make_table(frame, "t", definition, AXES, [])
        found[reduce] = table.set_index("format")["value"]["f7"]
    of_f7 = frame[frame["cell"] == "log/f7/cold"]["mb"]
    high, low = ("best", "worst") if better == HIGH else ("worst", "best")
    assert (found[high], found[low]) == (of_f7.max(), of_f7.min())
    assert of_f7.min() < found["median"] < of_f7.max()
