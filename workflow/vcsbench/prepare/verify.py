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

MARK = "verified"
THREADS = 2
_VERIFIED = re.compile(r"\* Verified revision (\d+)")
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"
AGAIN = "Run again to make it again."


class DamagedError(UserError):
    """A loaded repository is damaged. `staging` is the folder that it was loaded into."""

    def __init__(self, staging: Path, message: str) -> None:
        super().__init__(message)
        self.staging = staging


@contextlib.contextmanager
def verifying(staging: Sequence[Path]) -> Iterator[None]:
    """Verify the repositories in staging folders during the `with` block, and wait for the end.

    Folders that were verified before are skipped. Raise DamagedError for a damaged repository.
    """
    stop = threading.Event()
    unverified = [folder for folder in staging if not (folder / MARK).exists()]
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            futures = [
                pool.submit(_run_task, folder, fmt, task)
                for folder in unverified
                for fmt in sorted({path.name.partition(".")[0] for path in folder.glob("*.*")})
                for task in _tasks(folder, fmt, stop)
            ]
            yield
            for future in futures:
                future.result()
        finally:
            stop.set()
    for folder in unverified:
        (folder / MARK).touch()


def verify_all(staging: Path) -> None:
    with verifying([staging]):
        pass


def _check(stop: threading.Event) -> None:
    if stop.is_set():
        raise CancelledError


def _run_task(staging: Path, fmt: str, task: Callable[[], None]) -> None:
    try:
        task()
    except UserError as error:
        source = f"The repository that this was copied from is damaged, too: {error}"
        raise DamagedError(staging, source if fmt == AS_IS else str(error)) from error


def _tasks(staging: Path, fmt: str, stop: threading.Event) -> list[Callable[[], None]]:
    plain, partly, packed = (
        staging / f"{fmt}.{packing}" for packing in (NOT_PACKED, PARTLY_PACKED, PACKED)
    )
    verified = [path for path in (packed, partly) if path.exists()] or [plain]
    tasks: list[Callable[[], None]] = [partial(_verify, path, stop) for path in verified]
    if plain.exists() and packed.exists():
        tasks.append(partial(_compare, plain, packed, stop))
    return tasks


def _verify(path: Path, stop: threading.Event, *options: str) -> None:
    pattern = _METADATA if METADATA_ONLY in options else _VERIFIED
    _check(stop)
    with progress.stage("verifying", fsfs.youngest(path), "revisions") as at:
        count = at.follow(pattern)

        def on_line(line: str) -> None:
            _check(stop)
            count(line)

        fsfs.run_svnadmin("verify", *options, path, on_line=on_line)


def _compare(plain: Path, packed: Path, stop: threading.Event) -> None:
    shape = fsfs.check_shape(packed)
    if shape.is_logical:
        _verify(plain, stop, METADATA_ONLY)
    else:
        _compare_bytes(plain, packed, shape.packed, stop)
    # No checksum covers revision properties.
    if _digest_of_properties(plain) != _digest_of_properties(packed):
        raise UserError(
            f"{packed}: differs from {plain.name} in the properties of a revision. {AGAIN}"
        )


def _digest_of_properties(path: Path) -> bytes:
    def read(output: IO[bytes]) -> bytes:
        digest = hashlib.blake2b()
        for line in output:
            digest.update(line)
        return digest.digest()

    return fsfs.read_output(read, "dump-revprops", "-q", path)


def _compare_bytes(plain: Path, packed: Path, shards: int, stop: threading.Event) -> None:
    size, last = read_shape(plain).shard, fsfs.youngest(plain)

    def revision_file(path: Path, revision: int) -> Path:
        return path / "db" / "revs" / fsfs.revision_file(revision, size)

    with progress.stage("comparing", last, "revisions") as at:
        for shard in range(shards):
            _check(stop)
            at.done = first = shard * size
            parts = [revision_file(plain, revision) for revision in range(first, first + size)]
            _check_concatenation(parts, packed / "db" / "revs" / f"{shard}.pack" / "pack")
        for at.done in range(shards * size, last + 1):
            _check_concatenation([revision_file(plain, at.done)], revision_file(packed, at.done))


def _check_concatenation(parts: Sequence[Path], whole: Path) -> None:
    with whole.open("rb") as file:
        for part in parts:
            for chunk in fsfs.read_chunks(str(part), part.stat().st_size):
                if file.read(len(chunk)) != chunk:
                    raise UserError(
                        f"{part}: has other bytes than {whole}, which was made from it. {AGAIN}"
                    )
        if file.read(1):
            raise UserError(f"{whole}: has more revisions than its source. {AGAIN}")
