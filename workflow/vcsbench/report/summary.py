"""Summarise a study: its disturbed runs and verdicts in numbers, and the next runs."""

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import yaml

from vcsbench import words
from vcsbench.codes import Result, Verdict
from vcsbench.evidence.flags import is_disturbed
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.report.account import Account
from vcsbench.report.make_command import MakeCommand
from vcsbench.report.results import Results, Rows
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import DEFAULT_LIMITS
from vcsbench.statistics.expected_range import expected_range

MORE_ROUNDS = "More rounds"
# The name under which reproduced findings without a number are counted (is_direction_only).
IN_DIRECTION = "reproduced in direction only"
# A larger share of disturbed runs is a reason to measure again on a quiet machine.
MUCH_DISTURBED_SHARE = 0.05
# No user is advised to measure for longer than that.
DAY_S = 24 * 3600
# A longer run has repositories of a scale multiplied by this factor, and its time grows by the same factor.
LONGER_FACTOR = 4
LARGER_FILE = "larger.yaml"


class NextStep(NamedTuple):
    """A run that improves the answers: its name, its effect, and its command.

    Example: `More rounds`, `12 min more may decide 8 of the 10 undecided comparisons`, `make report
    MINUTES=26`.
    """

    name: str
    effect: str
    command: str


class LongerRun(NamedTuple):
    """A longer run: its further seconds, and the number of comparisons that are still open after it.

    A comparison is open if it is undecided or nearly equal. `rounds` is None for a run that is limited by
    minutes.
    """

    seconds: float
    still_open: int
    rounds: int | None


def disturbed_share(runs: Rows) -> float:
    """Return the share of runs that other programs disturbed, from 0 to 1; 0 without a run."""
    if not runs:
        return 0.0
    return sum(is_disturbed(run["flags"]) for run in runs) / len(runs)


def describe_disturbance(share: float) -> str:
    """Return `8 % of the runs`, `0.3 % of the runs`, or "" if no run is disturbed."""
    if not share:
        return ""
    percent = 100 * share
    number = f"{percent:.0f}" if percent >= 1 else f"{percent:.1f}"
    return f"{number} % of the runs"


def is_direction_only(verdict: str, expect: Mapping[str, Any]) -> bool:
    """Return True for a reproduced finding that states only `faster` or `slower`, without a number.

    `expect` is a key of the definition: `{"over": "mean", "direction": "faster"}`.
    """
    # The margin bounds only the range `equal`, which is no direction. So any margin will do.
    expected = expected_range(expect, DEFAULT_LIMITS.margin)
    return verdict == Verdict.REPRODUCED and expected.is_direction


def name_counted_verdict(verdict: str, is_in_direction: bool) -> str:
    """Return under which name a verdict is counted (describe_verdicts): its own, or IN_DIRECTION.

    A direction alone is a weak statement, so its findings are counted apart (is_direction_only).
    """
    return IN_DIRECTION if is_in_direction else verdict


def describe_verdicts(verdicts: Iterable[str]) -> str:
    """Return the numbers of verdicts in words: `6 reproduced, 1 reversed, 2 not measured`; "" without any.

    `verdicts` are from name_counted_verdict().
    """
    counts = Counter(verdicts)
    # Most texts are the verdict itself. These differ: `1 does not hold`, `2 do not hold`, `2 hold`.
    singulars: dict[str, str] = {Verdict.FAILS: texts.VERDICTS[Verdict.FAILS]}
    plurals: dict[str, str] = {Verdict.HOLDS: "hold", Verdict.FAILS: "do not hold"}
    order: list[str] = [verdict for verdict in Verdict if verdict != Verdict.NOT_MEASURED]
    # IN_DIRECTION is no Verdict of its own: some reproduced findings are counted under this name.
    # NOT_MEASURED is no result, so it comes last.
    order += [IN_DIRECTION, Verdict.NOT_MEASURED]
    parts = []
    for verdict in order:
        number = counts[verdict]
        if number:
            names = singulars if number == 1 else plurals
            parts.append(f"{number} {names.get(verdict, verdict)}")
    return ", ".join(parts)


def suggest_next_steps(results: Results, command: MakeCommand) -> list[NextStep]:
    """Return the runs that improve the answers, in the order in which a user should run them.

    `command` repeats the last run. The steps are, each only if it helps: measure outdated or unfinished
    cells, measure all again on a quiet machine, measure more rounds, and measure larger repositories.
    """
    steps = []
    reasons = {row["reason"] for row in results.failures}
    # Each run measures outdated and unfinished cells, so the command of the last run is enough.
    if OUTDATED in reasons:
        effect = "measures the outdated cells again"
        steps.append(NextStep("Outdated cells", effect, command.text()))
    elif UNMEASURED in reasons:
        effect = "continues with the cells that are not finished"
        steps.append(NextStep("Unfinished cells", effect, command.text()))

    if disturbed_share(results.valid_runs) > MUCH_DISTURBED_SHARE:
        taken = words.duration(results.account.taken_s)
        effect = f"on a quiet machine, this measures all cells again, in {taken}"
        # `cell` is the rule that measures a cell-round.
        again = command.with_arguments("--forcerun cell")
        steps.append(NextStep("Quiet machine", effect, again.text()))

    more_rounds = _suggest_more_rounds(results.account, command)
    if more_rounds is not None:
        steps.append(more_rounds)

    gain = _describe_gain(results, has_more_rounds=more_rounds is not None)
    repositories = _enlarge_repositories(results)
    if gain and repositories:
        taken = words.duration(LONGER_FACTOR * results.account.taken_s)
        effect = f"runs {LONGER_FACTOR} times as long {gain}, in up to {taken}"
        # The shell prints the lines of a configuration file, which the run then reads:
        # printf '%s\n' repositories: '  ruby: {scale: 0.48}' >larger.yaml && make report ...
        print_lines = shlex.join(["printf", r"%s\n", "repositories:", *repositories])
        run = command.with_arguments(f"--configfile {LARGER_FILE}").text()
        steps.append(NextStep("Longer runs", effect, f"{print_lines} >{LARGER_FILE} && {run}"))
    return steps


def _suggest_more_rounds(account: Account, command: MakeCommand) -> NextStep | None:
    """Return the shortest run that decides most of the open comparisons, None if a day decides none.

    A comparison is open if it is undecided or nearly equal. Example of an effect: `12 min more may decide 8
    of the 10 undecided comparisons (MINUTES is the total)`.
    """
    runs = [run for run in _forecast_runs(account) if run.seconds <= DAY_S]
    if not runs:
        return None
    # The first run takes no time: it is the present state. The last one is the longest, and decides all
    # comparisons that any run of up to a day decides.
    total = runs[0].still_open
    decidable = total - runs[-1].still_open
    if decidable <= 0:
        return None
    # The last comparisons often need many times as long. So the first run is chosen that decides at least
    # three quarters of the decidable ones. The longest run decides all of them, so one is always found.
    chosen = next(run for run in runs if 4 * (total - run.still_open) >= 3 * decidable)
    # A session is limited by a number of rounds, or by minutes.
    if chosen.rounds is not None:
        longer = command.with_arguments(f"--config rounds={chosen.rounds}")
        remark = ""
    else:
        # The limit of minutes includes the time of earlier sessions.
        minutes = math.ceil((account.taken_s + chosen.seconds) / 60)
        longer = replace(command, minutes=str(minutes))
        remark = " (MINUTES is the total)"
    decided = _describe_decided(account, total=total, still_open=chosen.still_open)
    effect = f"{words.duration(chosen.seconds)} more may decide {decided}{remark}"
    return NextStep(MORE_ROUNDS, effect, longer.text())


def _describe_decided(account: Account, total: int, still_open: int) -> str:
    """Return how many open comparisons a run decides: `8 of the 10 undecided comparisons`.

    `total` are open now, and `still_open` after the run.
    """
    kind = "undecided"
    # More rounds decide nearly equal comparisons, too.
    if account.count_results()[Result.BOUNDED]:
        kind = f"{texts.outcome_text(Result.BOUNDED)} or undecided"
    if still_open:
        return f"{total - still_open} of the {total} {kind} comparisons"
    return f"all {total} {kind} comparisons" if total > 1 else f"the {kind} comparison"


def _forecast_runs(account: Account) -> list[LongerRun]:
    """Return the present state as a run of no time, then longer runs, the shortest first."""
    # For a session with a limit of minutes, the account has the forecast: the first moment is after 0 s.
    if account.minutes is not None:
        return [LongerRun(moment.seconds, moment.undecided, None) for moment in account.outlook]
    # A session with a number of rounds gets more of them, because minutes have no effect there.
    measured_rounds = max((block.rounds for block in account.blocks), default=0)
    open_now = account.count_open()
    runs = [LongerRun(0.0, open_now, measured_rounds)]
    # With the further rounds [2, 5, 40], 2 rounds decide one comparison, 5 rounds decide two, and so on.
    for decided, more_rounds in enumerate(account.more_rounds, 1):
        rounds = measured_rounds + more_rounds
        runs.append(LongerRun(account.forecast_seconds(rounds), open_now - decided, rounds))
    return runs


def _describe_gain(results: Results, has_more_rounds: bool) -> str:
    """Return the gain of runs on larger repositories as a phrase, "" without a gain.

    The first case that applies decides:

    - A comparison is too small: start-up can explain its difference, or its runs are short.
    - An aggregate card has a comparison with the flag `too-short`: start-up can explain a small difference.
      Such a card, as on builds, has one answer over all cells, in which small differences count as well.
    - A comparison is open (undecided or nearly equal), and more rounds are not advised: `has_more_rounds` is
      False.
    """
    if results.account.count_results()[Result.TOO_SMALL]:
        return "answer what is too small"
    for card in results.advice.cards:
        pairs = [pair for case in card.cases for pair in case.pairs]
        if card.question.aggregate and any("too-short" in pair.flags for pair in pairs):
            return "show smaller differences"
    # More rounds do not reduce the noise between duplicates (cells that are measured twice), but longer runs
    # may reduce it.
    if results.account.count_open() and not has_more_rounds:
        return "may decide the rest"
    return ""


def _enlarge_repositories(results: Results) -> list[str]:
    """Return a line of YAML for each generated repository of the grid, with LONGER_FACTOR times its scale.

    Each entry is complete, because it replaces the entry of config.yaml: `  ruby: {source: generated,
    profile: ruby, scale: 0.48}`. Repositories at full scale (1) are left out, and those without a scale.
    """
    config = results.provenance.config
    # The user's own repository has the size that it has.
    if config.get("repository"):
        return []
    # The axis with the names of repositories differs by study.
    grid_values = {value for cell in results.grid for value in cell.values()}
    lines = []
    for name, definition in config.get("repositories", {}).items():
        if name not in grid_values or definition.get("scale", 1) >= 1:
            continue
        # Three digits are enough: 4 x 0.12345 becomes 0.494.
        scale = float(f"{min(1, LONGER_FACTOR * definition['scale']):.3g}")
        entry = {name: {**definition, "scale": scale}}
        # By default, YAML would break a long text into lines.
        text = yaml.safe_dump(entry, default_flow_style=True, sort_keys=False, width=math.inf)
        # In flow style, the entry itself is in braces: {ruby: {scale: 0.48}}
        lines.append(f"  {text.strip()[1:-1]}")
    return lines
