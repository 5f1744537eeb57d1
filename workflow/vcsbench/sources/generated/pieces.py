"""Texts as pieces of a pool, and the edits that change them.

Pieces are a flat array of start and end offsets in a pool. An array is never changed once it is a
file's, so that copies of the file can share it: an edit makes a new one.
"""

from __future__ import annotations

from array import array
from random import Random
from typing import TypeAlias

from vcsbench.sources.generated.pools import Pool

# Start, end, start, end, ... of the pieces.
Pieces: TypeAlias = "array[int]"

# Bounds what a file costs in memory. An edit of a file with so many pieces changes lines that
# were changed before, which is where most edits of real files go.
MOST_PIECES = 32
# A shorter piece is replaced as a whole by such an edit.
LONG_PIECE = 1500
SMALLEST_TEXT = 30


def fresh(rng: Random, pool: Pool, size: int) -> Pieces:
    """A new text of about `size` bytes, whole lines."""
    pieces = array("I")
    size = max(size, SMALLEST_TEXT)
    while size > 0:
        length = min(size, len(pool.text) // 2)
        start = pool.line_start(int(rng.random() * (len(pool.text) - length)))
        end = pool.line_start(start + length)
        pieces.extend((start, end))
        size -= length
    return pieces


def text_of(pool: Pool, pieces: Pieces) -> bytes:
    """The text that the pieces make up."""
    text = pool.text
    if len(pieces) == 2:
        return text[pieces[0] : pieces[1]]
    bounds = iter(pieces)
    return b"".join([text[start:end] for start, end in zip(bounds, bounds, strict=True)])


def size_of(pieces: Pieces) -> int:
    """The size of the text in bytes."""
    return sum(pieces[1::2]) - sum(pieces[::2])


def edited(rng: Random, pool: Pool, pieces: Pieces, hunks: list[tuple[int, int]]) -> Pieces:
    """The text with hunks, each of about so many bytes removed and added, at random places."""
    if len(pieces) >= 2 * MOST_PIECES:
        return _edited_again(rng, pool, pieces, hunks)
    size = size_of(pieces)
    places = sorted(int(rng.random() * size) for _ in hunks)
    result = array("I")
    begin = 0  # of the piece in the old text
    gone = 0  # bytes still to be removed
    done = 0  # hunks
    for i in range(0, len(pieces), 2):
        start, end = pieces[i], pieces[i + 1]
        here, begin = begin, begin + end - start
        origin = start - here
        if gone > 0:
            start, gone = _cut(pool, start, end, gone)
        while done < len(hunks) and places[done] < begin:
            removed, added = hunks[done]
            cut = min(pool.line_start(max(origin + places[done], start)), end)
            if cut > start:
                result.extend((start, cut))
            if added > 0:
                result.extend(fresh(rng, pool, added))
            start, left = _cut(pool, cut, end, removed)
            gone += left
            done += 1
        if start < end:
            result.extend((start, end))
    return result if result else fresh(rng, pool, SMALLEST_TEXT)


def _cut(pool: Pool, start: int, end: int, removed: int) -> tuple[int, int]:
    """Where a piece starts after so many bytes are removed, and how many are left to remove."""
    if removed <= 0:
        return start, 0
    if start + removed >= end:
        return end, removed - (end - start)
    return min(pool.line_start(start + removed), end), 0


def _edited_again(rng: Random, pool: Pool, pieces: Pieces, hunks: list[tuple[int, int]]) -> Pieces:
    """An edit that leaves no more pieces than there were."""
    result = array("I", pieces)
    for removed, added in hunks:
        i = 2 * int(rng.random() * (len(result) // 2))
        length = result[i + 1] - result[i]
        if length > LONG_PIECE + removed:
            # Lines go at its start, and others come at its end.
            result[i] = min(pool.line_start(result[i] + removed), result[i + 1])
            result[i + 1] = pool.line_start(min(result[i + 1] + added, len(pool.text)))
            continue
        end = i + 2
        while end < len(result) and removed > 0:
            start, removed = _cut(pool, result[end], result[end + 1], removed)
            result[end] = start
            if start < result[end + 1]:
                break
            end += 2
        # What could not be removed, because the text ends, is not added either.
        result[i:end] = fresh(rng, pool, length + added - removed)
    return result


def prepended(rng: Random, pool: Pool, pieces: Pieces, added: int, limit: int) -> Pieces:
    """A journal with about `added` bytes in front; beyond `limit` bytes its older half goes.

    The front grows backwards through the pool, so that a journal stays a few pieces for ever.
    """
    result = array("I", pieces)
    start = pool.line_start(max(result[0] - added, 0))
    if start < result[0]:
        result[0] = start
    else:
        result = fresh(rng, pool, added) + result
    excess = size_of(result) - limit
    if excess > 0:
        excess += limit // 2
        while len(result) > 2 and excess >= result[-1] - result[-2]:
            excess -= result[-1] - result[-2]
            del result[-2:]
        result[-1] = max(pool.line_start(result[-1] - excess), pool.line_start(result[-2] + 1))
    return result
