"""The comparisons of a card as rows of text: result, times, interval, and notes with their flags."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.answer_texts import describe_pair_difference, pair_outcome
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import CACHE_AXIS
from vcsbench.codes import Call
from vcsbench.evidence.flags import FLAGGED_SHARE, FLAGS, Flag, flag_message
from vcsbench.plan.grid import AxisValues
from vcsbench.report.results import Rows, unique_values
from vcsbench.statistics.comparisons import is_difference

# The CSS class of a row by the call of its comparison: its outcome for the candidate. The other calls are no
# answer, so they have UNDECIDED_STYLE. "candidate" is a faster candidate, and "reference" a faster baseline.
ROW_STYLES = {
    Call.FASTER: "candidate",
    Call.SLOWER: "reference",
    Call.EQUAL: "equal",
    Call.TOO_SMALL: "small",
}
UNDECIDED_STYLE = "undecided"
# For a card that recommends its baseline: a faster recommended value has the same colour in all cards.
EXCHANGED_STYLES = {"candidate": "reference", "reference": "candidate"}
# Words in the notes of a card's rows, with their meanings.
ROW_KEY = {
    "detectable from": "the run finds a difference of this size 9 times in 10",
    "fixed cost": "process start, connection, and waits of 40 ms for delayed acknowledgements",
}
# On a page, `apart` is how far two times differ.
FLAG_LABELS: Mapping[str, str] = {Flag.APART: "not interleaved"}


@dataclass(frozen=True)
class CardRow:
    """A comparison of a card as texts. The page filters rows by `where` and by the sides of the `pair`.

    `label` is its case, and `text` the outcome for the candidate. `times` are of the baseline and the
    candidate, [] if one is unknown. `style` is a CSS class. `flags` are the names of the flags in `note`.
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

    @property
    def result(self) -> str:
        """Return the outcome with the times of baseline and candidate: `f7 2.0x faster, 1.24 s → 0.62 s`."""
        return f"{self.text}, {' → '.join(self.times)}" if self.times else self.text


def make_card_row(
    card: Card,
    case: Case,
    pair: Pair,
    *,
    sides: str,
    names_cache: bool,
    shown_flags: Collection[str],
    runs_of_sides: Sequence[Rows],
) -> CardRow:
    """Return the row of a comparison as texts, such as that of f6 and f7 in the cold log over svn.

    The `pair` compares two values of the card's axis: the baseline f6 with the candidate f7. The `case` has
    the values of all other axes. The label names the case, with the state of the caches if `names_cache`:
    `cold log over svn`. If `sides` is not "", the label begins with it: `f8 against f6: cold log over svn`.
    `shown_flags` are the flags (doubts about runs) that rows may name. `runs_of_sides` are the valid runs of
    the baseline and of the candidate.
    """
    # `card.shown` are the axes whose values distinguish the cases of the card.
    case_text = labels.case_label(case.where, card.shown, names_cache)
    candidate = labels.value_label(card.question.axis, pair.candidate)
    # The call is the outcome of the comparison for the candidate: a difference such as FASTER, or UNDECIDED.
    if is_difference(pair.call):
        # Such as `2.0x faster`, with a note if the difference is below `min_effect_pct`.
        text = describe_pair_difference(pair, card.min_effect_pct)
        # If there is a text `sides`, the label begins with the candidate already.
        if not sides:
            text = f"{candidate} {text}"
    else:
        # Such as `equal`, or `undecided: at most 1.3x apart`.
        text = pair_outcome(pair)
        # An aggregate card has one answer over all cells, mostly from few comparisons. So each of these also
        # shows its measured change: `wide interval (f7 2.0 % slower)`.
        if card.question.aggregate:
            text += f" ({candidate} {labels.change(pair.ratio)})"
    # After a single round, both ends of the interval are unknown (0). For an exact count, they are equal. The
    # outcome then takes the place of the interval: `f7 equal`.
    if 0 < pair.low < pair.high:
        interval_or_outcome = labels.change_between(pair.low, pair.high)
    else:
        interval_or_outcome = pair_outcome(pair)
    # In a hot state, all files are in memory. So name_flags() leaves out the flag on their place on a disk.
    is_hot = cache_state(case.where.get(CACHE_AXIS)).is_hot
    flags = name_flags(pair.flags, shown_flags, is_hot)
    notes = _notes_on_numbers(card, pair, runs_of_sides)
    if flags:
        notes.append(f"flags: {', '.join(label_flag(flag) for flag in flags)}")
    # The style of the call gives the row a colour: blue for a faster candidate, orange for a faster baseline.
    # If one side is the recommended value, blue means that this side is faster. So blue and orange are
    # exchanged if the card recommends the baseline. All other styles stay.
    style = ROW_STYLES.get(pair.call, UNDECIDED_STYLE)
    if card.answer.value == pair.baseline:
        style = EXCHANGED_STYLES.get(style, style)
    return CardRow(
        pair=pair,
        # "" is the value of an axis that does not apply to the case.
        where={name: value for name, value in case.where.items() if value},
        label=f"{sides}: {case_text}" if sides else case_text,
        text=text,
        # An unknown time is 0.
        times=labels.seconds_of_both(pair.times) if all(pair.times) else [],
        interval=f"{candidate} {interval_or_outcome}",
        note="; ".join(notes),
        style=style,
        flags=flags,
    )


def _notes_on_numbers(card: Card, pair: Pair, runs_of_sides: Sequence[Rows]) -> list[str]:
    """Return the notes on the numbers of a comparison, [] if it needs none. ROW_KEY explains their words.

    Example: `["25 and 25 runs in 5 rounds", "detectable from 5 %", "up to 30 % of a time is fixed cost"]`.
    `runs_of_sides` has the valid runs of the baseline and of the candidate, perhaps none.
    """
    notes = []
    # A question with `aggregate`, such as that about builds, has one answer over all cells. The answer mostly
    # has few comparisons, so its reader sees on how many runs each of them rests.
    if card.question.aggregate and all(runs_of_sides):
        baseline_runs, candidate_runs = runs_of_sides
        rounds = words.count_of(pair.rounds, "round")
        notes.append(f"{len(baseline_runs)} and {len(candidate_runs)} runs in {rounds}")
    # If a comparison shows no difference, a reader wonders how large a hidden one can be. So the note has the
    # smallest ratio that the run would have shown (`detectable`): 1.05 is 5 %, and 0 is unknown.
    lacks_difference = pair.call in (Call.EQUAL, Call.BOUNDED, Call.UNDECIDED)
    if lacks_difference and pair.detectable > 1:
        notes.append(f"detectable from {labels.detectable_text(pair.detectable)}")
    # Fixed cost is part of both times, so it makes their ratio nearer to 1. A reader relies on that ratio if
    # the comparison is decided (different or equal). FLAGGED_SHARE is a quarter of the time.
    if pair.is_decided and pair.fixed_share > FLAGGED_SHARE:
        notes.append(f"up to {100 * pair.fixed_share:.0f} % of a time is fixed cost")
    return notes


def row_key(rows: Sequence[CardRow]) -> list[tuple[str, str]]:
    """Return the words and flags in the notes of rows, each with its meaning, "" for an unknown flag."""
    notes = [row.note for row in rows]
    key = [(term, text) for term, text in ROW_KEY.items() if any(term in note for note in notes)]
    for flag in unique_values(flag for row in rows for flag in row.flags):
        meaning = ""
        if flag in FLAGS:
            # The key of a plot has no place for the threshold in brackets.
            meaning = flag_message(flag).partition(" (")[0].replace("`", "")
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
