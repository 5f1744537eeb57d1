"""Folders of a run that cannot be written, as after a run of another user's: said in a sentence, at once."""

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
    """What `make report` says, which fails."""
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
def test_a_folder_of_another_users(project: Project, name: str) -> None:
    subprocess.run(["chown", "-R", "nobody", project.path], check=True)
    (project.path / name).mkdir()  # root's
    if subprocess.run([*AS_NOBODY, sys.executable, "-c", ""]).returncode != 0:
        pytest.skip("nobody cannot run this Python")
    assert report(project, *AS_NOBODY) == (
        f"vcsbench: {project.path / name}: cannot be written. It belongs to root, and you are nobody: "
        f"run as root, or make nobody its owner (chown -R).\n"
    )


@pytest.mark.parametrize("name", ["results", ".snakemake"])
def test_a_folder_that_is_read_only(project: Project, name: str) -> None:
    folder = project.path / name
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,ro", "tmpfs", folder], check=True)
    try:
        said = report(project)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert f"vcsbench: {folder}" in said and "Its file system is read-only" in said, said
    assert said.count("\n") == 1
