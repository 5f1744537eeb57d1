"""The results of a run in the terminal, at most 80 columns wide, and what to do next."""

from __future__ import annotations

import math
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from pathlib import Path

from vcsbench import words
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import NOT_MEASURED, Row
from vcsbench.config.study import Study
from vcsbench.evidence.flags import BUSY
from vcsbench.external import printable
from vcsbench.files import read_json
from vcsbench.plan.result_state import NOTHING, OUTDATED
from vcsbench.report.results import CSV_FILES, Results, read_advice, read_records, unique_values
from vcsbench.statistics import comparisons
from vcsbench.statistics.verdicts import (
    DIFFERS,
    INCONCLUSIVE,
    LARGER,
    REPRODUCED,
    REVERSED,
    verdict_for_reader,
)

COLUMNS = 80
MEASURE_NOTHING = f"measure={NOTHING}"
DAY_S = 24 * 3600
# With their variables of make; "" is left out of a repeated command.
FLAGS = {
    **{"--repository": "REPO", "--tree": "TREE", "--study": "STUDY"},
    **{"--minutes": "", "--cores": ""},
}
HEADER = (
    "Answers over all cases measured. Each answer changes one thing and keeps the",
    "rest. For your own numbers, pick what you have at the top of the report.",
)
# The width of the columns; the answers share the width of the longest.
_QUESTION, _ANSWER, _LONGEST = 12, 10, 20
_INDENT = " " * _QUESTION
_VERDICTS = (
    *(REPRODUCED, DIFFERS, REVERSED, INCONCLUSIVE),
    *(comparisons.TOO_SMALL, NOT_MEASURED),
)


def count_results(account: Row) -> Counter[str]:
    """Return the comparisons of all tables by their result (comparisons.RESULTS)."""
    counts: Counter[str] = Counter()
    for table in account.get("tables", {}).values():
        counts.update(table)
    return counts


def results_text(counts: Counter[str]) -> str:
    """Return `74 of 82 comparisons, 4 too small to compare, 4 undecided`."""
    answered, all_ = counts[comparisons.DIFFERENT] + counts[comparisons.EQUAL], counts.total()
    others = (
        f"{counts[n]} {n}" for n in (comparisons.TOO_SMALL, comparisons.UNDECIDED) if counts[n]
    )
    return ", ".join([f"{answered} of {words.count_of(all_, 'comparison')}", *others])


def seconds_of_rounds(account: Row, rounds: int) -> float:
    """Return the seconds of more rounds of all cells, up to `rounds` of them."""
    blocks = ((b["seconds"], b["rounds"]) for b in account.get("blocks", []) if b["rounds"])
    return sum(seconds / done * max(0, rounds - done) for seconds, done in blocks)


def next_step(account: Row, given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the command of the shortest longer run that answers most of the rest, and its effect.

    "Most" is three quarters of the comparisons that more rounds answer within a day. `given` has the
    variables of make. A session with `rounds` gets more of them, because minutes have no effect there.
    """
    if account.get("minutes") is None:
        done = max((block["rounds"] for block in account.get("blocks", [])), default=0)
        totals = [0, *(done + more for more in account.get("more_rounds", []))]
        undecided = count_results(account)[comparisons.UNDECIDED]
        outlook = [(seconds_of_rounds(account, n), undecided - i, n) for i, n in enumerate(totals)]
    else:
        moments = account.get("outlook", [])
        outlook = [(m["seconds"], sum(m["left"].values()), 0) for m in moments]
    outlook = [moment for moment in outlook if moment[0] <= DAY_S]
    if not outlook:
        return None
    now, last = outlook[0][1], outlook[-1][1]
    seconds, left, rounds = next(m for m in outlook if 4 * (m[1] - last) <= now - last)
    if not seconds or left >= now:
        return None
    if rounds:
        command = command_with(given, f"--config rounds={rounds}")
    else:
        minutes = math.ceil(account["studies"] * (account["taken_s"] + seconds) / 60)
        command = command_of({**given, "MINUTES": str(minutes)})
    number = f"{now - left} of {now}" if left else f"all {now}" if now > 1 else "the"
    noun = "comparison" if now == 1 else "comparisons"
    effect = f"{words.duration(seconds)} more decide {number} undecided {noun}"
    return command, effect


def larger_step(study: Results, given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the command that measures at a larger scale, and its effect.

    None if it would show nothing more, or if no repository of the grid has a smaller scale.
    """
    counts, values = count_results(study.account), {v for row in study.grid for v in row.values()}
    config = study.provenance.get("config") or {}
    scales = ", ".join(
        f"{name}: {{scale: {min(1, LARGER * of['scale']):.3g}}}"
        for name, of in (config.get("repositories") or {}).items()
        if name in values and of.get("scale", 1) < 1 and not config.get("repository")
    )
    builds = [card for card in study.advice.cards if card.question.aggregate]
    flags = [pair.flags for card in builds for case in card.cases for pair in case.pairs]
    # More rounds neither shorten a start-up, nor do they reduce the noise between duplicates.
    effects = {
        "answer what is too small": counts[comparisons.TOO_SMALL],
        "show smaller differences": any("too-short" in of.split() for of in flags),
        "may decide the rest": counts[comparisons.UNDECIDED]
        and not next_step(study.account, given),
    }
    effect = next((text for text, applies in effects.items() if applies), "")
    if not (scales and effect):
        return None
    run = command_with(given, "--configfile larger.yaml")
    command = f"echo 'repositories: {{{scales}}}' >larger.yaml && {run}"
    taken = words.duration(LARGER * study.account.get("taken_s", 0.0))
    return command, f"runs {LARGER} times as long {effect}, in up to {taken}"


def next_steps(
    results: Results, given: Mapping[str, str], measured: str, own_command: str
) -> Iterator[tuple[str, str, str]]:
    """Yield a name, a sentence and a command for each thing to do after reading the answers."""
    if measured == "0":
        return
    account = {**results.account, "studies": 1}
    if step := quiet_step(results, given):
        yield "Quiet machine", f"{step[1][0].upper()}{step[1][1:]}:", step[0]
    if step := next_step(account, given):
        yield "More rounds", f"{step[1]}:", step[0]
    if step := larger_step(replace(results, account=account), given):
        yield "Longer runs", f"{step[1].capitalize()}:", step[0]
    if own_command:
        yield "Your own repository", "Measure it (it is only read):", own_command
    text = "After a rebuild or another change, this measures what changed:"
    yield "After a change", text, command_of(given)
    saved = {**given, "NAME": "before", "ARGS": configfiles_of(given.get("ARGS", ""))}
    text = "Save this result, and compare a later one with it:"
    yield "Compare later", text, command_of(saved, "baseline")
    text = "With expectations of your own, this fails unless they hold:"
    yield "Guard it in CI", text, command_of(given, "check")


def uncertain_sentences(account: Row, in_cards: int, given: Mapping[str, str]) -> list[str]:
    """Return sentences on the comparisons without an answer."""
    counts = count_results(account)
    if not counts[comparisons.TOO_SMALL] + counts[comparisons.UNDECIDED]:
        return []
    noisy = account.get("noisy") if counts[comparisons.UNDECIDED] else None
    why = f" (runs of a cell scatter by {noisy['scatter_pct']:.2g} %)" if noisy else ""
    sentences = [f"Over all cases, answered: {results_text(counts)}{why}."]
    if (rest := counts.total() - in_cards) > 0:
        sentences.append(f"{rest} of all are in tables only, not in cards.")
    if counts[comparisons.TOO_SMALL]:
        sentences.append("Too small: mostly start-up; a larger repository or scale answers it.")
    if counts[comparisons.UNDECIDED] and not next_step({**account, "studies": 1}, given):
        sentences.append("More rounds of up to a day answer no more.")
    return sentences


def lines(studies: Sequence[Results], given: Mapping[str, str] | None = None) -> list[str]:
    printed, given = [], given or {}
    for study in studies:
        # The command of the page: of this study alone.
        study = replace(study, account={**study.account, "studies": 1})
        given = {**dict.fromkeys(FLAGS.values(), ""), **given, "STUDY": study.study.name}
        printed += [study.study.name] if len(studies) > 1 else []
        has_cases = any(not card.question.aggregate for card in study.advice.cards)
        printed += HEADER if has_cases else ()
        steps = [*_steps(study, given)]
        rows = list(_rows(study, has_steps=bool(steps)))
        column = min(_LONGEST, max([_ANSWER, *(len(answer) + 2 for _, answer, _ in rows)]))
        for question, answer, text in rows:
            head = f"{question:<{_QUESTION - 1}} "
            if answer:
                head += f"{answer:<{column}}" if len(answer) < column else f"{answer}  "
            indent = " " * (_QUESTION + (column if answer else 0))
            wrapper = textwrap.TextWrapper(COLUMNS, head, indent, break_on_hyphens=False)
            printed += [line.rstrip() for line in wrapper.wrap(printable(text)) or [head]]
        for number, (command, effect) in enumerate(steps):
            head = f"{'' if number else 'Next':<{_QUESTION}}"
            printed += textwrap.wrap(
                f"{effect}:", COLUMNS, initial_indent=head, subsequent_indent=_INDENT
            )
            printed += _wrapped_command(printable(command))
    return printed


def _wrapped_command(command: str) -> list[str]:
    """Return a command in lines that can be pasted: broken by backslashes, and only outside of quotes."""
    lines_ = [""]
    for part in re.findall(r"""(?:'[^']*'|"[^"]*"|\S)+""", command):
        if lines_[-1] and len(f"{_INDENT}{lines_[-1]} {part} \\") > COLUMNS:
            lines_[-1] += " \\"
            lines_.append("")
        lines_[-1] = f"{lines_[-1]} {part}".strip()
    return [_INDENT + line for line in lines_]


def _rows(study: Results, has_steps: bool) -> Iterator[tuple[str, str, str]]:
    missing = []
    for card in study.advice.cards:
        short, answer = card.question.short, card.answer
        if answer.kind == NOT_MEASURED and not card.lines:
            missing.append(short)
        elif texts := [*(answer.effect for answer in card.candidates), *card.lines]:
            for number, text in enumerate(texts):
                yield ("" if number else short), "", text
        else:
            yield short, answer.short, answer.effect
            for note in card.notes:
                yield "", "", note
    if missing:
        yield "Unmeasured", "", ", ".join(missing)
    yield "Answered", "", "; ".join(_counts(study))
    disturbed, number, _ = count_disturbed(study.advice.cards)
    if disturbed:
        of = f"{disturbed} of {words.count_of(number, 'comparison')} of the answers"
        yield "Disturbed", "", f"{of}, by other programs"
    skipped = [row["skip"] for row in study.grid if row.get("skip")]
    failed = {row["cell"]: row["reason"] for row in study.failures}
    old = [reason for reason in failed.values() if reason == OUTDATED]
    others = [reason for reason in failed.values() if reason != OUTDATED]
    for name, reasons in (("Skipped", skipped), ("Failed", others), ("Outdated", old)):
        if reasons:
            reason, number = Counter(reasons).most_common(1)[0]
            of = f" ({number} of them)" if number < len(reasons) else ""
            yield name, "", f"{words.count_of(len(reasons), 'cell')}{of}: {reason}"
    if not has_steps and count_results(study.account)[comparisons.TOO_SMALL]:
        yield "Next", "", "measure a larger repository: some runs are mostly start-up"


def _steps(study: Results, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the commands that improve the answers, each with its effect."""
    if any(row["reason"] == OUTDATED for row in study.failures):
        yield command_of(given), "measures the outdated cells again"
    yield from filter(None, [quiet_step(study, given)])
    yield from filter(None, [next_step(study.account, given)])
    yield from filter(None, [larger_step(study, given)])


def count_disturbed(cards: Iterable[Card]) -> tuple[int, int, bool]:
    """Return the number of comparisons that other programs disturbed, of all, and True for most of them."""
    pairs = [pair for card in cards for case in card.cases for pair in case.pairs]
    disturbed = sum(not BUSY.isdisjoint(pair.flags.split()) for pair in pairs)
    return disturbed, len(pairs), 2 * disturbed > len(pairs)


def quiet_step(study: Results, given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the command that measures all cells again, if most comparisons were disturbed."""
    *_, is_most = count_disturbed(study.advice.cards)
    if not is_most:
        return None
    taken = words.duration(study.account.get("taken_s", 0.0))
    effect = f"on a quiet machine, this measures all cells again, in {taken}"
    return command_with(given, "--forcerun cell"), effect


def _counts(study: Results) -> Iterator[str]:
    results = count_results(study.account)
    yield results_text(results) if results.total() else "no comparison was measured"
    verdicts = [verdict_for_reader(finding) for finding in study.findings]
    if {*verdicts} - {NOT_MEASURED}:
        yield f"{len(verdicts)} findings: {verdict_counts(verdicts)}"


def verdict_counts(verdicts: Iterable[str]) -> str:
    """Return `6 reproduced, 5 differ, 1 reversed`."""
    counts, plural = Counter(verdicts), {DIFFERS: "differ"}
    known = [(counts[v], v) for v in unique_values([*_VERDICTS, *counts]) if counts[v]]
    return ", ".join(
        f"{n} {verdict if n == 1 else plural.get(verdict, verdict)}" for n, verdict in known
    )


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
        if flag in FLAGS:
            given[FLAGS[flag]] = value if is_whole else next(arguments, "")
        elif argument.removeprefix("--config=") not in (MEASURE_NOTHING, "--report-only"):
            others.append(argument)
    # `--config` without a value is an error.
    pairs = zip(others, [*others[1:], "-"], strict=False)
    given["ARGS"] = shlex.join(
        a for a, b in pairs if a not in ("--config", "-C") or not b.startswith("-")
    )
    given["STUDY"] = study or given.get("STUDY", "")
    return {name: given[name] for name in (*FLAGS.values(), "ARGS") if name and given.get(name)}


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
        summary = Results(study, {}, grid, failures=failures, findings=findings, advice=advice)
        summaries.append(replace(summary, account=account, provenance=provenance))
    return summaries
