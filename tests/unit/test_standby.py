"""The process that stands by does for a job what the job would have done, and ends with Snakemake."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from project import ROOT

# A job as run.job, but what it measures is a text that sets `code`.
JOB = """
import os, sys
from vcsbench.run import orphans, standby
from vcsbench.run.asking import ask

def measure(arguments):
    names = {"os": os, "sys": sys, "orphans": orphans, "code": 0}
    exec(arguments[0], names)
    return names["code"]

folder, arguments = sys.argv[1], sys.argv[2:]
code = ask(folder, arguments)
if code is None:
    standby.stand_by(folder, measure)
    code = measure(arguments)
sys.stdout.flush()
os._exit(code)
"""
LIMIT_S = 20.0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return False


class Run:
    """What stands for a Snakemake, whose jobs these are."""

    def __init__(self, path: Path) -> None:
        self.snakemake = subprocess.Popen(["sleep", "1000"])
        self.folder = path / f"vcsbench-0-{self.snakemake.pid}-standby.1"

    def start(self, text: str, *, cwd: Path | None = None, **own: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", JOB, str(self.folder), text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT / "workflow"), **own},
            start_new_session=True,
        )

    def job(self, text: str, given: str = "", **how: object) -> tuple[int, str, str]:
        """Its exit code, and what it says: who listens hears the end also of one that leaves somebody."""
        started = self.start(text, **how)  # type: ignore[arg-type]
        said, complained = started.communicate(given, timeout=LIMIT_S)
        return started.returncode, said, complained

    def measured_by(self, **own: str) -> int:
        """The process whose child measures."""
        return int(self.job("print(os.getppid())", **own)[1])

    def end(self) -> None:
        self.snakemake.kill()
        self.snakemake.wait()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """One whose first job is over."""
    run = Run(tmp_path)
    assert run.measured_by(FIRST="1") == os.getpid()
    wait_for((run.folder / "address").exists)
    yield run
    run.end()
    wait_for(lambda: not run.folder.exists())


def test_a_job_gets_what_it_would_have_had_itself(run: Run, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    text = """
print(os.getcwd(), os.environ["OWN"], "FIRST" in os.environ, sys.stdin.read())
print("complains", file=sys.stderr)
code = 3
"""
    assert run.job(text, "given", cwd=here, OWN="a=b\nc") == (
        3,
        f"{here} a=b\nc False given\n",
        "complains\n",
    )


def test_one_process_stands_by_for_all_jobs(run: Run) -> None:
    (parent,) = {run.measured_by() for _ in range(3)}
    assert parent != os.getpid()
    run.end()
    wait_for(lambda: not is_alive(parent))


def test_a_jobs_end_is_that_of_what_measured(run: Run) -> None:
    assert run.job("sys.exit('why')") == (1, "", "why\n")
    assert run.job("sys.exit(4)") == (4, "", "")
    code, _, complained = run.job("1 / 0")
    assert code == 1
    assert complained.startswith("Traceback") and complained.endswith("division by zero\n")
    code, _, complained = run.job("os.kill(os.getpid(), 9)")
    assert code == 1
    assert complained.endswith(", which measured, was killed\n")
    assert run.measured_by() != os.getpid()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_reaches_what_measures_and_its_end_is_waited_for(
    run: Run, number: signal.Signals
) -> None:
    text = "import time; orphans.end_when_told()\n"
    text += "try: print('began', flush=True); time.sleep(60)\n"
    text += "finally: time.sleep(0.3); print('ended')"
    job = run.start(text)
    assert job.stdout
    assert job.stdout.readline() == "began\n"
    os.killpg(job.pid, number)  # as a terminal does
    assert job.communicate(timeout=LIMIT_S) == ("ended\n", f"ended by {number.name}\n")
    assert job.returncode == 1


def test_what_measures_ends_with_a_job_that_is_killed(run: Run) -> None:
    text = "orphans.end_when_told(); orphans.end_with_workflow(); print(os.getpid(), flush=True)\n"
    job = run.start(f"{text}import time; time.sleep(60)")
    assert job.stdout
    measuring = int(job.stdout.readline())
    job.kill()
    wait_for(lambda: not is_alive(measuring))
    job.communicate()
    assert run.measured_by() != os.getpid()


def test_the_first_jobs_terminal_does_not_end_it(tmp_path: Path) -> None:
    run = Run(tmp_path)
    first = run.start("import time; print(os.getpid(), flush=True); time.sleep(60)")
    assert first.stdout
    first.stdout.readline()
    wait_for((run.folder / "address").exists)
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=LIMIT_S)
    assert run.measured_by() != os.getpid()
    # It would come to what measures once more: from the job that passes it on.
    assert int(run.job("print(os.getpgrp())")[1]) != first.pid
    run.end()
    wait_for(lambda: not run.folder.exists())


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_folder_that_others_can_enter_is_nobodys(tmp_path: Path, mode: int) -> None:
    run = Run(tmp_path)
    run.folder.mkdir()
    run.folder.chmod(mode)
    assert [run.measured_by() for _ in range(2)] == [os.getpid()] * 2
    assert list(run.folder.iterdir()) == []
    run.end()


def test_one_that_was_killed_is_followed_by_another(run: Run) -> None:
    killed = run.measured_by()
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: not is_alive(killed))
    assert run.measured_by() == os.getpid()
    wait_for(lambda: run.measured_by() not in (killed, os.getpid()))


def test_it_knows_the_code_that_it_has_loaded(tmp_path: Path) -> None:
    package = tmp_path / "vcsbench"
    shutil.copytree(
        ROOT / "workflow" / "vcsbench", package, ignore=shutil.ignore_patterns("__pycache__")
    )
    program = """
import sys
from vcsbench import modules
recipe = {"work": "log", "input": "repository", "server": "svnserve"}
if sys.argv[1:]:
    modules.load()
    for file in sys.argv[1:]:
        open(file, "a").write("# changed")
assert not sys.argv[1:] or "vcsbench.measure.servers.svnserve" in sys.modules
print(modules.cell_code(recipe))
"""

    def code(*changes: Path) -> str:
        return subprocess.run(
            [sys.executable, "-c", program, *changes],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    before = code()
    assert code(package / "measure" / "cell.py", package / "measure" / "work" / "log.py") == before
    assert code() != before
