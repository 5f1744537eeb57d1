"""The section of a page on findings: verdicts, possible reasons with their tests, a row each."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vcsbench import words
from vcsbench.advice.cards import factor, value_label
from vcsbench.advice.decision import Row
from vcsbench.metrics import metric_in
from vcsbench.report import charts
from vcsbench.report.results import Rows, grouped_by, unique_values
from vcsbench.report.table_sections import TableSection
from vcsbench.statistics import contract
from vcsbench.statistics.aggregation import MEDIAN
from vcsbench.statistics.baselines import table_name

MEANINGS = {
    contract.REVERSED: "the other side is faster now",
    contract.DIFFERS: "the measured interval is outside the expected range",
    contract.TOO_SMALL: "more than half of the time is process start and connection",
    contract.INCONCLUSIVE: "the interval crosses an end of the range",
    contract.REPRODUCED: "the interval is inside the range",
    contract.NOT_MEASURED: "",
}
_DIFFERENT = (contract.REVERSED, contract.DIFFERS)
# Of a finding that differs, if no condition other than published explains it.
NO_REASON = "none known"
NOTHING_EXPLAINS = "no published condition that differs here explains the direction"
_STYLES = {contract.TOO_SMALL: "small", contract.INCONCLUSIVE: "undecided"}
_ROUNDS = re.compile(r"`rounds: (\d+)`")


@dataclass(frozen=True)
class FindingView:
    """A finding or an expectation as the page shows it.

    `news` is what changed since it was published, `picture` SVG, `of` the unit and the reduction,
    `possible` the labels of possible reasons, `why` a sentence per other reason, `anchor` the row of its
    table.
    """

    id: str
    statement: str
    verdict: str
    expected: str
    published: str
    measured: str
    interval: str
    of: str
    possible: Sequence[str]
    why: Sequence[str]
    table: str
    anchor: str
    news: str
    picture: str

    @property
    def rank(self) -> int:
        return [*MEANINGS, self.verdict].index(self.verdict)


class VerdictCount(NamedTuple):
    """A line of the summary: a verdict, its number and meaning, and the reasons with their numbers."""

    verdict: str
    number: int
    meaning: str
    why: str


class Cause(NamedTuple):
    """A possible reason, a text for each different case, and the steps that test it."""

    label: str
    texts: Sequence[str]
    tests: Sequence[str]


def summary_of(views: Sequence[FindingView]) -> list[VerdictCount]:
    lines = []
    for verdict, members in grouped_by(views, lambda view: view.verdict).items():
        reasons = Counter(
            reason
            for view in members
            for reason in (view.possible if verdict in _DIFFERENT else map(_label, view.why[:1]))
        )
        why = ", ".join(f"{reason} ({number})" for reason, number in reasons.most_common())
        if verdict in (contract.REPRODUCED, contract.TOO_SMALL):
            why = ""
        lines.append(VerdictCount(verdict, len(members), MEANINGS.get(verdict, ""), why))
    return lines


def causes_of(rows: Rows, views: Sequence[FindingView]) -> list[Cause]:
    known: dict[str, dict[str, str]] = {}
    for row in rows:
        for sentence, test in contract.read_reasons(row.get("why") or ""):
            if contract.is_possible(sentence):
                known.setdefault(_label(sentence), {})[_text(sentence)] = test
    if any(NO_REASON in view.possible for view in views):
        known[NO_REASON] = {NOTHING_EXPLAINS: ""}
    return [
        Cause(name, [*of], unique_values(filter(None, of.values()))) for name, of in known.items()
    ]


def _label(sentence: str) -> str:
    return sentence.partition(": ")[0]


def _text(sentence: str) -> str:
    return sentence.partition(": ")[2]


def seconds_of_rounds(account: Row, rounds: int) -> float:
    blocks = [
        (b["seconds"] / b["rounds"], b["rounds"]) for b in account.get("blocks", []) if b["rounds"]
    ]
    return sum(seconds * max(0, rounds - done) for seconds, done in blocks)


def finding_views(
    rows: Rows,
    definitions: Mapping[str, Row],
    tables: Mapping[str, Row],
    sections: Sequence[TableSection],
    account: Row,
) -> list[FindingView]:
    """Return the findings of a file, news first.

    `definitions` maps an id to its check, `tables` a name to its definition.
    """
    sections_by_name = {section.name: section for section in sections}
    views = []
    for row in rows:
        definition = definitions.get(row["id"], {})
        table, where = table_of(definition, tables)
        section, interval = sections_by_name.get(table), None
        if words.is_number(row.get("low")) and words.is_number(row.get("high")):
            interval = row["low"], row["high"]
        expected, published, measured = (
            _written(row[name]) for name in ("expected", "published", "measured")
        )
        verdict, why = contract.verdict_for_reader(row), row.get("why") or ""
        possible = [_label(s) for s, _ in contract.read_reasons(why) if contract.is_possible(s)]
        view = FindingView(
            id=row["id"],
            statement=row["statement"],
            verdict=verdict,
            expected=expected,
            published=published,
            measured=measured,
            interval=" to ".join(map(_written, interval)) if interval else "",
            of="; ".join(
                filter(
                    None,
                    [
                        _unit_text(row, definition),
                        row.get("over", ""),
                        _pairs_text(definition, where, section) if section else "",
                    ],
                )
            ),
            possible=unique_values(possible) or [NO_REASON] * (verdict in _DIFFERENT),
            why=_reasons(why, account),
            table=section.title if section else "",
            anchor=_anchor(where, section) if section else "",
            news=_news(row, definition) if verdict == contract.REVERSED else "",
            picture=charts.finding_picture(
                [_number((definition.get("expect") or {}).get(k)) for k in ("at_least", "at_most")],
                _number(row["published"]),
                _number(row["measured"]),
                interval,
                f"expected {expected}, measured {measured}",
                _STYLES.get(verdict, ""),
            ),
        )
        views.append(view)
    return sorted(views, key=lambda view: view.rank)


def _reasons(why: str, account: Row) -> list[str]:
    sentences = []
    for sentence, _ in contract.read_reasons(why):
        if contract.is_possible(sentence) or _label(sentence) == contract.REVERSED:
            continue
        if number := _ROUNDS.search(sentence):
            seconds = seconds_of_rounds(account, int(number[1]))
            sentence += f", {words.duration(seconds)} more" if seconds else ""
        sentences.append(sentence)
    return sentences


def _unit_text(row: Row, definition: Row) -> str:
    compare = definition.get("compare") or {}
    if "candidate" not in compare:
        return str(row.get("unit") or "")
    sides = (value_label(compare["axis"], compare[side]) for side in ("baseline", "candidate"))
    return f"ratio of {' / '.join(sides)}"


def _pairs_text(definition: Row, where: Row, section: TableSection) -> str:
    """Return `pairs 0.94 to 2.90, mixed: 5 faster, 3 undecided`; "" for fewer than two pairs."""
    points = [p for pair in section.pairs if pair.measured for p in pair.measured.points]
    rows = [p.row for p in points if p.row and not p.is_small and _overlap(where, p.keys)]
    rows = [row for row in rows if words.is_number(row.get("ratio"))]
    if len(rows) < 2 or (definition.get("expect") or {}).get("over") != MEDIAN:
        return ""
    # The table may have the sides exchanged.
    is_same = section.baseline == str(definition["compare"].get("baseline", section.baseline))
    turned = {} if is_same else {"faster": "slower", "slower": "faster"}
    ratios = [row["ratio"] if is_same else 1 / row["ratio"] for row in rows]
    calls = Counter(turned.get(call := row.get("call") or "too few rounds", call) for row in rows)
    mixed = ", mixed" if len(calls) > 1 else ""
    texts = ", ".join(f"{n} {contract.WORDS.get(call, call)}" for call, n in calls.items())
    return f"pairs {_written(min(ratios))} to {_written(max(ratios))}{mixed}: {texts}"


def _news(row: Row, definition: Row) -> str:
    compare, published = definition.get("compare") or {}, _number(row.get("published"))
    if "candidate" not in compare or not published:
        return ""
    first, second = ("faster", "slower") if published > 1 else ("slower", "faster")
    was, now = (factor(max(v, 1 / v)) for v in (published, float(row["measured"])))
    label = value_label(compare["axis"], compare["candidate"])
    return f"Reversed: {label} was {was} {first}, and is now {now} {second}."


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _written(value: object) -> str:
    number = _number(value)
    if number is None:
        return "" if value is None else str(value)
    return words.fixed(number, 2) if 0.1 <= abs(number) < 10 else words.significant(number)


def _anchor(where: Row, section: TableSection) -> str:
    for row in (row for pair in section.pairs if pair.measured for row in pair.measured.rows):
        for point in row.points:
            if point and point.value is not None and _overlap(where, point.keys):
                return f"{section.anchor}-{row.slug}"
    return section.anchor


def _overlap(where: Row, other: Row) -> bool:
    shared = where.keys() & other.keys()
    return all(
        {*contract.axis_values(where[axis])} & {*contract.axis_values(other[axis])}
        for axis in shared
    )


def table_of(definition: Row, tables: Mapping[str, Row]) -> tuple[str, Row]:
    """Return the table of a finding's comparison, otherwise of its metric, and its axis values.

    The table may have the sides exchanged. Its name is "" if no table fits.
    """
    where, comparison = dict(definition.get("where") or {}), definition.get("compare") or {}
    if "to" in comparison:
        name = table_name(comparison["to"])
        return (name if name in tables else ""), where
    metric, sides = metric_in(definition), [comparison.get("baseline"), comparison.get("candidate")]
    levels = []
    for name, table in tables.items():
        compare = table.get("compare") or {}
        if not compare and (metric_in(table) is metric or metric.name in table.get("each", ())):
            levels.append(name)
        if not compare or compare["axis"] != comparison.get("axis"):
            continue
        for baseline, candidate in (sides, sides[::-1]) if metric_in(table) is metric else ():
            if compare["baseline"] == baseline and candidate in compare["candidates"]:
                return name, {**where, "candidate": candidate}
    if comparison:
        where[comparison["axis"]] = sides
    fitting = (name for name in levels if _overlap(where, tables[name].get("where", {})))
    return next(fitting, next(iter(levels), "")), where
