"""Projects for the tests that run the real workflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from project import Project, make_project


@pytest.fixture
def project() -> Iterator[Project]:
    """A project of its own, removed afterwards. Of counts it has no tables; a shared one has."""
    for made in make_project():
        made.leave_out_counts()
        yield made


@pytest.fixture(scope="module")
def shared_project() -> Iterator[Project]:
    """A project that the tests of a module share, in their order."""
    yield from make_project()
