"""Which counts of system calls are a cell's own, and what stands where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcsbench.evidence import run_columns
from vcsbench.plan.recipe import CallCount, call_counts

RECIPE: dict[str, Any] = {
    "study": "s",
    "axes": {"command": "log", "cache": "cold"},
    "argv": "{svn} log",
    "stdin": "",
    "state": {"prepare": ["sync"]},
    "runs": 1,
    "clearing": "evict",
    "time_limit_s": 1,
}


def recipe(cell: str, **other: Any) -> dict[str, Any]:
    return {**RECIPE, "cell": cell, "digest": cell, **other}


def test_call_counts_cells_that_differ_in_cache_share() -> None:
    hot = recipe("log/hot", axes={"command": "log", "cache": "hot"}, state={}, runs=6)
    found = call_counts([recipe("log/cold"), hot, recipe("dump", argv="{svnadmin} dump")])
    assert found["log/cold"] == found["log/hot"]
    assert found["log/hot"].path == "log/cold" and found["dump"].path == "dump"


def test_call_counts_word_of_command_distinguishes() -> None:
    found = call_counts(
        recipe(n, axes={"number": n}, argv="{svn} log {number}") for n in ("1", "2")
    )
    assert found["1"] != found["2"]


def side(**counts: int) -> dict[str, int]:
    return {**dict.fromkeys(run_columns.CALL_COLUMNS, 0), **counts}


def test_call_columns_are_sum_of_both_sides() -> None:
    said = {"client": side(reads=3), "server": side(reads=4, seeks=1), "why_not": ""}
    told = run_columns.call_columns(said, "")
    assert (told["reads"], told["seeks"]) == (7, 1) and "not_counted" not in told


def test_call_columns_without_counts_have_reason() -> None:
    told = run_columns.call_columns(
        {"client": None, "why_not": "no strace"}, json.dumps({"flushes": "tmpfs"})
    )
    assert told["reads"] is None
    why = json.loads(told["not_counted"])
    assert why["reads"] == "no strace" and why["flushes"] == "tmpfs"
    assert (
        json.loads(run_columns.call_columns(None, "")["not_counted"])["reads"]
        == run_columns.NOT_COUNTED
    )


def test_read_calls_of_other_recipe_has_reason(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"cell": "log/cold", "digest": "old", "client": side(reads=1)}))
    now = {name: CallCount("log/cold", "new") for name in ("log/cold", "log/hot")}
    assert run_columns.read_calls([file], now)["log/hot"] == {"why_not": run_columns.OTHER_COMMAND}
    old = {"log/hot": CallCount("log/cold", "old")}
    assert run_columns.read_calls([file], old)["log/hot"]["client"]["reads"] == 1
