"""What a run has found, in at most ten lines for the terminal: python -m vcsbench.report.terminal

Of one study: a line for each question, with the answer and by how much, as its card on the page says; how
much was answered, what became of the findings, and what more minutes would tell. Of several: a line for each.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vcsbench.compare.bounds import DIFFERS, INCONCLUSIVE, NOT_MEASURED, REPRODUCED
from vcsbench.compare.decisions import is_difference
from vcsbench.metrics import DEFAULT, metric_of
from vcsbench.report.bought import bought
from vcsbench.wholefile import read_json
from vcsbench.words import capital, count_of, significant

AT_MOST = 10
# The lines behind the answers: what was answered, the findings, what next.
OTHERS = 3
TOLD = (REPRODUCED, DIFFERS, INCONCLUSIVE)


class Found(NamedTuple):
    """What is known of a study: its name, advice (advice.recommend), account (rule account) and verdicts."""

    study: str
    advice: Mapping[str, Any]
    account: Mapping[str, Any]
    verdicts: Sequence[str]


def lines(found: Sequence[Found], command: str = "make report") -> list[str]:
    """The lines, at most AT_MOST; `command` is what to type to go on."""
    if len(found) == 1:
        return _of_one(found[0], command)
    width = max((len(one.study) for one in found), default=0)
    said = [f"{one.study.ljust(width)}  {'; '.join(_counts(one))}" for one in found]
    more = len(said) - AT_MOST
    return said if more <= 0 else [*said[: AT_MOST - 1], f"and {more + 1} studies more"]


def _of_one(found: Found, command: str) -> list[str]:
    chosen = _answers(found.advice)
    kept = chosen[: AT_MOST - OTHERS]
    left = chosen[len(kept) :]
    if left:
        kept = [*kept[:-1], ("And more", f"{len(left) + 1} other questions in the report")]
    width = max((len(ask) for ask, _ in kept), default=0)
    said = [f"{ask.ljust(width)}  {text}" for ask, text in kept]
    return [*said, *map(capital, _counts(found)), *_next(found.account, command)]


def _answers(advice: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each question with its answer, by how much, and what is said of the cases; those that are not measured
    in a line."""
    asked = advice.get("cards", [])
    told = [(card["ask"], _answer(card)) for card in asked if card["answer"] != NOT_MEASURED]
    left = [_small(card["ask"].rstrip("?")) for card in asked if card["answer"] == NOT_MEASURED]
    return [*told, ("Not measured", "; ".join(left))] if left else told


def _answer(card: Mapping[str, Any]) -> str:
    """`yes: pack 5.67 times as fast as nopack (95 %: 4.30 to 7.46; log cold f7 over file); faster in 15 of
    20 cases, slower in none`."""
    if card["gain"]:
        clear = [case for case in card["cases"] if is_difference(case["call"])]
        most = max(clear, key=lambda case: case["ratio"])
        ratio, low, high = (significant(most[key]) for key in ("ratio", "low", "high"))
        words = metric_of(DEFAULT).words
        where = "" if most["where"] == "all cells" else f"; {most['where']}"
        told = f"{most['better']} {ratio} times {words.as_good} {most['worse']}"
        told += f" (95 %: {low} to {high}{where})"
        return f"{card['answer']}: {told}; {_small(card['said'].rstrip('.'))}"
    if not card["cases"] and card["parts"]:
        return str(card["parts"][0]).rstrip(".")
    said = str(card["said"]).rstrip(".")
    return said if said.startswith(f"{card['answer']}:") else f"{card['answer']}: {_small(said)}"


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


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


def _next(account: Mapping[str, Any], command: str) -> list[str]:
    """`Next: make report MINUTES=27: 15 min more would tell all of these at 10 %.`"""
    made = bought(account)
    found = (
        re.fullmatch(r"(.*) \((MINUTES=\d+)\)(.*)", one) for one in (made.sentences if made else ())
    )
    return [f"Next: {command} {one[2]}: {one[1]}{one[3]}" for one in found if one][:1]


def typed(environment: Mapping[str, str]) -> str:
    """The command that began the run, but for how long: what make hands over of its own command line."""
    names = ("REPO", "STUDY", "ARGS")
    given = [f"{name}={shlex.quote(environment[name])}" for name in names if environment.get(name)]
    return " ".join(["make report", *given])


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
    sys.stdout.writelines(f"{line}\n" for line in lines(read(Path("results")), typed(os.environ)))
