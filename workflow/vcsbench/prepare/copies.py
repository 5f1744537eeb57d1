"""Make interleaved copies of repositories on a storage, compare their digests, and find missing copies."""

from __future__ import annotations

import hashlib
import heapq
import math
import multiprocessing
import os
import random
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.prepare import verify
from vcsbench.storages.filesystems import explain_write_errors
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.fsfs import CHUNK, read_chunks
from vcsbench.subjects.repository import (
    EMPTY,
    REPOSITORIES,
    Variant,
    copy_path,
    empty_copy_ok,
    invalidate,
    metadata_file,
    problem_with,
    published_metadata,
    read_metadata,
    write_metadata,
)

if TYPE_CHECKING:
    from vcsbench.records import LoadRecord, RepositoryFacts

_DIGEST_MODULUS = 1 << 128
# ext4 puts a file of 16 blocks or more near its folder, and the folders of copies far from each other. So
# large files of all copies are made in one folder and moved: their blocks stay. A server moves each
# revision from a folder of transactions, too.
LARGE_BYTES = 48 << 10
# The servers read copies as another user. The work folder keeps other users out.
UMASK, READABLE = 0o022, 0o044
# The folder for temporary files while copies are made.
TEMPORARY = "making"
REMEDY = "lower `copies` or the scale, or name another folder in `storages`"
# A copy, its metadata, and metadata that was being written.
_COPY_NAME = re.compile(
    r"\.?[A-Za-z0-9][\w.-]*\.(?:f\d+|as-is)(?:-today)?(?:-to-f\d+)?\.(?:nopack|partly|pack)\.\d+"
    r"(?:\.json(?:\.new)?)?"
)


class CopyJob(NamedTuple):
    """A copy to make, and the files of its source (fsfs.list_files)."""

    source: Path
    destination: Path
    files: Sequence[fsfs.RepositoryFile]


class Content(NamedTuple):
    """The digest of all files of a repository, and its state (fsfs.read_state) when they were read."""

    digest: str
    state: dict[str, str]


class DigestSum:
    """The sum of the digests of files, which does not depend on their order."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, name: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a file unchanged. It is added after the last one."""
        digest = hashlib.blake2b(os.fsencode(name) + b"\0", digest_size=16)
        for chunk in chunks:
            digest.update(chunk)
            yield chunk
        self._sum = (self._sum + int.from_bytes(digest.digest(), "big")) % _DIGEST_MODULUS

    def hexdigest(self) -> str:
        """Return the digest of all added files."""
        return f"{self._sum:032x}"


def read_content(repository: Path) -> Content:
    """Read all files of a repository."""
    total, state = DigestSum(), {}
    for folder, entries in fsfs.walk(repository):
        state[folder] = fsfs.folder_state(entries)
        for name, status in entries:
            if not stat.S_ISDIR(status.st_mode):
                relative = fsfs.join(folder, name)
                chunks = read_chunks(f"{repository}/{relative}", status.st_size)
                for _ in total.add(relative, chunks):
                    pass
    return Content(total.hexdigest(), state)


def _read_contents(repositories: Sequence[Path]) -> list[Content]:
    """Read several repositories on all cores."""
    cores = min(len(os.sched_getaffinity(0)), len(repositories))
    with progress.stage("checking copies", len(repositories), "copies") as at:

        def count(contents: Iterable[Content]) -> Iterator[Content]:
            for content in contents:
                at.done += 1
                yield content

        if cores < 2:
            return list(count(map(read_content, repositories)))
        with multiprocessing.get_context("fork").Pool(cores) as pool:
            contents = list(count(pool.imap(read_content, repositories)))
            # A terminated worker that has just started may ignore the signal, and stay.
            pool.close()
            pool.join()
    return contents


def copy_and_compare(
    jobs: Sequence[CopyJob], temporary: Path, fragmentation_kib: float, seed: int
) -> list[Content]:
    """Make copies with interleave(), and return their content. Raise OSError if a digest differs.

    The caller removes the folder `temporary`, which is on the same storage.
    """
    umask = os.umask(UMASK)
    try:
        expected = interleave(jobs, temporary, fragmentation_kib, seed)
    finally:
        os.umask(umask)
    with progress.stage("writing the copies to the device"):
        os.sync()
    contents = _read_contents([job.destination for job in jobs])
    for job, content in zip(jobs, contents, strict=True):
        if content.digest != expected[job.source]:
            raise OSError(f"{job.destination} is not the same as {job.source}")
    return contents


def interleave(
    jobs: Sequence[CopyJob], temporary: Path, fragmentation_kib: float, seed: int
) -> dict[Path, str]:
    """Make all copies at once, revision by revision (packed: shard by shard), as if they had grown together.

    With `fragmentation_kib`, a file of random size (0 to twice this mean) is written to `temporary` between
    two steps, as in the published study. Return the digest of each source.
    """
    sizes = random.Random(seed)
    for job in jobs:
        # Empty folders, too: Subversion requires db/transactions.
        for folder, _ in fsfs.walk(job.source):
            (job.destination / folder).mkdir(parents=True, exist_ok=True)
    sources = {job.source: _Source(job.source) for job in jobs}
    previous = None
    steps = heapq.merge(
        *([(file.revision, index, file) for file in job.files] for index, job in enumerate(jobs))
    )
    with progress.stage("copying", sum(len(job.files) for job in jobs), "files") as at:
        for number, (revision, index, file) in enumerate(steps):
            if fragmentation_kib and previous not in (None, (revision, index)):
                size = round(sizes.uniform(0, 2 * fragmentation_kib * 1024))
                _write_spacer(temporary / f"spacer{number}", size)
            at.done = number
            previous = revision, index
            job = jobs[index]
            sources[job.source].copy(file, f"{job.destination}/{file.name}", temporary)
    return {path: source.digests.hexdigest() for path, source in sources.items()}


class _Source:
    """A repository that is copied several times.

    Each file is digested once. Small files are read once, because all copies of a revision are made in turn.
    """

    def __init__(self, path: Path) -> None:
        self.digests = DigestSum()
        self._path = path
        self._revision = -1
        # Digested files of the revision, with the bytes of small ones.
        self._small: dict[str, bytes] = {}

    def copy(self, file: fsfs.RepositoryFile, destination: str, temporary: Path) -> None:
        """Copy a file to a destination that does not exist."""
        if file.revision != self._revision:
            self._revision = file.revision
            self._small.clear()
        chunks = read_chunks(f"{self._path}/{file.name}", file.size)
        if file.name not in self._small:
            chunks = self.digests.add(file.name, chunks)
            self._small[file.name] = b"".join(chunks) if file.size < LARGE_BYTES else b""
        if file.size < LARGE_BYTES:
            _write(destination, [self._small[file.name]], file.mode | READABLE)
        else:
            _write(f"{temporary}/large", chunks, file.mode | READABLE)
            os.rename(f"{temporary}/large", destination)


def _write(path: str, chunks: Iterable[bytes], mode: int) -> None:
    # Few system calls, because most files are small.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        for chunk in chunks:
            while len(chunk) > (written := os.write(file, chunk)):
                chunk = chunk[written:]
    finally:
        os.close(file)


def _write_spacer(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for start in range(0, size, CHUNK):
            file.write(os.urandom(min(CHUNK, size - start)))


def missing_copies(
    workdir: Path, variants: Sequence[Variant], copies: int, files: float = math.inf
) -> dict[tuple[Variant, int], str]:
    """Return the missing or changed copies by variant and number, each with the reason in a clause.

    About `files` files are checked, in random shards; by default all.
    """
    paths = {
        (variant, number): copy_path(workdir, variant.name, number)
        for variant in variants
        for number in range(1, copies + 1)
    }
    metadata = {copy: read_metadata(path) for copy, path in paths.items()}
    total = sum(content.get("files", 0) for content in metadata.values())
    problems = {}
    for copy, path in paths.items():
        shards = None
        if total > files:
            count = sum(map(fsfs.is_shard, metadata[copy].get("state", {})))
            shards = math.ceil(files / total * count)
        problems[copy] = problem_with(path, metadata[copy], *copy, shards)
    return {copy: problem for copy, problem in problems.items() if problem}


def staged_path(record: LoadRecord, variant: Variant) -> Path | None:
    """Return the loaded repository of a variant; None if it is gone, changed, or from another source.

    `record` is the record of the load.
    """
    path = Path(record.get("path", ""), f"{variant.format}.{variant.packing}")
    is_same_source = record.get("identity") == variant.identity
    intact = is_same_source and not fsfs.mismatch(path, variant.format, variant.packing)
    return path if intact else None


@dataclass(frozen=True)
class _Batch:
    """The copies that are made together, by variant and number, and the records of the loads."""

    workdir: WorkDir
    jobs: dict[tuple[Variant, int], CopyJob]
    loaded: Mapping[str, LoadRecord]
    fragmentation_kib: float
    seed: int


def make_copies(
    workdir: WorkDir,
    variants: Sequence[Variant],
    copies: int,
    loaded: Mapping[str, LoadRecord],
    fragmentation_kib: float,
    seed: int,
) -> dict[str, RepositoryFacts]:
    """Make the missing ones of `copies` copies of each variant, and return the metadata of each variant.

    `loaded` has the record of each load, by repository. The loaded repositories are verified at the same
    time. Raise UserError without enough space, verify.DamagedError for a damaged repository. No incomplete
    copy is kept.
    """
    with explain_write_errors(workdir.path, REMEDY):
        workdir.make(REPOSITORIES)
        workdir.remove(TEMPORARY)  # of a killed run
        _remove_incomplete(workdir)
        missing = missing_copies(workdir.path, variants, copies)
        jobs = {}
        for variant, copy in missing:
            intact = [n for n in range(1, copies + 1) if (variant, n) not in missing]
            source = _source_of(workdir.path, variant, copies, intact, loaded[variant.repo])
            destination = copy_path(workdir.path, variant.name, copy)
            jobs[variant, copy] = CopyJob(source, destination, fsfs.list_files(source))
        for job in jobs.values():
            _remove_copy(workdir, job.destination)
        batch = _Batch(workdir, jobs, loaded, fragmentation_kib, seed)
        _check_space(batch)
        if jobs:
            _make_batch(batch)
        if not empty_copy_ok(workdir.path):
            empty = workdir.path / REPOSITORIES / EMPTY
            _remove_copy(workdir, empty)
            fsfs.create(empty, "f7")
            write_metadata(empty, {"state": fsfs.read_state(empty)})
    return {
        v.name: published_metadata(read_metadata(copy_path(workdir.path, v.name, 1)))
        for v in variants
    }


def _remove_incomplete(workdir: WorkDir) -> None:
    """Remove all incomplete copies of killed runs, also of variants that are not needed now."""
    for path in sorted((workdir.path / REPOSITORIES).iterdir()):
        copy = path.with_name(path.name.lstrip(".").removesuffix(".new").removesuffix(".json"))
        incomplete = path.name.endswith(".new") or not read_metadata(copy) or not copy.exists()
        if _COPY_NAME.fullmatch(path.name) and incomplete:
            workdir.remove(REPOSITORIES, path.name)


def _remove_copy(workdir: WorkDir, copy: Path) -> None:
    # The metadata first: an incomplete copy has none.
    workdir.remove(REPOSITORIES, metadata_file(copy).name)
    workdir.remove(REPOSITORIES, copy.name)


def _source_of(
    workdir: Path,
    variant: Variant,
    copies: int,
    intact: Sequence[int],
    loaded: LoadRecord,
) -> Path:
    """Return the source of new copies: the loaded repository, or an intact copy."""
    if staged := staged_path(loaded, variant):
        return staged
    if intact:
        return copy_path(workdir, variant.name, intact[0])
    for copy in range(1, copies + 1):
        invalidate(copy_path(workdir, variant.name, copy))
    raise UserError(
        f"{workdir}: no copy of {variant.name} is intact, and the loaded repository is gone or was "
        f"changed; run again: it is loaded again"
    )


def _check_space(batch: _Batch) -> None:
    path, jobs = batch.workdir.path, batch.jobs.values()
    status = os.statvfs(path)
    block = status.f_frsize
    files = [file for job in jobs for file in job.files]
    need = sum(-(-file.size // block) * block for file in files)
    # Spacers stay until all copies are made. With 250,000 revisions they are larger than the copies.
    steps = sum(len({file.revision for file in job.files}) for job in jobs)
    spacers = round(steps * batch.fragmentation_kib * 1024)
    need += spacers
    free = status.f_bavail * block
    of_spacers = f", spacers of {words.size(spacers)} included" if spacers else ""
    print(
        f"{len(jobs)} copies need {words.size(need)}{of_spacers}; {path} has {words.size(free)}",
        file=sys.stderr,
        flush=True,
    )
    lower = "lower `fragmentation_kib`, " if spacers else ""
    if need > free or (status.f_files and len(files) > status.f_favail):
        raise UserError(
            f"{path}: the copies need {words.size(need)}{of_spacers} in {len(files)} files, and there "
            f"are {words.size(free)} and {status.f_favail} files free; free some space, {lower}or "
            f"{REMEDY}, and run again"
        )


def _make_batch(batch: _Batch) -> None:
    """Make copies, and then their metadata: all or none."""
    workdir, loaded = batch.workdir, batch.loaded
    jobs = list(batch.jobs.values())
    # Copies get their metadata, and can be measured, only after their sources are verified.
    staged = {Path(loaded[variant.repo].get("path", "")) for variant, _ in batch.jobs}
    sources = {job.source.parent for job in jobs}
    try:
        with verify.verifying(sorted(staged & sources)):
            contents = copy_and_compare(
                jobs, workdir.make(TEMPORARY), batch.fragmentation_kib, batch.seed
            )
        for job, content in zip(jobs, contents, strict=True):
            _check_source(job.source, content)
        for (variant, copy), content in zip(batch.jobs, contents, strict=True):
            record, job = loaded[variant.repo], batch.jobs[variant, copy]
            shape = fsfs.read_shape(job.destination)
            write_metadata(
                job.destination,
                {
                    "variant": variant.name,
                    "repo": variant.repo,
                    "format": variant.format,
                    "packing": variant.packing,
                    "identity": variant.identity,
                    "youngest": shape.youngest,
                    "packed_shards": shape.packed,
                    "files": len(job.files),
                    "bytes": sum(file.size for file in job.files),
                    "tree": record.get("tree", ""),
                    "folder": record.get("folder", ""),
                    "long_names": record.get("long_names", 0),
                    "notes": record.get("notes", []),
                    "load_options": record.get("load_options", []),
                    "digest": content.digest,
                    "state": content.state,
                    "copy": copy,
                },
            )
    except BaseException:
        for job in jobs:
            _remove_copy(workdir, job.destination)
        raise
    finally:
        workdir.remove(TEMPORARY)


def _check_source(source: Path, content: Content) -> None:
    """Raise UserError if a copy that was copied again has other bytes than when it was made."""
    metadata = read_metadata(source)
    if metadata and metadata["digest"] != content.digest:
        invalidate(source)
        raise UserError(
            f"{source}: its files have other bytes than were written, though none was written to since: "
            f"check the device; run again, and the copy is made again"
        )
