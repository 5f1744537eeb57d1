"""The charts of a page: their axes, their rows, their filters, and their files."""

import json

import pytest

from vcsbench.advice.decision import Pair
from vcsbench.report import chart_specs, charts
from vcsbench.report.card_rows import CardRow
from vcsbench.report.charts import FindingDot, LinePoint, RoundDot

PICKS = ["access", "format"]


def forest(*rows, picks=()):
    """Return the forest plot of rows: each a label, a ratio, and for some the ends of the interval."""
    texts = {"text": "f7 faster", "interval": "", "note": "", "style": "candidate"}
    made = []
    for label, ratio, *ends in rows:
        low, high = ends or (ratio / 1.1, ratio * 1.1)
        pair = Pair("f6", "f7", ratio, low, high)
        made.append(CardRow(pair, {"access": "svn"}, label, times=[], flags=[], **texts))
    names = {"name": "card-format", "title": "F", "sides": ("f6", "f7"), "compared": "format"}
    return chart_specs.forest_chart(rows=made, picks=picks, margin=1.1, **names)


def rows_of(chart, field):
    """Return the rows of the data that have a field."""
    parts = [chart.spec, *chart.spec.get("layer", [])]
    data = [part["data"]["values"] for part in parts if "data" in part]
    return next(rows for rows in data if field in rows[0])


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (0.9, 10.0, {1, 2, 5, 10}),
        (0.1, 1.0, {0.1, 0.2, 0.5, 1}),
        (0.77, 1.3, {0.8, 0.9, 1, 1.1, 1.2}),
        (0.0001, 100.0, {0.001, 1, 100}),
        (0.02, 31.0, {0.1, 1, 10}),
    ],
)
def test_factor_ticks_have_powers_of_ten_and_stay_inside(low, high, numbers):
    ticks = chart_specs.factor_ticks(low, high)
    assert numbers <= {*ticks}
    assert all(low <= tick <= high for tick in ticks)


def test_forest_chart_has_a_row_for_each_comparison_in_order():
    chart = forest(("b", 2.0), ("a", 0.5), picks=PICKS)
    rows = rows_of(chart, "ratio")
    assert [(row["label"], row["ratio"]) for row in rows] == [("b", 2.0), ("a", 0.5)]
    (band,) = rows_of(chart, "from")
    assert (band["from"], band["to"]) == (1 / 1.1, 1.1)
    encodings = [layer["encoding"] for layer in chart.spec["layer"]]
    assert {tuple(e["y"]["sort"]) for e in encodings if "y" in e} == {("b", "a")}
    assert [param["name"] for param in chart.spec["params"]] == ["pick_access", "pick_format"]


def test_forest_chart_has_whole_labels_on_several_lines():
    label = " ".join(["1 GiB cache + revprops + block read + no compression"] * 3)
    chart = forest((label, 2.0))
    (row,) = rows_of(chart, "ratio")
    lines = row["label"].split("\n")
    assert " ".join(lines) == row["case"] == label
    assert len(lines) == 3 and max(map(len, lines)) <= chart_specs.LABEL_LINE
    assert chart.spec["height"]["step"] >= 3 * chart_specs.FOREST_LINE


def test_forest_chart_without_an_interval_has_its_ends_at_the_ratio():
    (row,) = rows_of(forest(("a", 2.0, 0.0, 0.0)), "ratio")
    assert (row["low"], row["high"]) == (2.0, 2.0)


def test_pick_filter_fits_rows_without_the_axis_and_both_sides():
    text = chart_specs.pick_filter(PICKS, "format")
    assert "!datum['access'] || datum['access'] === pick_access" in text
    assert "datum.baseline === pick_format || datum.candidate === pick_format" in text


def test_axis_of_factors_holds_values_far_outside():
    low, high = chart_specs.factor_domain([1000.0, 0.00001, None, 0.0, float("inf")])
    assert high == pytest.approx(chart_specs.MAX_FACTOR * chart_specs.AXIS_MARGIN)
    assert low == pytest.approx(1 / chart_specs.MAX_FACTOR / chart_specs.AXIS_MARGIN)


def finding(verdict, **changes):
    values = {"expected_low": 1.05, "expected_high": None, "published": 1.1, "measured": 1.2}
    texts = {"published": "1.10x", "measured": "1.20x"}
    values |= {"low": 1.1, "high": 1.3, "texts": texts, "right_side": "f7 is faster", **changes}
    return FindingDot(label=f"It is {verdict}", verdict=verdict, **values)


def test_findings_chart_ends_open_ranges():
    dots = [
        finding("reversed", expected_low=None, expected_high=0.9),
        finding("reproduced", published=None),
    ]
    first, second = rows_of(chart_specs.findings_chart(dots), "measured_at")
    assert (first["verdict"], second["verdict"]) == ("reversed", "reproduced")
    # The numbers stand next to the verdict, and a factor that was not published is left out.
    assert first["outcome"] == "reversed\n1.10x → 1.20x"
    assert second["outcome"] == "reproduced\n1.20x"
    assert first["expected_low"] < 0.9 == first["expected_high"]
    assert second["expected_low"] == 1.05 < second["expected_high"]


def test_noise_chart_has_the_noisiest_cell_first():
    dots = [
        RoundDot(name, {}, n, n * size, "1 s")
        for name, size in (("a", 1), ("b", 9))
        for n in (0, 1)
    ]
    chart = chart_specs.noise_chart(dots, PICKS)
    assert chart.spec["encoding"]["y"]["sort"] == ["b", "a"]


def test_charts_are_drawn_and_written_with_their_specification(tmp_path):
    points = [LinePoint("a", "1", 0.5), LinePoint("a", "8", 2.0), LinePoint("a", "9", 0.0)]
    titles = {"title": "A", "place_title": "clients", "value_title": "seconds"}
    lines = chart_specs.line_chart(name="level-a", points=points, places=["1", "8"], **titles)
    drawn = [lines, chart_specs.time_chart({"measuring": 7.0, "waiting": 1.0})]
    svgs = charts.draw(drawn)
    charts.write_charts(drawn, svgs, tmp_path)
    names = {"level-a.svg", "level-a.vl.json", "time.svg", "time.vl.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert json.loads((tmp_path / "level-a.vl.json").read_text()) == lines.spec
    # The policy of the page forbids styles, and an SVG in a page can have no script.
    for svg in svgs.values():
        assert svg.startswith("<svg") and "style=" not in svg and "<script" not in svg
    assert len(rows_of(lines, "value")) == 2


def test_bundle_works_in_a_script_element_and_has_the_interpreter():
    bundle = charts.script_bundle()
    assert "</script" not in bundle and "window.vegaEmbed" in bundle
