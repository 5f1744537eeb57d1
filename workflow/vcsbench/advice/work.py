"""What does less work, by counts: told on any machine, and apart from what takes less time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench.advice.sentences import Sentences
from vcsbench.compare.decisions import NOT_SHOWN, USUAL, Limits, is_difference
from vcsbench.metrics import Metric, metric_in
from vcsbench.words import significant

Row = Mapping[Any, Any]
# Ratios that are no further apart are told as one.
ALIKE = 1.1


@dataclass(frozen=True)
class Counted:
    """A table that compares an exact metric: its definition, and its rows."""

    definition: Mapping[str, Any]
    rows: Sequence[Row]


@dataclass(frozen=True)
class Part:
    """Pairs of cells that are told together: what they have in common, and how many times as much the
    baseline counts as the candidate, as logarithms (0 where there is no difference worth noting)."""

    common: Mapping[str, str]
    logs: Sequence[float]

    @property
    def way(self) -> int | None:
        """1 where the candidate has less, -1 where the baseline has, 0 where neither; None for both."""
        ways = {(log > 0) - (log < 0) for log in self.logs}
        return ways.pop() if len(ways) == 1 else None

    @property
    def is_alike(self) -> bool:
        """Whether one number tells all."""
        return self.way is not None and max(self.logs) - min(self.logs) <= math.log(ALIKE)


def add_less_work(
    items: Iterable[dict[str, Any]],
    tables: Sequence[Counted],
    order: Mapping[str, Sequence[str]],
    limits: Limits = USUAL,
) -> None:
    """Give each item of advice, which has the values of its axes by their names, `less_work`: sentences."""
    for item in items:
        where = {axis: item[axis] for axis in order if axis in item}
        item["less_work"] = less_work(where, tables, order, limits)


def less_work(
    where: Mapping[str, str],
    tables: Iterable[Counted],
    order: Mapping[str, Sequence[str]],
    limits: Limits = USUAL,
) -> list[str]:
    """Sentences on what does less work, of the cells with these values of axes: one for each table that
    has them and shows a difference worth noting. `order` has the study's axes and their values."""
    return [
        sentence
        for table in tables
        for candidate in table.definition["compare"]["candidates"]
        if (sentence := _sentence(table, candidate, where, order, limits))
    ]


def _sentence(
    table: Counted,
    candidate: str,
    where: Mapping[str, str],
    order: Mapping[str, Sequence[str]],
    limits: Limits,
) -> str:
    compare, metric = table.definition["compare"], metric_in(table.definition)
    rows = [
        row
        for row in table.rows
        if row["candidate"] == candidate and all(row[a] == v for a, v in where.items() if a in row)
        # What is too noisy, or withheld, is not told of.
        if row["call"] == NOT_SHOWN or is_difference(row["call"])
    ]
    axes = [a for a in order if rows and a in rows[0] and len({row[a] for row in rows}) > 1]
    notable = math.log1p(limits.min_effect_pct / 100)
    parts = _parts(rows, axes, notable)
    if not any(part.way for part in parts):
        return ""
    say = Sentences(metric).choice
    sides = (say({compare["axis"]: compare["baseline"]}), say({compare["axis"]: candidate}))
    told = [_told(way, [p for p in parts if p.way == way], sides, metric) for way in (1, -1, 0)]
    return f"{'; '.join(filter(None, told))}."


def _parts(rows: Sequence[Row], axes: Sequence[str], notable: float) -> list[Part]:
    """Rows by the values of as few axes as make them alike; all together where none does."""
    whole = _part({}, rows, notable)
    if whole.is_alike or not rows:
        return [whole]
    splits = []
    for axis in axes:
        values = list(dict.fromkeys(row[axis] for row in rows))
        of_values = [[row for row in rows if row[axis] == value] for value in values]
        pairs = zip(values, of_values, strict=True)
        splits.append([_part({axis: value}, some, notable) for value, some in pairs])
    alike = [parts for parts in splits if all(part.is_alike for part in parts)]
    one_way = [parts for parts in splits if all(part.way is not None for part in parts)]
    if alike or (whole.way is None and one_way):
        return (alike or one_way)[0]
    return [whole] if whole.way is not None else [_part(_axes(r, axes), [r], notable) for r in rows]


def _part(common: Mapping[str, str], rows: Sequence[Row], notable: float) -> Part:
    logs = [math.log(row["ratio"]) for row in rows]
    return Part(common, [log if abs(log) > notable else 0.0 for log in logs])


def _axes(row: Row, axes: Sequence[str]) -> dict[str, str]:
    return {axis: row[axis] for axis in axes}


def _told(way: int, parts: Sequence[Part], sides: tuple[str, str], metric: Metric) -> str:
    """What is told of the parts of one way; "" where there is none."""
    contexts = [Sentences(metric).choice(part.common) for part in parts]
    if not way or not parts:
        return f"about as much for {'; '.join(contexts)}" if parts else ""
    more, less = sides if way > 0 else sides[::-1]
    told = [_times(part) for part in parts]
    ranges = [
        f"least and most of {len(part.logs)} pairs" if len(_extremes(part)) > 1 else ""
        for part in parts
    ]
    contexts = ["; ".join(filter(None, both)) for both in zip(contexts, ranges, strict=True)]
    first = f"{less} {metric.fewer.format(told[0])} than {more}"
    clauses = [first, *told[1:]]
    named = zip(clauses, contexts, strict=True)
    return ", ".join(f"{clause} ({of})" if of else clause for clause, of in named)


def _times(part: Part) -> str:
    return f"{' to '.join(_extremes(part))} times"


def _extremes(part: Part) -> list[str]:
    """The least and the most of a part, as they are written; one where both are written alike."""
    times = [math.exp(abs(log)) for log in part.logs]
    return list(dict.fromkeys(significant(n, 2) for n in (min(times), max(times))))
