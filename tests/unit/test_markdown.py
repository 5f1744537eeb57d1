"""A table as Markdown, for people who read it in a terminal or on a web page."""

import pandas as pd

from unit.synthetic import WORK
from vcsbench.compare.tables import make_table
from vcsbench.report.markdown import to_markdown

ORDER = {
    "command": ["log", "null-export"],
    "ra": ["http", "svn"],
    "format": ["f6", "f7"],
    "config": ["slow", "fast"],
    "cache": ["cold", "hot-os"],
}
FORMATS = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    "rows": ["ra"],
    "columns": ["cache", "config"],
}
ELAPSED = {
    "metric": "elapsed_s",
    "rows": ["ra", "format"],
    "columns": ["cache", "config"],
}


def frame_of(commands=("log",), rounds=None):
    rows = [
        {"command": command, "ra": ra, "format": form, "config": config, "cache": cache}
        | {"elapsed_s": (3.0 if cache == "cold" else 0.25) * (0.5 if form == "f7" else 1.0)}
        for command in commands
        for ra in ORDER["ra"]
        for form in ORDER["format"]
        for config in ORDER["config"]
        for cache in ORDER["cache"]
    ]
    frame = pd.DataFrame(rows)
    if rounds is None:
        return frame
    many = pd.concat([frame.assign(round=number) for number in range(1, rounds + 1)])
    return many.assign(user_s=0.1, system_s=0.1, host="here", flags="", work=WORK)


def markdown_of(definition, frame, caveats=None):
    table = make_table(frame, "a-table", definition, ORDER, [])
    return to_markdown("a-table", definition, table.to_dict("records"), ORDER, caveats or {})


def test_comparison():
    assert markdown_of(FORMATS, frame_of()) == (
        "# a-table\n\n"
        "100 \N{MULTIPLICATION SIGN} (elapsed f6 \N{DIVISION SIGN} elapsed f7 \N{MINUS SIGN} 1), "
        "in per cent: above 0, f7 is faster.\n\n"
        "## log\n\n"
        "| ra | cold slow | cold fast | hot-os slow | hot-os fast |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| http | +100 | +100 | +100 | +100 |\n"
        "| svn | +100 | +100 | +100 | +100 |\n"
    )


def test_level():
    text = markdown_of(ELAPSED, frame_of())
    assert "Elapsed seconds, median of the rounds." in text
    assert "| ra | format | cold slow | cold fast | hot-os slow | hot-os fast |" in text
    assert "| http | f6 | 3.0 | 3.0 | 0.250 | 0.250 |" in text
    assert "| svn | f7 | 1.5 | 1.5 | 0.125 | 0.125 |" in text


def test_a_row_axis_with_one_value_stands_above_the_grid():
    frame = frame_of()
    text = markdown_of(FORMATS, frame[frame["ra"] == "svn"])
    assert "\nra svn\n" in text
    assert "| +100 | +100 | +100 | +100 |" in text


def test_a_caveat_stands_under_the_grids_of_its_command():
    caveats = {"null-export": "It does less work.", "export": "Not measured here."}
    text = markdown_of(FORMATS, frame_of(("log", "null-export")), caveats)
    log, null_export = text.split("## null-export")
    assert "It does less work." not in log
    assert null_export.rstrip().endswith("*It does less work.*")
    assert "Not measured here." not in text


def test_marks_are_explained_where_they_stand():
    frame = frame_of(rounds=5)
    svn_hot = (frame["ra"] == "svn") & (frame["cache"] == "hot-os")
    frame.loc[svn_hot & (frame["config"] == "slow"), "flags"] = "off-10"
    frame.loc[svn_hot & (frame["config"] == "fast"), "flags"] = "off-20"
    text = markdown_of(FORMATS, frame)
    assert "| svn | +100 | +100 | +100\N{DAGGER} | +100\N{DOUBLE DAGGER} |" in text
    assert "\N{DAGGER} a run is more than 10 %" in text
    assert "\N{DOUBLE DAGGER} a run is more than 20 %" in text
    assert "fewer rounds than the threshold `min_rounds`" not in text
    assert "fewer rounds than the threshold `min_rounds`" in markdown_of(
        FORMATS, frame_of(rounds=3)
    )


def test_a_value_that_is_withheld_says_why():
    frame = frame_of(rounds=5)
    frame["host"] = frame["format"]
    text = markdown_of(FORMATS, frame)
    assert "| svn | hosts-differ |" in text
    assert "*Withheld: Measured on different machines: numbers of theirs are never divided" in text


def test_a_missing_cell_is_an_empty_field():
    frame = frame_of()
    gone = (frame["ra"] == "svn") & (frame["cache"] == "cold") & (frame["config"] == "fast")
    assert "| svn | +100 |  | +100 | +100 |" in markdown_of(FORMATS, frame[~gone])


def test_a_table_without_numbers_says_so():
    frame = frame_of()
    text = markdown_of(FORMATS, frame[frame["format"] == "f6"])
    assert text.endswith("There is no number for this table.\n")


def test_what_a_table_tells_apart_beside_its_axes_has_columns_of_its_own():
    frame = frame_of(rounds=5)
    runs = pd.concat(
        frame.assign(run=float(run), elapsed_s=frame["elapsed_s"] * run) for run in (2, 10, 1)
    )
    definition = {**ELAPSED, "by": ["run"], "columns": ["cache", "config", "run"]}
    text = markdown_of(definition, runs.query("format == 'f6' and cache == 'cold'"))
    assert "slow 1 | slow 2 | slow 10 |" in text.replace("cold ", "")
    assert "| svn | 3 | 6 | 30 |" in text
    best = markdown_of({**definition, "reduce": "best"}, runs)
    assert best.splitlines()[2] == "Elapsed time, in s: the best of all runs."
