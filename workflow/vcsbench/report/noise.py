"""The noise floors of a study as its page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.report.records import Record, name_of


@dataclass(frozen=True)
class NoiseRow:
    """A class of cells in words: its axis values, how often measured, and its ratios as text."""

    of: str
    twins: str
    rounds: str
    differed: str
    floor: str
    detectable: str


def noise_rows(noise: Sequence[Record], noise_class: Sequence[str]) -> list[NoiseRow]:
    """The rows of noise.noise_table as text, classes by their axes; a ratio that is not known is empty."""
    return [
        NoiseRow(
            name_of(row, noise_class) or "all cells",
            f"{row['twins'] or 0:.0f}",
            f"{row['rounds'] or 0:.0f}",
            *(_percent(row[name]) for name in ("differed", "noise_floor", "detectable")),
        )
        for row in noise
    ]


def noise_sentence(noise: Sequence[Record]) -> str:
    """What the floors of all classes amount to."""
    known = sorted(row["noise_floor"] for row in noise if words.is_number(row["noise_floor"]))
    if not known:
        return (
            "No cell was measured twice over two rounds or more, so the noise floor is not known and "
            "nothing is called a difference: set `twins` to 1 or more."
        )
    span = " to ".join(dict.fromkeys(_percent(floor) for floor in (known[0], known[-1])))
    said = f"Identical cells under two names may differ here by {span} % (the noise floor)."
    lacking = len(noise) - len(known)
    if lacking:
        said += f" For {words.count_of(lacking, 'class', 'classes')} it is not known."
    return said


def _percent(ratio: Any) -> str:
    return words.significant(100 * (ratio - 1), 2) if words.is_number(ratio) else ""
