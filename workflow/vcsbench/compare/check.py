"""Says of each expectation whether it holds: `python -m vcsbench.compare.check results/check.csv`.

Exit codes: 0 all pass; 1 there is nothing to check, or it cannot be read; 3 one does not hold;
4 none fails to hold, but one is inconclusive or was not measured.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from vcsbench import words
from vcsbench.compare import checkfiles
from vcsbench.compare.checkfiles import value_of

NOTHING, DIFFERS, UNDECIDED = 1, 3, 4


def main(arguments: Sequence[str]) -> int:
    """Print a line for each row of the file of rule `checks`; returns the exit code."""
    path = Path(arguments[0])
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        print(f"{path}: cannot be read: {error.strerror}", file=sys.stderr)
        return NOTHING
    if not rows:
        print(
            "There is nothing to check: no file that the key `expectations` names has an expectation; "
            "config/expectations.yaml shows how to write one",
            file=sys.stderr,
        )
        return NOTHING
    for row in rows:
        print(sentence(row))
    print(
        "as files:", words.enumeration([str(file) for file in checkfiles.write(rows, path.parent)])
    )
    print(summary(rows))
    return code(rows)


def code(rows: Sequence[Mapping[str, str]]) -> int:
    """The exit code for the rows of the expectations."""
    failed = {row["verdict"] for row in rows if row["passes"] != "yes"}
    if "differs" in failed:
        return DIFFERS
    return UNDECIDED if failed else 0


def sentence(row: Mapping[str, str]) -> str:
    """One expectation in a line: verdict, study and id, value with interval and unit, bound, why."""
    verdict = row["verdict"]
    if row["passes"] == "yes" and verdict in ("inconclusive", "not measured"):
        verdict += ", allowed"
    why = f" [{row['why']}]" if row["why"] else ""
    return (
        f"{verdict}: {row['study']} {row['id']}: {value_of(row)}, expected {row['expected']}{why}"
    )


def summary(rows: Sequence[Mapping[str, str]]) -> str:
    """How many pass."""
    passed = sum(row["passes"] == "yes" for row in rows)
    return f"{passed} of {words.count_of(len(rows), 'expectation')} pass"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
