"""The cards of a page: each question with its answer, its comparisons, and commands that apply values.

A card has a question about one axis, such as the format. Its cases are groups of cells that differ only in
this axis. A pair is a comparison of two values in a case. An aggregate card, such as one on builds, has one
answer over all cells.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice.cards import Card, fits
from vcsbench.advice.decision import Case, Pair
from vcsbench.advice.labels import value_label
from vcsbench.advice.questions import CardAction
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axis_names import ACCESS_AXIS, CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import AnswerKind
from vcsbench.evidence.flags import BUSY_FLAGS, Flag
from vcsbench.report import card_texts
from vcsbench.report.answer_texts import LESS_CLIENT_WORK, AnswerText
from vcsbench.report.card_rows import CardRow, make_card_row
from vcsbench.report.card_texts import RoleText, describe_role
from vcsbench.report.change_costs import describe_costs
from vcsbench.report.finding_tables import Reversal, describe_opposites
from vcsbench.report.pick_answers import anchor_of
from vcsbench.report.results import Results, grouped_by, unique_values, values_in, varying

# A flag on more comparisons than this share is no help to tell them apart.
NEARLY_ALL = 0.8
# Flags that cards show in other words, or not at all.
PLAIN_FLAGS = {"low-n", "mean-cpu", "mostly-fixed-cost", Flag.SAME_BINARIES}
# Flags that only aggregate cards name: one doubtful run can change their one answer (shown_flags).
AGGREGATE_FLAGS = ("outlier-10", "outlier-20", "too-short")
UNANSWERED = (AnswerKind.NOT_MEASURED, AnswerKind.NOT_COMPARED)


@dataclass(frozen=True)
class ValueAction:
    """The commands that apply a value. `value` is "" for other commands, such as one that measures more."""

    value: str
    label: str
    action: CardAction


@dataclass(frozen=True)
class CardView:
    """A card of the page. `left` and `right` name the sides of its forest plot.

    `anchor` is its place on the page, `rows` are its comparisons. `same` names the values that all of them
    have. `lines` are remarks below the answer, `costs` sentences on the measured price of a change.
    `opposites` is a sentence on its comparisons whose published results are the opposite, "" without any.
    """

    card: Card
    texts: Sequence[AnswerText]
    roles: Sequence[RoleText]
    anchor: str
    rows: Sequence[CardRow]
    left: str
    right: str
    same: str
    actions: Sequence[ValueAction]
    lines: Sequence[str]
    costs: Sequence[str]
    opposites: str = ""


def make_card_views(results: Results, opposites: Sequence[Reversal] = ()) -> list[CardView]:
    """Return the cards of a page in the order of the advice. Cards without an answer are last.

    `opposites` are comparisons whose published result is the opposite of the measured one.
    """
    flags_of_aggregates = shown_flags(results)
    flags_of_others = flags_of_aggregates.difference(AGGREGATE_FLAGS)
    cards = sorted(results.advice.cards, key=lambda card: card.answer.kind in UNANSWERED)
    views = []
    for card in cards:
        # An aggregate card, such as one on builds, has one answer over all cells.
        flags = flags_of_aggregates if card.question.aggregate else flags_of_others
        left, right = _name_sides(card)
        view = CardView(
            card=card,
            texts=card_texts.describe_answers(card),
            roles=[describe_role(role) for role in card.roles],
            anchor=anchor_of(card),
            rows=_make_rows(card, results, flags),
            left=left,
            right=right,
            same=_describe_same(card, results),
            actions=_find_actions(card),
            lines=_make_lines(card, results),
            opposites=describe_opposites(card, opposites),
            costs=describe_costs(results, card.question.axis),
        )
        views.append(view)
    return views


def shown_flags(results: Results) -> set[str]:
    """Return the flags that the rows of cards may name: `{"apart"}`.

    These flags are left out:

    - a flag of more than 80 % of all comparisons (NEARLY_ALL): a mark on each row tells a reader nothing,
    - PLAIN_FLAGS, such as `low-n`, which cards show in other words or not at all,
    - BUSY_FLAGS, such as `cpu-busy`: the page has one sentence on the runs that other programs disturbed,
    - AGGREGATE_FLAGS, such as `outlier-20`, unless a comparison of an aggregate card has the flag.
    """
    number_of_pairs = 0
    counts: Counter[str] = Counter()
    for card in results.advice.cards:
        # The one answer of an aggregate card can rest on one doubtful run. On other cards, the interval of
        # each comparison already contains the scatter of its runs.
        ignored_flags = () if card.question.aggregate else AGGREGATE_FLAGS
        pairs = [pair for case in card.cases for pair in case.pairs]
        number_of_pairs += len(pairs)
        for pair in pairs:
            counts.update(flag for flag in pair.flags if flag not in ignored_flags)
    frequent = {flag for flag, count in counts.items() if count > NEARLY_ALL * number_of_pairs}
    return counts.keys() - frequent - PLAIN_FLAGS - BUSY_FLAGS


def _list_pairs(card: Card) -> list[tuple[Case, Pair]]:
    """Return each comparison that the answer of a card counts, with its case."""
    return [(case, pair) for case in card.counted_cases for pair in case.pairs]


def _describe_same(card: Card, results: Results) -> str:
    """Return the values that all comparisons of a card have: `loopback, no password, OS cache warm`.

    An axis with one value in the whole grid is left out, because that value is the same on all cards.
    Repositories are left out, because the head of the page names them.
    """
    # The cases from which the answer is made, each with the values of all axes but the question's.
    wheres = [case.where for case in card.counted_cases]
    # A card on capacity asks with how many clients a latency has doubled (`doubles` names this latency). It
    # has no cases, so the cells of its question take their place.
    if card.question.doubles:
        wheres = [cell for cell in results.grid if fits(cell, card.question.where)]
    left_out = {card.question.axis, *results.study.axes_of("repositories")}
    names = []
    for axis in varying(results.grid, results.order):
        values = {where.get(axis, "") for where in wheres}
        # An axis that does not apply to a case has the value "".
        if axis not in left_out and len(values) == 1 and "" not in values:
            names.append(value_label(axis, values.pop()))
    return ", ".join(names)


def _name_sides(card: Card) -> tuple[str, str]:
    """Return the labels of the left and the right side of a card's plot, its baselines and candidates.

    A noise check (A/A test) compares a build with itself, so it does not answer the question. It names the
    sides only if the card has no other pairs.
    """
    axis = card.question.axis
    pairs = [pair for _, pair in _list_pairs(card)]
    naming_pairs = [pair for pair in pairs if not pair.is_noise_check] or pairs
    baselines = unique_values(pair.baseline for pair in naming_pairs)
    candidates = unique_values(pair.candidate for pair in naming_pairs)
    return _name_side(axis, baselines), _name_side(axis, candidates)


def _name_side(axis: str, values: Sequence[str]) -> str:
    """Return the label of a side of a forest plot: `f6`, `f7 or f8`, or `another value` for three or more."""
    if len(values) > 2:
        return "another value"
    return " or ".join(value_label(axis, value) for value in values)


def _find_actions(card: Card) -> list[ValueAction]:
    """Return the commands for each measured value, if it has any, and the command that measures more."""
    question = card.question
    actions = []
    for value in unique_values(value for case in card.cases for value in case.times):
        action = question.actions.get(value)
        if action:
            actions.append(ValueAction(value, value_label(question.axis, value), action))
    if question.how_to_measure:
        actions.append(ValueAction("", "Measure more values", question.how_to_measure))
    return actions


def _make_lines(card: Card, results: Results) -> list[str]:
    """Return the remarks below a card's answer as sentences, in the order of the page."""
    if card.question.aggregate:
        lines = card_texts.describe_lines(card)
    else:
        lines = card_texts.describe_notes(card)
    if card.question.is_cost:
        lines += _explain_values(card)
    lines += _name_unmeasured_values(card, results)
    lines += _describe_uncounted_cases(card)
    # The lines of an aggregate card have these sentences already.
    if not card.question.aggregate:
        lines += card_texts.describe_missing_values(card)
    return lines


def _explain_values(card: Card) -> list[str]:
    """Return the meanings of a card's values in a sentence: `https: through httpd with TLS 1.3.`

    A card on the cost of https, for example, needs it: it recommends no value, so it has no command that
    shows what a value is. The reference is left out: it is the value without the cost, such as http.
    """
    axis = card.question.axis
    meanings = []
    for value in unique_values(value for case in card.cases for value in case.times):
        meaning = load_vocabulary().value(axis, value).explanation
        if meaning and value != card.reference:
            meanings.append(f"{value_label(axis, value)}: {meaning}")
    return [f"{'; '.join(meanings)}."] if meanings else []


def _name_unmeasured_values(card: Card, results: Results) -> list[str]:
    """Return `This run did not measure f8.` for values that the study has and the grid lacks."""
    axis = card.question.axis
    study_values = results.study.axes.get(axis, ())
    # A study can name a key of the configuration, such as `builds`, in place of values. The user has chosen
    # these values, and so misses none.
    is_chosen_by_user = isinstance(study_values, str)
    # A question that lists its values needs no others.
    if is_chosen_by_user or card.question.values:
        return []
    in_grid = {cell.get(axis) for cell in results.grid}
    unmeasured = [value_label(axis, value) for value in study_values if value not in in_grid]
    return [f"This run did not measure {words.enumeration(unmeasured)}."] if unmeasured else []


def _describe_uncounted_cases(card: Card) -> list[str]:
    """Return a sentence on the comparisons that the answer of a card does not count, with the reason.

    Example: `4 comparisons of null-log are in the tables only: no other command is decided.` They are of
    commands of svnbench, a test program that no user runs (Card.uncounted_cases).
    """
    cases = card.uncounted_cases
    if not cases:
        return []
    commands = words.enumeration(unique_values(case.where[COMMAND_AXIS] for case in cases))
    subject = words.count_of(
        sum(len(case.pairs) for case in cases),
        f"comparison of {commands} is",
        f"comparisons of {commands} are",
    )
    # An answer about the access never counts svnbench. Any other answer counts it, unless users' commands
    # have cases, too, and none of these is decided.
    is_about_access = card.question.axis == ACCESS_AXIS
    reason = LESS_CLIENT_WORK if is_about_access else "no other command is decided"
    return [f"{subject} in the tables only: {reason}."]


def _make_rows(card: Card, results: Results, flags: Collection[str]) -> list[CardRow]:
    """Return a row for each comparison that the answer of a card counts, decided ones first (_rank_pair).

    `flags` are those that rows may name (shown_flags).
    """
    axis = card.question.axis
    axes = list(results.order)
    # A cell is identified by its values of all axes: ("log", "svn", "f7", "cold").
    runs_of_cells = grouped_by(results.valid_runs, lambda run: values_in(run, axes))
    pairs = sorted(_list_pairs(card), key=_rank_pair)
    # A row's label names a baseline, a candidate or a state of the caches only if rows differ in it. What all
    # rows share is named once: the compared values at the chart, the state of the caches above it.
    names_cache = len({case.where.get(CACHE_AXIS) for case, _ in pairs}) > 1
    names_candidate = len({pair.candidate for _, pair in pairs}) > 1
    names_baseline = len({pair.baseline for _, pair in pairs}) > 1
    rows = []
    for case, pair in pairs:
        # A case has the values of all axes except the question's, here `format`. So {"command": "log"} and
        # the two sides f6 and f7 are two cells.
        cells = [values_in({**case.where, axis: value}, axes) for value in pair.sides]
        label_prefix = ""
        if names_candidate or names_baseline:
            label_prefix = _label_compared_values(axis, pair, names_baseline)
        row = make_card_row(
            card,
            case,
            pair,
            label_prefix=label_prefix,
            names_cache=names_cache,
            shown_flags=flags,
            runs_of_sides=[runs_of_cells.get(cell, []) for cell in cells],
        )
        rows.append(row)
    return rows


def _label_compared_values(axis: str, pair: Pair, names_baseline: bool) -> str:
    """Return `f8`, with `names_baseline` also the baseline: `f8 against f6`."""
    label = value_label(axis, pair.candidate)
    if pair.is_noise_check:
        label += " (the same build)"
    if names_baseline:
        label += f" against {value_label(axis, pair.baseline)}"
    return label


def _rank_pair(pair_in_case: tuple[Case, Pair]) -> tuple[bool, bool, float]:
    """Return the sort key of a row: decided comparisons, then the others, then noise checks (A/A tests).

    Of each kind, the largest factor in either direction is first.
    """
    _, pair = pair_in_case
    # By its logarithm, a ratio of 1/2 is as large as one of 2.
    size = abs(math.log(pair.ratio))
    return pair.is_noise_check, not pair.is_decided, -size
