"""The order of a run: study by study, of each all of round 1 before round 2 (on a cluster, all of a block
before the next one), a block's cells next to each other, else at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vcsbench.plan.grid import Cell

# The cells of each block, by what tells it from others.
Blocks = Mapping[tuple[str, ...], Sequence[Cell]]


def block_of(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    """What tells the block of a cell from others: its study, and its values on these axes."""
    return (cell.study, *(cell.axes.get(axis, "") for axis in axes))


def run_order(
    cells: Iterable[Cell],
    blocks: Mapping[str, Sequence[str]],
    rounds: int,
    seed: int,
    by_block: bool = False,
) -> dict[tuple[str, str, int], int]:
    """The position of each cell-round, from 0: studies one after another, rounds one after another, blocks
    within a round (_at_random) and cells within a block in a random order. In its study, a cell's place does
    not depend on how many rounds follow.

    `blocks` has for each study, in their order, the axes on which the cells of a block agree. With
    `by_block`, all rounds of a block come before another block's: where a machine may be lost, whole blocks
    are what stays.
    """
    found: dict[str, dict[tuple[str, ...], list[Cell]]] = {study: {} for study in blocks}
    for cell in cells:
        of_study = found[cell.study]
        of_study.setdefault(block_of(cell, blocks[cell.study]), []).append(cell)
    parts = [part for of in found.values() for part in (_apart(of, seed) if by_block else [of])]
    # What a study costs is then what lies between its first cell-round and its last one.
    placed = [
        (cell.study, cell.path, number)
        for part in parts
        for number in range(1, rounds + 1)
        for cell in _of_round(part, number, seed)
    ]
    return {cell_round: position for position, cell_round in enumerate(placed)}


def _apart(blocks: Blocks, seed: int) -> list[Blocks]:
    """Each block alone, in a random order."""
    keys = sorted(blocks)
    random.Random(f"{seed}/blocks").shuffle(keys)
    return [{key: blocks[key]} for key in keys]


def _of_round(blocks: Blocks, number: int, seed: int) -> Iterator[Cell]:
    shuffler = random.Random(f"{seed}/{number}")
    for key in _at_random(blocks, shuffler):
        block = sorted(blocks[key], key=lambda cell: cell.path)
        shuffler.shuffle(block)
        yield from block


def _at_random(blocks: Blocks, shuffler: random.Random) -> list[tuple[str, ...]]:
    """The blocks in an order by lot in which each stands in each place as often, and those of one state of
    the caches next to each other: what a cold run has emptied, the next hot one has to read before it is
    timed. They stand in a circle, which begins anywhere."""
    states: dict[str, list[tuple[str, ...]]] = {}
    for key in sorted(blocks):
        states.setdefault(blocks[key][0].axes.get("cache", ""), []).append(key)
    together = list(states.values())
    shuffler.shuffle(together)
    for keys in together:
        shuffler.shuffle(keys)
    circle = [key for keys in together for key in keys]
    first = shuffler.randrange(len(circle) or 1)
    return circle[first:] + circle[:first]
