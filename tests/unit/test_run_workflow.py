"""`make report` and what stands between it and Snakemake: words that survive, locks, leftovers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from fakes import Fakes
from vcsbench.errors import UserError
from vcsbench.run import lock as running

ROOT = Path(__file__).parents[2]
RUN = "workflow/scripts/run_snakemake.sh"
# Like Snakemake it is Python, so that what it starts does not inherit its open files. With `work` it
# starts a job that outlives it, and waits for that.
SNAKEMAKE = """#!{python}
import os, subprocess, sys
with open({record!r}, "a") as record:
    print("\\0".join(sys.argv[1:]), file=record)
if "work" in sys.argv:
    job = subprocess.Popen(["sleep", "60"])
    print(job.pid, file=open("job", "w"))
    os.rename("job", "job.pid")
    job.wait()
sys.exit(3 if "fail" in sys.argv else 0)
"""


class Workflow:
    """A checkout with a Snakemake that only writes down what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.fakes = Fakes(folder / "machine")
        self.fakes.remove("python3")
        (self.fakes.bin / "python3").symlink_to(sys.executable)
        self.folder = folder / "check out"
        scripts = self.folder / "workflow/scripts"
        scripts.mkdir(parents=True)
        shutil.copytree(ROOT / "envs", self.folder / "envs")
        (self.folder / "envs/setup.sh").write_text("#!/bin/bash\n")
        for script in (ROOT / "workflow/scripts").glob("*.sh"):
            shutil.copy2(script, scripts)
        shutil.copytree(ROOT / "workflow/vcsbench", self.folder / "workflow/vcsbench")
        for file in ("Makefile", "vcsbench"):
            shutil.copy2(ROOT / file, self.folder)
        self.snakemake = self.fakes.bin / "snakemake"
        self.snakemake.write_text(
            SNAKEMAKE.format(python=sys.executable, record=str(self.fakes.record))
        )
        self.snakemake.chmod(0o755)
        self.environment = {"PATH": str(self.fakes.bin), "HOME": os.devnull}
        self.started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str) -> CompletedProcess[str]:
        return self.fakes.run(self.folder / RUN, *arguments)

    def make(self, *arguments: str) -> CompletedProcess[str]:
        return self.fakes.run("make", "--no-print-directory", "-C", self.folder, *arguments)

    def asked(self) -> list[list[str]]:
        """The words that Snakemake was called with, call by call."""
        return [call.split("\0") for call in self.fakes.calls()]

    def start(self, *command: str | Path) -> tuple[subprocess.Popen[str], int]:
        """Start something that works, and wait for its job; both process numbers."""
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.started.append(process)
        job = self.folder / "job.pid"
        wait_for(job.exists)
        return process, int(job.read_text())

    def lock(self) -> None:
        """Lock as Snakemake does."""
        (self.folder / ".snakemake/locks").mkdir(parents=True, exist_ok=True)
        (self.folder / ".snakemake/locks/0.output.lock").write_text("results/a\n")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for 10 s"
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def workflow(tmp_path: Path) -> Iterator[Workflow]:
    workflow = Workflow(tmp_path)
    yield workflow
    for process in workflow.started:
        process.kill()
        process.wait()
    job = workflow.folder / "job.pid"
    if job.exists() and is_alive(int(job.read_text())):
        os.kill(int(job.read_text()), signal.SIGKILL)


def test_it_becomes_snakemake(workflow: Workflow) -> None:
    done = workflow.run("--cores", "2", "a b", "fail")

    assert workflow.asked() == [["--cores", "2", "a b", "fail"]]
    assert done.returncode == 3
    assert done.stderr == ""


def test_only_one_run_at_a_time(workflow: Workflow) -> None:
    workflow.start(workflow.folder / RUN, "work")
    workflow.asked()

    done = workflow.run("--cores", "1")

    assert done.returncode == 1
    assert done.stderr.startswith("vcsbench: another run is at work in")
    assert workflow.asked() == []


def test_what_a_killed_run_left_is_ended_and_unlocked(workflow: Workflow) -> None:
    snakemake, job = workflow.start(workflow.folder / RUN, "work")
    workflow.lock()
    workflow.asked()
    snakemake.kill()
    snakemake.wait()
    assert is_alive(job)

    done = workflow.run("--cores", "1")

    assert done.returncode == 0, done.stderr
    assert not is_alive(job)
    assert not list((workflow.folder / ".snakemake/locks").iterdir())
    assert workflow.asked() == [["--cores", "1"]]


def test_what_works_in_another_folder_is_left_alone(workflow: Workflow, tmp_path: Path) -> None:
    other = Workflow(tmp_path / "other")
    snakemake, job = other.start(other.folder / RUN, "work")
    snakemake.kill()
    snakemake.wait()

    assert workflow.run("--cores", "1").returncode == 0

    assert is_alive(job)
    os.kill(job, signal.SIGKILL)


@pytest.mark.parametrize(
    ("host", "local", "refused"),
    [("elsewhere", (), True), ("elsewhere", running.LOCAL, False), ("here", (), False)],
)
def test_the_lock_of_another_host_is_respected_where_it_may_live(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    local: tuple[str, ...],
    refused: bool,
) -> None:
    # No file system is local: as if the checkout were on NFS.
    monkeypatch.setattr(running, "LOCAL", local)
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    lock = tmp_path / ".snakemake/locks/0.output.lock"
    lock.write_text("results/a\n")
    earlier = socket.gethostname() if host == "here" else host
    (tmp_path / running.LOCK).write_text(f"{earlier}\n")

    if refused:
        with pytest.raises(
            UserError, match=r"was on elsewhere. If it has ended: snakemake --unlock"
        ):
            running.begin(tmp_path)
    else:
        os.close(running.begin(tmp_path))

    assert lock.exists() == refused


def test_a_torn_lock_is_no_other_host(tmp_path: Path) -> None:
    (tmp_path / ".snakemake/locks").mkdir(parents=True)
    (tmp_path / ".snakemake/locks/0.output.lock").touch()
    (tmp_path / running.LOCK).write_bytes(bytes(20))

    os.close(running.begin(tmp_path))

    assert not list((tmp_path / ".snakemake/locks").iterdir())


@pytest.mark.parametrize(
    ("words", "looks"),
    [
        (["--cores", "2"], False),
        (["--cores", "all", "--nolock", "--notemp"], False),
        (["-np"], True),
        (["--cores", "2", "--dry-run"], True),
        (["--report=r.html"], True),
        (["--unlock"], True),
    ],
)
def test_only_looking_takes_no_lock(tmp_path: Path, words: list[str], looks: bool) -> None:
    lock = running.begin(tmp_path)
    try:
        if looks:
            assert not running.begin_here(tmp_path, words), "what a run works on is left alone"
        else:
            with pytest.raises(UserError, match="another run is at work"):
                running.begin_here(tmp_path, words)
    finally:
        os.close(lock)


@pytest.mark.parametrize("words", [["-n"], ["--lint"], ["--summary"]])
def test_what_only_looks_touches_nothing(tmp_path: Path, words: list[str]) -> None:
    """A run may begin while it looks: it would lose what it is about to rename."""
    assert not running.begin_here(tmp_path, words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["/srv/re pos", "/it's", '/a"b: #c', "/$HOME/$$x", "/`id`", "42"])
def test_a_repository_keeps_its_name(workflow: Workflow, path: str) -> None:
    done = workflow.make("report", f"REPO={path}")

    assert done.returncode == 0, done.stderr
    (words,) = workflow.asked()
    option, item = words[-2:]
    name, _, value = item.partition("=")
    assert (option, name) == ("--config", "repository")
    # As Snakemake reads it.
    assert yaml.load(value, yaml.BaseLoader) == path


def test_a_repository_does_not_undo_other_configuration(workflow: Workflow) -> None:
    workflow.make("report", "REPO=/r", "CORES=1", "ARGS=--config rounds=2 -n")

    assert workflow.asked() == [
        ["--cores", "1", "--config", "repository='/r'", "rounds=2", "-n"],
    ]


def test_minutes_stand_above_the_rounds_of_a_file(workflow: Workflow) -> None:
    workflow.make("report", "MINUTES=7.5", "REPO=/r", "CORES=1", "ARGS=--config seed=2")

    assert workflow.asked() == [
        ["--cores", "1", "--config", "minutes=7.5", "rounds=", "repository='/r'", "seed=2"],
    ]


@pytest.mark.parametrize(
    ("named", "studies"),
    [("one", ["one"]), ("one,two", ["one", "two"]), ("one two", ["one", "two"])],
)
def test_studies_are_named(workflow: Workflow, named: str, studies: list[str]) -> None:
    workflow.make("report", f"STUDY={named}", "CORES=1")

    ((*_, option, item),) = workflow.asked()
    name, _, value = item.partition("=")
    assert (option, name, yaml.safe_load(value)) == ("--config", "studies", studies)


@pytest.mark.parametrize("minutes", ["ten", "-3", "0", "0.0", "08", "5m", "1e3", "1 2"])
def test_minutes_that_are_none_get_one_sentence(workflow: Workflow, minutes: str) -> None:
    done = workflow.make("report", f"MINUTES={minutes}")

    assert done.returncode != 0 and not workflow.asked()
    assert f"MINUTES={minutes}: how long to measure is a number of minutes" in done.stderr


def test_the_report_is_named_and_a_failure_stays_one(workflow: Workflow) -> None:
    reports = workflow.folder / "reports"
    reports.mkdir()
    for name in ("fsfs-san-2014", "index"):
        (reports / f"{name}.html").touch()

    well = workflow.make("report")
    failed = workflow.make("report", "ARGS=fail")

    assert well.stdout.endswith(f"Report: {reports}/fsfs-san-2014.html\n")
    assert failed.returncode != 0
    assert f"earlier run: {reports}/fsfs-san-2014.html\n" in failed.stdout

    (reports / "server-prototype-2010.html").touch()
    assert workflow.make("report").stdout.endswith(f"Report: {reports}/index.html\n")


def test_without_a_report_none_is_named(workflow: Workflow) -> None:
    assert workflow.make("report").stdout == ""


def test_a_cell_is_handed_over_as_one_word(workflow: Workflow) -> None:
    program = 'printf "%s|" "$PYTHONPATH" "$@"'
    workflow.fakes.add("python", program, silent=True)

    done = workflow.make("show", "CELL=log/http/my repo's/f6")

    ours = workflow.folder / "workflow"
    assert done.stdout == f"{ours}|-m|vcsbench|show|log/http/my repo's/f6|"


def test_its_own_exit_code_reaches_who_does_without_make(workflow: Workflow) -> None:
    workflow.fakes.add("python", "exit 1")

    assert workflow.fakes.run(workflow.folder / "vcsbench", "doctor").returncode == 1
    assert workflow.make("doctor").returncode == 2


def test_what_is_not_set_up_says_so(workflow: Workflow) -> None:
    workflow.snakemake.unlink()

    done = workflow.fakes.run(workflow.folder / "vcsbench", "plan")

    assert done.returncode == 2
    assert "is not set up yet: run `make setup` there first." in done.stderr + done.stdout
