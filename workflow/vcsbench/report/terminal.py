"""The results of a run in the terminal, at most 80 columns wide."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from vcsbench import words
from vcsbench.advice.decision import NOT_COMPARED, NOT_MEASURED, Row
from vcsbench.config.study import Study
from vcsbench.evidence import flags
from vcsbench.external import printable
from vcsbench.files import read_json, read_rows
from vcsbench.plan.result_state import OUTDATED
from vcsbench.report.next_steps import FLAGS, count_disturbed, count_results, next_steps
from vcsbench.report.results import (
    AGAIN,
    CSV_FILES,
    Results,
    read_advice,
    read_records,
    unique_values,
)
from vcsbench.statistics import comparisons, verdicts

COLUMNS = 80
HEADER = (
    "Answers over all cases measured. Each answer changes one thing and keeps the",
    "rest. For your own numbers, pick what you have at the top of the report.",
)
# The width of the columns; the answers share the width of the longest.
_QUESTION, _ANSWER, _LONGEST = 12, 10, 20
_INDENT = " " * _QUESTION
_VERDICTS = (
    *(verdicts.REPRODUCED, verdicts.HOLDS, verdicts.DIFFERS, verdicts.REVERSED),
    *(verdicts.INCONCLUSIVE, comparisons.TOO_SMALL, verdicts.NOT_MEASURED),
)


def results_text(account: Row) -> str:
    """Return `74 of 82 comparisons, 4 too small to compare, 4 undecided`, "" without comparisons."""
    counts = count_results(account)
    answered, all_ = counts[comparisons.DIFFERENT] + counts[comparisons.EQUAL], counts.total()
    texts = [f"{answered} of {words.count_of(all_, 'comparison')}"]
    texts += [
        f"{counts[n]} {n}" for n in (comparisons.TOO_SMALL, comparisons.UNDECIDED) if counts[n]
    ]
    return ", ".join(texts) if all_ else ""


def verdict_counts(of_findings: Iterable[str]) -> str:
    """Return `6 reproduced, 5 differ, 1 reversed`."""
    counts, plural = Counter(of_findings), {verdicts.DIFFERS: "differ", verdicts.HOLDS: "hold"}
    known = [(counts[v], v) for v in unique_values([*_VERDICTS, *counts]) if counts[v]]
    return ", ".join(
        f"{n} {verdict if n == 1 else plural.get(verdict, verdict)}" for n, verdict in known
    )


def lines(studies: Sequence[Results], given: Mapping[str, str] | None = None) -> list[str]:
    printed: list[str] = []
    for study in studies:
        of_study = {**dict.fromkeys(FLAGS.values(), ""), **(given or {}), "STUDY": study.study.name}
        printed += [study.study.name] if len(studies) > 1 else []
        has_cases = any(not card.question.aggregate for card in study.advice.cards)
        printed += HEADER if has_cases else ()
        steps = [*next_steps(study, of_study)]
        rows = list(_rows(study, has_steps=bool(steps)))
        column = min(_LONGEST, max([_ANSWER, *(len(answer) + 2 for _, answer, _ in rows)]))
        for question, answer, text in rows:
            head = f"{question:<{_QUESTION - 1}} "
            if answer:
                head += f"{answer:<{column}}" if len(answer) < column else f"{answer}  "
            indent = " " * (_QUESTION + (column if answer else 0))
            wrapper = textwrap.TextWrapper(COLUMNS, head, indent, break_on_hyphens=False)
            printed += [line.rstrip() for line in wrapper.wrap(printable(text)) or [head]]
        for number, step in enumerate(steps):
            head = f"{'' if number else 'Next':<{_QUESTION}}"
            wrapper = textwrap.TextWrapper(COLUMNS, head, _INDENT)
            printed += wrapper.wrap(f"{step.effect}:") + _wrapped_command(printable(step.command))
    return printed


def _wrapped_command(command: str) -> list[str]:
    """Return a command in lines that can be pasted: broken by backslashes, and only outside of quotes."""
    lines_ = [""]
    for argument in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        if lines_[-1] and len(f"{_INDENT}{lines_[-1]} {argument} \\") > COLUMNS:
            lines_[-1] += " \\"
            lines_.append("")
        lines_[-1] = f"{lines_[-1]} {argument}".strip()
    return [_INDENT + line for line in lines_]


def _rows(study: Results, has_steps: bool) -> Iterator[tuple[str, str, str]]:
    missing = []
    withheld: dict[str, list[str]] = {}
    for card in study.advice.cards:
        short, answer = card.question.short, card.answer
        if answer.kind == NOT_MEASURED and not card.lines:
            missing.append(short)
        elif answer.kind == NOT_COMPARED and not card.lines:
            withheld.setdefault(" ".join(card.notes), []).append(short)
        elif texts := [*(answer.effect for answer in card.candidates), *card.lines]:
            for number, text in enumerate(texts):
                yield ("" if number else short), "", text
        else:
            yield short, answer.short, answer.effect
            for note in card.notes:
                yield "", "", note
    if missing:
        yield "Unmeasured", "", ", ".join(missing)
    for reason, questions in withheld.items():
        yield "Uncompared", "", f"{', '.join(questions)}: {reason}"
    answered = [results_text(study.account) or "no comparison has a result"]
    of_findings = [verdicts.verdict_for_reader(finding) for finding in study.findings]
    if {*of_findings} - {verdicts.NOT_MEASURED}:
        answered.append(f"{len(of_findings)} findings: {verdict_counts(of_findings)}")
    yield "Answered", "", "; ".join(answered)
    disturbed, number, _ = count_disturbed(study.advice.cards)
    if disturbed:
        of = f"{disturbed} of {words.count_of(number, 'comparison')} of the answers"
        yield "Disturbed", "", f"{of}, by other programs"
    of_runs = (flags.INVALID & {*run["flags"].split()} for run in study.measurements)
    if invalid := [sorted(own) for own in of_runs if own]:
        flag, of = _most_frequent([flag for own in invalid for flag in own], len(invalid))
        runs = f"{len(invalid)} of {words.count_of(len(study.measurements), 'timed run')}"
        yield "Invalid", "", f"{runs}, left out{of}: {flags.FLAGS[flag].sentence}"
    skipped = [row["skip"] for row in study.grid if row.get("skip")]
    failed = {row["cell"]: row["reason"] for row in study.failures}
    old = [reason for reason in failed.values() if reason == OUTDATED]
    others = [reason for reason in failed.values() if reason != OUTDATED]
    for name, reasons in (("Skipped", skipped), ("Failed", others), ("Outdated", old)):
        if reasons:
            reason, of = _most_frequent(reasons, len(reasons))
            yield name, "", f"{words.count_of(len(reasons), 'cell')}{of}: {reason}"
    if not has_steps and count_results(study.account)[comparisons.TOO_SMALL]:
        yield "Next", "", "measure a larger repository: some runs are mostly start-up"


def _most_frequent(reasons: Iterable[str], number: int) -> tuple[str, str]:
    """Return the most frequent reason, and ` (3 of them)` if not all of a `number` of things have it."""
    reason, count = Counter(reasons).most_common(1)[0]
    return reason, f" ({count} of them)" if count < number else ""


def read_summaries(folder: Path, studies: Iterable[Study]) -> list[Results]:
    """Return the results that the terminal shows, of each study with advice below the folder `results`.

    Raise UserError if another version of vcsbench wrote the advice.
    """
    summaries = []
    for study in studies:
        name = study.name
        if (advice := read_advice(folder / "advice" / f"{name}.json")) is None:
            continue
        findings, grid, failures = (
            read_records(folder / kind / f"{name}.csv", CSV_FILES[kind])
            for kind in ("findings", "grid", "failures")
        )
        account, provenance = (
            read_json(folder / kind / f"{name}.json") for kind in ("budget", "provenance")
        )
        measured = folder / "measurements" / f"{name}.csv"
        runs = read_rows(measured, AGAIN, columns=("cell", "flags")) if measured.exists() else ()
        summary = Results(study, {}, grid, runs, failures, findings=findings, advice=advice)
        summaries.append(replace(summary, account=account, provenance=provenance))
    return summaries
