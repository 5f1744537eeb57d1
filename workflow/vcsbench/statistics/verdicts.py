"""The columns of the files of findings, and the reasons of a verdict.

This module imports neither numpy nor pandas, because pages import it first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vcsbench.codes import ReasonCode

OF_FINDINGS = [
    *["id", "statement", "published", "measured", "low", "high"],
    *["unit", "over", "expected", "verdict", "reasons"],
]
OF_EXPECTATIONS = [*OF_FINDINGS, "passes"]
# These can explain that a finding differs from the published number.
EXPLAINING = (
    ReasonCode.OTHER_STORAGE,
    ReasonCode.SCALE,
    ReasonCode.NEWER_VERSION,
    ReasonCode.OTHER_SYSTEM,
    ReasonCode.SAME_MACHINE,
    ReasonCode.FEWER_CELLS,
)


@dataclass(frozen=True)
class Reason:
    """A reason of a verdict, or a remark, with the values that its text needs (texts.REASONS)."""

    code: ReasonCode
    values: Mapping[str, object] = field(default_factory=dict)
