"""Advice on a study: cards, the best choice in each situation, and the choices with less work."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd

from vcsbench import words
from vcsbench.advice.cards import (
    ActionStep,
    Advice,
    Answer,
    Card,
    CardAction,
    CardQuestion,
    Choice,
    Situation,
    card_of,
)
from vcsbench.advice.decision import (
    BETTER,
    DEPENDS,
    EQUAL,
    UNDECIDED,
    VALUE,
    WORSE,
    Cell,
    Pair,
    Row,
    Table,
    Where,
    cases_of,
    compares_times,
    missing_values,
)
from vcsbench.advice.labels import (
    at_least_1,
    change,
    change_between,
    factor,
    factors,
    slight,
    value_label,
)
from vcsbench.axes.client_server import cache_bytes
from vcsbench.config.study import TableDefinition
from vcsbench.evidence import same_work
from vcsbench.evidence.flags import DECIDING_SHARE
from vcsbench.evidence.measurements import group_rows
from vcsbench.metrics import DEFAULT, metric_in, metric_of
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_round, pair_rows
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, NOT_SHOWN, TOO_NOISY, TOO_SMALL, Limits
from vcsbench.statistics.estimates import (
    NO_ESTIMATE,
    Estimate,
    Variance,
    calls_of,
    ratio,
    ratio_interval,
    sum_variances,
)
from vcsbench.statistics.noise import Noise, noise_by_metric
from vcsbench.statistics.tables import make_table
from vcsbench.words import is_number

SVNSERVE = "Start it with these options (cache in MB), also in its service file. Connections end."
HTTPD_SERVER = "In httpd.conf, outside of any <Location>:"
HTTPD_LOCATION = "In httpd.conf, in the <Location> of the repository:"
# httpd refuses these directives in a <Location>.
SERVER_LEVEL = re.compile(r"SVN(InMemoryCacheSize|CompressionLevel)\b", re.I)
# Settings that not everybody needs, and why.
OPTIONAL = {
    re.compile(r"(SVNBlockRead|--block-read) \S+", re.I): "Has an effect only with format 7 or 8.",
    re.compile(r"(SVNCompressionLevel|--compression) \S+", re.I): (
        "Optional, for a fast network: less CPU, more bytes. On a slow network leave it out."
    ),
}
NOTE = "Measured with all of these lines, over loopback."
RESTART = ActionStep(
    "apachectl configtest && apachectl graceful", "httpd", "Then check and reload:"
)
UNDO = "Remove the lines and restart."
PROCESSES = "their number: MaxRequestWorkers / ThreadsPerChild, such as 400 / 25 = 16"
DEFAULT_CACHE = 16 << 20
# The mean over the cases `wheres` of the ratio baseline / candidate.
Mean = Callable[[Sequence[Where], tuple[str, str]], Estimate]
OUTCOMES = {WORSE: "slower", BETTER: "faster", EQUAL: "equal"}


@dataclass(frozen=True)
class AdviceSettings:
    """A study as advice needs it. `scenario_axes` cannot be chosen by a reader; `workload` has weight,
    name and where of each part."""

    order: Mapping[str, list[str]]
    scenario_axes: Sequence[str]
    block: Sequence[str]
    questions: Sequence[CardQuestion] = ()
    workload: Sequence[Row] = ()
    limits: Limits = DEFAULT_LIMITS


def questions_of(questions: Mapping[str, Row], settings: Mapping[str, Row]) -> list[CardQuestion]:
    """Return the questions by axis. `settings` has the settings of each server by axis and value."""
    made = []
    for axis, question in questions.items():
        actions = {}
        for value, servers in settings.get(axis, {}).items():
            texts = {name: text for name, text in servers.items() if text}
            steps = [step for name, text in texts.items() for step in _setting_steps(name, text)]
            if steps:
                actions[value] = CardAction(steps, NOTE, _cost_of_settings(texts), UNDO)
        asked = {"": question.get("how_to_measure", {}), **question.get("actions", {})}
        for value, action in asked.items():
            command, *texts_ = (
                action.get(key) or "" for key in ("command", "note", "cost", "undo", "condition")
            )
            if command or any(texts_):
                actions[value] = CardAction([ActionStep(command)] if command else [], *texts_)
        values, yes = list(question.get("values", ())), question.get("yes_value", "")
        aggregate = bool(question.get("aggregate"))
        made.append(CardQuestion(axis, question["question"], values, yes, actions, aggregate))
    return made


def _setting_steps(server: str, settings: str) -> list[ActionStep]:
    """Return the settings of a server: one step per place, then each optional setting alone."""
    optional = {
        match[0]: limit for part, limit in OPTIONAL.items() if (match := part.search(settings))
    }
    for setting in optional:
        settings = settings.replace(setting, "")
    steps, lines = [], [" ".join(line.split()) for line in settings.splitlines() if line.strip()]
    if server == "httpd":
        for is_server, place in ((True, HTTPD_SERVER), (False, HTTPD_LOCATION)):
            of = [line for line in lines if bool(SERVER_LEVEL.match(line)) == is_server]
            steps += [ActionStep("\n".join(of), server, place)] * bool(of)
    else:
        steps.append(ActionStep("\n".join(lines), server, SVNSERVE))
    for setting, reason in optional.items():
        place = HTTPD_SERVER if SERVER_LEVEL.match(setting) else HTTPD_LOCATION
        place = place if server == "httpd" else "Add to it:"
        steps.append(ActionStep(setting, server, f"{reason} {place}"))
    return [*steps, RESTART] if server == "httpd" else steps


def _cost_of_settings(servers: Mapping[str, str]) -> str:
    sizes = [n for server, text in servers.items() for n in cache_bytes(server, text)]
    mib = max(sizes, default=DEFAULT_CACHE) / (1 << 20)
    memory = f"{mib / 1024:g} GiB" if mib >= 1024 else f"{mib:g} MiB"
    each = {"httpd": f"for each httpd process ({PROCESSES})", "svnserve": "for svnserve"}
    places = " or ".join(text for name, text in each.items() if name in servers)
    return f"Up to {memory} of memory {places}. One restart (httpd: graceful; svnserve: connections end)."


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
    times = geometric_means(rounds, axes)
    cards = []
    for question in settings.questions:
        axis = question.axis
        compared = [table for table in tables if compares_times(table[0], axis)]
        present = set() if compared else {*frame[axis]}
        measured = [value for value in settings.order[axis] if value in present]
        if len(measured) > 1:
            first, *others = measured
            definition: TableDefinition = {
                "compare": {"axis": axis, "baseline": first, "candidates": others},
                "rows": [],
                "columns": [],
            }
            made = make_table(
                frame, axis, definition, settings.order, settings.block, settings.limits
            )
            compared = [(definition, made.to_dict("records"))]
        reference = str(compared[0][0]["compare"]["baseline"]) if compared else ""
        cases = cases_of(axis, compared, axes, question.values, times)
        missing = missing_values(axis, cases, grid, failures)
        card = card_of(question, reference, axes, cases, effect, settings.workload, missing)
        if question.aggregate:
            mean = partial(geometric_mean, rounds, axis, axes, settings.block, noise)
            card = with_candidates(card, mean)
        cards.append(card)
    scenario_axes = [axis for axis in settings.scenario_axes if axis in axes]
    situations: list[Situation] = []
    # One answer over all cells leaves nothing to choose in a situation.
    has_choice = not cards or any(not card.question.aggregate for card in cards)
    for _, rows in group_rows(rounds, scenario_axes) if has_choice else ():
        where = {axis: str(rows[axis].iloc[0]) for axis in scenario_axes}
        situations.append(_situation(where, rows, axes, noise, settings.limits))
    return Advice(cards, situations, less_work(tables, effect), effect, settings.workload)


def geometric_means(rounds: pd.DataFrame, axes: Sequence[str]) -> dict[Cell, float]:
    """Return seconds by cell."""
    logs: dict[Cell, list[float]] = {}
    for row in rounds.to_dict("records"):
        if row[DEFAULT] > 0:
            logs.setdefault(tuple(str(row[a]) for a in axes), []).append(math.log(row[DEFAULT]))
    return {cell: math.exp(math.fsum(of) / len(of)) for cell, of in logs.items()}


def _situation(
    where: Where, rows: pd.DataFrame, axes: Sequence[str], noise: Noise, limits: Limits
) -> Situation:
    """Return the choices; comparisons with the best one are corrected as one family."""
    choosing = [axis for axis in axes if axis not in where]
    logs: dict[Cell, dict[int, float]] = {}
    facts: dict[Cell, Row] = {}
    for row in rows.to_dict("records"):
        if not same_work.is_unchecked(row["work"]):
            choice = tuple(str(row[axis]) for axis in choosing)
            logs.setdefault(choice, {})[row["round"]] = math.log(row[DEFAULT])
            facts[choice] = row
    works = {choice: row["work"] for choice, row in facts.items()}

    def named(choice: Cell) -> dict[str, str]:
        return {axis: value for axis, value in zip(choosing, choice, strict=True) if value}

    def cell(choice: Cell) -> Cell:
        return tuple(str(facts[choice][axis]) for axis in axes)

    same = same_work.majority(works)
    other = [(named(c), _difference(c, works, same)) for c in logs if c not in same]
    most = max((len(of) for of in logs.values()), default=0)
    whole = {choice: of for choice, of in logs.items() if choice in same and len(of) == most}
    means = {choice: math.fsum(of.values()) / len(of) for choice, of in whole.items()}
    best, *others = sorted(means, key=lambda choice: (means[choice], choice)) or [()]
    why_not = ""
    if len(hosts := sorted({*rows["host"]})) > 1:
        why_not = f"measured on several machines ({', '.join(hosts)})"
    elif most < limits.min_rounds:
        why_not = f"only {most} of at least {limits.min_rounds} rounds measured"
    elif not others:
        why_not = "one choice only"
    elif (facts[best].get(FIXED_SHARE) or 0.0) > DECIDING_SHARE:
        why_not = f"{TOO_SMALL}: mostly start-up"
    if why_not:
        return Situation(where, why_not=why_not, other_work=other)
    ratios = []
    for choice in others:
        shared = [whole[choice][n] - log for n, log in whole[best].items() if n in whole[choice]]
        ratios.append(noise.with_error(ratio_interval(shared), [(cell(best), cell(choice))]))
    words = metric_of(DEFAULT).words
    calls = calls_of(ratios, noise.has_duplicates, words[:2], limits)
    choices = [Choice(named(best), math.exp(means[best]), is_equal=True)]
    for choice, estimate, call in zip(others, ratios, calls, strict=True):
        of_call = call == words.better, call == NOT_SHOWN
        choices.append(Choice(named(choice), math.exp(means[choice]), estimate.value, *of_call))
    return Situation(where, choices, other_work=other)


def _difference(choice: Cell, works: Mapping[Cell, str], same: set[Cell]) -> str:
    if refusal := same_work.refusal("", {"": works[choice]}):
        return refusal.reason
    known = [works[c] for c in same or works if not same_work.refusal("", {"": works[c]})]
    return same_work.difference(works[choice], next(w for w in known if w != works[choice]))


def less_work(tables: Iterable[Table], min_effect_pct: float) -> list[str]:
    """Return a sentence per exact metric and candidate with less or more work."""
    sentences, least = [], 1 + min_effect_pct / 100
    for definition, rows in tables:
        metric, compare = metric_in(definition), definition["compare"]
        axis, baseline = compare["axis"], compare["baseline"]
        ratios: dict[str, list[float]] = {str(row["candidate"]): [] for row in rows}
        for row in rows if metric.exact else ():
            if is_number(row.get("ratio")) and (row.get("call") or "") not in ("", TOO_NOISY):
                ratios[str(row["candidate"])].append(row["ratio"])
        for candidate, known in ratios.items():
            less, more = [r for r in known if r >= least], [1 / r for r in known if 1 / r >= least]
            for who, other, sizes in ((candidate, baseline, less), (baseline, candidate, more)):
                if sizes:
                    first, second = (value_label(axis, value) for value in (who, other))
                    amount = f"{factors(sizes)} fewer {metric.quantity} than {second}"
                    sentences.append(f"{first}: {amount} in {len(sizes)} of {len(known)} cases.")
    return sentences


# Questions with one answer over all cells, such as a build. A candidate with the baseline's binaries is a
# noise check (A/A test) and gets no answer.


def with_candidates(card: Card, mean: Mean) -> Card:
    """Add an answer for each candidate, and lines that compare it with each noise check."""
    pairs: dict[str, list[Pair]] = {}
    wheres: dict[str, list[Where]] = {}
    for case in card.cases:
        for pair in case.pairs:
            pairs.setdefault(pair.candidate, []).append(pair)
            wheres.setdefault(pair.candidate, []).append(case.where)
    averages = {name: mean(wheres[name], (of[0].baseline, name)) for name, of in pairs.items()}
    same = {name for name, of in pairs.items() if all(pair.is_noise_check for pair in of)}
    answers, lines = [], []
    for candidate, members in pairs.items():
        outcomes, average = Counter(pair.outcome for pair in members), averages[candidate]
        if candidate in same:
            differ = f"{outcomes[BETTER] + outcomes[WORSE]} of {outcomes.total()} differ"
            unknown = outcomes.total() - sum(outcomes[kind] for kind in (BETTER, WORSE, EQUAL))
            differ += f", {unknown} undecided" if unknown else ""
            text = "; ".join([differ, *_average_text(average)])
            lines.append(f"Noise check: {candidate}, the same build: {text}.")
            others = {name: of for name, of in averages.items() if name not in same}
            lines += filter(None, (_against_noise(*other, average) for other in others.items()))
            if outcomes[BETTER] + outcomes[WORSE]:
                lines.append("Measure again: if it differs again, the machine is too noisy.")
        else:
            answers.append(_answer(candidate, members, average, card.min_effect_pct))
    for lost in card.missing:
        cells = words.count_of(lost.cells, "cell")
        lines.append(f"{lost.value}: {cells} not measured: {lost.reason.rstrip('.')}.")
    card = replace(card, lines=lines)
    if not answers:
        short = "no other build" if pairs else "no result"
        text = f"{short} was compared.".capitalize()
        return replace(card, answer=Answer(EQUAL, "", short, text, text))
    return replace(card, answer=answers[0], candidates=answers)


def _answer(
    candidate: str, pairs: Sequence[Pair], average: Estimate, min_effect_pct: float
) -> Answer:
    outcomes, total = Counter(pair.outcome for pair in pairs), len(pairs)
    counts = {kind: outcomes[kind] for kind in dict.fromkeys([*OUTCOMES, *outcomes])}
    texts = {kind: f"{OUTCOMES.get(kind, kind)} in {n}" for kind, n in counts.items() if n}
    for kind in {WORSE, BETTER} & texts.keys():
        sizes = [at_least_1(p.ratio) for p in pairs if p.outcome == kind]
        verb, number = OUTCOMES[kind], counts[kind]
        texts[kind] = f"{factors(sizes)} {verb}{slight(sizes, min_effect_pct)} in {number}"
    kind, value = UNDECIDED, ""
    if called := [texts.pop(kind) for kind in (WORSE, BETTER) if kind in texts]:
        kind = DEPENDS if counts[WORSE] else VALUE
        value = "" if counts[WORSE] else candidate
        head = f"{', '.join(called)} of {total}"
    elif counts[EQUAL]:
        kind = EQUAL
        head = f"equal within {min_effect_pct:g} % in {counts[EQUAL]} of {total}"
        del texts[EQUAL]
    else:
        head = f"undecided ({', '.join(texts.values())} of {total})"
        texts = {}
    rest = "; ".join([*filter(None, [", ".join(texts.values())]), *_average_text(average)])
    short = f"{candidate}: {head}"
    sentence = f"{rest}.".capitalize() if rest else ""
    return Answer(kind, value, short, sentence, "; ".join(filter(None, [short, rest])))


def _average_text(average: Estimate) -> list[str]:
    if not math.isfinite(average.value):
        return []
    none = ", no difference shown" if average.low < 1 < average.high else ""
    interval = change_between(average.low, average.high)
    return [f"on average {change(average.value)} ({interval}){none}"]


def _against_noise(candidate: str, average: Estimate, noise: Estimate) -> str:
    """Return a sentence that compares an average with the 95 % interval of the noise check's average."""
    most = max(noise.high, 1 / noise.low)
    found = at_least_1(average.value)
    if not math.isfinite(most + found):
        return ""
    is_larger = found > most and not average.low < 1 < average.high
    verb = "exceeds" if is_larger else "does not exceed"
    why = "" if is_larger else ": it can be noise"
    text = f"The average difference of {candidate} ({factor(found)})"
    return f"{text} {verb} that of the same build (at most {factor(most)}){why}."


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
    if not wheres or rounds["host"].nunique() != 1:
        return NO_ESTIMATE
    others = [name for name in order if name != axis]
    included = {tuple(where.get(name, "") for name in others) for where in wheres}
    blocks: dict[Cell, dict[Cell, dict[int, float]]] = {}
    for row in pair_rows(rounds, axis, sides, [*others, "host", "round"]).to_dict("records"):
        key = tuple(str(row[name]) for name in others)
        if key in included:
            of_block = blocks.setdefault(tuple(row[name] for name in block), {})
            log = math.log(row[f"{DEFAULT}_baseline"] / row[f"{DEFAULT}_candidate"])
            of_block.setdefault(key, {})[row["round"]] = log
    place, estimates = order.index(axis), []
    for cells in blocks.values():
        shared = sorted(set.intersection(*(set(logs) for logs in cells.values())))
        means = [math.fsum(logs[n] for logs in cells.values()) / len(cells) for n in shared]
        both = [tuple((*k[:place], s, *k[place:]) for s in reversed(sides)) for k in cells]
        estimates.append(noise.with_error(ratio_interval(means, len(cells)), both))  # type: ignore[arg-type]
    if not estimates or any(e.n < 2 for e in estimates):
        return NO_ESTIMATE
    whole = math.fsum(e.pairs for e in estimates)
    log = math.fsum(e.pairs * math.log(e.value) for e in estimates) / whole
    variances = [Variance(e.error**2, e.degrees).scaled((e.pairs / whole) ** 2) for e in estimates]
    error = sum_variances(variances)
    degrees = error.degrees if error.variance else 1.0
    return ratio(log, math.sqrt(error.variance), degrees, min(e.n for e in estimates), whole)
