"""How a deviation in percent becomes one of a few steps of colour."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

from vcsbench.words import percentage

# The factors at which the next step begins. Each is about twice the effect of the one before, so
# that 10 % shows and 10 times does not drown it; the last step is for all that is larger.
FACTORS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0)


def step(percent: float) -> int:
    """The step of a value = 100 * (elapsed(X) / elapsed(Y) - 1).

    0 is about the same, 1 to 6 the candidate Y is faster, -1 to -6 the baseline X is. Twice as fast
    is as strong as half as fast.
    """
    factor = 1 + percent / 100
    if factor <= 0:
        return -len(FACTORS)
    distance = bisect_right(FACTORS, math.exp(abs(math.log(factor))) + 1e-9)
    return distance if factor > 1 else -distance


@dataclass(frozen=True)
class Swatch:
    """A step of the legend and the value at its edge towards the next step outwards from 0."""

    step: int
    edge: str


def legend() -> list[Swatch]:
    """All steps from the baseline's side to the candidate's, with the value where each begins."""
    faster = [percentage(100 * (factor - 1)) for factor in FACTORS]
    slower = [percentage(100 * (1 / factor - 1)) for factor in FACTORS]
    count = len(FACTORS)
    return [
        *(Swatch(-n, slower[n - 1]) for n in range(count, 0, -1)),
        Swatch(0, ""),
        *(Swatch(n, faster[n - 1]) for n in range(1, count + 1)),
    ]


def class_of(number: int) -> str:
    """The style's class for a step: `x3` for a faster baseline, `y3` for a faster candidate."""
    return f"{'x' if number < 0 else 'y'}{abs(number)}" if number else ""
