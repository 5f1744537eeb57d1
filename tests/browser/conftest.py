"""The page that all these tests look at, each in a copy or without a change of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.report_files import default_grid, make_files, write_page


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study in which all was measured, with twins."""
    return write_page(make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1))
