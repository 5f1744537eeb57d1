"""The decision rule and the words of its answers, on the rows of tables with known ratios."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from unit.answered import answered
from unit.synthetic import AXES as VALUES
from unit.test_tables import frame_of
from vcsbench.advice import decision
from vcsbench.advice.advise import AdviceSettings, advise, find_less_work
from vcsbench.advice.averages import with_averages
from vcsbench.advice.cards import ADVICE, make_card
from vcsbench.advice.case_groups import CaseGroup, Temperature
from vcsbench.advice.decision import WeightedOperation, find_cases
from vcsbench.advice.effects import combine_effects, effect_in_case
from vcsbench.advice.labels import range_of_factors
from vcsbench.advice.questions import CardQuestion, read_questions
from vcsbench.advice.rules import find_rule
from vcsbench.advice.server_actions import settings_cost
from vcsbench.advice.steps import plan_steps
from vcsbench.codes import AnswerKind, Call, WhyNoBest
from vcsbench.evidence.flags import FLAGS
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.report.answer_texts import (
    NO_DIFFERENCE,
    describe_less_work,
    describe_pair_difference,
)
from vcsbench.report.card_texts import describe_aggregate, describe_lines, describe_notes
from vcsbench.statistics import texts
from vcsbench.statistics.comparisons import Limits, classify_call
from vcsbench.statistics.estimates import NO_ESTIMATE

AXES = ["command", "access", "format", "packing", "cache"]
NOISE = "undecided"
LIMITS = Limits()
COLD_LOG = CaseGroup("log", Temperature.COLD)
WARM_LOG = CaseGroup("log", Temperature.WARM)
DEFINITION = {"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]}}


def row(ratio, call="", **where):
    """A row of a table f6-vs-f7; the call follows from the ratio."""
    called = call or ("faster" if ratio > 1 else "slower" if ratio < 1 else "equal")
    result = classify_call(called, ratio, LIMITS)
    plain = {"command": "log", "access": "http", "packing": "nopack", "cache": "cold"}
    numbers = {"ratio": ratio, "low": ratio * 0.95, "high": ratio * 1.05, "n": 5.0}
    numbers |= {"baseline_mean": ratio, "candidate_mean": 1.0, "within": 1.3}
    sides = {"baseline": "f6", "candidate": "f7", "call": called, "result": result, "withheld": ""}
    return {**plain, **numbers, **sides, **where}


def cases(*rows, axis="format", **options):
    return find_cases(axis, rows, AXES, **options)[0]


def card(*rows, axis="format", **options):
    question = options.pop("question", CardQuestion(axis, "Which?"))
    reference = options.pop("reference", rows[0]["baseline"])
    workload = options.pop("workload", ())
    found = cases(*rows, axis=axis, **options)
    return make_card(question, reference, AXES, found, 10.0, workload)


@pytest.mark.parametrize(
    ("loss", "effect", "kind"),
    [(1.09, 10, AnswerKind.VALUE), (1.11, 10, AnswerKind.DEPENDS), (1.14, 15, AnswerKind.VALUE)],
)
def test_decide_with_losses_on_both_sides_depends_above_the_smallest_effect(loss, effect, kind):
    found = cases(row(2.0), row(1 / loss, cache="hot-os"))
    assert decision.recommend(found, "f6", Limits(effect))[0] == kind


def test_decide_that_depends_returns_the_simplest_rule():
    grid = itertools.product(("log", "export"), ("http", "svn"), ("cold", "hot-os", "hot-server"))
    cells = [dict(zip(("command", "access", "cache"), values, strict=True)) for values in grid]
    is_better = [(cell["command"], cell["cache"]) == ("log", "cold") for cell in cells]
    pairs = zip(cells, is_better, strict=True)
    made = card(*(row(1.5 if better else 0.6, **cell) for cell, better in pairs))
    assert answered(made).kind == AnswerKind.DEPENDS
    rule = find_rule(made.cases, "f6", "f6", LIMITS)
    assert rule == {"f7": [COLD_LOG], "f6": [WARM_LOG, CaseGroup("export")]}
    answer = answered(card(row(1.9, command="export"), row(0.77)))
    assert answer.short == "depends" and answer.value == "f7"
    assert re.findall(r"[\d.]+x", answer.sentence) == ["1.3x", "1.9x"]
    for_each = re.findall(r"(f\d) (?:for|if) (\w+)", answer.effect)
    assert for_each == [("f7", "export"), ("f6", "log"), ("f7", "you")]
    assert "Decided" not in answer.sentence
    answer = answered(card(row(1.9, command="export"), row(0.77), NOISY))
    assert answer.kind == AnswerKind.DEPENDS and answer.effect.endswith("Decided: 2 of 3 cases")


def test_rule_by_an_axis_that_does_not_apply_to_a_case_is_left_out():
    lost = [row(0.5, access="file"), row(0.5, access="")]
    assert find_rule(cases(row(2.0), *lost), "f6", "f6", LIMITS) == {}
    lost[1] = row(0.5, access="svn")
    over = {access: CaseGroup(axis="access", value=access) for access in ("file", "svn", "http")}
    rule = {"f6": [over["file"], over["svn"]], "f7": [over["http"]]}
    assert find_rule(cases(row(2.0), *lost), "f6", "f6", LIMITS) == rule


def test_rule_tells_a_command_with_a_blank_in_its_name_from_another_one():
    # Caches do not apply to the first command.
    won = [row(2.0, command="svn checkout", cache=""), row(2.0)]
    won += [row(2.0, command="checkout", cache=cache) for cache in ("cold", "hot-os")]
    lost = [row(0.5, cache="hot-os")]
    rule = find_rule(cases(*won, *lost), "f6", "f6", LIMITS)
    assert rule == {
        "f6": [WARM_LOG],
        "f7": [CaseGroup("svn checkout"), COLD_LOG, CaseGroup("checkout")],
    }
    answer = answered(card(*won, *lost))
    assert answer.effect.startswith("f6 for warm log, otherwise f7; ")


def test_answer_that_depends_has_the_largest_gain_of_all_groups():
    # Commands without a server come later.
    dump = row(3.0, command="dump", access="")
    answer = answered(card(row(1.2), dump, row(1 / 1.5, command="export")))
    assert answer.kind == AnswerKind.DEPENDS
    assert re.findall(r"up to ([\d.]+x)", answer.effect) == ["3.0x"]


def test_single_lost_case_is_named_and_makes_no_rule():
    accesses = ("http", "svn", "file")
    logs = [row(2.0, access=access) for access in accesses]
    exports = [
        row(0.9, NOISE, command="export", access=access, packing=packing)
        for access in accesses
        for packing in ("nopack", "pack")
    ]
    exports[0] = row(1 / 1.4, command="export")
    answer = answered(card(*logs, *exports))
    assert (answer.kind, answer.value) == (AnswerKind.VALUE, "f7")
    assert "cold log 2.0x faster, cold export 1.4x slower" in answer.sentence
    assert "3 faster, 1 slower, 5 undecided" in answer.sentence
    # If all exports lose, they are a kind of case.
    lost = [row(1 / 1.4, command="export", access=access) for access in accesses]
    assert answered(card(*logs, *lost)).kind == AnswerKind.DEPENDS


@pytest.mark.parametrize(("other", "best"), [(1.15, "f6"), (1.35, "f7")])
def test_reference_stays_in_a_tie_unless_a_change_gains_the_margin_on_average(other, best):
    warm = row(1 / 1.12 if best == "f6" else 1.2, cache="hot-os")
    found = cases(row(1.15), row(other, access="svn"), warm)
    assert decision.best_value(found, "f6", LIMITS) == best


NOISY = row(0.2, NOISE, cache="hot-os")
START_UP = row(0.2, "too small", cache="hot-server")
HARMLESS_F8 = row(1.0, "equal", cache="hot-os", candidate="f8")


@pytest.mark.parametrize(
    ("rows", "kind", "value", "decided"),
    [
        ([row(1.5), NOISY, START_UP], AnswerKind.VALUE, "f7", 1),
        ([NOISY, START_UP], AnswerKind.UNDECIDED, "", 0),
        ([], AnswerKind.NOT_MEASURED, "", 0),
        ([row(1.03, "equal")], AnswerKind.EQUAL, "f6", 1),  # keeps the reference
        # A value of one harmless case is not better than one that wins where it counts.
        ([row(3.0), row(0.95, cache="hot-os"), HARMLESS_F8], AnswerKind.VALUE, "f7", 2),
    ],
)
def test_decide_uses_decided_cases_alone(rows, kind, value, decided):
    found = cases(*rows) if rows else []
    assert decision.recommend(found, "f6", LIMITS) == (kind, value)
    assert sum(case.is_decided for case in found) == decided


def test_answer_on_one_case_has_no_number_of_cases():
    assert answered(card(NOISY)).effect == "wide interval"
    assert answered(card(NOISY, START_UP)).effect == "wide interval in 1 of 2 cases"


def test_decide_with_a_workload_takes_the_smallest_weighted_mean():
    rows = (row(1.5), row(0.5, command="export"))
    parts = [("log", 90), ("export", 10)]
    workload = [WeightedOperation(name, weight, {"command": name}) for name, weight in parts]
    assert answered(card(*rows)).kind == AnswerKind.DEPENDS
    assert answered(card(*rows, workload=workload)).value == "f7"
    turned = [replace(operation, weight=100 - operation.weight) for operation in workload]
    assert answered(card(*rows, workload=turned)).value == "f6"
    (note,) = describe_notes(card(row(1.5), workload=workload))
    assert "export (10 %)" in note


def test_workload_weighs_the_cases_that_fit_the_picks():
    """Of three accesses, the log has all, and the export only http. Over http, both keep their weights."""
    logs = [row(1.3, access=access) for access in ("http", "svn", "file")]
    weights = {"log": 60, "export": 40}
    workload = [
        WeightedOperation(name, weight, {"command": name}) for name, weight in weights.items()
    ]
    made = card(*logs, row(1 / 1.4, command="export"), workload=workload)
    # 60 x ln 1.3 is more than 40 x ln 1.4, and 20 x ln 1.3 is less.
    assert answered(made).value == "f7"
    for picks in ({"access": "http"}, {"access": "http", "format": "f6"}):
        assert answered(made, picks).value == "f7"
    # An undecided case does not show the loss of the present value, and takes no weight from the others.
    noisy = [row(0.9, NOISE, access=access) for access in ("svn", "file")]
    made = card(logs[0], *noisy, row(1 / 1.4, command="export"), workload=workload)
    assert answered(made, {"format": "f6"}).value == "f7"


def test_decide_with_a_workload_keeps_the_reference_in_a_tie():
    found = cases(row(1.5), row(1 / 1.5, command="export"))
    weighted = [replace(case, weight=50.0) for case in found]
    for reference in ("f6", "f7"):
        kind_and_value = (AnswerKind.VALUE, reference)
        assert decision.recommend(weighted, reference, LIMITS) == kind_and_value
    # The first decided value, without the reference.
    assert decision.recommend(weighted, "f9", LIMITS) == (AnswerKind.VALUE, "f6")


def test_comparison_of_two_tables_with_exchanged_sides_counts_once():
    exchanged = {"baseline": "f7", "candidate": "f6"}
    (case,) = cases(row(2.0), {**row(0.5), **exchanged}, row(1.5, candidate="f8"))
    assert [pair.sides for pair in case.pairs] == [("f6", "f7"), ("f6", "f8")]
    rows = [row(2.0, withheld="hosts-differ"), row(0.5, withheld="hosts-differ", **exchanged)]
    found, (withheld,) = find_cases("format", rows, AXES)
    assert found == [] and (withheld.baseline, withheld.candidate) == ("f6", "f7")


def test_workload_without_a_decided_case_changes_no_answer():
    rows = [row(1.5), NOISY]
    for where in ({"command": "commit"}, {"cache": "hot-os"}):
        workload = [WeightedOperation("mine", 100, where)]
        assert answered(card(*rows, workload=workload)) == answered(card(*rows))
    over_svn = [WeightedOperation("mine", 100, {"access": "svn"})]
    both = [row(1.5), row(1.5, access="svn")]
    plain, weighted = card(*both), card(*both, workload=over_svn)
    assert answered(weighted, {"access": "http"}) == answered(plain, {"access": "http"})
    assert answered(weighted) != answered(plain)


def test_decide_does_not_count_mostly_start_up_against_a_value():
    small = row(3.0, "too small", candidate="f8")
    found = cases(row(2.0), small, row(1.5, cache="hot-os", candidate="f8"))
    assert decision.recommend(found, "f6", LIMITS) == (AnswerKind.VALUE, "f8")
    # In the first case f8 is not slower than f7 by anything that counts.
    assert max(case.assumed_loss("f8", "f6") for case in found) == 1.0


COST = CardQuestion("format", "What does f7 cost?", is_cost=True)
SLOWER_EXPORT = row(1 / 1.5, command="export")


@pytest.mark.parametrize(
    ("rows", "kind", "short", "effect"),
    [
        (
            [row(1 / 1.3), SLOWER_EXPORT],
            *(AnswerKind.COST, "up to 1.5x slower"),
            "f7: cold log 1.3x slower, cold export 1.5x slower",
        ),
        (
            [row(1 / 1.3), row(1.0, "equal", access="svn"), SLOWER_EXPORT],
            *(AnswerKind.COST, "up to 1.5x slower"),
            "f7: cold log 1.3x slower in 1 of 2, cold export 1.5x slower",
        ),
        (
            # The access explains the range.
            [row(1 / 1.2), row(1 / 27, access="svn")],
            *(AnswerKind.COST, "up to 27x slower"),
            "f7: cold log (http 1.2x, svn 27x) slower",
        ),
        ([row(2.0)], AnswerKind.COST, "no cost", "f7: cold log 2.0x faster"),
        (
            [row(1 / 1.3), row(0.5, candidate="f8")],
            *(AnswerKind.COST, "up to 2.0x slower"),
            "f7: cold log 1.3x slower; f8: cold log 2.0x slower",
        ),
        ([row(1.0, "equal")], AnswerKind.EQUAL, "equal", "within 10 %"),
        ([NOISY], AnswerKind.UNDECIDED, "undecided", "wide interval"),
    ],
)
def test_answer_on_a_cost_names_each_value_and_recommends_none(rows, kind, short, effect):
    answer = answered(card(*rows, question=COST))
    assert (answer.kind, answer.short, answer.effect) == (kind, short, effect)
    assert answer.value == ("f6" if kind == AnswerKind.EQUAL else "")
    assert answer.sentence.lower() == f"{effect}.".lower()


def test_effects_below_the_margin_are_counted_and_not_named():
    made = card(row(2.0), row(1.02, access="svn"), row(1 / 1.03, access="file"))
    assert answered(made).effect.startswith("cold log 2.0x faster (of 3 cases ")
    assert made.shown == ["access"]


@pytest.mark.parametrize(
    ("not_packed", "effect"),
    [
        # Only packed cases gain.
        (1.0, "cold log (packed) 2.0x to 3.0x faster (of 4 cases 2 faster, 0 slower, 2 equal)"),
        (2.5, "cold log 2.0x to 3.0x faster (of 4 cases 4 faster, 0 slower)"),
    ],
)
def test_gains_of_one_value_name_the_value(not_packed, effect):
    rows = []
    for access, packed in (("http", 2.0), ("svn", 3.0)):
        rows.append(row(packed, access=access, packing="pack"))
        rows.append(row(not_packed, access=access, packing="nopack"))
    assert answered(card(*rows)).effect == effect


def test_gains_over_the_reference_are_apart_from_cases_that_do_not_compare_it():
    rows = [row(0.5, candidate="f4"), row(2.0), row(1.5, command="export")]
    answer = answered(card(*rows, reference="f4"))
    assert answer.effect == "cold log 4.0x faster; against f6: cold export 1.5x faster"
    assert (answer.value, answer.against) == ("f7", "f4")
    # All cases compare f6.
    answer = answered(card(*rows[1:], reference="f6"))
    assert answer.against == "f6" and "against" not in answer.effect


def test_reference_that_a_case_does_not_compare_counts_there_as_its_baseline():
    to_f8 = {**row(3.0, command="export"), "baseline": "f7", "candidate": "f8"}
    rows = [row(1.0, candidate="f8"), to_f8]
    assert decision.recommend(cases(*rows), "f6", LIMITS) == (AnswerKind.VALUE, "f8")
    answer = answered(card(*rows))
    assert (answer.value, answer.against) == ("f8", "f6")
    assert answer.effect.startswith("against f7: cold export 3.0x faster; ")


@pytest.mark.parametrize(
    ("start", "is_cost", "kept"),
    [([], False, "f6"), (["f9", "f7"], False, "f7"), (["f7"], True, "f6")],
)
def test_advise_keeps_the_first_measured_start_in_a_tie(tmp_path, start, is_cost, kept):
    frame = frame_of(tmp_path, twins=1)
    question = CardQuestion("format", "Which?", start=start, is_cost=is_cost)
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [question])
    rows = [row(1.0), row(0.5, candidate="f8")]
    (made,) = advise(settings, frame, [(DEFINITION, rows)]).cards
    assert (made.reference, answered(made).value) == (kept, "" if is_cost else kept)


def test_answer_names_the_only_other_value_if_the_baseline_is_best():
    assert answered(card(row(0.5))).against == "f7"
    both = card(row(0.5), row(0.4, candidate="f8"))
    assert answered(both).against == "the slowest other"


def test_axis_with_one_value_distinguishes_no_cases():
    made = card(row(2.0), row(2.0, command="dump", access="", packing=""))
    assert made.shown == ["command"]


def test_cost_without_the_reference_in_a_decided_case_is_undecided():
    # The chain of decided comparisons does not lead to f6.
    rows = [row(1 / 1.3, NOISE), {**row(0.5), "baseline": "f7", "candidate": "f8"}]
    assert answered(card(*rows, question=COST)).kind == AnswerKind.UNDECIDED


def test_advise_on_questions_about_one_axis_uses_the_cells_and_values_of_each(tmp_path):
    frame = frame_of(tmp_path, factors={"access": {"svn": 0.5, "file": 0.4}}, twins=1)
    only_log = {"command": "log", "cache": ["cold"]}
    questions = [
        CardQuestion("access", "http or file?", ["http", "file"], name="local", where=only_log),
        CardQuestion("access", "What does file cost?", ["svn", "file"], name="file", is_cost=True),
    ]
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], questions)
    definition = {"compare": {"axis": "access", "baseline": "http", "candidates": ["svn", "file"]}}
    of_svn = {"compare": {"axis": "access", "baseline": "svn", "candidates": ["file"]}}
    rows = [
        {**row(2.5, **where), "baseline": "http", "candidate": "file"}
        for where in ({}, {"command": "export"}, {"cache": "hot-os"})
    ]
    costs = [{**row(0.5), "baseline": "svn", "candidate": "file"}]
    grid = [
        {"cell": "a", "access": "file", "command": "dump", "cache": "cold", "skip": "no dump"},
        {"cell": "b", "access": "svn", "command": "log", "cache": "cold", "skip": "no svnserve"},
    ]
    local, cost = advise(settings, frame, [(definition, rows), (of_svn, costs)], grid).cards
    assert [case.where["command"] for case in local.cases] == ["log"]
    assert (answered(local).value, local.reference, local.missing) == ("file", "http", [])
    assert (answered(cost).short, cost.reference) == ("up to 2.0x slower", "svn")


def on_builds(*rows, mean=lambda *_: NO_ESTIMATE):
    """Return the card of builds; candidates named `again` have the binaries of the baseline."""
    flagged = [{**r, "flags": "same-binaries" if r["candidate"] == "again" else ""} for r in rows]
    question = CardQuestion("format", "Is it faster?", aggregate=True)
    return with_averages(card(*flagged, question=question), mean)


CACHES = ["SVNInMemoryCacheSize 1048576", "SVNCacheRevProps on"]
READS = ["SVNBlockRead on", "SVNCompressionLevel 0"]
SVNSERVE = ["svnserve -d -r ROOT -M 512", "--block-read yes", "--compression 0"]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("\n".join(sorted(CACHES + READS)), CACHES + READS),
        (READS[0], READS[:1]),
        ("svnserve -d --compression 0 -r ROOT --block-read yes -M 512", SVNSERVE),
    ],
)
def test_action_of_settings_has_optional_ones_apart(text, commands):
    server = "svnserve" if commands == SVNSERVE else "httpd"
    asked = {"config": {"question": "Which?"}}
    action = read_questions(asked, {"config": {"fast": {server: text}}})[0].actions["fast"]
    reload = ["apachectl configtest && apachectl graceful"] * (server == "httpd")
    assert [step.command for step in action.steps] == [*commands, *reload]
    limited = {step.command for step in action.steps if "format 7" in step.note}
    assert limited == {command for command in commands if "lock" in command}
    assert action.cost == settings_cost({server: text})


@pytest.mark.parametrize(
    ("svnserve", "httpd", "memory"),
    [
        # Settings without a cache take no memory.
        ("svnserve -d", "", ""),
        ("svnserve -d -M 1024", CACHES[0], "1 GiB, 16 GiB, 1 GiB, 256 MiB, 4 GiB, 256 MiB"),
    ],
)
def test_memory_of_settings_is_that_of_all_processes_of_both_servers(svnserve, httpd, memory):
    cost = settings_cost({"svnserve": svnserve, "httpd": httpd})
    assert ", ".join(re.findall(r"\d+ [MG]iB", cost)) == memory


@pytest.mark.parametrize(
    ("options", "is_of_connection"),
    [("-M 512", True), ("--threads -M 512", False), ("-T -M 512", False)],
)
def test_memory_of_svnserve_without_threads_is_that_of_a_connection(options, is_of_connection):
    cost = settings_cost({"svnserve": f"svnserve -d {options}"})
    for size in ("512 MiB", "256 MiB"):
        assert (f"svnserve {size} for each connection" in cost) == is_of_connection


@pytest.mark.parametrize(
    ("ratios", "gains", "losses"),
    [
        ([2.0, 1.05], {COLD_LOG: [2.0]}, {}),
        ([1.06, 1.05], {}, {}),
        ([2.0, 0.95], {COLD_LOG: [2.0]}, {}),
        ([2.0, 0.8], {COLD_LOG: [2.0]}, {WARM_LOG: [1.25]}),
    ],
)
def test_effect_below_the_margin_is_equal_and_drawn_as_sure_but_small(ratios, gains, losses):
    found = cases(*(row(r, cache=c) for r, c in zip(ratios, ("cold", "hot-os"), strict=True)))
    effect = combine_effects("f7", found, "f6")
    assert {group: pytest.approx(of) for group, of in gains.items()} == effect.gains
    assert {group: pytest.approx(of) for group, of in losses.items()} == effect.losses
    for ratio, case in zip(ratios, found, strict=True):
        text = describe_pair_difference(case.pairs[0], 10)
        assert text.endswith(" (sure but small)") == (0.91 < ratio < 1.1)


@pytest.mark.parametrize(
    ("value", "against", "effect", "gain", "loss"),
    [
        # f8 is faster than both.
        ("f7", "f6", Call.FASTER, 2.0, None),
        ("f7", "f8", Call.SLOWER, None, 1.5),
        # A value against itself is compared with the best one, and the best one with the slowest.
        ("f7", "f7", Call.SLOWER, None, 1.5),
        ("f8", "f8", Call.FASTER, 3.0, None),
        ("f6", "f6", Call.SLOWER, None, 3.0),
        # f5 is undecided.
        ("f7", "f5", Call.UNDECIDED, None, None),
        ("f8", "f5", Call.UNDECIDED, None, None),
        ("f5", "f6", Call.UNDECIDED, None, None),
        ("f4", "f6", Call.NOT_COMPARED, None, None),
    ],
)
def test_effect_in_case_is_a_gain_or_a_loss_against_the_same_value(
    value, against, effect, gain, loss
):
    to_f8 = {**row(1.5), "baseline": "f7", "candidate": "f8"}
    (case,) = cases(row(2.0), to_f8, row(1.2, NOISE, candidate="f5"))
    found = effect_in_case(value, case, against)
    assert found.effect is effect
    assert found.gain == (gain and pytest.approx(gain))
    assert found.loss == (loss and pytest.approx(loss))


def test_answer_is_slower_only_than_the_value_that_it_is_compared_with():
    rows = []
    for access in ("http", "svn", "file"):
        rows += [row(2.0, access=access), row(1.0, access=access, candidate="f8")]
    for access, packing in itertools.product(("http", "svn"), ("nopack", "pack")):
        where = {"command": "export", "access": access, "packing": packing}
        # In one case, f8 is faster than f7. Both are faster than f6.
        call = "" if (access, packing) == ("http", "nopack") else NOISE
        rows += [row(2.0, **where), row(2.8, call, candidate="f8", **where)]
    answer = answered(card(*rows))
    assert (answer.kind, answer.value, answer.against) == (AnswerKind.VALUE, "f7", "f6")
    assert answer.effect == "2.0x faster (of 7 cases 7 faster, 0 slower)"


def test_answer_that_depends_names_the_best_value_that_it_is_slower_than():
    exports = [
        row(1.3, command="export"),
        row(2.4, command="export", candidate="f8"),
    ]
    answer = answered(card(row(2.0), row(1.0, candidate="f8"), *exports))
    assert (answer.kind, answer.value, answer.against) == (AnswerKind.DEPENDS, "f7", "f6")
    assert answer.effect == (
        "f7 for log, f8 for export; "
        "f7 if you must choose one: cold export 1.8x slower than the best, up to 2.0x faster"
    )


def test_value_against_itself_is_slower_than_the_fastest_other():
    # f6 is best for most, and loses one of the exports to f8.
    logs = [row(0.5), row(0.4, candidate="f8"), row(0.5, access="svn")]
    export = [
        row(0.5, command="export"),
        row(1.4, command="export", candidate="f8"),
        row(0.8, command="export", access="svn", candidate="f8"),
    ]
    answer = answered(card(*logs, *export))
    assert (answer.kind, answer.value) == (AnswerKind.VALUE, "f6")
    assert answer.against == "the slowest other (where it is slower: the fastest)"
    # Without the access, the text would contradict itself.
    both = "cold export over svn 1.2x faster, cold export over http 1.4x slower"
    assert answer.effect.endswith(f"{both} (of 4 cases 3 faster, 1 slower)")


def test_case_that_lacks_the_present_value_is_undecided_for_it():
    to_f8 = row(1.0, NOISE, candidate="f8")
    made = card(row(2.0), to_f8, row(2.0, cache="hot-os"), row(1.5, cache="hot-os", candidate="f8"))
    effect = answered(made, {"format": "f8"}).effect
    assert effect.endswith("of 2 cases 1 faster, 0 slower, 1 undecided)")


SAME, TO_F8 = row(1.0, "equal"), row(0.5, candidate="f8")
COLD_F7_WARM_F8 = [row(2.0), row(0.5, cache="hot-os", candidate="f8")]


@pytest.mark.parametrize(
    ("rows", "present", "kind", "sentence"),
    [
        ([row(2.0)], "f9", AnswerKind.NOT_MEASURED, "No case "),
        ([row(1.0, NOISE), TO_F8], "f7", AnswerKind.UNDECIDED, "Wide interval."),
        # Equal to the best value.
        ([SAME, TO_F8], "f7", AnswerKind.VALUE, "You have f7: keep it"),
        # One of two cases compares the present value.
        (COLD_F7_WARM_F8, "f8", AnswerKind.VALUE, "Choose f6: warm log 2.0x faster."),
        (COLD_F7_WARM_F8, "f7", AnswerKind.VALUE, "You have f7: keep it"),
        (COLD_F7_WARM_F8, "", AnswerKind.VALUE, "Choose f7: cold log 2.0x faster (of 2 "),
    ],
)
def test_answer_to_a_reader_is_of_cases_that_decide_the_present_value(
    rows, present, kind, sentence
):
    answer = answered(card(*rows), {"format": present} if present else {})
    assert answer.kind == kind and answer.sentence.startswith(sentence)


@pytest.mark.parametrize("seed", [18, 21, 30])
def test_answer_sentence_has_at_most_25_words(seed):
    values = ("log", "export"), ("http", "svn", "file"), ("cold", "hot-os", "hot-server")
    rows = []
    for n, (command, access, cache) in enumerate(itertools.product(*values)):
        ratio = 1 + ((seed * 37 + n * 17) % 50 - 20) / 25
        rows.append(row(ratio, command=command, access=access, cache=cache))
    answer = answered(card(*rows))
    assert len(answer.sentence.split()) <= 25, answer.sentence


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ([1.057], "5.7 %"),
        ([1.0997], "1.10x"),
        ([1.19], "1.19x"),
        ([1.2], "1.2x"),
        ([12.3], "12x"),
        ([1e40], "9999x"),
        ([6.91, 2.4], "2.4x to 6.9x"),
        ([1.05, 1.08], "5.0 to 8.0 %"),
        ([1.03, 1.6], "1.03x to 1.6x"),
        ([1.3, 1.3], "1.3x"),
        ([1.0990, 1.0996], "1.10x"),
        ([1.08, 1.0801], "8.0 %"),
    ],
)
def test_factors_below_10_percent_are_percentages(ratios, text):
    assert range_of_factors(ratios) == text


@pytest.mark.parametrize(
    ("ratios", "short", "kind"),
    [
        ([0.8, 0.9, 0.98, 0.97], "f7: 1.11x to 1.2x slower in 2 of 4", AnswerKind.DEPENDS),
        ([1.5, 0.946, 1.0], "f7: 1.5x faster in 1 of 3", AnswerKind.VALUE),
        ([1.5, 1.01], "f7: 1.5x faster in 1 of 2", AnswerKind.VALUE),
        ([1.01, 0.98], "f7: equal within 10 % in 2 of 2", AnswerKind.EQUAL),
        ([1.5], "f7: 1.5x faster", AnswerKind.VALUE),
        ([1.01], "f7: equal within 10 %", AnswerKind.EQUAL),
        ([], "f7: undecided (wide interval)", AnswerKind.UNDECIDED),
    ],
)
def test_answer_on_a_build_has_size_direction_and_number(ratios, short, kind):
    calls = ["equal" if 0.96 < ratio < 1.04 else "" for ratio in ratios]
    rows = [row(*of, access=f"{n}") for n, of in enumerate(zip(ratios, calls, strict=True))]
    answer = answered(on_builds(*(rows or [row(1.0, NOISE)])))
    assert (answer.short, answer.kind) == (short, kind)


def test_build_with_the_binaries_of_the_baseline_is_a_noise_check():
    again = row(0.97, "equal", candidate="again")
    made = on_builds(again, row(0.8))
    (only,) = describe_aggregate(made)
    assert re.findall(r"f7|[\d.]+x", only.short) == ["f7", "1.2x"]
    checks = {pair.candidate: pair.is_noise_check for case in made.cases for pair in case.pairs}
    assert checks == {"again": True, "f7": False}
    mean = replace(NO_ESTIMATE, value=1.01, low=0.98, high=1.04)
    line = describe_lines(on_builds(again, row(0.8), mean=lambda *_: mean))[0]
    assert line.endswith(" 1.0 % faster (2.0 % slower to 4.0 % faster), no difference shown.")
    alone = on_builds(row(0.8, candidate="again"))
    assert (answered(alone).short, list(describe_aggregate(alone))) == ("no other build", [])


@pytest.mark.parametrize(
    ("average", "noise", "is_larger", "shown"),
    [
        ((0.946, 0.92, 0.97), (0.99, 0.97, 1.01), True, ["5.7 %", "3.1 %"]),
        ((0.946, 0.92, 0.97), (0.97, 0.94, 1.0), False, ["5.7 %", "6.4 %"]),
        # Its own interval has no difference.
        ((1.05, 0.99, 1.11), (1.0, 0.98, 1.02), False, ["5.0 %", "2.0 %"]),
    ],
)
def test_average_of_a_build_is_compared_with_the_same_build(average, noise, is_larger, shown):
    rows = [row(0.97, "equal", candidate="again"), row(0.8)]
    estimates = {
        name: replace(NO_ESTIMATE, value=value, low=low, high=high)
        for name, (value, low, high) in {"f7": average, "again": noise}.items()
    }
    made = on_builds(*rows, mean=lambda _, sides: estimates[sides[1]])
    _, line = describe_lines(made)
    assert (" exceeds " in line, re.findall(r"[\d.]+ %", line)) == (is_larger, shown)


def test_advise_on_builds_has_the_measured_average_and_no_situations(tmp_path):
    frame = frame_of(tmp_path, factors={"format": {"f7": 1.25}}, twins=1)
    question = CardQuestion("format", "Build?", aggregate=True)
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [question])
    (made,) = advise(settings, frame).cards
    assert "average 1.3x slower" in answered(made).effect
    advice = advise(settings, frame, [(DEFINITION, [row(0.8, flags="same-binaries")])])
    assert advice.situations == [] and answered(advice.cards[0]).short == "no other build"


def test_advise_keeps_a_choice_with_an_invalid_round_and_compares_rounds_of_all(tmp_path):
    frame = frame_of(tmp_path, rounds=6, noise=0, drift=0.5, twins=1)
    is_best = (frame["command"] == "log") & (frame["access"] == "file") & (frame["round"] == 6)
    settings = AdviceSettings(VALUES, ["command", "repo", "cache"], ["command", "repo", "cache"])
    whole, some = (advise(settings, of).situations for of in (frame, frame[~is_best]))
    for before, after in zip(whole, some, strict=True):
        assert [choice.values for choice in after.choices] == [c.values for c in before.choices]


@pytest.mark.parametrize(
    ("decides_from_s", "whys"), [(0.0, {None}), (1000.0, {WhyNoBest.TOO_SMALL})]
)
def test_runs_that_are_too_short_for_the_study_decide_no_best_choice(
    tmp_path, decides_from_s, whys
):
    limits = Limits(decides_from_s=decides_from_s)
    axes = ["command", "repo", "cache"]
    advice = advise(AdviceSettings(VALUES, axes, axes, limits=limits), frame_of(tmp_path, twins=1))
    assert {situation.why for situation in advice.situations} == whys


def test_advice_on_choices_without_a_common_round_is_read_back(tmp_path):
    frame = frame_of(tmp_path, rounds=4, twins=1)
    is_measured = (frame["format"] == "f7") == (frame["round"] <= 2)
    settings = AdviceSettings(VALUES, ["command", "repo", "cache"], ["command", "repo", "cache"])
    written = ADVICE.dump_json(advise(settings, frame[is_measured]))
    formats = set()
    for situation in ADVICE.validate_json(written).situations:
        for choice in situation.choices:
            formats.add(choice.values["format"])
            factor = choice.seconds / situation.best.seconds
            assert choice.ratio == pytest.approx(factor)
    assert formats == {"f6", "f7"}


def test_missing_value_with_outdated_cells_has_the_reason_in_words():
    grid = [{"cell": "a", "format": "f7", "skip": ""}]
    failures = [{"cell": "a", "reason": OUTDATED}]
    (missing,) = decision.missing_values("format", [], grid, failures)
    assert missing.reason == OUTDATED
    assert missing.sentence("f7") == f"f7: 1 cell not measured: {texts.OUTDATED_TEXT}."


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["timeout", UNMEASURED], "timeout"),
        ([OUTDATED, "no httpd", "timeout", OUTDATED], "timeout"),
        ([OUTDATED, UNMEASURED], UNMEASURED),
    ],
)
def test_missing_value_has_the_reason_of_a_failure_before_that_of_a_pending_round(
    reasons, expected
):
    grid = [{"cell": "a", "format": "f7", "skip": ""}]
    failures = [{"cell": "a", "reason": reason} for reason in reasons]
    (missing,) = decision.missing_values("format", [], grid, failures)
    assert (missing.reason, missing.cells) == (expected, 1)


def test_advise_on_several_hosts_has_the_reason_and_the_remedy(tmp_path):
    frame = frame_of(tmp_path, twins=1)
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    questions = [CardQuestion("format", "Which?"), CardQuestion("packing", "Pack?")]
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], questions)
    advice = advise(settings, frame)
    formats, packing = advice.cards
    assert {s.why for s in advice.situations} == {WhyNoBest.SEVERAL_HOSTS}
    cells = math.prod(len(values) for axis, values in VALUES.items() if axis != "format")
    message = FLAGS["hosts-differ"].sentence
    assert (answered(formats).kind, formats.cases) == (AnswerKind.NOT_COMPARED, [])
    assert describe_notes(formats) == [f"{cells} comparisons left out: {message}"]
    assert answered(formats, {"command": "log"}).kind == AnswerKind.NOT_COMPARED
    assert answered(formats, {"command": "dump"}).kind == AnswerKind.NOT_MEASURED
    # Both sides of these are on one host.
    assert answered(packing).kind == AnswerKind.VALUE and describe_notes(packing) == []
    of_builds = replace(settings, questions=[replace(questions[0], aggregate=True)])
    (build,) = advise(of_builds, frame).cards
    assert describe_lines(build) == describe_notes(formats)


def test_less_work_leaves_out_comparisons_of_several_hosts():
    definition = {"compare": {**DEFINITION["compare"], "metric": "read_calls"}}
    of = row(2.0, "less")
    sentence = describe_less_work(*find_less_work([(definition, [of])], 10))
    assert sentence.startswith("f7: 2.0x fewer") and "cases" not in sentence
    assert find_less_work([(definition, [{**of, "withheld": "hosts-differ"}])], 10) == []


def test_answer_without_a_difference_from_the_reference_recommends_nothing():
    # f7 wins over f8, which nobody has here, and is undecided against f6.
    to_f8 = {**row(0.5), "baseline": "f7", "candidate": "f8"}
    made = card(row(1.0, NOISE), to_f8)
    assert (answered(made).short, answered(made).value) == (NO_DIFFERENCE, "")
    assert answered(made).effect == "of 1 cases 1 undecided"
    assert plan_steps([made], {}).steps == []
    # The reference itself is recommended if it wins over f8.
    assert answered(card(row(1.0), row(0.5, candidate="f8"))).value == "f6"


def test_answer_of_bounded_comparisons_only_is_nearly_equal():
    made = card(row(1.05, call="bounded"))
    assert (answered(made).kind, answered(made).short) == (AnswerKind.UNDECIDED, "nearly equal")
    both = card(row(1.05, call="bounded"), row(1.3, call="undecided", cache="hot-os"))
    assert answered(both).short == "undecided"
