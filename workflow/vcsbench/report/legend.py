"""The legend of a page's answers: the marks of its table and charts that occur, each with its meaning."""

from collections.abc import Sequence
from dataclasses import dataclass

from vcsbench.advice import labels
from vcsbench.advice.answer_texts import is_benchmark
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axis_names import COMMAND_AXIS
from vcsbench.codes import Result
from vcsbench.report.answers import CardView
from vcsbench.report.card_rows import row_key
from vcsbench.report.pick_answers import PickAnswer
from vcsbench.report.results import unique_values
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import BOUNDED_MARGINS

# By the CSS class of chips and dots: the word in the legend, and its meaning.
STYLE_WORDS = {
    "candidate": ("blue", "the change is faster; in a chart, the side on the right"),
    "reference": ("orange", "the change is slower; in a chart, the side on the left is faster"),
    "equal": ("equal", "any difference is shown to be below {min_effect}"),
    "undecided": ("undecided", "neither a difference nor equality is shown"),
    "small": ("too small", "mostly start-up (over half of the time), decides nothing"),
}


@dataclass(frozen=True)
class LegendEntry:
    """A mark or word with its meaning. `style` is the CSS class of its colour, "" for none."""

    style: str
    word: str
    meaning: str


def make_legend(
    cards: Sequence[CardView], pick_answers: Sequence[PickAnswer], min_effect_pct: float
) -> list[LegendEntry]:
    """Return the entries for the marks that occur in the cards or in the answers for some picks."""
    rows = [row for view in cards for row in view.rows]
    styles = {row.style for row in rows}
    for answer in pick_answers:
        for change in answer.changes:
            for proof in change.rows:
                styles.update(chip.style for chips in proof.cells for chip in chips)

    min_effect = f"{min_effect_pct:g} %"
    entries = []
    for style, (word, meaning) in STYLE_WORDS.items():
        if style in styles:
            entries.append(LegendEntry(style, word, meaning.format(min_effect=min_effect)))
    if any(row.pair.result == Result.BOUNDED for row in rows):
        bound = f"any difference is shown to be below {BOUNDED_MARGINS * min_effect_pct:g} %"
        meaning = f"{bound}; a chart has its bound, such as: at most 1.14x apart"
        entries.append(LegendEntry("", texts.RESULTS[Result.BOUNDED], meaning))
    if rows:
        band = f"below {min_effect}. A coloured dot in it is a sure but small difference."
        entries.append(LegendEntry("", "Line", "95 % interval."))
        entries.append(LegendEntry("", "Grey band:", band))
    for word, meaning in row_key(rows):
        entries.append(LegendEntry("", word, meaning))
    # The commands of svnbench are in charts only, whose labels do not explain them.
    commands = [row.where[COMMAND_AXIS] for row in rows if is_benchmark(row.where)]
    for command in unique_values(commands):
        meaning = load_vocabulary().value(COMMAND_AXIS, command).meaning.replace("`", "")
        label = labels.value_label(COMMAND_AXIS, command)
        entries.append(LegendEntry("", label, meaning))
    return entries
