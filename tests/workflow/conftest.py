"""Fixtures of the tests that run the real workflow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from project import ROOT, Project, make_project, open_folder


@pytest.fixture
def project() -> Iterator[Project]:
    """A project for one test."""
    yield from make_project()


@pytest.fixture(scope="module")
def shared_project() -> Iterator[Project]:
    """A project that the tests of a module share, in their order."""
    yield from make_project()


@pytest.fixture(scope="session")
def trixie() -> Iterator[Path]:
    """Subversion of Debian 13, unpacked and not installed."""
    with open_folder("/var/tmp") as folder:
        script = ROOT / "envs" / "unpack_debian_build.sh"
        done = subprocess.run(
            [script, "trixie", folder / "svn"], capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1]
            pytest.skip(f"no packages of another Debian release: {reason}")
        yield folder / "svn"
