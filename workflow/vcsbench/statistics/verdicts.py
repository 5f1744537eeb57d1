"""The columns of the files of findings, and the reasons of a verdict.

This module imports neither numpy nor pandas, because pages import it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vcsbench.codes import RangePlace, ReasonCode

# The columns of results/findings/<study>.csv.
FINDING_COLUMNS = [
    "id",
    "statement",
    "published",  # the published value of the measured cells, and the ends that its last digits leave open
    "published_low",
    "published_high",
    "measured",  # the value here, and the ends of its 95 % interval
    "low",
    "high",
    "unit",  # such as `s`, `%` or `times, f6 / f7`
    "over",  # such as `least of 12 cells`
    "expected",  # such as `at least 1.8`
    "verdict",  # Verdict
    "reasons",  # a JSON list of Reason
]
# The columns of results/expectations/<study>.csv. `passes` is yes or no.
EXPECTATION_COLUMNS = [*FINDING_COLUMNS, "passes"]
# The codes of reasons that can explain why a finding differs from the published number.
EXPLAINING_CODES = (
    ReasonCode.FASTER_STORAGE,
    ReasonCode.OTHER_STORAGE,
    ReasonCode.SCALE,
    ReasonCode.GENERATED,
    ReasonCode.NEWER_VERSION,
    ReasonCode.OTHER_SYSTEM,
    ReasonCode.SAME_MACHINE,
    ReasonCode.FEWER_CELLS,
)


@dataclass(frozen=True)
class Reason:
    """A reason of a verdict, or a remark, with the values that its text needs (texts.REASON_WORDS).

    Example: SCALE with `{"subject": "ruby", "share": 5.0}` is "smaller scale: ruby has 5 % of its published
    revisions".
    """

    code: ReasonCode
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class MixedPart:
    """A cell or pair of a mixed finding: its axis values, its value with the interval, and its place.

    An end of an unknown interval is None, because JSON has no NaN.
    """

    where: Mapping[str, str]
    place: RangePlace
    value: float
    low: float | None
    high: float | None


def mixed_parts(reason: Reason) -> list[MixedPart]:
    """Return the cells or pairs of the reason DISAGREEMENT, whose `parts` are records of a file."""
    records: Any = reason.values["parts"]
    return [MixedPart(**{**record, "place": RangePlace(record["place"])}) for record in records]
