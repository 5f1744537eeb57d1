"""Projects for the tests that run the real workflow."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from project import ROOT, Project, make_project


@pytest.fixture
def project() -> Iterator[Project]:
    """A project of its own, removed afterwards. Of counts it has no tables; a shared one has."""
    for made in make_project():
        made.leave_out_counts()
        yield made


@pytest.fixture
def whole_project() -> Iterator[Project]:
    """A project of its own with all tables."""
    yield from make_project()


@pytest.fixture(scope="module")
def shared_project() -> Iterator[Project]:
    """A project that the tests of a module share, in their order."""
    yield from make_project()


@pytest.fixture(scope="session")
def trixie() -> Iterator[Path]:
    """Debian 13's Subversion, unpacked and not installed."""
    folder = Path(tempfile.mkdtemp(prefix="vcsbench-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    script = ROOT / "envs" / "unpack_debian_build.sh"
    done = subprocess.run(
        [script, "trixie", folder / "svn"], capture_output=True, text=True, timeout=300
    )
    try:
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1]
            pytest.skip(f"no packages of another Debian release: {said}")
        yield folder / "svn"
    finally:
        shutil.rmtree(folder)
