"""What a run says at its end: the answers in at most ten lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcsbench.report.terminal import AT_MOST, Found, lines, read

FASTER, UNTOLD = "faster", "too noisy to say"


def effect(
    axis: str, better: str, worse: str, ratio: float, call: str = FASTER, **with_: str
) -> Any:
    comparison = {"ratio": ratio, "low": ratio * 0.9, "high": ratio * 1.1, "call": call}
    return {
        "axis": axis,
        "better": better,
        "worse": worse,
        "with": [with_],
        "comparison": comparison,
    }


def advice(*items: dict[str, Any]) -> dict[str, Any]:
    return {"given": ["ra", "command", "cache"], "recommendations": list(items)}


def item(ra: str, command: str, cache: str, *effects: Any) -> dict[str, Any]:
    return {"ra": ra, "command": command, "cache": cache, "effects": list(effects)}


ACCOUNT: dict[str, Any] = {
    "tables": {
        "f6-vs-f7": {"comparisons": 10, "different": 4, "alike": 3},
        "nopack-vs-pack": {"comparisons": 2, "different": 1, "alike": 0},
    },
    "notable_pct": 10,
    "minutes": 15,
    "why": "",
    "studies": 1,
    "spent_s": {"preparation": 60, "measuring": 600, "waiting": 1},
    "blocks": [],
    "around_s": 40,
    "outlook": [
        {"seconds": 0, "left": {"f6-vs-f7": 3, "nopack-vs-pack": 1}},
        {"seconds": 900, "left": {"f6-vs-f7": 0, "nopack-vs-pack": 0}},
    ],
}
VERDICTS = ["reproduced", "reproduced", "differs", "inconclusive", "not measured"]


def test_each_axis_has_a_line_with_its_choice_by_how_much_and_where() -> None:
    found = advice(
        item("svn", "log", "cold", effect("packing", "pack", "nopack", 7.1, format="f7")),
        item("svn", "export", "cold", effect("packing", "pack", "nopack", 2.0)),
        item("http", "log", "hot-os", effect("packing", "nopack", "pack", 1.3)),
        item("file", "log", "hot-os", effect("packing", "pack", "nopack", 1.1, UNTOLD)),
        item("file", "export", "cold", effect("format", "f7", "f6", 1.1, UNTOLD)),
    )
    said = lines([Found("fsfs-san-2014", found, ACCOUNT, VERDICTS)])
    assert said == [
        "packing  pack, 7.1 times as fast as nopack (6.4 to 7.8): svn log cold, f7; "
        "better in 2 of 4 cases, nopack in 1",
        "8 of 12 comparisons answered",
        "2 reproduced, 1 differs, 1 inconclusive, of 5 published findings",
        "Next: 15 min more (MINUTES=27) would tell all of these at 10 %.",
    ]


def test_there_are_never_more_than_ten_lines() -> None:
    axes = [f"axis{number}" for number in range(12)]
    found = advice(item("svn", "log", "cold", *[effect(axis, "a", "b", 2) for axis in axes]))
    said = lines([Found("one", found, ACCOUNT, VERDICTS)])
    assert len(said) == AT_MOST and "axis11" in said[6]
    assert len(lines([Found(axis, found, ACCOUNT, VERDICTS) for axis in axes])) == AT_MOST


def test_several_studies_have_a_line_each() -> None:
    said = lines([Found("one", advice(), ACCOUNT, VERDICTS), Found("second", advice(), {}, [])])
    assert said[0].startswith("one     8 of 12 comparisons answered; 2 reproduced")
    assert said[1] == "second  nothing was compared"


def test_it_reads_what_a_checkout_has(tmp_path: Path) -> None:
    for folder in ("advice", "budget", "findings"):
        (tmp_path / folder).mkdir()
    (tmp_path / "advice" / "one.json").write_text(json.dumps(advice()))
    (tmp_path / "findings" / "one.csv").write_text("id,verdict\nx,differs\n")
    (found,) = read(tmp_path)
    assert (found.study, found.verdicts, found.account) == ("one", ["differs"], {})
