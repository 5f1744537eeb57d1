"""Print the results of a run in the terminal: python -m vcsbench.report.terminal

One line per question with its answer and effect, then what was answered, what was skipped or failed, and the
next command. No line has more than 80 columns.
"""

from __future__ import annotations

import csv
import os
import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vcsbench.advice.cards import Card, card_from
from vcsbench.advice.decide import NOT_MEASURED
from vcsbench.external import printable
from vcsbench.files import read_json
from vcsbench.report.budget import next_step
from vcsbench.statistics.contract import DIFFERS, INCONCLUSIVE, REPRODUCED, TOO_SMALL
from vcsbench.words import count_of

COLUMNS = 80
# Widths of the question and the answer.
_QUESTION, _ANSWER = 12, 10
_VERDICTS = {
    REPRODUCED: "reproduced",
    DIFFERS: "differ",
    INCONCLUSIVE: "inconclusive",
    TOO_SMALL: TOO_SMALL,
}


@dataclass(frozen=True)
class StudySummary:
    """A study's advice and account (JSON), the verdicts of its findings, its grid and its failures."""

    study: str
    advice: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, Any] = field(default_factory=dict)
    verdicts: Sequence[str] = ()
    grid: Sequence[Mapping[str, str]] = ()
    failures: Sequence[Mapping[str, str]] = ()


def lines(studies: Sequence[StudySummary], command: str = "make report") -> list[str]:
    """Return the lines; `command` continues the run if more minutes are added."""
    found = []
    for study in studies:
        if len(studies) > 1:
            found.append(study.study)
        for first, second, text in _rows(study, command):
            found += _wrapped(first, second, text)
    return found


def _wrapped(first: str, second: str, text: str) -> list[str]:
    head = f"{first:<{_QUESTION - 1}} "
    if second:
        head += f"{second:<{_ANSWER}}" if len(second) < _ANSWER else f"{second}  "
    indent = " " * (_QUESTION + (_ANSWER if second else 0))
    wrapped = textwrap.wrap(
        printable(text),
        COLUMNS,
        initial_indent=head,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    return [line.rstrip() for line in wrapped or [head]]


def _rows(study: StudySummary, command: str) -> Iterator[tuple[str, str, str]]:
    """Yield a study's lines as question, answer and effect; the last lines have no answer."""
    cards = [card_from(data) for data in study.advice.get("cards", [])]
    for card in cards:
        if card.answer.kind != NOT_MEASURED or card.lines:
            yield from _of_card(card)
    missing = [c.question.short for c in cards if c.answer.kind == NOT_MEASURED and not c.lines]
    if missing:
        yield "Unmeasured", "", ", ".join(missing)
    yield "Answered", "", "; ".join(_counts(study))
    yield from _unmeasured(study)
    if step := next_step(study.account):
        yield "Next", "", f"{command} MINUTES={step.minutes}: {step.text}"


def _of_card(card: Card) -> Iterator[tuple[str, str, str]]:
    if card.question.aggregate and card.lines:
        for number, line in enumerate(card.lines):
            yield (card.question.short if not number else ""), "", line
        return
    yield card.question.short, card.answer.short, card.answer.effect
    for note in card.notes:
        yield "", "", note


def _counts(study: StudySummary) -> Iterator[str]:
    tables = study.account.get("tables", {}).values()
    whole = sum(one["comparisons"] for one in tables)
    answered = sum(one["different"] + one["alike"] for one in tables)
    yield f"{answered} of {count_of(whole, 'comparison')}" if whole else "nothing was compared"
    counts = Counter(study.verdicts)
    verdicts = [f"{counts[v]} {text}" for v, text in _VERDICTS.items() if counts[v]]
    if verdicts:
        yield f"findings: {', '.join(verdicts)} of {len(study.verdicts)}"


def _unmeasured(study: StudySummary) -> Iterator[tuple[str, str, str]]:
    """Yield a line for the skipped and one for the failed cells, with the number and the main reason."""
    skipped = [row["skip"] for row in study.grid if row.get("skip")]
    failed = {row["cell"]: row["reason"] for row in study.failures}
    for name, reasons in (("Skipped", skipped), ("Failed", list(failed.values()))):
        if reasons:
            reason, number = Counter(reasons).most_common(1)[0]
            of = f" ({number} of them)" if number < len(reasons) else ""
            yield name, "", f"{count_of(len(reasons), 'cell')}{of}: {reason}"


def command_of(environment: Mapping[str, str]) -> str:
    """Return the command that started the run, without its minutes."""
    names = ("REPO", "STUDY", "ARGS")
    given = [f"{name}={shlex.quote(environment[name])}" for name in names if environment.get(name)]
    return " ".join(["make report", *given])


def read_summaries(results: Path) -> list[StudySummary]:
    """Return a summary of each study with advice below the folder `results`."""
    found = []
    for path in sorted((results / "advice").glob("*.json")):
        study = path.stem
        account = results / "budget" / f"{study}.json"
        findings, grid, failures = (
            _rows_of(results / name / f"{study}.csv") for name in ("findings", "grid", "failures")
        )
        found.append(
            StudySummary(
                study,
                read_json(path),
                read_json(account) if account.exists() else {},
                [row["verdict"] for row in findings],
                grid,
                failures,
            )
        )
    return found


def _rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    summaries = read_summaries(Path("results"))
    sys.stdout.writelines(f"{line}\n" for line in lines(summaries, command_of(os.environ)))
