"""What a run of the real workflow says while it works, where there is no terminal, and on one."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from project import Project, measurements_of, needs

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

STUDY = "fsfs-san-2014"
PART = {"command": "log", "format": "f7", "config": "slow", "cache": "hot-os"}
GRID = {STUDY: {"include": [{**PART, "ra": ["file", "svn"]}]}}
RUBY = {"ruby": {"source": "generated", "profile": "ruby", "scale": 0.001, "seed": 1}}
STAGES = (
    "4 cell-rounds to measure",
    "loaded ruby in ",
    "made the copies on disk in ",
    "measuring: 0 of 4 cell-rounds",
    "measured 4 cell-rounds in ",
    "making tables and report: ",
)
# Of Snakemake's own account of a job.
CHATTER = re.compile(
    r"^((local)?rule cell:|    jobid: |Finished jobid|\[.* 20\d\d\]$|cell +4$)", re.M
)


def cell(ra: str) -> str:
    return f"log/{ra}/ruby/f7/nopack/slow/hot-os"


def account(project: Project) -> str:
    """Snakemake's log file of the last run."""
    return max((project.path / ".snakemake/log").iterdir()).read_text()


@pytest.fixture(scope="module")
def ran(shared_project: Project) -> tuple[Project, str]:
    """A project that was measured, and what that said."""
    shared_project.configure(repositories=RUBY, rounds=2, copies=1, grid=GRID)
    done = shared_project.measure(STUDY)
    assert done.returncode == 0, done.stdout
    return shared_project, done.stdout


def test_without_a_terminal_it_is_a_line_now_and_then(ran: tuple[Project, str]) -> None:
    project, said = ran
    places = [said.find(f" {stage}") for stage in STAGES]
    assert -1 not in places and places == sorted(places), said
    assert not CHATTER.search(said)
    assert len(said.splitlines()) < 40, said
    assert "\r" not in said and "\x1b" not in said
    assert len(re.findall(r"rule cell:$", account(project), re.M)) == 4, "the log file has all"
    assert not list((project.path / "results/logs").rglob(".*")), "what jobs told does not stay"


def test_a_flag_brings_snakemakes_own_account_back(ran: tuple[Project, str]) -> None:
    project, _ = ran
    (project.path / f"results/cells/{STUDY}").joinpath(cell("file"), "round1.json").unlink()
    done = project.measure(STUDY, "--printshellcmds")
    assert done.returncode == 0
    assert "rule cell:" in done.stdout and "cell-rounds to measure" not in done.stdout


@pytest.mark.slow
def test_a_load_is_never_silent_for_more_than_ten_seconds(project: Project, tmp_path: Path) -> None:
    """The real svnadmin, behind one that lets it wait for its dump stream."""
    svnadmin = shutil.which("svnadmin")
    stand_in = tmp_path / "svnadmin"
    stand_in.write_text(
        "#!/bin/bash\n"
        f'[[ $1 == load ]] || exec {svnadmin} "$@"\n'
        f'{{ head -c 200000; sleep 21; cat; }} | {svnadmin} "$@"\n'
    )
    stand_in.chmod(0o755)
    project.configure(repositories=RUBY, rounds=1, copies=1, grid=GRID)
    with subprocess.Popen(
        project.command("results/loaded/ruby.json"),
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    ) as run:
        assert run.stdout
        said = [(time.monotonic(), line) for line in run.stdout]
    assert run.returncode == 0
    assert max(b - a for (a, _), (b, _) in pairwise(said)) < 10, said
    loading = [
        found for _, line in said if (found := re.search(r"loading ruby: (\d+) of (\d+)", line))
    ]
    assert len(loading) >= 2 and 0 < int(loading[-1][1]) < int(loading[-1][2]), said


def test_on_a_terminal_it_is_one_line(ran: tuple[Project, str]) -> None:
    project, _ = ran
    (project.path / f"results/cells/{STUDY}").joinpath(cell("file"), "round2.json").unlink()
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        project.command(measurements_of(STUDY)),
        cwd=project.path,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as run:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # that is how a terminal ends
            while piece := os.read(ours, 65536):
                said += piece
    os.close(ours)
    assert run.returncode == 0
    text = said.decode()
    assert "\r\x1b[Kmeasuring: 0 of " in text and "rule cell:" not in text
    assert "measured " in text
    assert not re.search(r"measuring: [^\r]*\n", text), "it leaves no line of it behind"


def test_a_cell_that_fails_says_what_failed(ran: tuple[Project, str]) -> None:
    project, _ = ran
    shutil.rmtree(project.path / "results/cells")  # else a report is made of what there is
    arguments = project.path / "config/servers/slow/svnserve.args"
    arguments.write_text(f"{arguments.read_text()}\n--no-such-option\n")
    project.configure(
        repositories=RUBY, rounds=1, copies=1, grid={STUDY: {"include": [{**PART, "ra": "svn"}]}}
    )
    done = project.measure(STUDY)
    said = done.stdout
    assert done.returncode == 1
    assert "measured 1 cell-round (1 failed)" in said
    _, block = said.split("Error in rule cell:")
    assert f"    log: results/logs/cells/{STUDY}/{cell('svn')}/round1.log" in block
    assert "svnserve: invalid option: --no-such-option" in block
    assert "Traceback" not in said and "python -S" not in said, "nor the command, of many lines"
    assert "python -S" in account(project)
