"""The cards of a page with their comparisons, "What I have", and situations."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import Card, Situation
from vcsbench.advice.decision import Case, Pair, Row, Where
from vcsbench.advice.labels import (
    ActionStep,
    CardAction,
    axis_label,
    case_label,
    detectable_text,
    value_label,
)
from vcsbench.axes.client_server import BUILD_AXIS
from vcsbench.codes import AnswerKind
from vcsbench.evidence.flags import BUSY, Flag
from vcsbench.formats import default_format
from vcsbench.report import charts
from vcsbench.report.card_rows import CardRow, card_row
from vcsbench.report.pick_answers import anchor_of
from vcsbench.report.results import Results, grouped_by, unique_values, values_in, varying
from vcsbench.report.summary import command_with, count_disturbed, variables_of
from vcsbench.statistics import comparisons

NOT_PICKED = ("cache", "clients", "build")
# Each has a table of answers in the page.
MAX_COMBINATIONS = 300
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


@dataclass(frozen=True)
class CardView:
    """A card of the page; `left` and `right` name the sides of its forest plot.

    `actions` have the value, its label, and the action that applies it; `costs` are sentences.
    """

    card: Card
    anchor: str
    rows: Sequence[CardRow]
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
    names = {context["repository"].get("name") for context in results.contexts}
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
    for of in (context["repository"] for context in results.contexts):
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
    for build in (context["build"] for context in results.contexts):
        sides = (build.get(side) or {} for side in ("client", "server"))
        known = (side["version"] for side in sides if side.get("version"))
        versions.get(build.get("name", ""), []).extend(known)
    return [f"{name} {', '.join(unique_values(of))}" for name, of in versions.items() if of]


def installed_format(results: Results) -> str:
    """Return the format that the measured Subversion makes by default, "" if its version is unknown."""
    for context in results.contexts:
        if name := default_format(context["versions"].get("svn", "")):
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
    pairs.sort(key=_rank)
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
        rows.append(card_row(card, case, pair, has_several, shown, of_sides))
    costs = _costs(results, name)
    return CardView(card, anchor_of(card), rows, left, right, actions, lines, costs)


def _rank(compared: tuple[Case, Pair]) -> tuple[bool, bool, float]:
    """Return the rank of a comparison in its card: decided ones first, the largest factor first."""
    _, pair = compared
    return pair.is_noise_check, not pair.is_decided, -abs(math.log(pair.ratio))


def forest_chart_of(view: CardView, picks: Sequence[str]) -> charts.Chart:
    """Return the forest plot of a card, which follows the picks."""
    dots = [
        charts.ForestDot(
            label=row.label,
            where=row.where,
            baseline=row.pair.baseline,
            candidate=row.pair.candidate,
            ratio=row.pair.ratio,
            low=row.pair.low,
            high=row.pair.high,
            style=row.style,
            text=row.text,
            times=" → ".join(row.times),
            interval=row.interval,
            note=row.note,
        )
        for row in view.rows
    ]
    return charts.forest_chart(
        view.anchor,
        view.card.question.text,
        dots,
        (view.left, view.right),
        view.card.question.axis,
        picks,
        1 + view.card.min_effect_pct / 100,
    )


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
    study, picks, combinations = results.study, [], 1
    left_out = {*NOT_PICKED, study.command_axis, *study.axes_of("repositories")}
    # An answer over all cells follows no pick.
    has_cases = any(not view.card.question.aggregate for view in cards)
    for axis, known in results.order.items() if has_cases else ():
        present = {row.get(axis) for row in results.grid if not row.get("skip")}
        values = [value for value in known if value in present]
        if axis in left_out or len(values) < 2:
            continue
        combinations *= len(values) + 1
        if combinations > MAX_COMBINATIONS:
            break
        preset = values[0] if results.own_repository and axis != "ra" else ""
        labels = [(value, value_label(axis, value)) for value in values]
        picks.append(Pick(axis, axis_label(axis), labels, preset))
    return picks


def operations_of(results: Results, cards: Sequence[CardView]) -> list[Where]:
    """Return the values of command and cache of each operation that a card compares."""
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
