"""Summarise a study: its results in numbers, the next runs, and its lines in the terminal."""

import math
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

import yaml

from vcsbench import words
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Row
from vcsbench.codes import AnswerKind, Result, Verdict
from vcsbench.config.study import Study
from vcsbench.evidence import flags
from vcsbench.external import printable
from vcsbench.files import read_json, read_rows
from vcsbench.plan.result_state import NOTHING, OUTDATED
from vcsbench.report.results import (
    AGAIN,
    CSV_FILES,
    Results,
    read_advice,
    read_records,
)
from vcsbench.statistics import texts

MEASURE_NOTHING = f"measure={NOTHING}"
MORE_ROUNDS = "More rounds"
DAY_S = 24 * 3600
# With their variables of make; "" is left out of a repeated command.
OPTIONS = {
    **{"--repository": "REPO", "--tree": "TREE", "--study": "STUDY"},
    **{"--minutes": "", "--cores": ""},
}
COLUMNS = 80
HEADER = (
    "Answers over all cases measured. Each answer changes one thing and keeps the",
    "rest. For your own numbers, pick what you have at the top of the report.",
)
# The width of the columns; the answers share the width of the longest.
_QUESTION, _ANSWER, _LONGEST = 12, 10, 20
_INDENT = " " * _QUESTION
# A longer run takes so many times the scale.
LARGER = 4


class NextStep(NamedTuple):
    """A run that improves the answers: its name, its effect, and its command."""

    name: str
    effect: str
    command: str


def variables_of(command: str, study: str = "") -> dict[str, str]:
    """Return the variables of make that repeat `vcsbench run ...`, without minutes and `measure=nothing`."""
    given: dict[str, str] = {}
    others: list[str] = []
    try:
        typed = shlex.split(command)
    except ValueError:
        typed = []
    arguments = dropwhile(lambda word: not word.startswith("-"), typed)
    for argument in arguments:
        flag, is_whole, value = argument.partition("=")
        if flag in OPTIONS:
            given[OPTIONS[flag]] = value if is_whole else next(arguments, "")
        elif argument.removeprefix("--config=") not in (MEASURE_NOTHING, "--report-only"):
            others.append(argument)
    # `--config` without a value is an error.
    pairs = zip(others, [*others[1:], "-"], strict=False)
    given["ARGS"] = shlex.join(
        a for a, b in pairs if a not in ("--config", "-C") or not b.startswith("-")
    )
    given["STUDY"] = study or given.get("STUDY", "")
    return {name: given[name] for name in (*OPTIONS.values(), "ARGS") if name and given.get(name)}


def configfiles_of(arguments: str) -> str:
    files, is_file = [], False
    for argument in shlex.split(arguments):
        is_file = argument.startswith("--configfile") if argument.startswith("-") else is_file
        files += [argument] * is_file
    return shlex.join(files)


def command_of(given: Mapping[str, str], target: str = "report") -> str:
    variables = (f"{name}={shlex.quote(value)}" for name, value in given.items() if value)
    return " ".join(["make", target, *variables])


def command_with(given: Mapping[str, str], arguments: str, target: str = "report") -> str:
    return command_of({**given, "ARGS": f"{given.get('ARGS', '')} {arguments}".strip()}, target)


def count_results(account: Row) -> Counter[str]:
    """Return the comparisons of all tables by their result (codes.Result)."""
    counts: Counter[str] = Counter()
    for table in account.get("tables", {}).values():
        counts.update(table)
    return counts


def count_open(account: Row) -> int:
    """Return the number of comparisons that more rounds may decide."""
    counts = count_results(account)
    return counts[Result.BOUNDED] + counts[Result.UNDECIDED]


def count_disturbed(cards: Iterable[Card]) -> tuple[int, int, bool]:
    """Return the number of comparisons that other programs disturbed, of all, and True for most of them."""
    pairs = [pair for card in cards for case in card.cases for pair in case.pairs]
    disturbed = sum(not flags.BUSY.isdisjoint(pair.flags) for pair in pairs)
    return disturbed, len(pairs), 2 * disturbed > len(pairs)


def seconds_of_rounds(account: Row, rounds: int) -> float:
    """Return the seconds of more rounds of all cells, up to `rounds` of them."""
    blocks = ((b["seconds"], b["rounds"]) for b in account.get("blocks", []) if b["rounds"])
    return sum(seconds / done * max(0, rounds - done) for seconds, done in blocks)


def next_steps(results: Results, given: Mapping[str, str]) -> Iterator[NextStep]:
    """Yield the runs that improve the answers, the first one first. `given` has the variables of make."""
    taken_s = results.account.get("taken_s", 0.0)
    if any(row["reason"] == OUTDATED for row in results.failures):
        yield NextStep("Outdated cells", "measures the outdated cells again", command_of(given))
    *_, is_most = count_disturbed(results.advice.cards)
    if is_most:
        effect = f"on a quiet machine, this measures all cells again, in {words.duration(taken_s)}"
        yield NextStep("Quiet machine", effect, command_with(given, "--forcerun cell"))
    more_rounds = _more_rounds(results.account, given)
    yield from more_rounds
    counts = count_results(results.account)
    builds = [card for card in results.advice.cards if card.question.aggregate]
    of_builds = [pair.flags for card in builds for case in card.cases for pair in case.pairs]
    # More rounds neither shorten a start-up, nor do they reduce the noise between duplicates.
    effects: dict[str, bool | int] = {
        "answer what is too small": counts[Result.TOO_SMALL],
        "show smaller differences": any("too-short" in own for own in of_builds),
        "may decide the rest": count_open(results.account) and not more_rounds,
    }
    larger = next((text for text, applies in effects.items() if applies), "")
    repositories = _larger_repositories(results)
    if larger and repositories:
        run = command_with(given, "--configfile larger.yaml")
        lines = shlex.join(["printf", r"%s\n", "repositories:", *repositories])
        command = f"{lines} >larger.yaml && {run}"
        taken = words.duration(LARGER * taken_s)
        effect = f"runs {LARGER} times as long {larger}, in up to {taken}"
        yield NextStep("Longer runs", effect, command)


def _more_rounds(account: Row, given: Mapping[str, str]) -> list[NextStep]:
    """Return the shortest longer run that answers most of the rest, [] if none does within a day.

    "Most" is three quarters of the comparisons that more rounds answer. A session with `rounds` gets more
    of them, because minutes have no effect there.
    """
    if account.get("minutes") is None:
        done = max((block["rounds"] for block in account.get("blocks", [])), default=0)
        totals = [0, *(done + more for more in account.get("more_rounds", []))]
        undecided = count_open(account)
        outlook = [(seconds_of_rounds(account, n), undecided - i, n) for i, n in enumerate(totals)]
    else:
        moments = account.get("outlook", [])
        outlook = [(m["seconds"], sum(m["left"].values()), 0) for m in moments]
    outlook = [moment for moment in outlook if moment[0] <= DAY_S]
    if not outlook:
        return []
    now, last = outlook[0][1], outlook[-1][1]
    seconds, left, rounds = next(m for m in outlook if 4 * (m[1] - last) <= now - last)
    if not seconds or left >= now:
        return []
    command = command_with(given, f"--config rounds={rounds}")
    if not rounds:
        minutes = str(math.ceil((account["taken_s"] + seconds) / 60))
        command = command_of({**given, "MINUTES": minutes})
    number = f"{now - left} of {now}" if left else f"all {now}" if now > 1 else "the"
    noun = "comparison" if now == 1 else "comparisons"
    effect = f"{words.duration(seconds)} more decide {number} undecided {noun}"
    return [NextStep(MORE_ROUNDS, effect, command)]


def _larger_repositories(results: Results) -> list[str]:
    """Return a line of YAML for each generated repository of the grid, with a larger scale.

    Each entry is whole, because it replaces the one of config.yaml. Repositories at full scale are left out.
    """
    values = {value for row in results.grid for value in row.values()}
    generated = {} if results.configured("repository") else results.configured("repositories")
    lines = []
    for name, definition in generated.items():
        if name in values and definition.get("scale", 1) < 1:
            scale = float(f"{min(1, LARGER * definition['scale']):.3g}")
            larger = {name: {**definition, "scale": scale}}
            text = yaml.safe_dump(larger, default_flow_style=True, sort_keys=False, width=math.inf)
            # Without the braces around the entry.
            lines.append(f"  {text.strip()[1:-1]}")
    return lines


def results_text(account: Row) -> str:
    """Return `74 of 82 comparisons, 4 too small to compare, 4 undecided`, "" without comparisons."""
    counts = count_results(account)
    total = counts.total()
    if not total:
        return ""
    answered = counts[Result.DIFFERENT] + counts[Result.EQUAL]
    parts = [f"{answered} of {words.count_of(total, 'comparison')}"]
    for result in (Result.BOUNDED, Result.TOO_SMALL, Result.UNDECIDED):
        if counts[result]:
            parts.append(f"{counts[result]} {texts.RESULTS[result]}")
    return ", ".join(parts)


def verdict_counts(of_findings: Iterable[str]) -> str:
    """Return `6 reproduced, 5 differ, 1 reversed`."""
    counts = Counter(of_findings)
    plural = {Verdict.HOLDS: "hold", Verdict.FAILS: "do not hold"}
    parts = []
    others = [verdict for verdict in Verdict if verdict != Verdict.NOT_MEASURED]
    for verdict in (*others, Verdict.NOT_MEASURED):
        if counts[verdict]:
            text = texts.VERDICTS[verdict] if counts[verdict] == 1 else plural.get(verdict, verdict)
            parts.append(f"{counts[verdict]} {text}")
    return ", ".join(parts)


def lines(studies: Sequence[Results], given: Mapping[str, str] | None = None) -> list[str]:
    printed: list[str] = []
    for study in studies:
        unset = dict.fromkeys(OPTIONS.values(), "")
        of_study = {**unset, **(given or {}), "STUDY": study.study.name}
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
        if answer.kind == AnswerKind.NOT_MEASURED and not card.lines:
            missing.append(short)
        elif answer.kind == AnswerKind.NOT_COMPARED and not card.lines:
            withheld.setdefault(" ".join(card.notes), []).append(short)
        elif candidate_lines := [*(answer.effect for answer in card.candidates), *card.lines]:
            for number, text in enumerate(candidate_lines):
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
    of_findings = [finding["verdict"] for finding in study.findings]
    if {*of_findings} - {Verdict.NOT_MEASURED}:
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
            reason = texts.OUTDATED if reason == OUTDATED else reason
            yield name, "", f"{words.count_of(len(reasons), 'cell')}{of}: {reason}"
    if not has_steps and count_results(study.account)[Result.TOO_SMALL]:
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
