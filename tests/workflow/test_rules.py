"""The rules themselves: what a job is, and which jobs a change of the configuration causes."""

import os
import subprocess
import sys

import pytest
import yaml

from project import HOT, ROOT, RUN_LIMIT_S, STUDY, needs, run_merged, wait_for

pytestmark = needs("svn", "svnadmin", "hyperfine", "setpriv")
PART = {**HOT, "access": "file", "format": "f7"}
# The first program writes its process id, and lasts for some seconds.
FIRST = """
import os, sys, time
from pathlib import Path
from vcsbench.run.job import end_with_shell
end_with_shell()
Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(float(sys.argv[2]))
"""
RULE = """
rule two_commands:
    output:
        "two"
    shell:
        "python first.py pid {seconds} && touch {{output}}"
"""


def add_rule(project, seconds):
    project.configure(PART)
    (project.path / "first.py").write_text(FIRST)
    with (project.path / "Snakefile").open("a") as file:
        file.write(RULE.format(seconds=seconds))


def test_both_commands_of_a_rule_run(project):
    add_rule(project, 0)
    project.succeed("two")
    assert (project.path / "pid").exists() and (project.path / "two").exists()


def test_commands_of_a_rule_end_with_a_killed_snakemake(project):
    add_rule(project, 3600)
    file = project.path / "pid"
    with subprocess.Popen(project.command("two"), cwd=project.path) as snakemake:
        # The file is empty for a moment.
        pid = int(wait_for(lambda: file.exists() and file.read_text()))
        snakemake.kill()
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    assert not (project.path / "two").exists()


@pytest.mark.slow
def test_small_configuration_runs_and_has_a_report_of_snakemake(project):
    """A GitHub workflow runs this configuration. Here, it has the storages of a test."""
    small = yaml.safe_load((ROOT / ".test/config.yaml").read_text())
    include = small.pop("grid")[STUDY]["include"]
    project.configure(*include, **small)
    project.succeed()
    assert len(project.rows(f"measurements/{STUDY}.csv")) == 8 and project.page(STUDY)
    # A report of Snakemake needs no number of cores.
    command = [sys.executable, "-m", "snakemake", "--report", "report.zip"]
    command += ["--configfile", str(project.config)]
    done = run_merged(command, project.path, RUN_LIMIT_S)
    assert done.returncode == 0 and "warning" not in done.stdout.lower(), done.stdout
    assert (project.path / "report.zip").exists()
    # The Snakemake catalog looks for this file.
    assert project.is_complete("--snakefile", "workflow/Snakefile")
