"""Make the points of a table from its rows: the printed number, its colour and marks, and its sentences."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from vcsbench import words
from vcsbench.advice import labels
from vcsbench.advice.decision import Row
from vcsbench.codes import Call, WhyUndecided
from vcsbench.config.study import TableDefinition
from vcsbench.evidence import same_work
from vcsbench.metrics import Metric, metric_in
from vcsbench.report.expected_rows import ExpectedRow
from vcsbench.report.grids import Point, PointKind
from vcsbench.report.results import Rows, grouped_by, values_in
from vcsbench.statistics import comparisons, texts
from vcsbench.statistics.comparisons import ComparisonRow

# The signs next to a number: first the sign of the call, then the signs of flags. Their meanings are in
# table_sections.MARK_MEANINGS.
CALL_MARKS = {Call.EQUAL: "=", Call.BOUNDED: "≈", Call.UNDECIDED: "?", Call.TOO_SMALL: "s"}
FLAG_MARKS = {"same-binaries": "a", "low-n": "n"}
# Signs that are hidden until the reader uses the switch above the tables. A point shows the first one it has.
DEVIATION_MARKS = {"outlier-20": "‡", "outlier-10": "†"}
# The text of a place without a number, and its meaning.
ABSENT_TEXTS = {
    PointKind.SKIPPED: ("n/a", "cannot be measured here"),
    PointKind.FAILED: ("failed", "no round has a result"),
    PointKind.OUTDATED: (
        "outdated",
        "measured with other settings, programs, or another version",
    ),
    PointKind.UNMEASURED: ("not yet", texts.UNMEASURED_TEXT),
    PointKind.WITHHELD: ("left out", "invalid runs or other work: point at it for the reason"),
}
# Shorter texts of places whose cells did other work, by flag.
OTHER_WORK_TEXTS = {same_work.UNKNOWN: "unknown", same_work.OTHER: "other work"}
CORRECTION_NOTE = (
    "The interval is of this number alone. The call is corrected for all comparisons of its table, "
    "because some are far out by chance."
)
# The factors at which the next colour begins: 10 % shows, and 10 times does not drown it.
COLOUR_STEPS = (1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
# The CSS class of a number that is called no difference.
NO_DIFFERENCE_STYLE = "same"
# The label of three or more values with which a baseline is compared.
OTHERS = "others"
# A deviation of 9.95 % is rounded to two digits: +10, not +10.0.
NO_DECIMALS_PCT = 9.95


def measured_points(
    definition: TableDefinition,
    rows: Rows,
    expected: Sequence[ExpectedRow],
    prints_factors: bool = False,
) -> list[Point]:
    """Return the points of a measured table: first for the expected rows in order, then for any other rows.

    `rows` are those of the table's CSV file. `expected` are the rows that the cells of the study's grid
    should give. An expected row that the file lacks gives a point with the reason. A ratio is printed in per
    cent, as it was published (`+22`), or with `prints_factors` as in cards (`1.2x faster`).
    """
    # The names of the keys that identify a row, such as ["command", "cache", "candidate"].
    key_names: list[str] = []
    if expected:
        key_names = list(expected[0].keys)
    elif rows:
        # Without the file of the grid, no row is expected, and all rows of the table's file are shown.
        key_names = list(comparisons.keys_of(rows[0]))
    # Mostly, there is one row for the values of these keys. A table by runs has a row for each run of a cell.
    rows_by_keys = grouped_by(rows, lambda row: values_in(row, key_names))
    points = []
    for expected_row in expected:
        # Only unexpected rows remain for the loop below.
        rows_of_cell = rows_by_keys.pop(values_in(expected_row.keys, key_names), [])
        if not rows_of_cell:
            points.append(_point_without_row(expected_row))
        for row in rows_of_cell:
            points.append(_point_of_row(definition, row, expected_row, prints_factors))
    # An unexpected row has no cell in the grid, for example because the configuration has changed.
    for unexpected_rows in rows_by_keys.values():
        for row in unexpected_rows:
            without_cells = ExpectedRow(comparisons.keys_of(row))
            points.append(_point_of_row(definition, row, without_cells, prints_factors))
    return points


def published_points(definition: TableDefinition, rows: Rows) -> list[Point]:
    """Return the points of a published table. Rows without a number are left out."""
    points = []
    for row in rows:
        value = row["value"]
        if not words.is_number(value):
            continue
        point = Point(comparisons.keys_of(row), PointKind.PUBLISHED, value)
        if "compare" in definition:
            # Studies published no intervals, so each deviation has the colour of a difference.
            colour = colour_class(value, metric_in(definition).gain)
            point = replace(point, text=words.percentage(value), colour=colour)
        points.append(point)
    return points


def _point_of_row(
    definition: TableDefinition, row: Row, expected: ExpectedRow, prints_factors: bool
) -> Point:
    """Return the point of a row of a table: its number with sentences and marks, or why it has no number.

    `expected` has the row's cells, and a sentence for each of their rounds without a result.
    """
    if not words.is_number(row["value"]):
        return _withheld_point(row, expected)

    flags = row["flags"].split()
    sentences = [*number_sentences(row, definition), *expected.failures]
    if flags:
        sentences.append(f"Flagged {words.enumeration(flags)}.")
    # The signs that always stand next to the number: `n` for few rounds, `a` for equal binaries.
    marks = [mark for flag, mark in FLAG_MARKS.items() if flag in flags]
    # Signs that a reader can switch on: `‡` if a run is over 20 % from its median, otherwise `†` over 10 %.
    deviation_marks = [mark for flag, mark in DEVIATION_MARKS.items() if flag in flags]
    # With the key `by: [run]`, a cell has a row for each run, so the row does not stand for the cell.
    is_whole_cell = not definition.get("by")
    point = Point(
        keys=comparisons.keys_of(row),
        kind=PointKind.MEASURED,
        value=row["value"],
        title=" ".join(sentences),
        mark="".join(marks),
        deviation=deviation_marks[0] if deviation_marks else "",
        cells=expected.cells if is_whole_cell else (),
        row=row,
    )
    # The number of a table that compares nothing gets its text later, with the decimals of its column.
    if "compare" not in definition:
        return point
    comparison = ComparisonRow.of_record(row)
    return _with_comparison(point, comparison, metric_in(definition), prints_factors)


def _with_comparison(
    point: Point, comparison: ComparisonRow, metric: Metric, prints_factors: bool
) -> Point:
    """Return the point with its comparison: deviation in per cent, text, colour, and mark.

    The text is the deviation (`+22`), or with `prints_factors` a factor (`1.2x faster`). The colour is grey
    (NO_DIFFERENCE_STYLE) unless the comparison is called a difference. The mark of the call stands in front
    of the marks of flags.
    """
    # Baseline / candidate: a ratio of 1.22 is a deviation of 22 per cent.
    ratio = ratio_of(comparison)
    deviation_pct = 100 * (ratio - 1)
    if prints_factors:
        text = labels.change(ratio, metric.change_words)
    else:
        # Per cent have at least two digits: +7.2, +12, +150. With one decimal, 9.95 would become +10.0.
        decimals = 0 if abs(deviation_pct) >= NO_DECIMALS_PCT else 1
        text = words.percentage(deviation_pct, decimals)
    if comparisons.is_difference(comparison.call):
        colour = colour_class(deviation_pct, metric.gain)
    else:
        colour = NO_DIFFERENCE_STYLE
    call_mark = ""
    # After too few rounds, the flag `low-n` already has the mark `n`.
    if comparison.call and comparison.why_undecided != WhyUndecided.FEW_ROUNDS:
        call_mark = CALL_MARKS.get(comparison.call, "")
    return replace(
        point,
        value=deviation_pct,
        text=text,
        colour=colour,
        mark=f"{call_mark}{point.mark}",
        is_small=comparison.call == Call.TOO_SMALL,
    )


def _point_without_row(expected: ExpectedRow) -> Point:
    """Return the point of cells that have no row in the table, with the first reason that applies."""
    keys = expected.keys
    if expected.skip:
        return _absent_point(keys, PointKind.SKIPPED, f"not measured: {expected.skip}")
    # Flags that make runs invalid are the reason, and not the rounds that failed.
    if expected.flags:
        return _absent_point(keys, PointKind.WITHHELD, _left_out_title(expected.flags))
    if expected.is_outdated:
        return _absent_point(keys, PointKind.OUTDATED, texts.OUTDATED_TEXT)
    if expected.is_unmeasured:
        return _absent_point(keys, PointKind.UNMEASURED, texts.UNMEASURED_TEXT)
    if expected.failures:
        return _absent_point(keys, PointKind.FAILED, "; ".join(expected.failures))
    # The grid has no reason. The text sends the reader to the table of flags.
    return _absent_point(keys, PointKind.WITHHELD, _left_out_title([]))


def _absent_point(keys: Mapping[str, str], kind: PointKind, title: str) -> Point:
    """Return a point with a text such as `failed`. The pointer shows the `title`."""
    text, _ = ABSENT_TEXTS[kind]
    return Point(keys, kind, text=text, title=title)


def _withheld_point(row: Row, expected: ExpectedRow) -> Point:
    """Return the point of a row without a number (its column `value` is empty), with the reason.

    The table prints the point's `text`, such as `left out`. The pointer shows its `title`, a sentence with
    the reason. If the number is withheld, the page lists this `reason` below the table, too.
    """
    keys = comparisons.keys_of(row)
    if expected.skip:
        return _absent_point(keys, PointKind.SKIPPED, f"not measured: {expected.skip}")
    # Flags are remarks on the runs. Codes (WithheldCode) are reasons not to show the number.
    flags = row["flags"].split()
    codes = (row.get("withheld") or "").split()
    if not codes:
        return _absent_point(keys, PointKind.WITHHELD, _left_out_title(flags))
    reason = texts.withheld_text(codes, row.get("detail") or "")
    point = _absent_point(keys, PointKind.WITHHELD, title=reason)
    # After other or unknown work, the table prints `other work` or `unknown` in place of `left out`.
    work_texts = [OTHER_WORK_TEXTS[flag] for flag in flags if flag in OTHER_WORK_TEXTS]
    text = work_texts[0] if work_texts else point.text
    return replace(point, text=text, reason=reason)


def _left_out_title(flags: Sequence[str]) -> str:
    """Return `flagged cache-not-cold; see Flags`, or `no run of it counts; see Flags` without flags."""
    reason = f"flagged {words.enumeration(flags)}" if flags else "no run of it counts"
    return f"{reason}; see Flags"


def has_interval(comparison: ComparisonRow) -> bool:
    """Return True if the ratio and its interval are known. They are NaN if published, or after one round."""
    return math.isfinite(comparison.ratio) and math.isfinite(comparison.low)


def ratio_of(comparison: ComparisonRow) -> float:
    """Return the printed ratio baseline / candidate.

    Without an interval (published, or one round) it is the quotient of the reduced values, such as medians.
    """
    if has_interval(comparison):
        return comparison.ratio
    return 1 + comparison.value / 100


def colour_class(deviation_pct: float, gain: int) -> str:
    """Return the CSS class of a deviation: `x3` for a better baseline, `y3` for a better candidate.

    The 3 means that the factor, such as 1.22 of 22.0 per cent, reaches three of COLOUR_STEPS. Below the first
    step the class is "". `gain` is 1 if a ratio above 1 means a better candidate, otherwise -1.
    """
    ratio = 1 + deviation_pct / 100
    # A published value of -100 % or less is a candidate that took infinitely longer.
    factor = labels.at_least_1(ratio) if ratio > 0 else math.inf
    # Rounding of floats can make 1.0999999999 of the factor 1.1, which must reach the step 1.1.
    step = bisect_right(COLOUR_STEPS, factor + 1e-9)
    side = "y" if (ratio > 1) == (gain > 0) else "x"
    return f"{side}{step}" if step else ""


def number_sentences(row: Row, definition: TableDefinition) -> list[str]:
    """Return the sentences that a reader sees when the pointer is on the number of a row.

    The number of a cell has one sentence: `1.234 s, the geometric mean over 5 rounds.` A comparison of two
    cells has more, with its interval and its result (_comparison_sentences).
    """
    if "compare" in definition:
        return _comparison_sentences(row, definition)
    metric = metric_in(definition)
    if metric.once:
        # Some counts, such as of system calls, come from one separate run, so no round repeats them.
        basis = "counted once"
    else:
        default_statistic = "geometric mean" if metric.takes_mean else "median"
        # Another statistic is, for example, `best`.
        statistic = definition.get("reduce", default_statistic)
        rounds = words.count_of(int(row["n"] or 0), "round")
        basis = f"the {statistic} over {rounds}"
    return [f"{words.with_unit(row['value'], metric.unit)}, {basis}."]


def _comparison_sentences(row: Row, definition: TableDefinition) -> list[str]:
    """Return the sentences on a comparison, such as f7 (the candidate) against f6 (the baseline).

    First comes the measured factor: `f7: 1.2x faster (95 % interval 1.15x to 1.3x faster), over 5 rounds.
    time of f6 ÷ time of f7 = 1.22.` With an interval, the result of the test follows: `f7 is faster.`
    """
    metric = metric_in(definition)
    comparison = ComparisonRow.of_record(row)
    rounds = words.count_of(comparison.n, "round")
    candidate = labels.value_label(definition["compare"]["axis"], comparison.candidate)
    baseline, _ = side_labels(definition)
    ratio = ratio_of(comparison)
    change = f"{candidate}: {labels.change(ratio, metric.change_words)}"
    quotient = f"{metric.quantity} {baseline} ÷ {metric.quantity} {candidate} = {words.significant(ratio)}."
    # Some counts, such as of system calls, come from one separate run, so no round repeats them (`once`).
    if not has_interval(comparison):
        basis = "counted once" if metric.once else f"over {rounds}"
        return [f"{change}, {basis}; too few for an interval. {quotient}"]

    result = _describe_call(comparison, candidate, metric)
    # The counts were equal in every round, so the interval has no width.
    if comparison.is_exact:
        basis = "counted once" if metric.once else f"exact: all {rounds} count the same"
        return [f"{change}, {basis}. {quotient}", result]

    interval = labels.change_between(comparison.low, comparison.high, metric.change_words)
    sentences = [f"{change} (95 % interval {interval}), over {rounds}. {quotient}", result]
    # With an interval such as 1.02x to 1.3x, a reader wonders why the result is no difference.
    contains_1 = comparison.low <= 1 <= comparison.high
    if comparison.call in (Call.BOUNDED, Call.UNDECIDED) and not contains_1:
        sentences.append(CORRECTION_NOTE)
    return sentences


def _describe_call(comparison: ComparisonRow, candidate: str, metric: Metric) -> str:
    """Return the result of a test: `f7 is faster.`, `Undecided: wide interval.`, or `Nearly equal.`

    `candidate` is the label of the candidate, such as `f7`.
    """
    if comparison.call and comparisons.is_difference(comparison.call):
        above, below = metric.change_words
        word = above if ratio_of(comparison) > 1 else below
        return f"{candidate} {metric.words.verb} {word}."
    if comparison.why_undecided:
        return f"Undecided: {texts.outcome_text(comparison.why_undecided)}."
    return f"{texts.outcome_text(comparison.call or Call.UNDECIDED)}.".capitalize()


def side_labels(definition: TableDefinition) -> tuple[str, str]:
    """Return the labels of both sides of a comparison: `f6` and `f7 or f8`, or `others` for three or more."""
    compare = definition["compare"]
    axis = compare["axis"]
    baseline = labels.value_label(axis, compare["baseline"])
    candidates = [labels.value_label(axis, value) for value in compare["candidates"]]
    if len(candidates) > 2:
        return baseline, OTHERS
    return baseline, " or ".join(candidates)
