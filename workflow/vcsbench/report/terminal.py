"""What a run has found, in at most ten lines for the terminal: python -m vcsbench.report.terminal

Of one study: what to choose, a line for each axis that something was told of, how much was answered, what
became of the findings, and what more minutes would tell. Of several: a line for each.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.advice.sentences import Sentences
from vcsbench.compare.bounds import DIFFERS, INCONCLUSIVE, REPRODUCED
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.report.bought import bought
from vcsbench.wholefile import read_json
from vcsbench.words import count_of, significant

AT_MOST = 10
# The lines behind those of the axes: what was answered, the findings, what next.
OTHERS = 3
TOLD = (REPRODUCED, DIFFERS, INCONCLUSIVE)


class Found(NamedTuple):
    """What is known of a study: its name, advice (advice.recommend), account (rule account) and verdicts."""

    study: str
    advice: Mapping[str, Any]
    account: Mapping[str, Any]
    verdicts: Sequence[str]


def lines(found: Sequence[Found]) -> list[str]:
    """The lines, at most AT_MOST."""
    if len(found) == 1:
        return _of_one(found[0])
    width = max((len(one.study) for one in found), default=0)
    said = [f"{one.study.ljust(width)}  {'; '.join(_counts(one))}" for one in found]
    more = len(said) - AT_MOST
    return said if more <= 0 else [*said[: AT_MOST - 1], f"and {more + 1} studies more"]


def _of_one(found: Found) -> list[str]:
    chosen = _axes(found.advice)
    kept = chosen[: AT_MOST - OTHERS]
    left = chosen[len(kept) :]
    if left:
        names = ", ".join(axis for axis, _ in left)
        kept = [*kept[:-1], ("more", f"of {kept[-1][0]}, {names} in the report")]
    width = max((len(axis) for axis, _ in kept), default=0)
    said = [f"{axis.ljust(width)}  {text}" for axis, text in kept]
    return [*said, *map(_capital, _counts(found)), *_next(found.account)]


def _axes(advice: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Of each axis that something was told of, its value that is the better one where that makes most."""
    effects: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for item in advice.get("recommendations", []):
        for effect in item.get("effects", []):
            effects.setdefault(effect["axis"], []).append((item, effect))
    better = metric_of(DEFAULT).words.better
    told = []
    for axis, of_axis in effects.items():
        clear = [one for one in of_axis if one[1]["comparison"]["call"] == better]
        if clear:
            item, effect = max(clear, key=lambda one: one[1]["comparison"]["ratio"])
            wins = Counter(one["better"] for _, one in clear)
            most = _told(advice["given"], item, effect)
            told.append((axis, f"{most}{_elsewhere(effect['better'], wins, len(of_axis))}"))
    return told


def _elsewhere(better: str, wins: Mapping[str, int], all_of: int) -> str:
    """In how many cases a value is the better one, and another."""
    if all_of == 1:
        return ""
    others = [f"{value} in {number}" for value, number in wins.items() if value != better]
    return ", ".join([f"; better in {wins[better]} of {all_of} cases", *others])


def _told(given: Sequence[str], item: Mapping[str, Any], effect: Mapping[str, Any]) -> str:
    """`pack, 7.1 times as fast as nopack (5.7 to 8.8): svn log cold`."""
    metric = metric_of(DEFAULT)
    how = effect["comparison"]
    ratio, low, high = (significant(how[key], 2) for key in ("ratio", "low", "high"))
    where = " ".join(filter(None, (item.get(axis, "") for axis in given)))
    with_ = next(filter(None, map(Sentences(metric).choice, effect["with"])), "")
    at = ", ".join(filter(None, [where, with_]))
    by = f"{ratio} times {metric.words.as_good} {effect['worse']} ({low} to {high})"
    return f"{effect['better']}, {by}{f': {at}' if at else ''}"


def _counts(found: Found) -> Iterator[str]:
    tables = found.account.get("tables", {}).values()
    every = sum(one["comparisons"] for one in tables)
    told = sum(one["different"] + one["alike"] for one in tables)
    yield f"{told} of {count_of(every, 'comparison')} answered" if every else "nothing was compared"
    counts = Counter(found.verdicts)
    said = [f"{counts[verdict]} {verdict}" for verdict in TOLD if counts[verdict]]
    if found.verdicts:
        measured = ", ".join(said) or "none measured"
        yield f"{measured}, of {count_of(len(found.verdicts), 'published finding')}"


def _next(account: Mapping[str, Any]) -> list[str]:
    made = bought(account)
    return [f"Next: {one}" for one in made.sentences if "MINUTES=" in one][:1] if made else []


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def read(results: Path) -> list[Found]:
    """What the results of a checkout hold of each study that has a report."""
    found = []
    for path in sorted((results / "advice").glob("*.json")):
        study = path.stem
        findings = results / "findings" / f"{study}.csv"
        verdicts: list[str] = []
        if findings.exists():
            with findings.open(encoding="utf-8") as file:
                verdicts = [row["verdict"] for row in csv.DictReader(file)]
        account = read_json(results / "budget" / f"{study}.json")
        found.append(Found(study, read_json(path), account, verdicts))
    return found


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(read(Path("results"))))
