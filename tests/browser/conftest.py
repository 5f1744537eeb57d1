"""The report page of the browser tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.report_files import default_grid, make_files, write_page


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a completely measured study with duplicates."""
    return write_page(make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1))
