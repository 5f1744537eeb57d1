"""What is prepared of repositories: the copies that each storage is to have, which of them are there, and
what they can be made from."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from vcsbench.storages.place import Place
from vcsbench.subjects.repository import audit, copies, nursery
from vcsbench.subjects.repository.copies import Missing
from vcsbench.subjects.repository.variant import Variant


class Shelf:
    """The repositories that cells read, by storage, on this machine. What is looked at is looked at once:
    a moment that was told stays."""

    def __init__(
        self,
        wanted: Mapping[str, Sequence[Variant]],
        folders: Mapping[str, str],
        numbers: int,
        root: Path,
    ) -> None:
        """`wanted` has by storage the variants that cells read there, `folders` the configured folder of
        each storage; `numbers` copies are made of each variant. `root` is the checkout."""
        self.wanted = {name: sorted(variants) for name, variants in sorted(wanted.items())}
        self.folders = folders
        self.numbers = numbers
        self.root = root
        self._missing: dict[str, Missing] = {}
        self._made: dict[str, str] = {}
        self._loaded: dict[str, str] = {}

    @property
    def storages(self) -> list[str]:
        """The names of the storages that cells use."""
        return list(self.wanted)

    def place(self, storage: str) -> Place:
        """vcsbench's folder on a storage."""
        return Place(self.folders[storage], self.root)

    def repositories(self, storage: str) -> list[str]:
        """The names of the repositories on a storage."""
        return sorted({variant.repo for variant in self.wanted[storage]})

    def rows(self, storage: str) -> list[list[str]]:
        """The variants on a storage as plain data."""
        return [list(variant) for variant in self.wanted[storage]]

    def formats(self, repo: str) -> list[list[str]]:
        """The formats and packings of a repository on any storage."""
        found = {(v.format, v.packing) for s in self.storages for v in self._of(repo, s)}
        return [list(pair) for pair in sorted(found)]

    def takers(self, repo: str) -> dict[str, list[list[str]]]:
        """The folders of the storages that get copies of a repository, each with their formats and
        packings."""
        found = {s: [[v.format, v.packing] for v in self._of(repo, s)] for s in self.storages}
        return {self.folders[storage]: pairs for storage, pairs in found.items() if pairs}

    def others(self, storage: str) -> dict[str, list[str]]:
        """By repository of a storage, the other storages that get copies of it."""
        return {
            repo: [s for s in self.storages if s != storage and self._of(repo, s)]
            for repo in self.repositories(storage)
        }

    def made(self, storage: str) -> str:
        """When the copies on a storage were made, as their record has it; another moment where some have
        vanished (a tmpfs after a reboot) or were changed, so that the rule that makes them runs again."""
        if storage not in self._made:
            self._made[storage] = self._look_after(storage) or self._now
        return self._made[storage]

    def loaded(self, repo: str) -> str:
        """When a repository was loaded, as its record has it; another moment where there is nothing left to
        make copies from that are missing, so that the rule that loads runs again."""
        if repo not in self._loaded:
            gone = any(self._is_gone(s, v) for s in self.storages for v in self._of(repo, s))
            self._loaded[repo] = (
                "" if gone else copies.moment(self.load_record(repo))
            ) or self._now
        return self._loaded[repo]

    def missing(self, storage: str) -> Missing:
        """The copies that a storage has not as they should be, each with the reason."""
        if storage not in self._missing:
            self._missing[storage] = copies.missing(
                self.place(storage).path, self.wanted[storage], self.numbers, copies.LOOKED_AT
            )
        return self._missing[storage]

    def record(self, storage: str) -> Path:
        """The record of the copies on a storage."""
        return self.root / "results" / "repositories" / f"{storage}.json"

    def load_record(self, repo: str) -> Path:
        """The record of a load."""
        return self.root / "results" / "loaded" / f"{repo}.json"

    @cached_property
    def _now(self) -> str:
        return datetime.datetime.now(datetime.UTC).isoformat()

    def _of(self, repo: str, storage: str) -> list[Variant]:
        return [variant for variant in self.wanted[storage] if variant.repo == repo]

    def _look_after(self, storage: str) -> str:
        """The moment of a storage's record; "" where there is none, or it is no longer so."""
        place, known = (
            self.place(storage),
            copies.recorded(self.record(storage), self.wanted[storage]),
        )
        gone = {copy: why for copy, why in self.missing(storage).items() if copy[0] in known}
        if gone:
            print(copies.said_of_gone(place.path, gone), file=sys.stderr)
        whole = not gone and (not known or audit.empty_is_whole(place.path))
        return copies.moment(self.record(storage)) if whole else ""

    def _is_gone(self, storage: str, variant: Variant) -> bool:
        """Whether there is neither a copy of a variant on a storage, nor what one could be made from."""
        missing = self.missing(storage)
        if any((variant, number) not in missing for number in range(1, self.numbers + 1)):
            return False
        return not nursery.loaded(copies.read_record(self.load_record(variant.repo)), variant)
