"""What tests in several folders share: fixtures, and which tests may run at the same time."""

from pathlib import Path

import hypothesis
import pytest

from project import PLACES, remove_leftovers
from unit.report_files import default_grid, make_files
from vcsbench.isolation import is_allowed, unshare_mounts

TESTS = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Remove the leftovers of killed tests. Later mounts end with the processes of the tests."""
    # An example may take long on a busy machine.
    hypothesis.settings.register_profile("vcsbench", deadline=None)
    hypothesis.settings.load_profile("vcsbench")
    if not hasattr(config, "workerinput"):  # not again in each worker of pytest-xdist
        for place in PLACES:
            remove_leftovers(place)
    if is_allowed(unshare_mounts):
        unshare_mounts()


# Before pytest-xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a file's tests to one worker, for its fixtures, and all that measure to one, last."""
    for item in items:
        group = "measuring" if _measures(item) else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_measures)


def _measures(item: pytest.Item) -> bool:
    """Return True for a test that measures. The delay of a line is measured, too."""
    return item.path.is_relative_to(TESTS / "workflow") or item.path.name == "test_link.py"


@pytest.fixture(scope="session")
def whole_study(tmp_path_factory):
    """A measured study with duplicates: f7 takes half of f6, packed 0.8, svn 0.8 of http."""
    return make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1)
