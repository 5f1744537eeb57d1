"""The runs that improve or continue the results of a study, as commands of make with their effects."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import dropwhile
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Row
from vcsbench.evidence.flags import BUSY
from vcsbench.plan.result_state import NOTHING, OUTDATED
from vcsbench.report.results import Results
from vcsbench.statistics import comparisons, verdicts

MEASURE_NOTHING = f"measure={NOTHING}"
MORE_ROUNDS = "More rounds"
DAY_S = 24 * 3600
# With their variables of make; "" is left out of a repeated command.
FLAGS = {
    **{"--repository": "REPO", "--tree": "TREE", "--study": "STUDY"},
    **{"--minutes": "", "--cores": ""},
}


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


def count_results(account: Row) -> Counter[str]:
    """Return the comparisons of all tables by their result (comparisons.RESULTS)."""
    counts: Counter[str] = Counter()
    for table in account.get("tables", {}).values():
        counts.update(table)
    return counts


def count_disturbed(cards: Iterable[Card]) -> tuple[int, int, bool]:
    """Return the number of comparisons that other programs disturbed, of all, and True for most of them."""
    pairs = [pair for card in cards for case in card.cases for pair in case.pairs]
    disturbed = sum(not BUSY.isdisjoint(pair.flags.split()) for pair in pairs)
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
    flags = [pair.flags for card in builds for case in card.cases for pair in case.pairs]
    # More rounds neither shorten a start-up, nor do they reduce the noise between duplicates.
    effects = {
        "answer what is too small": counts[comparisons.TOO_SMALL],
        "show smaller differences": any("too-short" in of.split() for of in flags),
        "may decide the rest": counts[comparisons.UNDECIDED] and not more_rounds,
    }
    larger = next((text for text, applies in effects.items() if applies), "")
    if larger and (scales := _larger_scales(results)):
        run = command_with(given, "--configfile larger.yaml")
        command = f"echo 'repositories: {{{scales}}}' >larger.yaml && {run}"
        taken = words.duration(verdicts.LARGER * taken_s)
        effect = f"runs {verdicts.LARGER} times as long {larger}, in up to {taken}"
        yield NextStep("Longer runs", effect, command)


def _more_rounds(account: Row, given: Mapping[str, str]) -> list[NextStep]:
    """Return the shortest longer run that answers most of the rest, [] if none does within a day.

    "Most" is three quarters of the comparisons that more rounds answer. A session with `rounds` gets more
    of them, because minutes have no effect there.
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


def _larger_scales(results: Results) -> str:
    """Return a larger scale in YAML for each generated repository of the grid that is not at full scale."""
    values = {value for row in results.grid for value in row.values()}
    generated = {} if results.configured("repository") else results.configured("repositories")
    return ", ".join(
        f"{name}: {{scale: {min(1, verdicts.LARGER * of['scale']):.3g}}}"
        for name, of in generated.items()
        if name in values and of.get("scale", 1) < 1
    )
