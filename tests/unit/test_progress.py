"""The progress of jobs, and the console that prints the progress of a run."""

import io
import json
import logging
import os
import re
import time
from types import SimpleNamespace

import pytest

import snakemake_logger_plugin_vcsbench as console
from project import wait_for
from snakemake_logger_plugin_vcsbench import Console, Job, RunProgress, RunStage, run_progress
from vcsbench import progress


@pytest.fixture
def log(tmp_path):
    return tmp_path / "ruby.log"


def test_report_progress_writes_stages_until_it_ends(log):
    with progress.report_progress(log):
        assert progress.read_stages(log) == []
        with progress.stage("loading", 57_000, "revisions") as at:
            at.done = 12_000
            (found,) = wait_for(lambda: progress.read_stages(log))
            assert (found.name, found.total, found.unit) == ("loading", 57_000, "revisions")
            wait_for(lambda: progress.read_stages(log)[0].done == 12_000)
    assert list(log.parent.iterdir()) == []


def measure(run, number, at, has_failed=False):
    run.start(number, Job("cell", {"study": "s", "cell": "a", "round": "1"}, "", at))
    return run.end(number, has_failed, at + 1.0)


def numbers(line):
    return re.findall(r"[\d,]*\d", line)


def test_run_progress_line_follows_the_stages(log):
    run = RunProgress(0.0)
    assert run.line(0.0) == "planning"
    run.expect({"load": 1, "copy_repo": 1, "cell": 6, "tables": 1, "report": 1, "total": 10})
    assert run.line(0.0) == "preparing"
    run.start(1, Job("load", {"repo": "svn"}, str(log), 0.0))
    stage = {"name": "loading", "done": 1_000, "total": 4_000, "unit": "revisions", "seconds": 10.0}
    progress.progress_file(log).write_text(json.dumps([stage]))
    assert numbers(run.line(10.0)) == ["1,000", "4,000", "30"]
    assert numbers(run.end(1, False, 40.0)) == ["40"]

    for number in range(5):
        assert measure(run, 2 + number, 50.0 + number, has_failed=number == 1) == ""
    assert run.stage is RunStage.MEASURING
    assert numbers(run.line(55.0)) == ["5", "6", "1", "1"]
    assert numbers(measure(run, 8, 55.0)) == ["6", "1"]

    run.start(9, Job("tables", {"study": "s"}, "", 60.0))
    assert run.end(9, False, 61.0) == ""
    assert run.line(61.0).startswith("preparing")  # the copies are missing
    run.ended["copy_repo"] = 1
    run.start(10, Job("report", {"study": "s"}, "", 61.0))
    assert numbers(run.line(61.0)) == ["1", "2"]


def test_run_progress_counts_further_rounds_on_and_time_left_falls(monkeypatch):
    monkeypatch.setenv(progress.LIMIT_SECONDS, "1000")
    run = RunProgress(0.0)
    run.expect({"load": 1, "cell": 2, "decide": 1, "report": 1})
    run.start(1, Job("load", {"repo": "svn"}, "no log", 0.0))
    assert numbers(run.line(100.0)) == ["15"]  # minutes
    run.end(1, False, 100.0)
    assert numbers(measure(run, 2, 100.0) or run.line(101.0)) == ["1", "2", "15"]
    measure(run, 3, 101.0)
    run.start(4, Job("decide", {"study": "s", "number": "2"}, "", 102.0))
    run.end(4, False, 110.0)
    run.expect_all(5 + 4 + 1)
    measure(run, 5, 160.0)
    assert numbers(run.line(400.0)) == ["3", "6", "10"]
    # The mean cell-round takes longer than the limit.
    run.measured_s = [500.0] * 5
    assert numbers(run.line(400.0)) == ["3", "6", "25"]


def test_run_progress_that_waits_names_the_other_folder_and_time_left_stands(monkeypatch):
    monkeypatch.setenv(progress.LIMIT_SECONDS, "1000")
    monkeypatch.setattr(run_progress, "_other_holder", lambda: os.getpid())
    run = RunProgress(0.0)
    run.expect({"cell": 2})
    run.start(1, Job("cell", {"study": "s", "cell": "a", "round": "1"}, "", 40.0))
    for now in (40.0, 700.0):
        run.observe_machine(now)
        assert run.seconds_left(now) == 960.0
        assert run.line(now).endswith(f"16 min left; waiting for {os.getcwd()}")
    # The holder has ended, and the cell is timed.
    monkeypatch.setattr(run_progress, "_other_holder", lambda: 0)
    run.observe_machine(710.0)
    assert run.seconds_left(710.0) == 950.0
    assert run.end(1, False, 720.0) == ""
    assert run.seconds_left(720.0) == 940.0


def test_run_progress_counts_no_waiting_as_measuring(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = tmp_path / "results/cells/s/log/cold/round1.context.json"
    context.parent.mkdir(parents=True)
    context.write_text('{"took": {"waited_s": 24.0}}')
    known = RunProgress(0.0)
    known.start(1, Job("cell", {"study": "s", "cell": "log/cold", "round": "1"}, "log", 0.0))
    known.end(1, False, 25.0)
    assert known.measured_s == [1.0]


def event(level=logging.INFO, message="", **fields):
    record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
    vars(record).update(fields)
    return record


CELL = {"event": "job_info", "rule_name": "cell", "wildcards": {"study": "s"}, "log": []}
EVENTS = (
    event(event="run_info", stats={"cell": 2, "report": 1, "total": 3}),
    event(jobid=1, **CELL),
    event(message="Select jobs to execute..."),
    event(event="job_finished", job_id=1),
    event(jobid=2, **CELL),
)


def shown(*events, stream=None):
    stream = stream or io.StringIO()
    output = Console(stream)
    for each in events:
        output.handle(each)
    text = stream.getvalue()
    output.close()
    return text


def test_console_in_log_file_has_a_line_a_minute(monkeypatch):
    now = 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stream = io.StringIO()
    output = Console(stream)
    for each in EVENTS:
        output.handle(each)
    before = len(stream.getvalue().splitlines())
    for second in range(600):
        now = 1_000.0 + second
        output.handle(event(message="Select jobs to execute..."))
    output.close()
    assert len(stream.getvalue().splitlines()) - before in (9, 10)
    assert "\r" not in stream.getvalue() and "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("setting", ["dryrun", "quiet", "printshellcmds", "verbose", ""])
def test_log_handler_leaves_dry_run_and_chosen_output_to_snakemake(setting, capsys):
    names = ("dryrun", "quiet", "printshellcmds", "verbose", "stdout")
    settings = SimpleNamespace(**{name: name == setting for name in names})
    handler = console.LogHandler(settings, None)
    is_plain = setting != ""
    assert (handler.has_filter, handler.has_formatter) == (not is_plain, not is_plain)
    handler.emit(event(message="Select jobs to execute..."))
    handler.close()
    assert ("Select jobs to execute..." in capsys.readouterr().err) is is_plain


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_console_on_a_terminal_rewrites_one_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    _, _, later = shown(*EVENTS, stream=Terminal()).partition("\n")
    assert "\r" in later and "\n" not in later


def test_console_line_in_log_file_is_cut(log):
    job = {**CELL, "rule_name": "load", "wildcards": {"repo": "r" * 200}, "log": [str(log)]}
    (line,) = shown(event(jobid=1, **job)).splitlines()
    assert len(line) == console.COLUMNS


def test_console_failed_job_has_escaped_end_of_its_log(tmp_path):
    log = tmp_path / "round1.log"
    log.write_text("".join(f"line {number}\n" for number in range(40)) + "\x1b]0;title\x07 end\n")
    output = ["results/cells/s/a/round1.json"]
    fields = {"rule_name": "cell", "log": [str(log)], "output": output, "shellcmd": "python -m x"}
    text = shown(
        event(logging.ERROR, event="job_error", jobid=1, **fields),
        event(logging.ERROR, "RuleException:\nCalledProcessError in file x"),
    )
    for part in (f"failed: {output[0]}", "line 39", "\\x1b]0;title\\x07 end"):
        assert part in text
    for part in ("line 20", "\x1b", "python -m", "RuleException"):
        assert part not in text


@pytest.mark.parametrize(
    ("level", "message", "is_shown"),
    [
        (logging.INFO, "Nothing to be done (all requested files are present).", True),
        (logging.WARNING, "Unlocking", True),
        (logging.ERROR, "WorkflowError:\nconfig.yaml: `rounds`: is no number.", True),
        (logging.ERROR, "WorkflowError:\nAt least one job did not complete successfully.", False),
        (logging.INFO, "Building DAG of jobs...", False),
    ],
)
def test_console_shows_messages_that_matter(level, message, is_shown):
    assert (message.splitlines()[-1] in shown(event(level, message))) is is_shown


AT_Y = 'Traceback (most recent call last):\n\n  File "/x/y.py", line 3, in b\n\n'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            'InputFunctionException in rule cell in file "/c/workflow/rules/cells.smk", line 4:\nError:\n'
            "  UserError: s/x: no such cell.\nWildcards:\n  study=s\n  cell=x\nTraceback:\n"
            '  File "/c/workflow/rules/common.smk", line 74, in cell_inputs',
            r"s/x: no such cell\.",
        ),
        (
            'Traceback (most recent call last):\n\n  File "/x/snakemake/persistence/file.py", line 3, in b\n'
            "    x\n\nValueError: bad\n",
            r"\.snakemake: .*: ValueError: bad\. Remove .* metadata, .*",
        ),
        (f"{AT_Y}ValueError: bad\n", r"Snakemake failed: ValueError: bad\. .*\.snakemake.*"),
        (
            f"{AT_Y}OSError: [Errno 28] No space left on device: '/c/m'",
            r"Snakemake failed: OSError: \[Errno 28\] .*: '/c/m'\. Free some space, .*",
        ),
    ],
)
def test_console_error_is_one_line_with_its_reason(message, expected):
    lines = [line.partition(" ")[2] for line in shown(event(logging.ERROR, message)).splitlines()]
    assert len(lines) == 2 and lines[1] == "planning"
    assert re.fullmatch(expected, lines[0])
