"""After kill -9, Ctrl-C and other signals: no process continues, and the next run resumes."""

import os
import shutil
import signal
import time

import pytest

from project import (
    HANGING_S,
    STUDY,
    Project,
    make_project,
    needs,
    run_merged,
    servers_of,
    slow,
    wait_for,
)
from recovery import CELLS, PART, Recovery, environment, run_folders, slow_program, working
from vcsbench import process_facts, processes
from vcsbench.run import workflow

pytestmark = needs("svn", "svnserve", "svnadmin", "hyperfine", "make")

HOT_PART = {**PART, "cache": "hot-os"}


@pytest.fixture
def tiny(project):
    project.configure(PART, rounds=2)
    yield project
    workflow.end_processes(project.path)


def assert_next_run_finishes(project, *targets):
    """Run to the end and check the results and the leftovers."""
    run = Recovery(project, *targets)
    assert run.wait(HANGING_S) == 0, run.output()
    assert "Traceback" not in run.output()
    assert len(project.exports()) == 6
    assert project.rows(f"failures/{STUDY}.csv") == []
    assert targets or f"Report: {project.path}/reports/{STUDY}.html" in run.output()
    assert not working(project) and servers_of(project) == []
    assert run_folders(project) == []


# A program that takes long and a word of its command line.
MOMENTS = {"load": ("svnadmin", "load"), "verify": ("svnadmin", "verify"), "cell": ("svn", "log")}


def stopped_at(project, moment, plain=False):
    begun = slow_program(project, *MOMENTS[moment])
    run = Recovery(project, CELLS, plain=plain)
    wait_for(begun.exists)
    return run


INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.mark.parametrize(
    ("numbers", "moment", "plain"),
    [
        slow([INT], "cell", False),
        ([INT], "cell", True),
        *(slow([INT], moment, plain) for moment in ("load", "verify") for plain in (False, True)),
        *(slow([number], moment, False) for number in (TERM, HUP) for moment in MOMENTS),
        slow([INT, INT], "cell", False),
    ],
)
def test_signals_end_a_run_before_its_programs_would_end(tiny, numbers, moment, plain):
    run = stopped_at(tiny, moment, plain)
    for number in numbers[1:]:
        os.killpg(run.pid, number)
        time.sleep(0.1)
    run.interrupt(numbers[0])
    assert run.returncode not in (0, None) and servers_of(tiny) == []
    if not plain:
        assert "Traceback" not in run.output()
        shutil.rmtree(tiny.path / "fakes")
        assert_next_run_finishes(tiny, "measured")


@pytest.mark.parametrize("number", [INT, slow(TERM)])
def test_run_signal_while_snakemake_plans_prints_no_traceback(tiny, number):
    run = Recovery(tiny, CELLS)
    wait_for(lambda: "planning" in run.output())
    run.interrupt(number)
    assert run.returncode == 128 + number
    assert "Traceback" not in run.output(), run.output()


@pytest.mark.parametrize(
    ("plain", "moment"),
    [(True, "cell"), slow(False, "cell"), *(slow(plain, "load") for plain in (False, True))],
)
def test_snakemake_killed_ends_its_jobs_and_servers(tiny, moment, plain):
    run = stopped_at(tiny, moment, plain)
    os.kill(run.pid if plain else snakemake_of(run), signal.SIGKILL)
    # A plain Snakemake marks no processes.
    wait_for(lambda: not working(tiny) and servers_of(tiny) == [])
    run.wait(HANGING_S)


@pytest.mark.slow
@pytest.mark.parametrize("number", [INT, TERM])
def test_run_signal_to_snakemake_alone_ends_the_run(tiny, number):
    run = stopped_at(tiny, "cell")
    os.kill(snakemake_of(run), number)
    assert run.wait(HANGING_S) != 0, run.output()
    assert servers_of(tiny) == []
    assert tiny.exports() == {}
    shutil.rmtree(tiny.path / "fakes")
    assert_next_run_finishes(tiny, "measured")


def snakemake_of(run):
    for pid in process_facts.family(run.pid):
        if any(word.endswith("/snakemake") for word in process_facts.command_line(pid)[:2]):
            return pid
    raise AssertionError("no Snakemake runs")


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True])
def test_run_after_kill_of_everything_keeps_results(tiny, plain):
    run = Recovery(tiny, CELLS, plain=plain)
    wait_for(lambda: len(tiny.exports()) >= 2)
    kill_all(tiny, run)
    before = tiny.exports()
    if plain:
        tiny.succeed("measured")
    else:
        assert_next_run_finishes(tiny)
    after = tiny.exports()
    again = [path for path in before if after[path] != before[path]]
    # Snakemake repeats a cell-round if it had not recorded its end.
    assert len(again) <= 1
    assert len(after) == 6


def kill_all(project, run):
    processes.send([*process_facts.family(run.pid), *working(project)], signal.SIGKILL)
    run.wait()


@pytest.mark.slow
def test_second_run_at_once_is_refused(tiny):
    tiny.configure(HOT_PART)
    release = tiny.path / "release it"
    wait = f"until [ -e '{release}' ]; do sleep 0.1; done"
    begun = slow_program(tiny, "svnadmin", "load", wait)
    first = Recovery(tiny, CELLS)
    wait_for(begun.exists)
    path = environment(tiny)["PATH"]
    assert "another workflow run" in tiny.fail(PATH=path)
    argv = [tiny.path / "vcsbench", "run", "--cores", "2"]
    second = run_merged(argv, tiny.path, HANGING_S, PATH=path)
    assert second.returncode != 0 and "Traceback" not in second.stdout, second.stdout
    assert "another workflow run" in second.stdout
    tiny.succeed("-n", PATH=path)
    release.touch()
    assert first.wait(HANGING_S) == 0, first.output()
    assert len(tiny.exports()) == 1


@pytest.mark.slow
def test_clean_after_kill_leaves_nothing(tiny):
    run = stopped_at(tiny, "cell")
    kill_all(tiny, run)
    assert run_folders(tiny)
    tiny.tool("clean")
    assert not working(tiny) and servers_of(tiny) == [] and run_folders(tiny) == []
    assert not list((tiny.path / "storage").iterdir())
    assert not list((tiny.path / "scratch").iterdir())


@pytest.mark.slow
def test_checkout_moved_keeps_results_and_cleans_its_new_folder(project):
    # The storage is a folder of the user and stays.
    for outside in make_project():
        storage = outside.path / "storage"
        (storage / "mine").write_text("mine")
        folders = {"storages": {"disk": str(storage)}, "scratch": str(outside.path / "scratch")}
        project.configure(HOT_PART, **folders)
        project.succeed("measured")
        (old,) = storage.glob("vcsbench-*")
        exports = project.exports()
        moved = outside.path / "moved"
        shutil.copytree(project.path, moved, symlinks=True)
        shutil.rmtree(project.path)
        after = Project.__new__(Project)
        after.path, after.config = moved, moved / "test.yaml"
        try:
            after.succeed("measured")
            assert after.exports() == exports
            after.tool("clean")
        finally:
            project.path.mkdir()
        assert sorted(path.name for path in storage.iterdir()) == ["mine", old.name]
