"""A study's tables, from measured and from published numbers alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare.columns import CALL, STATISTICS, columns
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.family import with_calls, with_unknown_noise
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import Floors, floors
from vcsbench.compare.reduction import MEDIAN, by_cell, by_round, is_measured, paired, told_apart
from vcsbench.evidence import buildlabels, flags, samework
from vcsbench.evidence.frames import grouped, in_order
from vcsbench.metrics import metric_in
from vcsbench.metrics.metric import Metric

NOTHING = ratio_interval([])
SIDES = ("baseline", "candidate")


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: Mapping[str, Any],
    order: Mapping[str, list[str]],
    noise_class: Sequence[str],
    limits: Limits = USUAL,
) -> pd.DataFrame:
    """The table `name` of a study, with the columns of columns.py: its keys are the axes but for the
    compared one, and what its `by` names.

    `frame` has a column per axis and either the columns of the measurements or one per published
    metric; `order` has the study's axes and their values in order. Rows are sorted by it. A cell,
    or a pair of cells, with no number has no row.
    """
    frame, by = told_apart(frame, definition.get("by", []))
    order = {**order, **by}
    keys, metric = list(order), metric_in(definition)
    reduce = definition.get("reduce", MEDIAN)
    rounds = by_round(frame, keys, reduce)
    if metric.name not in rounds:
        rounds = rounds.assign(**{metric.name: np.nan})
    cells = by_cell(rounds, keys, reduce)
    if compare := definition.get("compare"):
        axis = compare["axis"]
        keys.remove(axis)
        table = _compared(rounds, cells, compare, keys, metric, limits)
        if axis == buildlabels.AXIS:
            table = table.assign(flags=buildlabels.same_binaries(table, frame, keys))
        if is_measured(frame) and not table.empty:
            known = floors(frame, list(order), noise_class, metric)
            table = called(table.assign(noise_floor=_floors(table, axis, known)), metric, limits)
        order["candidate"] = compare["candidates"]
        table = in_order(table, order, [*keys, "candidate"])
    else:
        table = in_order(_level(cells, keys, metric, limits), order, keys)
    empty = [] if is_measured(frame) else [*STATISTICS]
    if "call" not in table:
        empty += CALL
    return finished(table.assign(**dict.fromkeys(empty, "")), name, keys)


def _floors(table: pd.DataFrame, axis: str, known: Floors) -> list[float]:
    """The noise floor of each row: of the two cells that it compares."""
    rows: list[dict[Any, Any]] = table.to_dict("records")
    return [known.over(row | {axis: row[side]} for side in SIDES) for row in rows]


def called(table: pd.DataFrame, metric: Metric, limits: Limits) -> pd.DataFrame:
    """A table of ratios and their noise floors with its calls."""
    return with_calls(with_unknown_noise(table), metric.calls, limits)


def finished(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """A table with its name, and all columns in order; `keys` tell its rows apart."""
    return table.assign(table=name)[columns(keys)].reset_index(drop=True)


def frame_of(rows: Sequence[Mapping[Any, Any]], keys: Sequence[str]) -> pd.DataFrame:
    """Rows of a table as a frame, without its calls."""
    return pd.DataFrame(rows, columns=[*keys, *SIDES, "value", *STATISTICS, "noise_floor"])


def _level(
    cells: pd.DataFrame, keys: Sequence[str], metric: Metric, limits: Limits
) -> pd.DataFrame:
    """The cells' own values of a metric."""
    rows = []
    for cell in cells[cells[metric.name].notna()].to_dict("records"):
        # A median over several machines is no machine's number, nor is one over rounds that did not do
        # the same.
        words, withheld = _of_hosts(cell["hosts"])
        refused = samework.refusal(samework.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == samework.OTHER:
            withheld = refused.reason
        words += [*cell["flags"].split(), *low_n(cell["n"], limits)]
        value = np.nan if withheld else cell[metric.name]
        said = {"value": value, "flags": flags.joined(words), "withheld": withheld}
        rows.append(cell | dict.fromkeys(SIDES, "") | said)
    return frame_of(rows, keys)


def _compared(
    rounds: pd.DataFrame,
    cells: pd.DataFrame,
    compare: Mapping[str, Any],
    kept: Sequence[str],
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Baseline against each candidate, for the cells that agree on all `kept` axes; rounds are paired within
    a host."""
    rows = []
    for candidate in compare["candidates"]:
        names = (compare["baseline"], candidate)
        both = paired(cells, compare["axis"], names, kept)
        logs = paired(rounds, compare["axis"], names, [*kept, "host", "round"])
        both, logs = (f.assign(quotient=_quotients(f, metric.name)) for f in (both, logs))
        estimates = {
            tuple(part[list(kept)].iloc[0]): ratio_interval(np.log(part["quotient"]))
            for _, part in grouped(logs, kept)
        }
        for pair in both.to_dict("records"):
            estimate = estimates.get(tuple(pair[axis] for axis in kept), NOTHING)
            sides = dict(zip(SIDES, names, strict=True))
            rows.append(pair | sides | _facts(pair | sides, estimate, kept, limits))
    table = frame_of(rows, kept)
    return table[table["value"].notna() | (table["withheld"] != "")]


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient))  # a time may be rounded to 0


def _facts(
    pair: Mapping[Any, Any], estimate: Estimate, kept: Sequence[str], limits: Limits
) -> dict[str, Any]:
    """Value and statistics of a pair of cells."""
    # Medians over several hosts are not divided; rounds that share a host still make a ratio.
    words, withheld = _of_hosts(f"{pair['hosts_baseline']} {pair['hosts_candidate']}")
    words += [*own_words(pair[f"flags_{side}"] for side in SIDES), *low_n(estimate.n, limits)]
    works = {pair[side]: pair[f"work_{side}"] for side in SIDES}
    if refused := samework.refusal(samework.name_of(pair, kept), works):
        words.append(refused.flag)
        return {"n": estimate.n, "flags": flags.joined(words), "withheld": refused.reason}
    value = np.nan if withheld else 100 * (pair["quotient"] - 1)
    said = {"value": value, "flags": flags.joined(words), "withheld": withheld}
    return said | estimate.statistics()


def _of_hosts(hosts: str) -> tuple[list[str], str]:
    """The flag of a number that comes from several hosts, and why it is withheld."""
    flag = "hosts-differ"
    return ([flag], flags.says(flag)) if len(set(hosts.split())) > 1 else ([], "")


def own_words(sides: Iterable[str]) -> list[str]:
    """The flags of compared cells: what a run did against most others says nothing of these two."""
    return [word for own in sides for word in own.split() if word not in samework.REFUSED]


def low_n(n: int, limits: Limits) -> list[str]:
    """The flag of a number that comes from too few rounds."""
    return ["low-n"] if n < limits.enough_rounds else []
