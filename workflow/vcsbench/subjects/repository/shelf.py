"""What is prepared of repositories: the copies that each storage is to have, which of them are there, and
what they can be made from."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Collection, Mapping
from functools import cache, cached_property
from pathlib import Path

from vcsbench.files import read_json
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import audit, copies, dumps, nursery
from vcsbench.subjects.repository.copies import Missing
from vcsbench.subjects.repository.labels import Variant

# So many copies that have to be made again are named.
SAID = 3


class Shelf:
    """The repositories that cells read, by storage, on this machine. What is looked at is looked at once:
    a moment that was told stays."""

    def __init__(
        self,
        wanted: Mapping[str, Collection[Variant]],
        folders: Mapping[str, str],
        numbers: int,
        root: Path,
        dumps: Mapping[str, int] | None = None,
    ) -> None:
        """`wanted` has by storage the variants that cells read there, `folders` the configured folder of
        each storage; `numbers` copies are made of each variant. `root` is the checkout. `dumps` has the
        repositories of which cells read a dump file, and how many revisions of each are in it."""
        self.wanted = {name: sorted(variants) for name, variants in sorted(wanted.items())}
        # The names of those that cells use.
        self.storages = list(self.wanted)
        self.folders = folders
        self.numbers = numbers
        self.root = root
        self.dumps = dumps or {}

    def place(self, storage: str) -> Place:
        """vcsbench's folder on a storage."""
        return Place(self.folders[storage], self.root)

    def repositories(self, storage: str) -> list[str]:
        """The names of the repositories on a storage."""
        return sorted({variant.repo for variant in self.wanted[storage]})

    def all_repositories(self) -> list[str]:
        """The names of those on any storage, or in a dump file."""
        read = {variant.repo for wanted in self.wanted.values() for variant in wanted}
        return sorted(read | set(self.dumps))

    def rows(self, storage: str) -> list[list[str]]:
        """The variants on a storage as plain data."""
        return [list(variant) for variant in self.wanted[storage]]

    def formats(self, repo: str) -> list[list[str]]:
        """The formats and packings that a repository is loaded in: those on any storage, or one that a dump
        file is made from."""
        pairs = {tuple(pair) for pairs in self._pairs(repo).values() for pair in pairs}
        return [list(pair) for pair in sorted(pairs)] or [["f7", "nopack"]]

    def takers(self, repo: str) -> dict[str, list[list[str]]]:
        """The folders of the storages that get copies of a repository, each with their formats and
        packings."""
        return {self.folders[storage]: pairs for storage, pairs in self._pairs(repo).items()}

    def others(self, storage: str) -> dict[str, list[str]]:
        """By repository of a storage, the other storages that get copies of it."""
        return {
            repo: [other for other in self._pairs(repo) if other != storage]
            for repo in self.repositories(storage)
        }

    def _pairs(self, repo: str) -> dict[str, list[list[str]]]:
        found: dict[str, list[list[str]]] = {}
        for storage, variants in self.wanted.items():
            for variant in variants:
                if variant.repo == repo:
                    found.setdefault(storage, []).append([variant.format, variant.packing])
        return found

    @cache  # noqa: B019 - there is one of it
    def made(self, storage: str) -> str:
        """When the copies on a storage were made, as their record has it; another moment where some have
        vanished (a tmpfs after a reboot) or were changed, so that the rule that makes them runs again."""
        place, record = self.place(storage).path, read_json(self.record(storage))
        labels = record.get("repositories", {})
        known = [
            v for v in self.wanted[storage] if labels.get(v.name, {}).get("identity") == v.identity
        ]
        gone = [
            f"{variant.name}.{number}: {why}"
            for (variant, number), why in self.missing(storage).items()
            if variant in known
        ]
        if gone:
            more = [f"and {len(gone) - SAID} more"] if len(gone) > SAID else []
            print(
                f"{place}: {len(gone)} copies have vanished or were changed, and are made again "
                f"({'; '.join(gone[:SAID] + more)})",
                file=sys.stderr,
            )
        if gone or (known and not audit.empty_is_whole(place)):
            return self._now
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - there is one of it
    def loaded(self, repo: str) -> str:
        """When a repository was loaded, as its record has it; another moment where there is nothing left to
        make copies from that are missing, so that the rule that loads runs again."""
        record = read_json(self.load_record(repo))
        wanted = ((s, v) for s, variants in self.wanted.items() for v in variants if v.repo == repo)
        for storage, variant in wanted:
            every = {(variant, number) for number in range(1, self.numbers + 1)}
            if every <= self.missing(storage).keys() and not nursery.loaded(record, variant):
                return self._now
        if repo in self.dumps and not dumps.is_there(record, self.dumps[repo]):
            return self._now
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - there is one of it
    def missing(self, storage: str) -> Missing:
        """The copies that a storage has not as they should be, each with the reason."""
        return copies.missing(
            self.place(storage).path, self.wanted[storage], self.numbers, copies.LOOKED_AT
        )

    def record(self, storage: str) -> Path:
        """The record of the copies on a storage."""
        return self.root / "results" / "repositories" / f"{storage}.json"

    def load_record(self, repo: str) -> Path:
        """The record of a load."""
        return self.root / "results" / "loaded" / f"{repo}.json"

    @cached_property
    def _now(self) -> str:
        return datetime.datetime.now(datetime.UTC).isoformat()
