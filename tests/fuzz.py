"""Random damage of files, and limits for what reads them. FUZZ_SEED=7 in the environment: other cases."""

import os
import random
import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vcsbench.kernel import read


def dice_of(*name: object) -> random.Random:
    return random.Random(repr((*name, os.environ.get("FUZZ_SEED"))))


class TooLongError(BaseException):
    """A case took longer than its limit. No reader catches it."""


@contextmanager
def limits(seconds: float = 20, mib: int = 1024) -> Iterator[None]:
    """Limit the time of a case, and the memory that it may take in addition to this process's."""

    def end(*_: object) -> None:
        raise TooLongError

    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(read("/proc/self/statm").split()[0])
    most = pages * resource.getpagesize() + (mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    handler = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


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
