"""The section of a page on findings: verdicts, possible reasons with the runs that test them, a row each."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.answer_texts import LESS_CLIENT_WORK
from vcsbench.advice.decision import Row
from vcsbench.advice.effects import has_less_client_work
from vcsbench.advice.labels import times, times_between, value_label
from vcsbench.axes.cache_states import cache_state
from vcsbench.codes import ReasonCode, Verdict
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
    Verdict.REVERSED: "the other side is the better one now",
    Verdict.GONE: "an effect was published, and none worth noting is here",
    Verdict.WEAKER: "the effect is smaller than published",
    Verdict.STRONGER: "the effect is larger than published, or there is one where none was published",
    Verdict.FAILS: "the measured interval is outside the expected range. A difference that is certainly "
    "below the margin (min_effect_pct) is neither better nor worse",
    Verdict.MIXED: "some pairs are better, others worse",
    Verdict.TOO_SMALL: "process start, connection and waits of 40 ms for delayed acknowledgements can "
    "explain it (see Fixed cost), or its runs are too short",
    Verdict.UNDECIDED: "the interval is partly inside the range, or there is none, or cells "
    "cannot be compared (each row has the reason)",
    Verdict.REPRODUCED: "the interval is inside the range",
    Verdict.HOLDS: "the interval is inside the range",
    Verdict.NOT_MEASURED: "the grid has no such cell, or it was skipped, failed, invalid, not "
    "compared, or not finished so far (each row has the reason)",
}
# Verdicts that possible reasons can explain.
EXPLAINABLE = (Verdict.REVERSED, Verdict.GONE, Verdict.WEAKER, Verdict.STRONGER, Verdict.FAILS)
NO_REASON = "no reason known"
NOTHING_EXPLAINS = "none of the compared conditions explains it"
REPEAT = "Repeat the run on another machine."
# A published 1.2 can be anything from 1.15 to 1.25. The page shows this range if its width is at least this
# share of the value.
NARROW_ROUNDING = 0.1


class ReasonText(NamedTuple):
    """A reason of a verdict in words, and the advice on it.

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
    """A finding or an expectation as the page shows it. A pair is a comparison of two cells.

    Texts are "" if they have nothing to say. `dot` is None if the finding is no factor.
    """

    published_interval: str  # the range that the last digits of published numbers leave open
    published_all: str  # the published value over all pairs, if fewer are measured
    ratio: str  # the meaning of the number: `time of f6 ÷ time of f7: above 1x, f7 is faster`
    pairs: str  # the pairs or cells from which it was computed
    is_different: bool  # True for a verdict in EXPLAINABLE
    steps: Sequence[ReasonText]  # of the verdict; of an EXPLAINABLE one the possible causes
    notes: Sequence[str]  # other remarks
    note: str  # the flags of its runs in the words of cards
    flags: Sequence[str]  # their names
    table: str  # the title of the table with its numbers
    anchor: str  # the row there
    source: str  # the address of the statement, "" if the study has one for all
    dot: FindingDot | None  # its place in the plot of findings


class ComparedSides(NamedTuple):
    """The two values of an axis that a finding compares: `format`, `f6` and `f7`.

    Its number is the metric of the baseline, divided by the metric of the candidate.
    """

    axis: str
    baseline: str
    candidate: str

    @property
    def candidate_label(self) -> str:
        return value_label(self.axis, self.candidate)


@dataclass(frozen=True)
class Finding:
    """A finding or an expectation: its row in the file of verdicts (verdicts.FINDING_COLUMNS), and its entry.

    Example of an entry in the file of findings (`definition`): `{"where": {"command": "log"}, "compare":
    {"axis": "format", "baseline": "f6", "candidate": "f7"}, "expect": {"over": "mean", "at_least": 1.5}}`.
    """

    row: Row
    definition: Row

    @property
    def is_measured(self) -> bool:
        return self.row["verdict"] != Verdict.NOT_MEASURED

    @property
    def is_factor(self) -> bool:
        """Return True for a comparison, whose numbers are factors. Others are in the unit of a metric."""
        return bool(self.definition.get("compare"))

    @property
    def sides(self) -> ComparedSides | None:
        """Return the two compared values of an axis.

        None is for a finding on one metric, and for an expectation that compares this run with a saved
        baseline.
        """
        compare = self.definition.get("compare", {})
        if "candidate" not in compare:
            return None
        # Expectations may have numbers, such as 8 clients. All other values of axes are texts.
        return ComparedSides(compare["axis"], str(compare["baseline"]), str(compare["candidate"]))

    @property
    def suffix(self) -> str:
        """Return the text behind a number: `x`, ` s` with its blank, "" for a metric without a unit."""
        return "x" if self.is_factor else f" {metric_in(self.definition).unit}".rstrip()

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


def make_finding_views(
    results: Results, rows: Rows, definitions: Mapping[str, Row], sections: Sequence[TableSection]
) -> list[FindingView]:
    """Return the findings or expectations of a file in the order of MEANINGS: reversed ones first.

    `rows` are the verdicts of the file (verdicts.FINDING_COLUMNS). `definitions` maps the id of each row to
    its entry in the file of findings or expectations. `sections` are the tables of the page.
    """
    named_flags = shown_flags(results)
    findings = [Finding(row, definitions[row["id"]]) for row in rows]
    views = [_make_view(results, finding, sections, named_flags) for finding in findings]
    order: list[str] = list(MEANINGS)
    return sorted(views, key=lambda view: order.index(view.verdict))


def _make_view(
    results: Results, finding: Finding, sections: Sequence[TableSection], named_flags: set[str]
) -> FindingView:
    """Return a finding as the page shows it, with the numbers and the place of its table in `sections`.

    `named_flags` are the flags that a finding may name: the section Quality has those of nearly all runs.
    """
    row, expect = finding.row, finding.definition["expect"]
    table, where = find_table(finding.definition, results.study.tables)
    # None if the study has no table of this metric, or if the page leaves the table out.
    section = next((section for section in sections if section.name == table), None)
    # The row has, for example, `least of 12 cells`. Of a mean, the reader sees how far its pairs differ: `3
    # pairs, 1.9x to 2.1x`. With fewer than two pairs, this text is "".
    pairs = row["over"]
    if section and expect.get("over") == "mean":
        range_of_pairs = _describe_pairs(finding, section, where)
        if range_of_pairs:
            pairs = range_of_pairs
    flag_text, flags = _describe_flags(results, finding, named_flags)
    reasons, remarks = split_reasons(row)
    # The smallest ratio that is worth noting, such as 1.1. It bounds the expected range `equal`.
    margin = 1 + results.advice.min_effect_pct / 100
    # FindingView.ratio has the meaning of a value above 1x.
    directions = ("above 1x", "below 1x")
    facts = FindingFacts(
        id=row["id"],
        statement=row["statement"],
        verdict=row["verdict"],
        expected=range_text(expect, margin, finding.suffix, directions),
        published=finding.format_number(row["published"]),
        measured=finding.format_number(row["measured"]),
        interval=finding.format_interval(row["low"], row["high"]),
    )
    return FindingView(
        # FindingView inherits the fields of FindingFacts.
        **asdict(facts),
        published_interval=_describe_rounding(finding),
        published_all=_describe_all_published(finding),
        ratio=_describe_value(finding),
        pairs=pairs,
        is_different=row["verdict"] in EXPLAINABLE,
        # The page prints each reason with a step that the reader can take.
        steps=reasons,
        notes=remarks,
        note=flag_text,
        flags=flags,
        table=section.title if section else "",
        anchor=_find_anchor(where, section) if section else "",
        source=finding.definition.get("source", ""),
        dot=_make_dot(finding, expected_range(expect, margin), facts),
    )


def _describe_rounding(finding: Finding) -> str:
    """Return the range that the last digits of a published value leave open: `8.7x to 15x`.

    Published numbers are rounded, and a quotient of two rounded numbers can be far from the true one. The
    result is "" if the range is unknown, or narrower than NARROW_ROUNDING of the value.
    """
    row = finding.row
    value, low, high = row["published"], row["published_low"], row["published_high"]
    if not value or low is None or high is None or high - low < NARROW_ROUNDING * value:
        return ""
    return finding.format_interval(low, high)


def _make_dot(finding: Finding, expected: ExpectedRange, facts: FindingFacts) -> FindingDot | None:
    """Return a finding for the plot of findings; None if it has no measured factor above 0.

    `facts` has the numbers of the finding as texts, `expected` its expected range.
    """
    row = finding.row
    # The plot has one axis for all findings, so it has no place for other units than factors.
    if not finding.is_factor or not finding.is_measured:
        return None
    # An undecided finding may have no number (None), for example after runs on two hosts. The axis is
    # logarithmic, so it has no place for 0.
    if not row["measured"]:
        return None
    return FindingDot(
        label=row["statement"],
        # The meaning of a dot on the right of 1: `f7 is faster`.
        right_side=_describe_right_side(finding),
        verdict=row["verdict"],
        # With None for an open end, the chart chooses where the bar of the expected range ends.
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


def split_reasons(row: Row) -> tuple[list[ReasonText], list[str]]:
    """Return the reasons of a verdict, and remarks (sentences), both in the order of the row.

    `row` is one of a file of findings, which lists the most likely reason first. If its verdict is a
    difference from the published value, texts that cannot explain a difference are remarks. For any other
    verdict, all texts are reasons, and there are no remarks.
    """
    is_different = row["verdict"] in EXPLAINABLE
    reasons: list[ReasonText] = []
    remarks = []
    for reason in row["reasons"]:
        # The page shows the text of this code next to the published value.
        if reason.code == ReasonCode.ALL_PUBLISHED:
            continue
        text = texts.reason_text(reason)
        if is_different and reason.code not in verdicts.EXPLAINING_CODES:
            remarks.append(f"{text}.")
            continue
        # A text is, for example, `smaller scale: ruby has 13 % of its published size`.
        label, _, facts = text.partition(": ")
        action = texts.ACTION_TEXTS.get(reason.code, "")
        reasons.append(ReasonText(reason.code, label, facts, action))
    # A difference that nothing explains gets a reason, too, because its advice is to repeat the run.
    if is_different and not reasons:
        reasons.append(ReasonText(NO_REASON, NO_REASON, NOTHING_EXPLAINS, REPEAT))
    return reasons, remarks


def summarise_reasons(findings: Iterable[tuple[str, Sequence[ReasonText]]]) -> list[ReasonLine]:
    """Return a line for each reason, the reason with most findings first.

    `findings` has the verdict and the reasons of each finding. Example of a line: `smaller scale`, `3 weaker,
    1 reversed`, `Measure the repository at a larger scale.`
    """
    # The verdicts of all findings with a reason, by its label and action.
    verdicts_by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for verdict, reasons in findings:
        # A finding counts once, also with two reasons of one label, such as two smaller repositories.
        for label_and_action in unique_values((reason.label, reason.action) for reason in reasons):
            verdicts_by_reason[label_and_action].append(verdict)
    by_frequency = sorted(verdicts_by_reason.items(), key=lambda item: len(item[1]), reverse=True)
    lines = []
    for (label, action), verdicts_of_reason in by_frequency:
        lines.append(ReasonLine(label, describe_verdicts(verdicts_of_reason), action))
    return lines


def _describe_all_published(finding: Finding) -> str:
    """Return `all 24 pairs published: 0.74x` if more pairs were published than measured, otherwise "".

    It is "" too if the published value of the measured pairs is the same.
    """
    published = finding.format_number(finding.row["published"])
    for reason in finding.row["reasons"]:
        if reason.code == ReasonCode.ALL_PUBLISHED:
            value = finding.format_number(reason.values["value"])
            if value != published:
                return f"all {reason.values['published']} published: {value}"
    return ""


def _describe_value(finding: Finding) -> str:
    """Return what the number of a finding is, in words.

    For a comparison it is `time of f6 ÷ time of f7: above 1x, f7 is faster`. For a comparison with a saved
    baseline it is the column `unit` of the row. For one metric it is the metric's title: `Client CPU`.
    """
    metric = metric_in(finding.definition)
    sides = finding.sides
    if not sides:
        return str(finding.row["unit"]) if finding.is_factor else metric.title
    baseline = value_label(sides.axis, sides.baseline)
    ratio = f"{metric.quantity} {baseline} ÷ {metric.quantity} {sides.candidate_label}"
    return f"{ratio}: above 1x, {_describe_right_side(finding)}"


def _describe_right_side(finding: Finding) -> str:
    """Return the meaning of a factor above 1: `f7 is faster`, for a saved baseline `this run is lower`."""
    metric = metric_in(finding.definition)
    # `gain` is -1 if a higher value is better, such as requests per second. Above 1x, the baseline is the
    # higher one, so the candidate is lower.
    meaning = f"{metric.words.verb}lower" if metric.gain < 0 else metric.words.is_better
    candidate = finding.sides.candidate_label if finding.sides else "this run"
    return f"{candidate} {meaning}"


def _describe_pairs(finding: Finding, section: TableSection, where: Row) -> str:
    """Return the number of pairs of a mean, and the range of their ratios: `3 pairs, 1.9x to 2.1x`.

    Return "" for fewer than two pairs. `where` selects their rows in the table of the finding, `section`: it
    maps axes to a value or a list of values.
    """
    # A point of the table has its place (`keys`), {"cache": "cold", "candidate": "f7"}. If it has a number,
    # it also has its row of the table's file.
    rows = [
        point.row
        for point in section.measured_points
        # A pair that is mostly start-up does not count.
        if point.row and not point.is_small and overlaps(where, point.keys)
    ]
    ratios = [row["ratio"] for row in rows if words.is_number(row.get("ratio"))]
    if len(ratios) < 2:
        return ""
    sides = finding.sides
    # The finding may compare packed with not packed, and the table not packed with packed. find_table() takes
    # only a table of the same two values, so another baseline means exchanged sides.
    if sides and sides.baseline != section.baseline:
        ratios = [1 / ratio for ratio in ratios]
    return f"{len(ratios)} pairs, {times_between(min(ratios), max(ratios))}"


def _describe_flags(
    results: Results, finding: Finding, named_flags: set[str]
) -> tuple[str, list[str]]:
    """Return the remarks on a finding's runs as a text, and the names of the flags in it.

    Example: `null-log: over svn, its client does less work; not interleaved` and `["apart"]`, the flag whose
    label is `not interleaved`. Without a remark they are "" and []. Only flags in `named_flags` are named.
    """
    if not finding.is_measured:
        return "", []
    sides = finding.sides
    # The values of the cells that the finding is about, those of both compared values.
    selected = dict(finding.definition.get("where", {}))
    if sides:
        selected[sides.axis] = [sides.baseline, sides.candidate]
    # Published numbers can have an axis that this study does not measure.
    where = {axis: axis_values(value) for axis, value in selected.items() if axis in results.order}
    runs = [run for run in results.valid_runs if matches_cell(run, where)]
    flags = [flag for run in runs for flag in run["flags"].split()]
    # True if all runs read from memory. name_flags() then leaves out `apart`, which is about the place of
    # files on a disk.
    is_hot = all(cache_state(run.get("cache")).is_hot for run in runs)
    flag_names = name_flags(flags, named_flags, is_hot)
    parts = []
    # In a comparison of accesses, some commands of svnbench do less work over svn than over the others.
    if sides and "svn" in (sides.baseline, sides.candidate):
        commands = [run["command"] for run in runs if has_less_client_work(sides.axis, run)]
        if commands:
            parts.append(f"{' or '.join(unique_values(commands))}: {LESS_CLIENT_WORK}")
    parts += [label_flag(name) for name in flag_names]
    return "; ".join(parts), flag_names


def _find_anchor(where: Row, section: TableSection) -> str:
    """Return the anchor of the first row of a table with a number of the finding: `table-elapsed-log-svn`.

    `where` maps axes to a value or a list of values. Without such a row, return the anchor of the table.
    """
    rows = [row for pair in section.pairs if pair.measured for row in pair.measured.rows]
    for row in rows:
        for point in row.points:
            if point and point.value is not None and overlaps(where, point.keys):
                return f"{section.anchor}-{row.slug}"
    return section.anchor
