"""Verify loaded Subversion repositories, each item once.

`svnadmin verify` takes a third of the processor time of a load, and more with 250,000 revisions. A packed
repository has the same items as its unpacked source. The packed one is verified, and the other one is
compared with it, which takes a tenth of the time:

- Logical addressing: `svnadmin verify --metadata-only` compares all bytes of each item with a checksum.
- Physical addressing has no such checksums. A packed shard is the concatenation of its revision files. This
  also finds some changed bits that verify does not find.
"""

import hashlib
import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.formats import NOT_PACKED, PACKED, PARTLY_PACKED, read_shape
from vcsbench.prepare.preparation import Task, check_stop
from vcsbench.storages.folder_states import read_chunks
from vcsbench.systems import fsfs

_VERIFIED = re.compile(r"\* Verified revision (\d+)")
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"
AGAIN = "Run again to make it again."


def list_verifications(staging: Path, fmt: str, stop: threading.Event) -> list[Task]:
    """Return the tasks that verify the repositories of one format in a folder, such as f7.nopack and f7.pack.

    The folder has one loaded repository, which is not packed, partly packed or packed, and may have a packed
    copy of that. The tasks raise UserError for damage, and CancelledError soon after `stop` is set.
    """
    plain = staging / f"{fmt}.{NOT_PACKED}"
    partly_packed = staging / f"{fmt}.{PARTLY_PACKED}"
    packed = staging / f"{fmt}.{PACKED}"
    verified_paths = [path for path in (packed, partly_packed) if path.exists()]
    if not verified_paths:
        verified_paths = [plain]
    tasks: list[Task] = [partial(_verify, path, stop) for path in verified_paths]
    # To compare the plain repository with its verified copy takes less time than to verify it.
    if plain.exists() and packed.exists():
        tasks.append(partial(_compare, plain, packed, stop))
    return tasks


def _verify(path: Path, stop: threading.Event, *options: str) -> None:
    """Run `svnadmin verify` on a repository, with further options such as METADATA_ONLY.

    Raise UserError if svnadmin finds damage, and CancelledError if `stop` is set before it ends.
    """
    # svnadmin prints the revision that it has reached, in different words with METADATA_ONLY.
    pattern = _METADATA if METADATA_ONLY in options else _VERIFIED
    check_stop(stop)
    with progress.stage("verifying", fsfs.youngest(path), "revisions") as stage:
        show_revision = stage.follow(pattern)

        def on_line(line: str) -> None:
            check_stop(stop)
            show_revision(line)

        fsfs.run_svnadmin("verify", *options, path, on_line=on_line)


def _compare(plain: Path, packed: Path, stop: threading.Event) -> None:
    """Raise UserError if the repository `plain`, from which `packed` was made, is damaged.

    Both consist of the same items, such as the text that a revision adds to a file. Another task reads and
    checks all contents in `packed`. So `plain` is intact if its items still are those that were packed. If
    `stop` is set, raise CancelledError.
    """
    shape = fsfs.check_shape(packed)
    if shape.is_logical:
        # Since f7, each item has a checksum of its bytes. METADATA_ONLY compares all items with theirs, and
        # saves the work of decoding the contents. An item that fits is the one that was packed.
        _verify(plain, stop, METADATA_ONLY)
    else:
        # Without these checksums, the bytes of both repositories are compared.
        _compare_bytes(plain, packed, shape.packed, stop)
    # No checksum of Subversion covers the properties of revisions (log messages).
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

    `packed` is a copy of `plain` whose first `shards` shards (folders of revisions) are packed. If `stop` is
    set, raise CancelledError before the next shard.
    """
    # 0 for a repository without shards.
    shard_size = read_shape(plain).shard
    youngest = fsfs.youngest(plain)

    def revision_file(path: Path, revision: int) -> Path:
        return path / "db" / "revs" / fsfs.revision_file(revision, shard_size)

    with progress.stage("comparing", youngest, "revisions") as stage:
        # With 1,000 revisions in a shard, 0.pack/pack has the bytes of revisions 0 to 999, one after another.
        for shard in range(shards):
            check_stop(stop)
            first = shard * shard_size
            stage.done = first
            revisions = range(first, first + shard_size)
            parts = [revision_file(plain, revision) for revision in revisions]
            _check_concatenation(parts, packed / "db" / "revs" / f"{shard}.pack" / "pack")
        # The youngest revisions are not packed.
        for revision in range(shards * shard_size, youngest + 1):
            stage.done = revision
            _check_concatenation([revision_file(plain, revision)], revision_file(packed, revision))


def _check_concatenation(parts: Sequence[Path], whole: Path) -> None:
    """Raise UserError if a file does not have the bytes of other files, one after another."""
    with whole.open("rb") as file:
        for part in parts:
            for chunk in read_chunks(str(part), part.stat().st_size):
                if file.read(len(chunk)) != chunk:
                    raise UserError(
                        f"{part}: has other bytes than {whole}, which was made from it. {AGAIN}"
                    )
        if file.read(1):
            raise UserError(f"{whole}: has more revisions than its source. {AGAIN}")
