"""Folders that a run cannot write, for example after a run of another user: an error at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from project import Project, needs

pytestmark = [
    needs("setpriv"),
    pytest.mark.skipif(os.geteuid() != 0, reason="takes root to be two users"),
]
AS_NOBODY = ["setpriv", "--reuid", "nobody", "--clear-groups", "--"]


def report(project: Project, *before: str) -> str:
    """Return the output of `make report`, which fails."""
    done = subprocess.run(
        [*before, project.path / "vcsbench", "run", "--cores", "2"],
        cwd=project.path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    if "python: not found" in done.stdout:
        pytest.skip("nobody cannot run this Python")
    assert done.returncode != 0 and "Traceback" not in done.stdout, done.stdout
    return done.stdout


@pytest.mark.parametrize("name", ["results", ".snakemake"])
def test_run_in_folder_of_another_user_is_refused(project: Project, name: str) -> None:
    subprocess.run(["chown", "-R", "nobody", project.path], check=True)
    (project.path / name).mkdir()  # root's
    if subprocess.run([*AS_NOBODY, sys.executable, "-c", ""]).returncode != 0:
        pytest.skip("nobody cannot run this Python")
    output = report(project, *AS_NOBODY)
    assert output.startswith(f"vcsbench: {project.path / name}: cannot be written.")
    assert "belongs to root" in output and output.count("\n") == 1


@pytest.mark.parametrize("name", ["results", ".snakemake"])
def test_run_in_read_only_folder_is_refused(project: Project, name: str) -> None:
    folder = project.path / name
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", folder], check=True)
    try:
        output = report(project)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert f"vcsbench: {folder}" in output and "read-only" in output, output
    assert output.count("\n") == 1
