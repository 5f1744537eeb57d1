"""A study's tables, from measured and from published numbers alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.decisions import NOTABLE_PCT, with_calls, with_unknown_noise
from vcsbench.compare.intervals import ENOUGH_ROUNDS, Estimate, ratio_interval
from vcsbench.compare.noise import Floors, floors
from vcsbench.compare.reduction import by_cell, by_round, is_measured
from vcsbench.evidence import buildlabels, flags, samework
from vcsbench.evidence.frames import in_order

# What a row says beside its axes. Empty for published numbers but for the value: their rounds are
# not known. A table that compares nothing has no ratio and so no interval: its runs are in the
# measurements.
STATISTICS = ["ratio", "low", "high", "n", "flags", "withheld"]
# Whether it is a difference, and how small a one could have been told from noise (calls, noise).
JUDGED = ["call", "noise_floor", "detectable"]


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: Mapping[str, Any],
    order: Mapping[str, list[str]],
    notable_pct: float = NOTABLE_PCT,
) -> pd.DataFrame:
    """The table `name` of a study, with the columns table, the axes but for the compared one,
    baseline, candidate, value, ratio, low, high, n, flags, withheld (why cells that were measured are
    not compared; "" where they are), call, noise_floor, detectable.

    `frame` has a column per axis and either the columns of the measurements or one per published
    metric; `order` has the study's axes and their values in order. Rows are sorted by it. A cell,
    or a pair of cells, with no number has no row.
    """
    axes = list(order)
    rounds = by_round(frame, axes)
    cells = by_cell(rounds, axes)
    compare = definition.get("compare")
    if compare:
        kept = [axis for axis in axes if axis != compare["axis"]]
        table = _comparison(rounds, cells, kept, compare)
        if compare["axis"] == "build":
            table = table.assign(flags=buildlabels.same_binaries(table, frame, kept))
        if is_measured(frame):
            floor = _noise_floors(table, floors(frame, axes), compare)
            table = with_unknown_noise(table.assign(noise_floor=floor))
            table = with_calls(table, notable_pct)
        order = {**order, "candidate": compare["candidates"]}
        table = in_order(table, order, [*kept, "candidate"])
    else:
        kept = axes
        table = in_order(_level(cells, definition["metric"]), order, axes)
    if not is_measured(frame):
        table = table.assign(**dict.fromkeys(STATISTICS, ""))
    if not (compare and is_measured(frame)):
        table = table.assign(**dict.fromkeys(JUDGED, ""))
    columns = ["table", *kept, "baseline", "candidate", "value", *STATISTICS, *JUDGED]
    return table.assign(table=name)[columns].reset_index(drop=True)


def _level(cells: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The cells' own medians of a metric."""
    if metric not in cells:
        cells = cells.assign(**{metric: np.nan})
    table = cells[cells[metric].notna()]
    # A median over several machines is no machine's number.
    mixed = table["hosts"].str.split().map(len) > 1
    words = [
        flags.joined([*own.split(), *["hosts-differ"] * differ, *["low-n"] * few])
        for own, differ, few in zip(table["flags"], mixed, table["n"] < ENOUGH_ROUNDS, strict=True)
    ]
    empty: dict[str, Any] = dict.fromkeys(["ratio", "low", "high"], np.nan)
    # Nor is one over rounds that did not do the same.
    withheld = [
        refused.reason if refused and refused.flag == samework.OTHER else ""
        for refused in map(_own_refusal, table.to_dict("records"))
    ]
    value = table[metric].mask(mixed | (np.array(withheld) != ""))
    apart = flags.FLAGS["hosts-differ"].says.rstrip(".")
    withheld = [why or apart * bool(m) for why, m in zip(withheld, mixed, strict=True)]
    facts = {"baseline": "", "candidate": "", "flags": words, "withheld": withheld}
    return table.assign(value=value, **facts, **empty)


def _own_refusal(cell: Mapping[Any, Any]) -> samework.Refusal | None:
    return samework.refusal(cell.get("command", ""), {"": cell["work"]})


def _comparison(
    rounds: pd.DataFrame, cells: pd.DataFrame, kept: Sequence[str], compare: Mapping[str, Any]
) -> pd.DataFrame:
    """Baseline against each candidate, for the cells that agree on all `kept` axes."""
    found = []
    for candidate in compare["candidates"]:
        both = _paired(cells, kept, compare, candidate)
        quotient = both["elapsed_s_baseline"] / both["elapsed_s_candidate"]
        both["quotient"] = quotient.where(np.isfinite(quotient))  # a time may be rounded to 0
        estimates = _estimates(_paired(rounds, [*kept, "host", "round"], compare, candidate), kept)
        rows = [
            _row(pair, estimates.get(key, ratio_interval([])), (compare["baseline"], candidate))
            for key, pair in zip(_keys(both, kept), both.to_dict("records"), strict=True)
        ]
        statistics = pd.DataFrame(rows, columns=["value", *STATISTICS], index=both.index)
        table = both[list(kept)].assign(baseline=compare["baseline"], candidate=candidate)
        found.append(pd.concat([table, statistics], axis="columns"))
    table = pd.concat(found, ignore_index=True)
    shown = table["flags"].str.contains("hosts-differ") | (table["withheld"] != "")
    return table[table["value"].notna() | shown]


def _noise_floors(table: pd.DataFrame, known: Floors, compare: Mapping[str, Any]) -> list[float]:
    """The noise floor of each row: of the two cells that it compares."""
    return [
        known.over(row | {compare["axis"]: row[side]} for side in ("baseline", "candidate"))
        for row in _records(table)
    ]


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _paired(
    frame: pd.DataFrame, on: Sequence[str], compare: Mapping[str, Any], candidate: str
) -> pd.DataFrame:
    """Rows of the baseline beside those of the candidate; columns that are not in `on` twice."""
    sides = (frame[frame[compare["axis"]] == value] for value in (compare["baseline"], candidate))
    baseline, other = sides
    how: dict[str, Any] = {"on": list(on)} if on else {"how": "cross"}
    return baseline.merge(other, **how, suffixes=("_baseline", "_candidate"))


def _estimates(pairs: pd.DataFrame, kept: Sequence[str]) -> dict[tuple[str, ...], Estimate]:
    """The paired ratio of each row: pairs are of one round and one host."""
    logs: dict[tuple[str, ...], list[float]] = {}
    ratios = np.log(pairs["elapsed_s_baseline"] / pairs["elapsed_s_candidate"])
    for key, log in zip(_keys(pairs, kept), ratios, strict=True):
        logs.setdefault(key, []).append(log)
    return {key: ratio_interval(values) for key, values in logs.items()}


def _keys(frame: pd.DataFrame, kept: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(row) for row in frame[list(kept)].to_numpy()]


def _row(
    pair: Mapping[Any, Any], estimate: Estimate, names: tuple[str, str]
) -> tuple[float, float, float, float, int, str, str]:
    """Value and statistics of a pair of cells; `names` are those of the compared values."""
    # Medians over several hosts are not divided; rounds that share a host still make a ratio.
    mixed = len({*pair["hosts_baseline"].split(), *pair["hosts_candidate"].split()}) > 1
    value = np.nan if mixed else 100 * (pair["quotient"] - 1)
    words = [*pair["flags_baseline"].split(), *pair["flags_candidate"].split()]
    words += ["hosts-differ"] * mixed + ["low-n"] * estimate.low_n
    # What a run did against most others says nothing of these two.
    words = [word for word in words if word not in (samework.OTHER, samework.UNKNOWN)]
    works = (pair["work_baseline"], pair["work_candidate"])
    refused = samework.refusal(pair.get("command", ""), dict(zip(names, works, strict=True)))
    if refused:
        flagged = flags.joined([*words, refused.flag])
        return np.nan, np.nan, np.nan, np.nan, estimate.n, flagged, refused.reason
    why = flags.FLAGS["hosts-differ"].says.rstrip(".") if mixed else ""
    return value, estimate.value, estimate.low, estimate.high, estimate.n, flags.joined(words), why
