"""The decision rule and the words of its answers, on the rows of tables with known ratios."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from unit.synthetic import AXES as VALUES
from unit.test_tables import frame_of
from vcsbench.advice import decision as rule
from vcsbench.advice.advise import (
    ON_ONE_MACHINE,
    AdviceSettings,
    advise,
    less_work,
    with_candidates,
)
from vcsbench.advice.cards import Effect, card_of, find_rule, pair_text
from vcsbench.advice.decision import BETTER, SMALL, cases_of, outcome_of
from vcsbench.advice.labels import CardQuestion, factors, questions_of
from vcsbench.evidence.flags import FLAGS
from vcsbench.statistics.estimates import NO_ESTIMATE

AXES = ["command", "ra", "format", "packing", "cache"]
NOISE = "too noisy to say"
DEFINITION = {"compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]}}


def row(ratio, call="", **where):
    """A row of a table f6-vs-f7; the call follows from the ratio."""
    called = call or ("faster" if ratio > 1 else "slower" if ratio < 1 else "no difference shown")
    plain = {"command": "log", "ra": "http", "packing": "nopack", "cache": "cold"}
    numbers = {"ratio": ratio, "low": ratio * 0.95, "high": ratio * 1.05, "n": 5.0}
    sides = {"baseline": "f6", "candidate": "f7", "call": called, "withheld": ""}
    return {**plain, **numbers, **sides, **where}


def cases(*rows, axis="format", **options):
    return cases_of(axis, rows, AXES, **options)[0]


def card(*rows, axis="format", **options):
    question = options.pop("question", CardQuestion(axis, "Which?"))
    workload = options.pop("workload", ())
    found = cases(*rows, axis=axis, **options)
    return card_of(question, rows[0]["baseline"], AXES, found, 10.0, workload)


@pytest.mark.parametrize(
    ("loss", "effect", "kind"),
    [(1.09, 10, rule.VALUE), (1.11, 10, rule.DEPENDS), (1.14, 15, rule.VALUE)],
)
def test_decide_with_losses_on_both_sides_depends_above_the_smallest_effect(loss, effect, kind):
    found = cases(row(2.0), row(1 / loss, cache="hot-os"))
    assert rule.recommend(found, "f6", effect)[0] == kind


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
    assert re.findall(r"[\d.]+x", answer.sentence) == ["1.3x", "1.9x"]
    for_each = re.findall(r"(f\d) (?:for|if) (\w+)", answer.effect)
    assert for_each == [("f7", "export"), ("f6", "log"), ("f7", "you")]
    assert "Decided" not in answer.sentence
    answer = card(row(1.9, command="export"), row(0.77), NOISY).answer
    assert answer.kind == rule.DEPENDS and answer.effect.endswith("Decided: 2 of 3 cases")


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"call": "too noisy to say"}, "too noisy"),
        ({"call": "", "fixed_share": 0.51}, SMALL),
        ({"fixed_share": 0.5}, BETTER),
        ({"fixed_share": math.nan}, BETTER),
        ({"call": ""}, "too few rounds"),
        ({"call": "too noisy to say", "flags": "no-duplicates low-n"}, "too few rounds"),
        ({"call": "too noisy to say", "flags": "no-duplicates"}, "no duplicates"),
    ],
)
def test_outcome_of_a_row_follows_its_call_and_its_fixed_share(change, outcome):
    assert outcome_of({**row(3.0, "faster"), **change}) == outcome


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
    found = cases(*rows) if rows else []
    assert rule.recommend(found, "f6", 10) == (kind, value)
    of = [case for case in found if case.is_decided]
    assert len(of) == decided
    if value == "f7" and decided == 1:
        assert rule.smallest_regret(of, "f6")[1]["f7"] == 1.0 and len(found) == 3


def test_answer_on_one_case_has_no_number_of_cases():
    assert card(NOISY).answer.effect == "too noisy"
    assert card(NOISY, START_UP).answer.effect == "too noisy in 1 of 2 cases"


def test_cases_of_two_tables_chain_their_values():
    later = {**row(1.5), "baseline": "f7", "candidate": "f8"}
    (case,) = cases(row(2.0), later)
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
    small = row(3.0, fixed_share=0.8, candidate="f8")
    found = cases(row(2.0), small, row(1.5, cache="hot-os", candidate="f8"))
    assert rule.recommend(found, "f6", 10) == (rule.VALUE, "f8")
    # In the first case f8 is not slower than f7 by anything that counts.
    assert rule.smallest_regret(found, "f6")[1]["f8"] == 1.0


def on_builds(*rows, mean=lambda *_: NO_ESTIMATE):
    """Return the card of builds; candidates named `again` have the binaries of the baseline."""
    flagged = [{**r, "flags": "same-binaries" if r["candidate"] == "again" else ""} for r in rows]
    question = CardQuestion("format", "Is it faster?", aggregate=True)
    return with_candidates(card(*flagged, question=question), mean)


CACHES = ["SVNInMemoryCacheSize 1048576", "SVNCacheRevProps on"]
READS = ["SVNBlockRead on", "SVNCompressionLevel 0"]
SVNSERVE = ["svnserve -d -r ROOT -M 512", "--block-read yes", "--compression 0"]


@pytest.mark.parametrize(
    ("text", "commands", "memory"),
    [
        (
            "\n".join(sorted(CACHES + READS)),
            CACHES + READS,
            "1 GiB of memory for each httpd process",
        ),
        (READS[0], READS[:1], "16 MiB of memory for each httpd process"),
        (
            "svnserve -d --compression 0 -r ROOT --block-read yes -M 512",
            *(SVNSERVE, "512 MiB of memory for "),
        ),
    ],
)
def test_action_of_settings_has_optional_ones_apart(text, commands, memory):
    server = "svnserve" if commands == SVNSERVE else "httpd"
    asked = {"config": {"question": "Which?"}}
    action = questions_of(asked, {"config": {"fast": {server: text}}})[0].actions["fast"]
    reload = ["apachectl configtest && apachectl graceful"] * (server == "httpd")
    assert [step.command for step in action.steps] == [*commands, *reload]
    limited = {step.command for step in action.steps if "format 7" in step.note}
    assert limited == {command for command in commands if "lock" in command}
    assert action.cost.startswith(f"Up to {memory}")


SURE = "(sure but small)"


@pytest.mark.parametrize(
    ("ratios", "wins", "losses"),
    [
        ([2.0, 1.05], f"cold log 2.0x, warm log 5.0 % faster {SURE}", "nowhere"),
        ([1.06, 1.05], f"cold log 6.0 %, warm log 5.0 % faster {SURE}", "nowhere"),
        ([2.0, 0.95], "cold log 2.0x faster", f"warm log 5.3 % slower {SURE}"),
        ([2.0, 0.87], "cold log 2.0x faster", "warm log 1.15x slower"),
        ([2.0, 2.01], "2.0x faster", "nowhere"),
    ],
)
def test_effect_below_the_smallest_is_sure_but_small(ratios, wins, losses):
    found = cases(*(row(r, cache=c) for r, c in zip(ratios, ("cold", "hot-os"), strict=True)))
    effect = Effect.of("f7", found, "f6", 10)
    assert (effect.wins, effect.losses if effect.regrets else "nowhere") == (wins, losses)
    for ratio, case in zip(ratios, found, strict=True):
        text = pair_text("format", case.pairs[0], 10)
        assert text.endswith(f" {SURE}") == (0.91 < ratio < 1.1)


def test_case_that_lacks_the_present_value_is_undecided_for_it():
    to_f8 = row(1.0, NOISE, candidate="f8")
    made = card(row(2.0), to_f8, row(2.0, cache="hot-os"), row(1.5, cache="hot-os", candidate="f8"))
    assert made.answer_for({"format": "f8"}).effect.endswith(
        "of 2 cases 1 faster, 0 slower, 1 undecided)"
    )


SAME, TO_F8 = row(1.0, "no difference shown"), row(0.5, candidate="f8")
WARM = {"cache": "hot-os", "candidate": "f8"}


@pytest.mark.parametrize(
    ("rows", "present", "kind", "sentence"),
    [
        # Over file, the question compares http with svn.
        ([row(2.0)], "f9", rule.NOT_MEASURED, "No case of this question has a result."),
        ([row(1.0, NOISE), TO_F8], "f7", rule.UNDECIDED, "Too noisy."),
        # Equal to the best value.
        ([SAME, TO_F8], "f7", rule.VALUE, "You have f7: keep it if you change only this."),
        # One of two cases compares the present value.
        ([row(2.0), row(0.5, **WARM)], "f8", rule.VALUE, "Choose f6: warm log 2.0x faster."),
        ([row(2.0), row(0.5, **WARM)], "f7", rule.VALUE, "You have f7: keep it if you"),
        ([row(2.0), row(0.5, **WARM)], "", rule.VALUE, "Choose f7: cold log 2.0x faster (of 2 "),
    ],
)
def test_answer_to_a_reader_is_of_cases_that_decide_the_present_value(
    rows, present, kind, sentence
):
    answer = card(*rows).answer_for({"format": present} if present else {})
    assert answer.kind == kind and answer.sentence.startswith(sentence)


@pytest.mark.parametrize("seed", [18, 21, 30])
def test_answer_sentence_has_at_most_25_words(seed):
    values = ("log", "export"), ("http", "svn", "file"), ("cold", "hot-os", "hot-svn")
    rows = []
    for n, (command, ra, cache) in enumerate(itertools.product(*values)):
        ratio = 1 + ((seed * 37 + n * 17) % 50 - 20) / 25
        rows.append(row(ratio, command=command, ra=ra, cache=cache))
    answer = card(*rows).answer
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
        ([1.08, 1.6], "1.08x to 1.60x"),
        ([1.03, 1.6], "3.0 % to 1.6x"),
        ([1.3, 1.3], "1.3x"),
        ([1.16, 1.21], "1.16x to 1.21x"),
        ([1.08, 1.0801], "8.0 %"),
    ],
)
def test_factors_below_10_percent_are_percentages(ratios, text):
    assert factors(ratios) == text


@pytest.mark.parametrize(
    ("ratios", "short", "kind"),
    [
        ([0.8, 0.9, 0.98, 0.97], "f7: 1.11x to 1.25x slower in 2 of 4", rule.DEPENDS),
        ([1.5, 0.946, 1.0], f"f7: 5.7 % slower {SURE} in 1, 1.5x faster in 1 of 3", rule.DEPENDS),
        ([1.5, 1.01], "f7: 1.5x faster in 1 of 2", rule.VALUE),
        ([1.01, 0.98], "f7: equal within 10 % in 2 of 2", rule.EQUAL),
        ([1.5], "f7: 1.5x faster", rule.VALUE),
        ([1.01], "f7: equal within 10 %", rule.EQUAL),
        ([], "f7: undecided (too noisy)", rule.UNDECIDED),
    ],
)
def test_answer_on_a_build_has_size_direction_and_number(ratios, short, kind):
    calls = ["no difference shown" if 0.96 < ratio < 1.04 else "" for ratio in ratios]
    rows = [row(*of, ra=f"{n}") for n, of in enumerate(zip(ratios, calls, strict=True))]
    answer = on_builds(*(rows or [row(1.0, NOISE)])).answer
    assert (answer.short, answer.kind) == (short, kind)


def test_build_with_the_binaries_of_the_baseline_is_a_noise_check():
    again = row(0.97, "no difference shown", candidate="again")
    made = on_builds(again, row(0.8))
    (only,) = made.candidates
    assert re.findall(r"f7|[\d.]+x", only.short) == ["f7", "1.2x"]
    checks = {pair.candidate: pair.is_noise_check for case in made.cases for pair in case.pairs}
    assert checks == {"again": True, "f7": False}
    mean = replace(NO_ESTIMATE, value=1.01, low=0.98, high=1.04)
    line = on_builds(again, row(0.8), mean=lambda *_: mean).lines[0]
    shown = "on average 1.0 % faster (2.0 % slower to 4.0 % faster), no difference shown."
    assert line.endswith(shown)
    alone = on_builds(row(0.8, candidate="again"))
    assert (alone.answer.short, list(alone.candidates)) == ("no other build", [])


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
    rows = [row(0.97, "no difference shown", candidate="again"), row(0.8)]
    estimates = {
        name: replace(NO_ESTIMATE, value=value, low=low, high=high)
        for name, (value, low, high) in {"f7": average, "again": noise}.items()
    }
    made = on_builds(*rows, mean=lambda _, sides: estimates[sides[1]])
    _, line = made.lines
    assert (" exceeds " in line, re.findall(r"[\d.]+ %", line)) == (is_larger, shown)


def test_advise_on_builds_has_the_measured_average_and_no_situations(tmp_path):
    frame = frame_of(tmp_path, factors={"format": {"f7": 1.25}}, twins=1)
    question = CardQuestion("format", "Build?", aggregate=True)
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], [question])
    (made,) = advise(settings, frame).cards
    assert "average 1.3x slower" in made.answer.effect
    row_ = {"ratio": 0.8, "baseline": "f6", "candidate": "f7", "flags": "same-binaries"}
    advice = advise(settings, frame, [(DEFINITION, [{**row_, "call": "slower"}])])
    assert advice.situations == [] and advice.cards[0].answer.short == "no other build"


def test_advise_keeps_a_choice_with_an_invalid_round_and_compares_rounds_of_all(tmp_path):
    frame = frame_of(tmp_path, rounds=6, noise=0, drift=0.5, twins=1)
    is_best = (frame["command"] == "log") & (frame["ra"] == "file") & (frame["round"] == 6)
    settings = AdviceSettings(VALUES, ["command", "repo", "cache"], ["command", "repo", "cache"])
    whole, some = (advise(settings, of).situations for of in (frame, frame[~is_best]))
    for before, after in zip(whole, some, strict=True):
        assert [choice.values for choice in after.choices] == [c.values for c in before.choices]


def test_advise_on_several_hosts_has_the_reason_and_the_remedy(tmp_path):
    """Both values were measured, so the question is not `not measured`."""
    frame = frame_of(tmp_path, twins=1)
    frame["host"] = np.where(frame["format"] == "f6", "old", "new")
    questions = [CardQuestion("format", "Which?"), CardQuestion("packing", "Pack?")]
    settings = AdviceSettings(VALUES, ["command"], ["command", "repo", "cache"], questions)
    advice = advise(settings, frame)
    formats, packing = advice.cards
    assert all(s.why_not.endswith(ON_ONE_MACHINE) for s in advice.situations)
    cells = math.prod(len(values) for axis, values in VALUES.items() if axis != "format")
    message = FLAGS["hosts-differ"].sentence
    assert (formats.answer.kind, formats.cases) == (rule.NOT_COMPARED, [])
    assert formats.notes == [f"{cells} comparisons left out: {message}"]
    assert formats.answer_for({"command": "log"}).kind == rule.NOT_COMPARED
    assert formats.answer_for({"command": "dump"}).kind == rule.NOT_MEASURED
    # Both sides of these are on one host.
    assert packing.answer.kind == rule.VALUE and packing.notes == []
    (build,) = advise(
        replace(settings, questions=[replace(questions[0], aggregate=True)]), frame
    ).cards
    assert (build.lines, build.notes) == (formats.notes, [])


def test_less_work_leaves_out_comparisons_of_several_hosts():
    definition = {"compare": {**DEFINITION["compare"], "metric": "read_calls"}}
    of = {**row(2.0, "fewer"), "call": "fewer"}
    (sentence,) = less_work([(definition, [of])], 10)
    assert sentence.startswith("f7: 2.0x fewer") and "cases" not in sentence
    assert less_work([(definition, [{**of, "withheld": "hosts"}])], 10) == []
