"""What is told of a run: where it comes from, its unit, and which of two values is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# A column of a frame (pandas' Series), or a single number: what a metric computes with.
Column = Any
Columns = Mapping[str, Column]

LOW, HIGH = "low", "high"


@dataclass(frozen=True)
class Metric:
    """One metric. Its file is called after it, and so is its column in reduced frames.

    `parts` are what is reduced (over runs to a round, over rounds to a cell), each computed from the columns
    of the measurements that `needs` names; `value` makes the metric of the reduced parts. So the client's CPU
    share is a quotient of medians, as published, and not a median of quotients.
    `better` says which of two values is the better one, `words` what a better and a worse candidate is
    called. An `exact` metric is the same in every run of the same thing. `reading` says in a sentence what
    a table of it holds, `quantity` what is divided in a table that compares: `elapsed X / elapsed Y`.
    """

    name: str
    title: str
    unit: str
    reading: str
    quantity: str
    needs: tuple[str, ...]
    parts: Mapping[str, Callable[[Columns], Column]]
    value: Callable[[Columns], Column]
    better: str = LOW
    exact: bool = False
    words: tuple[str, str] = ("lower", "higher")
