"""Names of generated files, directories, branches and tags."""

from __future__ import annotations

from random import Random

from vcsbench.sources.generated.tree import Directory
from vcsbench.sources.generated.words import NOUNS, VERBS


def noun(rng: Random) -> bytes:
    """A word for a name."""
    return NOUNS[int(rng.random() * len(NOUNS))].encode("ascii")


def new_name(rng: Random, directory: Directory, extension: bytes) -> bytes:
    """A name that nothing in the directory has yet."""
    stem = noun(rng)
    while directory.has(stem + extension):
        words = NOUNS if rng.random() < 0.6 else VERBS
        stem += b"_" + words[int(rng.random() * len(words))].encode("ascii")
    return stem + extension
