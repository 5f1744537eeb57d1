"""The comparisons of a card as rows of text: result, times, interval, and notes with their flags."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.answer_texts import LESS_WORK, has_less_work, pair_outcome, pair_text
from vcsbench.advice.cards import Card
from vcsbench.advice.decision import Case, Pair, Where
from vcsbench.axes.cache_states import cache_state
from vcsbench.codes import Call
from vcsbench.evidence.flags import BUSY, FLAGGED_SHARE, FLAGS, flag_message
from vcsbench.report.results import Rows, contradicts_medians, median_seconds, unique_values

# The style of a row by the outcome of its comparison.
STYLES = {
    Call.FASTER: "candidate",
    Call.SLOWER: "reference",
    Call.EQUAL: "equal",
    Call.TOO_SMALL: "small",
}
# Words in the notes of a card's rows.
ROW_KEY = {
    "! disturbed": "other programs took time of the machine during these runs",
    "detectable from": "a true difference of this size would be called in 9 of 10 sessions",
    "medians, as in tables": "their quotient is more than 5 % from the factor, which uses every run",
    "fixed cost": "process start, connection, and waits of 40 ms for delayed acknowledgements",
}


@dataclass(frozen=True)
class CardRow:
    """A comparison of a card as texts. `where` and the sides of the `pair` are for the picks.

    `times` are of the baseline and the candidate, [] if one is unknown. `flags` are those in `note`.
    """

    pair: Pair
    where: Where
    label: str
    text: str
    times: Sequence[str]
    interval: str
    note: str
    style: str
    flags: Sequence[str]
    is_disturbed: bool


def card_row(
    card: Card,
    case: Case,
    pair: Pair,
    has_several: bool,
    shown_flags: Collection[str],
    runs: Sequence[Rows],
) -> CardRow:
    """Return the row of a comparison. `runs` are the valid runs of its two sides.

    With `has_several` pairs in a case, the label has both sides. `shown_flags` are the flags that rows name.
    """
    axis, label = card.question.axis, labels.case_label(case.where, card.shown)
    if has_several:
        same = " (the same build)" if pair.is_noise_check else ""
        candidate, baseline = (
            labels.value_label(axis, side) for side in (pair.candidate, pair.baseline)
        )
        label = f"{candidate}{same} against {baseline}: {label}"
    # Both times are measured, so that the reader finds them in the table of the same cells.
    times = labels.seconds_of_both(pair.times) if all(pair.times) else []
    interval = pair_outcome(pair)
    if 0 < pair.low < pair.high:
        interval = labels.change_between(pair.low, pair.high)
    both_runs = [run for side in runs for run in side]
    disturbed, flags = flag_texts(
        pair.flags, shown_flags, cache_state(case.where.get("cache")).is_hot, both_runs
    )
    return CardRow(
        pair=pair,
        where={axis: value for axis, value in case.where.items() if value},
        label=label,
        text=pair_text(axis, pair, card.min_effect_pct, of_candidate=card.question.aggregate),
        times=times,
        interval=f"{labels.value_label(axis, pair.candidate)} {interval}",
        note="; ".join(_notes(card, case, pair, runs, disturbed, flags)),
        style=STYLES.get(pair.call, "undecided"),
        flags=flags,
        is_disturbed=bool(disturbed),
    )


def _notes(
    card: Card,
    case: Case,
    pair: Pair,
    runs: Sequence[Rows],
    disturbed: str,
    flags: Sequence[str],
) -> list[str]:
    notes = []
    if disturbed:
        notes.append(disturbed)
    if card.question.aggregate and all(runs):
        rounds = words.count_of(pair.rounds, "round")
        notes.append(f"{len(runs[0])} and {len(runs[1])} runs in {rounds}")
    if pair.call in (Call.EQUAL, Call.BOUNDED, Call.UNDECIDED) and pair.detectable > 1:
        notes.append(f"detectable from {labels.detectable_text(pair.detectable)}")
    if pair.is_decided and pair.fixed_share > FLAGGED_SHARE:
        notes.append(f"up to {100 * pair.fixed_share:.0f} % of a time is fixed cost")
    medians = [median_seconds(side) for side in runs]
    if contradicts_medians(pair.ratio, medians):
        times = " → ".join(labels.seconds_of_both(medians))
        quotient = labels.factor(labels.at_least_1(medians[0] / medians[1]))
        notes.append(f"medians, as in tables: {times} ({quotient})")
    if flags:
        notes.append(f"flags: {', '.join(flags)}")
    if has_less_work(card.question.axis, case.where):
        notes.append(f"decides nothing: {LESS_WORK}")
    return notes


def row_key(rows: Sequence[CardRow]) -> list[tuple[str, str]]:
    """Return the marks and flags in the rows of a card, with their meanings."""
    key = [(mark, text) for mark, text in ROW_KEY.items() if any(mark in row.note for row in rows)]
    for flag in unique_values(flag for row in rows for flag in row.flags):
        meaning = flag_message(flag).partition(" (")[0].replace("`", "") if flag in FLAGS else ""
        key.append((flag, meaning))
    return key


def flag_texts(
    flags: Iterable[str], shown: Collection[str], is_hot: bool, runs: Rows
) -> tuple[str, list[str]]:
    """Return `! disturbed in 3 of 20 runs`, or "", and the others of the `shown` flags.

    The position of copies that are read from memory does not matter.
    """
    names = [flag for flag in unique_values(flags) if flag in shown]
    number = sum(not BUSY.isdisjoint(run["flags"].split()) for run in runs)
    share = f" in {number} of {words.count_of(len(runs), 'run')}" if number else ""
    disturbed = "" if BUSY.isdisjoint(names) else f"! disturbed{share}"
    return disturbed, [f for f in names if f not in BUSY and not (is_hot and f == "apart")]
