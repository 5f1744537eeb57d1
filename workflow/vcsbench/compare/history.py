"""What was measured of a study over its saved baselines, in the order of their dates, and now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vcsbench.compare import against, baselines
from vcsbench.compare.against import SAME_RUNS, Side, ThenAndNow
from vcsbench.compare.decisions import NOT_SHOWN, TOO_NOISY, Limits, is_difference
from vcsbench.compare.intervals import ratio_interval
from vcsbench.compare.reduction import MEAN, by_round
from vcsbench.compare.scatter import limits_here
from vcsbench.errors import UserError
from vcsbench.evidence.frames import grouped
from vcsbench.metrics import DEFAULT


class Saved(NamedTuple):
    """A point in time: its name and what was measured then."""

    name: str
    side: Side


def history(
    names: Sequence[str],
    study: str,
    results: Path,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits,
) -> dict[str, Any]:
    """The history of a study: `times`, `points` and `unread` (a sentence for each baseline that is not read).

    `times` has a record for each baseline, the oldest first, and for `now` if something was measured since:
    name, first and last run, hosts, vcsbench, before (the time that it is compared with), compared (how many
    cells), calls (how often each was made) and changed. `points` has a record per cell and time: time, host,
    the axes, value, low and high in seconds, call, ratio (with its interval), and line, in which all
    numbers of a cell and host may be compared.

    A call is that of the cell against the same cell the time before on that host, by the rule of every table.
    """
    found, unread = _read(names, study, results)
    axes = list(order)
    times: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    lines: dict[tuple[str, ...], int] = {}
    for number, saved in enumerate(found):
        before = _before(saved, found[:number])
        both = against.cells_of_both(before.side, saved.side, axes) if before else []
        calls = {}
        if before:
            here = limits_here(limits, saved.side.frame, block)
            calls = _calls(before.name, both, order, here)
        _draw_on(lines, both, axes)
        points += _points(saved, axes, calls, lines)
        times.append(_time(saved, before, list(calls.values())))
    return {"times": times, "points": points if len(times) > 1 else [], "unread": unread}


def _read(names: Sequence[str], study: str, results: Path) -> tuple[list[Saved], list[str]]:
    """The saved baselines, the oldest first, and what is measured now if it is later; and why others are not
    read."""
    found, unread = [], []
    for name in names:
        try:
            found.append(Saved(name, against.side_saved(name, study)))
        except UserError as error:
            unread.append(str(error))
    found.sort(key=lambda saved: (saved.side.about["first"], saved.name))
    now = Saved(baselines.NOW, against.side_now(study, results))
    if not found or _is_later(found[-1], now):
        found.append(now)
    return found, unread


def _is_later(last: Saved, now: Saved) -> bool:
    """Whether something was measured since the last baseline."""
    return not against.runs_since(last.side.frame, now.side.frame).empty


def _before(saved: Saved, earlier: Sequence[Saved]) -> Saved | None:
    """The latest of earlier times on a host of this one."""
    hosts = saved.side.about["hosts"].keys()
    return next((one for one in reversed(earlier) if hosts & one.side.about["hosts"].keys()), None)


def _calls(
    name: str, both: Sequence[ThenAndNow], order: Mapping[str, list[str]], limits: Limits
) -> dict[tuple[str, ...], dict[Any, Any]]:
    """What is told of each cell that is compared with the time before, by its axes' values."""
    table = against.make_table(name, both, order, limits)
    rows = table[table["call"] != ""].to_dict("records")
    return {tuple(row[axis] for axis in order): row for row in rows}


def _draw_on(
    lines: dict[tuple[str, ...], int], both: Sequence[ThenAndNow], axes: Sequence[str]
) -> None:
    """Begin another line for each cell that is not the one of that name the time before: on another host, or
    of another command, repository or work."""
    for one in both:
        if one.withheld.keys() - {SAME_RUNS}:
            key = tuple(one.axes[axis] for axis in axes)
            lines[key] = lines.get(key, 0) + 1


def _points(
    saved: Saved,
    axes: Sequence[str],
    calls: Mapping[tuple[str, ...], Mapping[Any, Any]],
    lines: Mapping[tuple[str, ...], int],
) -> list[dict[str, Any]]:
    """A record for each cell of a time, and host: geometric means over its rounds."""
    rounds = by_round(saved.side.frame, axes, MEAN)
    rounds = rounds.assign(log=np.log(rounds[DEFAULT]))
    found = []
    for (*key, host), logs in grouped(rounds, [*axes, "host"])["log"]:
        mean, row = ratio_interval(logs), calls.get(tuple(key), {})
        found.append(
            {
                "time": saved.name,
                "host": host,
                "line": lines.get(tuple(key), 0),
                **dict(zip(axes, key, strict=True)),
                "value": mean.value,
                **{bound: _number(getattr(mean, bound)) for bound in ("low", "high")},
                "call": row.get("call", ""),
                "ratio": {n: _number(row[n]) for n in ("ratio", "low", "high")} if row else {},
            }
        )
    return found


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _time(saved: Saved, before: Saved | None, rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    about = saved.side.about
    calls = [row["call"] for row in rows]
    words = [word for word in dict.fromkeys(calls) if is_difference(word)]
    return {
        "name": saved.name,
        "first": about["first"],
        "last": about["last"],
        "vcsbench": about["vcsbench"],
        "hosts": list(about["hosts"]),
        "before": before.name if before else "",
        "compared": len(rows),
        "calls": {word: calls.count(word) for word in [*sorted(words), NOT_SHOWN, TOO_NOISY]},
        "changed": baselines.changes(before.side.about, about) if before else [],
    }
