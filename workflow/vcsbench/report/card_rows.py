"""The comparisons of a card as rows of text: result, times, interval, and notes with their flags."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import CACHE_AXIS
from vcsbench.codes import Call
from vcsbench.evidence.flags import FLAGGED_SHARE, FLAGS, Flag, flag_message
from vcsbench.plan.grid import AxisValues
from vcsbench.report.answer_texts import describe_pair_difference, pair_outcome
from vcsbench.report.results import Rows, unique_values
from vcsbench.statistics.comparisons import is_difference
from vcsbench.statistics.texts import OUTCOMES

# The call of a comparison if its two sides change places. A call such as EQUAL stays.
EXCHANGED_CALLS = {Call.FASTER: Call.SLOWER, Call.SLOWER: Call.FASTER}
# A term in the notes of rows, with its meaning.
FIXED_COST_KEY = (
    "fixed cost",
    "process start, connection, and waits of 40 ms for delayed acknowledgements",
)
# On a page, `apart` is how far two times differ.
FLAG_LABELS: Mapping[str, str] = {Flag.APART: "not interleaved"}


@dataclass(frozen=True)
class CardRow:
    """A comparison of a card as texts. The page filters rows by `where` and by the sides of the `pair`.

    `label` is its case, and `text` the outcome for the candidate. `times` are of the baseline and the
    candidate, [] if one is unknown. `style` is a CSS class. `flags` are the names of the flags in `note`.
    `names_fixed_cost` is True if `note` has the term of FIXED_COST_KEY.
    """

    pair: Pair
    where: AxisValues
    label: str
    text: str
    times: Sequence[str]
    interval: str
    note: str
    style: str
    flags: Sequence[str]
    names_fixed_cost: bool = False

    @property
    def result(self) -> str:
        """Return the outcome with the times of baseline and candidate: `f7 2.0x faster, 1.24 s → 0.62 s`."""
        return f"{self.text}, {' → '.join(self.times)}" if self.times else self.text


def make_card_row(
    card: Card,
    case: Case,
    pair: Pair,
    *,
    label_prefix: str,
    names_cache: bool,
    shown_flags: Collection[str],
    runs_of_sides: Sequence[Rows],
) -> CardRow:
    """Return the row of a comparison as texts, such as f6 and f7 in the cold log over svn.

    The label is the case, `cold log over svn`, without the state of the caches unless `names_cache`. A
    `label_prefix` has the compared values, if they differ between rows: `f8 against f6: cold log over svn`.
    `shown_flags` are the flags that rows may name. `runs_of_sides` are the valid runs of the baseline and of
    the candidate.
    """
    # `card.shown` are the axes whose values distinguish the cases of the card.
    case_text = labels.case_label(case.where, card.shown, names_cache)
    times: list[str] = []
    # An unknown time is 0.
    if all(pair.times):
        has_factor = is_difference(pair.call) or card.question.aggregate
        times = labels.seconds_of_both(pair.times, has_factor)
    notes = _notes_on_numbers(card, pair, runs_of_sides)
    is_hot = cache_state(case.where.get(CACHE_AXIS)).is_hot
    flags = name_flags(pair.flags, shown_flags, is_hot)
    if flags:
        notes.append(f"flags: {', '.join(label_flag(flag) for flag in flags)}")
    return CardRow(
        pair=pair,
        # "" is the value of an axis that does not apply to the case.
        where={name: value for name, value in case.where.items() if value},
        label=f"{label_prefix}: {case_text}" if label_prefix else case_text,
        text=_describe_outcome(card, pair, names_candidate=not label_prefix),
        times=times,
        interval=_describe_interval(card, pair),
        note="; ".join(notes),
        style=_choose_style(card, pair),
        flags=flags,
        names_fixed_cost=_has_large_fixed_cost(pair),
    )


def _describe_outcome(card: Card, pair: Pair, names_candidate: bool) -> str:
    """Return the outcome of a comparison: `f7 2.0x faster`, `equal`, `undecided: at most 1.3x apart`.

    Without `names_candidate`, a difference is only `2.0x faster`: the label begins with the candidate.
    """
    candidate = labels.value_label(card.question.axis, pair.candidate)
    if is_difference(pair.call):
        # With a note if the difference is below `min_effect_pct`.
        difference = describe_pair_difference(pair, card.min_effect_pct)
        return f"{candidate} {difference}" if names_candidate else difference
    outcome = pair_outcome(pair)
    # An aggregate card, such as one on builds, mostly has few comparisons. So their measured ratios are of
    # interest without a certain difference, too: `wide interval (f7 2.0 % slower)`.
    if card.question.aggregate:
        return f"{outcome} ({candidate} {labels.change(pair.ratio)})"
    return outcome


def _describe_interval(card: Card, pair: Pair) -> str:
    """Return the 95 % interval of a comparison, `f7 1.8x to 2.2x faster`, or its outcome without one.

    One round has no interval (both ends are 0), and neither has an exact count (both ends are equal).
    """
    candidate = labels.value_label(card.question.axis, pair.candidate)
    if pair.has_interval:
        return f"{candidate} {labels.change_between(pair.low, pair.high)}"
    return f"{candidate} {pair_outcome(pair)}"


def _choose_style(card: Card, pair: Pair) -> str:
    """Return the CSS class of a row, whose colour is blue if the value that the card recommends is faster.

    The styles of OUTCOMES are blue if the candidate is faster, so a recommended baseline needs the opposite
    call. Without a recommendation, blue stays with the candidate.
    """
    call = pair.call
    if card.answer.value == pair.baseline:
        call = EXCHANGED_CALLS.get(call, call)
    return OUTCOMES[call].style


def _notes_on_numbers(card: Card, pair: Pair, runs_of_sides: Sequence[Rows]) -> list[str]:
    """Return the notes on the numbers of a comparison, [] if it needs none.

    Example: `["25 and 25 runs in 5 rounds", "up to 30 % of a time is fixed cost"]`.
    """
    notes = []
    # An aggregate answer mostly has few comparisons, so its reader sees on how many runs each of them rests.
    if card.question.aggregate and all(runs_of_sides):
        baseline_runs, candidate_runs = runs_of_sides
        rounds = words.count_of(pair.rounds, "round")
        notes.append(f"{len(baseline_runs)} and {len(candidate_runs)} runs in {rounds}")
    if _has_large_fixed_cost(pair):
        notes.append(f"up to {100 * pair.fixed_share:.0f} % of a time is fixed cost")
    return notes


def _has_large_fixed_cost(pair: Pair) -> bool:
    """Return True if fixed cost changes the ratio of a decided comparison.

    Fixed cost is part of both times, so it makes their ratio nearer to 1. A reader relies on the ratio of a
    decided comparison only.
    """
    return pair.is_decided and pair.fixed_share > FLAGGED_SHARE


def row_key(rows: Sequence[CardRow]) -> list[tuple[str, str]]:
    """Return the term and the flags in the notes of rows, each with its meaning."""
    key = []
    if any(row.names_fixed_cost for row in rows):
        key.append(FIXED_COST_KEY)
    return key + flag_key(row.flags for row in rows)


def flag_key(flags_of_rows: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the labels of the flags of several rows, each once with its meaning, "" for an unknown flag."""
    key = []
    for flag in unique_values(flag for flags in flags_of_rows for flag in flags):
        # The key has no style for code.
        meaning = flag_message(flag).replace("`", "") if flag in FLAGS else ""
        key.append((label_flag(flag), meaning))
    return key


def label_flag(flag: str) -> str:
    """Return the label of a flag on pages: the flag itself, except for a word with a second meaning there."""
    return FLAG_LABELS.get(flag, flag)


def name_flags(flags: Iterable[str], shown_flags: Collection[str], is_hot: bool) -> list[str]:
    """Return those flags of a comparison or of runs that are in `shown_flags`, each once.

    `is_hot` is True if all files are in memory during the runs.
    """
    names = [flag for flag in unique_values(flags) if flag in shown_flags]
    # In memory, it does not matter where the copies lie on a device.
    return [name for name in names if not (is_hot and name == Flag.APART)]
