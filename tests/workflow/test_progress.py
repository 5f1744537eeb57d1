"""The progress that a run prints, without a terminal and on one."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from project import HOT, STUDY, needs

pytestmark = needs("svn", "svnadmin", "svnserve", "hyperfine")

# With two cell-rounds of fixed cost.
STAGES = (
    "6 cell-rounds to measure",
    "loaded ruby in ",
    "made the copies on disk in ",
    "measured 6 cell-rounds in ",
)
# Messages of Snakemake about jobs.
CHATTER = re.compile(
    r"^((local)?rule cell:|    jobid: |Finished jobid|\[.* 20\d\d\]$|cell +6$)", re.M
)


def cell(ra):
    return f"log/{ra}/ruby/f7/nopack/slow/hot-os"


def account(project):
    return max((project.path / ".snakemake/log").iterdir()).read_text()


@pytest.fixture(scope="module")
def ran(shared_project):
    """A project after a run, and the output of the run."""
    shared_project.configure({**HOT, "ra": ["file", "svn"]}, rounds=2)
    done = shared_project.tool("run", "measured")
    assert done.returncode == 0, done.stdout
    return shared_project, done.stdout


def test_run_without_terminal_prints_a_line_per_stage(ran):
    project, output = ran
    positions = [output.find(f" {stage}") for stage in STAGES]
    assert -1 not in positions and positions == sorted(positions), output
    assert not CHATTER.search(output)
    assert len(output.splitlines()) < 40, output
    assert "\r" not in output and "\x1b" not in output
    assert len(re.findall(r"rule cell:$", account(project), re.M)) == 6


def test_run_on_terminal_rewrites_one_line(ran):
    project, _ = ran
    (project.path / f"results/cells/{STUDY}").joinpath(cell("file"), "round2.json").unlink()
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        ["./vcsbench", "run", "measured", "--configfile", str(project.config)],
        cwd=project.path,
        stdout=terminal,
        stderr=terminal,
        env={
            **os.environ,
            "TERM": "xterm",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    ) as run:
        os.close(terminal)
        output = b""
        with suppress(OSError):  # raised at the end of a terminal
            while piece := os.read(controller, 65536):
                output += piece
    os.close(controller)
    assert run.returncode == 0
    text = output.decode()
    assert "\r" in text and "rule cell:" not in text and "measured " in text
