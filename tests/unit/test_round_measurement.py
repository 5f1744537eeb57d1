"""The untimed runs of a round: their server, the trace of git, and failures. The cell is a stand-in."""

from types import SimpleNamespace

import pytest

from project import HANGING_S
from vcsbench.measure.git_trace import TRACE_VARIABLE
from vcsbench.measure.round_measurement import RoundMeasurement
from vcsbench.measure.runs import Hook, Invocation
from vcsbench.measure.work import WORK_KINDS


def test_cleanup_without_a_warm_up_run_starts_the_server_before_the_command():
    steps = []

    def step(name):
        return lambda *_, **__: steps.append(name)

    measurement = object.__new__(RoundMeasurement)
    measurement.work_kind, measurement.captured = WORK_KINDS["stdout"], None
    measurement.hyperfine = SimpleNamespace(pid=1)
    measurement.cell = SimpleNamespace(reset_output=step("reset"), start_server=step("start"))
    # There is no timed run.
    measurement.collector = SimpleNamespace(end=lambda *_: None, begin=step("begin"))
    measurement._run_and_count = step("run")
    measurement._answer_hook(Hook.CLEANUP)
    assert steps == ["reset", "start", "begin", "run"]


def test_failure_of_traffic_has_the_last_errors_of_its_requests(tmp_path):
    errors = tmp_path / "errors"
    measurement = object.__new__(RoundMeasurement)
    measurement.recipe = {"traffic": {}}
    measurement.cell = SimpleNamespace(output=None, server=None, traffic_errors=errors)
    assert measurement._details() == ""
    errors.write_text("svn: E1\nsvn: E2\n\nsvn: E3\nsvn: E4\n")
    assert measurement._details().endswith(": svn: E2 svn: E3 svn: E4")


@pytest.mark.parametrize(
    ("argv", "is_traced"),
    [
        ("git clone -q {url} {target}", True),
        ("git --git-dir={clone} push -q {push_url}", True),
        ("git --git-dir={repository} log {branch}", False),
        ("hg clone -q {url} {target}", False),
    ],
)
def test_capture_traces_commands_of_git_with_a_url_only(tmp_path, argv, is_traced):
    command = Invocation(argv.split(), "", {}, HANGING_S)
    measurement = object.__new__(RoundMeasurement)
    measurement.folder, measurement.recipe = tmp_path, {"argv": argv}
    measurement.work_kind = WORK_KINDS["opaque"]
    measurement.cell = SimpleNamespace(timed=command, served=tmp_path)
    measurement._capture_with_server_peak = lambda command, *_: command.environment
    measurement._add_trace = lambda captured, trace: captured
    environment = measurement._capture(command, is_representative=True)
    assert (TRACE_VARIABLE in environment) == is_traced
