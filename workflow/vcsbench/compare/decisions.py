"""What a comparison is called, and how much it takes to call it anything (family decides)."""

from __future__ import annotations

from dataclasses import dataclass

NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"

# Why a run with minutes gives no more rounds.
ANSWERED, TIME_IS_UP, NEVER = "answered", "time is up", "more rounds tell nothing"


@dataclass(frozen=True)
class Limits:
    """From where on something is concluded: keys of the configuration.

    `notable_pct`: what difference is worth noting: two that are shown to differ by less show none.
    `enough_rounds` (a threshold): with fewer an interval says little, tables say `low-n`, and nothing is
    concluded.
    """

    notable_pct: float = 10.0
    enough_rounds: int = 5


# Those of a configuration that says nothing of them.
USUAL = Limits()


def is_difference(call: str) -> bool:
    """Whether a call, in the words of whichever metric, says that the two differ."""
    return call not in ("", NOT_SHOWN, TOO_NOISY)
