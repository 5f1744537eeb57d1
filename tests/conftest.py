"""Fixtures of tests in several folders."""

import pytest

from unit.report_files import default_grid, make_files


@pytest.fixture(scope="session")
def whole_study(tmp_path_factory):
    """A measured study with duplicates: f7 takes half of f6, packed 0.8, svn 0.8 of http."""
    return make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1)
