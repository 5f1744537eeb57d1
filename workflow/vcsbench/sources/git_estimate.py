"""Estimate the size of a git history in Subversion."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from vcsbench.sources.git_repository import Git

# Subversion's bytes per byte of git's: format 8 compresses by lz4, not by zlib, and its deltas lead to older
# texts than the one before. A history of 1,500 commits took 39 to 44 MiB, with an estimate of 40.
FULL_FACTOR, DELTA_FACTOR = 1.4, 1.5
# The option of `git cat-file` whose output estimate_texts() reads.
SIZES = "--batch-check=%(objecttype) %(objectsize) %(objectsize:disk) %(deltabase) %(rest)"


@dataclass(slots=True)
class _PathTexts:
    """The texts of one path: the bytes of the largest, and the bytes that git stores for it and for all."""

    largest: int = -1
    stored_largest: int = 0
    stored: int = 0


def estimate_texts(lines: Iterable[bytes], git: Git) -> int:
    """Return about how many bytes Subversion needs for all texts of a history, from the output of SIZES.

    Its input are the lines of `rev-list --objects`: each object of the history once, with a path.

    Subversion stores the first text of each path in full, and later ones as deltas, like git. But git also
    stores texts of different paths as deltas of each other, such as the files of several releases. So the
    largest text of each path counts in full, and the others with the size that git needs. How well full
    texts compress is known from those that git stores in full, for each suffix of names.

    Raise UserError for an object that git cannot read.
    """
    full_bytes = Counter[bytes]()
    compressed_bytes = Counter[bytes]()
    paths: defaultdict[bytes, _PathTexts] = defaultdict(_PathTexts)
    for line in lines:
        kind, *words = line.rstrip(b"\n").split(b" ", 4)
        # A damaged object: `<object> missing`.
        if words == [b"missing"]:
            raise git.missing_object(kind)
        if kind != b"blob":
            continue
        size, stored, delta_base, path = words
        # The base of a text that is stored in full is 0000000000.
        if not delta_base.strip(b"0"):
            suffix = os.path.splitext(path)[1]
            full_bytes[suffix] += int(size)
            compressed_bytes[suffix] += int(stored)
        texts = paths[path]
        texts.stored += int(stored)
        if int(size) > texts.largest:
            texts.largest = int(size)
            texts.stored_largest = int(stored)
    total = 0.0
    for path, texts in paths.items():
        suffix = os.path.splitext(path)[1]
        # Without a full text of this suffix, the texts may be incompressible.
        compression = 1.0
        if full_bytes[suffix]:
            compression = compressed_bytes[suffix] / full_bytes[suffix]
        total += texts.largest * min(1.0, compression * FULL_FACTOR)
        total += (texts.stored - texts.stored_largest) * DELTA_FACTOR
    return int(total)
