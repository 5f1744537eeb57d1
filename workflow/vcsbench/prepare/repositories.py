"""Find which prepared repositories the cells need, which exist, and which have to be made again."""

import datetime
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from vcsbench import words
from vcsbench.files import read_json
from vcsbench.records import CopiesRecord, LoadRecord, LoadRequest
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import (
    Variant,
    check_copies_mounted,
    copy_path,
    empty_copy_ok,
    file_state,
    problem_with,
    read_metadata,
)

SAMPLED_FILES = 100_000
LISTED = 3


class PreparedRepositories:
    """The repositories that cells read, by storage, on this machine. Each is checked once per process.

    - `needed`: the variants that cells read, by storage.
    - `folders`: the configured folder of each storage.
    - `copies`: the number of copies of each variant. `root`: the checkout.
    - `dumps`: the number of revisions of each dump file that cells read, by repository.
    - `fragmentation_kib`: the spacers between the files of copies.
    """

    def __init__(
        self,
        needed: Mapping[str, Collection[Variant]],
        folders: Mapping[str, str],
        copies: int,
        root: Path,
        dumps: Mapping[str, int] | None = None,
        fragmentation_kib: float = 0,
    ) -> None:
        self.needed = {name: sorted(variants) for name, variants in sorted(needed.items())}
        self.storages = list(self.needed)
        self.folders = folders
        self.copies = copies
        self.root = root
        self.dumps = dumps or {}
        self.fragmentation_kib = fragmentation_kib
        self._now = datetime.datetime.now(datetime.UTC).isoformat()

    def workdir(self, storage: str) -> WorkDir:
        return WorkDir(self.folders[storage], self.root)

    def repositories(self, storage: str) -> list[str]:
        return sorted({variant.repo for variant in self.needed[storage]})

    def all_repositories(self) -> list[str]:
        read = {variant.repo for variants in self.needed.values() for variant in variants}
        return sorted(read | set(self.dumps))

    def formats(self, repo: str) -> list[list[str]]:
        variants = [v for variants in self.needed.values() for v in variants if v.repo == repo]
        pairs = sorted({(variant.format, variant.packing) for variant in variants})
        return [list(pair) for pair in pairs] or [["f7", "nopack"]]

    def other_storages(self, storage: str) -> dict[str, list[str]]:
        return {
            repo: [s for s in self.storages if s != storage and repo in self.repositories(s)]
            for repo in self.repositories(storage)
        }

    @cache  # noqa: B019 - one instance
    def copies_token(self, storage: str) -> str:
        """Return the time when the copies on a storage were made, from their record.

        Return the present time if copies are missing or changed, for example in a tmpfs after a reboot.
        The changed param makes Snakemake run the rule again.
        """
        workdir, record = self.workdir(storage).path, read_json(self.copies_record(storage))
        made = {n: v.get("identity") for n, v in record.get("repositories", {}).items()}
        known = [v for v in self.needed[storage] if made.get(v.name) == v.identity]
        gone = [
            f"{variant.name}.{number}: {reason}"
            for (variant, number), reason in self.missing(storage).items()
            if variant in known
        ]
        if gone:
            more = [f"and {len(gone) - LISTED} more"] if len(gone) > LISTED else []
            copies_are = words.count_of(len(gone), "copy is", "copies are")
            text = f"{copies_are} missing or changed, and made again"
            print(f"{workdir}: {text} ({'; '.join(gone[:LISTED] + more)})", file=sys.stderr)
        if gone or (known and not empty_copy_ok(workdir)):
            return self._now
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - one instance
    def load_token(self, repo: str) -> str:
        """Return the time of a load, from its record.

        Return the present time if copies are missing, and nothing exists to make them from (copies_token).
        """
        record = cast("LoadRecord", read_json(self.load_record(repo)))
        for storage, variants in self.needed.items():
            for variant in variants:
                numbers = {(variant, number) for number in range(1, self.copies + 1)}
                if variant.repo != repo or not numbers <= self.missing(storage).keys():
                    continue
                if not staged_path(record, variant):
                    return self._now
        if repo in self.dumps and not has_dump(record, self.dumps[repo]):
            return self._now
        return str(record.get("made") or self._now)

    def needs_load(self, repo: str) -> bool:
        return self.load_token(repo) != read_json(self.load_record(repo)).get("made")

    def load_request(self, repo: str) -> LoadRequest:
        """Return what a load makes. If nothing has to be loaded, return the request of the last load.

        Snakemake loads again if a param changes, for example after a run of another study.
        """
        record = cast("LoadRecord", read_json(self.load_record(repo)))
        if "request" in record and not self.needs_load(repo):
            return record["request"]
        return {
            "variants": self.formats(repo),
            "copies": self.copies,
            "storages": {
                self.folders[storage]: [[v.format, v.packing] for v in variants if v.repo == repo]
                for storage, variants in self.needed.items()
                if repo in self.repositories(storage)
            },
            "dump": self.dumps.get(repo),
        }

    @cache  # noqa: B019 - one instance
    def missing(self, storage: str) -> dict[tuple[Variant, int], str]:
        workdir = self.workdir(storage).path
        missing = missing_copies(
            workdir, self.needed[storage], self.copies, SAMPLED_FILES, self.fragmentation_kib
        )
        record = cast("CopiesRecord", read_json(self.copies_record(storage)))
        if missing and record.get("place") == str(workdir):
            check_copies_mounted(record)
        return missing

    def copies_record(self, storage: str) -> Path:
        return self.root / "results" / "repositories" / f"{storage}.json"

    def load_record(self, repo: str) -> Path:
        return self.root / "results" / "loaded" / f"{repo}.json"


def has_dump(record: LoadRecord, revisions: int) -> bool:
    dump = record.get("dump") or {}
    last = min(revisions, record.get("revisions", revisions))
    return dump.get("last") == last and dump.get("state") == file_state(Path(dump.get("path", "")))


def missing_copies(
    workdir: Path,
    variants: Sequence[Variant],
    copies: int,
    files: float = math.inf,
    fragmentation_kib: float | None = None,
) -> dict[tuple[Variant, int], str]:
    """Return the missing or changed copies by variant and number, each with the reason in a clause.

    About `files` files are checked, in random shards; by default all. A copy with another `fragmentation_kib`
    counts as missing; None is any.
    """
    paths = {
        (variant, number): copy_path(workdir, variant.name, number)
        for variant in variants
        for number in range(1, copies + 1)
    }
    metadata = {copy: read_metadata(path) for copy, path in paths.items()}
    total = sum(content.get("files", 0) for content in metadata.values())
    missing = {}
    for copy, path in paths.items():
        shards = None
        if total > files:
            count = sum(map(fsfs.is_shard, metadata[copy].get("state", {})))
            shards = math.ceil(files / total * count)
        problem = problem_with(path, metadata[copy], *copy, shards)
        made_with = metadata[copy].get("fragmentation_kib")
        if not problem and fragmentation_kib not in (None, made_with):
            problem = f"`fragmentation_kib` was {made_with:g}"
        if problem:
            missing[copy] = problem
    return missing


def staged_path(record: LoadRecord, variant: Variant) -> Path | None:
    """Return the loaded repository of a variant; None if it is gone, changed, or from another source.

    `record` is the record of the load.
    """
    path = Path(record.get("path", ""), f"{variant.format}.{variant.packing}")
    is_same_source = record.get("identity") == variant.identity
    intact = is_same_source and not fsfs.mismatch(path, variant.format, variant.packing)
    return path if intact else None
