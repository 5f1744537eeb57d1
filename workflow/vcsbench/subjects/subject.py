"""What a cell works on, on a storage: one subject that its command reads, and one that it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Recipe = Mapping[str, Any]
Words = dict[str, Callable[[], str]]
# In words of what several clients use at once: here is each client's number.
CLIENT = "@CLIENT@"


class Subject:
    """A subject of one cell-round. A kind is a module in vcsbench/subjects with its own as SUBJECT.

    `folders` are what is cleared, certified and asked for residency; `size` is their bytes, where that is
    known. `counterpart` is a tree that what a run has written has to equal, and the URL that keywords in it
    may have; None where there is none. `origin` tells the URL of what the cell reads, where that has one;
    `beside` is that subject, for the one that the cell writes, and `urls` are others by which that may be
    known to keywords in it.
    `served` is the folder that a server serves for it, None where none can, `name` what it is called
    below that, and `idle_name` what there is nothing to do for (idle_words).
    """

    folders: list[Path]
    size: int = 0
    counterpart: tuple[Path, str] | None = None
    origin: Callable[[], str] | None = None
    beside: Subject | None = None
    urls: Sequence[str] = ()
    served: Path | None = None
    name: str = ""
    idle_name: str = ""

    def __init__(self, recipe: Recipe, number: int, run: Path) -> None:
        """Take the subject of round `number`; `run` is a private folder of the cell-round's. Nothing is made
        or looked at yet."""
        self.recipe = recipe
        self.number = number
        self.run = run
        self.folders = []

    @classmethod
    def records(cls, recipe: Recipe) -> list[str]:
        """The files that the rules write which prepare it, relative to the workflow's folder: none for what
        needs no preparation."""
        return []

    @classmethod
    def reads_repository(cls, recipe: Recipe) -> bool:
        """Whether it takes copies of a Subversion repository on the storage."""
        return False

    def check(self) -> None:
        """Raise a UserError where it is not what the recipe says."""

    def check_unchanged(self, closely: bool = False) -> None:
        """Raise a UserError where it was changed since check(). `closely` looks at every file."""

    def check_place(self) -> None:
        """Raise a UserError where the file system that it lies on has gone since the run began."""

    def prepare(self) -> int:
        """Make, on this machine, what a guest only reads; returns the bytes that a file system has to have
        for the subject."""
        return 0

    def words(self) -> Words:
        """What the words of a command's template stand for that are its own."""
        return {}

    def idle_words(self) -> Words:
        """The same for a run of the command that does nothing and leaves the subject alone: so a cold
        client's own files get into the cache. Empty where the kind has no such thing."""
        return {}

    def restore(self) -> None:
        """Make it what it has to be before a run; outside the timed region."""

    def parts(self) -> dict[str, list[Path]]:
        """The paths of what in it is asked for residency apart, by names; after the last run."""
        return {}

    def discard(self) -> None:
        """Remove what is not to stay when the cell-round has ended."""

    def facts(self) -> dict[str, Any]:
        """What the context says of it, by the keys of the context."""
        return {}

    def flags(self) -> list[str]:
        """The flags that it earns for all runs."""
        return []
