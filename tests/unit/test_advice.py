"""The decision rule and the words of its answers, on the rows of tables with known ratios."""

import itertools
import math

import pytest

from unit.synthetic import AXES as VALUES
from unit.test_tables import frame_of
from vcsbench.advice import decision as rule
from vcsbench.advice.advise import AdviceSettings, advise, questions_of
from vcsbench.advice.build_advice import same_as_baseline, with_candidates
from vcsbench.advice.cards import (
    ADVICE,
    Advice,
    CardQuestion,
    Effect,
    card_of,
    case_label,
    factors,
    find_rule,
    markdown_of,
    seconds,
    value_label,
)
from vcsbench.advice.decision import BETTER, SMALL, cases_of, missing_values, outcome_of
from vcsbench.axes.client_server import server_settings
from vcsbench.statistics.estimates import NO_ESTIMATE, Estimate

AXES = ["command", "ra", "format", "packing", "cache"]
DEFINITION = {"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]}}


def row(ratio, call="", **where):
    """A row of a table f6-vs-f7; the call follows from the ratio."""
    called = call or ("faster" if ratio > 1 else "slower" if ratio < 1 else "no difference shown")
    plain = {"command": "log", "ra": "http", "packing": "nopack", "cache": "cold"}
    numbers = {"ratio": ratio, "low": ratio * 0.95, "high": ratio * 1.05, "n": 5.0}
    sides = {"baseline": "f6", "candidate": "f7", "call": called, "withheld": ""}
    return {**plain, **numbers, **sides, **where}


def cases(*rows, axis="format", **options):
    definition = {"compare": {"axis": axis, "baseline": rows[0]["baseline"], "candidates": []}}
    return cases_of(axis, [(definition, rows)], AXES, **options)


def card(*rows, axis="format", **options):
    question = options.pop("question", CardQuestion(axis, "Which?"))
    workload = options.pop("workload", ())
    found = cases(*rows, axis=axis, **options)
    return card_of(question, rows[0]["baseline"], AXES, found, 10.0, workload)


def test_answer_with_one_small_loss_is_the_value_with_the_smallest_worst_regret():
    made = card(row(2.9), row(0.926, cache="hot-os", command="export"))
    decision = rule.decide(made.cases, "f6", 10)
    assert (decision.kind, decision.value) == (rule.VALUE, "f7")
    assert decision.worst == {"f6": pytest.approx(2.9), "f7": pytest.approx(1 / 0.926)}
    assert (made.answer.short, made.answer.value) == ("f7", "f7")
    counts = "of 2 cases 1 faster, 1 slower"
    assert made.answer.effect == f"cold log 2.9x faster, at most 8 % slower ({counts})"


@pytest.mark.parametrize(
    ("loss", "effect", "kind"),
    [(1.09, 10, rule.VALUE), (1.11, 10, rule.DEPENDS), (1.14, 15, rule.VALUE)],
)
def test_decide_with_losses_on_both_sides_depends_above_the_smallest_effect(loss, effect, kind):
    found = cases(row(2.0), row(1 / loss, cache="hot-os"))
    assert rule.decide(found, "f6", effect).kind == kind


def test_answer_with_three_values_counts_each_case_once():
    # f7 is faster than f6 and slower than f8 in one case; another case lacks it.
    best = {"call": "faster", "candidate": "f8"}
    rows = [row(2.0), row(2.1, **best), row(1.0, cache="hot-os"), row(1.05, cache="hot-svn")]
    other = [row(1.0, ra="svn", call="no difference shown", candidate="f8")]
    effect = Effect.of("f7", cases(*rows, *other), "f6", "f6")
    assert effect.regrets == [pytest.approx(2.1 / 2.0)]
    assert (len(effect.gains), effect.slower, effect.equal) == (2, 0, 1)
    slower = Effect.of("f7", cases(row(0.95), row(1.0, cache="hot-os")), "f6", "f6")
    assert (len(slower.gains), slower.slower, slower.equal) == (0, 1, 1)


def test_decide_that_depends_returns_the_simplest_rule():
    grid = itertools.product(("log", "export"), ("http", "svn"), ("cold", "hot-os", "hot-svn"))
    cells = [dict(zip(("command", "ra", "cache"), values, strict=True)) for values in grid]
    is_better = [(cell["command"], cell["cache"]) == ("log", "cold") for cell in cells]
    pairs = zip(cells, is_better, strict=True)
    made = card(*(row(1.5 if better else 0.6, **cell) for cell, better in pairs))
    assert made.answer.kind == rule.DEPENDS
    assert find_rule(made.cases, made) == {"f7": ["cold log"], "f6": ["warm log", "export"]}
    answer = card(row(1.9, command="export"), row(0.77)).answer
    assert answer.short == "depends" and answer.value == "f7"
    assert answer.effect == "f7 for export, f6 for log"
    assert "at most 1.3x slower, up to 1.9x faster" in answer.sentence


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"call": "too noisy to say"}, "too noisy"),
        ({"call": "too small to compare"}, SMALL),
        ({"fixed_share": 0.51}, SMALL),
        ({"fixed_share": 0.5}, BETTER),
        ({"fixed_share": math.nan}, BETTER),
        ({"call": ""}, "too few rounds"),
    ],
)
def test_outcome_of_a_row_follows_its_call_and_its_fixed_share(change, outcome):
    assert outcome_of({**row(3.0, "faster"), **change}) == outcome


NOISE = "too noisy to say"
NOISY = row(0.2, NOISE, cache="hot-os")
START_UP = row(0.2, "slower", cache="hot-svn", fixed_share=0.8)


@pytest.mark.parametrize(
    ("rows", "kind", "value", "decided"),
    [
        ([row(1.5), NOISY, START_UP], rule.VALUE, "f7", 1),
        ([NOISY, START_UP], rule.UNDECIDED, "", 0),
        ([], rule.NOT_MEASURED, "", 0),
        ([row(1.03, "no difference shown")], rule.EQUAL, "f6", 1),  # keeps the reference
        # A value of one harmless case is not better than one that wins where it counts.
        (
            [
                *(row(3.0), row(0.95, cache="hot-os")),
                row(1.0, "no difference shown", cache="hot-os", candidate="f8"),
            ],
            *(rule.VALUE, "f7", 2),
        ),
    ],
)
def test_decide_uses_decided_cases_alone(rows, kind, value, decided):
    decision = rule.decide(cases(*rows) if rows else [], "f6", 10)
    assert (decision.kind, decision.value, decision.decided) == (kind, value, decided)
    if value == "f7" and decided == 1:
        assert decision.worst["f7"] == 1.0 and decision.cases == 3


def test_cases_of_two_tables_chain_their_values():
    second = {"compare": {"axis": "format", "baseline": "f7", "candidates": ["f8"]}}
    later = {**row(1.5), "baseline": "f7", "candidate": "f8"}
    (case,) = cases_of("format", [(DEFINITION, [row(2.0)]), (second, [later])], AXES)
    assert case.costs == {"f6": pytest.approx(3.0), "f7": pytest.approx(1.5), "f8": 1.0}


def test_decide_with_a_workload_takes_the_smallest_weighted_mean():
    rows = (row(1.5), row(0.5, command="export"))
    parts = [("log", 90), ("export", 10)]
    workload = [{"name": n, "weight": w, "where": {"command": n}} for n, w in parts]
    assert card(*rows).answer.kind == rule.DEPENDS
    assert card(*rows, workload=workload).answer.value == "f7"
    turned = [{**part, "weight": 100 - part["weight"]} for part in workload]
    assert card(*rows, workload=turned).answer.value == "f6"
    (note,) = card(row(1.5), workload=workload).notes
    assert "export (10 %)" in note


def test_decide_does_not_count_mostly_start_up_against_a_value():
    small = row(3.0, "too small to compare", candidate="f8")
    found = cases(row(2.0), small, row(1.5, cache="hot-os", candidate="f8"))
    decision = rule.decide(found, "f6", 10)
    # In the first case f8 is not slower than f7 by anything that counts.
    assert (decision.kind, decision.value, decision.worst["f8"]) == (rule.VALUE, "f8", 1.0)


def test_cases_restricted_to_values_leave_out_the_others():
    (case,) = cases(row(2.0), row(9.0, candidate="f8"), values=["f6", "f7"])
    assert set(case.costs) == {"f6", "f7"}


def test_answer_for_a_reader_gives_the_factor_and_the_times_of_his_case():
    times = {("log", "http", fmt, "nopack", "cold"): t for fmt, t in (("f6", 0.5), ("f7", 0.2))}
    made = card(row(2.4), row(6.9, ra="svn"), times=times)
    case = made.cases[0]
    assert case.pair_times(case.pairs[0]) == (0.5, pytest.approx(0.5 / 2.4))
    assert case.pair_times(case.pairs[0], "f7") == (0.2, pytest.approx(0.48))
    assert made.answer.effect == "cold log 2.4x to 6.9x faster (of 2 cases 2 faster, 0 slower)"
    mine = made.answer_for({"ra": "http", "format": "f6"})
    assert "2.4x faster" in mine.sentence and "0.50 s → 0.21 s" in mine.sentence
    assert made.answer_for({"ra": "http", "format": "f7"}).sentence.startswith("You have f7")
    assert made.answer_for({"ra": "file"}).kind == rule.NOT_MEASURED


def test_answer_for_a_reader_with_several_cases_has_each_result():
    export = {"ra": "http", "command": "export"}
    rows = [row(2.4), row(1.02, "no difference shown", **export), row(3.0, ra="svn")]
    mine = card(*rows).answer_for({"ra": "http", "format": "f6"})
    assert mine.sentence == "F7: cold log 2.4x faster; cold export equal."


def test_answer_counts_cases_without_the_value():
    other = row(1.0, "no difference shown", ra="svn", candidate="f8")
    found = card(row(2.0), other, row(1.2, NOISE, ra="file"))
    assert found.answer.effect.endswith(
        "(of 3 cases 1 faster, 0 slower, 1 undecided, 1 without it)"
    )


@pytest.mark.parametrize(("ratio", "short"), [(2.0, "yes"), (0.5, "no")])
def test_answer_to_a_yes_or_no_question(ratio, short):
    question = CardQuestion("format", "Upgrade?", yes_value="f7")
    assert card(row(ratio), question=question).answer.short == short


@pytest.mark.parametrize("seed", range(40))
def test_answer_sentence_has_at_most_25_words(seed):
    grid = itertools.product(
        ("log", "export"), ("http", "svn", "file"), ("cold", "hot-os", "hot-svn")
    )
    rows = [
        row(1 + ((seed * 37 + n * 17) % 50 - 20) / 25, command=command, ra=ra, cache=cache)
        for n, (command, ra, cache) in enumerate(grid)
    ]
    answer = card(*rows).answer
    assert len(answer.sentence.split()) <= 25, answer.sentence


def test_missing_values_have_their_main_reason_and_their_number():
    grid = [
        {"cell": f"{fmt}/{n}", "format": fmt, "skip": why}
        for fmt, why in (("f6", ""), ("f7", ""), ("f8", "old svnadmin"))
        for n in range(3)
    ]
    failures = [{"cell": "f9/1", "reason": "no answer"}]
    grid.append({"cell": "f9/1", "format": "f9", "skip": ""})
    found = missing_values("format", cases(row(2.0)), grid, failures)
    assert [(m.value, m.reason, m.cells) for m in found] == [
        ("f8", "old svnadmin", 3),
        ("f9", "no answer", 1),
    ]


def test_card_survives_json_and_markdown_has_its_answer():
    made = card(row(2.0), row(0.97, "no difference shown", cache="hot-os"))
    advice = Advice([made], less_work=["less"])
    again = ADVICE.validate_json(ADVICE.dump_json(advice))
    assert ADVICE.dump_json(again) == ADVICE.dump_json(advice)
    assert again.cards[0].answer == made.answer and "**f7**" in markdown_of("A study", [made])


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ([1.08], "8 %"),
        ([1.19], "19 %"),
        ([1.2], "1.2x"),
        ([12.3], "12x"),
        ([6.91, 2.4], "2.4x to 6.9x"),
        ([1.05, 1.08], "5 to 8 %"),
        ([1.14, 1.6], "1.1x to 1.6x"),
        ([1.3, 1.3], "1.3x"),
        ([1.16, 1.21], "1.2x"),
        ([1.08, 1.081], "8 %"),
    ],
)
def test_factors_below_1_2_are_percentages(ratios, text):
    assert factors(ratios) == text


def test_labels_are_words_of_the_reader():
    assert seconds(0.4711) == "0.47 s" and seconds(0.0312) == "0.031 s"
    where = {"command": "log", "ra": "http", "packing": "nopack", "cache": "cold"}
    assert case_label(where, ["command", "ra", "cache"]) == "cold log over http"
    hot = case_label({**where, "cache": "hot-os"}, ["ra", "packing"])
    assert hot == "log over http, OS cache warm (not packed)"
    assert value_label("format", "f6-to-f8") == "f6 upgraded to f8"
    assert value_label("sqlite_locking", "default") == "default locking"


@pytest.mark.parametrize("more", [{"reduce": "best"}, {"by": ["run"]}])
def test_advise_with_a_reduced_table_only_compares_each_cell_itself(tmp_path, more):
    frame = frame_of(tmp_path, factors={"format": {"f7": 0.5}}, twins=1)
    questions = [CardQuestion("format", "Which?")]
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], questions)
    advice = advise(settings, frame, [({**DEFINITION, **more}, [])])
    assert (advice.cards[0].answer.kind, advice.cards[0].answer.value) == (rule.VALUE, "f7")


def on_builds(*rows, average=NO_ESTIMATE):
    """Return the card of builds; candidates named `again` have the binaries of the baseline."""
    flagged = [{**r, "flags": "same-binaries" if r["candidate"] == "again" else ""} for r in rows]
    same = same_as_baseline([({}, flagged)])
    question = CardQuestion("format", "Is it faster?", aggregate=True)
    return with_candidates(card(*rows, question=question), same, lambda *_: average)


@pytest.mark.parametrize(
    ("ratios", "short", "kind"),
    [
        ([0.8, 0.9, 0.98, 0.97], "f7: 1.11x to 1.25x slower in 2 of 4", rule.DEPENDS),
        ([1.5, 0.8, 1.0], "f7: 1.25x slower in 1, 1.50x faster in 1 of 3", rule.DEPENDS),
        ([1.5, 1.01], "f7: 1.50x faster in 1 of 2", rule.VALUE),
        ([1.01, 0.98], "f7: equal within 10 % in 2 of 2", rule.EQUAL),
        ([], "f7: undecided (too noisy in 1 of 1)", rule.UNDECIDED),
    ],
)
def test_answer_on_a_build_has_size_direction_and_number(ratios, short, kind):
    accesses = [f"{n}" for n in range(len(ratios))]
    rows = [
        row(r, "no difference shown" if 0.95 < r < 1.05 else "", ra=ra)
        for r, ra in zip(ratios, accesses, strict=True)
    ] or [row(1.0, "too noisy to say")]
    answer = on_builds(*rows).answer
    assert (answer.short, answer.kind) == (short, kind)


@pytest.mark.parametrize(
    ("low", "value", "high", "text"),
    [
        (0.98, 0.985, 0.99, "on average 1.5 % slower (1.0 % to 2.0 %)"),
        (0.99, 1.005, 1.02, "on average between 1.0 % slower and 2.0 % faster"),
        (1.9, 2.0, 2.1, "on average 2.00x faster (1.90x to 2.10x)"),
    ],
)
def test_average_of_a_build_has_a_direction(low, value, high, text):
    average = Estimate(value, low, high, 5)
    effect = on_builds(row(0.98, "no difference shown"), average=average).answer.effect
    assert effect == f"f7: equal within 10 % in 1 of 1; {text}"


def test_build_with_the_binaries_of_the_baseline_is_a_noise_check():
    again = row(0.97, "no difference shown", candidate="again")
    made = on_builds(again, row(0.8))
    assert [answer.short for answer in made.candidates] == ["f7: 1.25x slower in 1 of 1"]
    assert made.lines == ["Noise check: again, the same build: 0 of 1 differ."]
    assert [pair.candidate for case in made.cases for pair in case.pairs] == ["f7"]
    noisy = on_builds(row(0.97, "too noisy to say", candidate="again"), row(0.8))
    assert noisy.lines == ["Noise check: again, the same build: 0 of 1 differ, 1 undecided."]
    alone = on_builds(row(0.8, candidate="again"))
    assert (alone.answer.short, list(alone.candidates)) == ("no other build", [])
    assert alone.lines == ["Noise check: again, the same build: 1 of 1 differ."]


def test_advise_on_builds_has_the_measured_average_and_no_situations(tmp_path):
    frame = frame_of(tmp_path, factors={"format": {"f7": 1.25}}, twins=1)
    question = CardQuestion("format", "Build?", aggregate=True)
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [question])
    (made,) = advise(settings, frame).cards
    assert "on average 1.25x slower (1.2" in made.answer.effect
    row_ = {"ratio": 0.8, "baseline": "f6", "candidate": "f7", "flags": "same-binaries"}
    advice = advise(settings, frame, [(DEFINITION, [{**row_, "call": "slower"}])])
    assert advice.situations == [] and advice.cards[0].answer.short == "no other build"


def test_advise_situation_names_all_axes_and_has_the_ratio_of_each_choice(tmp_path):
    frame = frame_of(tmp_path, factors={"format": {"f7": 0.5}, "packing": {"pack": 0.8}}, twins=1)
    frame = frame[frame["config"] == "slow"]
    scenario = ["ra", "command", "repo", "cache"]
    settings = AdviceSettings(VALUES, scenario, ["command", "repo", "cache"])
    situation = advise(settings, frame).situations[0]
    assert situation.best
    assert situation.best.values == {"format": "f7", "packing": "pack", "config": "slow"}
    known = {(c.values["format"], c.values["packing"]): c for c in situation.choices}
    assert known["f6", "nopack"].ratio == pytest.approx(2.5, rel=0.02)
    assert known["f7", "nopack"].ratio == pytest.approx(1.25, rel=0.02)
    assert situation.gain == known["f6", "nopack"].ratio and situation.equal == []
    assert known["f6", "nopack"].seconds / situation.best.seconds == pytest.approx(2.5, rel=0.02)


def test_questions_of_server_settings_have_a_step_for_each_server():
    settings = {"config": {"fast": {"svnserve": "svnserve -d", "httpd": "A on"}, "slow": {}}}
    asked = {"question": "Which?", "how_to_measure": {"command": "make report", "note": "It runs."}}
    (question,) = questions_of({"config": asked}, settings)
    fast = question.actions["fast"]
    assert [(step.server, step.command) for step in fast.steps] == [
        ("svnserve", "svnserve -d"),
        ("httpd", "A on"),
    ]
    assert all(step.note for step in fast.steps) and fast.cost and fast.note
    assert [step.command for step in question.actions[""].steps] == ["make report"]
    assert "slow" not in question.actions


@pytest.mark.parametrize(
    ("options", "directives", "cost"),
    [
        ("--threads", "SVNBlockRead on", "16.0 MiB"),
        ("-M 256", "", "256 MiB"),
        ("--memory-cache-size 256", "SVNInMemoryCacheSize 1048576", "1.00 GiB"),
    ],
)
def test_questions_of_server_settings_name_the_largest_cache(options, directives, cost):
    servers = {"svnserve": f"svnserve -d -r ROOT {options}", "httpd": directives}
    (question,) = questions_of({"config": {"question": "Which?"}}, {"config": {"mine": servers}})
    assert cost in question.actions["mine"].cost


def test_server_settings_have_a_command_and_lines(tmp_path):
    folder = tmp_path / "config" / "servers" / "mine"
    folder.mkdir(parents=True)
    (folder / "svnserve.args").write_text("--threads  # why\n--compression 0\n")
    (folder / "httpd.conf").write_text("# none\nSVNBlockRead on\nSVNCompressionLevel 0\n")
    assert server_settings(tmp_path, "mine") == {
        "svnserve": "svnserve -d -r ROOT --threads --compression 0",
        "httpd": "SVNBlockRead on\nSVNCompressionLevel 0",
    }
