"""Make interleaved copies of repositories on a storage, and compare their digests."""

import hashlib
import math
import os
import random
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK
from vcsbench.prepare import verify
from vcsbench.prepare.repositories import missing_copies, staged_path
from vcsbench.records import CopyMetadata, LoadRecord, RepositoryFacts
from vcsbench.storages import folder_states
from vcsbench.storages.filesystems import check_mounted, free_bytes, naming
from vcsbench.storages.folder_states import StoredFile, read_chunks
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import repository
from vcsbench.subjects.repository import REPOSITORIES, Variant

_DIGEST_MODULUS = 1 << 128
# ext4 puts a file of 16 blocks or more near its folder, and the folders of copies far from each other. So
# large files of all copies are made in one folder and moved: their blocks stay. ext4 chooses blocks when it
# writes to the device, in another order, so each packed shard is written before the next file is made.
LARGE_BYTES, SYNCED_BYTES = 48 << 10, 1 << 20
# The servers read copies as another user. The work folder keeps other users out.
UMASK, READABLE = 0o022, 0o044
TEMPORARY = "making"
# The facts on a load that the metadata of its copies have, too.
FROM_LOAD = {"tree", "folder", "busy_file", "long_names", "reserved_names", "notes", "load_options"}
REMEDY = "lower `copies` or the scale, or use another folder in `storages`"
_COPY_NAME = re.compile(r"\.?[\w.-]+\.\d+(\.json(\.new)?)?")


@dataclass(frozen=True)
class CopySettings:
    """The settings of copies on a storage."""

    # The number of copies of each variant.
    copies: int
    # The mean size of the spacers between steps in KiB, 0 without spacers, and the seed of the sizes.
    fragmentation_kib: float
    seed: int
    # The mount of the storage when the workflow run began (filesystems.mounted_at).
    mounted: Sequence[str]


class CopyJob(NamedTuple):
    """A copy to make, the files of its source (Store.list_files), and the step that finishes the copy.

    `finish(destination, files)` is called with the copied files in place.
    """

    source: Path
    destination: Path
    files: Sequence[StoredFile]
    finish: Callable[[Path, Sequence[StoredFile]], None] | None = None


@dataclass(frozen=True)
class PlannedCopy:
    """A missing copy: its variant, its number (from 1), and the job that makes it."""

    variant: Variant
    number: int
    job: CopyJob


class Content(NamedTuple):
    """The digest of all files of a repository, and its state (read_state) when they were read."""

    digest: str
    state: dict[str, str]


# The record of each load, by repository and format.
Loads = Mapping[tuple[str, str], LoadRecord]


def read_content(root: Path) -> Content:
    """Return one digest of the paths and contents of a repository's files, and the state of each folder.

    The state is a digest of the names, modes, sizes and times in a folder: {"db": "9f86..."}. A later change
    is found by the state, without another reading of the files.
    """
    # A sum of digests does not depend on the order in which the files are read.
    total = 0
    state: dict[str, str] = {}
    for folder, entries in folder_states.walk(root):
        state[folder] = folder_states.folder_state(entries)
        for name, status in entries:
            if stat.S_ISDIR(status.st_mode):
                continue
            relative = folder_states.join(folder, name)
            # Without the path in the digest, an exchange of two files would not change the sum.
            digest = hashlib.blake2b(os.fsencode(relative) + b"\0", digest_size=16)
            for chunk in read_chunks(f"{root}/{relative}", status.st_size):
                digest.update(chunk)
            total += int.from_bytes(digest.digest(), "big")
    return Content(f"{total % _DIGEST_MODULUS:032x}", state)


def copy_and_compare(
    jobs: Sequence[CopyJob], temporary: Path, *, fragmentation_kib: float, seed: int
) -> list[Content]:
    """Make the copies of all jobs, compare them with their sources, and return the content of each copy.

    All copies grow together, with spacers between them (interleave). `temporary` is a folder on their
    storage, which the caller removes. Raise OSError if a copy differs from its source.
    """
    # The servers, which run as another user, have to read the copies.
    previous_umask = os.umask(UMASK)
    try:
        interleave(jobs, temporary, fragmentation_kib=fragmentation_kib, seed=seed)
        for job in jobs:
            # For git, this step sets the times of packs, because git prefers the youngest pack.
            if job.finish:
                job.finish(job.destination, job.files)
    finally:
        os.umask(previous_umask)
    # The metadata are written after this sync. So after a power cut, a copy with metadata is complete.
    with progress.stage("writing the copies to the device"):
        os.sync()
    # Several copies have the same source, which is read once.
    sources = list(dict.fromkeys(job.source for job in jobs))
    destinations = [job.destination for job in jobs]
    contents = []
    with (
        progress.stage("checking copies", len(jobs), "copies") as stage,
        # Python lets other threads run while one reads a file, or hashes a large piece of it.
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        content_by_source = dict(zip(sources, pool.map(read_content, sources), strict=True))
        for job, content in zip(jobs, pool.map(read_content, destinations), strict=True):
            if content.digest != content_by_source[job.source].digest:
                raise OSError(f"{job.destination} is not the same as {job.source}")
            contents.append(content)
            stage.done += 1
    return contents


def interleave(
    jobs: Sequence[CopyJob], temporary: Path, *, fragmentation_kib: float, seed: int
) -> None:
    """Make all copies at once: step 1 of each copy, then step 2 of each copy, and so on.

    A step is a revision, or a shard (a folder of revisions) of a packed copy. So the files lie on the device
    as if the repositories had grown together, and no copy has a better place than the others. As in the
    published study, there is a spacer between two steps: a file in the folder `temporary` on the same
    storage, with a random size from 0 to twice `fragmentation_kib` (0: no spacers).
    """
    spacer_sizes = random.Random(seed)
    for job in jobs:
        # Empty folders are made, too: Subversion requires db/transactions, for example.
        for folder, _ in folder_states.walk(job.source):
            (job.destination / folder).mkdir(parents=True, exist_ok=True)

    files = sorted((file.step, index, file) for index, job in enumerate(jobs) for file in job.files)
    previous_step = None
    with progress.stage("copying", len(files), "files") as stage:
        for number, (step, index, file) in enumerate(files):
            stage.done = number
            # A step may have several files: a revision, and its properties. Only its first one has a spacer.
            step_of_copy = (step, index)
            begins_later_step = previous_step is not None and previous_step != step_of_copy
            if fragmentation_kib and begins_later_step:
                size = round(spacer_sizes.uniform(0, 2 * fragmentation_kib * 1024))
                _write(f"{temporary}/spacer{number}", _random_chunks(size), mode=0o644)
            previous_step = step_of_copy
            _copy_file(jobs[index], file, temporary)


def _copy_file(job: CopyJob, file: StoredFile, temporary: Path) -> None:
    """Copy a file so that it lies on the device after the previously copied one, also on ext4."""
    chunks = read_chunks(f"{job.source}/{file.name}", file.size)
    destination = f"{job.destination}/{file.name}"
    # ext4 puts a large file near its folder, so all are made in the same one. A moved file keeps its place.
    is_large = file.size >= LARGE_BYTES
    path = f"{temporary}/large" if is_large else destination
    # ext4 chooses the place of a file when it writes to the device, perhaps after a later file.
    is_synced = file.size >= SYNCED_BYTES
    _write(path, chunks, mode=file.mode | READABLE, is_synced=is_synced)
    if is_large:
        os.rename(path, destination)


def _random_chunks(size: int) -> Iterator[bytes]:
    # A file system with compression would store zeros, for example, in less space.
    for start in range(0, size, CHUNK):
        yield os.urandom(min(CHUNK, size - start))


def _write(path: str, chunks: Iterable[bytes], *, mode: int, is_synced: bool = False) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.writelines(chunks)
        if is_synced:
            file.flush()
            os.fdatasync(file.fileno())


def make_copies(
    workdir: WorkDir, variants: Sequence[Variant], loads: Loads, settings: CopySettings
) -> dict[str, RepositoryFacts]:
    """Make the missing copies of each variant, and return the facts on each variant: {"ruby.f7.pack": ...}.

    The loaded repositories that are copied are verified at the same time. Raise UserError if the space is too
    small, and verify.DamagedError if a loaded repository is damaged. After an error, no incomplete copy is
    left.
    """
    # Errors of the operating system without a path, as on a full disk, get the path of the work folder.
    with naming(workdir.path):
        workdir.make(REPOSITORIES)
        # A killed job may have left its temporary files.
        workdir.remove(TEMPORARY)
        _remove_incomplete(workdir)
        planned = _plan_copies(workdir.path, variants, loads, settings)
        jobs = [copy.job for copy in planned]
        # A changed copy counts as missing. It is removed before the space is checked, because it takes some.
        for job in jobs:
            _remove_copy(workdir, job.destination)
        _check_space(workdir.path, jobs, settings.fragmentation_kib)
        if jobs:
            _make_batch(workdir, planned, loads, settings)
        # Before a cold run, the client runs on an empty repository of its system, so that it is itself warm.
        for system in {variant.system for variant in variants}:
            if not repository.empty_copy_ok(workdir.path, system):
                empty = workdir.path / REPOSITORIES / system.empty_name
                _remove_copy(workdir, empty)
                system.store.create_empty(empty)
                repository.write_metadata(empty, {"state": folder_states.read_state(empty)})
    # All copies of a variant have the same facts.
    facts = {}
    for variant in variants:
        first_copy = repository.copy_path(workdir.path, variant.name, 1)
        facts[variant.name] = repository.published_metadata(repository.read_metadata(first_copy))
    return facts


def _remove_incomplete(workdir: WorkDir) -> None:
    """Remove the copies that a killed job left incomplete: those without metadata, or metadata alone.

    Other files, which a user has put into the folder, stay.
    """
    for path in sorted((workdir.path / REPOSITORIES).iterdir()):
        if not _COPY_NAME.fullmatch(path.name):
            continue
        # The metadata are in ruby.f7.pack.1.json, which is written under the name .ruby.f7.pack.1.json.new.
        is_unfinished_write = path.name.endswith(".new")
        copy = path.with_name(path.name.lstrip(".").removesuffix(".new").removesuffix(".json"))
        if is_unfinished_write or not repository.read_metadata(copy) or not copy.exists():
            workdir.remove(REPOSITORIES, path.name)


def _plan_copies(
    folder: Path, variants: Sequence[Variant], loads: Loads, settings: CopySettings
) -> list[PlannedCopy]:
    """Return the missing copies of variants in a work folder, each with the job that makes it.

    A variant is a repository in one format and packing. The source of its copies is the loaded or packed
    repository or, if that is gone, the first intact copy. Raise UserError if there is no source.
    """
    # The keys are pairs of a variant and the number of a copy. All files of the copies are checked.
    missing = missing_copies(folder, variants, settings.copies, settings.fragmentation_kib)
    planned = []
    for variant, missing_number in missing:
        path_by_number: dict[int, Path] = {}
        for number in range(1, settings.copies + 1):
            path_by_number[number] = repository.copy_path(folder, variant.name, number)
        intact_copies = [
            path for number, path in path_by_number.items() if (variant, number) not in missing
        ]
        source = staged_path(loads[variant.repo, variant.format], variant)
        if not source and intact_copies:
            source = intact_copies[0]
        if not source:
            # The plan of this run has checked only a sample of the files. If it has missed the damage, this
            # run does not load the repository. Without metadata, the copies are missing for the next run.
            for path in path_by_number.values():
                repository.metadata_file(path).unlink(missing_ok=True)
            raise UserError(
                f"{folder}: no copy of {variant.name} is intact, and the loaded repository is "
                f"gone or was changed. Run again to load it again."
            )
        store = variant.system.store
        files = store.list_files(source)
        job = CopyJob(source, path_by_number[missing_number], files, store.finish_copy)
        planned.append(PlannedCopy(variant, missing_number, job))
    return planned


def _remove_copy(workdir: WorkDir, copy: Path) -> None:
    # A copy without metadata counts as incomplete, so the metadata are removed first.
    workdir.remove(REPOSITORIES, repository.metadata_file(copy).name)
    workdir.remove(REPOSITORIES, copy.name)


def _check_space(path: Path, jobs: Sequence[CopyJob], fragmentation_kib: float) -> None:
    """Print the space that copies and spacers need. Raise UserError if the storage at `path` has less."""
    status = os.statvfs(path)
    block_bytes = status.f_frsize
    # If the storage is in RAM, the available memory is a limit, too.
    available_bytes = free_bytes(path)
    files = sum(len(job.files) for job in jobs)
    blocks = sum(math.ceil(file.size / block_bytes) for job in jobs for file in job.files)
    # There is a spacer for each step (interleave).
    steps = sum(len({file.step for file in job.files}) for job in jobs)
    spacer_bytes = round(steps * fragmentation_kib * 1024)
    needed_bytes = blocks * block_bytes + spacer_bytes

    size_text = words.size(needed_bytes)
    if spacer_bytes:
        size_text += f", spacers of {words.size(spacer_bytes)} included"
    number = words.count_of(len(jobs), "copy needs", "copies need")
    free = words.size(available_bytes)
    print(f"{number} {size_text}; {path} has {free}", file=sys.stderr, flush=True)
    # btrfs makes inodes as it needs them, and reports 0 of 0.
    has_too_few_inodes = status.f_files > 0 and files > status.f_favail
    if needed_bytes > available_bytes or has_too_few_inodes:
        fewer_spacers = "lower `fragmentation_kib`, " if spacer_bytes else ""
        raise UserError(
            f"{path}: the copies need {size_text} in {files} files, and there are {free} and "
            f"{status.f_favail} files free. Free some space, {fewer_spacers}or {REMEDY}, and run again."
        )


def _make_batch(
    workdir: WorkDir, planned: Sequence[PlannedCopy], loads: Loads, settings: CopySettings
) -> None:
    """Make planned copies, verify their sources at the same time, and write the copies' metadata last.

    Raise OSError if a copy differs from its source, and UserError if the storage was unmounted or a source is
    damaged. After any error, all of these copies are removed.
    """
    jobs = [copy.job for copy in planned]
    try:
        temporary = workdir.make(TEMPORARY)
        # The end of this block raises DamagedError for damage.
        with verify.verifying(_folders_of_loaded_sources(planned, loads)):
            contents = copy_and_compare(
                jobs,
                temporary,
                fragmentation_kib=settings.fragmentation_kib,
                seed=settings.seed,
            )
        # If the storage was unmounted after the run began, the copies are on the disk below its mount point.
        check_mounted(workdir.path, settings.mounted, "the workflow run began")
        _check_copied_sources(jobs, contents)
        for copy, content in zip(planned, contents, strict=True):
            load = loads[copy.variant.repo, copy.variant.format]
            metadata = _describe_copy(copy, load, content, settings.fragmentation_kib)
            repository.write_metadata(copy.job.destination, metadata)
    except BaseException:
        for job in jobs:
            _remove_copy(workdir, job.destination)
        raise
    finally:
        workdir.remove(TEMPORARY)


def _folders_of_loaded_sources(planned: Sequence[PlannedCopy], loads: Loads) -> list[Path]:
    """Return the folders of the loaded repositories from which copies are made, such as loaded/ruby/f7.

    All other sources are copies themselves, which _check_copied_sources() checks.
    """
    folders = set()
    for copy in planned:
        load_folder = Path(loads[copy.variant.repo, copy.variant.format]["path"])
        is_loaded = copy.job.source.parent == load_folder
        if is_loaded:
            folders.add(load_folder)
    return sorted(folders)


def _check_copied_sources(jobs: Sequence[CopyJob], contents: Sequence[Content]) -> None:
    """Raise UserError if a source that is itself a copy has changed since it was made.

    `contents` has the content of each new copy, which equals that of its source. The damaged source loses its
    metadata, so that the next run makes it again.
    """
    for job, content in zip(jobs, contents, strict=True):
        # Only copies have metadata, with the digest of their files from when they were made.
        source_metadata = repository.read_metadata(job.source)
        if source_metadata and source_metadata["digest"] != content.digest:
            repository.metadata_file(job.source).unlink()
            raise UserError(
                f"{job.source}: its files have other bytes than were written, though none was written "
                f"to since. Check the device, and run again to make the copy again."
            )


def _describe_copy(
    copy: PlannedCopy, load: LoadRecord, content: Content, fragmentation_kib: float
) -> CopyMetadata:
    """Return the metadata of a new copy: {"repo": "ruby", "format": "f7", "copy": 1, ...}.

    `load` is the record of the load of its repository, and `content` was read from the copy.
    """
    variant, job = copy.variant, copy.job
    facts_on_load = {key: value for key, value in load.items() if key in FROM_LOAD}
    metadata: dict[str, object] = {
        "repo": variant.repo,
        "identity": variant.identity,
        # Facts of the label, such as the packing, and of the files, such as the youngest revision.
        **variant.system.describe(variant.format, variant.state),
        **variant.system.store.facts(job.destination),
        **facts_on_load,
        "variant": variant.name,
        "files": len(job.files),
        "bytes": sum(file.size for file in job.files),
        "fragmentation_kib": fragmentation_kib,
        "digest": content.digest,
        "state": content.state,
        "copy": copy.number,
    }
    return cast("CopyMetadata", metadata)
