"""Fixtures of several unit tests."""

import pytest

from git_histories import make_work
from project import open_folder


@pytest.fixture
def folder():
    """A folder on a disk that all users can enter, other than the folders of pytest."""
    with open_folder("/var/tmp") as path:
        yield path


@pytest.fixture
def work(tmp_path):
    return make_work(tmp_path / "work")
