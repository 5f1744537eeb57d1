"""Draw the order of all cell-rounds, so that drift of the machine affects all cells equally."""

import random
from collections.abc import Iterable, Mapping, Sequence

from vcsbench.plan.grid import CellSpec, values_on_axes

BlockKey = tuple[str, ...]
Blocks = Mapping[BlockKey, Sequence[CellSpec]]
CellRoundKey = tuple[str, str, int]


def run_order(
    cells: Iterable[CellSpec],
    block_axes: Mapping[str, Sequence[str]],
    rounds: int,
    seed: int,
    by_block: bool = False,
) -> dict[CellRoundKey, int]:
    """Return the position of each cell-round, from 0: {("fsfs-san-2014", "log/http/cold", 1): 0}.

    The cells of a block have equal values of the axes in `block_axes`: {"fsfs-san-2014": ["command",
    "cache"]}. Studies come one after another. In each round of a study, the blocks are in random order, and
    so are the cells of each block. More `rounds` do not change the order of the earlier rounds. With
    `by_block`, a block has all of its rounds before the next block begins.
    """
    # The key of a block is the study and the values, such as ("fsfs-san-2014", "log", "cold").
    blocks_by_study: dict[str, dict[BlockKey, list[CellSpec]]] = {study: {} for study in block_axes}
    for cell in cells:
        key = (cell.study, *values_on_axes(cell.axes, block_axes[cell.study]))
        blocks_by_study[cell.study].setdefault(key, []).append(cell)
    order: list[CellRoundKey] = []
    for blocks in blocks_by_study.values():
        # All rounds of a group come before the next group.
        groups: list[Blocks]
        if by_block:
            # If a node of a cluster is lost, its finished blocks are then complete.
            keys = sorted(blocks)
            random.Random(f"{seed}/blocks").shuffle(keys)
            groups = [{key: blocks[key]} for key in keys]
        else:
            groups = [blocks]
        for group in groups:
            for number in range(1, rounds + 1):
                order += _draw_round(group, number, seed)
    return {cell_round: position for position, cell_round in enumerate(order)}


def _draw_round(blocks: Blocks, number: int, seed: int) -> list[CellRoundKey]:
    """Return the cells of round `number` in random order, with the cells of a block next to each other."""
    # Each round has a seed of its own, so a further round does not change the order of the earlier ones.
    shuffler = random.Random(f"{seed}/{number}")
    order = []
    for key in _shuffle_blocks(blocks, shuffler):
        # Sorted first, because the order of the grid changes with its configuration.
        block = sorted(blocks[key], key=lambda cell: cell.path)
        shuffler.shuffle(block)
        order += [(cell.study, cell.path, number) for cell in block]
    return order


def _shuffle_blocks(blocks: Blocks, shuffler: random.Random) -> list[BlockKey]:
    """Return the keys of the blocks in random order, blocks of one cache state next to each other.

    A hot run after a cold one has to fill the caches again, which takes time. The blocks form a circle, and
    the result begins at a random block of the circle. So each block is in each position equally often. One
    state may be split: a part of its blocks begins the result, and the rest ends the result.
    """
    keys_by_cache: dict[str, list[BlockKey]] = {}
    # Sorted first, because the order of the grid changes with its configuration.
    for key in sorted(blocks):
        # The state of the first cell stands for the block.
        cache = blocks[key][0].axes.get("cache", "")
        keys_by_cache.setdefault(cache, []).append(key)
    keys_of_caches = list(keys_by_cache.values())
    shuffler.shuffle(keys_of_caches)
    circle: list[BlockKey] = []
    for keys in keys_of_caches:
        shuffler.shuffle(keys)
        circle += keys
    if not circle:
        return []
    first = shuffler.randrange(len(circle))
    return circle[first:] + circle[:first]
