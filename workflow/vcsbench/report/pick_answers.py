"""The answers for each combination of picks: a table of changes with effects, and an answer for each card.

They are decided in advice/steps.py. The page shows those of the picked combination.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels, steps
from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.cards import Advice, Card, fits, has_side
from vcsbench.advice.decision import Where
from vcsbench.advice.steps import ChangeEffect, Outcome, ReaderState, StepPlan, ValueChange, Worth
from vcsbench.evidence.flags import BUSY
from vcsbench.report.results import grouped_by, unique_values

# The styles of chips.
STYLES = {
    ChangeEffect.FASTER: "candidate",
    ChangeEffect.SLOWER: "reference",
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.SMALL: "small",
}
EFFECTS = {
    ChangeEffect.EQUAL: "equal",
    ChangeEffect.UNDECIDED: "undecided",
    ChangeEffect.SMALL: "too small",
}
# The headings of changes that are no steps.
HEADINGS = {
    Worth.SLIGHT: "No reason to change",
    Worth.EQUAL: "No reason to change",
    Worth.KEEP: "No reason to change",
    Worth.UNDECIDED: "Undecided",
    Worth.SMALL: "Too small to compare",
}
NOT_COMPARED = "Measured, but not compared (the card has the reason)"
NOT_MEASURED = "Not measured for what you have"


@dataclass(frozen=True)
class ChipSettings:
    """The factor from which a difference matters, such as 1.1, and True if disturbed results have a mark."""

    margin: float
    marks_disturbed: bool


@dataclass(frozen=True)
class Chip:
    """A coloured result of a change for an operation: its text, its times, and a mark if it is disturbed."""

    text: str
    style: str
    times: str = ""
    is_disturbed: bool = False


@dataclass(frozen=True)
class ProofRow:
    """The results of a change in one state of the repository, with the chips of each operation."""

    label: str
    cells: Sequence[Sequence[Chip]]


@dataclass(frozen=True)
class ChangeView:
    """A part of the table: the change, its price and the way back, and its results."""

    lead: str
    anchor: str
    cost: str
    undo: str
    rows: Sequence[ProofRow]


@dataclass(frozen=True)
class CardAnswer:
    """The answer of a card for the picks. `value` is the value to apply, "" for none."""

    anchor: str
    kind: str
    short: str
    sentence: str
    value: str


@dataclass(frozen=True)
class PickAnswer:
    """The answers for one combination of picks.

    `open_axes` are the labels of axes without a pick, `operations` the headings of the table, `remarks` other
    sentences with a heading, `disturbed` a sentence on disturbed comparisons.
    """

    picks: Where
    has: str
    open_axes: Sequence[str]
    operations: Sequence[str]
    changes: Sequence[ChangeView]
    remarks: Sequence[tuple[str, str]]
    cards: Sequence[CardAnswer]
    disturbed: str


def pick_answers(
    advice: Advice,
    combinations: Sequence[Where],
    axes: Sequence[str],
    operations: Sequence[Where],
    marks_disturbed: bool = True,
) -> list[PickAnswer]:
    """Return the answers for each combination. `axes` are those of the picker."""
    return [
        _pick_answer(advice, picks, axes, operations, marks_disturbed) for picks in combinations
    ]


def _pick_answer(
    advice: Advice,
    picks: Where,
    axes: Sequence[str],
    operations: Sequence[Where],
    marks_disturbed: bool,
) -> PickAnswer:
    cards = [card for card in advice.cards if not card.question.aggregate]
    settings = ChipSettings(1 + advice.min_effect_pct / 100, marks_disturbed)
    plan = steps.plan_of(cards, picks, settings.margin, advice.workload)
    depending = [c for c in plan.others if c.worth in (Worth.DO, Worth.DEPENDS)]
    changes = [*plan.steps, *depending]
    shown = [
        where
        for where in operations
        if any(outcome.operation == where for change in changes for outcome in change.outcomes)
    ]
    views = [
        _change_view(number, changes, plan, advice, shown, settings)
        for number in range(1, len(changes) + 1)
    ]
    return PickAnswer(
        picks=picks,
        has=", ".join(labels.value_label(axis, value) for axis, value in picks.items()),
        open_axes=[labels.axis_label(axis) for axis in axes if axis not in picks],
        operations=[labels.case_label(where, list(where)) for where in shown],
        changes=views,
        remarks=_remarks(plan, cards, picks, settings),
        cards=[_card_answer(card, picks, plan, changes) for card in cards],
        disturbed=_disturbed(cards, picks) if marks_disturbed else "",
    )


def anchor_of(card: Card) -> str:
    return f"card-{card.question.axis}"


def _change_view(
    number: int,
    changes: Sequence[ValueChange],
    plan: StepPlan,
    advice: Advice,
    operations: Sequence[Where],
    settings: ChipSettings,
) -> ChangeView:
    change = changes[number - 1]
    is_step = number <= len(plan.steps)
    lead = "Do first" if number == 1 else "Then"
    if not is_step:
        lead = _condition(change, advice)
    label = labels.value_label(change.axis, change.value)
    action = change.card.question.actions.get(change.value)
    rows = _proof_rows(change, plan.states, operations, settings)
    picks = plan.states[0].values
    # All steps so far together, once the reader's own combination is known.
    if is_step and number == len(plan.steps) and number > 1:
        rows += _together_row(advice, picks, plan.states[-1].values, number, operations, settings)
    return ChangeView(
        lead=f"{lead}: {label}{_place(number, changes)}.",
        anchor=anchor_of(change.card),
        cost=action.cost.replace("`", "") if action else "",
        undo=action.undo.replace("`", "") if action else "",
        rows=rows,
    )


def _place(number: int, changes: Sequence[ValueChange]) -> str:
    """Return the place of a load before packing, because a load makes a repository that is not packed."""
    axes = [change.axis for change in changes]
    load = axes.index("format") + 1 if "format" in axes else 0
    pack = axes.index("packing") + 1 if "packing" in axes else 0
    if number == load and 0 < pack < load:
        return f", before step {pack} (the new repository is not packed)"
    if number == pack and pack < load:
        return f", after step {load} if you take that"
    return ""


def _condition(change: ValueChange, advice: Advice) -> str:
    """Return the condition of a change that is no step: `Only if you can stop commits for a load`."""
    conditions = []
    if change.worth is Worth.DEPENDS:
        faster, slower = (
            unique_values(
                labels.case_label(outcome.operation, list(outcome.operation))
                for outcome in change.outcomes
                if outcome.effect is effect
            )
            for effect in (ChangeEffect.FASTER, ChangeEffect.SLOWER)
        )
        if advice.workload or not {*faster}.isdisjoint(slower):
            condition = f", only if {change.condition}" if change.condition else ""
            return f"Depends on what you run{condition}"
        verb = "matter" if len(faster) > 1 else "matters"
        gains, losses = words.enumeration(faster), words.enumeration(slower)
        conditions.append(f"{gains} {verb} more to you than {losses}")
    if change.condition:
        conditions.append(change.condition)
    instead = f", instead of step {change.instead}" if change.instead else ""
    return f"Only if {', and '.join(conditions)}{instead}"


def _proof_rows(
    change: ValueChange,
    states: Sequence[ReaderState],
    operations: Sequence[Where],
    settings: ChipSettings,
) -> list[ProofRow]:
    """Return a row for each state in which a change was measured: `as you are`, `after: packed`."""
    present = states[0].values
    rows = []
    for state in states:
        if state.values.get(change.axis) != present.get(change.axis):
            continue
        outcomes = steps.outcomes_of(change.card, change.value, [state])
        cells = [_chips(outcomes, where, settings) for where in operations]
        changed = [
            labels.value_label(axis, value)
            for axis, value in state.values.items()
            if present.get(axis) != value
        ]
        label = "as you are" if present else "alone"
        if changed:
            label = f"after: {', '.join(changed)}"
        if any(cells):
            rows.append(ProofRow(label, cells))
    return rows


def _together_row(
    advice: Advice,
    before: Where,
    after: Where,
    number: int,
    operations: Sequence[Where],
    settings: ChipSettings,
) -> list[ProofRow]:
    outcomes = steps.together(advice.situations, before, after, settings.margin)
    cells = [_chips(outcomes, where, settings) for where in operations]
    first = "steps 1 and 2" if number == 2 else f"steps 1 to {number}"
    return [ProofRow(f"{first} together", cells)] if any(cells) else []


def _chips(outcomes: Sequence[Outcome], operation: Where, settings: ChipSettings) -> list[Chip]:
    """Return a chip for each effect on an operation: `1.7x faster in 2 of 3`."""
    own = [outcome for outcome in outcomes if outcome.operation == operation]
    chips = []
    for effect, members in grouped_by(own, lambda outcome: outcome.effect).items():
        factors = [outcome.factor for outcome in members]
        text = EFFECTS.get(effect, "")
        if effect in (ChangeEffect.FASTER, ChangeEffect.SLOWER):
            text = f"{labels.factors(factors)} {effect}"
            if max(factors) < settings.margin:
                text += f", {labels.SLIGHT}"
        if len(members) < len(own):
            text += f" in {len(members)} of {len(own)}"
        times = ""
        only = members[0]
        if len(members) == 1 and only.before_s and only.after_s:
            times = " → ".join(labels.seconds_of_both([only.before_s, only.after_s]))
        is_disturbed = settings.marks_disturbed and any(
            not BUSY.isdisjoint(outcome.flags) for outcome in members
        )
        chips.append(Chip(text, STYLES[effect], times, is_disturbed))
    return chips


def _remarks(
    plan: StepPlan, cards: Sequence[Card], picks: Where, settings: ChipSettings
) -> list[tuple[str, str]]:
    """Return what is no reason to change, what is open, and what was not measured, with headings."""
    texts: dict[str, list[str]] = {}
    for change in plan.others:
        heading = HEADINGS.get(change.worth)
        if heading:
            texts.setdefault(heading, []).append(_remark(change, picks, settings))
    for card in cards:
        if any(fits(case.where, picks) for case in card.cases):
            continue
        current = picks.get(card.question.axis, "")
        is_withheld = any(
            fits(comparison.where, picks) and has_side(comparison, current)
            for comparison in card.withheld
        )
        heading = NOT_COMPARED if is_withheld else NOT_MEASURED
        texts.setdefault(heading, []).append(card.question.short.removesuffix("?"))
    return [(heading, "; ".join(members)) for heading, members in texts.items()]


def _remark(change: ValueChange, picks: Where, settings: ChipSettings) -> str:
    """Return `settings: tuned settings (cold log equal; export undecided)`."""
    results = []
    by_operation = grouped_by(change.outcomes, lambda outcome: tuple(outcome.operation.items()))
    for operation in by_operation:
        where = dict(operation)
        chips = ", ".join(chip.text for chip in _chips(change.outcomes, where, settings))
        results.append(f"{labels.case_label(where, list(where))} {chips}")
    present = picks.get(change.axis, "")
    name = labels.value_label(change.axis, change.value)
    if present:
        name = f"{labels.value_label(change.axis, present)} to {name}"
    return f"{labels.axis_label(change.axis)}, {name} ({'; '.join(results)})"


def _card_answer(
    card: Card, picks: Where, plan: StepPlan, changes: Sequence[ValueChange]
) -> CardAnswer:
    answer = card.answer_for(picks) if picks else card.answer
    sentence = answer.sentence
    axis = card.question.axis
    # A value to keep if nothing else changes can be worth changing after the other steps.
    if answer.value and answer.value == picks.get(axis):
        for change in changes:
            if change.axis == axis:
                condition = "if you take the other steps"
                if change not in plan.steps and change.condition:
                    condition = f"only if {change.condition}"
                label = labels.value_label(axis, change.value)
                sentence += f" In the steps above, {condition}: {label}."
    if picks and card.answer.short != answer.short:
        sentence += f" Over all cases: {card.answer.short}: {card.answer.effect}."
    return CardAnswer(anchor_of(card), answer.kind, answer.short, sentence, answer.value)


def _disturbed(cards: Sequence[Card], picks: Mapping[str, str]) -> str:
    pairs = []
    for card in cards:
        current = picks.get(card.question.axis, "")
        for case in card.cases:
            if fits(case.where, picks):
                pairs += [pair for pair in case.pairs if has_side(pair, current)]
    number = sum(not BUSY.isdisjoint(pair.flags) for pair in pairs)
    if not number:
        return ""
    return f"Other programs disturbed {number} of {words.count_of(len(pairs), 'comparison')} (!)."


def operations_for(advice: Advice, operations: Sequence[Where]) -> list[Where]:
    """Return the operations that people run, or all if there are no others."""
    for_work = [where for where in operations if not is_benchmark(where)]
    return for_work or list(operations)
