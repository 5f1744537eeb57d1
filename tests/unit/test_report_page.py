"""The page of a study: its head, cards, picks, next steps, quality and words."""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape

import pytest

from unit.answered import answered
from unit.html_tree import Element, parse
from unit.report_files import (
    DEFINITIONS,
    default_grid,
    default_study,
    make_files,
    results_of,
)
from unit.synthetic import AXES, SAME_WORK, WORK
from vcsbench.advice.cards import ADVICE, Advice, RoleCard
from vcsbench.advice.decision import Case, Pair
from vcsbench.advice.labels import factor
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.advice.wishes import ANY
from vcsbench.codes import Call, Result, Verdict
from vcsbench.plan.grid import is_duplicate
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.records import complete_context
from vcsbench.report.account import Account, BlockAccount, OutlookMoment
from vcsbench.report.answers import make_card_views
from vcsbench.report.card_rows import FIXED_COST_KEY, row_key
from vcsbench.report.card_texts import describe_role
from vcsbench.report.cell_details import collect_details
from vcsbench.report.change_costs import describe_costs, make_estimate, measured_work
from vcsbench.report.legend import list_words
from vcsbench.report.page import build_page, describe_page
from vcsbench.report.page_texts import COLD_MEANING, describe_cold
from vcsbench.report.pick_answers import NOT_MEASURED
from vcsbench.report.quality_section import (
    FEW_DUPLICATE_ROUNDS,
    FIXED_COST_NOTE,
    NO_DUPLICATES,
    NOTHING_TIMED,
    describe_quality,
    judge_noise,
    make_quality_tables,
)
from vcsbench.report.results import Provenance, Results
from vcsbench.report.table_sections import PUBLISHED_MEDIANS
from vcsbench.statistics.texts import PENDING_TEXTS

STUDY = default_study()
SMALL = {**AXES, "command": ["log"], "access": ["svn"], "cache": ["cold"], "packing": ["pack"]}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """f7 takes half of f6, packed 0.8, svn 0.8 of http; one round of an export failed."""
    failed = [("export/svn/ruby/f6/nopack/slow/cold", 2)]
    folder = tmp_path_factory.mktemp("page")
    return results_of(make_files(folder, skip=default_grid, twins=1, failed=failed))


@pytest.fixture(scope="module")
def page(results):
    return describe_page(results)


@pytest.fixture(scope="module")
def html(results):
    return build_page(results)


def test_origin_of_published_numbers_has_the_year_of_the_study_s_date(results):
    # Neither the name of a study nor its source is its date.
    changes = {"name": "disks-of-1999", "source": "Published for 2003 MB.", "date": "2013-05"}
    dated = replace(results, study=STUDY.model_copy(update=changes))
    assert describe_page(dated).tables.published_where.startswith("2013, ")
    undated = replace(results, study=STUDY.model_copy(update={**changes, "date": ""}))
    assert describe_page(undated).tables.published_where == STUDY.published.machine


@pytest.fixture(scope="module")
def tree(html):
    return parse(html)


def card_on(page, axis):
    return next(view for view in page.answers.cards if view.card.question.axis == axis)


def with_card(results, card):
    return replace(results, advice=replace(results.advice, cards=[card]))


def test_header_has_repository_version_and_counts_duplicates_apart_from_cells(results, page):
    repositories, rest, cold, labels, left_out = page.header
    duplicates = {row["cell"] for row in results.measurements if is_duplicate(row["cell"])}
    assert "6,000 revisions" in repositories and "Subversion 1.14.2" in rest
    assert f"{len(results.measurements)} timed runs of 72 cells" in rest
    twice = f"; {len(duplicates)} cells are measured twice as a check"
    assert duplicates and rest.endswith(f", in 4 to 5 rounds of 1 run{twice}")
    assert cold.startswith("A cold run read ")
    # `fast` has a short label, which the head explains.
    assert labels.startswith("tuned 1 GiB: 1 GiB of cache,") and "--client-speed" in labels
    assert left_out == results.study.leaves_out
    assert [s for s in page.remarks if s.startswith(f"{len(duplicates)} cells have a duplicate")]


def test_published_page_begins_with_verdicts_and_shows_unpublished_tables_last(page, html):
    assert page.begins_with_tables and page.result.startswith(
        f"{sum(view.verdict != 'not measured' for view in page.findings.views)} of "
    )
    assert page.result in html.partition("<nav")[0]
    unpublished = [table for table in page.tables.sections if table.is_unpublished]
    assert unpublished
    before, after = html.split('id="further"')
    for table in page.tables.sections:
        place = after if table.is_unpublished else before
        assert f'<section class="table" id="{table.anchor}"' in place


def test_unpublished_table_of_a_page_that_begins_with_answers_names_that(results):
    sentence = "The study published nothing for this table."
    own = replace(results, own_repository="/srv/svn/project")
    unpublished = [table for table in describe_page(own).tables.sections if table.is_unpublished]
    assert unpublished and build_page(own).count(sentence) == len(unpublished)


def test_page_of_the_same_results_is_the_same_and_requests_nothing(results, html):
    assert html == build_page(results)
    assert not re.findall(r"""(?:src|href)=["']?https?:""", html)


def first_parts(tree):
    parts = [child for child in tree.by_id("main").children if isinstance(child, Element)]
    return [part.attributes.get("id") for part in parts if part.attributes.get("id")][:4]


def test_page_begins_with_findings_and_that_of_an_own_repository_with_advice(results, tree):
    assert first_parts(tree) == ["case", "findings", "tables", "answer"]
    own = parse(build_page(replace(results, own_repository="/srv/svn/project")))
    assert first_parts(own)[:2] == ["case", "answer"]


def test_page_has_reasons_of_failures_and_details_of_numbers(results, page, tree):
    assert results.failures[0]["reason"] in tree.by_id("quality").text
    details = json.loads(gzip.decompress(base64.b64decode(tree.by_id("details").text)))
    assert details == json.loads(json.dumps(collect_details(results, page.tables.sections)))


def test_cards_have_the_known_values_and_factors(page):
    axes = ("format", "packing", "access")
    answers = {axis: answered(card_on(page, axis).card) for axis in axes}
    assert answers["format"].value == "f7" and answers["access"].value == "svn"
    numbers = re.findall(r"[\d.]+x|\d+", answers["format"].effect)
    assert numbers[:4] == ["2.0x", "36", "36", "0"]
    assert answers["packing"].short == "yes"
    # Text, chart and times have the same ratio.
    for row in (row for row in card_on(page, "format").rows if row.style == "candidate"):
        shown = float(re.search(r"([\d.]+)x", row.text).group(1))
        before, after = (float(time.split()[0]) for time in row.times)
        assert before / after == pytest.approx(shown, rel=0.06)
        assert row.text == f"f7 {factor(row.pair.ratio)} faster"
        assert (row.pair.baseline, row.pair.candidate) == ("f6", "f7")


def test_cards_have_flags_of_their_runs_and_values_outside_of_the_grid(results, page):
    card = card_on(page, "packing").card
    flags = ("apart", "cpu-busy", "saturated", "outlier-20")
    pair = Pair("nopack", "pack", 2.0, 1.9, 2.1, 5, Call.FASTER, Result.DIFFERENT, flags=flags)
    card = replace(card, cases=[*card.cases[:2], Case({}, (pair,))])
    (view,) = make_card_views(with_card(results, card))
    # A card with one answer over all cells names outliers, too. It changes no other card.
    both = [card, replace(card, question=replace(card.question, aggregate=True))]
    plain, whole = make_card_views(replace(results, advice=replace(results.advice, cards=both)))
    assert not any("outlier-20" in row.note for row in plain.rows)
    assert any("outlier-20" in row.note for row in whole.rows)
    # The key of the plot has the meaning of each flag.
    notes = [row.note for row in view.rows if row.note]
    assert notes == ["flags: not interleaved, saturated"]
    meanings = dict(row_key(view.rows))
    assert meanings.keys() == {"not interleaved", "saturated"} and all(meanings.values())
    # So has a comparison whose times are mostly start-up.
    starting = replace(card, cases=[Case({}, (replace(pair, flags=(), fixed_share=0.3),))])
    (view,) = make_card_views(with_card(results, starting))
    assert dict(row_key(view.rows)) == dict([FIXED_COST_KEY])
    lines = {view.card.question.axis: view.lines for view in page.answers.cards}
    failed = "default settings: 1 cell not measured: svnserve did not answer within 10 s."
    assert (lines["packing"], lines["config"], lines["access"]) == ([], [failed], [])


def test_card_with_noise_checks_only_names_the_sides_of_its_chart(results, page):
    card = card_on(page, "packing").card
    flags = ("same-binaries",)
    pair = Pair("nopack", "pack", 1.0, 0.9, 1.1, 5, Call.EQUAL, Result.EQUAL, flags=flags)
    assert pair.is_noise_check
    (view,) = make_card_views(with_card(results, replace(card, cases=[Case({}, (pair,))])))
    assert (view.left, view.right) == ("not packed", "packed")


@pytest.mark.parametrize(
    ("disturbed", "text", "is_much"),
    [(0, "", False), (2, "2 % of the runs", False), (6, "6 % of the runs", True)],
)
def test_page_has_the_share_of_disturbed_runs(results, disturbed, text, is_much):
    flags = ["cpu-busy"] * disturbed + [""] * (100 - disturbed)
    runs = [{**results.valid_runs[0], "flags": text_of_flags} for text_of_flags in flags]
    answers = describe_page(replace(results, measurements=runs)).answers
    assert (answers.disturbed, answers.is_much_disturbed) == (text, is_much)


@pytest.mark.parametrize(
    ("low", "high", "result", "bound", "interval"),
    [
        (1.3, 4.3, Result.UNDECIDED, "4.3x", "1.3x to 4.3x faster"),
        (1 / 4.3, 1 / 1.3, Result.UNDECIDED, "4.3x", "1.3x to 4.3x slower"),
        (0.8, 1.05, Result.UNDECIDED, "1.2x", "1.2x slower to 5.0 % faster"),
        (0.92, 1.05, Result.BOUNDED, "8.7 %", "8.7 % slower to 5.0 % faster"),
        # A certain result needs no bound, and one round has no interval.
        (0.96, 1.05, Result.EQUAL, "", "4.2 % slower to 5.0 % faster"),
        (0.0, 0.0, Result.UNDECIDED, "", ""),
    ],
)
def test_bound_of_a_row_is_the_far_end_of_its_interval(
    results, page, low, high, result, bound, interval
):
    card = card_on(page, "packing").card
    calls = {Result.EQUAL: Call.EQUAL, Result.BOUNDED: Call.BOUNDED}
    call = calls.get(result, Call.UNDECIDED)
    # `within` is the bound of a one-sided test.
    pair = Pair("nopack", "pack", 1.02, low, high, 5, call, result, within=1.14)
    view = make_card_views(with_card(results, replace(card, cases=[Case({}, (pair,))])))[0]
    (row,) = view.rows
    assert re.findall(r"at most (.*) apart", row.text) == ([bound] if bound else [])
    assert row.note == "" and (row.interval == f"packed {interval}") == bool(interval)


LOAD = {
    **{"seconds": 22.0, "revisions": 5526, "loaded_in": "/dev/shm/x", "format": "f7"},
    **{"path": "/var/tmp/x", "seconds_by_state": {"pack": 2.0}},
}


def sized(name, fmt, packing, size):
    repository = {"name": name, "format": fmt, "packing": packing, "bytes": size}
    return complete_context({"repository": repository})


def test_cards_have_the_disk_and_the_load_of_this_run(results):
    contexts = [sized("ruby", fmt, "nopack", n << 20) for fmt, n in (("f6", 80), ("f7", 35))]
    for pack_seconds, shown in ((2.0, "took 2 s"), (0.3, "took less than 1 s")):
        loads = {"ruby": {**LOAD, "seconds_by_state": {"pack": pack_seconds}}, "bsd": {}}
        found = make_card_views(replace(results, contexts=contexts, loads=loads))
        costs = {view.card.question.axis: " ".join(view.costs) for view in found}
        assert re.findall(r"[\d.]+ MiB", costs["format"]) == ["80.0 MiB", "35.0 MiB"]
        assert "took 22 s" in costs["format"] and "5,526 revisions" in costs["format"]
        assert shown in costs["packing"] and costs["access"] == ""


@pytest.mark.parametrize(
    ("youngest", "share"), [(500, "100 %"), (5526, "9.5 %"), (5999, ""), (6003, "")]
)
def test_packing_names_the_revisions_that_stay_as_they_are(results, youngest, share):
    loads = {"ruby": {**LOAD, "revisions": youngest}}
    loaded = replace(results, contexts=[sized("ruby", "f7", "nopack", 35)], loads=loads)
    costs = " ".join(describe_costs(loaded, "packing"))
    assert ("Only full shards" in costs) is bool(share)
    assert (f"packed: {share} of the revisions" in costs) is bool(share)


def test_upkeep_of_git_has_the_time_of_its_commands(results):
    contexts = [complete_context({"repository": {"name": "project", "format": "git"}})]
    seconds = {"many-packs": 0.0, "one-pack": 0.2, "bitmap": 4.4}
    load = {**LOAD, "format": "git", "loaded_in": "/var/tmp/x", "seconds_by_state": seconds}
    loaded = replace(results, contexts=contexts, loads={"project": load})
    assert describe_costs(loaded, "upkeep") == [
        "Its commands took, for 5,526 commits: one pack less than 1 s, one pack + bitmap 4 s."
    ]
    work = measured_work(loaded)
    assert work["upkeep", "bitmap"].text == "4 s for 5,526 commits"
    assert ("format", ANY) not in work and ("upkeep", "many-packs") not in work


def test_estimate_has_times_and_sizes_of_the_largest_repository(results):
    of_ruby = [("f6", "nopack", 80), ("f6", "pack", 30), ("f7", "nopack", 35)]
    contexts = [*(sized("ruby", *of) for of in of_ruby), sized("bsd", "f6", "nopack", 99)]
    for path in ("/dev/shm/x", "/var/tmp/x"):
        loads = {"bsd": {**LOAD, "revisions": 500}, "ruby": {**LOAD, "loaded_in": path}}
        assert make_estimate(replace(results, contexts=contexts, loads=loads)) == {
            **{"revisions": 5526, "seconds": 22.0, "pack_seconds": 2.0},
            **{"in_memory": path == "/dev/shm/x", "pack_in_memory": False},
            "bytes": {"f6": {"nopack": 80, "pack": 30}, "f7": {"nopack": 35}},
        }
    assert make_estimate(replace(results, contexts=contexts, loads={})) is None


@pytest.mark.parametrize("loaded_in", ["/dev/shm/x", "/var/tmp/x"])
@pytest.mark.parametrize("path", ["/dev/shm/x", "/var/tmp/x"])
def test_packing_and_upkeep_are_in_memory_where_the_repository_lies(results, loaded_in, path):
    contexts = [sized("ruby", "f7", "nopack", 35)]
    load = {**LOAD, "loaded_in": loaded_in, "path": path}
    is_load, is_later = loaded_in.startswith("/dev/shm"), path.startswith("/dev/shm")
    loaded = replace(results, contexts=contexts, loads={"ruby": load})
    work = measured_work(loaded)
    assert work["format", ANY].is_in_memory is is_load
    assert work["packing", "pack"].is_in_memory is is_later
    for axis, expected in (("format", is_load), ("packing", is_later)):
        assert ("in memory" in " ".join(describe_costs(loaded, axis))) is expected
    of_git = {**load, "format": "git", "seconds_by_state": {"bitmap": 4.4}}
    loaded = replace(results, contexts=contexts, loads={"ruby": of_git})
    assert measured_work(loaded)["upkeep", "bitmap"].is_in_memory is is_later
    assert ("in memory" in describe_costs(loaded, "upkeep")[0]) is is_later


def test_picks_have_the_axes_of_a_reader(results, page):
    assert [pick.axis for pick in page.answers.picks] == ["access", "format", "packing", "config"]
    assert ("nopack", "not packed") in page.answers.picks[2].values
    assert {pick.preset for pick in page.answers.picks} == {""}
    # An answer over all cells, as on builds, follows no pick.
    cards = [replace(c, question=replace(c.question, aggregate=True)) for c in results.advice.cards]
    whole = describe_page(replace(results, advice=replace(results.advice, cards=cards)))
    assert whole.answers.picks == []
    assert page.answers.wishes == []
    # The formats of this study are not those of the user's own repository, so its wishes assume one.
    own = describe_page(replace(results, own_repository="/srv/repo"))
    assert {pick.preset for pick in own.answers.picks} == {""}
    assert own.answers.wishes and all(wish.assumed for wish in own.answers.wishes)


def test_wishes_link_to_the_cards_of_their_questions(results):
    cards = []
    for each in results.advice.cards:
        question = replace(each.question, name=f"about_{each.question.axis}")
        cards.append(replace(each, question=question))
    advice = replace(results.advice, cards=cards)
    own = parse(build_page(replace(results, advice=advice, own_repository="/srv/repo")))
    links = {link.attributes["href"] for link in own.by_id("wishes").all("a")}
    assert links == {"#card-about_format", "#card-about_packing"}
    assert {link[1:] for link in links} <= {element.attributes.get("id") for element in own}


@pytest.mark.parametrize("first", ["as-is", "f6"])
def test_format_and_packing_of_an_own_repository_are_preset_if_they_are_known(results, first):
    words = {"format": "formats", "packing": "packings"}
    study = results.study.model_copy(update={"axes": {**results.study.axes, **words}})
    advice = ADVICE.dump_json(results.advice).decode().replace('"f6"', f'"{first}"')
    cells = [{**c, "format": first} if c["format"] == "f6" else c for c in results.grid]
    own = replace(
        results,
        study=study,
        order={**results.order, "format": [first, "f7"]},
        grid=cells,
        advice=ADVICE.validate_json(advice),
        own_repository="/srv/repo",
    )
    answers = describe_page(own).answers
    # A copy of the repository is measured as it is. A dump has no format: the first one is a loaded one.
    is_known = first == "as-is"
    expected = ["", "as-is", "nopack", ""] if is_known else [""] * 4
    assert [pick.preset for pick in answers.picks] == expected
    assert {wish.question for wish in answers.wishes} == {"format", "packing"}
    # Only values that nothing shows are assumed.
    assumed = {label for wish in answers.wishes for label in wish.assumed}
    assert assumed.isdisjoint({first, "not packed"}) is is_known


def test_answers_of_cards_follow_the_picks_on_a_page_without_operations(results, page, tree):
    # A card whose compared axis is the command has no row with a command.
    card = card_on(page, "packing").card
    cases = [replace(case, where={"access": case.where["access"]}) for case in card.cases]
    changed = with_card(results, replace(card, cases=cases))
    answers = describe_page(changed).answers
    assert answers.picks and not answers.has_operations and len(answers.pick_answers) > 1
    own_tree = parse(build_page(changed))
    assert len(own_tree.all("template")) == len(answers.pick_answers)
    assert places_of(own_tree) == {"card-packing-answer", "card-packing-short"}
    assert {"first", "card-packing-answer", "card-packing-short"} <= places_of(tree)
    # The script shows this paragraph for picks without an answer.
    for each in (tree, own_tree):
        assert each.by_id("no-answer").text.startswith("The grid has no cell")


@pytest.mark.parametrize("own", ["", "/srv/svn/project"])
@pytest.mark.parametrize("number", [1, 2])
def test_answers_for_picks_have_their_places_also_without_a_measured_finding(results, own, number):
    # The script would fail without one of the places.
    findings = [{**row, "verdict": Verdict.NOT_MEASURED} for row in results.findings]
    advice = replace(results.advice, cards=results.advice.cards[:number])
    changed = replace(results, advice=advice, findings=findings, own_repository=own)
    assert describe_page(changed).result == ""
    page = parse(build_page(changed))
    ids = {element.attributes.get("id") for element in page}
    assert places_of(page) and places_of(page) <= ids


def places_of(tree):
    places = (element.attributes.get("data-place") for element in tree)
    return {place for place in places if place}


def answer_on(page, picks):
    return next(answer for answer in page.answers.pick_answers if answer.picks == picks)


def chips_of(change):
    return [chip for row in change.rows for chips in row.cells for chip in chips]


@pytest.mark.parametrize(
    "picks", [{}, {"access": "http"}, {"access": "svn", "format": "f6", "packing": "nopack"}]
)
def test_answers_for_picks_equal_the_rule_on_the_fitting_cases(page, picks):
    view = card_on(page, "packing")
    (shown,) = (c for c in answer_on(page, picks).cards if c.anchor == view.anchor)
    expected = answered(view.card, picks)
    assert (shown.kind, shown.short, shown.value) == (expected.kind, expected.short, expected.value)
    assert shown.sentence.startswith(expected.sentence)


def test_wishes_of_a_study_follow_the_picks(page):
    assert answer_on(page, {}).wishes == page.answers.wishes == []
    wishes = {}
    for packing in ("nopack", "pack"):
        picks = {"access": "svn", "format": "f6", "packing": packing}
        wishes[packing] = answer_on(page, picks).wishes
        assert {wish.operation.access for wish in wishes[packing]} == {"svn"}
    assert "packing" in {wish.question for wish in wishes["nopack"]}
    # What is packed already gains nothing from packing.
    assert "packing" not in {wish.question for wish in wishes["pack"]}


def test_question_without_a_comparison_of_the_picked_value_is_named(page):
    # The question about http and svn compares no `file`.
    remarks = dict(answer_on(page, {"access": "file"}).remarks)
    assert "http/svn" in remarks[NOT_MEASURED].split("; ")
    others = dict(answer_on(page, {"access": "http"}).remarks)
    assert "http/svn" not in others.get(NOT_MEASURED, "")


def test_answers_exist_for_the_combinations_of_the_grid_only(results, page):
    cells = [row for row in results.grid if not row["skip"]]
    for answer in page.answers.pick_answers:
        # An axis that a cell lacks fits any value.
        assert any(all(row[a] in ("", v) for a, v in answer.picks.items()) for row in cells)
    picks = [tuple(answer.picks.items()) for answer in page.answers.pick_answers]
    assert picks[0] == () and len(picks) == len({*picks})


def test_changes_for_picks_have_their_order_cost_and_results(page):
    mine = {"access": "http", "format": "f6", "packing": "nopack", "config": "slow"}
    f7, packed, svn = answer_on(page, mine).changes
    # A load makes a repository that is not packed, so it comes before packing, its only advised step.
    steps = [change.lead.partition(":")[0] for change in (f7, packed, svn)]
    assert steps == ["Step 1 (optional)", "Step 2", "Step 3 (optional)"]
    assert "format 7" in f7.lead and "svnserve" in svn.lead
    assert [len(change.conditions) for change in (f7, packed, svn)] == [1, 0, 1]
    assert (packed.anchor, f7.anchor, svn.anchor) == ("card-packing", "card-format", "card-access")
    assert all(change.cost and change.undo for change in (packed, f7, svn))
    assert [row.label for row in f7.rows] == ["as you are", "after packed"]
    assert {(chip.text, chip.style) for chip in chips_of(f7)} == {("2.0x faster", "candidate")}
    for chip in chips_of(f7):
        before, after = (float(text.split()[0]) for text in chip.times.split(" → "))
        assert before / after == pytest.approx(2, rel=0.06)


def test_answer_without_picks_has_a_row_for_each_change_and_splits_a_range(page, results):
    rows = [row.label for change in answer_on(page, {}).changes for row in change.rows]
    assert rows and {*rows} == {"all cases"}
    # Packed is faster by 1.25 for f6 and by 2.5 for f7: the format explains the range.
    card = card_on(page, "packing").card
    cases = []
    for case in card.cases:
        factor_of_format = 2 if case.where["format"] == "f7" else 1
        pairs = tuple(replace(pair, ratio=pair.ratio * factor_of_format) for pair in case.pairs)
        cases.append(replace(case, pairs=pairs))
    changed = describe_page(with_card(results, replace(card, cases=cases)))
    (change,) = answer_on(changed, {}).changes
    assert [row.label for row in change.rows] == ["all cases"]
    texts = {chip.text for chip in chips_of(change)}
    assert texts and all(re.fullmatch(r"f6 1\.2.*x, f7 2\.\dx.* faster", text) for text in texts)
    # A reader who has f7 sees one range.
    (change,) = answer_on(changed, {"format": "f7"}).changes
    assert all(chip.text.startswith("2.") for chip in chips_of(change))
    # If a change shows an effect for one format only, the format stands in place of numbers.
    undecided = {"call": Call.UNDECIDED, "result": Result.UNDECIDED}
    one_sided = [
        replace(case, pairs=tuple(replace(pair, **undecided) for pair in case.pairs))
        if case.where["format"] == "f6"
        else case
        for case in cases
    ]
    mixed = describe_page(with_card(results, replace(card, cases=one_sided)))
    (change, *_) = answer_on(mixed, {}).changes
    assert {chip.text.partition(":")[0] for chip in chips_of(change)} == {"f6", "f7"}


def test_chips_of_steps_name_what_is_certain_and_count_as_the_card(page, results):
    card = card_on(page, "packing").card
    first, second, *_ = card.cases
    # Start-up hides a part of the first effect. The second one is sure, but below 10 %.
    facts = {"ratio": 6.4, "low": 4.8, "high": 8.5, "flags": ("at-least",)}
    (pair,) = first.pairs
    hidden = replace(first, pairs=(replace(pair, **facts),))
    (pair,) = second.pairs
    slight = {"ratio": 1.04, "low": 1.02, "high": 1.06, "result": Result.EQUAL}
    small = replace(second, pairs=(replace(pair, **slight),))
    changed = describe_page(with_card(results, replace(card, cases=[hidden, small])))
    texts = {chip.text for change in answer_on(changed, {}).changes for chip in chips_of(change)}
    assert any("at least 4.8x faster" in text for text in texts)
    assert any(text.endswith("equal") or "equal in" in text for text in texts)
    assert not any("6.4x" in text or "1.04x" in text or "small" in text for text in texts)


@pytest.mark.parametrize(("number", "end"), [(0, ""), (2, "here."), (4, "; and 2 more.")])
def test_published_results_that_are_reversed_stand_in_the_card(results, number, end):
    slower = {"value": -50.0, "ratio": 0.5, "low": None, "high": None}
    published = [row | slower for row in results.tables["f6-vs-f7"][:number]]
    changed = replace(results, published={**results.published, "f6-vs-f7": published})
    line = card_on(describe_page(changed), "format").opposites
    # At most two of the comparisons are named.
    numbers = ["2.0x slower", "2.0x faster"] * min(number, 2)
    assert re.findall(r"[\d.]+x \w+", line) == numbers
    assert (f"{number} comparisons" in line) is bool(number) and line.endswith(end)
    assert line in parse(build_page(changed)).by_id("card-format").text


@pytest.mark.parametrize(
    ("number", "picks", "expected"),
    [
        (0, {}, []),
        (1, {}, ["2.0x slower", "2.0x faster"]),
        (4, {}, ["4 comparisons", "2.0x slower", "2.0x faster"]),
        # All reversed rows are over http.
        (4, {"access": "http"}, ["4 comparisons", "2.0x slower", "2.0x faster"]),
        (4, {"access": "svn"}, []),
    ],
)
def test_step_has_a_sentence_on_reversed_published_results_that_fit_the_picks(
    results, number, picks, expected
):
    slower = {"value": -50.0, "ratio": 0.5, "low": None, "high": None}
    over_http = [row for row in results.tables["f6-vs-f7"] if row["access"] == "http"]
    published = {"f6-vs-f7": [row | slower for row in over_http[:number]]}
    changed = replace(results, published=published)
    page = describe_page(changed)
    by_anchor = {change.anchor: change for change in answer_on(page, picks).changes}
    text = by_anchor["card-format"].reversal
    assert re.findall(r"\d+ comparisons|[\d.]+x \w+", text) == expected
    assert text.count(".") == len(re.findall(r"\d\.\d|\.$", text))
    assert by_anchor["card-packing"].reversal == ""
    if not picks:
        assert text in parse(build_page(changed)).by_id("first").text


def test_card_of_the_access_shows_the_cases_that_it_counts(results, page):
    card = card_on(page, "access").card
    first, *others = card.cases
    null = replace(first, where={**first.where, "command": "null-log"})
    card = replace(card, cases=[null, *others])
    (view,) = make_card_views(with_card(results, replace(card, answer=card.answer_for({}))))
    (total,) = re.findall(r"of (\d+) cases", view.texts[0].sentence)
    assert len(view.rows) == sum(len(case.pairs) for case in others) and int(total) == len(others)
    assert any(line.startswith(f"{len(null.pairs)} comparison of null-log ") for line in view.lines)


def test_columns_have_their_command_and_the_state_of_the_caches(page):
    answers = page.answers
    columns = answer_on(page, {}).operations
    assert columns and {*columns} <= answers.command_lines.keys()
    assert all(answers.command_lines[name].startswith("svn ") for name in columns)
    assert dict(answers.states)["cold"].startswith("nothing is in memory")


def test_legend_has_each_mark_once(page):
    entries = page.answers.legend
    styles = {entry.style for entry in entries}
    assert {row.style for view in page.answers.cards for row in view.rows} <= styles
    assert len({entry.word for entry in entries}) == len(entries)


def test_verdicts_in_the_chart_and_those_left_out_add_up_to_the_table(page):
    key = page.charts["findings"].key
    drawn = Counter(view.counted_verdict for view in page.findings.views if view.dot)
    left_out = key.partition("no factor: ")[2].rstrip(".")
    named = {verdict: int(n) for n, verdict in re.findall(r"(\d+) ([a-z ]+)", left_out)}
    for verdict, views in page.findings.by_verdict.items():
        if verdict != Verdict.NOT_MEASURED:
            assert drawn[verdict] + named.get(verdict, 0) == len(views)
    assert named


def test_cost_has_an_answer_for_picks_and_is_no_change(results):
    cards = []
    for each in results.advice.cards:
        is_cost = each.question.axis == "packing"
        question = replace(each.question, is_cost=is_cost, name=f"about_{each.question.axis}")
        cards.append(replace(each, question=question))
    page = describe_page(replace(results, advice=replace(results.advice, cards=cards)))
    anchors = [view.anchor for view in page.answers.cards]
    assert sorted(anchors) == sorted(f"card-{card.question.name}" for card in cards)
    answer = answer_on(page, {"format": "f6", "packing": "nopack"})
    assert "card-about_packing" not in {change.anchor for change in answer.changes}
    assert answer.changes
    shown = next(card for card in answer.cards if card.anchor == "card-about_packing")
    assert (shown.kind, shown.value) == ("cost", "")


def test_uncertain_names_undecided_comparisons_their_reason_and_the_next_run(results):
    counts = {"different": 20, "equal": 4, "too small": 3, "undecided": 55}
    outlook = [OutlookMoment(s, {"t": n}) for s, n in ((0, 55), (720, 2), (3600, 0))]
    account = Account(tables={"t": counts}, outlook=outlook, minutes=9, scatter_pct=21.0)
    provenance = Provenance(command="vcsbench run --study=a,b --minutes=9 --configfile my.yaml")
    noisy = replace(results, account=account, provenance=provenance)
    answers = describe_page(noisy).answers
    first, noise, small = answers.uncertain
    assert re.findall(r"\d+", first) == ["24", "82", "3", "55"]
    assert "(21 %)" in noise and "larger repository" in small
    name, text, command = answers.next_steps[0]
    arguments = "STUDY=fsfs-san-2014 ARGS='--configfile my.yaml' MINUTES=12"
    assert (name, text.split(" more ")[0]) == ("More rounds", "12 min")
    assert re.findall(r"\d+", text) == ["12", "53", "55"]
    # Nearly equal ones are open, too, and the run names both kinds.
    bounded = replace(account, tables={"t": {**counts, "undecided": 50, "bounded": 5}})
    step = describe_page(replace(noisy, account=bounded)).answers.next_steps[0]
    assert "53 of the 55 nearly equal or undecided comparisons" in step.effect
    assert command == f"make report {arguments}"
    config = {"repositories": {"ruby": {"scale": 0.3}, "other": {"scale": 0.1}}}
    generated = replace(noisy, provenance=replace(provenance, config=config))
    name, _, command = describe_page(generated).answers.next_steps[1]
    assert name == "Longer runs" and "ruby: {scale: 1.0}" in command


def test_uncertain_names_comparisons_that_are_nearly_equal_only(results):
    account = Account(tables={"t": {"different": 20, "bounded": 5}})
    counts, more_rounds = describe_page(replace(results, account=account)).answers.uncertain
    assert counts == "Answered over all cases: 20 of 25 comparisons, 5 nearly equal."
    assert more_rounds == "More rounds of up to a day answer no more."
    # Without an open comparison, nothing is uncertain.
    account = Account(tables={"t": {"different": 20}})
    assert describe_page(replace(results, account=account)).answers.uncertain == []


@pytest.mark.parametrize("kind", ["virtual disk", "spinning disk"])
@pytest.mark.parametrize("scale", [0.1, 1])
def test_condition_names_storage_and_scale_that_differ_from_the_published(results, kind, scale):
    context = {
        "storage": {"filesystem": "ext4", "rotational": True},
        "host": {"virtualized": "kvm" if kind == "virtual disk" else ""},
        "repository": {"name": "ruby", "youngest": 5526, "scale": scale},
    }
    measured = replace(results, contexts=[complete_context(context)])
    condition = describe_page(measured).answers.condition
    assert ("ther storage (published: spinning disk)" in condition) == (kind == "virtual disk")
    assert ("ith more revisions" in condition) == (scale < 1)
    assert ("5,526 revisions" in condition) == (scale < 1 or kind == "virtual disk")


@pytest.mark.parametrize(
    ("scatter_pct", "numbers", "verdict"),
    [(4.2, ["4.2", "6"], "acceptable:"), (30, ["30", "6"], "high:"), (0.0, [], "")],
)
def test_noise_of_a_run_is_acceptable_up_to_a_scatter(scatter_pct, numbers, verdict):
    text = judge_noise(Account(scatter_pct=scatter_pct))
    assert re.findall(r"[\d.]*\d", text) == numbers
    assert text.startswith(f"Noise is {verdict}" if verdict else "")


def test_page_has_the_time_of_each_step(results):
    spent = {"preparation": 60.0, "measuring": 700.4, "waiting": 21.0}
    account = Account(spent_s=spent, timed_s=357.0, taken_s=840)
    (time,) = describe_page(replace(results, account=account)).time
    assert time.startswith("All sessions took 14 min")
    *parts, timed = map(int, re.findall(r"(\d+) s", time))
    assert parts == [60, 700, 21, 59] and sum(parts) == 840 and timed == 357


def test_page_of_one_round_names_too_few_rounds_and_offers_more(tmp_path):
    results = results_of(make_files(tmp_path, axes=SMALL, rounds=1, twins=1))
    blocks = [BlockAccount(rounds=1, seconds=60.0)]
    tables = {"f6-vs-f7": {"undecided": 2}}
    account = Account(tables=tables, more_rounds=[4, 4], blocks=blocks, taken_s=60.0)
    page = describe_page(replace(results, account=account))
    (view,) = (view for view in page.answers.cards if view.card.question.axis == "format")
    assert {row.text for row in view.rows} == {"one round only"}
    cases = len(view.rows)
    assert re.findall(r"\d+", view.texts[0].sentence) == [str(cases)] * 2
    (section,) = (t for t in page.tables.sections if t.name == "f6-vs-f7")
    assert {point.mark for point in section.measured_points} == {"n"}
    name, text, command = page.answers.next_steps[0]
    assert (name, command.split()[-1]) == ("More rounds", "rounds=5'") and "all 2" in text
    # It has duplicates, so more rounds are the remedy.
    assert FEW_DUPLICATE_ROUNDS in page.remarks and NO_DUPLICATES not in page.remarks
    alone = [run for run in results.measurements if not is_duplicate(run["cell"])]
    assert NO_DUPLICATES in describe_quality(replace(results, measurements=alone))


def test_quality_without_a_comparison_of_times_asks_for_no_more_rounds(results):
    tables = {name: results.tables[name] for name in ("elapsed", "bytes-read-by-format")}
    duplicates = {run["cell"] for run in results.measurements if is_duplicate(run["cell"])}
    remarks = describe_quality(replace(results, tables=tables))
    expected = f"{len(duplicates)} cells have a duplicate. No comparison of times uses them."
    assert expected in remarks and FEW_DUPLICATE_ROUNDS not in remarks


def test_quality_without_a_timed_run_promises_nothing(results):
    assert describe_quality(replace(results, measurements=[])) == [NOTHING_TIMED]


def test_rounds_that_the_next_run_measures_are_no_failures(results, page):
    (failed,) = results.failures
    pending = [
        {**failed, "round": number, "reason": reason}
        for number, reason in ((3.0, OUTDATED), (4.0, UNMEASURED), (5.0, UNMEASURED))
    ]
    changed = describe_page(replace(results, failures=[failed, *pending]))
    assert (changed.facts.failures, page.facts.failures) == (1, 1)
    command = "`make report STUDY=fsfs-san-2014`"
    assert f"2 cell-rounds not measured so far, {command} continues" in changed.missing
    assert "1 cell-round failed" in changed.missing
    tables = {table.title: [row[0] for row in table.rows] for table in changed.quality}
    assert tables["Failed rounds"] == [failed["reason"]]
    assert {*tables["Rounds still to measure"]} == {*PENDING_TEXTS.values()}
    assert "Rounds still to measure" not in [table.title for table in page.quality]


def test_table_of_the_work_counts_unknown_outputs_apart_from_other_ones(results):
    other = json.dumps({**SAME_WORK, "revisions": 1})
    works = {"log": [WORK, WORK, other, ""], "export": ["", ""], "dump": [WORK, other]}
    run = results.valid_runs[0]
    runs = [{**run, "command": name, "work": work} for name, of in works.items() for work in of]
    tables = make_quality_tables(replace(results, measurements=runs))
    (table,) = (table for table in tables if table.title == "Work of the commands")
    assert {row[0]: row[-4:] for row in table.rows} == {
        "log": ("6,000 revisions", "2", "1", "1"),
        "export": ("unknown", "0", "0", "2"),
        "dump": ("different outputs", "0", "2", "0"),
    }


def test_page_without_a_result_up_to_date_has_the_command_that_measures(results):
    cells = [row["cell"] for row in results.grid if not row["skip"]]
    reasons = {cell: "timeout" if n == 0 else OUTDATED for n, cell in enumerate(cells)}
    failures = [{"cell": cell, "round": 1.0, "reason": why} for cell, why in reasons.items()]
    command_line = "vcsbench run --configfile my.yaml --config measure=nothing"
    empty = dict.fromkeys(results.tables, ())
    old = replace(results, measurements=[], failures=failures, tables=empty)
    old = replace(old, provenance=Provenance(command=command_line))
    page = describe_page(old)
    assert [line.startswith("No result") for line in page.header] == [True]
    command = "`make report STUDY=fsfs-san-2014 ARGS='--configfile my.yaml'`"
    assert command in page.missing and "1 cell-round failed" in page.missing
    (section,) = (table for table in page.tables.sections if table.name == "elapsed")
    assert section.measured_points == []
    # 2 commands, 3 accesses, 2 formats and 2 packings.
    assert section.left_out.startswith("24 rows without a result")
    assert section.left_out in parse(build_page(old)).by_id("tables").text


def test_each_card_has_links_to_the_command_lines_of_client_and_server(results, tree):
    cards = [element for element in tree.all("article") if element.attributes.get("data-axis")]
    assert cards
    for card in cards:
        links = {link.attributes["href"] for link in card.all("a")}
        assert {"#commands", "#servers"} <= links
    assert "svn " in tree.by_id("commands").text
    # On a page without a table of changes, the setup has the commands.
    card = card_on(describe_page(results), "packing").card
    cases = [replace(case, where={"access": case.where["access"]}) for case in card.cases]
    changed = parse(build_page(with_card(results, replace(card, cases=cases))))
    assert "#setup" in {link.attributes["href"] for link in changed.by_id("cards").all("a")}
    ids = {element.attributes.get("id") for element in changed}
    assert "setup" in ids and "commands" not in ids


def test_card_marks_answers_by_role_as_those_over_all_cases(results, page):
    card = card_on(page, "packing").card
    role = RoleCard("a busy server", replace(card, metric="server_cpu_s"))
    changed = parse(build_page(with_card(results, replace(card, roles=[role]))))
    short = describe_role(role).answer.short
    scope = f"For a busy server (server CPU time), over all cases: {short}"
    assert scope in changed.by_id("card-packing").text


def test_fixed_cost_alone_does_not_make_a_cell_too_small():
    assert "too small only if start-up can explain its difference" in FIXED_COST_NOTE


def test_table_of_measured_means_names_published_medians(results, page):
    reading = {table.name: table.reading for table in page.tables.sections}
    assert "geometric mean of the rounds. Published numbers are medians." in reading["elapsed"]
    # Its numbers are medians, too.
    assert PUBLISHED_MEDIANS not in reading["client-cpu"]
    assert "Published: the ratio of medians." in reading["f6-vs-f7"]
    tables = {name: {**of, "published": False} for name, of in results.study.tables.items()}
    # A single run has no median.
    once = results.study.published.model_copy(update={"rounds": 1})
    for update in ({"tables": tables}, {"published": once}):
        study = results.study.model_copy(update=update)
        other = describe_page(replace(results, study=study)).tables.sections
        assert not any(PUBLISHED_MEDIANS in table.reading for table in other)
    (single,) = (table for table in other if table.name == "f6-vs-f7")
    assert "Published: the ratio of single runs." in single.reading


def test_links_of_the_page_to_documents_and_to_anchors_exist(tree):
    links = {link.attributes["href"] for link in tree.all("a")}
    ids = {element.attributes.get("id") for element in tree}
    files = {link for link in links if link.startswith("../docs/")}
    assert "../docs/statistics.md" in files
    assert all((DEFINITIONS.parents[2] / "reports" / link).resolve().exists() for link in files)
    assert {link[1:] for link in links if link.startswith("#")} <= ids


def test_number_with_mostly_fixed_cost_is_hatched_and_without_colour(results):
    small = [{**row, "call": "too small"} for row in results.tables["f6-vs-f7"]]
    changed = replace(results, tables={**results.tables, "f6-vs-f7": small})
    table = next(t for t in describe_page(changed).tables.sections if t.name == "f6-vs-f7")
    points = [point for point in table.measured_points if point.value is not None]
    assert points and all(point.is_small and point.colour == "same" for point in points)


def test_page_with_nothing_measured_has_all_sections(results):
    empty = replace(results, measurements=[], contexts=[], failures=[])
    empty = replace(empty, advice=Advice(), tables={}, account=Account())
    ids = {element.attributes.get("id") for element in parse(build_page(empty))}
    assert {"answer", "findings", "tables", "setup", "quality"} <= ids
    assert "details" not in ids


def test_page_with_invalid_runs_only_names_them_at_the_head(results, page):
    first, *_ = results.measurements
    flags = {first["cell"]: "cache-not-cold"}
    runs = [{**run, "flags": flags.get(run["cell"], "")} for run in results.measurements]
    incomplete = describe_page(replace(results, measurements=runs)).missing
    assert "all runs of 1 cell are invalid" in incomplete
    assert "invalid" not in page.missing


def test_words_of_the_page_are_all_terms_and_the_values_of_its_grid(page):
    assert {*load_vocabulary().terms, "f6", "not packed", "server cache warm"} <= {*page.words}
    # It is in no cell of the grid.
    assert "f1" not in page.words


def test_word_that_is_a_value_of_two_axes_has_both_meanings():
    order = {"system": ["git"], "access": ["git"]}
    grid = [{"system": "git", "access": "git"}]
    found = list_words(Results(default_study("systems"), order, grid=grid))["git"]
    meanings = [load_vocabulary().value(axis, "git").meaning for axis in order]
    assert len({*meanings}) == 2
    assert all(meaning and meaning.replace("`", "") in found for meaning in meanings)


def test_policy_of_the_page_has_the_digests_of_its_script_and_style(html):
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    directives = dict(part.split(" ", 1) for part in unescape(policy).split("; "))
    assert "unsafe" not in policy and " style=" not in html
    assert {directives[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}
    for tag in ("script", "style"):
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(c.encode()).digest()).decode() for c in contents]
        assert directives[f"{tag}-src"].split() == [f"'sha256-{digest}'" for digest in digests]


def test_page_escapes_texts_of_results(results):
    evil = "<script>alert(1)</script>"
    failures = [{**results.failures[0], "reason": evil}]
    findings = [{**results.findings[0], "statement": evil}]
    contexts = [{**context, "host": {"name": evil}} for context in results.contexts]
    changed = replace(results, failures=failures, findings=findings, contexts=contexts)
    assert evil not in build_page(replace(changed, repository_notes=[evil]))


def test_cells_of_the_empty_repository_give_the_fixed_cost_only(tmp_path):
    made = make_files(tmp_path, axes={**SMALL, "repo": ["ruby", "empty"]}, skip=default_grid)
    results = results_of(made)
    times = {"elapsed_s": 0.1, "user_s": 0.01, "system_s": 0.0, "server_cpu_s": 0.0}
    fixed = {"fixed_cost_s": 0.06, "fixed_share": 0.6, "delayed_acks": 1.0, **times}
    runs = [{**run, **fixed} for run in results.measurements]
    # Invalid runs do not count.
    invalid = [
        {**run, "elapsed_s": 1.0, "delayed_acks": 3.0, "flags": "server-idle"} for run in runs
    ]
    page = describe_page(replace(results, measurements=[*runs, *invalid, *invalid]))
    (table,) = (table for table in page.quality if table.title == "Fixed cost")
    assert page.facts.cells == 2 and len(table.rows) == 2
    assert {row[1:] for row in table.rows} == {("0.020 s", "0.040 s", "0.060 s", "60 %")}
    points = [point for table in page.tables.sections for point in table.measured_points]
    assert {point.keys["repo"] for point in points} == {"ruby"}


def run_in_state(results, cache, seconds, read_bytes=0, flags=""):
    figures = {"elapsed_s": seconds, "device_bytes": read_bytes, "flags": flags}
    return {**results.measurements[0], "cache": cache, **figures}


@pytest.mark.parametrize(("cold_s", "is_named"), [(1.05, True), (0.9, True), (1.3, False)])
def test_head_names_cold_cells_that_are_no_slower_than_warm_ones(results, cold_s, is_named):
    runs = [
        run_in_state(results, "cold", cold_s, 42 << 20),
        run_in_state(results, "hot-os", 1.0),
    ]
    text = describe_cold(replace(results, measurements=runs))
    rate = f"{42 / cold_s:.1f} MiB/s"
    assert text.startswith(f"A cold run read 42.0 MiB from the device, at {rate}.")
    assert ("1 of 1 cold cell" in text) is is_named


@pytest.mark.parametrize(
    ("cold_s", "warm", "is_named"),
    [
        # The fastest warm state counts.
        (1.3, [("hot-os", 1.0, ""), ("hot-server", 1.4, "")], False),
        # A server whose cache does not help says nothing on the device.
        (1.05, [("hot-os", 1.0, ""), ("hot-server", 5.0, "cache-ineffective")], True),
        (1.3, [("hot-server", 1.4, "cpu-busy cache-ineffective")], False),
    ],
)
def test_head_compares_cold_cells_with_the_fastest_warm_state(results, cold_s, warm, is_named):
    runs = [run_in_state(results, "cold", cold_s, 42 << 20)]
    for cache, seconds, flags in warm:
        runs.append(run_in_state(results, cache, seconds, flags=flags))
    text = describe_cold(replace(results, measurements=runs))
    assert ("1 of 1 cold cell" in text) is is_named


def test_head_without_a_cold_command_says_nothing_on_cold_runs(results):
    warm = [{**run, "cache": "hot-os"} for run in results.measurements]
    assert describe_cold(replace(results, measurements=warm)) == ""
    cells = [{**cell, "cache": "hot-os"} for cell in results.grid]
    assert describe_page(replace(results, grid=cells)).cold_meaning == ""


@pytest.mark.parametrize("own_repository", ["", "/srv/svn/project"])
def test_page_explains_cold_in_the_first_sentence_with_the_word(results, own_repository):
    page = parse(build_page(replace(results, own_repository=own_repository)))
    (body,) = page.all("body")
    before, after = body.text.split(COLD_MEANING)
    assert "cold" not in before.lower() and "cold" in after
    # The short answers at the top of a study's page have the word.
    header = next(element for element in page.all("header"))
    assert COLD_MEANING in header.text
