"""The charts' specifications: all of the data, laid out as the tables are, and Vega can draw them."""

from __future__ import annotations

from typing import Any

import vl_convert

from vcsbench.metrics import metric_of
from vcsbench.report.charts import panels, ratios
from vcsbench.report.charts.drift import drift_charts
from vcsbench.report.charts.levels import level_charts
from vcsbench.report.charts.ratios import ratio_charts
from vcsbench.report.grids import layout_of

ORDER = {
    "command": ["log", "export"],
    "ra": ["http", "svn"],
    "format": ["f6", "f7"],
    "cache": ["cold", "hot-os"],
}
LAYOUT = layout_of({"metric": "elapsed_s", "rows": ["ra", "format"], "columns": ["cache"]}, ORDER)
ELAPSED = metric_of("elapsed_s")
COMPARE: dict[str, Any] = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    "rows": ["ra"],
    "columns": ["cache"],
}
RATIO = layout_of(COMPARE, ORDER)
BLOCK = ["command", "repo", "cache"]


def runs(rounds: int = 3) -> list[dict[str, Any]]:
    return [
        {
            "cell": f"{command}/{ra}/{f}/{cache}",
            "command": command,
            "ra": ra,
            "format": f,
            "cache": cache,
            "round": number,
            "elapsed_s": 1.0 + 0.1 * (rounds - number),
            "flags": "",
        }
        for cache in ("hot-os", "cold")
        for command in ("export", "log")
        for f in ("f7", "f6")
        for ra in ("svn", "http")
        for number in range(1, rounds + 1)
    ]


def told(value: float = 1.1) -> list[dict[str, Any]]:
    """The rows of the table of those runs."""
    return [{**row, "value": value} for row in runs(rounds=1)]


def ratio(**values: Any) -> dict[str, Any]:
    usual = {"command": "log", "ra": "svn", "cache": "cold", "baseline": "f6", "candidate": "f7"}
    return {
        **usual,
        "value": 20,
        "ratio": 1.2,
        "low": 1.1,
        "high": 1.3,
        "n": 5.0,
        "flags": "",
        "call": "faster",
        **values,
    }


def drawn(spec: dict[str, Any]) -> str:
    return str(vl_convert.vegalite_to_svg(spec))


def test_elapsed_has_every_round_in_the_studys_order() -> None:
    group = level_charts("elapsed", ELAPSED, runs(), told(), LAYOUT)
    assert [chart.title for chart in group.charts] == ["log", "export"]
    points = [p for p in group.charts[0].spec["data"]["values"] if "value" in p]
    assert len(points) == 2 * 2 * 2 * 3
    assert list(dict.fromkeys(p["panel"] for p in points)) == ["cold", "hot-os"]
    assert list(dict.fromkeys((p["line"], p["hue"]) for p in points)) == [
        ("http", "f6"),
        ("http", "f7"),
        ("svn", "f6"),
        ("svn", "f7"),
    ]
    svg = drawn(group.charts[0].spec)
    for text in ("cold", "hot-os", "http", "svn", "f6", "f7"):
        assert f">{text}</text>" in svg


def test_a_tick_is_the_number_of_the_table_and_not_a_median_of_runs() -> None:
    # Several runs in a round, or a quotient of medians: another median than that of all runs.
    spec = level_charts("elapsed", ELAPSED, runs(), told(0.9), LAYOUT).charts[0].spec
    ticks = [p for p in spec["data"]["values"] if "told" in p]
    assert len(ticks) == 2 * 2 * 2 and {p["told"] for p in ticks} == {0.9}
    assert "median" not in str(spec["spec"])
    none = [{**row, "value": None} for row in told()]
    spec = level_charts("elapsed", ELAPSED, runs(), none, LAYOUT).charts[0].spec
    assert not [p for p in spec["data"]["values"] if "told" in p]


def test_very_many_points_become_ticks_and_ranges(monkeypatch: Any) -> None:
    monkeypatch.setattr(panels, "MANY_POINTS", 10)
    spec = level_charts("elapsed", ELAPSED, runs(), told(), LAYOUT).charts[0].spec
    points = spec["data"]["values"]
    assert len(points) == 8 + 8
    assert {(p["low"], p["high"]) for p in points if "low" in p} == {(1.0, 1.2)}
    assert {p["told"] for p in points if "told" in p} == {1.1}
    assert "svn" in drawn(spec)


def test_ratio_chart_has_intervals_and_says_which_are_differences() -> None:
    rows = [
        ratio(),
        ratio(ra="http", ratio=0.5, low=0.4, high=0.6, call="slower"),
        ratio(cache="hot-os", low=0.9, call="too noisy to say"),
        ratio(cache="hot-os", ra="http", low=None, high=None, call=""),
        ratio(command="export", ratio=None, low=None, high=None),
    ]
    group = ratio_charts("f6-vs-f7", COMPARE, rows, RATIO)
    [chart] = group.charts  # the export has no ratio
    calls = {(p["panel"], p["line"]): p["call"] for p in chart.spec["data"]["values"]}
    assert calls == {
        ("cold", "http"): "baseline",
        ("cold", "svn"): "candidate",
        ("hot-os", "http"): "neither",
        ("hot-os", "svn"): "neither",
    }
    assert "cold" in drawn(chart.spec)


def test_interval_over_decades_does_not_squeeze_the_scale() -> None:
    [chart] = ratio_charts("f6-vs-f7", COMPARE, [ratio(low=1e-6, high=1e6)], RATIO).charts
    text = str(chart.spec["spec"])
    domain = chart.spec["spec"]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert 0.5 < domain[0] < 1 < domain[1] < 2
    assert "'clip': True" in text


def test_ticks_suit_the_scale() -> None:
    for domain in ([0.7, 1.4], [0.4, 1.2], [0.3, 4.0], [0.05, 60.0]):
        ticks = ratios._factors(domain)
        assert 1 in ticks
        assert 2 <= len(ticks) <= 9
        assert all(domain[0] <= tick <= domain[1] for tick in ticks)


def test_drift_is_each_blocks_relative_to_its_cells_medians() -> None:
    group = drift_charts(runs(), ORDER, BLOCK, ["repo"])
    points = group.charts[0].spec["data"]["values"]
    single = [p for p in points if "pct" in p]
    blocks = {(p["panel"], p["round"]): p for p in points if "drift" in p}
    assert len(single) == 48
    assert [blocks["log cold", number]["drift"] for number in (1, 2, 3)] == [9.1, 0, -9.1]
    assert {p["cells"] for p in blocks.values()} == {4}
    assert list(dict.fromkeys(p["panel"] for p in single)) == [
        "log cold",
        "log hot-os",
        "export cold",
        "export hot-os",
    ]
    assert "log cold" in drawn(group.charts[0].spec)


def test_a_blocks_drift_is_a_geometric_mean_over_runs_that_count() -> None:
    rows = [
        {
            **{"cell": cell, "command": "log", "cache": "cold", "round": number, "flags": ""},
            "elapsed_s": seconds,
            "started_at": f"2026-11-21T0{number}:0{minute}:00Z",
        }
        for minute, cell, times in ((5, "a", [4.0, 1.0, 1.0]), (3, "b", [30.0, 30.0, 15.0]))
        for number, seconds in enumerate(times, 1)
    ]
    false = {**rows[0], "cell": "c", "elapsed_s": 99.0, "flags": "warm"}
    points = drift_charts([*rows, false], ORDER, BLOCK, ["repo"]).charts[0].spec["data"]["values"]
    assert {p["cell"] for p in points if "pct" in p} == {"a", "b"}
    blocks = [p for p in points if "drift" in p]
    assert [p["drift"] for p in blocks] == [100, 0, -29.3]  # sqrt(4 x 1), 1, sqrt(1 x 0.5)
    assert (blocks[0]["block"], blocks[0]["started"]) == ("log cold", "2026-11-21T01:03:00Z")


def test_thirty_blocks_have_a_panel_each_and_repositories_a_line() -> None:
    order = {
        **ORDER,
        "command": [f"c{i:02}" for i in range(10)],
        "cache": ["cold", "hot", "hotter"],
    }
    rows = [
        {
            **{"cell": f"{command}/{repo}/{cache}", "command": command, "repo": repo},
            **{"cache": cache, "round": number, "elapsed_s": 1.0 + number * (repo == "bsd")},
        }
        for command in order["command"]
        for cache in order["cache"]
        for repo in ("ruby", "bsd")
        for number in (1, 2, 3)
    ]
    spec = drift_charts(rows, order, BLOCK, ["repo"]).charts[0].spec
    blocks = [p for p in spec["data"]["values"] if "drift" in p]
    assert len({p["panel"] for p in blocks}) == 30
    assert {p["block"] for p in blocks if p["panel"] == "c03 hot"} == {
        "c03 hot ruby",
        "c03 hot bsd",
    }
    assert {p["drift"] for p in blocks if p["line"] == "ruby"} == {0}
    picture = drawn(spec)
    assert "c09 hotter" in picture and ">bsd<" in picture


def test_one_round_has_no_drift_and_nothing_measured_no_chart() -> None:
    assert drift_charts(runs(rounds=1), ORDER, BLOCK, ["repo"]).charts == []
    assert drift_charts([], ORDER, BLOCK, ["repo"]).charts == []
    assert level_charts("elapsed", ELAPSED, [], [], LAYOUT).charts == []
    assert ratio_charts("f6-vs-f7", COMPARE, [], RATIO).charts == []
