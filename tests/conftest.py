"""What tests in several folders share: fixtures, and which tests may run at the same time."""

import signal
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from project import PLACES, remove_leftovers
from unit.report_files import default_grid, make_files
from vcsbench.isolation import is_allowed, unshare_mounts


def pytest_configure(config: pytest.Config) -> None:
    """Remove the leftovers of killed tests. Later mounts end with the processes of the tests."""
    # `nohup make test &` starts with these signals ignored, and all programs that tests start would inherit
    # that. Tests that send one would wait for ten minutes.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # An example may take long on a busy machine.
    hypothesis.settings.register_profile("vcsbench", deadline=None)
    hypothesis.settings.load_profile("vcsbench")
    if not hasattr(config, "workerinput"):  # not again in each worker of pytest-xdist
        for place in PLACES:
            remove_leftovers(place)
    if is_allowed(unshare_mounts):
        unshare_mounts()


class _FilesOrMeasuring(LoadScopeScheduling):
    """Give a file's tests to one worker, for its fixtures, and all that measure to one."""

    # pytest-xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "measuring" if _measures(file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _FilesOrMeasuring(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that measure come first: one worker has them, and another has the files of all others."""
    items.sort(key=lambda item: not _measures(item.nodeid))


def _measures(nodeid: str) -> bool:
    """Return True for a test that measures. The delay of a line is measured, too."""
    return nodeid.startswith("tests/workflow/") or nodeid.startswith("tests/unit/test_link.py")


@pytest.fixture(scope="session")
def whole_study(tmp_path_factory):
    """A measured study with duplicates: f7 takes half of f6, packed 0.8, svn 0.8 of http."""
    return make_files(tmp_path_factory.mktemp("study"), skip=default_grid, twins=1)
