"""Estimate the size of a git history in Subversion."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench.sources.git_repository import Git

# Subversion's bytes per byte of git's, for full texts and for deltas. Format 8 compresses by lz4, not by
# zlib, and its deltas lead to older texts than the text before. A history of 1,500 commits took 39 to 44 MiB,
# with an estimate of 40.
FULL_FACTOR, DELTA_FACTOR = 1.4, 1.5
# The option of `git cat-file` whose output estimate_texts() reads.
SIZES = "--batch-check=%(objecttype) %(objectsize) %(objectsize:disk) %(deltabase) %(rest)"


class StoredText(NamedTuple):
    """A text of a history: the path of one of its files, its size, and the bytes that git stores for it."""

    path: bytes
    size: int
    stored: int
    is_delta: bool


@dataclass(slots=True)
class _PathTexts:
    """The texts of one path: the bytes of the largest, and the bytes that git stores for it and for all."""

    # Less than the size of any text, so the first text of a path becomes the largest, also an empty one.
    largest_bytes: int = -1
    largest_stored_bytes: int = 0
    all_stored_bytes: int = 0

    def add(self, text: StoredText) -> None:
        self.all_stored_bytes += text.stored
        if text.size > self.largest_bytes:
            self.largest_bytes = text.size
            self.largest_stored_bytes = text.stored


def estimate_texts(lines: Iterable[bytes], git: Git) -> int:
    """Return about how many bytes Subversion needs for all texts of a history.

    `lines` are the output of `git cat-file` with the option SIZES: b"blob 1234 567 <base> src/a.c" is a text
    of 1,234 bytes, which git stores in 567. <base> is 0000 for a text that git stores in full and, for a
    delta, the other text. Raise UserError for an object that git cannot read.

    Example: a path has a text of 1,000 bytes, stored in full in 300, and another one, stored as a delta of
    50. They count 1,000 x 0.3 x 1.4 (FULL_FACTOR) + 50 x 1.5 (DELTA_FACTOR) = 495 bytes.
    """
    # Subversion stores the first text of each path in full, and later texts as deltas, like git. But git also
    # stores texts of different paths as deltas of each other, such as the files of several releases. So the
    # largest text of each path counts in full, and the other texts of the path with the size that git needs.
    paths: defaultdict[bytes, _PathTexts] = defaultdict(_PathTexts)
    # The bytes of the texts that git stores in full, before and after zlib, by suffix such as b".c".
    plain_bytes = Counter[bytes]()
    compressed_bytes = Counter[bytes]()
    for text in _read_texts(lines, git):
        paths[text.path].add(text)
        if not text.is_delta:
            suffix = os.path.splitext(text.path)[1]
            plain_bytes[suffix] += text.size
            compressed_bytes[suffix] += text.stored
    total = 0.0
    for path, texts in paths.items():
        suffix = os.path.splitext(path)[1]
        plain = plain_bytes[suffix]
        # Where git stores no text of this suffix in full, no compression is the safe guess.
        compression = compressed_bytes[suffix] / plain if plain else 1.0
        # The factors are Subversion's bytes per byte of git's. A text in full takes at most its own size.
        total += texts.largest_bytes * min(1.0, compression * FULL_FACTOR)
        total += (texts.all_stored_bytes - texts.largest_stored_bytes) * DELTA_FACTOR
    return int(total)


def _read_texts(lines: Iterable[bytes], git: Git) -> Iterator[StoredText]:
    """Yield texts from lines such as `blob 1234 567 <base> src/a file.c`. Other objects are skipped."""
    for line in lines:
        kind, *words = line.rstrip(b"\n").split(b" ", 4)
        # The line of an object that git cannot read: `<object> missing`. The first word is then the object.
        if words == [b"missing"]:
            raise git.missing_error(kind)
        if kind == b"blob":
            size, stored, base, path = words
            # The base of a text that is stored in full is 0000000000.
            is_delta = base.strip(b"0") != b""
            yield StoredText(path, int(size), int(stored), is_delta)
