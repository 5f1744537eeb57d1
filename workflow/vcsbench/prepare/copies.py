"""Make interleaved copies of repositories on a storage, and compare their digests."""

import hashlib
import os
import random
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, cast

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK
from vcsbench.prepare import verify
from vcsbench.prepare.repositories import missing_copies, staged_path
from vcsbench.records import CopyMetadata, LoadRecord, RepositoryFacts
from vcsbench.storages.filesystems import check_mounted, naming
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.fsfs import read_chunks
from vcsbench.subjects.repository import (
    EMPTY,
    REPOSITORIES,
    Variant,
    copy_path,
    empty_copy_ok,
    metadata_file,
    published_metadata,
    read_metadata,
    write_metadata,
)

_DIGEST_MODULUS = 1 << 128
# ext4 puts a file of 16 blocks or more near its folder, and the folders of copies far from each other. So
# large files of all copies are made in one folder and moved: their blocks stay. ext4 chooses blocks when it
# writes to the device, in another order, so each packed shard is written before the next file is made.
LARGE_BYTES, SYNCED_BYTES = 48 << 10, 1 << 20
# The servers read copies as another user. The work folder keeps other users out.
UMASK, READABLE = 0o022, 0o044
TEMPORARY = "making"
# The facts on a load that the metadata of its copies have, too.
FROM_LOAD = ("tree", "folder", "long_names", "reserved_names", "notes", "load_options")
REMEDY = "lower `copies` or the scale, or use another folder in `storages`"
_COPY_NAME = re.compile(r"\.?[\w.-]+\.\d+(\.json(\.new)?)?")


class CopyJob(NamedTuple):
    """A copy to make, and the files of its source (fsfs.list_files)."""

    source: Path
    destination: Path
    files: Sequence[fsfs.RepositoryFile]


class Content(NamedTuple):
    """The digest of all files of a repository, and its state (fsfs.read_state) when they were read."""

    digest: str
    state: dict[str, str]


def read_content(repository: Path) -> Content:
    """Return the content of a repository. The sum of the digests of its files does not depend on an order."""
    total, state = 0, {}
    for folder, entries in fsfs.walk(repository):
        state[folder] = fsfs.folder_state(entries)
        for name, status in entries:
            if not stat.S_ISDIR(status.st_mode):
                relative = fsfs.join(folder, name)
                digest = hashlib.blake2b(os.fsencode(relative) + b"\0", digest_size=16)
                for chunk in read_chunks(f"{repository}/{relative}", status.st_size):
                    digest.update(chunk)
                total += int.from_bytes(digest.digest(), "big")
    return Content(f"{total % _DIGEST_MODULUS:032x}", state)


def copy_and_compare(
    jobs: Sequence[CopyJob], temporary: Path, fragmentation_kib: float, seed: int
) -> list[Content]:
    """Make copies with interleave(), and return their content. Raise OSError if a digest differs.

    The caller removes the folder `temporary`, which is on the same storage.
    """
    umask = os.umask(UMASK)
    try:
        interleave(jobs, temporary, fragmentation_kib, seed)
    finally:
        os.umask(umask)
    with progress.stage("writing the copies to the device"):
        os.sync()
    sources = list(dict.fromkeys(job.source for job in jobs))
    contents = []
    with (
        progress.stage("checking copies", len(jobs), "copies") as at,
        # Reads and digests of large files run in parallel.
        ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool,
    ):
        expected = dict(zip(sources, pool.map(read_content, sources), strict=True))
        destinations = [job.destination for job in jobs]
        for job, content in zip(jobs, pool.map(read_content, destinations), strict=True):
            if content.digest != expected[job.source].digest:
                raise OSError(f"{job.destination} is not the same as {job.source}")
            contents.append(content)
            at.done += 1
    return contents


def interleave(
    jobs: Sequence[CopyJob], temporary: Path, fragmentation_kib: float, seed: int
) -> None:
    """Make all copies at once, revision by revision (packed: shard by shard), as if they had grown together.

    With `fragmentation_kib`, a file of random size (0 to twice this mean) is written to `temporary` between
    two steps, as in the published study.
    """
    sizes = random.Random(seed)
    for job in jobs:
        # Empty folders, too: Subversion requires db/transactions.
        for folder, _ in fsfs.walk(job.source):
            (job.destination / folder).mkdir(parents=True, exist_ok=True)
    previous = None
    steps = sorted((file.revision, i, file) for i, job in enumerate(jobs) for file in job.files)
    with progress.stage("copying", len(steps), "files") as at:
        for at.done, (revision, index, file) in enumerate(steps):
            if fragmentation_kib and previous not in (None, (revision, index)):
                size = round(sizes.uniform(0, 2 * fragmentation_kib * 1024))
                spacer = (os.urandom(min(CHUNK, size - n)) for n in range(0, size, CHUNK))
                _write(f"{temporary}/spacer{at.done}", spacer, 0o644)
            previous = revision, index
            job = jobs[index]
            chunks = read_chunks(f"{job.source}/{file.name}", file.size)
            destination = f"{job.destination}/{file.name}"
            path = f"{temporary}/large" if file.size >= LARGE_BYTES else destination
            _write(path, chunks, file.mode | READABLE, file.size >= SYNCED_BYTES)
            if path != destination:
                os.rename(path, destination)


def _write(path: str, chunks: Iterable[bytes], mode: int, is_synced: bool = False) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.writelines(chunks)
        if is_synced:
            file.flush()
            os.fdatasync(file.fileno())


def make_copies(
    workdir: WorkDir,
    variants: Sequence[Variant],
    copies: int,
    loaded: Mapping[tuple[str, str], LoadRecord],
    fragmentation_kib: float,
    seed: int,
    mounted: Sequence[str],
) -> dict[str, RepositoryFacts]:
    """Make the missing ones of `copies` copies of each variant, and return the metadata of each variant.

    `loaded` has the record of each load, by repository and format, `mounted` the mount of the storage when
    the workflow run began. Loaded repositories are verified at the same time.
    Raise UserError without enough space, verify.DamagedError for damage. No incomplete copy is kept.
    """
    with naming(workdir.path):
        workdir.make(REPOSITORIES)
        workdir.remove(TEMPORARY)
        for path in sorted((workdir.path / REPOSITORIES).iterdir()):
            copy = path.with_name(path.name.lstrip(".").removesuffix(".new").removesuffix(".json"))
            incomplete = path.name.endswith(".new") or not read_metadata(copy) or not copy.exists()
            if _COPY_NAME.fullmatch(path.name) and incomplete:
                workdir.remove(REPOSITORIES, path.name)
        missing = missing_copies(
            workdir.path, variants, copies, fragmentation_kib=fragmentation_kib
        )
        jobs = {}
        for variant, number in missing:
            paths = [copy_path(workdir.path, variant.name, n) for n in range(1, copies + 1)]
            intact = [path for n, path in enumerate(paths, 1) if (variant, n) not in missing]
            source = staged_path(loaded[variant.repo, variant.format], variant) or next(
                iter(intact), None
            )
            if not source:
                for path in paths:
                    metadata_file(path).unlink(missing_ok=True)
                raise UserError(
                    f"{workdir.path}: no copy of {variant.name} is intact, and the loaded repository is "
                    f"gone or was changed. Run again to load it again."
                )
            jobs[variant, number] = CopyJob(source, paths[number - 1], fsfs.list_files(source))
        for job in jobs.values():
            _remove_copy(workdir, job.destination)
        _check_space(workdir.path, list(jobs.values()), fragmentation_kib)
        if jobs:
            _make_batch(workdir, jobs, loaded, fragmentation_kib, seed, mounted)
        if not empty_copy_ok(workdir.path):
            empty = workdir.path / REPOSITORIES / EMPTY
            _remove_copy(workdir, empty)
            fsfs.create(empty, "f7")
            write_metadata(empty, {"state": fsfs.read_state(empty)})
    return {
        v.name: published_metadata(read_metadata(copy_path(workdir.path, v.name, 1)))
        for v in variants
    }


def _remove_copy(workdir: WorkDir, copy: Path) -> None:
    # The metadata first: an incomplete copy has none.
    workdir.remove(REPOSITORIES, metadata_file(copy).name)
    workdir.remove(REPOSITORIES, copy.name)


def _check_space(path: Path, jobs: Sequence[CopyJob], fragmentation_kib: float) -> None:
    status = os.statvfs(path)
    block, free = status.f_frsize, status.f_bavail * status.f_frsize
    files = [file for job in jobs for file in job.files]
    steps = sum(len({file.revision for file in job.files}) for job in jobs)
    spacers = round(steps * fragmentation_kib * 1024)
    need = sum(-(-file.size // block) * block for file in files) + spacers
    needed = words.size(need)
    needed += f", spacers of {words.size(spacers)} included" if spacers else ""
    number = words.count_of(len(jobs), "copy needs", "copies need")
    print(f"{number} {needed}; {path} has {words.size(free)}", file=sys.stderr, flush=True)
    if need > free or (status.f_files and len(files) > status.f_favail):
        lower = "lower `fragmentation_kib`, " if spacers else ""
        raise UserError(
            f"{path}: the copies need {needed} in {len(files)} files, and there are {words.size(free)} and "
            f"{status.f_favail} files free. Free some space, {lower}or {REMEDY}, and run again."
        )


def _make_batch(
    workdir: WorkDir,
    jobs: Mapping[tuple[Variant, int], CopyJob],
    loaded: Mapping[tuple[str, str], LoadRecord],
    fragmentation_kib: float,
    seed: int,
    mounted: Sequence[str],
) -> None:
    # Copies get their metadata, and can be measured, only after their sources are verified.
    staged = {Path(loaded[variant.repo, variant.format].get("path", "")) for variant, _ in jobs}
    sources = {job.source.parent for job in jobs.values()}
    try:
        with verify.verifying(sorted(staged & sources)):
            temporary = workdir.make(TEMPORARY)
            contents = copy_and_compare([*jobs.values()], temporary, fragmentation_kib, seed)
        check_mounted(workdir.path, mounted, "the workflow run began")
        for job, content in zip(jobs.values(), contents, strict=True):
            # A copy that was copied again may have other bytes than when it was made.
            of_source = read_metadata(job.source)
            if of_source and of_source["digest"] != content.digest:
                metadata_file(job.source).unlink()
                raise UserError(
                    f"{job.source}: its files have other bytes than were written, though none was written "
                    f"to since. Check the device, and run again to make the copy again."
                )
        for ((variant, copy), job), content in zip(jobs.items(), contents, strict=True):
            record, shape = loaded[variant.repo, variant.format], fsfs.check_shape(job.destination)
            metadata = cast(
                "CopyMetadata",
                {
                    **variant._asdict(),
                    **{key: value for key, value in record.items() if key in FROM_LOAD},
                    "variant": variant.name,
                    "youngest": shape.youngest,
                    "packed_shards": shape.packed,
                    "files": len(job.files),
                    "bytes": sum(file.size for file in job.files),
                    "fragmentation_kib": fragmentation_kib,
                    "digest": content.digest,
                    "state": content.state,
                    "copy": copy,
                },
            )
            write_metadata(job.destination, metadata)
    except BaseException:
        for job in jobs.values():
            _remove_copy(workdir, job.destination)
        raise
    finally:
        workdir.remove(TEMPORARY)
