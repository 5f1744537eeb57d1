"""The section of a page on findings: verdicts, possible reasons with the runs that test them, a row each."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.answer_texts import LESS_CLIENT_WORK
from vcsbench.advice.decision import Row
from vcsbench.advice.effects import has_less_client_work
from vcsbench.advice.labels import change, times, times_between, value_label
from vcsbench.axes.cache_states import cache_state
from vcsbench.codes import Call, ReasonCode, Verdict
from vcsbench.config.study import axis_values, matches_cell
from vcsbench.metrics import metric_in
from vcsbench.report.answers import shown_flags
from vcsbench.report.card_rows import label_flag, name_flags
from vcsbench.report.charts import FindingDot
from vcsbench.report.finding_tables import find_table, overlaps
from vcsbench.report.results import Results, Rows, unique_values
from vcsbench.report.summary import describe_verdicts
from vcsbench.report.table_sections import TableSection
from vcsbench.statistics import texts, verdicts
from vcsbench.statistics.expected_range import ExpectedRange, expected_range, range_text

MEANINGS = {
    Verdict.REVERSED: "the other side is faster now",
    Verdict.GONE: "an effect was published, and there is none here",
    Verdict.WEAKER: "the effect is smaller than published",
    Verdict.STRONGER: "the effect is larger than published",
    Verdict.FAILS: "the measured interval is outside the expected range",
    Verdict.MIXED: "some pairs are faster, others slower",
    Verdict.TOO_SMALL: "more than half of the time is process start, connection and waits of 40 ms for "
    "delayed acknowledgements (see Fixed cost)",
    Verdict.UNDECIDED: "the interval is partly inside the range, so the run gives no verdict",
    Verdict.REPRODUCED: "the interval is inside the range",
    Verdict.HOLDS: "the interval is inside the range",
    Verdict.NOT_MEASURED: "the grid has no such cell, or it was skipped, failed or invalid",
}
# Verdicts that possible reasons can explain.
EXPLAINABLE = (Verdict.REVERSED, Verdict.GONE, Verdict.WEAKER, Verdict.STRONGER, Verdict.FAILS)
# The call of a comparison is its outcome for the candidate (codes.Call). More rounds may change these two.
UNDECIDED_CALLS = (Call.BOUNDED, Call.UNDECIDED)
# By the call of a comparison: the call of the same comparison with its sides exchanged. Others stay the same.
EXCHANGED_CALLS = {
    Call.FASTER: Call.SLOWER,
    Call.SLOWER: Call.FASTER,
    Call.LESS: Call.MORE,
    Call.MORE: Call.LESS,
}
NO_REASON = "no reason known"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
REPEAT = "Repeat the run on another machine."


class Step(NamedTuple):
    """A reason of a verdict in words, and what to do about it.

    `label` is `smaller scale`, and `text` has its facts: `ruby has 13 % of its published size`. `action` is a
    sentence, "" without advice. `code` is one of codes.ReasonCode, or NO_REASON.
    """

    code: str
    label: str
    text: str
    action: str = ""


class ReasonLine(NamedTuple):
    """A reason of several findings: its label, `3 weaker, 1 reversed` (`findings`), and what to do."""

    label: str
    findings: str
    action: str


# A published 1.2 can be anything from 1.15 to 1.25. The page shows this range if its width is at least this
# share of the value.
NARROW_ROUNDING = 0.1


@dataclass(frozen=True)
class FindingFacts:
    """A finding as texts, which the head of a page has for the index. A text is "" if it is unknown."""

    id: str
    statement: str
    verdict: str = Verdict.NOT_MEASURED
    expected: str = ""
    published: str = ""
    measured: str = ""
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class FindingView(FindingFacts):
    """A finding or an expectation as the page shows it.

    Texts are "" if they have nothing to say. A pair is a comparison of two cells.

    `published_interval` is the range that the last digits of published numbers leave open, "" if narrow.
    `published_all` is the published value over all pairs or cells, if fewer are measured. `ratio` explains
    the number, such as `time of f6 ÷ time of f7`. `pairs` says over which pairs or cells it was computed.

    `is_different` is True for a verdict in EXPLAINABLE, such as weaker. `steps` are the reasons of the
    verdict: for these findings, the possible causes. `notes` are other remarks. `note` has the flags of the
    runs in the words of cards, `flags` their names. A flag marks a doubtful run.

    `table` is the title of the table with its numbers, `anchor` the row there. `news` is a sentence on a
    reversed finding. `source` is the address of the statement, "" if the study has one for all. `dot` is its
    place in the plot of findings, None if it is no factor.
    """

    published_interval: str
    published_all: str
    ratio: str
    pairs: str
    is_different: bool
    steps: Sequence[Step]
    notes: Sequence[str]
    note: str
    flags: Sequence[str]
    table: str
    anchor: str
    news: str
    source: str
    dot: FindingDot | None


@dataclass(frozen=True)
class FindingUnit:
    """The unit of a finding's numbers: a factor for a comparison, otherwise the unit of its metric.

    `suffix` stands behind a number: `x` for a factor, ` s` with its blank, "" for a metric without a unit.
    """

    is_factor: bool
    suffix: str

    def format_number(self, number: object) -> str:
        """Return `0.74x`, `2.31 s` or `88.0 %`, "" for an unknown number."""
        if not words.is_number(number):
            return ""
        return times(number) if self.is_factor else f"{words.significant(number)}{self.suffix}"

    def format_interval(self, low: float | None, high: float | None) -> str:
        """Return `1.80x to 2.2x`, "" for an unknown interval."""
        if low is None or high is None:
            return ""
        if self.is_factor:
            return times_between(low, high)
        ends = [self.format_number(low), self.format_number(high)]
        return " to ".join(unique_values(ends))


class ComparedSides(NamedTuple):
    """The two values of an axis that a finding compares: `format`, `f6` and `f7`.

    Its number is the metric of the baseline, divided by the metric of the candidate.
    """

    axis: str
    baseline: str
    candidate: str


def make_finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file in the order of MEANINGS: reversed ones first.

    `rows` are the verdicts of the file (verdicts.FINDING_COLUMNS). `definitions` maps the id of each row to
    its entry in the file of findings or expectations. `sections` are the tables of the page.
    """
    named_flags = shown_flags(results)
    views = []
    for row in rows:
        definition = definitions[row["id"]]
        views.append(_make_finding_view(results, row, definition, sections, named_flags))
    order: list[str] = list(MEANINGS)
    return sorted(views, key=lambda view: order.index(view.verdict))


def _make_finding_view(
    results: Results,
    row: Row,
    definition: Row,
    sections: Sequence[TableSection],
    named_flags: set[str],
) -> FindingView:
    """Return a row of a file of findings (verdicts.FINDING_COLUMNS) as the page shows it.

    `named_flags` are the flags that a finding may name. Flags of nearly all runs are not among them, because
    the section Quality names them once.
    """
    expect = definition["expect"]
    unit = _choose_unit(definition)
    is_measured = row["verdict"] != Verdict.NOT_MEASURED
    margin = 1 + results.advice.min_effect_pct / 100
    facts = FindingFacts(
        id=row["id"],
        statement=row["statement"],
        verdict=row["verdict"],
        expected=range_text(expect, margin, unit.suffix),
        published=unit.format_number(row["published"]),
        measured=unit.format_number(row["measured"]),
        interval=unit.format_interval(row["low"], row["high"]),
    )
    # `section` is None if the study has no table of this metric, or if the page leaves the table out.
    table, where = find_table(definition, results.study.tables)
    section = next((section for section in sections if section.name == table), None)
    # For a mean, the reader sees how far its pairs differ. Otherwise a text such as `least of 12 cells` is
    # enough.
    pairs = row["over"]
    if section and expect.get("over") == "mean":
        pairs = _describe_pairs(definition, section, where) or pairs
    note = ""
    flags: list[str] = []
    if is_measured:
        note, flags = _describe_flags(results, definition, named_flags)
    steps, notes = split_reasons(row)
    dot = None
    # Only factors share an axis.
    if unit.is_factor and is_measured:
        dot = _make_dot(row, expected_range(expect, margin), facts)
    return FindingView(
        **asdict(facts),
        published_interval=_describe_rounding(row, unit),
        published_all=_describe_all_published(row, unit),
        ratio=_describe_value(row, definition),
        pairs=pairs,
        is_different=row["verdict"] in EXPLAINABLE,
        steps=steps,
        notes=notes,
        note=note,
        flags=flags,
        table=section.title if section else "",
        anchor=_find_anchor(where, section) if section else "",
        news=_describe_reversal(row, definition),
        source=definition.get("source", ""),
        dot=dot,
    )


def _choose_unit(definition: Row) -> FindingUnit:
    """Return the unit of a finding's numbers, from its entry in the file of findings."""
    if definition.get("compare"):
        return FindingUnit(is_factor=True, suffix="x")
    # A metric without a unit, such as a number of calls, has no suffix.
    return FindingUnit(is_factor=False, suffix=f" {metric_in(definition).unit}".rstrip())


def _read_sides(definition: Row) -> ComparedSides | None:
    """Return the two compared values of an axis, from a finding's entry in its file.

    None is for a finding on one metric, and for an expectation that compares this run with a saved baseline.
    """
    compare = definition.get("compare", {})
    if "candidate" not in compare:
        return None
    return ComparedSides(compare["axis"], compare["baseline"], compare["candidate"])


def _describe_rounding(row: Row, unit: FindingUnit) -> str:
    """Return the range that the last digits of a published value leave open: `8.7x to 15x`.

    Published numbers are rounded, and a quotient of two rounded numbers can be far from the true one. The
    result is "" if the range is unknown, or narrower than NARROW_ROUNDING of the value.
    """
    value, low, high = row["published"], row["published_low"], row["published_high"]
    if not value or low is None or high is None:
        return ""
    if high - low < NARROW_ROUNDING * value:
        return ""
    return unit.format_interval(low, high)


def _make_dot(row: Row, expected: ExpectedRange, facts: FindingFacts) -> FindingDot | None:
    """Return a finding for the plot of findings, None without a measured factor above 0.

    `row` has the numbers, `facts` the same numbers as texts.
    """
    if not row["measured"]:
        return None
    return FindingDot(
        label=row["statement"],
        verdict=row["verdict"],
        # A logarithmic axis has no place for 0 and infinity. None lets the chart choose where the bar ends.
        expected_low=expected.low if expected.low > 0 else None,
        expected_high=expected.high if math.isfinite(expected.high) else None,
        published=row["published"],
        measured=row["measured"],
        low=row["low"],
        high=row["high"],
        texts={
            "expected": facts.expected,
            "published": facts.published or "not published",
            "measured": facts.measured,
            "interval": facts.interval or "none",
        },
    )


def split_reasons(row: Row) -> tuple[list[Step], list[str]]:
    """Return the reasons of a verdict, the most likely one first, and other remarks.

    `row` is one of a file of findings. If its finding differs from the published one, only the codes
    verdicts.EXPLAINING_CODES are reasons: the others do not cause a difference, so they become remarks. If it
    has none of these codes, the only reason is NO_REASON. For other verdicts, all codes are reasons.
    """
    is_different = row["verdict"] in EXPLAINABLE
    steps: list[Step] = []
    notes = []
    for reason in row["reasons"]:
        # The page shows this one next to the published value.
        if reason.code == ReasonCode.ALL_PUBLISHED:
            continue
        text = texts.reason_text(reason)
        if is_different and reason.code not in verdicts.EXPLAINING_CODES:
            notes.append(f"{text}.")
        else:
            # `smaller scale: ruby has 13 % of its published size`
            label, _, facts = text.partition(": ")
            steps.append(Step(reason.code, label, facts, texts.ACTION_TEXTS.get(reason.code, "")))
    if is_different and not steps:
        steps.append(Step(NO_REASON, NO_REASON, NOTHING_EXPLAINS, REPEAT))
    return steps, notes


def summarise_reasons(findings: Iterable[tuple[str, Sequence[Step]]]) -> list[ReasonLine]:
    """Return a line for each reason, the reason with most findings first.

    `findings` has the verdict and the reasons of each finding. Example of a line: `smaller scale`, `3 weaker,
    1 reversed`, `Measure the repository at a larger scale.`
    """
    verdicts_by_label: dict[str, list[str]] = {}
    actions: dict[str, str] = {}
    for verdict, steps in findings:
        # A finding counts once, also with two reasons of one label, such as two smaller repositories.
        for label in unique_values(step.label for step in steps):
            verdicts_by_label.setdefault(label, []).append(verdict)
        for step in steps:
            actions[step.label] = step.action
    lines = []
    for label in sorted(verdicts_by_label, key=lambda label: -len(verdicts_by_label[label])):
        lines.append(ReasonLine(label, describe_verdicts(verdicts_by_label[label]), actions[label]))
    return lines


def _describe_all_published(row: Row, unit: FindingUnit) -> str:
    """Return `all 24 pairs published: 0.74x` if more pairs were published than measured, otherwise "".

    It is "" too if the published value of the measured pairs is the same.
    """
    for reason in row["reasons"]:
        if reason.code == ReasonCode.ALL_PUBLISHED:
            value = unit.format_number(reason.values["value"])
            if value != unit.format_number(row["published"]):
                return f"all {reason.values['published']} published: {value}"
    return ""


def _describe_value(row: Row, definition: Row) -> str:
    """Return what the number of a finding is, in words.

    For a comparison it is `time of f6 ÷ time of f7: above 1x, f7 is faster`. For a comparison with a saved
    baseline it is the column `unit` of the row. For one metric it is the metric's title: `Client CPU`.
    """
    metric = metric_in(definition)
    sides = _read_sides(definition)
    if sides:
        baseline = value_label(sides.axis, sides.baseline)
        candidate = value_label(sides.axis, sides.candidate)
        is_better = metric.words.is_better
        # `gain` is -1 if a higher value is better, such as requests per second. Above 1x, the baseline is the
        # higher one, so the candidate is lower.
        if metric.gain < 0:
            is_better = f"{metric.words.verb}lower"
        ratio = f"{metric.quantity} {baseline} ÷ {metric.quantity} {candidate}"
        return f"{ratio}: above 1x, {candidate} {is_better}"
    if definition.get("compare"):
        return str(row["unit"])
    return metric.title


def _describe_pairs(definition: Row, section: TableSection, where: Row) -> str:
    """Return a text on the pairs of a mean, from the rows of its table; "" for fewer than two pairs.

    All pairs have the same outcome: `3 pairs, 1.9x to 2.1x`.
    Some are undecided: `3 pairs, 1.2x to 2.0x, f7 faster in 2, undecided in 1`.
    They have different outcomes: `4 pairs, 0.94x to 2.9x, mixed: svn faster in 3, slower in 1`.

    `where` selects the rows: it maps axes to a value or a list of values.
    """
    rows = _select_pair_rows(section, where)
    if len(rows) < 2:
        return ""
    sides = _read_sides(definition)
    # The finding may compare packed with not packed, and the table not packed with packed. Then its ratios
    # and calls are turned round. find_table() takes only a table of the same two values, so another baseline
    # means exchanged sides.
    is_exchanged = sides is not None and str(sides.baseline) != section.baseline
    ratios = [1 / row["ratio"] if is_exchanged else row["ratio"] for row in rows]
    text = f"{len(rows)} pairs, {times_between(min(ratios), max(ratios))}"
    counts = _count_calls(rows, is_exchanged)
    if len(counts) == 1:
        return text

    decided = [call for call in counts if call not in UNDECIDED_CALLS]
    undecided = [call for call in UNDECIDED_CALLS if call in counts]
    outcomes = [f"{texts.CALL_TEXTS[call]} in {counts[call]}" for call in (*decided, *undecided)]
    outcome = ", ".join(outcomes)
    if sides:
        outcome = f"{value_label(sides.axis, sides.candidate)} {outcome}"
    # Equal is a decided call, too: `faster in 2, equal in 1` is mixed.
    return f"{text}, mixed: {outcome}" if len(decided) > 1 else f"{text}, {outcome}"


def _select_pair_rows(section: TableSection, where: Row) -> list[Row]:
    """Return the rows of a table that `where` selects, and that have a ratio.

    A pair that is mostly start-up does not count.
    """
    rows = []
    for point in section.measured_points:
        if point.row is None or point.is_small or not overlaps(where, point.keys):
            continue
        if words.is_number(point.row.get("ratio")):
            rows.append(point.row)
    return rows


def _count_calls(rows: Rows, is_exchanged: bool) -> Counter[Call]:
    """Return the number of comparisons with each call, in the order of their first rows.

    A comparison without a call counts as undecided. With `is_exchanged`, faster becomes slower.
    """
    counts: Counter[Call] = Counter()
    for row in rows:
        call = Call(row["call"]) if row.get("call") else Call.UNDECIDED
        counts[EXCHANGED_CALLS.get(call, call) if is_exchanged else call] += 1
    return counts


def _describe_flags(
    results: Results, definition: Row, named_flags: set[str]
) -> tuple[str, list[str]]:
    """Return the remarks on a finding's runs as a text, and the names of the flags in it.

    Example of the text: `null-log: over svn, its client does less work; not interleaved`.
    It is "" without a remark. The names there are `["apart"]`. Only flags in `named_flags` are named.
    """
    cells = _select_cells(results, definition)
    runs = [run for run in results.valid_runs if matches_cell(run, cells)]
    flags = [flag for run in runs for flag in run["flags"].split()]
    is_hot = all(cache_state(run.get("cache")).is_hot for run in runs)
    flag_names = name_flags(flags, named_flags, is_hot)
    parts = []
    sides = _read_sides(definition)
    if sides and "svn" in sides:
        with_less = [run["command"] for run in runs if has_less_client_work(sides.axis, run)]
        if with_less:
            parts.append(f"{' or '.join(unique_values(with_less))}: {LESS_CLIENT_WORK}")
    parts += [label_flag(name) for name in flag_names]
    return "; ".join(parts), flag_names


def _select_cells(results: Results, definition: Row) -> dict[str, list[str]]:
    """Return the values of axes that select a finding's cells, such as `{"format": ["f6", "f7"]}`.

    Both compared values are among them. An axis without an entry may have any value.
    """
    where = dict(definition.get("where", {}))
    sides = _read_sides(definition)
    if sides:
        where[sides.axis] = [sides.baseline, sides.candidate]
    # Published numbers can have an axis that this study does not measure.
    return {axis: axis_values(value) for axis, value in where.items() if axis in results.order}


def _describe_reversal(row: Row, definition: Row) -> str:
    """Return `Packed: 2.0x slower as published, 2.0x faster here.` for a reversed finding, otherwise ""."""
    sides = _read_sides(definition)
    if row["verdict"] != Verdict.REVERSED or not sides or not row["published"]:
        return ""
    label = value_label(sides.axis, sides.candidate)
    published = change(row["published"])
    measured = change(row["measured"])
    return f"{label[:1].upper()}{label[1:]}: {published} as published, {measured} here."


def _find_anchor(where: Row, section: TableSection) -> str:
    """Return the anchor of the first row of a table with a number of the finding: `table-elapsed-log-svn`.

    `where` maps axes to a value or a list of values. Without a row of this kind, return the anchor of the
    table.
    """
    for pair in section.pairs:
        if not pair.measured:
            continue
        for row in pair.measured.rows:
            for point in row.points:
                if point and point.value is not None and overlaps(where, point.keys):
                    return f"{section.anchor}-{row.slug}"
    return section.anchor
