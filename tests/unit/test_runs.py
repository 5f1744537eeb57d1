"""Timed runs: the real hyperfine, its hooks and its limit, and the errors of a job."""

import errno
import json
import os
import stat

import pytest

from project import HANGING_S, needs
from unit.test_untimed_runs import wait_for_end
from vcsbench.errors import ProgramError, UserError
from vcsbench.measure.runs import Hyperfine, Invocation, read_export
from vcsbench.run import cell_job


def time_runs(folder, answer, *argv, stdin="", limit_s=HANGING_S):
    hyperfine = Hyperfine(folder, answer)
    with open(os.devnull) as lock:
        output = hyperfine.run(Invocation(argv, stdin, os.environ, limit_s), 2, lock.fileno())
    assert output is None
    return hyperfine


@needs("hyperfine")
def test_hyperfine_calls_hooks_and_reads_input(tmp_path):
    calls = []
    folder = tmp_path / "with 'quotes' and spaces"
    folder.mkdir()
    (folder / "input").write_text("text")
    command = f'read line; [ "$line" = text ] && exit 3; echo "$line" > "{tmp_path}/read"'
    timed = time_runs(folder, calls.append, "sh", "-c", command, stdin=str(folder / "input"))
    assert calls == ["setup", "prepare", "prepare", "cleanup"]
    assert [run.exit_code for run in read_export(timed.export)] == [3, 3]
    assert timed.seconds > timed.hooks_s > 0


@needs("hyperfine")
def test_hyperfine_error_of_a_hook_is_raised(tmp_path):
    def answer(name):
        if name == "prepare":
            raise UserError("no server")

    with pytest.raises(UserError, match="no server"):
        time_runs(tmp_path, answer, "true")


@needs("hyperfine")
def test_hyperfine_run_over_limit_is_ended_with_its_children(tmp_path):
    with pytest.raises(UserError, match=r"0\.3 s"):
        time_runs(tmp_path, lambda _: None, "sleep", "3601.75", limit_s=0.3)
    wait_for_end(["sleep", "3601.75"])


@needs("hyperfine")
def test_hyperfine_killed_alone_leaves_no_timed_command(tmp_path):
    hyperfine = Hyperfine(tmp_path, lambda _: None)
    # hyperfine is the parent of the shell.
    argv = ["sh", "-c", "kill -9 $PPID; exec sleep 3604.75"]
    with open(os.devnull) as lock:
        failure = hyperfine.run(Invocation(argv, "", os.environ, HANGING_S), 2, lock.fileno())
    assert "SIGKILL" in failure
    wait_for_end(["sleep", "3604.75"])


def test_hyperfine_under_any_umask_has_pipes_for_its_user_alone(tmp_path):
    before = os.umask(0)
    try:
        hooks = Hyperfine(tmp_path, lambda _: None).hooks
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (hooks, *hooks.iterdir())}
    assert modes == {"hooks": 0o700, "ask": 0o600, "answer": 0o600}


@pytest.mark.parametrize(
    ("error", "is_remedied"),
    [
        (ProgramError("svn exits with 1: E170013: No host."), True),
        # A full disk has a remedy of its own.
        (ProgramError("svn exits with 1: No space left on device"), False),
        (UserError("x.yaml: is no file. Write it."), False),
    ],
)
def test_run_job_failed_program_names_the_study_to_correct(
    tmp_path, monkeypatch, capsys, error, is_remedied
):
    def job(_: object) -> None:
        raise error

    monkeypatch.setattr(cell_job, "isolate_network", lambda _: None)
    monkeypatch.setattr(cell_job, "exit_on_signals", lambda: None)
    monkeypatch.setattr(cell_job, "stop_workflow", lambda root: None)
    monkeypatch.setattr(cell_job, "_can_run_go_on", lambda *_: True)
    assert cell_job.run_job(tmp_path, json.dumps({"study": "mine"}), job) == 1
    assert ("config/studies/mine.yaml" in capsys.readouterr().err) == is_remedied


@pytest.mark.parametrize(
    ("reason", "ends_run"),
    [("svn: E170013: No host.", False), (os.strerror(errno.ENOSPC), True)],
)
def test_run_job_without_the_folder_of_its_output_prints_the_reason(
    tmp_path, monkeypatch, capsys, reason, ends_run
):
    def job(_: object) -> None:
        raise UserError(f"{reason} Do something.")

    stopped = []
    monkeypatch.setattr(cell_job, "isolate_network", lambda _: None)
    monkeypatch.setattr(cell_job, "exit_on_signals", lambda: None)
    monkeypatch.setattr(cell_job, "stop_workflow", stopped.append)
    recipe = {"study": "mine", "targets": str(tmp_path / "gone")}
    assert cell_job.run_job(tmp_path, json.dumps(recipe), job) == 1
    assert capsys.readouterr().err.startswith(reason)
    assert stopped == ([tmp_path] if ends_run else [])
