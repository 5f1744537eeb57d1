"""Fixtures of the tests that run the real workflow."""

import os
import subprocess

import pytest

from project import ROOT, RUN_LIMIT_S, make_project, open_folder

# Each project compiles vcsbench once, and not in each of its processes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture
def project():
    yield from make_project()


@pytest.fixture(scope="module")
def shared_project():
    """A project that the tests of a module share, in their order."""
    yield from make_project()


@pytest.fixture(scope="session")
def trixie():
    """Subversion of Debian 13, unpacked and not installed."""
    yield from unpack("subversion")


@pytest.fixture(scope="session")
def trixie_git():
    """git of Debian 13, which has reftable, unpacked and not installed."""
    yield from unpack("git")


def unpack(system):
    with open_folder("/var/tmp") as folder:
        # By bash, because some programs unpack an archive without its execute bits.
        script = ROOT / "envs" / "unpack_debian_build.sh"
        argv = ["bash", script, "trixie", folder / system, system]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1]
            pytest.skip(f"no packages of another Debian release: {reason}")
        yield folder / system
