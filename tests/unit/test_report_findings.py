"""The section of a page on findings: verdicts, pictures, reasons and the commands that test them."""

import csv
import re
import shutil
from collections import Counter
from dataclasses import replace

import pytest

from project import ROOT
from unit.html_tree import parse
from unit.report_files import DEFINITIONS, results_of
from vcsbench.codes import Call, ReasonCode, Result, Verdict, WhyNoBest, WhyUndecided, WithheldCode
from vcsbench.errors import UserError
from vcsbench.report.answer_texts import LESS_CLIENT_WORK
from vcsbench.report.finding_tables import find_opposites, find_table, make_reversed_table
from vcsbench.report.findings_section import (
    MEANINGS,
    NO_REASON,
    REPEAT,
    describe_findings,
    make_finding_views,
    split_reasons,
    summarise_reasons,
)
from vcsbench.report.page import build_page, describe_page
from vcsbench.report.results import read_results
from vcsbench.report.summary import IN_DIRECTION
from vcsbench.report.table_sections import table_sections
from vcsbench.statistics import texts, verdicts
from vcsbench.statistics.baselines import table_definition, table_name
from vcsbench.statistics.verdicts import Reason


@pytest.fixture(scope="module")
def results(whole_study):
    return results_of(whole_study)


NAME = "hot-log-packing-penalty"
VERSION = Reason(ReasonCode.NEWER_VERSION, {"measured": "1.14", "published": "1.9"})
SCALE = Reason(ReasonCode.SCALE, {"subject": "ruby", "share": 10.0})
REASONS = [SCALE, VERSION]
REVERSED = {"published": 0.5, "measured": 2.0, "low": 1.8, "high": 2.2, "verdict": "reversed"}


def views_of(results, reasons=REASONS, sections=(), **changes):
    change = {**REVERSED, "reasons": reasons, **changes}
    rows = [{**row, **(change if row["id"] == NAME else {})} for row in results.findings]
    return make_finding_views(results, rows, results.definitions, sections)


def view_of(views):
    return next(view for view in views if view.id == NAME)


def test_findings_have_pictures_units_and_reversed_ones_come_first(results):
    views = views_of(results)
    assert (views[0].id, views[0].verdict) == (NAME, "reversed")
    values = (views[0].expected, views[0].published, views[0].measured, views[0].interval)
    assert values == ("0.645x to 0.87x", "0.50x", "2.0x", "1.80x to 2.2x")
    assert re.search("not packed ÷ .*: above 1x, packed is faster$", views[0].ratio)
    level = next(view for view in views if view.id == "hot-fast-log-client-bound")
    assert (level.expected, level.ratio) == ("at least 83.5 %", "Client CPU (table: medians)")
    assert len([view for view in views if view.dot]) > 4
    dot = views[0].dot
    assert (dot.expected_low, dot.expected_high, dot.published) == (0.645, 0.87, 0.5)
    assert (dot.measured, dot.low) == pytest.approx((2.0, 1.8), rel=0.05)
    assert dot.verdict == "reversed"
    # A level is no factor.
    assert level.dot is None
    in_order = [view.verdict for view in views]
    assert in_order == sorted(in_order, key=[*MEANINGS].index)


def test_finding_with_a_direction_only_is_marked_and_counted(results):
    rows = [{**row, "verdict": "not measured"} for row in results.findings[3:]]
    (first, second, third) = results.findings[:3]
    rows += [{**first, "verdict": "reproduced"}, {**second, "verdict": "reproduced"}]
    rows += [{**third, "verdict": "weaker"}]
    expects = {first["id"]: {"over": "mean", "direction": "faster"}}
    expects[second["id"]] = {"over": "mean", "direction": "equal"}
    definitions = dict(results.definitions)
    for name, expect in expects.items():
        definitions[name] = {**definitions[name], "expect": expect}
    views = make_finding_views(results, rows, definitions, [])
    assert [view.id for view in views if view.is_in_direction] == [first["id"]]
    # Its dot in the chart has the same name.
    assert {view.dot.verdict for view in views if view.is_in_direction} == {IN_DIRECTION}
    text = describe_findings(views)
    assert text == (
        f"3 of {len(rows)} findings are measured. 1 is reproduced, 1 more in direction only (no number was "
        "stated). 1 differs: 1 weaker."
    )
    # The table of verdicts on the page counts it apart, too.
    page = describe_page(replace(results, findings=rows, definitions=definitions))
    counts = {name: len(of) for name, of in page.findings.by_verdict.items()}
    assert counts["reproduced"] == counts["weaker"] == counts[IN_DIRECTION] == 1
    assert all(page.findings.meanings[name] for name in counts)
    table = build_page(replace(results, findings=rows, definitions=definitions))
    assert (
        f'<a class="verdict reproduced" href="#finding-{first["id"]}">{IN_DIRECTION}</a>' in table
    )
    assert describe_findings([view for view in views if view.verdict == "not measured"]) == ""


def test_finding_has_the_address_of_its_statement(results):
    assert view_of(views_of(results)).source == ""
    address = "https://example.org/a?b=1&c=2"
    definitions = {**results.definitions, NAME: {**results.definitions[NAME], "source": address}}
    changed = replace(results, definitions=definitions)
    assert view_of(views_of(changed)).source == address
    assert f"Source: {address.replace('&', '&amp;')}<" in build_page(changed)


@pytest.mark.parametrize(
    ("value", "shown"), [(0.742, "0.74x"), (11.34, "11x"), (0.672, ""), (None, "")]
)
def test_published_value_of_all_pairs_is_apart_from_that_of_the_measured(results, value, shown):
    facts = {"published": "24 pairs", "value": value, "shown": "x"}
    reasons = [] if value is None else [Reason(ReasonCode.ALL_PUBLISHED, facts)]
    view = view_of(views_of(results, reasons, published=0.674))
    assert (view.published, view.published_all.split(": ")[-1]) == ("0.67x", shown)


@pytest.mark.parametrize(
    ("expect", "expected"),
    [({"at_least": 0}, "at least 0x"), ({"at_most": 2000000}, "at most 2000000x")],
)
def test_expected_range_that_ends_at_zero_is_in_words(results, expect, expected):
    row = next(row for row in results.findings if row["id"] == NAME)
    definitions = {NAME: {**results.definitions[NAME], "expect": expect}}
    (view,) = make_finding_views(results, [row], definitions, [])
    assert view.expected == expected


@pytest.mark.parametrize("verdict", ["reversed", "weaker"])
def test_finding_that_differs_without_a_known_reason_reports_that(results, verdict):
    view = view_of(views_of(results, [], verdict=verdict))
    assert (view.verdict, [step.code for step in view.steps]) == (verdict, [NO_REASON])
    (line,) = summarise_reasons([(view.verdict, view.steps)])
    assert line.action == REPEAT


def test_reason_lines_have_one_action_for_each_reason_the_most_frequent_first(results):
    views = [view_of(views_of(results, reasons)) for reasons in ([SCALE, VERSION], [VERSION])]
    lines = summarise_reasons([(view.verdict, view.steps) for view in views])
    assert [line.findings for line in lines] == ["2 reversed", "1 reversed"]
    assert [line.action for line in lines] == [texts.ACTION_TEXTS[r.code] for r in (VERSION, SCALE)]


@pytest.mark.parametrize(
    "text", ["x", "[1]", '[{"code": "x", "values": {}}]', '[{"code": "needs-rounds"}]']
)
def test_results_with_damaged_reasons_are_refused(results, whole_study, tmp_path, text):
    shutil.copytree(whole_study.results, tmp_path / "results")
    path = tmp_path / "results/findings/fsfs-san-2014.csv"
    rows = [*csv.DictReader(path.open())]
    rows[0]["reasons"] = text
    with path.open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(UserError, match="csv: reasons: "):
        read_results(results.study, tmp_path / "results", DEFINITIONS, results.order)


def test_every_code_has_a_text():
    assert texts.REASON_WORDS.keys() == set(ReasonCode)
    mendable = {
        *(ReasonCode.NEEDS_ROUNDS, ReasonCode.FEW_ROUNDS, ReasonCode.ON_BOUND),
        *(ReasonCode.FIXED_COST, ReasonCode.OLD_VERSION, ReasonCode.TOO_NEW_VERSION),
        ReasonCode.NOT_IN_GRID,
        *(ReasonCode.SKIPPED, ReasonCode.INCOMPLETE, ReasonCode.NO_RESULT),
        ReasonCode.NO_SHARED_ROUND,
    }
    assert texts.ACTION_TEXTS.keys() == {*verdicts.EXPLAINING_CODES, *mendable}
    assert texts.OUTCOMES.keys() == {*Call, *Result}
    assert texts.VERDICTS.keys() == set(Verdict) == MEANINGS.keys()
    assert texts.UNDECIDED_TEXTS.keys() == set(WhyUndecided)
    assert texts.NO_BEST.keys() == set(WhyNoBest)
    assert all(texts.withheld_text([code]) for code in WithheldCode)


def test_shares_of_reasons_have_two_digits_without_an_exponent():
    scale = Reason(ReasonCode.SCALE, {"subject": "ruby", "share": 99.6})
    assert "ruby has 100 % of" in texts.reason_text(scale)
    facts = {"measured": "SSD", "published": "spinning disk", "cold": 33.0, "warm": 1.0}
    text = texts.reason_text(Reason(ReasonCode.FASTER_STORAGE, facts))
    assert text.endswith("cold runs take 3 % of the published time, warm runs 100 %")


def test_cells_that_the_grid_lacks_have_their_labels_on_pages_and_their_names_elsewhere():
    where = {
        "command": ["log", "null-log"],
        "packing": ["pack"],
        "cache": ["hot-os"],
        "format": ["f6"],
    }
    reason = Reason(ReasonCode.NOT_IN_GRID, {"where": where})
    row = {"verdict": Verdict.NOT_MEASURED, "reasons": [reason]}
    ((shown,), _) = split_reasons(row)
    assert shown.text == "cells with log or null-log, packed, OS cache warm, f6"
    typed = "cells with command log or null-log, packing pack, cache hot-os, format f6"
    assert texts.reason_words(reason).facts == typed


@pytest.mark.parametrize("state", ["failed", "invalid", "outdated", "not finished"])
def test_reason_without_a_result_names_each_state_of_its_cells(state):
    label, facts = texts.reason_words(Reason(ReasonCode.NO_RESULT))
    assert label == "no result" and state in facts


def test_reason_with_a_colon_in_its_label_has_its_own_facts():
    values = {"withheld": WithheldCode.ZERO, "excluded": 1, "total": 4}
    row = {"verdict": Verdict.NOT_MEASURED, "reasons": [Reason(ReasonCode.NOT_COMPARED, values)]}
    (reason,), _ = split_reasons(row)
    label = texts.withheld_text([WithheldCode.ZERO])
    assert (reason.label, reason.text) == (label, "1 of 4 cells not compared")


COLD_LOG, PACKED = {"command": "log", "cache": "cold"}, {"packing": "pack"}
SLOWER = {"ratio": 0.8, "call": "slower"}


@pytest.mark.parametrize(
    ("sides", "slower", "text"),
    [
        (("f6", "f7"), {}, "6 pairs, 2.0x"),
        (("f6", "f7"), PACKED, "6 pairs, 0.80x to 2.0x"),
        # The table has the sides exchanged.
        (("f7", "f6"), PACKED, "6 pairs, 0.50x to 1.25x"),
    ],
)
def test_mean_has_the_range_of_its_pairs(results, sides, slower, text):
    def change(row):
        is_slower = slower and (slower | COLD_LOG).items() <= row.items()
        # Some of the pairs have another ratio with the same text. The mean is printed with these digits, too.
        return SLOWER if is_slower else {"ratio": 2.001 if row["access"] == "svn" else 2.0}

    rows = [{**row, **change(row)} for row in results.tables["f6-vs-f7"]]
    changed = replace(results, tables={**results.tables, "f6-vs-f7": rows})
    compare = dict(zip(("axis", "baseline", "candidate"), ("format", *sides), strict=True))
    definition = {"where": COLD_LOG, "compare": compare, "expect": {"over": "mean", "at_least": 1}}
    found = [{**results.findings[0], "id": "x"}]
    (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert view.pairs == text


def test_pairs_are_those_from_which_the_finding_was_computed(results):
    def view_with(share, **changes):
        runs = [
            {**run, "fixed_share": share if run["access"] == "svn" else 0.1}
            for run in results.measurements
        ]
        changed = replace(results, measurements=runs)
        compare = {"axis": "format", "baseline": "f6", "candidate": "f7"}
        expect = {"over": "mean", "at_least": 1}
        definition = {"where": COLD_LOG, "compare": compare, "expect": expect}
        found = [{**results.findings[0], "id": "x", **changes}]
        (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
        return view

    assert len(view_with(0.1).pair_lines) == 6
    # Start-up explains the pairs over svn, though the table calls them different.
    explained = view_with(0.9)
    assert explained.pairs.startswith("4 pairs, ")
    cases = [line.case for line in explained.pair_lines]
    assert len(cases) == 4 and not any("svn" in case for case in cases)
    # A finding without a number, such as one of two hosts, has no pairs.
    without = view_with(0.1, measured=None, low=None, high=None, over="")
    assert (without.pair_lines, without.pairs) == ([], "")


@pytest.mark.parametrize(
    ("of_pairs", "over", "of_finding", "is_said"),
    [
        ({}, "mean", {}, True),
        # A certain difference below the margin is counted as equal.
        ({"call": "faster", "result": "equal"}, "mean", {}, False),
        # Without duplicates, no pair is called a difference.
        ({"flags": "no-duplicates"}, "mean", {}, False),
        ({}, "min", {}, False),
        ({}, "mean", {"low": 0.9}, False),
        ({}, "mean", {"verdict": "mixed"}, False),
    ],
)
def test_finding_whose_mean_differs_and_none_of_its_pairs_says_so(
    results, of_pairs, over, of_finding, is_said
):
    undecided = {"call": "undecided", "result": "undecided", "flags": ""}
    rows = [{**row, **undecided, **of_pairs} for row in results.tables["f6-vs-f7"]]
    changed = replace(results, tables={**results.tables, "f6-vs-f7": rows})
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7"}
    expect = {"over": over, "at_least": 1.5}
    definition = {"where": COLD_LOG, "compare": compare, "expect": expect}
    facts = {"measured": 1.1, "low": 1.05, "high": 1.2, "verdict": "weaker", "reasons": []}
    found = [{**results.findings[0], "id": "x", **facts, **of_finding}]
    (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert len(view.pair_lines) == 6
    remark = "No pair alone is certain; their mean is."
    assert (remark in view.notes) is is_said


def test_comparison_with_a_saved_baseline_has_its_pairs_with_much_start_up_as_well(results):
    # Its number is over all pairs.
    name = table_name("old")
    tables = {**results.study.tables, name: table_definition(results.study.tables, "old")}
    change = {"baseline": "old", "candidate": "now", "format": "f6", "call": "too small"}
    changed = replace(
        results,
        study=results.study.model_copy(update={"tables": tables}),
        tables={**results.tables, name: [row | change for row in results.tables["f6-vs-f7"]]},
        notes={name: []},
    )
    expect = {"over": "mean", "at_least": 1}
    definition = {"where": COLD_LOG, "compare": {"to": "old"}, "expect": expect}
    found = [{**results.findings[0], "id": "x"}]
    (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert len(view.pair_lines) == 6 and view.pairs.startswith("6 pairs, ")


@pytest.mark.parametrize(
    ("low", "high", "interval"), [(1.25, 2.5, "0.40x to 0.80x"), (None, None, "")]
)
def test_pairs_of_exchanged_sides_have_reciprocal_numbers(results, low, high, interval):
    numbers = {"ratio": 2.0, "low": low, "high": high}
    rows = [row | numbers for row in results.tables["f6-vs-f7"]]
    changed = replace(
        results,
        tables={**results.tables, "f6-vs-f7": rows},
        published={"f6-vs-f7": [row | {"value": 25.0} for row in rows]},
    )
    compare = {"axis": "format", "baseline": "f7", "candidate": "f6"}
    definition = {"where": COLD_LOG, "compare": compare, "expect": {"over": "min", "at_least": 0.1}}
    found = [{**results.findings[0], "id": "x"}]
    (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
    # The published, the measured number and its interval; after one round, there is no interval.
    assert [line[1:4] for line in view.pair_lines] == [("0.80x", "0.50x", interval)] * 6


def mixed_view(results, definition, parts):
    """Return the page and the view of a mixed finding whose cells or pairs are `parts`."""
    records = [
        {"where": where, "place": place, "value": 1.2, "low": low, "high": 1.3}
        for where, place, low in parts
    ]
    reason = Reason(ReasonCode.DISAGREEMENT, {"noun": "pair", "parts": records})
    facts = {"measured": 1.2, "low": 1.1, "high": 1.3, "verdict": "mixed", "reasons": [reason]}
    row = {**results.findings[0], "id": "x", **facts}
    changed = replace(results, findings=[row], definitions={"x": definition})
    (view,) = make_finding_views(changed, [row], changed.definitions, table_sections(results))
    return build_page(changed), view


def test_pairs_of_a_mixed_finding_have_their_places(results):
    compare = {"axis": "format", "baseline": "f6", "candidate": "f7"}
    expect = {"over": "mean", "at_least": 1}
    definition = {"where": COLD_LOG, "compare": compare, "expect": expect}
    accesses = {"svn": "below", "http": "above", "file": "open"}
    parts = [
        ({**COLD_LOG, "access": access, "packing": packing}, place, 1.1)
        for access, place in accesses.items()
        for packing in ("nopack", "pack")
    ]
    page, view = mixed_view(results, definition, parts)
    assert Counter(line.place for line in view.pair_lines) == dict.fromkeys(accesses.values(), 2)
    for line in view.pair_lines:
        (access,) = [name for name in accesses if f"over {name}" in line.case]
        assert line.place == accesses[access]
    # Remarks, and no reason with advice.
    assert view.steps == [] and any("2 below, 2 above, 2 open" in note for note in view.notes)
    cells = [
        cell.text
        for cell in parse(page).all("td")
        if cell.attributes.get("data-name") == "Expected range"
    ]
    assert cells == [line.place_text for line in view.pair_lines]
    # The pairs of any other finding have no place.
    (other,) = make_finding_views(
        results,
        [{**results.findings[0], "id": "x"}],
        {"x": definition},
        table_sections(results),
    )
    assert [line.place for line in other.pair_lines] == [None] * 6


def test_cells_of_a_mixed_finding_have_their_values_and_places(results):
    where = {"command": "log", "cache": "hot-server"}
    definition = {"where": where, "level": "client_cpu_pct", "expect": {"over": "mean"}}
    definition["expect"]["at_least"] = 84
    parts = [
        ({**where, "access": "svn"}, "inside", 1.1),
        ({**where, "access": "http"}, "open", None),
    ]
    page, view = mixed_view(results, definition, parts)
    places = [(line.place, line.measured, line.interval) for line in view.pair_lines]
    assert places == [("inside", "1.20 %", "1.10 % to 1.30 %"), ("open", "1.20 %", "")]
    assert "over svn" in view.pair_lines[0].case and "over http" in view.pair_lines[1].case
    assert "Its 2 cells" in page


def test_key_of_the_expected_range_has_its_origin_and_the_margin(results):
    advice = replace(results.advice, min_effect_pct=7)
    page = build_page(replace(results, advice=advice))
    (key,) = re.findall("<span><i class=.swatch.>▬</i>([^<]+)<", page)
    assert "published" in key and "last digit" in key and "7 %" in key


def test_expectation_with_numbers_as_sides_has_their_labels_and_table(results):
    compare = {"axis": "clients", "baseline": 1, "candidate": 8}
    definition = {"where": {}, "compare": compare, "expect": {"over": "mean", "at_least": 1}}
    found = [{**results.findings[0], "id": "x"}]
    (view,) = make_finding_views(results, found, {"x": definition}, table_sections(results))
    assert "8 clients" in view.ratio
    of_table = {"axis": "clients", "baseline": "1", "candidates": ["8"]}
    table = {"compare": of_table, "rows": [], "columns": []}
    assert find_table(definition, {"t": table}) == ("t", {"candidate": "8"})


def test_comparisons_with_less_work_are_marked_in_card_and_finding(results):
    rows, runs = (
        [{**row, "command": "null-log"} for row in rows if row["command"] == "log"]
        for rows in (results.tables["http-vs-ra"], results.measurements)
    )
    card = next(card for card in results.advice.cards if card.question.axis == "access")
    cases = [replace(case, where={**case.where, "command": "null-log"}) for case in card.cases]
    advice = replace(results.advice, cards=[replace(card, cases=cases)])
    tables = {**results.tables, "http-vs-ra": rows}
    changed = replace(results, measurements=runs, tables=tables, advice=advice)
    compare = {"axis": "access", "baseline": "http", "candidate": "svn"}
    where = {"command": "null-log"}
    definition = {"where": where, "compare": compare, "expect": {"over": "mean", "at_least": 1}}
    found = [{**results.findings[0], "id": "x"}]
    (view,) = make_finding_views(changed, found, {"x": definition}, table_sections(changed))
    assert view.note == f"null-log: {LESS_CLIENT_WORK}"
    (card_view,) = describe_page(replace(changed, findings=[])).answers.cards
    # Such comparisons do not count in the card, so it does not show them.
    number = sum(len(case.pairs) for case in cases)
    (line,) = [line for line in card_view.lines if line.endswith(f"{LESS_CLIENT_WORK}.")]
    assert card_view.rows == [] and line.startswith(f"{number} comparisons of null-log ")


def test_comparison_that_was_published_as_slower_is_in_the_table_of_reversals(results):
    slower = {"value": -50.0, "ratio": 0.5, "low": None, "high": None}
    published = [row | slower for row in results.tables["f6-vs-f7"][:2]]
    changed = replace(results, published={**results.published, "f6-vs-f7": published})
    sections = table_sections(changed)
    table = make_reversed_table(replace(changed, definitions={}), sections)
    found = [row[1:3] for row in table.rows if "f7 against f6" in row[0]]
    assert found == [["2.0x slower", "2.0x faster"]] * 2
    without = replace(results, published={})
    assert make_reversed_table(without, table_sections(without)) is None
    # A published time that was rounded to nothing has no factor.
    nothing = [row | {"value": -100.0, "ratio": 0.0} for row in published]
    without = replace(results, published={"f6-vs-f7": nothing})
    assert make_reversed_table(without, table_sections(without)) is None


def test_sure_but_small_difference_is_no_opposite_of_a_published_one(results):
    slower = {"value": -50.0, "ratio": 0.5, "low": None, "high": None}
    published = [row | slower for row in results.tables["f6-vs-f7"]]
    small = {"value": 2.0, "ratio": 1.02, "low": 1.01, "high": 1.03, "call": "faster"}
    rows = [row | small | {"result": "equal"} for row in results.tables["f6-vs-f7"]]
    changed = replace(
        results,
        tables={**results.tables, "f6-vs-f7": rows},
        published={"f6-vs-f7": published},
        definitions={},
    )
    sections = table_sections(changed)
    assert make_reversed_table(changed, sections) is None
    assert find_opposites(changed, sections) == []


def test_meanings_of_verdicts_hold_for_metrics_that_are_no_times():
    meanings = " ".join(MEANINGS.values())
    assert "faster" not in meanings and "slower" not in meanings


def test_style_has_a_mark_for_each_verdict():
    style = (ROOT / "workflow/report/style.css").read_text()
    # What was not measured has the mark of no result.
    for verdict in {*Verdict} - {Verdict.NOT_MEASURED}:
        assert f".verdict.{verdict.replace(' ', '-')}::before" in style
