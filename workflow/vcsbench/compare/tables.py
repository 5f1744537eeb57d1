"""A study's tables, from measured and from published numbers alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.compare import exact
from vcsbench.compare.columns import CALL, ERROR, STATISTICS, columns
from vcsbench.compare.decisions import USUAL, Limits
from vcsbench.compare.family import with_calls, with_unknown_noise
from vcsbench.compare.intervals import Estimate, ratio_interval
from vcsbench.compare.noise import Noise
from vcsbench.compare.reduction import MEAN, MEDIAN, is_measured, paired
from vcsbench.compare.shared import Reduced, Reductions
from vcsbench.evidence import buildlabels, counted, flags, samework
from vcsbench.evidence.frames import grouped, in_order
from vcsbench.metrics import Metric, metric_in

NOTHING = ratio_interval([])
SIDES = ("baseline", "candidate")


def make_table(
    frame: pd.DataFrame,
    name: str,
    definition: Mapping[str, Any],
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = USUAL,
) -> pd.DataFrame:
    """One table of a study: make_tables()."""
    return make_tables(frame, {name: definition}, order, block, limits)[name]


def make_tables(
    frame: pd.DataFrame,
    definitions: Mapping[str, Mapping[str, Any]],
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits = USUAL,
    scatter: float = math.nan,
) -> dict[str, pd.DataFrame]:
    """Tables of a study by name, each with the columns of columns.py: its keys are the axes but for the
    compared one, and what its `by` names; its cells are those that its `where` names.

    `frame` has a column per axis and either the columns of the measurements or one per published
    metric; `order` has the study's axes and their values in order; rows are sorted by it. Cells that agree on
    the axes of `block` are measured side by side. A cell, or a pair of cells, with no number has no row.
    `scatter` is what runs scatter by (scatter.of_runs): by it goes what is worth noting, of what has noise.
    """
    shared = Reductions(frame, order, block)
    return {
        name: _made(
            name,
            definition,
            shared.of(definition),
            limits if metric_in(definition).exact else limits.on_machine(scatter),
        )
        for name, definition in definitions.items()
    }


def _made(
    name: str, definition: Mapping[str, Any], reduced: Reduced, limits: Limits
) -> pd.DataFrame:
    reduce, metric = definition.get("reduce", MEDIAN), metric_in(definition)
    order, measured = reduced.order, is_measured(reduced.frame)
    keys, cells = list(order), reduced.cells(reduce, metric)
    if compare := definition.get("compare"):
        axis, noise = compare["axis"], reduced.noise(metric)
        compared = reduced.rounds(MEAN if reduce == MEDIAN else reduce, metric)
        table = _compared(compared, cells, compare, noise, keys, metric, limits)
        keys.remove(axis)
        if axis == buildlabels.AXIS:
            table = table.assign(flags=buildlabels.same_binaries(table, reduced.frame, keys))
        if measured and not table.empty:
            table = exact.called(table, metric, lambda made: called(made, noise, metric, limits))
        order = {**order, "candidate": compare["candidates"]}
        table = in_order(table, order, [*keys, "candidate"])
    else:
        table = in_order(_level(cells, keys, metric, limits), order, keys)
    empty = [] if measured else [*STATISTICS]
    empty += CALL if "call" not in table else []
    table = table.assign(**dict.fromkeys(empty, ""))
    return finished(exact.without_times(table, metric), name, keys)


def called(table: pd.DataFrame, noise: Noise, metric: Metric, limits: Limits) -> pd.DataFrame:
    """A table of ratios, with the errors that they are judged by, and its calls."""
    twin_sd = np.where(table["ratio"].notna(), math.sqrt(noise.twins.variance), np.nan)
    table = with_unknown_noise(table.assign(twin_sd=twin_sd))
    return with_calls(table, metric.calls, limits)


def finished(table: pd.DataFrame, name: str, keys: Sequence[str]) -> pd.DataFrame:
    """A table with its name, and all columns in order; `keys` tell its rows apart."""
    return table.assign(table=name)[columns(keys)].reset_index(drop=True)


def frame_of(rows: Sequence[Mapping[Any, Any]], keys: Sequence[str]) -> pd.DataFrame:
    """Rows of a table as a frame, without its calls."""
    return pd.DataFrame(rows, columns=[*keys, *SIDES, "value", *STATISTICS, *ERROR])


def _level(
    cells: pd.DataFrame, keys: Sequence[str], metric: Metric, limits: Limits
) -> pd.DataFrame:
    """The cells' own values of a metric."""
    rows = []
    for cell in cells.to_dict("records"):
        # A median over several machines is no machine's number, nor is one over rounds that did not do
        # the same.
        words, withheld = _of_hosts(cell["hosts"])
        refused = samework.refusal(samework.name_of(cell, keys), {"": cell["work"]})
        if refused and refused.flag == samework.OTHER:
            withheld = refused.reason
        withheld = withheld or _missing([cell[metric.name]], [cell["not_counted"]], metric)
        words += [*cell["flags"].split(), *([] if metric.once else low_n(cell["n"], limits))]
        value = np.nan if withheld else cell[metric.name]
        said = {"value": value, "flags": flags.joined(words), "withheld": withheld}
        if metric.exact:
            said["fixed_share"] = math.nan
        rows.append(cell | dict.fromkeys(SIDES, "") | said)
    return _with_something(frame_of(rows, keys))


def _compared(
    rounds: pd.DataFrame,
    cells: pd.DataFrame,
    compare: Mapping[str, Any],
    noise: Noise,
    keys: Sequence[str],
    metric: Metric,
    limits: Limits,
) -> pd.DataFrame:
    """Baseline against each candidate, for the cells that agree on all other `keys`; rounds are paired within
    a host."""
    rows, axis = [], compare["axis"]
    kept = [key for key in keys if key != axis]
    for candidate in compare["candidates"]:
        names = (compare["baseline"], candidate)
        both = paired(cells, axis, names, kept)
        logs = paired(rounds, axis, names, [*kept, "host", "round"])
        both, logs = (f.assign(quotient=_quotients(f, metric.name)) for f in (both, logs))
        estimates = _estimates(logs, kept, metric)
        for pair in both.to_dict("records"):
            own = estimates.get(tuple(pair[key] for key in kept), NOTHING)
            cell, other = (tuple((pair | {axis: name})[key] for key in keys) for name in names)
            estimate = noise.judged(own, [(cell, other)])
            sides = dict(zip(SIDES, names, strict=True))
            rows.append(pair | sides | _facts(pair | sides, estimate, kept, metric, limits))
    return _with_something(frame_of(rows, kept))


def _estimates(
    logs: pd.DataFrame, kept: Sequence[str], metric: Metric
) -> dict[tuple[Any, ...], Estimate]:
    """The ratio of each pair of cells, by what they agree on, from their paired rounds."""
    pairs = grouped(logs.assign(log=np.log(logs["quotient"])), kept)
    # One column of a part costs a tenth of all of them, and of a published table each number is a part.
    found = {name if kept else (): ratio_interval(part) for name, part in pairs["log"]}
    if metric.exact:
        for name, part in pairs:
            same = exact.ratio(metric, part)
            found |= {name if kept else (): same} if same else {}
    return found


def _with_something(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a number, or say why they have none."""
    return table[table["value"].notna() | (table["withheld"] != "")]


def _missing(values: Sequence[float], not_counted: Sequence[str], metric: Metric) -> str:
    """Why one of the values that a row is made of is not there, as far as that is told."""
    pairs = zip(values, not_counted, strict=True)
    found = [counted.why_not(why, metric.needs) for value, why in pairs if math.isnan(value)]
    return next(filter(None, found), "")


def _quotients(pairs: pd.DataFrame, name: str) -> pd.Series:
    quotient = pairs[f"{name}_baseline"] / pairs[f"{name}_candidate"]
    return quotient.where(np.isfinite(quotient))  # a time may be rounded to 0


def _facts(
    pair: Mapping[Any, Any],
    estimate: Estimate,
    kept: Sequence[str],
    metric: Metric,
    limits: Limits,
) -> dict[str, Any]:
    """Value and statistics of a pair of cells."""
    # Medians over several hosts are not divided; rounds that share a host still make a ratio.
    words, withheld = _of_hosts(f"{pair['hosts_baseline']} {pair['hosts_candidate']}")
    words += [*own_words(pair[f"flags_{side}"] for side in SIDES), *low_n(estimate.n, limits)]
    works = {pair[side]: pair[f"work_{side}"] for side in SIDES}
    refused = samework.refusal(samework.name_of(pair, kept), works)
    if refused and not any(map(samework.is_apart, works.values())):
        words.append(refused.flag)
        return {"n": estimate.n, "flags": flags.joined(words), "withheld": refused.reason}
    counts, whys = (
        [pair[f"{name}_{side}"] for side in SIDES] for name in (metric.name, "not_counted")
    )
    withheld = withheld or _missing(counts, whys, metric)
    value = np.nan if withheld else 100 * (pair["quotient"] - 1)
    shares = [pair[f"fixed_share_{side}"] for side in SIDES]
    said = {"value": value, "flags": flags.joined(words), "withheld": withheld}
    said["fixed_share"] = math.nan if metric.exact else np.fmax(*shares)
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
    return ["low-n"] if n < limits.min_rounds else []
