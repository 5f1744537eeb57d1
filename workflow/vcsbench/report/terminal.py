"""The lines that a run prints at its end: the answer to each question, missing results, and the next runs."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import Card
from vcsbench.codes import AnswerKind, Result, Verdict
from vcsbench.config.study import Study
from vcsbench.evidence import flags
from vcsbench.external import printable
from vcsbench.files import read_rows
from vcsbench.plan.result_state import OUTDATED
from vcsbench.report import results
from vcsbench.report.account import describe_results
from vcsbench.report.make_command import MakeCommand
from vcsbench.report.results import Results, Rows
from vcsbench.report.summary import (
    Disturbance,
    NextStep,
    describe_verdicts,
    find_disturbance,
    suggest_next_steps,
)
from vcsbench.statistics import texts

TERMINAL_COLUMNS = 80
HEADER = (
    "Answers over all cases measured. Each answer changes one thing and keeps the",
    "rest. For your own numbers, pick what you have at the top of the report.",
)
# The width of the column of questions, and the least and largest width of the column of answers.
QUESTION_WIDTH = 12
MIN_ANSWER_WIDTH = 10
MAX_ANSWER_WIDTH = 20
INDENT = " " * QUESTION_WIDTH


class TerminalRow(NamedTuple):
    """A row of the terminal: `Format?     yes       cold log 2.4x faster`.

    `answer` is "" for a row without an answer, such as `Skipped`. `question` is "" for a row that continues
    the row above.
    """

    question: str
    answer: str
    text: str


def format_summaries(summaries: Sequence[Results], command: MakeCommand) -> list[str]:
    """Return the lines that the terminal shows of each study, of at most TERMINAL_COLUMNS characters.

    They are its answers, missing results, and the next runs. `command` repeats the last run. With several
    studies, the name of each is above its lines. A long argument of a command stays whole.
    """
    lines: list[str] = []
    for summary in summaries:
        name = summary.study.name
        if len(summaries) > 1:
            lines.append(name)
        # Answers over all cells, as on builds, follow no pick.
        if any(not card.question.aggregate for card in summary.advice.cards):
            lines += HEADER
        steps = suggest_next_steps(summary, replace(command, study=name))
        lines += _format_rows(list(_make_rows(summary, has_steps=bool(steps))))
        lines += _format_steps(steps)
    return lines


def _format_rows(rows: Sequence[TerminalRow]) -> list[str]:
    """Return the rows as lines in three columns: question, answer and text.

    The column of answers is as wide as the longest answer and two blanks, from MIN_ANSWER_WIDTH to
    MAX_ANSWER_WIDTH. A row without an answer has its text there. A long text continues below itself.
    """
    longest = max((len(row.answer) for row in rows), default=0)
    answer_width = min(MAX_ANSWER_WIDTH, max(MIN_ANSWER_WIDTH, longest + 2))
    lines = []
    for question, answer, text in rows:
        head = f"{question:<{QUESTION_WIDTH - 1}} "
        indent = INDENT
        if answer:
            # An answer that is wider than its column is separated by two spaces.
            head += f"{answer:<{answer_width}}" if len(answer) < answer_width else f"{answer}  "
            indent += " " * answer_width
        # Names such as `hot-os` stay whole.
        wrapper = textwrap.TextWrapper(TERMINAL_COLUMNS, head, indent, break_on_hyphens=False)
        # wrap() returns no line for an empty text.
        wrapped = wrapper.wrap(printable(text)) or [head]
        lines += [line.rstrip() for line in wrapped]
    return lines


def _format_steps(steps: Sequence[NextStep]) -> list[str]:
    """Return the effect of each next run, and its command in lines of its own."""
    lines = []
    heading = "Next"
    for step in steps:
        wrapper = textwrap.TextWrapper(TERMINAL_COLUMNS, f"{heading:<{QUESTION_WIDTH}}", INDENT)
        lines += wrapper.wrap(f"{step.effect}:")
        lines += _wrap_command(printable(step.command))
        heading = ""
    return lines


def _wrap_command(command: str) -> list[str]:
    """Return a command in lines that can be pasted: broken by backslashes, and only outside of quotes."""
    lines = [""]
    # An argument with spaces is one word: ARGS='--configfile larger.yaml'
    for argument in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        if lines[-1] and len(f"{INDENT}{lines[-1]} {argument} \\") > TERMINAL_COLUMNS:
            lines[-1] += " \\"
            lines.append("")
        lines[-1] = f"{lines[-1]} {argument}".strip()
    return [INDENT + line for line in lines]


def _make_rows(summary: Results, has_steps: bool) -> Iterator[TerminalRow]:
    """Yield the answers, then what is missing and why.

    `has_steps` is True if next runs are printed below. Without them, an advice for small comparisons is
    yielded.
    """
    yield from _make_answer_rows(summary.advice.cards)
    yield _make_count_row(summary)
    yield from _make_disturbed_rows(find_disturbance(summary))
    yield from _make_invalid_rows(summary.measurements)
    yield from _make_missing_rows(summary)
    if not has_steps and summary.account.count_results()[Result.TOO_SMALL]:
        text = "measure a larger repository: some runs are mostly start-up"
        yield TerminalRow("Next", "", text)


def _make_answer_rows(cards: Iterable[Card]) -> Iterator[TerminalRow]:
    """Yield the answer of each card, then rows for the cards without an answer.

    Questions whose values were not measured share the row `Unmeasured`. Those that were measured and not
    compared have a row `Uncompared` for each reason: `Pack?, Format?: their output differs`.
    """
    unmeasured = []
    uncompared: dict[str, list[str]] = {}
    for card in cards:
        short, answer = card.question.short, card.answer
        # An answer over all cells, such as on builds, has a line for each candidate.
        candidate_lines = [candidate.effect for candidate in card.candidates]
        candidate_lines += card.lines
        if answer.kind == AnswerKind.NOT_MEASURED and not card.lines:
            unmeasured.append(short)
        elif answer.kind == AnswerKind.NOT_COMPARED and not card.lines:
            uncompared.setdefault(" ".join(card.notes), []).append(short)
        elif candidate_lines:
            yield TerminalRow(short, "", candidate_lines[0])
            for text in candidate_lines[1:]:
                yield TerminalRow("", "", text)
        else:
            yield TerminalRow(short, answer.short, answer.effect)
            for note in card.notes:
                yield TerminalRow("", "", note)
    if unmeasured:
        yield TerminalRow("Unmeasured", "", ", ".join(unmeasured))
    for reason, questions in uncompared.items():
        yield TerminalRow("Uncompared", "", f"{', '.join(questions)}: {reason}")


def _make_count_row(summary: Results) -> TerminalRow:
    """Return `Answered    70 of 82 comparisons, 12 undecided; 4 findings: 1 reproduced, 3 weaker`."""
    text = describe_results(summary.account) or "no comparison has a result"
    verdicts = [finding["verdict"] for finding in summary.findings]
    if any(verdict != Verdict.NOT_MEASURED for verdict in verdicts):
        count = words.count_of(len(verdicts), "finding")
        text += f"; {count}: {describe_verdicts(verdicts)}"
    return TerminalRow("Answered", "", text)


def _make_disturbed_rows(disturbance: Disturbance) -> Iterator[TerminalRow]:
    """Yield a row with the share of disturbed runs, no row if none is disturbed."""
    text = disturbance.describe()
    if text:
        yield TerminalRow("Disturbed", "", f"{text}, by other programs")


def _make_invalid_rows(measurements: Rows) -> Iterator[TerminalRow]:
    """Yield a row with the number of invalid runs and the flag that most of them have, none if all are valid.

    Example: `3 of 360 timed runs, left out (2 of them): ` and the sentence of the flag. `(2 of them)` have
    the flag.
    """
    invalid = [run for run in measurements if flags.is_invalid(run["flags"])]
    if not invalid:
        return
    counts: Counter[str] = Counter()
    for run in invalid:
        # Sorted, so that the first of equally frequent flags is always the same.
        counts.update(sorted(flags.INVALID.intersection(run["flags"].split())))
    flag, number = counts.most_common(1)[0]
    share = _describe_share(number, len(invalid))
    runs = f"{len(invalid)} of {words.count_of(len(measurements), 'timed run')}"
    text = f"{runs}, left out{share}: {flags.FLAGS[flag].sentence}"
    yield TerminalRow("Invalid", "", text)


def _make_missing_rows(summary: Results) -> Iterator[TerminalRow]:
    """Yield a row each for skipped, failed and outdated cells: their number and the most frequent reason.

    Example of a text: `4 cells (3 of them): no root`. A kind without cells has no row.
    """
    # A cell counts once, with the reason of its last round.
    reasons = {row["cell"]: row["reason"] for row in summary.failures}
    failed = [reason for reason in reasons.values() if reason != OUTDATED]
    outdated = [texts.OUTDATED_TEXT for reason in reasons.values() if reason == OUTDATED]
    skipped = [cell["skip"] for cell in summary.grid if cell.get("skip")]
    for name, members in (("Skipped", skipped), ("Failed", failed), ("Outdated", outdated)):
        if members:
            reason, number = Counter(members).most_common(1)[0]
            share = _describe_share(number, len(members))
            text = f"{words.count_of(len(members), 'cell')}{share}: {reason}"
            yield TerminalRow(name, "", text)


def _describe_share(number: int, total: int) -> str:
    """Return ` (3 of them)`, "" if it is all of them."""
    return f" ({number} of them)" if number < total else ""


def read_summaries(folder: Path, studies: Iterable[Study]) -> list[Results]:
    """Return the results that the terminal shows, of each study with advice below the folder `results`.

    Raise UserError for a damaged file, and if another version of vcsbench wrote the advice.
    """
    summaries = []
    for study in studies:
        name = study.name
        advice = results.read_advice(folder / "advice" / f"{name}.json")
        if advice is None:
            continue
        # Only flags matter here, so no number of the measurements is converted.
        measured = folder / "measurements" / f"{name}.csv"
        runs: Rows = ()
        if measured.exists():
            runs = read_rows(measured, results.DELETE_AND_RUN, columns=("cell", "flags"))
        summary = Results(
            study=study,
            order={},
            grid=results.read_cells(folder, name),
            measurements=runs,
            failures=results.read_failures(folder, name),
            findings=results.read_verdicts(folder, "findings", name),
            advice=advice,
            account=results.read_account(folder, name),
            provenance=results.read_provenance(folder, name),
        )
        summaries.append(summary)
    return summaries
