"""How far a study's comparisons are answered, and how many rounds each is from it.

A comparison is settled when its interval is so narrow that it is answered on whichever side it lies:

    for a difference + for none <= ln(1 + notable),  or  for a difference <= half of the distance from none

where each is half the width of an interval at the level that such a call is held to, which hangs on how many
others of its table are called a difference. That looks at widths and magnitudes, never at which side won: a
run that stops by it makes no more false calls than one that does not (benchmarks/simulation.py, rounds `by
minutes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from vcsbench.compare.decisions import TOO_NOISY, Limits, is_difference
from vcsbench.compare.family import ALIKE, level_among
from vcsbench.compare.intervals import t_quantile
from vcsbench.compare.tables import SIDES, make_tables
from vcsbench.plan.passes import block_name


@dataclass(frozen=True)
class Comparison:
    """A row of a table: the blocks that its cells lie in, its call, and the rounds that it has and that it is
    expected to be settled by (infinite where no number of rounds settles it); and what the two differ by at
    most (a ratio; infinite where nothing is concluded)."""

    table: str
    blocks: frozenset[str]
    call: str
    rounds: int
    wanted: float
    within: float = math.inf

    @property
    def settled(self) -> bool:
        """Whether more rounds would change nothing."""
        return self.rounds >= self.wanted

    @property
    def answered(self) -> bool:
        """Whether it is called anything."""
        return self.call != TOO_NOISY


@dataclass(frozen=True)
class Terms:
    """What a study's file says of its comparisons: the definitions of its tables that compare what has
    noise, the axes with their values in order, and those of a block; and from where on something is
    concluded."""

    tables: Mapping[str, Mapping[str, Any]]
    order: Mapping[str, list[str]]
    block: Sequence[str]
    limits: Limits

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Terms:
        """From plain data, as a rule's params have it."""
        return cls(**{**given, "limits": Limits(**given["limits"])})

    def on_machine(self, scatter: float) -> Terms:
        """The same on a machine whose runs scatter so (Limits.on_machine)."""
        return replace(self, limits=self.limits.on_machine(scatter))


def tables_of(frame: pd.DataFrame, terms: Terms) -> list[pd.DataFrame]:
    """The tables themselves, from a frame of the measurements."""
    made = make_tables(frame, terms.tables, terms.order, terms.block, terms.limits)
    return [*made.values()]


def comparisons(tables: Iterable[pd.DataFrame], terms: Terms) -> list[Comparison]:
    """All comparisons of tables, which are in the order of the terms."""
    pairs = zip(terms.tables.items(), tables, strict=True)
    return [one for named, table in pairs for one in _of_table(*named, table, terms)]


def _of_table(
    name: str, definition: Mapping[str, Any], table: pd.DataFrame, terms: Terms
) -> Iterator[Comparison]:
    table = table[table["ratio"].notna()]
    uncalled = sum(not is_difference(call) for call in table["call"])
    level = level_among(uncalled)
    axis = definition["compare"]["axis"]
    for row in table.to_dict("records"):
        blocks = frozenset(block_name(terms.block, row | {axis: row[side]}) for side in SIDES)
        wanted = _wanted(row, level, terms.limits)
        concluded = wanted < math.inf and row["n"] >= terms.limits.min_rounds
        within = row["within"] if concluded else math.inf
        yield Comparison(name, blocks, row["call"], int(row["n"]), wanted, within)


def _wanted(row: Mapping[Any, Any], level: float, limits: Limits) -> float:
    """The rounds by which a comparison is expected to be settled, if its mean and its scatter stay as they
    are. All of its error is taken to shrink: after few rounds, what twins differ by is mostly chance."""
    if math.isnan(row["twin_sd"]):  # then nothing is ever called
        return math.inf
    if math.isnan(row["error"]):
        return limits.min_rounds
    different = t_quantile(row["degrees"], 1 - level)
    alike = t_quantile(row["degrees"], 1 - 2 * ALIKE)
    notable = math.log1p(limits.min_effect_pct / 100)
    narrow = max(notable / (different + alike), abs(math.log(row["ratio"])) / 2 / different)
    return max(limits.min_rounds, math.ceil(row["n"] * (row["error"] / narrow) ** 2))
