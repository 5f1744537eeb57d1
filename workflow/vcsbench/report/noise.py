"""The noise of a study as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vcsbench import words
from vcsbench.report.records import Record, name_of


@dataclass(frozen=True)
class NoiseRow:
    """A class of cells in words: its axis values, how often measured, and its ratios as text in per cent."""

    of: str
    twins: str
    rounds: str
    differed: str
    chance: str
    spread: str
    within: str


def noise_rows(noise: Sequence[Record], variance_group: Sequence[str]) -> list[NoiseRow]:
    """The rows of noise.noise_table as text, classes by their axes; a ratio that is not known is empty."""
    return [
        NoiseRow(
            name_of(row, variance_group) or "all cells",
            f"{row['twins'] or 0:.0f}",
            f"{row['rounds'] or 0:.0f}",
            *(_percent(row[name]) for name in ("differed", "chance", "spread", "within")),
        )
        for row in noise
    ]


def noise_sentence(noise: Sequence[Record]) -> str:
    """What twins of all classes amount to."""
    known = [row for row in noise if words.is_number(row["twin_sd"])]
    if not known:
        return (
            "No cell was measured twice over two rounds or more, so it is not known what cells that are the "
            "same thing differ by, and nothing is called a difference: set `duplicates` to 1 or more."
        )
    beyond = known[0]["twin_sd"]
    twins = sum(row["twins"] or 0 for row in known)
    said = (
        f"{words.count_of(int(twins), 'cell')} measured twice under two names, in the same rounds: "
    )
    if beyond == 1:
        return f"{said}the two differ by no more than their rounds scatter."
    return (
        f"{said}beyond what their rounds scatter the two differ by {_percent(beyond)} % (a standard "
        "deviation), which is a part of the error of every comparison."
    )


def _percent(ratio: Any) -> str:
    return words.significant(100 * (ratio - 1), 2) if words.is_number(ratio) else ""
