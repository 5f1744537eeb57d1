"""Advice on a study: cards, the best choice in each situation, and the choices with less work.

A question such as a build has one answer over all cells. A candidate with the binaries of the baseline is a
noise check (A/A test) and gets no answer.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from vcsbench.advice import decision, labels
from vcsbench.advice.cards import Advice, Answer, Card, Choice, Situation, card_of, in_cases
from vcsbench.advice.decision import Cell, Pair, Row, Where
from vcsbench.advice.labels import CardQuestion
from vcsbench.config.study import TableDefinition
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import DECIDING_SHARE
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT, METRICS, metric_in
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_round, pair_rows
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, NOT_SHOWN, TOO_NOISY, TOO_SMALL, Limits
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    Variance,
    calls_of,
    interval,
    ratio_interval,
    sum_variances,
)
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.tables import make_table
from vcsbench.words import is_number

# The definition of a table, and its rows.
Table = tuple[Mapping[str, Any], Sequence[Row]]
ON_ONE_MACHINE = "measure all of it on one machine (`--forcerun cell`)"


@dataclass(frozen=True)
class AdviceSettings:
    """A study as advice needs it. `scenario_axes` cannot be chosen by a reader; `workload` has weight,
    name and where of each operation."""

    order: Mapping[str, list[str]]
    scenario_axes: Sequence[str]
    block: Sequence[str]
    questions: Sequence[CardQuestion] = ()
    workload: Sequence[Row] = ()
    limits: Limits = DEFAULT_LIMITS


def advise(
    settings: AdviceSettings,
    frame: pd.DataFrame,
    tables: Sequence[Table] = (),
    grid: Sequence[Row] = (),
    failures: Sequence[Row] = (),
) -> Advice:
    """Return the advice. `tables` compare, `grid` and `failures` are rows of their files."""
    axes, effect = list(settings.order), settings.limits.min_effect_pct
    rounds = by_round(frame, axes, MEAN)
    noise = noise_by_metric(frame, axes, settings.block, rounds)(DEFAULT)
    times = group_rows(rounds[rounds[DEFAULT] > 0], axes)[DEFAULT]
    logs = {tuple(map(str, cell)): [math.log(time) for time in of] for cell, of in times}
    seconds = {cell: math.exp(math.fsum(of) / len(of)) for cell, of in logs.items()}
    cards = []
    for question in settings.questions:
        axis = question.axis
        compared = [table for table in tables if decision.compares_times(table[0], axis)]
        compared = compared or _table_of(axis, settings, frame)
        reference = str(compared[0][0]["compare"]["baseline"]) if compared else ""
        rows = chain.from_iterable(rows for _, rows in compared)
        cases, withheld = decision.cases_of(axis, rows, axes, question.values, seconds)
        missing = decision.missing_values(axis, cases, grid, failures)
        workload = settings.workload
        card = card_of(question, reference, axes, cases, effect, workload, missing, withheld)
        if question.aggregate:
            mean = partial(geometric_mean, rounds, axis, axes, settings.block, noise)
            card = with_candidates(card, mean)
        cards.append(card)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations = []
    # One answer over all cells leaves nothing to choose in a situation.
    has_choice = not cards or any(not card.question.aggregate for card in cards)
    for _, of in group_rows(rounds, scenario_axes) if has_choice else ():
        where = {axis: str(of[axis].iloc[0]) for axis in scenario_axes}
        situations.append(_situation_of(where, of, axes, noise, settings.limits))
    return Advice(cards, situations, less_work(tables, effect), effect, settings.workload)


def _table_of(axis: str, settings: AdviceSettings, frame: pd.DataFrame) -> list[Table]:
    """Return the table that compares the first measured value of an axis with any others."""
    baseline, *others = [v for v in settings.order[axis] if v in {*frame[axis]}] or [""]
    if not others:
        return []
    definition: TableDefinition = {
        "compare": {"axis": axis, "baseline": baseline, "candidates": others},
        "rows": [],
        "columns": [],
    }
    table = make_table(frame, axis, definition, settings.order, settings.block, settings.limits)
    return [(definition, table.to_dict("records"))]


def _situation_of(
    where: Where, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices; comparisons with the best one are corrected as one family.

    `rows` come from by_round in the situation, whose cells `axes` identify.
    """
    rows = rows[~rows["work"].map(same_work.is_unchecked).astype(bool)]
    cells = {tuple(map(str, key)): of for key, of in group_rows(rows, axes)}
    works = {cell: of["work"].iloc[0] for cell, of in cells.items()}

    def choice(cell: Cell) -> dict[str, str]:
        values = zip(axes, cell, strict=True)
        return {axis: value for axis, value in values if value and axis not in where}

    same = same_work.majority(works)
    other = [(choice(c), _difference(c, works, same)) for c in cells if c not in same]
    most = max(map(len, cells.values()), default=0)
    # A failed or invalid round of a choice leaves the others.
    least = min(most, limits.min_rounds)
    logs = {
        cell: {n: math.log(time) for n, time in zip(of["round"], of[DEFAULT], strict=True)}
        for cell, of in cells.items()
        if cell in same and len(of) >= least
    }
    # Rounds that all have, if these are enough: the machine may drift from round to round.
    common = set.intersection(*map(set, logs.values())) if logs else set[float]()
    used = {
        cell: [log for n, log in of.items() if n in common or len(common) < least]
        for cell, of in logs.items()
    }
    means = {cell: math.fsum(of) / len(of) for cell, of in used.items()}
    best, *others = sorted(means, key=lambda cell: (means[cell], cell)) or [()]
    why_not = ""
    if len(hosts := sorted({*rows["host"]})) > 1:
        why_not = f"measured on several machines ({', '.join(hosts)}): {ON_ONE_MACHINE}"
    elif most < limits.min_rounds:
        why_not = f"only {most} of at least {limits.min_rounds} rounds measured"
    elif not others:
        why_not = "one choice only"
    elif cells[best][FIXED_SHARE].iloc[-1] > DECIDING_SHARE:
        why_not = f"{TOO_SMALL}: mostly start-up"
    if why_not:
        return Situation(where, why_not=why_not, other_work=other)
    ratios = []
    for cell in others:
        shared = [logs[cell][n] - log for n, log in logs[best].items() if n in logs[cell]]
        ratios.append(noise.with_error(ratio_interval(shared), [(best, cell)]))
    verbs = METRICS[DEFAULT].calls
    calls = calls_of(ratios, noise.has_duplicates, verbs, limits)
    choices = [Choice(choice(best), math.exp(means[best]), is_equal=True)]
    for cell, estimate, call in zip(others, ratios, calls, strict=True):
        of_call = call == verbs[0], call == NOT_SHOWN
        choices.append(Choice(choice(cell), math.exp(means[cell]), estimate.value, *of_call))
    return Situation(where, choices, other_work=other)


def _difference(cell: Cell, works: Mapping[Cell, str], same: set[Cell]) -> str:
    if refusal := same_work.refusal("", {"": works[cell]}):
        return refusal.reason
    known = [works[c] for c in same or works if not same_work.refusal("", {"": works[c]})]
    return same_work.difference(works[cell], next(w for w in known if w != works[cell]))


def less_work(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work."""
    sentences, least = [], 1 + min_effect_pct / 100
    for definition, rows in tables:
        metric, compare = metric_in(definition), definition["compare"]
        axis, baseline = compare["axis"], compare["baseline"]
        ratios: dict[str, list[float]] = {str(row["candidate"]): [] for row in rows}
        for row in rows if metric.exact else ():
            is_called = (row.get("call") or "") not in ("", TOO_NOISY)
            if is_called and is_number(row.get("ratio")) and not row.get("withheld"):
                ratios[str(row["candidate"])].append(row["ratio"])
        for candidate, known in ratios.items():
            less, more = [r for r in known if r >= least], [1 / r for r in known if 1 / r >= least]
            for who, other, sizes in ((candidate, baseline, less), (baseline, candidate, more)):
                if sizes:
                    first, second = (labels.value_label(axis, value) for value in (who, other))
                    amount = f"{labels.factors(sizes)} fewer {metric.quantity} than {second}"
                    sentences.append(f"{first}: {amount}{in_cases(len(sizes), len(known))}.")
    return sentences


# The mean over the cases of a list of the ratio of two values, baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]
OUTCOMES = {decision.WORSE: "slower", decision.BETTER: "faster", decision.EQUAL: "equal"}


def with_candidates(card: Card, mean: Mean) -> Card:
    """Add an answer for each candidate, and lines that compare it with each noise check."""
    pairs: dict[str, list[Pair]] = {}
    wheres: dict[str, list[Where]] = {}
    for case in card.cases:
        for pair in case.pairs:
            pairs.setdefault(pair.candidate, []).append(pair)
            wheres.setdefault(pair.candidate, []).append(case.where)
    averages = {name: mean(wheres[name], (of[0].baseline, name)) for name, of in pairs.items()}
    checks = [name for name, of in pairs.items() if all(pair.is_noise_check for pair in of)]
    others = {name: average for name, average in averages.items() if name not in checks}
    answers = [_answer(n, pairs[n], average, card.min_effect_pct) for n, average in others.items()]
    lines = [line for n in checks for line in _noise_check(n, pairs[n], averages[n], others)]
    lines += [lost.sentence(lost.value) for lost in card.missing]
    card = replace(card, notes=[], lines=[*lines, *card.notes], candidates=answers)
    if not answers:
        short = "no other build" if pairs else "no result"
        text = f"{short} was compared.".capitalize()
        return replace(card, answer=Answer(decision.EQUAL, "", short, text, text))
    return replace(card, answer=answers[0])


def _answer(
    candidate: str, pairs: Sequence[Pair], average: Estimate, min_effect_pct: float
) -> Answer:
    ratios: dict[str, list[float]] = {kind: [] for kind in OUTCOMES}
    for pair in pairs:
        ratios.setdefault(pair.outcome, []).append(pair.ratio)
    among, total = (" in {}", f" of {len(pairs)}") if len(pairs) > 1 else ("", "")
    counts = {k: OUTCOMES.get(k, k) + among.format(len(of)) for k, of in ratios.items() if of}
    called = []
    for kind in (decision.WORSE, decision.BETTER):
        if counts.pop(kind, ""):
            sizes = [labels.at_least_1(ratio) for ratio in ratios[kind]]
            text = f"{labels.factors(sizes)} {OUTCOMES[kind]}{labels.slight(sizes, min_effect_pct)}"
            called.append(text + among.format(len(sizes)))
    if called:
        kind = decision.DEPENDS if ratios[decision.WORSE] else decision.VALUE
        head = ", ".join(called)
    elif equal := counts.pop(decision.EQUAL, ""):
        kind, head = decision.EQUAL, equal.replace("equal", f"equal within {min_effect_pct:g} %")
    else:
        kind, head, counts = decision.UNDECIDED, f"undecided ({', '.join(counts.values())}", {}
    short = f"{candidate}: {head}{total}{')' if kind == decision.UNDECIDED else ''}"
    rest = "; ".join(filter(None, [", ".join(counts.values()), _average_text(average)]))
    sentence = f"{rest}.".capitalize() if rest else ""
    value = candidate if kind == decision.VALUE else ""
    return Answer(kind, value, short, sentence, "; ".join(filter(None, [short, rest])))


def _noise_check(
    name: str, pairs: Sequence[Pair], average: Estimate, others: Mapping[str, Estimate]
) -> list[str]:
    """Return sentences on a noise check, with the averages of the other candidates."""
    outcomes = Counter(pair.outcome for pair in pairs)
    differ = outcomes[decision.BETTER] + outcomes[decision.WORSE]
    text = f"{differ} of {len(pairs)} differ"
    if unknown := len(pairs) - differ - outcomes[decision.EQUAL]:
        text += f", {unknown} undecided"
    text = "; ".join(filter(None, [text, _average_text(average)]))
    lines = [f"Noise check: {name}, the same build: {text}."]
    most = max(average.high, 1 / average.low)
    for candidate, other in others.items():
        size = labels.at_least_1(other.value)
        if math.isfinite(most + size):
            is_larger = size > most and not other.low < 1 < other.high
            verb = "exceeds" if is_larger else "does not exceed"
            why = "" if is_larger else ": it can be noise"
            mean, limit = labels.factor(size), labels.factor(most)
            line = f"The average difference of {candidate} ({mean}) {verb} that of the same build"
            lines.append(f"{line} (at most {limit}){why}.")
    if differ:
        lines.append("Measure again: if it differs again, the machine is too noisy.")
    return lines


def _average_text(average: Estimate) -> str:
    if not math.isfinite(average.value):
        return ""
    none = ", no difference shown" if average.low < 1 < average.high else ""
    interval = labels.change_between(average.low, average.high)
    return f"on average {labels.change(average.value)} ({interval}){none}"


def geometric_mean(
    rounds: pd.DataFrame,
    axis: str,
    order: Sequence[str],
    block: Sequence[str],
    noise: Noise,
    wheres: Sequence[Where],
    sides: tuple[str, str],
) -> Estimate:
    """Return the geometric mean of the ratios baseline / candidate (`sides`), with its interval.

    Each round is averaged within a block, whose cells share their rounds. Errors of blocks add up.
    """
    others, place = [name for name in order if name != axis], order.index(axis)
    included = {tuple(where.get(name, "") for name in others) for where in wheres}
    pairs = pair_rows(rounds, axis, sides, [*others, "host", "round"])
    keys = [*zip(*(pairs[name] for name in others), strict=True)]
    logs = np.log(pairs[f"{DEFAULT}_baseline"] / pairs[f"{DEFAULT}_candidate"])
    pairs = pairs.assign(key=pd.Series(keys, pairs.index, dtype=object), log=logs)
    pairs = pairs[pairs["key"].isin(included)]
    if pairs.empty or rounds["host"].nunique() != 1:
        return NO_ESTIMATE
    estimates = []
    for _, of_block in group_rows(pairs, block):
        logs = of_block.pivot(index="round", columns="key", values="log").dropna().sort_index()
        both = [tuple((*k[:place], side, *k[place:]) for side in reversed(sides)) for k in logs]
        means = logs.apply(math.fsum, axis=1) / len(both)
        estimates.append(noise.with_error(ratio_interval(means, len(both)), both))  # type: ignore[arg-type]
    if any(e.n < 2 for e in estimates):
        return NO_ESTIMATE
    whole = math.fsum(e.averaged for e in estimates)
    log = math.fsum(e.averaged * math.log(e.value) for e in estimates) / whole
    variances = [
        Variance(e.error**2, e.degrees).scaled((e.averaged / whole) ** 2) for e in estimates
    ]
    error = sum_variances(variances)
    degrees = error.degrees if error.variance else 1.0
    return interval(log, math.sqrt(error.variance), degrees, min(e.n for e in estimates), whole)
