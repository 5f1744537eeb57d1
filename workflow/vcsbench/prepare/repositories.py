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
from vcsbench.formats import PACKED
from vcsbench.records import CopiesRecord, DumpRecord, LoadRecord, LoadRequest
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import (
    Variant,
    check_copies_mounted,
    copy_path,
    dump_record,
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

    def formats(self, repo: str) -> list[str]:
        """Return the formats that a repository is loaded in; any format serves for a dump."""
        variants = [v for variants in self.needed.values() for v in variants if v.repo == repo]
        return sorted({variant.format for variant in variants}) or ["f7"]

    def loads(self) -> list[tuple[str, str]]:
        """Return the repositories and formats to load."""
        return [(repo, fmt) for repo in self.all_repositories() for fmt in self.formats(repo)]

    def packs(self) -> list[tuple[str, str]]:
        """Return the repositories and formats to pack."""
        variants = {v for variants in self.needed.values() for v in variants}
        return sorted((v.repo, v.format) for v in variants if v.packing == PACKED)

    def sources(self, storage: str) -> list[str]:
        """Return the records of the loaded and of the packed repositories that copies are made from."""
        records: list[str] = []
        for variant in self.needed[storage]:
            records.append(load_record(variant.repo, variant.format))
            if variant.packing == PACKED:
                records.append(pack_record(variant.repo, variant.format))
        return list(dict.fromkeys(records))

    def dump_source(self, repo: str) -> str:
        """Return the record of the loaded repository that a dump is made of."""
        return load_record(repo, self.formats(repo)[0])

    def other_storages(self, storage: str) -> dict[str, list[str]]:
        """Return the other storages that need a packed repository of this one, by its name."""
        packed = [v for v in self.needed[storage] if v.packing == PACKED]
        return {
            variant.name: [
                other
                for other, variants in self.needed.items()
                if other != storage and variant in variants
            ]
            for variant in packed
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

    def _without_copies(self, repo: str, fmt: str) -> list[Variant]:
        """Return the variants of a repository in a format that have no copy on some storage."""
        return [
            variant
            for storage, variants in self.needed.items()
            for variant in variants
            if (variant.repo, variant.format) == (repo, fmt)
            and all((variant, n) in self.missing(storage) for n in range(1, self.copies + 1))
        ]

    @cache  # noqa: B019 - one instance
    def load_token(self, repo: str, fmt: str) -> str:
        """Return the time of a load, from its record.

        Return the present time if something is missing, and nothing exists to make it from (copies_token).
        """
        record = self.read_load(repo, fmt)
        loaded = loaded_path(record)
        for variant in self._without_copies(repo, fmt):
            can_be_packed = loaded and variant.packing == PACKED
            is_same_source = record.get("identity") == variant.identity
            if not (is_same_source and (can_be_packed or staged_path(record, variant))):
                return self._now
        is_dumped = repo in self.dumps and fmt == self.formats(repo)[0]
        if is_dumped and not loaded and not has_dump(self.read_dump(repo), self.dumps[repo]):
            return self._now
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - one instance
    def pack_token(self, repo: str, fmt: str) -> str:
        """Return the time of packing, from its record; the present time if copies are to be made from it."""
        loaded = self.read_load(repo, fmt)
        for variant in self._without_copies(repo, fmt):
            if variant.packing == PACKED and not staged_path(loaded, variant):
                return self._now
        record = read_json(self.root / pack_record(repo, fmt))
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - one instance
    def dump_token(self, repo: str) -> str:
        """Return the time of a dump, from its record; the present time if the file is missing or short."""
        record = self.read_dump(repo)
        if not has_dump(record, self.dumps[repo]):
            return self._now
        return str(record.get("made") or self._now)

    def needs_load(self, repo: str, fmt: str) -> bool:
        return self.load_token(repo, fmt) != self.read_load(repo, fmt).get("made")

    def load_request(self, repo: str, fmt: str) -> LoadRequest:
        """Return the space that a load needs. If nothing has to be loaded, return the last request.

        Snakemake loads again if a param changes, for example with another number of copies.
        """
        record = self.read_load(repo, fmt)
        if "request" in record and not self.needs_load(repo, fmt):
            return record["request"]
        numbers = {}
        for storage, variants in self.needed.items():
            of_format = [v for v in variants if (v.repo, v.format) == (repo, fmt)]
            if of_format:
                absent = sum(v in of_format for v, _ in self.missing(storage))
                # The packed repository is made next to the loaded one.
                packed = sum(v.packing == PACKED for v in of_format)
                numbers[self.folders[storage]] = absent + packed
        home = next(iter(numbers), "") or next(iter(self.folders.values()))
        numbers[home] = numbers.get(home, 0) + 1
        return {"home": home, "repositories": numbers}

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

    def read_load(self, repo: str, fmt: str) -> LoadRecord:
        return cast("LoadRecord", read_json(self.root / load_record(repo, fmt)))

    def read_dump(self, repo: str) -> DumpRecord:
        return cast("DumpRecord", read_json(self.root / dump_record(repo)))


def load_record(repo: str, fmt: str) -> str:
    return f"results/loaded/{repo}/{fmt}.json"


def pack_record(repo: str, fmt: str) -> str:
    return f"results/packed/{repo}/{fmt}.json"


def has_dump(dump: DumpRecord, revisions: int) -> bool:
    """Return True if a dump file exists unchanged, and ends with this revision or the youngest."""
    last = min(revisions, dump.get("youngest", revisions))
    is_unchanged = dump.get("state") == file_state(Path(dump.get("path", "")))
    return is_unchanged and dump.get("last") == last


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
            problem = "it was made with another `fragmentation_kib`"
        if problem:
            missing[copy] = problem
    return missing


def loaded_path(record: LoadRecord) -> Path | None:
    """Return the loaded repository of a record; None if it is gone or changed."""
    if not record:
        return None
    path = Path(record["path"], f"{record['format']}.{record['packing']}")
    return None if fsfs.mismatch(path, record["format"], record["packing"]) else path


def staged_path(record: LoadRecord, variant: Variant) -> Path | None:
    """Return the loaded or packed repository of a variant from the record of its load.

    Return None if it is gone, changed, or from another source.
    """
    path = Path(record.get("path", ""), f"{variant.format}.{variant.packing}")
    is_same_source = record.get("identity") == variant.identity
    intact = is_same_source and not fsfs.mismatch(path, variant.format, variant.packing)
    return path if intact else None
