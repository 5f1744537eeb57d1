"""Estimate how many bytes a repository has per byte of a source, from the beginnings of some texts."""

import random
import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

# The bytes of a text that are compressed. More of them take time, and most texts are alike from end to end.
HEAD_BYTES = 1 << 14
# A few large texts may have most of the bytes of a source. So texts from this size on have a sample of their
# own, and so have deltas. Each of the three samples has less than this number of texts.
LARGE_BYTES = 1 << 18
MOST_TEXTS = 250
# Fewer bytes of texts than these show nothing: their repository is small in any case.
LEAST_BYTES = 1 << 14
# The fastest level of zlib.
LEVEL = 1
# Bytes after zlib per byte of source code, and of archives or images.
SOURCE_CODE_SHARE = 0.4
INCOMPRESSIBLE_SHARE = 1.0


class _KeptText(NamedTuple):
    """The bytes of a text in a sample, before and after zlib."""

    length: int
    compressed_bytes: float


@dataclass
class _SampledTexts:
    """Texts of one kind: the bytes of all of them, and a random sample of one of `step` texts on average."""

    all_bytes: int = 0
    step: int = 1
    kept: list[_KeptText] = field(default_factory=list)
    # A constant seed, because each process must make the same estimate.
    dice: random.Random = field(default_factory=lambda: random.Random(1))

    def count(self, length: int) -> bool:
        """Count a text, and return True if the sample needs it.

        The choice is random. To take each n-th text would be wrong if commits change two files in turn.
        """
        self.all_bytes += length
        return self.dice.random() * self.step < 1

    def keep(self, text: _KeptText) -> None:
        """Add a text to the sample. If the sample is full then, keep half of it, and double the step."""
        self.kept.append(text)
        if len(self.kept) == MOST_TEXTS:
            self.kept = self.dice.sample(self.kept, MOST_TEXTS // 2)
            self.step *= 2

    @property
    def compressed_share(self) -> float:
        """The bytes of the texts after zlib, as a share of those before."""
        length = sum(text.length for text in self.kept)
        # If no text can be read, no compression is the safe guess.
        if not length:
            return INCOMPRESSIBLE_SHARE
        return sum(text.compressed_bytes for text in self.kept) / length


class TextSample:
    """A sample of the texts of a source: call count() for each text, and compress() for some of them."""

    def __init__(self) -> None:
        self._small = _SampledTexts()
        self._large = _SampledTexts()
        self._deltas = _SampledTexts()

    def count(self, length: int, *, is_delta: bool = False) -> int:
        """Count a text, and return how many of its first bytes compress() needs; 0 if it is not sampled."""
        # Records without a text, such as records of folders, are no part of the sample.
        if not length:
            return 0
        is_sampled = self._texts_like(length, is_delta).count(length)
        return min(length, HEAD_BYTES) if is_sampled else 0

    def compress(self, head: bytes, length: int, *, is_delta: bool = False) -> None:
        """Add a text of `length` bytes that begins with `head` to the sample. Do nothing without a `head`."""
        if not head:
            return
        # zlib makes random bytes a little longer. Subversion stores them as they are.
        share = min(1.0, len(zlib.compress(head, LEVEL)) / len(head))
        self._texts_like(length, is_delta).keep(_KeptText(length, length * share))

    def _texts_like(self, length: int, is_delta: bool) -> _SampledTexts:
        if is_delta:
            return self._deltas
        return self._large if length >= LARGE_BYTES else self._small

    def estimate_share(self, least: float) -> float:
        """Return the bytes of a repository per byte of the source, from `least` for source code up to 1.0.

        A repository has deltas of source code, so it needs fewer bytes than zlib alone. Archives and images
        become smaller neither by deltas nor by zlib. For texts between these two, the share is interpolated.
        With `least` 0.25, texts that zlib compresses to 0.7 have the share 0.25 + 0.75 x 0.5 = 0.62.
        """
        source_bytes = self._deltas.all_bytes
        # A delta of the source stays a delta, which the repository only compresses.
        repository_bytes = source_bytes * self._deltas.compressed_share
        for texts in (self._small, self._large):
            source_bytes += texts.all_bytes
            # `position` is from 0 (texts like source code, 0.4) to 1 (like archives and images, 1.0).
            excess = texts.compressed_share - SOURCE_CODE_SHARE
            position = max(0.0, excess / (INCOMPRESSIBLE_SHARE - SOURCE_CODE_SHARE))
            repository_bytes += texts.all_bytes * (least + (1.0 - least) * position)
        if source_bytes < LEAST_BYTES:
            return least
        return max(least, repository_bytes / source_bytes)
