"""What each node of a cluster is given: shares of all blocks, as even as they can be, which stay as they are
when blocks are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

# A study, and the name of a block of its cells.
Block = tuple[str, str]


def shares_of(
    sizes: Mapping[Block, int], count: int, before: Mapping[Block, int]
) -> dict[Block, int]:
    """The share (from 1) of each block. `sizes` has the blocks with how many cells they have; `before` the
    shares that blocks have had, which they keep, as long as there are that many: what was measured on one
    node is not measured anew on another. The others go, the largest first, where there is least."""
    found = {block: before[block] for block in sizes if 1 <= before.get(block, 0) <= count}
    load = Counter(dict.fromkeys(range(1, count + 1), 0))
    for block, share in found.items():
        load[share] += sizes[block]
    for block in sorted(sizes.keys() - found.keys(), key=lambda block: (-sizes[block], block)):
        share = min(load, key=lambda share: (load[share], share))
        found[block] = share
        load[share] += sizes[block]
    return found


def blocks_in(shares: Mapping[Block, int], share: int) -> Sequence[Block]:
    """The blocks of a share, in order."""
    return sorted(block for block, its in shares.items() if its == share)
