"""The lines that a run prints at its end."""

import re
import shlex
import subprocess
from dataclasses import replace

import pytest

from unit.report_files import DEFINITIONS, default_study
from unit.test_advice import card, row
from vcsbench.advice.cards import ADVICE, Advice, make_card
from vcsbench.advice.decision import Withheld
from vcsbench.advice.labels import factor
from vcsbench.advice.questions import CardQuestion
from vcsbench.codes import Verdict, WithheldCode
from vcsbench.config.study import Study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.evidence.flags import FLAGS
from vcsbench.plan.result_state import OUTDATED, UNMEASURED
from vcsbench.report.account import Account, OutlookMoment
from vcsbench.report.make_command import MakeCommand, parse_command
from vcsbench.report.results import Provenance, Results
from vcsbench.report.summary import describe_verdicts
from vcsbench.report.terminal import (
    COLD_HEADER,
    CUT,
    FEW_ANSWERS,
    HEADER,
    MAX_LINES,
    TERMINAL_COLUMNS,
    format_summaries,
    read_summaries,
)
from vcsbench.statistics.texts import UNMEASURED_TEXT

COUNTS = {"different": 40, "equal": 30, "too small": 2, "undecided": 10}


def outlook(*moments):
    """Return what is undecided after seconds from now: pairs of both."""
    return [OutlookMoment(seconds, {"t": undecided}) for seconds, undecided in moments]


DECIDING = outlook((0, 10), (720, 2), (3600, 0))
ACCOUNT = Account(tables={"t": COUNTS}, outlook=DECIDING, minutes=14, taken_s=840)


def study(name):
    return Study.model_construct(name=name, title="", source="", axes={}, tables={})


def summary(*cards, **changes):
    return Results(study("fsfs"), {}, **{"advice": Advice(cards), "account": ACCOUNT, **changes})


REPEATED = MakeCommand()


def lines(*summaries, command=REPEATED):
    """Return the lines of studies without the header of the answers."""
    printed = format_summaries(summaries, command)
    has_header = printed[0] in (HEADER[0], COLD_HEADER[0])
    return printed[len(HEADER) :] if has_header else printed


def joined(*summaries, command=REPEATED):
    """Return the lines as one, with commands as they were before they were broken."""
    text = " ".join(" ".join(lines(*summaries, command=command)).split())
    return text.replace(" \\ ", " ")


PACK = CardQuestion("format", "Pack?", yes_value="f7")
SERVE = CardQuestion("access", "Server?")


def packing():
    return card(row(2.4), row(6.9, access="svn"), question=PACK)


def test_lines_have_question_answer_and_effect_then_counts_and_the_next_command():
    verdicts = ["reproduced", "weaker", "weaker", "not measured"]
    findings = [{"id": "x", "verdict": verdict} for verdict in verdicts]
    found = lines(summary(packing(), findings=findings))
    text = "cold log 2.4x to 6.9x faster (of 2 cases 2 faster, 0"
    assert found[:2] == [f"Format?     yes       {text}", f"{' ' * 22}slower)"]
    assert found[2].startswith(
        "Answered    70 of 82 comparisons, 2 too small to compare, 10 undecided; 4"
    )
    assert found[-3:] == [
        "Next        12 min more may decide 8 of the 10 undecided comparisons (MINUTES is",
        f"{' ' * 12}the total):",
        f"{' ' * 12}make report STUDY=fsfs MINUTES=26",
    ]


def question_of(number, ratio, call=""):
    question = CardQuestion("format", f"Is it {number}?")
    return card(row(ratio, call), row(ratio, call, access="svn"), question=question)


def test_study_with_many_questions_has_15_lines_with_the_largest_differences_first():
    # The 9th of 16 questions has the largest difference, and four have none.
    ratios = [1.0] * 4 + [1.2, 1.3, 1.4, 1.5, 9.0, 1.7, 1.8, 1.9, 2.1, 2.2, 2.3, 2.4]
    cards = [question_of(number, ratio) for number, ratio in enumerate(ratios, 1)]
    printed = format_summaries([summary(*cards)], REPEATED)
    assert len(printed) == MAX_LINES and max(map(len, printed)) <= TERMINAL_COLUMNS
    factors = re.findall(r"([\d.]+)x faster", "\n".join(printed))
    assert factors == ["9.0", "2.4", "2.3", "2.2", "2.1", "1.9", "1.8", "1.7"]
    assert f"{' ' * 12}8 more answers in the report" in printed
    # The name of a study is one of its lines.
    both = format_summaries([summary(*cards), summary(*cards)], REPEATED)
    assert len(both) <= 2 * MAX_LINES and both.count("fsfs") == 2


def test_answers_that_fit_are_all_printed_those_without_a_difference_last():
    equal, larger = question_of(1, 1.0), question_of(2, 2.0)
    printed = lines(summary(equal, larger, account=Account()))
    assert "2.0x faster" in printed[0] and not any("more answer" in line for line in printed)
    assert any("within 10 %" in line for line in printed)
    # A long reason is cut before an answer is left out.
    reasons = [{"skip": "reason " * 200, "cell": "a"}]
    few = [question_of(number, 1.0 + number) for number in range(1, FEW_ANSWERS + 1)]
    printed = "\n".join(lines(summary(*few, grid=reasons)))
    assert re.findall(r"([\d.]+)x faster", printed) == ["5.0", "4.0", "3.0", "2.0"]
    assert "more answer" not in printed and f"reason{CUT}\n" in printed
    more = [question_of(9, 9.0), question_of(10, 1.0), *map(question_of, range(11, 21), [1.5] * 10)]
    printed = "\n".join(lines(summary(*few, *more, grid=reasons)))
    shown = re.findall(r"([\d.]+)x faster", printed)
    assert shown[:FEW_ANSWERS] == ["9.0", "5.0", "4.0", "3.0"]
    left_out = len(few) + len(more) - len(shown)
    assert f"{' ' * 12}{left_out} more answers in the report\n" in printed


FLAGS_OF_RUNS = ["cpu-busy cache-not-cold", "no-disk-reads", "cpu-busy", "cpu-busy"]
MANY_REASONS = {
    "measurements": [
        {"cell": "log", "cache": "cold", "flags": flags, "elapsed_s": 1.0}
        for flags in FLAGS_OF_RUNS
    ],
    "grid": [{"cell": "a", "skip": "reason " * 40, "cache": "cold", "repo": "ruby"}],
    "failures": [
        {"cell": cell, "reason": reason}
        for cell, reason in (("b", "why " * 50), ("c", OUTDATED), ("d", UNMEASURED))
    ],
    "findings": [{"id": str(n), "verdict": verdict} for n, verdict in enumerate(Verdict)],
    "account": replace(ACCOUNT, tables={"t": {**COUNTS, "bounded": 7}}),
}


def uncompared(number):
    question = CardQuestion("format", f"Uncompared {number}?")
    left_out = [Withheld({}, "f6", "f7", (list(WithheldCode)[number],))]
    return make_card(question, "f6", [], [], 10.0, withheld=left_out)


@pytest.mark.parametrize("questions", [1, 5, 16])
@pytest.mark.parametrize("reasons", [0, 1, 3])
@pytest.mark.parametrize(
    ("command", "is_short"),
    [
        (MakeCommand(), True),
        (MakeCommand("/srv/a repository with a name"), True),
        (MakeCommand(arguments="", minutes="30", tree="'a'" * 200), False),
    ],
)
@pytest.mark.parametrize("studies", [1, 2])
def test_each_study_has_at_most_15_lines_and_always_its_best_answer(
    questions, reasons, command, is_short, studies
):
    cards = [question_of(number, 2.0 + number) for number in range(questions)]
    cards += [uncompared(number) for number in range(reasons)]
    results = summary(*cards, **MANY_REASONS, provenance=Provenance(config=CONFIG))
    printed = format_summaries([results] * studies, command)
    assert len(printed) <= studies * MAX_LINES
    text = "\n".join(printed)
    assert text.count(f" {factor(1.0 + questions)} faster") == studies
    # The counts of all that is missing, and of the answered comparisons.
    assert text.count("Answered    70 of 89 comparisons") == studies
    assert re.search(r"Missing +cells: 1 skipped, 1 failed, 1 outdated, 1 unfinished", text)
    # A command that does not fit is in the report.
    assert text.count("make report ") == (studies if is_short else 0)
    assert text.count("(command in the report)") == (0 if is_short else studies)
    assert max(map(len, printed)) <= TERMINAL_COLUMNS


def test_header_explains_cold_if_the_study_has_cold_cells():
    warm = [{"cell": "a", "skip": "", "cache": "hot-os"}]
    cold = [*warm, {"cell": "b", "skip": "", "cache": "cold"}]
    for grid, header in ((warm, HEADER), (cold, COLD_HEADER)):
        printed = format_summaries([summary(packing(), grid=grid)], REPEATED)
        assert tuple(printed[: len(header)]) == header
    assert len(HEADER) == len(COLD_HEADER) and max(map(len, COLD_HEADER)) <= TERMINAL_COLUMNS


def test_findings_with_a_direction_only_are_counted_apart():
    findings = [{"id": name, "verdict": "reproduced"} for name in ("a", "b", "of-an-earlier-run")]
    definitions = {
        "a": {"expect": {"over": "mean", "direction": "slower"}},
        "b": {"expect": {"over": "mean", "at_least": 2}},
    }
    text = joined(summary(packing(), findings=findings, definitions=definitions))
    assert "3 findings: 2 reproduced, 1 reproduced in direction only" in text


def test_next_command_can_be_pasted_into_a_shell(tmp_path):
    account = replace(ACCOUNT, tables={"t": {"too small": 1}}, outlook=[])
    repository = {"source": "generated", "profile": "ruby", "scale": 0.12, "seed": 1}
    provenance = Provenance(config={"repositories": {"ruby": repository}})
    command = MakeCommand("/srv/a repository with a long name", arguments="--configfile 'b b.yaml'")
    small = summary(account=account, provenance=provenance, grid=[{"repo": "ruby"}])
    printed = lines(small, command=command)
    start = next(n for n, line in enumerate(printed) if line.lstrip().startswith("printf "))
    assert len(printed) - start > 2 and max(map(len, printed)) <= TERMINAL_COLUMNS
    shell = "\n".join(['make() { printf "%s\\n" "$@"; }', *printed[start:]])
    pasted = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True)
    arguments = f"ARGS={command.arguments} --configfile larger.yaml"
    expected = ["report", f"REPO={command.repository}", "STUDY=fsfs", arguments]
    assert pasted.stdout.splitlines() == expected
    # It replaces the shipped repository, so it is whole.
    written = read_yaml(tmp_path / "larger.yaml")
    assert written == {"repositories": {"ruby": {**repository, "scale": 0.48}}}


@pytest.mark.parametrize(("flags", "command"), [("cpu-busy", "--forcerun cell"), ("apart", "")])
def test_disturbed_answers_are_counted_and_measured_again_first(flags, command):
    runs = [{"cell": "log", "cache": "cold", "flags": flags, "elapsed_s": 1.0}]
    printed = lines(summary(card(row(2.4), question=PACK), measurements=runs))
    counts = [line for line in printed if line.startswith("Disturbed")]
    assert [line.split()[1:3] for line in counts] == [["100", "%"]] * bool(command)
    start = next(n for n, line in enumerate(printed) if line.startswith("Next"))
    assert (f"make report STUDY=fsfs ARGS='{command}'" in printed[start + 1]) == bool(command)


LARGER = r"printf '%s\n' repositories: ' ruby: {scale: 0.48}' >larger.yaml && make report "
LARGER += "STUDY=fsfs ARGS='--configfile larger.yaml'"
CONFIG = {"repositories": {"ruby": {"scale": 0.12}, "kde": {"scale": 0.1}}}
GENERATED = {"provenance": Provenance(config=CONFIG), "grid": [{"repo": "ruby", "skip": ""}]}


def test_larger_repository_is_offered_for_small_and_short_runs_after_more_rounds():
    counts = {"different": 1, "equal": 0, "too small": 3, "undecided": 0}
    small = replace(ACCOUNT, tables={"t": counts}, outlook=outlook((0, 0)))
    assert lines(summary(account=small)) == [
        "Answered    1 of 4 comparisons, 3 too small to compare",
        "Next        measure a larger repository: some runs are short or mostly start-up",
    ]
    printed = joined(summary(account=small, **GENERATED))
    assert " Next runs 4 times as long " in printed and printed.endswith(LARGER)
    # Two builds can differ by less than the smallest effect worth noting.
    equal = replace(ACCOUNT, tables={"t": {"equal": 1}}, outlook=outlook((0, 0)))
    question = CardQuestion("format", "Build?", aggregate=True)
    build = card(row(1.01, "equal", flags="too-short"), question=question)
    printed = joined(summary(build, account=equal, **GENERATED))
    assert f"show smaller differences, in up to 56 min: {LARGER}" in printed
    assert LARGER not in joined(summary(packing(), account=equal, **GENERATED))
    # More rounds that decide come first.
    printed = joined(summary(**GENERATED))
    assert printed.index("MINUTES=") < printed.index(LARGER)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [((720, 86400), "all 10"), ((720, 86401), "1 of the 10"), ((90000, 1e6), "")],
)
def test_next_command_takes_at_most_a_day(seconds, shown):
    moments = outlook((0, 10), (seconds[0], 9), (seconds[1], 0))
    text = joined(summary(packing(), account=replace(ACCOUNT, outlook=moments)))
    assert (f"decide {shown}" in text) if shown else "more may decide" not in text


def test_lines_of_questions_that_are_not_compared_have_their_reason_once():
    left_out = [Withheld({}, "f6", "f7", (WithheldCode.SAME_RUNS,))]
    cards = (make_card(of, "f6", [], [], 10.0, withheld=left_out) for of in (PACK, SERVE))
    printed = lines(summary(*cards, account=Account()))
    assert printed[0].startswith("Uncompared  Format?, Access?: 1 comparison left out: Nothing has")
    assert printed[-1] == "Answered    no comparison has a result"


@pytest.mark.parametrize("length", [10, 1000])
def test_lines_have_at_most_80_columns(length):
    grid = [{"skip": "reason " * length, "cell": "a"}]
    assert max(map(len, lines(summary(packing(), grid=grid)))) <= TERMINAL_COLUMNS


def test_lines_of_invalid_runs_have_their_number_and_the_main_reason():
    flags = ["", "too-short", "cache-not-cold", "cache-not-cold clock", "no-disk-reads"]
    runs = [{"cell": "log", "flags": text} for text in flags]
    reason = FLAGS["cache-not-cold"].sentence
    printed = joined(summary(packing(), measurements=runs))
    assert f" Invalid 3 of 5 timed runs, left out (2 of them): {reason} " in printed
    assert "Invalid" not in joined(summary(packing(), measurements=runs[:2]))


def test_lines_of_skipped_and_failed_cells_have_the_number_and_the_main_reason():
    grid = [{"cell": str(n), "skip": "no\x1b httpd" if n < 3 else "no root"} for n in range(4)]
    failures = [{"cell": "log/1", "reason": "timeout"}] * 2
    text = "\n".join(lines(summary(grid=grid, failures=failures)))
    assert re.search(r"Skipped +4 .*3 .*no\\x1b httpd", text)
    assert "Failed      1 cell: timeout" in text and "\x1b" not in text


def test_lines_tell_failed_cells_from_those_that_the_next_run_measures():
    reasons = {
        "a": ["timeout", UNMEASURED],
        "b": [OUTDATED, UNMEASURED],
        "c": [UNMEASURED],
        "d": [OUTDATED],
    }
    failures = [{"cell": cell, "reason": why} for cell, whys in reasons.items() for why in whys]
    printed = joined(summary(packing(), failures=failures))
    assert " Failed 1 cell: timeout Outdated 1 cell: outdated: " in printed
    assert f" Unfinished 2 cells: {UNMEASURED_TEXT} " in printed
    assert " measures the outdated cells again: make report STUDY=fsfs " in printed
    printed = joined(summary(packing(), failures=failures[-2:-1]))
    assert "Failed" not in printed
    assert " Next continues with the cells that are not finished: make report STUDY=fsfs" in printed


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        # A shell would split it.
        ("--repository='/a b' --tree=x --minutes=5 --cores all", "make report REPO='/a b' TREE=x"),
        ("--study a,b --cores=2 -n", "make report STUDY=a,b"),
        ("--configfile 'a b' -k", "make report ARGS='--configfile '\"'\"'a b'\"'\"''"),
        ("--configfile=a -n x --configfile b c", "make report ARGS='--configfile a b c'"),
        ("-Cseed=2 --configfiles a", "make report ARGS='--configfile a --config seed=2'"),
        # A report without measuring measures if it is continued.
        ("--config measure=nothing", "make report"),
        ("--report-only", "make report"),
        ("--config measure=nothing seed=2", "make report ARGS='--config seed=2'"),
        ("--config seed=2 measure=nothing -n", "make report ARGS='--config seed=2'"),
        ("-C measure=nothing -n --config=measure=nothing", "make report"),
        # They would override MINUTES= and STUDY= of the repeated run, which has no rounds of its own.
        ("--config minutes=60 seed=2", "make report ARGS='--config seed=2'"),
        ("--config studies=[builds] minutes=5", "make report"),
        ("--config rounds=5", "make report ARGS='--config rounds=5'"),
        # Variables decide on these, so that a reader can replace them. The values are YAML.
        ("--config repository=/r seed=2", "make report REPO=/r ARGS='--config seed=2'"),
        ("--config server_log=/l tree='\"1\"'", "make report TREE=1 LOG=/l"),
        ("--repository=/a -C repository=/b server_log=/l", "make report REPO=/b LOG=/l"),
        ("--repository=/a --tree=x --config repository=null tree=[", "make report"),
        # Other options are of one run. Some of them measure again what is measured.
        ("--forcerun cell -k", "make report"),
        ("-R a b --forceall -n --config seed=2", "make report ARGS='--config seed=2'"),
        ("-F --force -f -Fk -Fj2", "make report"),
        ("-kR cell --study a", "make report STUDY=a"),
        ("--set-threads cell=2 --config seed=2 -- all", "make report ARGS='--config seed=2'"),
        ("'", "make report"),
    ],
)
@pytest.mark.parametrize("program", ["vcsbench run", "snakemake"])
def test_command_of_a_run_continues_it(program, typed, expected):
    assert parse_command(f"{program} {typed}").text() == expected


def test_command_with_a_dollar_sign_doubles_it_in_args_only():
    text = MakeCommand("/$a", arguments="--configfile '$a.yaml'").text()
    expected = ["make", "report", "REPO=/$a", "ARGS=--configfile '$$a.yaml'"]
    assert shlex.split(text) == expected


def test_read_summaries_without_an_account_or_findings_has_the_advice(tmp_path):
    (tmp_path / "advice").mkdir()
    for name in ("one", "of-an-earlier-run"):
        (tmp_path / "advice" / f"{name}.json").write_bytes(ADVICE.dump_json(Advice([packing()])))
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "one.csv").write_text("cell,round,flags\nlog,1,clock\n")
    (found,) = read_summaries(tmp_path, map(study, ["one", "without-results"]), DEFINITIONS)
    printed = lines(found)
    assert found.study.name == "one" and printed[0].startswith("Format?")
    assert any(line.startswith("Invalid     1 of 1 timed run, left out: ") for line in printed)


def test_read_summaries_with_advice_of_another_version_names_the_file(tmp_path):
    path = tmp_path / "advice" / "own-repository.json"
    path.parent.mkdir()
    path.write_text('{"cards": [{"answer": "yes"}]}')
    with pytest.raises(UserError, match=str(path)):
        read_summaries(tmp_path, [study("own-repository")], DEFINITIONS)


def test_read_summaries_has_the_definitions_of_the_findings(whole_study):
    read = read_summaries(whole_study.results, [default_study(whole_study.name)], DEFINITIONS)
    (found,) = read
    ids = {finding["id"] for finding in found.findings}
    assert ids and ids <= found.definitions.keys()


def test_verdict_counts_are_words_in_the_order_of_verdicts():
    verdicts = ["not measured", "fails", "holds", "holds"]
    assert describe_verdicts(verdicts) == "2 hold, 1 does not hold, 1 not measured"
