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
    """The step of a value = 100 * (baseline / candidate - 1): 0 is about the same, 1 to 6 the baseline has
    more, -1 to -6 the candidate. Twice as much is as strong as half as much.
    """
    factor = 1 + percent / 100
    if factor <= 0:
        return -len(FACTORS)
    distance = bisect_right(FACTORS, math.exp(abs(math.log(factor))) + 1e-9)
    return distance if factor > 1 else -distance


@dataclass(frozen=True)
class Swatch:
    """A step of the legend: its style's class, and the value at its edge towards the next step outwards
    from 0."""

    style: str
    edge: str


def legend(direction: int) -> list[Swatch]:
    """All steps from the side where the baseline is better to the candidate's, with the value where each
    begins; see readings.direction."""
    steps = [n * direction for n in range(-len(FACTORS), len(FACTORS) + 1)]
    return [Swatch(class_of(number, direction), _edge(number)) for number in steps]


def _edge(number: int) -> str:
    if not number:
        return ""
    factor = FACTORS[abs(number) - 1]
    return percentage(100 * ((factor if number > 0 else 1 / factor) - 1))


def class_of(number: int, direction: int) -> str:
    """The style's class for a step: `x3` where the baseline is better, `y3` where the candidate is."""
    return f"{'x' if number * direction < 0 else 'y'}{abs(number)}" if number else ""
