"""The certificate of a cell in words: what its runs began with, what they read, and who served them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vcsbench import words
from vcsbench.evidence.flags import FLAGS
from vcsbench.report.records import Record, distinct


def certificate(runs: Sequence[Record]) -> list[str]:
    """What the measurements' rows of one cell certify, in sentences; what they do not tell is left out.

    Where runs differ, from the least to the most.
    """
    said = [_cleared(runs), _resident(runs)]
    if read := _numbers(runs, "device_bytes"):
        said.append(f"Client and server read {_between(read, words.size)} from devices in a run.")
    said += [_server(runs), _waited(runs)]
    return [sentence for sentence in said if sentence] + flags_explained(runs)


def flags_explained(runs: Sequence[Record]) -> list[str]:
    """Each flag among the runs, how many carry it, and what it says."""
    carried = [word for run in runs for word in run["flags"].split()]
    return [
        f"{word}, {words.count_of(carried.count(word), 'run')}: "
        f"{FLAGS[word].sentence.strip().replace('`', '') if word in FLAGS else 'not explained.'}"
        for word in distinct(carried)
    ]


def _cleared(runs: Sequence[Record]) -> str:
    ways = distinct(filter(None, (run.get("cache_cleared_by") for run in runs)))
    if not ways:
        return "No cache was cleared before a run."
    return f"The caches were cleared before a run, by {words.enumeration(ways)}."


def _resident(runs: Sequence[Record]) -> str:
    before, after = (_numbers(runs, f"resident_{when}") for when in ("before", "after"))
    said = [
        f"{_between(shares, _share)} {when} a run"
        for shares, when in ((before, "before"), (after, "after"))
        if shares
    ]
    return f"Of what it works on, in memory: {', '.join(said)}." if said else ""


def _server(runs: Sequence[Record]) -> str:
    ages = _numbers(runs, "server_age_s")
    if not ages:
        return ""
    same = {run.get("server_same") for run in runs}
    said = "; after each run it was the same process" if same == {"True"} else ""
    return f"The server was {_between(ages, words.significant)} s old when a run began{said}."


def _waited(runs: Sequence[Record]) -> str:
    late = sum(number > 0 for number in _numbers(runs, "delayed_acks"))
    if not late or not _numbers(runs, "server_age_s"):
        return ""
    return (
        f"In {late} of {words.count_of(len(runs), 'run')} TCP delayed an acknowledgement, by 40 ms, for "
        "which the server may have waited (see Odd numbers)."
    )


def _numbers(runs: Sequence[Record], column: str) -> list[float]:
    values = (run.get(column) for run in runs)
    numbers = [float(value) for value in values if value not in (None, "")]
    return [number for number in numbers if math.isfinite(number)]


def _between(numbers: Sequence[float], written: Callable[[float], str]) -> str:
    ends = distinct(written(number) for number in (min(numbers), max(numbers)))
    return " to ".join(ends)


def _share(share: float) -> str:
    return f"{words.significant(100 * share, 2)} %"
