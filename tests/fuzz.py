"""Random damage of files."""

import random
from collections.abc import Sequence


def damaged(dice: random.Random, content: bytes, words: Sequence[bytes], most: int = 4) -> bytes:
    """Change up to `most` places of a file: flip, insert, replace, remove, repeat or cut bytes."""
    data = bytearray(content)
    for _ in range(dice.randint(1, most)):
        at, other = dice.randrange(len(data) + 1), dice.randrange(len(data) + 1)
        word, size = dice.choice(words), dice.choice((1, 60, 512, 1024))
        flipped = bytes(byte ^ 1 << dice.randrange(8) for byte in data[at : at + 1])
        length, new = dice.choice((
            *((1, flipped), (0, word), (len(word), word), (size, b"")),
            *((0, data[other : other + size]), (len(data), b"")),
        ))  # fmt: skip
        data[at : at + length] = new
    return bytes(data)
