"""Fixtures of several unit tests."""

import pytest

from project import open_folder


@pytest.fixture
def folder():
    """A folder on a disk that all users can enter, other than the folders of pytest."""
    with open_folder("/var/tmp") as path:
        yield path
