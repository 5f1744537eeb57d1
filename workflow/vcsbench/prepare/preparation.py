"""Define how the repositories of a system are prepared: loaded, brought into a state, and verified."""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from vcsbench import words
from vcsbench.programs import Programs
from vcsbench.records import LoadRecord
from vcsbench.sources import Source
from vcsbench.sources.base import Facts
from vcsbench.time_spans import span_since

Task = Callable[[], None]


class Preparation:
    """The preparation of the repositories of one system."""

    def load(self, source: Source, fmt: str, staging: Path) -> LoadRecord:
        """Load a source, and return facts about the repository (loader.load_source)."""
        raise NotImplementedError

    def make_states(
        self, loaded: Path, states: Sequence[str], builds: Sequence[Programs] = ()
    ) -> dict[str, float]:
        """Make a repository in each of the states next to the loaded one.

        Return the seconds that a user waits for each packing or upkeep, without the time of copies: `{"pack":
        4.2}`. After an error, no incomplete repository is left. `builds` have programs for states for which
        those on the PATH are too old.
        """
        raise NotImplementedError

    def list_tasks(self, folder: Path, fmt: str, stop: threading.Event) -> list[Task]:
        """Return the tasks that verify the repositories of one format in a folder.

        A task raises UserError for a damaged repository, and CancelledError soon after `stop` is set.
        """
        raise NotImplementedError


def describe_load(
    source: Source, facts: Facts, state: str, commits: int, begun: float
) -> LoadRecord:
    """Return the record of a load by git, Mercurial or Fossil, and print the time that the load took.

    `state` is the loaded repository's, such as "as-is", and `begun` a time of time.monotonic().
    """
    span = span_since(begun)
    print_progress(f"loaded {words.count_of(commits, 'commit')} in {span['seconds']:.1f} s")
    odd_paths = source.odd_paths()
    return {
        # Records of all systems share the key of Subversion's state, the packing.
        "packing": state,
        "revisions": commits,
        "notes": list(facts.notes),
        # Only Subversion has options of a load, and exports a folder of the tree. So these three are empty.
        "load_options": [],
        "tree": "",
        "folder": "",
        "busy_file": facts.busy_file,
        "long_names": odd_paths.impossible,
        "reserved_names": odd_paths.reserved,
        **span,
    }


def check_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise CancelledError


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
