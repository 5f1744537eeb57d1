"""The words and marks of a page that need an explanation, each with its meaning."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcsbench.advice import labels
from vcsbench.advice.effects import is_benchmark
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.axis_names import CACHE_AXIS, COMMAND_AXIS
from vcsbench.codes import Result
from vcsbench.plan.grid import AxisValues
from vcsbench.report.answers import CardView
from vcsbench.report.card_rows import CardRow, row_key
from vcsbench.report.findings_section import COUNTED_MEANINGS, MEANINGS
from vcsbench.report.results import Results, unique_values
from vcsbench.report.summary import IN_DIRECTION
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import BOUNDED_MARGINS
from vcsbench.systems import SUBVERSION

# Behind `faster` and `slower`: which value of a comparison is faster or slower if its dot has that colour.
COLOURED_SIDE = "in a chart, the recommended value is (without one, the value on the right)"


@dataclass(frozen=True)
class LegendEntry:
    """A mark or word with its meaning. `style` is the CSS class of its colour, "" for none."""

    style: str
    word: str
    meaning: str


def make_legend(cards: Sequence[CardView], min_effect_pct: float) -> list[LegendEntry]:
    """Return the entries that explain the colours and words of the answers, [] without a comparison.

    First come colours and words that are always explained. Then come words in the notes of comparisons, and
    commands of svnbench (a test program of Subversion), which have an entry only if they occur. Differences
    below `min_effect_pct` per cent, such as 10, are no reason to change.
    """
    rows = [row for view in cards for row in view.rows]
    if not rows:
        return []
    return [
        *_coloured_entries(min_effect_pct),
        *_uncoloured_entries(min_effect_pct),
        # The terms and flags in the notes of comparisons, such as `fixed cost`.
        *(LegendEntry("", word, meaning) for word, meaning in row_key(rows)),
        *_command_entries(rows),
    ]


def _coloured_entries(min_effect_pct: float) -> list[LegendEntry]:
    """Return the entries of the outcomes of a comparison that have a colour."""
    return [
        LegendEntry("candidate", "blue", f"faster; {COLOURED_SIDE}"),
        LegendEntry("reference", "orange", f"slower; {COLOURED_SIDE}"),
        LegendEntry(
            "equal",
            "equal",
            f"any difference is shown to be below {min_effect_pct:g} %; in the steps also a certain "
            "difference that was measured below that",
        ),
        LegendEntry(
            "undecided",
            "undecided",
            "neither a difference nor equality is certain. With many comparisons, some 95 % intervals are "
            "beside 1x by chance, so a difference has to pass a stricter test",
        ),
        LegendEntry(
            "small",
            "too small",
            "start-up can explain the difference, or runs are too short: it decides nothing",
        ),
    ]


def _uncoloured_entries(min_effect_pct: float) -> list[LegendEntry]:
    """Return the entries of words and marks that each page of answers can have, and that have no colour."""
    # The test for `nearly equal` has one side, so the interval, which has two, can reach beyond its bound.
    nearly_equal = (
        f"any difference is shown to be below {BOUNDED_MARGINS * min_effect_pct:g} %, by a one-sided test. "
        "The 95 % interval has two sides, so it can end a little farther from 1x"
    )
    band = f"below {min_effect_pct:g} %. A coloured dot in it is a sure but small difference."
    farther_end = "the end of the 95 % interval that is farther from 1x"
    return [
        LegendEntry("", texts.outcome_text(Result.BOUNDED), nearly_equal),
        LegendEntry("", "at most 1.2x apart", farther_end),
        LegendEntry("", "1.2 s → 1.0 s", "the times of the left and of the right side"),
        LegendEntry("", "bar through a dot", "95 % interval"),
        LegendEntry("", "grey band", band),
    ]


def _command_entries(rows: Sequence[CardRow]) -> list[LegendEntry]:
    """Return an entry for each command of svnbench, such as null-log: labels of charts have only its name."""
    entries = []
    commands = [row.where[COMMAND_AXIS] for row in rows if is_benchmark(row.where)]
    for command in unique_values(commands):
        # The page prints backticks as they are.
        meaning = load_vocabulary().value(COMMAND_AXIS, command).meaning.replace("`", "")
        entries.append(LegendEntry("", labels.value_label(COMMAND_AXIS, command), meaning))
    return entries


def explain_cache_states(operations: Sequence[AxisValues]) -> list[tuple[str, str]]:
    """Return the label and the meaning of each state of the caches, such as `cold`, in the operations."""
    explained = []
    for state in unique_values(operation.get(CACHE_AXIS, "") for operation in operations):
        meaning = load_vocabulary().value(CACHE_AXIS, state).meaning
        if meaning:
            explained.append((labels.value_label(CACHE_AXIS, state), meaning))
    return explained


def list_words(results: Results) -> dict[str, str]:
    """Return the words of the page with their meanings: verdicts, terms, and values of the grid.

    A word that is both a term and the label of a value has only the meaning of the value.
    """
    meanings: dict[str, str] = {}
    # Only findings and expectations have verdicts.
    if results.findings or results.expectations:
        for verdict, meaning in MEANINGS.items():
            meanings[texts.VERDICTS[verdict]] = meaning
        # Reproduced findings that state only a direction, such as `faster`, are counted under this name.
        meanings[IN_DIRECTION] = COUNTED_MEANINGS[IN_DIRECTION]
    # General terms, and then the terms of each version control system that was measured.
    vocabulary = load_vocabulary()
    meanings |= vocabulary.terms
    # In a study of trees, a context has no repository, and so no system.
    repositories = [context["repository"] for context in results.contexts if context["repository"]]
    # The key `system` is missing for Subversion.
    for system in unique_values(facts.get("system", SUBVERSION.name) for facts in repositories):
        meanings |= vocabulary.system_terms.get(system, {})
    meanings |= _explain_values(results.grid_values)
    # The page prints backticks as they are.
    return {word: meaning.replace("`", "") for word, meaning in meanings.items()}


def _explain_values(grid_values: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the meanings of axis values by label: `{"not packed": "... (nopack in commands and files)"}`.

    `grid_values` has the values of each axis. Two axes can have values with one label. Its meaning then has a
    part for each axis: `{"git": "system: ...; access: ..."}`.
    """
    vocabulary = load_vocabulary()
    # By label, and then by axis.
    meanings_by_axis: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for axis, values in grid_values.items():
        for value in values:
            meaning = vocabulary.value(axis, value).explanation
            if not meaning:
                continue
            label = labels.value_label(axis, value)
            # A reader who types a command needs the value itself.
            if label != value:
                meaning = f"{meaning} ({value} in commands and files)"
            meanings_by_axis[label][axis] = meaning
    meanings = {}
    for label, by_axis in meanings_by_axis.items():
        parts = list(by_axis.values())
        if len(parts) > 1:
            parts = [f"{labels.axis_label(axis)}: {meaning}" for axis, meaning in by_axis.items()]
        meanings[label] = "; ".join(parts)
    return meanings
