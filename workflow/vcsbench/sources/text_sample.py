"""Estimate how well the texts of a source can be compressed, from the beginnings of some of them."""

import zlib
from dataclasses import dataclass

# The bytes of a text that are compressed. More of them take time, and most texts are alike from end to end.
HEAD_BYTES = 1 << 14
# A few large texts may have most of the bytes of a source. So texts from this size on have a sample of their
# own. Each of the two samples has at most this number of texts.
LARGE_BYTES = 1 << 18
MOST_TEXTS = 250
# Fewer bytes of texts than these say nothing: their repository is small in any case.
LEAST_BYTES = 1 << 14
# The fastest level of zlib.
LEVEL = 1


@dataclass
class _SampledTexts:
    """Texts of similar sizes: the bytes of all of them, and of those in the sample before and after zlib."""

    all_bytes: int = 0
    number: int = 0
    sampled_bytes: int = 0
    compressed_bytes: float = 0.0


class TextSample:
    """A sample of the texts of a source: call count() for each text, and compress() for some of them."""

    def __init__(self) -> None:
        self._small = _SampledTexts()
        self._large = _SampledTexts()
        # Deltas are small already, and stay so.
        self._delta_bytes = 0

    def count(self, length: int, *, is_delta: bool = False) -> int:
        """Count a text, and return how many of its first bytes compress() needs; 0 if it is not sampled."""
        if is_delta:
            self._delta_bytes += length
            return 0
        texts = self._texts_like(length)
        texts.all_bytes += length
        if texts.number == MOST_TEXTS:
            return 0
        return min(length, HEAD_BYTES)

    def compress(self, head: bytes, length: int) -> None:
        """Add a text of `length` bytes that begins with `head` to the sample."""
        if not head:
            return
        texts = self._texts_like(length)
        texts.number += 1
        texts.sampled_bytes += length
        # zlib makes random bytes a little longer. Subversion stores them as they are.
        texts.compressed_bytes += length * min(1.0, len(zlib.compress(head, LEVEL)) / len(head))

    def _texts_like(self, length: int) -> _SampledTexts:
        return self._large if length >= LARGE_BYTES else self._small

    def compressed_share(self) -> float:
        """Return the bytes of all texts after compression, as a share of those before; 0.0 for few bytes."""
        total = self._delta_bytes
        compressed = float(self._delta_bytes)
        for texts in (self._small, self._large):
            total += texts.all_bytes
            # If no text can be read, no compression is the safe guess.
            share = texts.compressed_bytes / texts.sampled_bytes if texts.sampled_bytes else 1.0
            compressed += texts.all_bytes * share
        return compressed / total if total >= LEAST_BYTES else 0.0
