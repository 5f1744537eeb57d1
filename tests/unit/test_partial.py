"""The report of what there is after a failure."""

from __future__ import annotations

import re
from pathlib import Path

from vcsbench.run import partial

RULES = Path(__file__).parents[2] / "workflow" / "rules"
# What prepares and measures, and targets of a user's own.
LEFT_OUT = {"build", "load", "copies", "cell", "check", "checks", "published"}


def test_all_rules_behind_the_cells_may_run() -> None:
    found = {
        name
        for path in RULES.glob("*.smk")
        for name in re.findall(
            r"^(?:rule|use rule \w+ as) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert found >= LEFT_OUT
    assert found - LEFT_OUT == set(partial.RULES) - {"all"}
