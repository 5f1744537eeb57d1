"""Cells that cannot be measured here, by their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vcsbench.plan.grid import Cell


def grouped_skips(cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Each reason why cells are skipped with the number of them, the most frequent first."""
    return Counter(cell.skip for cell in cells if cell.skip).most_common()
