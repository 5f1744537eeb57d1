"""What a comparison is called, and how much it takes to call it anything (family decides)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

NOT_SHOWN = "no difference shown"
TOO_NOISY = "too noisy to say"

# Why a run with minutes gives no more rounds.
ANSWERED, TIME_IS_UP, NEVER = "answered", "time is up", "more rounds tell nothing"

# Where single runs of a cell scatter by more than so many per cent, a machine is noisy.
NOISY_PCT = 8.0


@dataclass(frozen=True)
class Limits:
    """From where on something is concluded: keys of the configuration.

    `min_effect_pct`: what difference is worth noting: two that are shown to differ by less show none.
    `min_effect_pct_if_noisy`: the same on a noisy machine, if it is more.
    `min_rounds` (a threshold): with fewer an interval says little, tables say `low-n`, and nothing is
    concluded.
    """

    min_effect_pct: float = 10.0
    min_effect_pct_if_noisy: float = 15.0
    min_rounds: int = 5

    def on_machine(self, scatter: float) -> Limits:
        """The same with what is worth noting on a machine whose runs scatter so (scatter.of_runs; NaN where
        that is not known)."""
        if not scatter_pct(scatter) > NOISY_PCT:
            return self
        return replace(self, min_effect_pct=max(self.min_effect_pct, self.min_effect_pct_if_noisy))


# Those of a configuration that says nothing of them.
USUAL = Limits()


def scatter_pct(scatter: float) -> float:
    """The standard deviation of a logarithm in per cent; 0 where it is not known."""
    return 0.0 if math.isnan(scatter) else 100 * math.expm1(scatter)


def is_difference(call: str) -> bool:
    """Whether a call, in the words of whichever metric, says that the two differ."""
    return call not in ("", NOT_SHOWN, TOO_NOISY)
