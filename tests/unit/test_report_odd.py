"""What a report points at by itself: hot slower than cold, caches that do not help, rounds that disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unit.report_files import default_study, order_of
from vcsbench.report.odd import odd_numbers
from vcsbench.report.results import Results

COLD, NEW, KEPT = (
    {"os": "cold", "server": "new"},
    {"os": "hot", "server": "new"},
    {"os": "hot", "server": "kept"},
)
PROMISES = {"cold": COLD, "hot-os": NEW, "hot-svn": KEPT}
STUDY = default_study()
AXES = {
    "command": "export",
    "ra": "http",
    "repo": "ruby",
    "format": "f7",
    "packing": "pack",
    "config": "slow",
}


def results(
    seconds: Mapping[str, list[float]], ra: str = "http", flags: str = "", **seen: Any
) -> Results:
    """The measurements of cells of which each state took so many seconds, round by round."""
    measured, contexts = [], []
    for cache, times in seconds.items():
        axes = {**AXES, "ra": ra, "cache": cache}
        cell = "/".join(axes.values())
        contexts.append({"cell": cell, "promises": PROMISES[cache]})
        for number, elapsed in enumerate(times, start=1):
            cpu = {"user_s": 0.1, "system_s": 0.05, "server_cpu_s": "" if ra == "file" else "0.25"}
            run = {"round": float(number), "run": 1.0, "elapsed_s": elapsed, "flags": flags}
            measured.append({"cell": cell, **axes, **run, **cpu, **seen})
    order = order_of(STUDY, {"repo": ["ruby"], "config": ["slow"]})
    return Results(study=STUDY, order=order, measurements=measured, contexts=contexts)


def titles(found: Results) -> list[str]:
    return [kind.title for kind in odd_numbers(found)]


def test_a_hot_cell_that_is_slower_than_its_cold_one() -> None:
    slower = results({"cold": [0.5] * 5, "hot-svn": [0.4, 0.75, 0.75, 0.75, 0.75]})
    [kind] = odd_numbers(slower)
    assert kind.title == "Hot, and slower than cold"
    [odd] = kind.found
    assert odd.cell.endswith("hot-svn")
    assert odd.says == "1.50 times as long, and longer in 4 of 5 rounds"
    assert odd.spent == [
        ("hot-svn", ["0.750", "0.150", "0.250", "0.350"]),
        ("cold", ["0.500", "0.150", "0.250", "0.100"]),
    ]


def test_what_noise_does_is_not_odd() -> None:
    assert titles(results({"cold": [0.5] * 5, "hot-svn": [0.3, 0.3, 0.52, 0.54, 0.55]})) == []
    assert titles(results({"cold": [0.5] * 5, "hot-svn": [0.51] * 5})) == []
    assert titles(results({"cold": [0.5] * 2, "hot-svn": [0.7] * 2})) == [], "too few rounds"
    false = results({"cold": [0.5] * 5, "hot-svn": [0.7] * 5}, flags="restarted")
    assert titles(false) == [], "no run counts"


def test_a_kept_server_that_is_slower_than_a_new_one() -> None:
    seconds = {"hot-os": [0.5] * 5, "hot-svn": [0.6] * 5}
    assert titles(results(seconds)) == ["A server that is kept, and slower than a new one"]
    assert titles(results(seconds, ra="file")) == [], "there is no server to keep"


def test_a_server_cache_that_does_not_help() -> None:
    found = odd_numbers(results({"hot-svn": [0.5] * 5}, flags="cache-ineffective"))
    assert [kind.title for kind in found] == ["Server caches that do not help"]
    assert found[0].found[0].says == "in 5 of 5 runs"


def with_acks(times: list[float], acks: list[float | str], **seen: Any) -> Results:
    """Runs of one cell that took so long, each with so many acknowledgements that were delayed."""
    found = results({"hot-svn": times}, **seen)
    rows = zip(found.measurements, acks, strict=True)
    return replace(found, measurements=[dict(row) | {"delayed_acks": n} for row, n in rows])


def test_runs_that_wait_for_a_delayed_acknowledgement() -> None:
    times = [0.50, 0.46, 0.51, 0.45, 0.50, 0.46]
    [kind] = odd_numbers(with_acks(times, [1, 0, 1, 0, 2, 0]))
    assert kind.title == "Runs that wait for an acknowledgement"
    [odd] = kind.found
    assert odd.says == "in 3 of 6 runs"
    assert odd.spent == [
        ("delayed", ["0.500", "0.150", "0.250", "0.100"]),
        ("not delayed", ["0.460", "0.150", "0.250", "0.060"]),
    ]


def test_where_all_runs_wait_the_waiting_shows_it() -> None:
    [kind] = odd_numbers(with_acks([0.5] * 5, [1] * 5))
    assert [of for of, _ in kind.found[0].spent] == ["delayed"]
    assert titles(with_acks([0.41] * 5, [1] * 5)) == [], "they compute all the time"


def test_an_acknowledgement_that_nobody_waited_for_is_not_odd() -> None:
    times = [0.46, 0.46, 0.46, 0.45, 0.46, 0.46]
    assert titles(with_acks(times, [1, 0, 1, 0, 2, 0])) == []
    assert titles(with_acks([0.5, 0.5, 0.46, 0.46, 0.46], [1, 1, 0, 0, 0])) == [], "too few runs"
    assert titles(with_acks([0.5] * 5, [""] * 5)) == [], "not counted"


def test_a_round_that_disagrees_with_all_others() -> None:
    [kind] = odd_numbers(results({"cold": [0.5, 0.5, 0.9, 0.5, 0.55]}))
    [odd] = kind.found
    assert odd.says == "round 3 took 1.64 times as long as the slowest other one"
    assert odd.spent[0] == ("round 3", ["0.900", "0.150", "0.250", "0.500"])


def test_cells_that_differ_in_more_than_the_state_are_not_held_against_each_other() -> None:
    cold, hot = results({"cold": [0.5] * 5}), results({"hot-svn": [0.9] * 5}, ra="svn")
    both = replace(
        cold,
        measurements=[*cold.measurements, *hot.measurements],
        contexts=[*cold.contexts, *hot.contexts],
    )
    assert titles(both) == []
