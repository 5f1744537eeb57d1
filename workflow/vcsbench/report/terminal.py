"""The lines that a run prints at its end: the answer to each question, missing results, and the next runs."""

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import at_least_1
from vcsbench.codes import AnswerKind, Result, Verdict
from vcsbench.config.study import Study
from vcsbench.evidence import flags
from vcsbench.external import printable
from vcsbench.files import read_rows
from vcsbench.plan.result_state import OUTDATED, UNMEASURED, reason_by_cell
from vcsbench.report import card_texts, summary
from vcsbench.report import results as result_files
from vcsbench.report.account import describe_results
from vcsbench.report.make_command import MakeCommand
from vcsbench.report.results import Results, Rows
from vcsbench.report.summary import NextStep
from vcsbench.statistics import texts

TERMINAL_COLUMNS = 80
# The lines of one study, at most. What does not fit into them is only in the report.
MAX_LINES = 15
# So many answers are printed before other lines are shortened: most studies have no more of them.
FEW_ANSWERS = 4
NEXT = "Next"
HEADER = (
    "Answers over all cases measured. Each answer changes one thing and keeps the",
    "rest. For your own numbers, pick what you have at the top of the report.",
)
# The header of a study with cold cells.
COLD_HEADER = (
    "Answers over all cases (cold: with empty caches, as in a morning). Each changes",
    "one thing. For your own numbers, pick what you have at the top of the report.",
)
# The end of a text that is cut.
CUT = " ..."
# The width of the column of questions, and the least and largest width of the column of answers.
QUESTION_WIDTH = 12
MIN_ANSWER_WIDTH = 10
MAX_ANSWER_WIDTH = 20
# The blanks below a question, in lines that continue the line above.
INDENT = " " * QUESTION_WIDTH


class TerminalRow(NamedTuple):
    """A row of the terminal: the question `Format?`, the text `cold log 2.4x faster`, the answer `yes`.

    `answer` is "" for a row without an answer, such as `Skipped`. `question` is "" for a row that continues
    the row above. `is_reason` is True for a row whose text ends with a reason, which may be cut.
    """

    question: str
    text: str
    answer: str = ""
    is_reason: bool = False


class TerminalLayout(NamedTuple):
    """A way to print the lines of a study, some of which may be left out or cut.

    - `cuts_reasons`: a row with a reason (TerminalRow.is_reason) has one line.
    - `has_one_step`: only the first of the next runs is printed, and the others are counted.
    - `joins_rows`: the rows on questions without a comparison, and those on missing cells, are one row each.
    - `lines_of_answer`, `lines_of_row`: a row of an answer, or any other row, has at most so many lines, None
      for any number. If an answer has one line, at least one answer is printed in place of FEW_ANSWERS.
    - `has_command`: the command of the next run is printed.
    """

    cuts_reasons: bool = False
    has_one_step: bool = False
    joins_rows: bool = False
    lines_of_answer: int | None = None
    lines_of_row: int | None = None
    has_command: bool = True


# The first layout that has at most MAX_LINES lines is printed. Each one is shorter than the layout before.
LAYOUTS = (
    TerminalLayout(),
    TerminalLayout(cuts_reasons=True),
    TerminalLayout(cuts_reasons=True, has_one_step=True),
    TerminalLayout(cuts_reasons=True, has_one_step=True, joins_rows=True),
    TerminalLayout(True, True, True, lines_of_answer=2),
    TerminalLayout(True, True, True, lines_of_answer=1),
    TerminalLayout(True, True, True, lines_of_answer=1, lines_of_row=1),
    # A command can have any length. The other lines of this layout are at most 14.
    TerminalLayout(True, True, True, lines_of_answer=1, lines_of_row=1, has_command=False),
)


def format_summaries(studies: Sequence[Results], command: MakeCommand) -> list[str]:
    """Return the lines that the terminal shows of each study: answers, missing results, and the next runs.

    `command` repeats the last run. With several studies, the name of each is above its lines. A line has at
    most TERMINAL_COLUMNS characters, unless it has a long argument of a command. A study has at most
    MAX_LINES lines.
    """
    lines: list[str] = []
    for results in studies:
        head = [results.study.name] if len(studies) > 1 else []
        lines += _format_study(results, replace(command, study=results.study.name), head)
    return lines


def _format_study(results: Results, command: MakeCommand, head: Sequence[str]) -> list[str]:
    """Return the lines of a study below the lines `head`. `command` repeats its last run."""
    steps = summary.suggest_next_steps(results, command)
    lines: list[str] = []
    for layout in LAYOUTS:
        lines = _format_layout(results, steps, head, layout)
        # A long argument of a command, such as a path, continues in the next line of the terminal.
        height = sum(max(1, math.ceil(len(line) / TERMINAL_COLUMNS)) for line in lines)
        if height <= MAX_LINES:
            break
    return lines


def _format_layout(
    results: Results, steps: Sequence[NextStep], head: Sequence[str], layout: TerminalLayout
) -> list[str]:
    """Return the lines of a study in a layout: `head`, the answers, other rows, and the next runs (`steps`).

    The answers get the lines that the other texts leave of MAX_LINES.
    """
    cards = results.advice.cards
    above = list(head)
    # The header is about picks: the values that a reader chooses in the report. An aggregate card, such as
    # that on builds, has one answer over all cells, whatever a reader picks.
    if any(not card.question.aggregate for card in cards):
        above += COLD_HEADER if results.has_cold_cells else HEADER
    rows = list(_make_rows(results, layout))
    # A comparison is too small if its runs are short or mostly start-up. If no next run is suggested, only
    # another repository can decide it.
    if not steps and results.account.count_results()[Result.TOO_SMALL]:
        text = "measure a larger repository: some runs are short or mostly start-up"
        rows.append(TerminalRow(NEXT, text))
    answers = _list_answers(cards)
    # The column of answers is as wide as the longest answer and two blanks, within its limits.
    longest = max((len(row.answer) for rows_of_card in answers for row in rows_of_card), default=0)
    answer_width = min(MAX_ANSWER_WIDTH, max(MIN_ANSWER_WIDTH, longest + 2))
    below = [
        *_format_rows(rows, answer_width, layout, layout.lines_of_row),
        *_format_steps(steps, layout),
    ]
    room = MAX_LINES - len(above) - len(below)
    return [*above, *_format_answers(answers, answer_width, room, layout), *below]


def _format_answers(
    answers: Sequence[Sequence[TerminalRow]], answer_width: int, room: int, layout: TerminalLayout
) -> list[str]:
    """Return the lines of the first answers, as many as fit into `room` lines, but at least FEW_ANSWERS.

    `answers` has the rows of each answer. In a layout with one line for an answer, at least one is printed.
    The last line counts the answers that are left out: `9 more answers in the report`.
    """
    has_one_line = layout.lines_of_answer == 1
    least_answers = 1 if has_one_line else FEW_ANSWERS
    lines_by_answer = []
    for rows in answers:
        shown_rows = rows[:1] if has_one_line else rows
        lines_of_answer = _format_rows(shown_rows, answer_width, layout, layout.lines_of_answer)
        lines_by_answer.append(lines_of_answer)
    height = sum(len(lines_of_answer) for lines_of_answer in lines_by_answer)
    # If not all answers fit, the line that counts the others needs room, too.
    room_of_answers = room if height <= room else room - 1
    lines: list[str] = []
    for number, lines_of_answer in enumerate(lines_by_answer):
        is_full = len(lines) + len(lines_of_answer) > room_of_answers
        if is_full and number >= least_answers:
            left_out = words.count_of(len(answers) - number, "more answer")
            return [*lines, f"{INDENT}{left_out} in the report"]
        lines += lines_of_answer
    return lines


def _format_steps(steps: Sequence[NextStep], layout: TerminalLayout) -> list[str]:
    """Return the lines of the next runs, each with its command. Only the first one has the heading.

    A step is no TerminalRow: its command is broken so that it can be pasted, not as a text. The last line
    counts the steps that the layout leaves out.
    """
    shown = steps[:1] if layout.has_one_step else steps
    lines = []
    heading = NEXT
    for step in shown:
        head = f"{heading:<{QUESTION_WIDTH}}"
        text = f"{step.effect}:" if layout.has_command else f"{step.effect} (command in the report)"
        lines += _wrap(text, head, INDENT, layout.lines_of_row)
        if layout.has_command:
            lines += _wrap_command(printable(step.command))
        heading = ""
    if len(shown) < len(steps):
        left_out = words.count_of(len(steps) - len(shown), "more step")
        lines.append(f"{INDENT}{left_out} in the report")
    return lines


def _format_rows(
    rows: Sequence[TerminalRow], answer_width: int, layout: TerminalLayout, most_lines: int | None
) -> list[str]:
    """Return the rows as lines in three columns: question, answer and text.

    Example: `Format?     yes       cold log 2.4x faster`. A row without an answer has its text in the column
    of answers. A long text continues below itself, and is cut after `most_lines` lines.
    """
    lines = []
    for row in rows:
        # The column of questions ends with a blank, also after a long question.
        head = f"{row.question:<{QUESTION_WIDTH - 1}} "
        indent = INDENT
        if row.answer:
            head += row.answer.ljust(answer_width)
            indent += " " * answer_width
            # Blanks have to follow an answer that fills its column.
            if len(row.answer) >= answer_width:
                head += "  "
        is_one_line = layout.cuts_reasons and row.is_reason
        lines += _wrap(row.text, head, indent, 1 if is_one_line else most_lines)
    return lines


def _wrap(text: str, head: str, indent: str, most_lines: int | None) -> list[str]:
    """Return a text in lines behind the `head` of the first line, cut after `most_lines` of them."""
    wrapper = textwrap.TextWrapper(
        TERMINAL_COLUMNS,
        initial_indent=head,
        subsequent_indent=indent,
        # Names such as `hot-os` stay whole.
        break_on_hyphens=False,
        max_lines=most_lines,
        placeholder=CUT,
    )
    # wrap() returns no line for an empty text.
    lines = wrapper.wrap(printable(text)) or [head]
    return [line.rstrip() for line in lines]


def _wrap_command(command: str) -> list[str]:
    """Return a command in lines that can be pasted: broken by backslashes, and only outside of quotes."""
    lines = [""]
    # An argument with spaces is one word: ARGS='--configfile larger.yaml'
    for argument in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        # The line needs room for a backslash behind the argument. An argument alone in a line may be longer.
        if lines[-1] and len(f"{INDENT}{lines[-1]} {argument} \\") > TERMINAL_COLUMNS:
            lines[-1] += " \\"
            lines.append("")
        lines[-1] = f"{lines[-1]} {argument}".strip()
    return [INDENT + line for line in lines]


def _make_rows(results: Results, layout: TerminalLayout) -> Iterator[TerminalRow]:
    """Yield the rows between the answers and the next runs. A row that does not apply is left out.

    They are questions without an answer, the numbers of answered comparisons and verdicts, the share of
    disturbed runs, invalid runs, and cells without a result.
    """
    yield from _make_unanswered_rows(results.advice.cards, layout)
    # Such as `70 of 82 comparisons, 12 undecided; 4 findings: 1 reproduced, 3 weaker`.
    text = describe_results(results.account) or "no comparison has a result"
    verdicts = [_find_counted_verdict(finding, results) for finding in results.findings]
    if any(verdict != Verdict.NOT_MEASURED for verdict in verdicts):
        count = words.count_of(len(verdicts), "finding")
        text += f"; {count}: {summary.describe_verdicts(verdicts)}"
    yield TerminalRow("Answered", text)
    disturbed = summary.describe_disturbance(summary.disturbed_share(results.valid_runs))
    if disturbed:
        yield TerminalRow("Disturbed", f"{disturbed}, by other programs")
    invalid = _describe_invalid_runs(results.measurements)
    if invalid:
        # A row with a reason at its end may be cut in a short layout.
        yield TerminalRow("Invalid", invalid, is_reason=True)
    yield from _make_missing_rows(results, layout)


def _describe_invalid_runs(runs: Rows) -> str:
    """Return the number of invalid runs with the most frequent reason, "" if all runs are valid.

    Example: `3 of 360 timed runs, left out (2 of them): ...`. 2 of the 3 invalid runs have this reason.
    """
    invalid = [run for run in runs if flags.is_invalid(run["flags"])]
    if not invalid:
        return ""
    # By flag that makes a run invalid: the number of runs that have it.
    counts: Counter[str] = Counter()
    for run in invalid:
        # Sorted, so that the first of equally frequent flags is always the same.
        counts.update(sorted(flags.INVALID.intersection(run["flags"].split())))
    flag, number = counts.most_common(1)[0]
    total = words.count_of(len(runs), "timed run")
    share = _describe_share(number, len(invalid))
    return f"{len(invalid)} of {total}, left out{share}: {flags.FLAGS[flag].sentence}"


def _find_counted_verdict(finding: Row, results: Results) -> str:
    """Return under which name the verdict on a finding is counted (summary.name_counted_verdict)."""
    verdict: str = finding["verdict"]
    # The file of findings may lack a finding of an earlier version.
    definition = results.definitions.get(finding["id"])
    is_in_direction = False
    if definition is not None:
        is_in_direction = summary.is_direction_only(verdict, definition["expect"])
    return summary.name_counted_verdict(verdict, is_in_direction)


def _list_answers(cards: Sequence[Card]) -> list[list[TerminalRow]]:
    """Return the rows of each card with an answer, the card with the largest decided difference first.

    Cards without a decided difference come last, in their order.
    """
    # With reverse=True, sorted() keeps the order of equal cards, too.
    by_difference = sorted(cards, key=_largest_difference, reverse=True)
    rows_by_card = [_make_answer_rows(card) for card in by_difference]
    return [rows for rows in rows_by_card if rows]


def _largest_difference(card: Card) -> float:
    """Return the largest factor that the counted comparisons of a card decide, 1 without a difference."""
    pairs = [pair for case in card.counted_cases for pair in case.pairs if not pair.is_noise_check]
    # The proven ratio of a comparison without a difference is 1.
    return max((at_least_1(pair.proven_ratio) for pair in pairs), default=1.0)


def _make_answer_rows(card: Card) -> list[TerminalRow]:
    """Return the rows of a card's answer, [] without an answer. Only the first row has the question.

    An aggregate card, such as that on builds, has a row for each candidate, `new: 1.2x faster in 5 of 8`, and
    rows on the noise. Any other card has an answer with its effect, `yes` and `cold log 2.4x faster`, and
    then remarks.
    """
    question = card.question.short
    # Only aggregate cards have candidates and lines.
    effects = [answer.effect for answer in card_texts.describe_aggregate(card)]
    lines = [*effects, *card_texts.describe_lines(card)]
    if lines:
        return [TerminalRow(question, lines[0]), *(TerminalRow("", line) for line in lines[1:])]
    if card.answer.kind in (AnswerKind.NOT_MEASURED, AnswerKind.NOT_COMPARED):
        return []
    # A role is an answer by another metric than the elapsed time, for the readers who need it.
    roles = [card_texts.describe_role(role) for role in card.roles]
    remarks = [f"{role.scope}: {role.text}." for role in roles]
    remarks += card_texts.describe_notes(card)
    answer = card_texts.describe_answers(card)[0]
    first_row = TerminalRow(question, answer.effect, answer.short)
    return [first_row, *(TerminalRow("", remark) for remark in remarks)]


def _make_unanswered_rows(cards: Iterable[Card], layout: TerminalLayout) -> Iterator[TerminalRow]:
    """Yield rows for the cards without an answer.

    Questions whose values were measured and not compared share a row `Uncompared` for each reason: `Pack?,
    Format?: their output differs`. In a layout that joins rows, they share one row, without the reasons.
    """
    unmeasured = []
    # By reason: the questions.
    uncompared: dict[str, list[str]] = {}
    for card in cards:
        if _make_answer_rows(card):
            continue
        question = card.question.short
        if card.answer.kind == AnswerKind.NOT_MEASURED:
            unmeasured.append(question)
        else:
            # The notes of the card are the reason.
            reason = " ".join(card_texts.describe_notes(card))
            uncompared.setdefault(reason, []).append(question)
    if unmeasured:
        yield TerminalRow("Unmeasured", ", ".join(unmeasured))
    if layout.joins_rows and uncompared:
        all_questions = [question for questions in uncompared.values() for question in questions]
        yield TerminalRow("Uncompared", f"{', '.join(all_questions)} (reasons in the report)")
        return
    for reason, questions in uncompared.items():
        yield TerminalRow("Uncompared", f"{', '.join(questions)}: {reason}", is_reason=True)


def _make_missing_rows(results: Results, layout: TerminalLayout) -> Iterator[TerminalRow]:
    """Yield a row for each kind of cells without a result: their number and the most frequent reason.

    The text `4 cells (3 of them): no root` means that 3 of the 4 cells have this reason. In a layout that
    joins rows, the only row has the numbers: `cells: 4 skipped, 1 failed (reasons in the report)`.
    """
    reasons_by_kind = _list_missing_reasons(results)
    if layout.joins_rows:
        counts = [
            f"{words.group_digits(len(reasons))} {kind.lower()}"
            for kind, reasons in reasons_by_kind.items()
        ]
        if counts:
            yield TerminalRow("Missing", f"cells: {', '.join(counts)} (reasons in the report)")
        return
    for kind, reasons in reasons_by_kind.items():
        reason, number = Counter(reasons).most_common(1)[0]
        share = _describe_share(number, len(reasons))
        text = f"{words.count_of(len(reasons), 'cell')}{share}: {reason}"
        yield TerminalRow(kind, text, is_reason=True)


def _list_missing_reasons(results: Results) -> dict[str, list[str]]:
    """Return the reason of each cell without a result, by kind: `{"Skipped": ["no root", "no root"]}`.

    A cell is skipped if it cannot be measured here. Outdated and unfinished cells did not fail: the next run
    measures them. A kind without cells is left out.
    """
    reasons_by_kind: dict[str, list[str]] = {
        "Skipped": [cell["skip"] for cell in results.grid if cell.get("skip")],
        "Failed": [],
        "Outdated": [],
        "Unfinished": [],
    }
    pending_kinds = {OUTDATED: "Outdated", UNMEASURED: "Unfinished"}
    # A cell with several rounds without a result counts once.
    for reason in reason_by_cell(results.failures).values():
        kind = pending_kinds.get(reason, "Failed")
        reasons_by_kind[kind].append(texts.failure_text(reason))
    return {kind: reasons for kind, reasons in reasons_by_kind.items() if reasons}


def _describe_share(number: int, total: int) -> str:
    """Return ` (3 of them)`, "" if it is all of them."""
    return f" ({number} of them)" if number < total else ""


def read_summaries(folder: Path, studies: Iterable[Study], findings_file: Path) -> list[Results]:
    """Return the results that the terminal shows, of each of the `studies` that has advice.

    `folder` is the folder `results`, and `findings_file` is config/published/findings.yaml. Fields that only
    pages need stay empty. Raise UserError for a damaged file, and if another version of vcsbench wrote the
    advice.
    """
    summaries = []
    for study in studies:
        name = study.name
        advice = result_files.read_advice(folder / "advice" / f"{name}.json")
        if advice is None:
            continue
        # The terminal needs only the flags of runs, so no column is converted to numbers.
        path = folder / "measurements" / f"{name}.csv"
        measurements: Rows = ()
        if path.exists():
            # The error of a damaged file ends with this advice.
            remedy = result_files.DELETE_AND_RUN
            measurements = read_rows(path, remedy, columns=("cell", "flags"))
        findings = result_files.read_verdicts(folder, "findings", name)
        # The definition shows if a finding states a direction only. The terminal counts such findings apart.
        definitions: Mapping[str, Row] = {}
        if findings:
            definitions = result_files.read_statements(findings_file, study)
        results = Results(
            study=study,
            order={},
            grid=result_files.read_cells(folder, name),
            measurements=measurements,
            failures=result_files.read_failures(folder, name),
            findings=findings,
            definitions=definitions,
            advice=advice,
            account=result_files.read_account(folder, name),
            # The configuration of the last run has the scales of repositories. The terminal suggests larger
            # ones.
            provenance=result_files.read_provenance(folder, name),
        )
        summaries.append(results)
    return summaries
