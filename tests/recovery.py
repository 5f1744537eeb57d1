"""Runs that tests stop at a chosen moment, and what they leave."""

import os
import shutil
from pathlib import Path

from project import HANGING_S, STUDY, Run, measurements_of, path_of_tool, wait_for, write_program
from vcsbench.environment import RUN_ROOT
from vcsbench.run import workflow
from vcsbench.storages.workdir import _prefix

PART = {"command": "log", "access": "svn", "format": "f7", "packing": "nopack", "config": "slow"}
CELLS = measurements_of(STUDY)


class Recovery(Run):
    def __init__(self, project, *targets, plain=False):
        super().__init__(project, *targets, plain=plain, environment=environment(project))

    def interrupt(self, number):
        """Send a signal to the process group, as a terminal does, and wait for the end of all."""
        os.killpg(self.pid, number)
        self.wait(HANGING_S)
        wait_for(lambda: not working(self.project))


def environment(project):
    """Return an environment with the stand-ins of a project first on the PATH."""
    clean = {name: value for name, value in os.environ.items() if name != RUN_ROOT}
    return {**clean, "PATH": f"{project.path / 'fakes'}:{path_of_tool()}"}


def working(project):
    return workflow.run_processes(project.path)


def slow_program(project, name, when="", wait="exec sleep 3600"):
    """Put a slow program before the real one, for the first command line with the word `when`.

    Return the file that it writes at its start."""
    fakes, real = project.path / "fakes", shutil.which(name)
    begun = fakes / f"{name}.begun"
    test = f'case " $* " in *" {when} "*) ;; *) exec {real} "$@";; esac\n' if when else ""
    script = f'#!/bin/bash\n{test}[ ! -e {begun} ] || exec {real} "$@"\n'
    script += f'echo $$ >{begun}\n{wait}\nexec {real} "$@"\n'
    write_program(fakes / name, script)
    return begun


def run_folders(project):
    return list(Path("/tmp").glob(f"{_prefix(project.path)}*"))
