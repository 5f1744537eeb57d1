"""Find which prepared repositories the cells need, which exist, and which have to be made again."""

import datetime
import math
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from vcsbench import words
from vcsbench.files import read_json
from vcsbench.records import CopiesRecord, CopyMetadata, DumpRecord, LoadRecord, LoadRequest
from vcsbench.storages.file_trees import allocated_bytes
from vcsbench.storages.workdir import LOADED_FOLDER, WorkDir
from vcsbench.subjects import repository
from vcsbench.subjects.repository import Variant
from vcsbench.systems import system_of

SAMPLED_FILES = 100_000
LISTED = 3


class PreparedRepositories:
    """The repositories that cells read, by storage, on this machine. Each is checked once per process.

    A token is a param of a rule, and Snakemake runs a rule again if a param changes. So a token is the time
    in the rule's record while all is well, and the present time if the output has to be made again.
    """

    def __init__(
        self,
        needed: Mapping[str, Collection[Variant]],
        folders: Mapping[str, str],
        copies: int,
        root: Path,
        dumps: Mapping[str, int],
        fragmentation_kib: float,
    ) -> None:
        """Keep what the cells need. Nothing is read or checked yet.

        - `needed`: the variants that cells read, by storage.
        - `folders`: the configured folder of each storage, {"disk": "/var/tmp"}.
        - `copies`: the number of copies of each variant.
        - `root`: the checkout.
        - `dumps`: the last revision of each dump file that cells read, by repository, {"ruby": 500}.
        - `fragmentation_kib`: the mean size of the spacers between copies; 0: no spacers.
        """
        # Params of rules have to be the same in each run, so storages and variants are sorted.
        self.needed = {name: sorted(variants) for name, variants in sorted(needed.items())}
        self.storages = list(self.needed)
        self.folders = folders
        self.copies = copies
        self.fragmentation_kib = fragmentation_kib
        self.root = root
        self.dumps = dumps
        self._now = datetime.datetime.now(datetime.UTC).isoformat()

    def workdir(self, storage: str) -> WorkDir:
        return WorkDir(self.folders[storage], self.root)

    def _all_variants(self) -> set[Variant]:
        """Return the variants that cells read on any storage."""
        return set().union(*self.needed.values())

    def repositories(self, storage: str) -> list[str]:
        """Return the names of the repositories that cells read on a storage."""
        return sorted({variant.repo for variant in self.needed[storage]})

    def all_repositories(self) -> list[str]:
        """Return the names of the repositories that cells read on any storage, or load from a dump file."""
        names = {variant.repo for variant in self._all_variants()}
        return sorted(names | set(self.dumps))

    def formats(self, repo: str) -> list[str]:
        """Return the formats that a repository is loaded in."""
        formats = {variant.format for variant in self._all_variants() if variant.repo == repo}
        # A dump is the same from each format. For a dump alone, any format will do.
        return sorted(formats) or ["f7"]

    def loads(self) -> list[tuple[str, str]]:
        """Return the repositories and formats to load."""
        return [(repo, fmt) for repo in self.all_repositories() for fmt in self.formats(repo)]

    def packs(self) -> list[tuple[str, str]]:
        """Return the repositories and formats with a state that is made after the load, such as packed."""
        made = (variant for variant in self._all_variants() if variant.is_made)
        return sorted({(variant.repo, variant.format) for variant in made})

    def made_states(self, repo: str, fmt: str) -> list[str]:
        """Return the states that are made from a loaded repository: ["pack"] for a packed copy of it."""
        made = (variant for variant in self._all_variants() if variant.is_made)
        return sorted({v.state for v in made if (v.repo, v.format) == (repo, fmt)})

    def sources(self, storage: str) -> list[str]:
        """Return the records of the loaded and of the packed repositories that copies are made from."""
        records: list[str] = []
        for variant in self.needed[storage]:
            records.append(load_record(variant.repo, variant.format))
            if variant.is_made:
                records.append(pack_record(variant.repo, variant.format))
        return list(dict.fromkeys(records))

    def dump_source(self, repo: str) -> str:
        """Return the record of the loaded repository that a dump is made of."""
        return load_record(repo, self.formats(repo)[0])

    def other_storages(self, storage: str) -> dict[str, list[str]]:
        """Return for each made variant of a storage the other storages with copies of it.

        A made variant, such as a packed repository, is kept until all of these storages have their copies.
        Example: {"ruby.f7.pack": ["ssd"], "bsd.f7.pack": []}.
        """
        storages_by_variant: dict[str, list[str]] = {}
        for variant in self.needed[storage]:
            if variant.is_made:
                storages = [name for name, variants in self.needed.items() if variant in variants]
                storages.remove(storage)
                storages_by_variant[variant.name] = storages
        return storages_by_variant

    @cache  # noqa: B019 - one instance
    def copies_token(self, storage: str) -> str:
        """Return the token of the copies on a storage: if it changes, Snakemake makes missing copies again.

        The token is the time in the record of the copies while all of them are in order. It is the present
        time without a record, and if copies or empty repositories that were once made are missing or changed,
        as after a reboot on a tmpfs. Print the missing and changed copies.
        """
        workdir = self.workdir(storage).path
        record = read_json(self.copies_record(storage))
        facts_by_variant = record.get("repositories", {})
        # The variants whose copies were made from their present source. Another param of the rule has the
        # identities of the sources. So if a source has changed, Snakemake runs the rule with any token.
        copied_variants = []
        for variant in self.needed[storage]:
            copied_identity = facts_by_variant.get(variant.name, {}).get("identity")
            if copied_identity == variant.identity:
                copied_variants.append(variant)
        lost = []
        for (variant, number), reason in self.missing(storage).items():
            if variant in copied_variants:
                lost.append(f"{variant.name}.{number}: {reason}")
        if lost:
            _print_lost_copies(workdir, lost)
            return self._now
        # The rule also makes an empty repository for each system.
        for system in {variant.system for variant in copied_variants}:
            if not repository.empty_copy_ok(workdir, system):
                return self._now
        return str(record.get("made") or self._now)

    def _without_copies(self, repo: str, fmt: str) -> list[Variant]:
        """Return the variants of a repository in a format that have no intact copy on at least one storage.

        With one intact copy on a storage, the other copies there are made from it, and nothing is loaded.
        """
        without_copies = []
        for storage, variants in self.needed.items():
            missing = self.missing(storage)
            for variant in variants:
                if (variant.repo, variant.format) != (repo, fmt):
                    continue
                if all((variant, number) in missing for number in range(1, self.copies + 1)):
                    without_copies.append(variant)
        return without_copies

    @cache  # noqa: B019 - one instance
    def load_token(self, repo: str, fmt: str) -> str:
        """Return the time of a load, from its record; the present time if it has to be made (again)."""
        record = self.read_load(repo, fmt)
        if not record or self._has_to_load_again(record, repo, fmt):
            return self._now
        return record["made"]

    def _has_to_load_again(self, record: LoadRecord, repo: str, fmt: str) -> bool:
        """Return True if copies or a dump have to be made, and the repositories of a load do not suffice.

        The load of `record` has made the loaded repository, such as f7.nopack. Others may have been made from
        it (`is_made`), such as f7.pack. Copies of a variant are made from the one of these in its state.
        """
        loaded = loaded_path(record)
        for variant in self._without_copies(repo, fmt):
            # The source has changed since the load.
            if record["identity"] != variant.identity:
                return True
            can_be_copied = staged_path(record, variant) is not None
            # If f7.pack is gone, it can be made from f7.nopack again.
            can_be_made = variant.is_made and loaded is not None
            if not can_be_copied and not can_be_made:
                return True
        # A dump is made from the loaded repository only.
        return loaded is None and self._has_to_dump(repo, fmt)

    def _has_to_dump(self, repo: str, fmt: str) -> bool:
        """Return True if the dump file of a repository has to be made from the load in this format.

        A dump file serves all formats, and is made from the loaded repository in the first of them.
        """
        if repo not in self.dumps or fmt != self.formats(repo)[0]:
            return False
        dump = self.read_dump(repo)
        return dump is None or not has_dump(dump, self.dumps[repo])

    @cache  # noqa: B019 - one instance
    def pack_token(self, repo: str, fmt: str) -> str:
        """Return the time when the states of a load, such as a packed copy, were made, from their record.

        Return the present time without a record, and if copies need a state that is gone.
        """
        load = self.read_load(repo, fmt)
        for variant in self._without_copies(repo, fmt):
            has_state = load is not None and staged_path(load, variant) is not None
            if variant.is_made and not has_state:
                return self._now
        record = read_json(self.root / pack_record(repo, fmt))
        return str(record.get("made") or self._now)

    @cache  # noqa: B019 - one instance
    def dump_token(self, repo: str) -> str:
        """Return the time of a dump, from its record; the present time if the file is missing or short."""
        record = self.read_dump(repo)
        if record is None or not has_dump(record, self.dumps[repo]):
            return self._now
        return record["made"]

    def needs_load(self, repo: str, fmt: str) -> bool:
        """Return True if a repository has to be loaded, for the first time or again."""
        record = self.read_load(repo, fmt)
        return not record or self.load_token(repo, fmt) != record["made"]

    @cache  # noqa: B019 - one instance
    def load_request(self, repo: str, fmt: str) -> LoadRequest:
        """Return the repositories for which there must be space before a source is loaded in a format.

        A load makes one repository, which the folder `home` of a storage keeps. From that, packed ones and
        then the missing copies are made. With five missing copies in the state "pack", there are 1 + 1 + 5:
        {"home": "/var/tmp", "repositories": {"/var/tmp": 7}}. The request may have further keys:

        - `replaced`: the bytes of each older repository that a new one replaces: {"/var/tmp": [81920]}.
        - `fragmentation_kib`, `copies`: the mean size of spacers (files that scatter the copies on the
          device), and the missing copies by state: {"/var/tmp": {"pack": 5}}.
        """
        record = self.read_load(repo, fmt)
        # The request is a param, so Snakemake would load again if it changed. A load that is up to date keeps
        # its request, also if fewer copies are missing by now.
        if record and not self.needs_load(repo, fmt):
            return record["request"]
        number_by_folder = self._count_made_from_load(repo, fmt)
        # The first folder with copies keeps the loaded repository. A repository may be loaded only to make a
        # dump file of it. Then no folder has copies, and the first storage keeps it.
        folders = list(number_by_folder) or list(self.folders.values())
        home = folders[0]
        # The loaded repository itself needs space, too.
        number_by_folder[home] = number_by_folder.get(home, 0) + 1
        request: LoadRequest = {"home": home, "repositories": number_by_folder}
        replaced = self._list_replaced(repo, fmt, home)
        if replaced:
            request["replaced"] = replaced
        # The spacers of all copies take space at the same time, until the last copy is made.
        if self.fragmentation_kib:
            request["fragmentation_kib"] = self.fragmentation_kib
            request["copies"] = self._count_missing_copies(repo, fmt)
        return request

    def _count_missing_copies(self, repo: str, fmt: str) -> dict[str, dict[str, int]]:
        """Return the numbers of missing copies of a load, by folder and state: {"/var/tmp": {"pack": 5}}."""
        number_by_folder: dict[str, dict[str, int]] = {}
        for storage, variant, _ in self._missing_of(repo, fmt):
            number_by_state = number_by_folder.setdefault(self.folders[storage], {})
            number_by_state[variant.state] = number_by_state.get(variant.state, 0) + 1
        return number_by_folder

    def _list_replaced(self, repo: str, fmt: str, home: str) -> dict[str, list[int]]:
        """Return the bytes of each repository that is removed before a new one is made, by folder.

        Changed copies are removed and, in the folder `home`, the repositories of an earlier load. Example:
        {"/var/tmp": [81920, 81920]}.
        """
        sizes_by_folder: dict[str, list[int]] = {}
        for storage, variant, number in self._missing_of(repo, fmt):
            size = self.size_of_copy(storage, variant, number)
            sizes_by_folder.setdefault(self.folders[storage], []).append(size)
        sizes_by_folder.setdefault(home, []).extend(self.sizes_of_loaded(repo, fmt, home))
        # The size of a copy that does not exist is 0.
        return {folder: sizes for folder, sizes in sizes_by_folder.items() if any(sizes)}

    def _missing_of(self, repo: str, fmt: str) -> Iterator[tuple[str, Variant, int]]:
        """Yield each missing copy of a load: the name of its storage, its variant, and its number."""
        for storage in self.needed:
            for variant, number in self.missing(storage):
                if (variant.repo, variant.format) == (repo, fmt):
                    yield storage, variant, number

    def size_of_copy(self, storage: str, variant: Variant, number: int) -> int:
        """Return the bytes of a copy on the disk; 0 if it does not exist."""
        workdir = self.workdir(storage).path
        return allocated_bytes(repository.copy_path(workdir, variant.name, number))

    def sizes_of_loaded(self, repo: str, fmt: str, home: str) -> list[int]:
        """Return the bytes of the loaded repository in a storage's folder `home`, and of each made of it.

        Another load removes all of them (loader.keep_loaded).
        """
        folder = WorkDir(home, self.root).path / LOADED_FOLDER / repo / fmt
        return [allocated_bytes(path) for path in sorted(folder.glob("*"))]

    def _count_made_from_load(self, repo: str, fmt: str) -> dict[str, int]:
        """Return how many repositories are made from a new load, by the folder of their storage.

        These are the missing copies. Those of a packed variant are made from a packed repository, which
        counts, too: five such copies give {"/var/tmp": 6}. The unit is the size of the loaded repository, so
        one with many packs of git counts as 2.5 (size_factor). A folder in which cells read no copies is left
        out.
        """
        number_by_folder: dict[str, float] = {}
        for storage, variants in self.needed.items():
            variants_of_load = [v for v in variants if (v.repo, v.format) == (repo, fmt)]
            if not variants_of_load:
                continue
            number = 0.0
            for variant, _ in self.missing(storage):
                if variant in variants_of_load:
                    number += variant.size_factor
            # A new load removes the packed repositories that were made from an earlier one (`is_made`). They
            # are made again, even if none of their copies is missing.
            for variant in variants_of_load:
                if variant.is_made:
                    number += variant.size_factor
            folder = self.folders[storage]
            # Two storages may have the same folder.
            number_by_folder[folder] = number_by_folder.get(folder, 0.0) + number
        return {folder: math.ceil(total) for folder, total in number_by_folder.items()}

    @cache  # noqa: B019 - one instance
    def missing(self, storage: str) -> dict[tuple[Variant, int], str]:
        """Return the missing or changed copies on a storage: {(variant, 1): "it does not exist"}.

        The keys are variants with the numbers of copies. Only a sample of the files is checked. Raise
        UserError if the copies are missing because the storage is not mounted.
        """
        workdir = self.workdir(storage).path
        reason_by_copy = missing_copies(
            workdir, self.needed[storage], self.copies, self.fragmentation_kib, SAMPLED_FILES
        )
        record = cast("CopiesRecord", read_json(self.copies_record(storage)))
        # The user may have configured another folder for the storage since the record was written. Then the
        # mount in the record is not the mount of this folder.
        is_record_of_folder = record.get("place") == str(workdir)
        if reason_by_copy and is_record_of_folder:
            repository.check_copies_mounted(record)
        return reason_by_copy

    def copies_record(self, storage: str) -> Path:
        return self.root / "results" / "repositories" / f"{storage}.json"

    def read_load(self, repo: str, fmt: str) -> LoadRecord | None:
        """Return the record of a load; None if it is missing or unreadable."""
        record = read_json(self.root / load_record(repo, fmt))
        return cast("LoadRecord", record) if record else None

    def read_dump(self, repo: str) -> DumpRecord | None:
        """Return the record of a dump file; None if it is missing or unreadable."""
        record = read_json(self.root / repository.dump_record(repo))
        return cast("DumpRecord", record) if record else None


def _print_lost_copies(workdir: Path, lost: Sequence[str]) -> None:
    """Print how many copies in a work folder are lost, and the first ones: "ruby.f7.pack.1: ..."."""
    listed = list(lost[:LISTED])
    if len(lost) > LISTED:
        listed.append(f"and {len(lost) - LISTED} more")
    copies_are = words.count_of(len(lost), "copy is", "copies are")
    text = f"{copies_are} missing or changed, and made again ({'; '.join(listed)})"
    print(f"{workdir}: {text}", file=sys.stderr)


def estimate_spacer_bytes(fmt: str, state: str, revisions: int, fragmentation_kib: float) -> int:
    """Return about how many bytes the spacers between the steps of one copy take (copies.interleave).

    `fmt` and `state` are those of the copy, and `fragmentation_kib` is the mean size of a spacer.
    """
    steps = system_of(fmt).estimate_steps(state, revisions)
    return round(steps * fragmentation_kib * 1024)


def count_spacer_bytes(request: LoadRequest, fmt: str, revisions: int) -> dict[str, int]:
    """Return about how many bytes the spacers of a load's missing copies take, by folder: {"/var/tmp": 4096}.

    `request` has the number of these copies by folder and state, as in {"/var/tmp": {"pack": 5}}.
    """
    bytes_by_folder: dict[str, int] = {}
    # Without spacers, the request has no copies.
    for folder, number_by_state in request.get("copies", {}).items():
        for state, number in number_by_state.items():
            mean_kib = request["fragmentation_kib"]
            bytes_of_copy = estimate_spacer_bytes(fmt, state, revisions, mean_kib)
            bytes_by_folder[folder] = bytes_by_folder.get(folder, 0) + number * bytes_of_copy
    return bytes_by_folder


def count_replaced_bytes(request: LoadRequest, size: int) -> dict[str, int]:
    """Return how many bytes the new repositories of a load get from older ones: {"/var/tmp": 81920}.

    `request` has the bytes of each older one, which is removed before a new one of about `size` bytes is made
    in its place.
    """
    bytes_by_folder: dict[str, int] = {}
    for folder, old_sizes in request.get("replaced", {}).items():
        # Of a larger old repository, only `size` counts: others may still exist when the new one is made. So
        # a surplus cannot be promised to another new repository.
        bytes_by_folder[folder] = sum(min(size, old_size) for old_size in old_sizes)
    return bytes_by_folder


def load_record(repo: str, fmt: str) -> str:
    """Return the file with the record of a load."""
    return f"results/loaded/{repo}/{fmt}.json"


def pack_record(repo: str, fmt: str) -> str:
    """Return the file with the record of a packed repository."""
    return f"results/packed/{repo}/{fmt}.json"


def has_dump(dump: DumpRecord, revisions: int) -> bool:
    """Return True if a dump file is unchanged, and ends with the revision `revisions` or the youngest."""
    # A repository whose youngest revision is 300 has no revision 500 to dump.
    expected_last = min(revisions, dump["youngest"])
    is_unchanged = dump["state"] == repository.file_state(Path(dump["path"]))
    return is_unchanged and dump["last"] == expected_last


def missing_copies(
    workdir: Path,
    variants: Sequence[Variant],
    copies: int,
    fragmentation_kib: float,
    checked_files: float = math.inf,
) -> dict[tuple[Variant, int], str]:
    """Return the missing or changed copies, each with the reason: {(variant, 1): "it does not exist"}.

    Each variant has copies 1 to `copies` in the work folder. If all copies have more than `checked_files`
    files, only random shards (folders of revisions) with about so many files are checked. Folders that are no
    shards are checked in any case. A copy that was made with another `fragmentation_kib` counts as missing.
    """
    metadata_by_copy: dict[tuple[Variant, int], CopyMetadata] = {}
    for variant in variants:
        for number in range(1, copies + 1):
            path = repository.copy_path(workdir, variant.name, number)
            metadata_by_copy[variant, number] = repository.read_metadata(path)
    total_files = sum(metadata.get("files", 0) for metadata in metadata_by_copy.values())

    missing = {}
    for (variant, number), metadata in metadata_by_copy.items():
        # The number of shards to check; None for all.
        shards = None
        if total_files > checked_files:
            store = variant.system.store
            # The keys of `state` are the folders of the copy. is_sampled() is true for shards.
            folders = metadata.get("state", {})
            all_shards = [folder for folder in folders if store.is_sampled(folder)]
            shards = math.ceil(checked_files / total_files * len(all_shards))
        path = repository.copy_path(workdir, variant.name, number)
        problem = repository.problem_with(path, metadata, variant, number, shards)
        if not problem and metadata.get("fragmentation_kib") != fragmentation_kib:
            problem = "it was made with another `fragmentation_kib`"
        if problem:
            missing[variant, number] = problem
    return missing


def loaded_path(record: LoadRecord) -> Path | None:
    """Return the loaded repository of a record; None if it is gone or changed."""
    fmt, packing = record["format"], record["packing"]
    path = Path(record["path"], f"{fmt}.{packing}")
    return None if system_of(fmt).store.mismatch(path, fmt, packing) else path


def staged_path(record: LoadRecord, variant: Variant) -> Path | None:
    """Return the repository that copies of a variant are made from: the loaded one, or one made from it.

    `record` is the record of the load. Return None if the repository is gone, changed, or from another
    source.
    """
    if record["identity"] != variant.identity:
        return None
    path = Path(record["path"], f"{variant.format}.{variant.state}")
    mismatch = variant.system.store.mismatch(path, variant.format, variant.state)
    return None if mismatch else path
