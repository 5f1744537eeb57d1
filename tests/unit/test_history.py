"""The history over saved baselines: by date, and never across machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unit.synthetic import FACTORS, SyntheticStudy
from unit.test_baselines import AXES, STUDY, edit, here, measure
from vcsbench.report.page import history_table
from vcsbench.statistics import baseline_comparison, baselines
from vcsbench.statistics.baseline_comparison import history
from vcsbench.statistics.contract import DEFAULT_LIMITS

__all__ = ["here"]  # the fixture
QUIET = {"noise": 0.01, "drift": 0.0, "twins": 1}
SLOWER = {**FACTORS, "cache": {"cold": 3.0 * 1.3, "hot-os": 1.0}}


def history_of(now: SyntheticStudy, *names: str) -> dict[str, Any]:
    return history(names, STUDY, now.results, AXES, [], DEFAULT_LIMITS)


def save(name: str, made: SyntheticStudy) -> None:
    baselines.save(name, [STUDY], made.results)


def test_history_has_times_by_date_and_calls_of_table(here: Path) -> None:
    first = measure(here, "a", **QUIET)
    second = measure(here, "b", **QUIET, seed=2, factors=SLOWER)
    now = measure(here, "c", **QUIET, seed=3, factors=SLOWER)
    save("z-oldest", first)
    save("a-second", second)
    result = history_of(now, "a-second", "z-oldest")
    assert [time["name"] for time in result["times"]] == ["z-oldest", "a-second", "now"]
    assert [time["before"] for time in result["times"]] == ["", "z-oldest", "a-second"]
    sides = [baseline_comparison.load_baseline(name, STUDY) for name in ("z-oldest", "a-second")]
    both = baseline_comparison.pair_cells(*sides, list(AXES))
    table = baseline_comparison.baseline_table("z-oldest", both, AXES).to_dict("records")
    calls = {tuple(row[axis] for axis in AXES): row["call"] for row in table}
    points = {(point["time"], *(point[axis] for axis in AXES)): point for point in result["points"]}
    assert len(points) == len(result["points"]) == 3 * 8
    assert {key[1:]: p["call"] for key, p in points.items() if key[0] == "a-second"} == calls
    assert {p["cache"] for p in points.values() if p["call"] == "slower"} == {"cold"}
    slower = [time["calls"].get("slower", 0) for time in result["times"][1:]]
    assert slower == [4, 0]
    assert all(p["low"] < p["value"] < p["high"] for p in points.values())
    assert {p["line"] for p in points.values()} == {0}


def test_history_hosts_have_own_lines(here: Path) -> None:
    save("here", measure(here, "a", **QUIET))
    elsewhere = measure(here, "b", **QUIET, factors=SLOWER, host=lambda number: "other#bbbb")
    save("there", elsewhere)
    now = measure(here, "c", **QUIET, factors=SLOWER, seed=3)
    result = history_of(now, "here", "there")
    times = {time["name"]: time for time in result["times"]}
    assert times["there"]["before"] == "" and times["there"]["compared"] == 0
    assert times["now"]["before"] == "here", "the latest of the same machine"
    assert times["now"]["calls"]["slower"] == 4
    assert {p["call"] for p in result["points"] if p["time"] == "there"} == {""}


def test_history_changed_cell_starts_line(here: Path) -> None:
    save("old", measure(here, "a", **QUIET))
    now = measure(here, "b", **QUIET, factors=SLOWER)
    edit(now, lambda context: context.update(argv_template="svn log of another kind"), "/svn/")
    points = [p for p in history_of(now, "old")["points"] if p["time"] == "now"]
    assert {p["ra"]: p["line"] for p in points} == {"svn": 1, "file": 0}
    assert {p["call"] for p in points if p["ra"] == "svn"} == {""}


def test_history_saved_current_runs_are_no_time(here: Path) -> None:
    now = measure(here, "a", **QUIET)
    save("today", now)
    result = history_of(now, "today")
    assert [time["name"] for time in result["times"]] == ["today"]
    assert result["points"] == [] and history_table(result) is None


def test_history_unreadable_baseline_is_reported(here: Path) -> None:
    save("good", measure(here, "a", **QUIET))
    save("bad", measure(here, "b", **QUIET))
    baselines.description_path("bad", STUDY).write_text("{")
    result = history_of(measure(here, "c", **QUIET, seed=2), "bad", "good")
    assert [time["name"] for time in result["times"]] == ["good", "now"]
    assert "baselines/bad" in result["unread"][0] and "is damaged" in result["unread"][0]


def test_history_rows_with_a_slower_run_count_its_calls(here: Path) -> None:
    save("old", measure(here, "a", **QUIET))
    result = history_of(measure(here, "b", **QUIET, seed=2, factors=SLOWER), "old")
    table = history_table(result)
    assert table
    (_, _, _, nothing, _, _), (_, _, host, before, calls, _) = table.rows
    assert (nothing, before) == ("", "old")
    assert calls.startswith("4 slower") and "workstation" in host  # type: ignore[union-attr]
