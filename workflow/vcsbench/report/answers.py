"""The answers of a page: the overview, cards with forest plots, "What I have", and situations."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import product
from typing import Any, NamedTuple

from vcsbench import words
from vcsbench.advice.answer_texts import Answer
from vcsbench.advice.cards import Card, Situation, fits
from vcsbench.advice.decision import Case, Pair, Row, Where
from vcsbench.advice.labels import (
    SLIGHT,
    ActionStep,
    CardAction,
    axis_label,
    case_label,
    detectable_text,
    seconds,
    value_label,
)
from vcsbench.axes.client_server import BUILD_AXIS
from vcsbench.axes.subject_axes import SHARD
from vcsbench.codes import AnswerKind
from vcsbench.evidence.flags import BUSY, Flag
from vcsbench.formats import default_format
from vcsbench.report import charts
from vcsbench.report.results import Results, grouped_by, unique_values, values_in, varying
from vcsbench.report.summary import command_with, count_disturbed, variables_of
from vcsbench.statistics import comparisons

NOT_PICKED = ("cache", "clients", "build")
MAX_ANSWERS = 6000
# What a change takes: its words, and the key of its seconds.
LOADING = ("Loading {} into all formats at the same time", "seconds")
WORK = {"format": LOADING, "packing": ("Packing {}", "pack_seconds")}
NEARLY_ALL = 0.8
# Cards show these in other words, or not.
PLAIN_FLAGS = ("low-n", "mean-cpu", "mostly-fixed-cost", Flag.SAME_BINARIES)
# One answer over few cases can rest on these. Elsewhere an interval has the scatter.
DOUBTS = ("outlier-10", "outlier-20", "too-short")
GUARD, GUARD_PCT = "my-expectations.yaml", (5, 10, 15, 20, 30, 50)


class Pick(NamedTuple):
    """An axis of "What I have": its values with their labels, and the preset value."""

    axis: str
    label: str
    values: Sequence[tuple[str, str]]
    preset: str


class CardView(NamedTuple):
    """A card of the page; `left` and `right` name the sides of its forest plot.

    `actions` have the value, its label, and the action that applies it; `costs` are sentences.
    """

    card: Card
    anchor: str
    rows: Sequence[charts.ForestRow]
    axis_drawing: str
    left: str
    right: str
    actions: Sequence[tuple[str, str, CardAction]]
    lines: Sequence[str]
    costs: Sequence[str]


def card_views(results: Results) -> list[CardView]:
    """Return the cards in the order of applying changes, as the questions of a study, the rest last."""
    unanswered, shown = (AnswerKind.NOT_MEASURED, AnswerKind.NOT_COMPARED), shown_flags(results)
    ranked = sorted(results.advice.cards, key=lambda card: card.answer.kind in unanswered)
    return [_card_view(card, results, shown) for card in ranked]


def is_disturbed_everywhere(results: Results) -> bool:
    """Return True if other programs disturbed all comparisons and nearly all runs."""
    disturbed, number, _ = count_disturbed(results.advice.cards)
    runs = [not BUSY.isdisjoint(run["flags"].split()) for run in results.valid_runs]
    return disturbed == number and sum(runs) > NEARLY_ALL * len(runs)


def shown_flags(results: Results) -> set[str]:
    """Return the flags that rows name: no flag of nearly all comparisons, nor a disturbance everywhere."""
    flags = [
        [f for f in pair.flags if card.question.aggregate or f not in DOUBTS]
        for card in results.advice.cards
        for case in card.cases
        for pair in case.pairs
    ]
    counts = Counter(flag for of in flags for flag in of)
    rare = {flag for flag, number in counts.items() if number <= NEARLY_ALL * len(flags)}
    busy = () if is_disturbed_everywhere(results) else BUSY
    return rare.difference(BUSY, PLAIN_FLAGS).union(busy)


def loads_of(results: Results) -> list[Row]:
    """Return the records of the loads of this study's repositories, with more than one revision."""
    names = {(context.get("repository") or {}).get("name") for context in results.contexts}
    loads = [load for name, load in results.loads.items() if name in names]
    return [load for load in loads if load.get("revisions", 0) > 1]


def is_in_memory(load: Row) -> bool:
    return str(load.get("loaded_in", "")).startswith("/dev/shm/")


def estimate_of(results: Results) -> Row:
    """Return the basis of estimates for a reader's number of revisions, {} if no load is known: the load
    with the most revisions, its seconds, and the bytes of all files by format and packing.
    """
    loads = [load for load in loads_of(results) if load.get("seconds")]
    load = max(loads, key=lambda load: int(load["revisions"]), default=None)
    if not load:
        return {}
    sizes: dict[str, dict[str, int]] = {}
    for of in (context.get("repository") or {} for context in results.contexts):
        if of.get("bytes") and results.loads.get(of.get("name", "")) is load:
            sizes.setdefault(of.get("format", ""), {})[of.get("packing", "")] = of["bytes"]
    times = {key: load.get(key, 0) for key in ("revisions", "seconds", "pack_seconds")}
    return {**times, "in_memory": is_in_memory(load), "bytes": sizes}


def _costs(results: Results, axis: str) -> list[str]:
    """Return the known costs of a change: length of its files, time of a load or of packing."""
    by_format = estimate_of(results).get("bytes", {})
    sizes, of_format = {name: of["nopack"] for name, of in by_format.items() if "nopack" in of}, ""
    if axis == "packing":
        both = ((name, of) for name, of in by_format.items() if len(of) > 1)
        of_format, sizes = next(both, ("", {}))
        of_format = f" of {of_format}" if of_format else ""
    texts = ", ".join(f"{value_label(axis, v)} {words.size(n)}" for v, n in sorted(sizes.items()))
    # Files take whole blocks, so that a disk loses most with many small ones.
    what = f"Length of all files{of_format} here (on disk more, if not packed)"
    costs = [f"{what}: {texts}."] if axis in WORK and len(sizes) > 1 else []
    what, key = WORK.get(axis, ("", ""))
    for load in loads_of(results):
        if load.get(key):
            where = " in memory (not measured on a disk)" if is_in_memory(load) else ""
            taken = words.duration(load[key]) if load[key] >= 1 else "less than 1 s"
            work = what.format(words.count_of(load["revisions"], "revision"))
            costs.append(f"{work} took {taken}{where}.")
    return costs


def versions_of_builds(results: Results) -> list[str]:
    """Return `trunk 1.15.0` for each build in order, nothing without several builds."""
    versions: dict[str, list[str]] = {name: [] for name in results.order.get(BUILD_AXIS, ())}
    for build in (context.get("build") or {} for context in results.contexts):
        sides = (build.get(side) or {} for side in ("client", "server"))
        known = (side["version"] for side in sides if side.get("version"))
        versions.get(build.get("name", ""), []).extend(known)
    return [f"{name} {', '.join(unique_values(of))}" for name, of in versions.items() if of]


def installed_format(results: Results) -> str:
    """Return the format that the measured Subversion makes by default, "" if its version is unknown."""
    for context in results.contexts:
        versions = context.get("versions") or {}
        if name := default_format(versions.get("svn", "")):
            return name
    return ""


def _card_view(card: Card, results: Results, shown: Collection[str]) -> CardView:
    name = card.question.axis
    studied = results.study.axes.get(name, ())
    studied = () if card.question.values or isinstance(studied, str) else studied
    present = {row.get(name) for row in results.grid}
    pairs = [(case, pair) for case in card.cases for pair in case.pairs]
    tested = [(case, pair) for case, pair in pairs if not pair.is_noise_check]
    left, right = (
        " or ".join(value_label(name, v) for v in side) if len(side) < 3 else "another value"
        for side in (
            unique_values(getattr(p, which) for _, p in tested) for which in comparisons.SIDES
        )
    )
    pairs.sort(key=lambda i: (i[1].is_noise_check, not i[1].is_decided, -abs(math.log(i[1].ratio))))
    axis = charts.LogAxis.over(v for _, p in pairs for v in (p.ratio, p.low, p.high))
    actions = [
        (value, value_label(name, value) if value else "Measure more values", action)
        for value in unique_values([*(value for case in card.cases for value in case.times), ""])
        if (action := card.question.actions.get(value))
    ]
    if card.question.aggregate and tested:
        actions.append(("", "Fail in CI if it is slower", _guard(results, name, tested)))
    lines, has_several = [*card.lines, *card.notes], len({p.candidate for _, p in pairs}) > 1
    if outside := [value for value in studied if value not in present]:
        names = words.enumeration([value_label(name, value) for value in outside])
        lines.append(f"Not in the grid of this session: {names}.")
        newest = installed_format(results)
        action = card.question.actions.get("")
        if name == "format" and newest in outside and action:
            command = action.steps[0].command
            lines[-1] += f" The installed svnadmin makes {newest}: `{command}` measures it."
    if not card.question.aggregate:
        lines += [lost.sentence(value_label(name, lost.value)) for lost in card.missing]
    runs = grouped_by(results.valid_runs, lambda run: values_in(run, [*results.order]))
    rows = []
    for case, pair in pairs:
        sides = ({**case.where, name: side} for side in (pair.baseline, pair.candidate))
        of_sides = [runs.get(values_in(side, [*results.order]), []) for side in sides]
        rows.append(charts.forest_row(card, case, pair, axis, has_several, shown, of_sides))
    drawing, costs = charts.forest_axis(axis), _costs(results, name)
    return CardView(card, f"card-{name}", rows, drawing, left, right, actions, lines, costs)


def _guard(results: Results, axis: str, pairs: Sequence[tuple[Case, Pair]]) -> CardAction:
    """Return the command that writes an expectation for each candidate and checks it.

    Its limit is the smallest of GUARD_PCT that the noise of the comparisons allows.
    """
    detectable = max(pair.detectable for _, pair in pairs)
    limit = next((pct for pct in GUARD_PCT if 1 + pct / 100 >= detectable), GUARD_PCT[-1])
    text = f"{results.study.name}:\n"
    for first, second in unique_values((pair.baseline, pair.candidate) for _, pair in pairs):
        text += (
            f"  - id: {words.slug(second)}-not-slower\n"
            f"    statement: {second} is nowhere more than {limit} % slower than {first}.\n"
            "    where: {}\n"
            f"    compare: {{axis: {axis}, baseline: {first}, candidate: {second}}}\n"
            f"    expect: {{over: min, at_least: {1 / (1 + limit / 100):.3f}}}\n"
        )
    given = variables_of(results.provenance.get("command", ""), results.study.name)
    command = command_with(given, f"--config expectations=[{GUARD}]", "check")
    note = "It fails unless the 95 % interval of the slowest case is within the limit. "
    note += f"`at_least` is time of baseline / time of candidate: 1 / {1 + limit / 100:g}. "
    if detectable:
        note += f"Here differences from {detectable_text(detectable)} on are detectable. "
        note += "Longer runs allow a lower limit."
    return CardAction([ActionStep(f"cat >{GUARD} <<'END'\n{text}END\n{command}")], note)


def _present(where: Where) -> Where:
    return {axis: value for axis, value in where.items() if value}


def picks_of(results: Results, cards: Sequence[CardView]) -> list[Pick]:
    """Return the axes of "What I have" with several values, preset for a reader's own repository."""
    study, picks, answers = results.study, [], 1
    left_out = {*NOT_PICKED, study.command_axis, *study.axes_of("repositories")}
    # An answer over all cells follows no pick.
    has_cases = any(not view.card.question.aggregate for view in cards)
    for axis, known in results.order.items() if has_cases else ():
        present = {row.get(axis) for row in results.grid if not row.get("skip")}
        values = [value for value in known if value in present]
        if axis in left_out or len(values) < 2:
            continue
        answers *= len(values) + 1
        if answers > MAX_ANSWERS:
            break
        preset = values[0] if results.own_repository and axis != "ra" else ""
        labels = [(value, value_label(axis, value)) for value in values]
        picks.append(Pick(axis, axis_label(axis), labels, preset))
    return picks


def packed_answers(
    results: Results, cards: Sequence[CardView], picks: Sequence[Pick], cell_s: float
) -> dict[str, Any]:
    """Return the data of "What I have" for the script. `cell_s` are the seconds of a new cell."""
    labels = {
        axis: {"": axis_label(axis), **{value: value_label(axis, value) for value in values}}
        for axis, values in results.order.items()
    }
    keys = ("cost", "undo", "condition")
    return {
        "picks": [pick.axis for pick in picks],
        "labels": labels,
        "cards": answers_by_picks(cards, picks),
        "situations": packed_situations(results),
        # The cost of an action, the way back, and the condition.
        "actions": {
            view.card.question.axis: {
                value: {
                    key: text.replace("`", "") for key in keys if (text := getattr(action, key))
                }
                for value, action in view.card.question.actions.items()
            }
            for view in cards
        },
        "slight": SLIGHT,
        "workload": results.advice.workload,
        "cell_s": cell_s,
        "estimate": estimate_of(results),
        "shard": SHARD,
        "notable": 1 + results.advice.min_effect_pct / 100,
        "include": results.grid_settings.get("include") or [],
    }


def answers_by_picks(cards: Sequence[CardView], picks: Sequence[Pick]) -> dict[str, Row]:
    """Return by card the different answers, the number of the answer for each choice of picks, and the
    comparisons without a result although both sides were measured.

    A choice is its values in the order of the picker, joined by `|`, "" for any value.
    """
    by_card: dict[str, Row] = {}
    for view in cards:
        card, axis = view.card, view.card.question.axis
        if card.question.aggregate:
            continue
        answers: dict[Answer, int] = {}
        known: dict[tuple[str, ...], Answer] = {}
        numbers = {}
        for values in product(*(["", *(v for v, _ in pick.values)] for pick in picks)):
            chosen = {p.axis: v for p, v in zip(picks, values, strict=True) if v}
            others = {a: v for a, v in chosen.items() if a != axis}
            fitting = (str(n) for n, c in enumerate(card.cases) if fits(c.where, others))
            withheld = (f"w{n}" for n, c in enumerate(card.withheld) if fits(c.where, others))
            key = (chosen.get(axis, ""), *fitting, *withheld)
            if key not in known:
                known[key] = card.answer_for(chosen) if chosen else card.answer
            numbers["|".join(values)] = answers.setdefault(known[key], len(answers))
        texts = [[a.kind, a.short, a.sentence, a.value, a.effect] for a in answers]
        refused = [
            {"keys": {**_present(c.where), "candidate": c.candidate}}
            | {"compares": axis, "baseline": c.baseline}
            for c in card.withheld
        ]
        by_card[view.anchor] = {"by": numbers, "answers": texts, "withheld": refused}
    return by_card


def operations_of(results: Results, cards: Sequence[CardView]) -> list[Where]:
    """Return the values of command and cache of each row of the overview."""
    axes = [axis for axis in results.order if axis in (results.study.command_axis, "cache")]
    usable = [view for view in cards if not view.card.question.aggregate]
    shown = {values_in(row.where, axes) for view in usable for row in view.rows}
    keys = unique_values(values_in(row, axes) for row in results.grid)
    return [_present(dict(zip(axes, key, strict=True))) for key in keys if key in shown]


def situations_of(results: Results) -> list[tuple[str, Where, Situation]]:
    """Return the label of each situation, its values for the filter of the page, and the situation."""
    situations = results.advice.situations
    shown = varying([situation.where for situation in situations], results.order)
    return [(case_label(s.where, shown), _present(s.where), s) for s in situations]


def packed_situations(results: Results) -> list[Row]:
    """Return for each situation its values, the name of its command, and its choices, for the script.

    A choice has its values, time, call against the best one, and ratio over the best time.
    """
    packed: list[Row] = []
    for situation in results.advice.situations:
        where = _present(situation.where)
        choices = [
            [{**where, **c.values}, seconds(c.seconds), c.call, round(c.ratio, 4)]
            for c in situation.choices
        ]
        label = case_label(where, [axis for axis in where if axis in ("command", "cache")])
        name, _, cache = label.partition(", ")
        name += f" ({cache})" if cache else ""
        packed.append({"where": where, "name": name, "choices": choices})
    return packed
