"""Define how the repositories of a system are prepared: loaded, brought into a state, and verified."""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from vcsbench.records import LoadRecord
from vcsbench.sources import Source

Task = Callable[[], None]


class Preparation:
    """The preparation of the repositories of one system."""

    def load(self, source: Source, fmt: str, staging: Path) -> LoadRecord:
        """Load a source, and return facts about the repository (loader.load_source)."""
        raise NotImplementedError

    def make_states(self, loaded: Path, states: Sequence[str]) -> float:
        """Make a repository in each of the states next to the loaded one, and return the seconds.

        After an error, no incomplete repository is left.
        """
        raise NotImplementedError

    def list_tasks(self, folder: Path, fmt: str, stop: threading.Event) -> list[Task]:
        """Return the tasks that verify the repositories of one format in a folder.

        A task raises UserError for a damaged repository, and CancelledError soon after `stop` is set.
        """
        raise NotImplementedError


def check_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise CancelledError


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
