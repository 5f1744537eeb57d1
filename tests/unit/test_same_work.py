"""Comparisons of cells with different work are withheld with the reason."""

import json
import math

import pytest

from unit.synthetic import SAME_WORK, finding, level
from unit.test_tables import frame_of
from vcsbench.advice.advise import AdviceSettings, advise
from vcsbench.codes import WhyNoBest
from vcsbench.evidence import same_work
from vcsbench.records import complete_context, complete_run
from vcsbench.report.picks import describe_other_work
from vcsbench.statistics.evaluations import EvaluationContext
from vcsbench.statistics.findings import evaluate_expectations, evaluate_findings
from vcsbench.statistics.tables import make_table

AXES = {
    **{"command": ["log"], "repo": ["ruby"], "format": ["f6", "f7", "f8"]},
    "cache": ["cold", "hot-os"],
}
F6_F7 = {
    "compare": {"axis": "format", "baseline": "f6", "candidates": ["f7"]},
    **{"rows": ["repo"], "columns": ["cache"]},
}
ELAPSED = {"metric": "elapsed_s", "unit": "s", "rows": ["format"], "columns": ["cache"]}
FINDING = finding(expect={"over": "mean", "at_least": 1.5})
LEVEL = level("elapsed_s", "median", {"format": "f7", "cache": "cold"}, at_most=100)
SHORT = {**SAME_WORK, "revisions": 5000, "digest": "fedcba9876543210"}
REASON = "log: 6,000 revisions (f6) against 5,000 (f7)"
ROUNDS_DIFFER = "did not all do the same: 6,000 revisions against 5,000"
COLD, HOT = {"command": "log", "cache": "cold"}, {"command": "log", "cache": "hot-os"}


def same(axes, number):
    return SAME_WORK


def cold_f7_is_short(axes, number):
    return SHORT if (axes["format"], axes["cache"]) == ("f7", "cold") else SAME_WORK


def one_round_is_short(axes, number):
    return SHORT if (axes["format"], number) == ("f7", 3) else SAME_WORK


def f7_is_unknown(axes, number):
    return {} if axes["format"] == "f7" else SAME_WORK


def work_frame(tmp_path, work, **options):
    return frame_of(tmp_path, axes=AXES, work=work, drift=0.0, **options)


def table_of(frame, definition):
    return make_table(frame, "a-table", definition, AXES, []).to_dict("records")


@pytest.mark.parametrize(
    ("work", "cold", "hot"),
    [
        (same, ("no-duplicates", ""), ("no-duplicates", "")),
        (cold_f7_is_short, ("other-work", REASON), ("no-duplicates", "")),
        (one_round_is_short, *[("other-work", f"log: the rounds of f7 {ROUNDS_DIFFER}")] * 2),
        (f7_is_unknown, *[("work-unknown", "log: the work of f7 is unknown")] * 2),
    ],
)
def test_table_of_ratios_withholds_other_work(tmp_path, work, cold, hot):
    rows = table_of(work_frame(tmp_path, work), F6_F7)
    assert [(row["flags"], row["detail"]) for row in rows] == [cold, hot]
    assert [row["withheld"] for row in rows] == [f if d else "" for f, d in (cold, hot)]
    for row in rows:
        numbers = [row[name] for name in ("low", "ratio", "high", "value")]
        if row["withheld"]:
            assert all(map(math.isnan, numbers)) and row["n"] == 5
        else:
            assert 1 < row["low"] < row["ratio"] < row["high"]


@pytest.mark.parametrize(
    ("work", "flags", "withheld"),
    [
        (cold_f7_is_short, {"f7": {"", "other-work"}}, ""),
        (one_round_is_short, {"f7": {"other-work"}}, "other-work"),
        (f7_is_unknown, {"f7": {"work-unknown"}}, ""),
    ],
)
def test_table_of_times_keeps_work_that_rounds_share(tmp_path, work, flags, withheld):
    rows = table_of(work_frame(tmp_path, work), ELAPSED)
    for form in AXES["format"]:
        of_format = [row for row in rows if row["format"] == form]
        assert {row["flags"] for row in of_format} == flags.get(form, {""})
        assert {row["withheld"] for row in of_format} == {withheld if form == "f7" else ""}
        assert all(math.isnan(row["value"]) == bool(row["withheld"]) for row in of_format)


def test_table_ignores_work_of_invalid_run(tmp_path):
    def invalid(axes, number):
        return ["cache-not-cold"] * ((axes["format"], number) == ("f7", 3))

    frame = work_frame(tmp_path, one_round_is_short, rounds=6, flags=invalid)
    assert not any(row["withheld"] for row in table_of(frame, F6_F7))


@pytest.mark.parametrize(
    ("check", "work", "verdict", "why"),
    [
        (FINDING, cold_f7_is_short, "undecided", REASON),
        ({**FINDING, "where": HOT}, cold_f7_is_short, "reproduced", ""),
        ({**FINDING, "where": COLD}, cold_f7_is_short, "not measured", REASON),
        (LEVEL, cold_f7_is_short, "reproduced", ""),
        (LEVEL, one_round_is_short, "not measured", "did not all do the same"),
    ],
)
def test_finding_leaves_out_other_work(tmp_path, check, work, verdict, why):
    frame = work_frame(tmp_path, work)
    (row,) = evaluate_findings([check], list(AXES), None, frame).to_dict("records")
    assert row["verdict"] == verdict and why in row["reasons"]
    assert ("other-work" in row["reasons"]) == bool(why)
    assert math.isnan(row["measured"]) == (verdict == "not measured")


@pytest.mark.parametrize(
    ("check", "work"),
    [({**FINDING, "where": COLD}, cold_f7_is_short), (LEVEL, one_round_is_short)],
)
def test_expectation_on_other_work_is_undecided_and_does_not_pass(tmp_path, check, work):
    """Its cells were measured, so that it is not allowed to lack a result."""
    allowed = {**check, "allow_not_measured": True}
    frame = work_frame(tmp_path, work)
    rows = evaluate_expectations([allowed], list(AXES), frame, EvaluationContext())
    (row,) = rows.to_dict("records")
    assert (row["verdict"], row["passes"]) == ("undecided", "no")
    assert "other-work" in row["reasons"] and math.isnan(row["measured"])


def test_finding_on_small_pairs_tells_of_other_work(tmp_path):
    """Start-up explains the hot pair, and the cold pair is left out."""
    frame = work_frame(tmp_path, cold_f7_is_short).assign(fixed_share=0.6)
    (row,) = evaluate_findings([FINDING], list(AXES), None, frame).to_dict("records")
    codes = [reason["code"] for reason in json.loads(row["reasons"])]
    assert (row["verdict"], codes) == ("too small", ["other-work", "fixed-cost"])


def advice_of(frame, cache):
    settings = AdviceSettings(AXES, ["command", "repo", "cache"], ["command", "cache", "access"])
    situations = advise(settings, frame).situations
    return next(item for item in situations if item.where["cache"] == cache)


def test_advice_compares_majority_only(tmp_path):
    item = advice_of(work_frame(tmp_path, cold_f7_is_short), "cold")
    (other,) = item.other_work
    assert other.values == {"format": "f7"}
    assert describe_other_work(other) == "5,000 revisions against 6,000"
    # f7 was fastest, and is neither recommended nor compared.
    assert item.best.values.get("format") != "f7"
    assert "f7" not in [choice.values.get("format") for choice in item.not_slower]
    works = {"f6": SAME_WORK, "f7": SHORT, "f8": {**SAME_WORK, "revisions": 1}}
    frame = work_frame(tmp_path / "no majority", lambda axes, number: works[axes["format"]])
    item = advice_of(frame, "cold")
    assert (item.why, len(item.other_work)) == (WhyNoBest.OTHER_WORK, 3)


def test_advice_withholds_only_what_start_up_can_explain(tmp_path):
    """f6 takes 1.25 times as long as f7, so a start-up of 60 % explains the difference."""
    frame = work_frame(tmp_path, same)
    fastest = frame["format"] == "f7"
    small = advice_of(frame.assign(fixed_share=0.6), "cold")
    assert (small.best, small.why) == (None, WhyNoBest.TOO_SMALL)
    for share in (fastest * 0.4, fastest * 0.6):
        large = advice_of(frame.assign(fixed_share=share), "cold")
        assert (large.best.values["format"], large.why) == ("f7", None)


@pytest.mark.parametrize(
    ("kind", "server", "captured", "timed", "is_other"),
    [
        ("log", "svnserve", 407098, 407189, False),
        ("dump", "", 89575829, 89575922, False),
        ("log", "httpd", 407098, 405000, True),
        ("stdout", "httpd", 407098, 410000, True),
        ("log", "svnserve", 407098, None, False),
        ("log", "svnserve", None, 407098, False),
        # svnbench prints nothing in timed runs.
        ("printed_counts", "svnserve", 4439, 91, False),
        # ssh acknowledges packets in groups that depend on the time.
        ("log", "sshd", 3986568, 3987912, False),
        ("stdout", "git-sshd", 3986568, 3996000, False),
        ("log", "sshd", 3986568, 4000000, True),
        ("log", "svnserve", 3986568, 3987912, True),
    ],
)
def test_has_other_output_beyond_tolerance(kind, server, captured, timed, is_other):
    context = complete_context({"work_kind": kind, "captured_io": {"wchar": captured}})
    run = complete_run({"evidence": {"client_wchar": timed, "server_kind": server}})
    assert same_work.has_other_output(run, context) is is_other
    assert not same_work.has_other_output(run, complete_context({}))


def test_lacks_counts_of_printing_commands_only():
    missing = {"captured_io": {"wchar": None}}
    assert same_work.lacks_counts({"work_kind": "log", **missing})
    assert not same_work.lacks_counts({"work_kind": "tree", **missing})
    assert not same_work.lacks_counts({"work_kind": "log", "captured_io": {"wchar": 5}})


MIB = 1 << 20
NO_CHECK, NO_WORK = {}, {}
PRINTED, TREE = {"bytes": MIB}, {"bytes": 100 * MIB}


@pytest.mark.parametrize(
    ("kind", "sent", "checked", "work", "is_idle"),
    [
        # Its server did as much as in the checked run.
        ("log", MIB, {"server_wchar": MIB + 26}, PRINTED, False),
        # The client did something else once it was timed.
        ("log", MIB // 3, {"server_wchar": MIB}, PRINTED, True),
        ("tree", 9 * MIB, {"server_wchar": 20 * MIB}, TREE, True),
        # The client reads the files itself in all runs, and asks the server for little or for nothing.
        ("log", 0, {"server_wchar": 0}, PRINTED, True),
        ("log", 2000, {"server_wchar": 2000}, PRINTED, True),
        ("tree", 2000, {"server_wchar": 2000}, TREE, True),
        ("tree", 0, NO_CHECK, NO_WORK, True),
        ("printed_counts", 2000, {"server_wchar": 2000}, {"bytes_in_files": 100 * MIB}, True),
        # It asks for the refs, and clones the files.
        ("git_clone", 2000, {"server_wchar": 2000}, {"objects": 5000}, True),
        ("git_clone", 45_000, {"server_wchar": 45_000}, {"objects": 5000}, False),
        # A well compressed tree.
        ("tree", MIB, {"server_wchar": MIB}, TREE, False),
        # A count is missing.
        ("log", None, {"server_wchar": MIB}, PRINTED, False),
        ("log", MIB, {"server_wchar": None}, PRINTED, False),
    ],
)
def test_has_idle_server_by_bytes_sent(kind, sent, checked, work, is_idle):
    context = complete_context({"work_kind": kind, "captured_io": checked})
    run = complete_run(
        {"evidence": {"server_kind": "svnserve", "server_wchar": sent}, "work": work}
    )
    assert same_work.has_idle_server(run, context) is is_idle
    # An access without a server has none that is idle.
    local = complete_run({"evidence": {"server_wchar": sent}})
    assert not same_work.has_idle_server(local, context)


@pytest.mark.parametrize(
    ("kind", "folder", "work"),
    [
        ("tree", {"working_copy": {"path": "/wc"}}, TREE),
        # A pull and a fetch of git.
        ("built_tree", {"written": "/targets/1"}, TREE),
        ("git_clone", {"written": "/targets/1"}, {"objects": 5000}),
    ],
)
def test_has_idle_server_update_needs_its_changes_only(kind, folder, work):
    context = complete_context({"work_kind": kind, **folder})
    run = complete_run({"evidence": {"server_kind": "svnserve", "server_wchar": 900}, "work": work})
    assert not same_work.has_idle_server(run, context)
    run["evidence"]["server_wchar"] = 0
    assert same_work.has_idle_server(run, context)


@pytest.mark.parametrize(
    ("read", "checked", "facts", "work", "is_idle"),
    [
        (900, 900, {}, NO_WORK, False),
        (300, 900, {}, NO_WORK, True),
        # The client reads the files itself in all runs, and asks the server for nothing or for little.
        (0, 0, {}, NO_WORK, True),
        (0, None, {}, NO_WORK, True),
        (2000, 2000, {}, TREE, True),
        (52_428, None, {}, TREE, True),
        (52_429, None, {}, TREE, False),
        # A pull needs its changes only.
        (2000, 2000, {"written": "/targets/1"}, TREE, False),
        (900, None, {}, NO_WORK, False),
        (None, 900, {}, TREE, False),
    ],
)
def test_has_idle_server_whose_sent_bytes_are_not_counted_by_bytes_read(
    read, checked, facts, work, is_idle
):
    content = {"work_kind": "built_tree", "captured_io": {"server_rchar": checked}, **facts}
    evidence = {"server_kind": "hg-serve", "server_rchar": read}
    run = complete_run({"evidence": evidence, "work": work})
    assert same_work.has_idle_server(run, complete_context(content)) is is_idle


@pytest.mark.parametrize(
    ("kind", "facts", "checked", "timed", "is_few"),
    [
        ("verified", {}, 900_000, 895_000, False),
        # A program that ends at once when its option is -q.
        ("verified", {}, 900_000, 9000, True),
        ("printed_counts", {}, 900_000, 449_999, True),
        ("printed_counts", {}, 900_000, 450_000, False),
        # The kernel did not count one of them, or no run was checked.
        ("verified", {}, None, 9000, False),
        ("verified", {}, 900_000, None, False),
        # With its messages, a log is longer than without them.
        ("printed_counts", {"server_kind": "svnserve"}, 900_000, 9000, False),
        # The output of these is checked, or the files that they write.
        ("log", {}, 900_000, 9000, False),
        ("tree", {}, 900_000, 9000, False),
        ("", {}, 900_000, 9000, False),
    ],
)
def test_has_too_few_reads_of_commands_that_print_nothing(kind, facts, checked, timed, is_few):
    context = complete_context({"work_kind": kind, "captured_io": {"rchar": checked}})
    run = complete_run({"evidence": {"client_rchar": timed, **facts}})
    assert same_work.has_too_few_reads(run, context) is is_few
    assert not same_work.has_too_few_reads(run, complete_context({"work_kind": kind}))
    remote = {"host": "far", "url": "http://far"}
    assert not same_work.has_too_few_reads(run, {**context, "remote": remote})


@pytest.mark.parametrize(
    ("argv", "facts", "checked", "timed", "is_few"),
    [
        # A timed run that prints saved output instead of reading the repository.
        (["/usr/bin/svn", "log", "file:///r"], {}, 17_598_777, 560_000, True),
        (["/usr/bin/svnadmin", "dump", "/r"], {}, 17_598_777, 560_000, True),
        (["/usr/bin/svn", "log", "file:///r"], {}, 17_598_777, 17_598_777, False),
        (["/usr/bin/svn", "log", "file:///r"], {}, 17_598_778, 8_799_389, False),
        # Most of few reads are libraries and settings.
        (["/usr/bin/svn", "log", "file:///r"], {}, 262_143, 9000, False),
        # What is read depends on the state of a working copy, or of git's index.
        (["/usr/bin/svn", "update", "/wc"], {"working_copy": {"path": "/wc"}}, MIB, 9000, False),
        (["/usr/bin/svn", "commit", "/wc"], {"commit": {"files": 1}}, MIB, 9000, False),
        (["git", "status"], {}, MIB, 9000, False),
    ],
)
def test_has_too_few_reads_of_local_programs_of_subversion(argv, facts, checked, timed, is_few):
    io = {"captured_io": {"rchar": checked}}
    context = complete_context({"work_kind": "log", "argv": argv, **io, **facts})
    run = complete_run({"evidence": {"client_rchar": timed}})
    assert same_work.has_too_few_reads(run, context) is is_few
    served = complete_run({"evidence": {"client_rchar": timed, "server_kind": "svnserve"}})
    assert not same_work.has_too_few_reads(served, context)


EXPORT, LOG = ["/usr/bin/svn", "export", "svn://r"], ["/usr/bin/svn", "log", "svn://r"]
# It asks for a list, and reads the files of the repository.
LIST_AND_READ = ["sh", "-c", 'svn ls "$1"; svn export "file://$2" "$0"', "/t", "svn://r", "/r"]
EXPORTED, LOGGED = {"bytes": 8_088_584}, {"bytes": 550_970}


# The bytes are those of a generated history with 9.0 MB of revisions.
@pytest.mark.parametrize(
    ("argv", "kind", "work", "facts", "sent", "read", "is_idle"),
    [
        (EXPORT, "tree", EXPORTED, {}, 4_255_690, 12_273_427, False),
        # Without compression.
        (EXPORT, "tree", EXPORTED, {}, 8_591_402, 16_609_180, False),
        (LOG, "log", LOGGED, {}, 596_447, 649_614, False),
        (LIST_AND_READ, "tree", EXPORTED, {}, 40_000, 28_450_316, True),
        (EXPORT, "tree", EXPORTED, {}, 40_000, 28_450_316, True),
        (LOG, "log", LOGGED, {}, 40_000, 17_598_777, True),
        (LOG, "log", LOGGED, {}, 596_447, None, False),
        # Other commands read a working copy, or compare files.
        (["svn", "blame", "svn://r/f"], "stdout", LOGGED, {}, 40_000, 17_598_777, False),
        ([*LOG, "--diff"], "log", LOGGED, {}, 596_447, 17_598_777, False),
        (EXPORT, "tree", EXPORTED, {"working_copy": {"path": "/w"}}, 40_000, 28_450_316, False),
    ],
)
def test_has_idle_server_if_client_reads_more(argv, kind, work, facts, sent, read, is_idle):
    context = complete_context({"work_kind": kind, "argv": argv, **facts})
    evidence = {"server_kind": "svnserve", "server_wchar": sent, "client_rchar": read}
    evidence["subject_bytes"] = 9_029_000
    run = complete_run({"evidence": evidence, "work": work})
    assert same_work.has_idle_server(run, context) is is_idle
    # Four clients read four times as much.
    launched = {"clients": [{}] * 4}
    counts = {"server_wchar": 4 * sent, "client_rchar": read and 4 * read}
    several = {"evidence": {**evidence, **counts}, "work": work, "launched": launched}
    assert same_work.has_idle_server(complete_run(several), context) is is_idle


# A repository with 1,501 revisions and 73 MB, mostly images. The files of its tree hardly get smaller.
COUNTED = {"revisions": 1501, "msg_lines": 3000, "changes": 8000}
IMAGES_LOG = {"revisions": 1501, "paths": 8000, "bytes": 800_000}
IMAGES = {"files": 2000, "directories": 150, "symlinks": 0, "bytes": 65_000_000}
IMAGES_COUNTED = {"files": 2000, "directories": 150, "bytes_in_files": 65_000_000}
IMAGES_LISTED = {"lines": 2149, "bytes": 120_000}


# Each command makes a small request, and reads the files of the repository itself.
@pytest.mark.parametrize(
    ("script", "kind", "work", "sent", "read", "is_idle"),
    [
        ('svn info "$1"; svnbench null-log -v "$0"', "printed_counts", COUNTED, 665, None, True),
        ('svn info "$1"; svnbench null-log -v "$0"', "printed_counts", COUNTED, 8676, None, True),
        ('svnbench null-log -v "$1"', "printed_counts", COUNTED, 878_687, 960_000, False),
        ('svnbench null-log -v "$1"', "printed_counts", COUNTED, 1_239_868, 1_314_000, False),
        ('svn ls -R "$1"; svn log -v "$0"', "log", IMAGES_LOG, 156_591, 12_000_000, True),
        ('svn ls -R "$1"; svn log -v "$0"', "log", IMAGES_LOG, 262_244, 12_000_000, True),
        ('svn log -v "$1"', "log", IMAGES_LOG, 878_687, 960_000, False),
        ('svn log -v "$1"', "log", IMAGES_LOG, 1_239_868, 1_314_000, False),
        ('svn ls -R "$1"; svn export "$0"', "tree", IMAGES, 156_591, None, True),
        ('svn ls -R "$1"; svn export "$0"', "tree", IMAGES, 262_244, 68_000_000, True),
        ('svn export "$1"', "tree", IMAGES, 67_200_000, 67_248_000, False),
        ('svn export "$1"', "tree", IMAGES, 69_000_000, 71_500_000, False),
        # The client keeps no file, so it reads none again.
        ('svn ls -R "$1"; svnbench null-export "$0"', "printed_counts", IMAGES_COUNTED, 156_591,
         68_000_000, True),
        ('svnbench null-export "$1"', "printed_counts", IMAGES_COUNTED, 69_000_000, 71_500_000,
         False),
        ('svn info "$1"; svn ls -R "$0"', "stdout", IMAGES_LISTED, 8676, None, True),
        ('svn ls -R "$1"', "stdout", IMAGES_LISTED, 156_591, 240_000, False),
        ('svn cat "$1/ls"; svn ls "$1"', "stdout", IMAGES_LISTED, 8676, None, False),
    ],
)  # fmt: skip
def test_has_idle_server_after_small_request(script, kind, work, sent, read, is_idle):
    argv = ["sh", "-c", script, "file:///r", "svn://r"]
    context = complete_context({"work_kind": kind, "argv": argv})
    evidence = {"server_kind": "httpd", "server_wchar": sent, "client_rchar": read}
    run = {"evidence": {**evidence, "subject_bytes": 73_000_000}, "work": work}
    if kind == "tree":
        run["compressed_bytes"] = 63_000_000
    assert same_work.has_idle_server(complete_run(run), context) is is_idle


# The bytes are those of real histories and trees, over httpd with and without its filter DEFLATE, and over
# svnserve. The client writes a file without end-of-line style or keywords once.
@pytest.mark.parametrize(
    ("command", "kind", "work", "compressed", "sent", "read", "config"),
    [
        ("log -q", "log", {"revisions": 1015, "bytes": 142_772}, 0, 97_441, 179_418, ""),
        # Revisions without author, date and message.
        ("log -q", "log", {"revisions": 1000, "bytes": 102_000}, 0, 45_000, 125_000, ""),
        ("log -v", "log", {"revisions": 1015, "paths": 2114, "bytes": 373_832}, 0, 58_096, 132_807,
         "SetOutputFilter DEFLATE"),
        ("null-log -v", "printed_counts", {"revisions": 1015, "changes": 2114}, 0, 58_095, 132_633,
         "SetOutputFilter DEFLATE"),
        ("ls -R", "stdout", {"lines": 36_485, "bytes": 2_451_338}, 0, 248_187, 322_725,
         "AddOutputFilterByType BROTLI_COMPRESS text/xml\nSetOutputFilter DEFLATE"),
        ("null-list -R", "printed_counts", {"files": 31_160, "directories": 5325}, 0, 248_187,
         322_725, "SetOutputFilter DEFLATE"),
        ("export", "tree", {"files": 31_160, "bytes": 221_267_281}, 66_407_154, 117_776_800,
         117_858_603, ""),
        ("export", "tree", {"files": 31_160, "bytes": 221_267_281}, 66_407_154, 78_494_431,
         100_382_330, "SetOutputFilter DEFLATE"),
        # Many small files, and files of zeros.
        ("export", "tree", {"files": 3000, "bytes": 28_893}, 28_893, 1_069_264, 2_596_959,
         "SetOutputFilter DEFLATE"),
        ("null-export", "printed_counts", {"files": 3000, "bytes_in_files": 28_893}, 0, 1_069_263,
         2_596_959, "SetOutputFilter DEFLATE"),
        ("export", "tree", {"files": 2, "bytes": 33_860_410}, 565_072, 542_657, 617_194,
         "SetOutputFilter DEFLATE"),
        # The client reads each file again to end its lines.
        ("export", "tree", {"files": 222, "bytes": 2_705_576}, 891_219, 974_988, 3_755_275,
         "SetOutputFilter DEFLATE"),
        # What a client commits, its server need not send.
        ("commit", "commit", {"paths": 1000, "bytes": 9_000_000}, 0, 900, 200_000, ""),
    ],
)  # fmt: skip
def test_has_idle_server_spares_real_runs(command, kind, work, compressed, sent, read, config):
    context = complete_context(
        {
            "work_kind": kind,
            "argv": ["svn", *command.split(), "http://r"],
            "server_files": {"default/httpd.conf": config, "default/client/config": "# deflate"},
        }
    )
    evidence = {"server_kind": "httpd", "server_wchar": sent, "client_rchar": read}
    run = {"evidence": evidence, "work": work, "compressed_bytes": compressed}
    assert not same_work.has_idle_server(complete_run(run), context)
