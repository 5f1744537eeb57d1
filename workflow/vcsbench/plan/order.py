"""Order the cell-rounds of a run, and share the blocks among the nodes of a cluster."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vcsbench.plan.grid import CellSpec

# The cells of each block, by its study and its values on the block's axes.
Blocks = Mapping[tuple[str, ...], Sequence[CellSpec]]
# A study, and the name of a block of its cells.
Block = tuple[str, str]


def block_of(cell: CellSpec, axes: Sequence[str]) -> tuple[str, ...]:
    """Return the key of a cell's block: its study, and its values on these axes."""
    return (cell.study, *(cell.axes.get(axis, "") for axis in axes))


def run_order(
    cells: Iterable[CellSpec],
    blocks: Mapping[str, Sequence[str]],
    rounds: int,
    seed: int,
    by_block: bool = False,
) -> dict[tuple[str, str, int], int]:
    """Return the position of each cell-round (study, path, round), from 0.

    The order is by study, then by round. The blocks of a round are in random order, and so are the cells of a
    block. The position within a study does not depend on the number of later rounds.
    `blocks` has the axes of a block by study. With `by_block`, a block has all of its rounds before another
    block: if a node is lost, whole blocks stay.
    """
    by_study: dict[str, dict[tuple[str, ...], list[CellSpec]]] = {study: {} for study in blocks}
    for cell in cells:
        of_study = by_study[cell.study]
        of_study.setdefault(block_of(cell, blocks[cell.study]), []).append(cell)
    parts = [
        part for of in by_study.values() for part in (_separate(of, seed) if by_block else [of])
    ]
    order = (
        (cell.study, cell.path, number)
        for part in parts
        for number in range(1, rounds + 1)
        for cell in _cells_of_round(part, number, seed)
    )
    return {cell_round: position for position, cell_round in enumerate(order)}


def _separate(blocks: Blocks, seed: int) -> list[Blocks]:
    keys = sorted(blocks)
    random.Random(f"{seed}/blocks").shuffle(keys)
    return [{key: blocks[key]} for key in keys]


def _cells_of_round(blocks: Blocks, number: int, seed: int) -> Iterator[CellSpec]:
    shuffler = random.Random(f"{seed}/{number}")
    for key in _shuffled(blocks, shuffler):
        block = sorted(blocks[key], key=lambda cell: cell.path)
        shuffler.shuffle(block)
        yield from block


def _shuffled(blocks: Blocks, shuffler: random.Random) -> list[tuple[str, ...]]:
    """Return the blocks in random order, blocks of one cache state next to each other.

    A cold run empties the caches that the next hot run has to fill before it is timed. The order is a circle
    that begins at a random block: each block is in each position equally often.
    """
    by_cache: dict[str, list[tuple[str, ...]]] = {}
    for key in sorted(blocks):
        by_cache.setdefault(blocks[key][0].axes.get("cache", ""), []).append(key)
    groups = list(by_cache.values())
    shuffler.shuffle(groups)
    for keys in groups:
        shuffler.shuffle(keys)
    circle = [key for keys in groups for key in keys]
    first = shuffler.randrange(len(circle) or 1)
    return circle[first:] + circle[:first]


def shares_of(
    sizes: Mapping[Block, int], count: int, before: Mapping[Block, int]
) -> dict[Block, int]:
    """Return the share (from 1) of each block; `sizes` are its numbers of cells, `count` the shares.

    A block keeps its share from `before` if it still exists: another node would have to measure it again. The
    others go, the largest first, to the smallest share.
    """
    shares = {block: before[block] for block in sizes if 1 <= before.get(block, 0) <= count}
    load = Counter(dict.fromkeys(range(1, count + 1), 0))
    for block, share in shares.items():
        load[share] += sizes[block]
    for block in sorted(sizes.keys() - shares.keys(), key=lambda block: (-sizes[block], block)):
        share = min(load, key=lambda share: (load[share], share))
        shares[block] = share
        load[share] += sizes[block]
    return shares


def blocks_in(shares: Mapping[Block, int], share: int) -> Sequence[Block]:
    """Return the blocks of a share, in order."""
    return sorted(block for block, its in shares.items() if its == share)
