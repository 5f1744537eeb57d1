"""The order of a run: all of round 1 before round 2, a block's cells next to each other, else at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from vcsbench.plan.grid import Cell


def block_of(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    """What tells the block of a cell from others: its study, and its values on these axes."""
    return (cell.study, *(cell.axes.get(axis, "") for axis in axes))


def run_order(
    cells: Iterable[Cell], blocks: Mapping[str, Sequence[str]], rounds: int, seed: int
) -> dict[tuple[str, str, int], int]:
    """The position of each cell-round, from 0: rounds one after another, blocks within a round and
    cells within a block in a random order. A cell's place does not depend on how many rounds follow.

    `blocks` has for each study the axes on which the cells of a block agree.
    """
    found: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(block_of(cell, blocks[cell.study]), []).append(cell)
    order: dict[tuple[str, str, int], int] = {}
    for number in range(1, rounds + 1):
        shuffler = random.Random(f"{seed}/{number}")
        keys = sorted(found)
        shuffler.shuffle(keys)
        for key in keys:
            block = sorted(found[key], key=lambda cell: cell.path)
            shuffler.shuffle(block)
            for cell in block:
                order[cell.study, cell.path, number] = len(order)
    return order
