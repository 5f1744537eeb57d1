"""Verify loaded repositories, each item once, while copies are made.

`svnadmin verify` takes a third of the processor time of a load, and more with 250,000 revisions. A packed
repository has the same items as its unpacked source. The packed one is verified, and the other one is
compared with it, which takes a tenth of the time:

- Logical addressing: `svnadmin verify --metadata-only` compares all bytes of each item with a checksum.
- Physical addressing has no such checksums. A packed shard is the concatenation of its revision files. This
  also finds some changed bits that verify does not find.
"""

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, NOT_PACKED, PACKED, PARTLY_PACKED, read_shape
from vcsbench.subjects import fsfs

THREADS = 2
_VERIFIED = re.compile(r"\* Verified revision (\d+)")
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"
AGAIN = "Run again to make it again."


class DamagedError(UserError):
    """A loaded repository is damaged. `staging` is the folder that has it."""

    def __init__(self, staging: Path, message: str) -> None:
        super().__init__(message)
        self.staging = staging


@contextlib.contextmanager
def verifying(staging: Sequence[Path]) -> Iterator[None]:
    """Verify loaded repositories in threads while the `with` block runs, and wait for both at its end.

    Each folder of `staging` has one loaded repository, and perhaps its packed copy: f7.nopack and f7.pack.
    Raise DamagedError at the end of the block if a repository is damaged. If the block raises an error,
    verification stops early, and that error is raised. Repositories are verified before each use, because
    they may lie on a disk for months.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            futures = []
            for folder in staging:
                # The folder has f7.nopack, and perhaps f7.pack. Both are of the format f7, and their tasks
                # belong together, because one is compared with the other.
                formats = {path.name.partition(".")[0] for path in folder.glob("*.*")}
                for fmt in sorted(formats):
                    for task in _list_tasks(folder, fmt, stop):
                        futures.append(pool.submit(_run_task, folder, fmt, task))
            # The block of the caller runs here.
            yield
            # result() waits for a task, and raises its error.
            for future in futures:
                future.result()
        finally:
            # The end of `with` waits for all tasks, which may last hours. After an error, nobody needs them:
            # with `stop` set, they end when svnadmin prints its next line.
            stop.set()


def verify_all(staging: Path) -> None:
    """Verify the repositories in a folder. Raise DamagedError for a damaged one."""
    with verifying([staging]):
        pass


def _check_stop(stop: threading.Event) -> None:
    if stop.is_set():
        raise CancelledError


def _run_task(staging: Path, fmt: str, task: Callable[[], None]) -> None:
    """Run a task, and raise DamagedError with the folder `staging` if it finds damage."""
    try:
        task()
    except UserError as error:
        message = str(error)
        if fmt == AS_IS:
            message = f"The repository that this was copied from is damaged, too: {error}"
        raise DamagedError(staging, message) from error


def _list_tasks(staging: Path, fmt: str, stop: threading.Event) -> list[Callable[[], None]]:
    """Return the tasks that verify the repositories of one format in a folder, such as f7.nopack and f7.pack.

    `svnadmin verify` runs on the packed one only, if there is one. The other one is compared with it, which
    takes less time. The tasks raise CancelledError soon after `stop` is set.
    """
    plain = staging / f"{fmt}.{NOT_PACKED}"
    partly = staging / f"{fmt}.{PARTLY_PACKED}"
    packed = staging / f"{fmt}.{PACKED}"
    # Without a packed copy, the plain repository is verified itself. With one, verifying the copy is enough,
    # because it has all revisions of the plain one, and the two are compared below.
    verified = [path for path in (packed, partly) if path.exists()]
    if not verified:
        verified = [plain]
    tasks: list[Callable[[], None]] = [partial(_verify, path, stop) for path in verified]
    if plain.exists() and packed.exists():
        tasks.append(partial(_compare, plain, packed, stop))
    return tasks


def _verify(path: Path, stop: threading.Event, *options: str) -> None:
    """Run `svnadmin verify` on a repository, with further options such as METADATA_ONLY.

    Raise UserError if svnadmin finds damage, and CancelledError if `stop` is set before it ends.
    """
    # Both ways of verifying print the revision that they have reached, but in different words.
    pattern = _METADATA if METADATA_ONLY in options else _VERIFIED
    _check_stop(stop)
    with progress.stage("verifying", fsfs.youngest(path), "revisions") as at:
        count = at.follow(pattern)

        def on_line(line: str) -> None:
            _check_stop(stop)
            count(line)

        fsfs.run_svnadmin("verify", *options, path, on_line=on_line)


def _compare(plain: Path, packed: Path, stop: threading.Event) -> None:
    """Raise UserError if a repository and its packed copy do not have the same content.

    The packed copy is verified by another task. So the same content shows that the plain one is intact.
    """
    shape = fsfs.check_shape(packed)
    if shape.is_logical:
        _verify(plain, stop, METADATA_ONLY)
    else:
        _compare_bytes(plain, packed, shape.packed, stop)
    # No checksum of Subversion covers the properties of revisions, such as log messages. So compare them.
    if _digest_of_properties(plain) != _digest_of_properties(packed):
        raise UserError(
            f"{packed}: differs from {plain.name} in the properties of a revision. {AGAIN}"
        )


def _digest_of_properties(path: Path) -> bytes:
    """Return a digest of the properties of all revisions. A packed repository has them in other files."""

    def read(output: IO[bytes]) -> bytes:
        digest = hashlib.blake2b()
        for line in output:
            digest.update(line)
        return digest.digest()

    return fsfs.read_output(read, "dump-revprops", "-q", path)


def _compare_bytes(plain: Path, packed: Path, shards: int, stop: threading.Event) -> None:
    """Raise UserError if the files of the revisions of two repositories have different bytes.

    `packed` is a copy of `plain` whose first `shards` shards (folders of revisions) are packed. Packing joins
    the files of a shard into one: 0.pack/pack has the bytes of the revisions 0 to 999, one after another. The
    youngest revisions are not packed, and have the same files in both.
    """
    size, last = read_shape(plain).shard, fsfs.youngest(plain)

    def revision_file(path: Path, revision: int) -> Path:
        return path / "db" / "revs" / fsfs.revision_file(revision, size)

    with progress.stage("comparing", last, "revisions") as at:
        for shard in range(shards):
            _check_stop(stop)
            first = shard * size
            at.done = first
            # The files that svnadmin pack has joined to one.
            parts = [revision_file(plain, revision) for revision in range(first, first + size)]
            _check_concatenation(parts, packed / "db" / "revs" / f"{shard}.pack" / "pack")
        # The revisions after the last packed shard.
        for at.done in range(shards * size, last + 1):
            unpacked = revision_file(packed, at.done)
            _check_concatenation([revision_file(plain, at.done)], unpacked)


def _check_concatenation(parts: Sequence[Path], whole: Path) -> None:
    """Raise UserError if a file does not have the bytes of other files, one after another."""
    with whole.open("rb") as file:
        for part in parts:
            for chunk in fsfs.read_chunks(str(part), part.stat().st_size):
                if file.read(len(chunk)) != chunk:
                    raise UserError(
                        f"{part}: has other bytes than {whole}, which was made from it. {AGAIN}"
                    )
        if file.read(1):
            raise UserError(f"{whole}: has more revisions than its source. {AGAIN}")
