"""What is loaded and packed is verified, nothing of it twice, and beside the copies that are made of it.

`svnadmin verify` takes a third of the processor time of the load of a small history, and more than that of
the load of one of 250,000 revisions. A packed repository holds the same items as
the one that it was made from, so one of both is verified whole: the packed one. The other is compared with
it by what costs a tenth: where revisions are addressed logically, `svnadmin verify --metadata-only` holds all
bytes of each item against the checksum that was taken when it was written; where they are addressed
physically, there is none of that, and a packed shard is the revisions' files one behind the other, byte for
byte. (That finds more than verify does, which says nothing of a turned bit in some places of these.)
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS
from vcsbench.subjects.repository import fsfs, svnadmin
from vcsbench.subjects.repository.digests import CHUNK, chunks
from vcsbench.urls import file_url, pegged

# In a folder of which all was verified.
MARK = "verified"
AT_ONCE = 2
# Into so many parts a repository is divided, if each has so many shards: svnadmin begins with empty caches.
PARTS = 16
SHARDS_EACH = 4
_VERIFIED = re.compile(r"\* Verified revision (\d+)")
# Verified as a whole, too, a repository has its metadata told of first, a line for each shard.
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"


class DamagedError(UserError):
    """A repository that was loaded is damaged; `into` is the folder that it was loaded into."""

    def __init__(self, into: Path, said: str) -> None:
        super().__init__(said)
        self.into = into


class _Stopped(Exception):
    pass


class _Stop(threading.Event):
    """Set where what was verified so far is wanted by nobody."""

    def check(self) -> None:
        """Raises _Stopped once it is set."""
        if self.is_set():
            raise _Stopped


def all_in(into: Path) -> None:
    """Verify all repositories that were loaded into a folder. A DamagedError says which is damaged."""
    with beside([into]):
        pass


@contextlib.contextmanager
def beside(loaded: Sequence[Path]) -> Iterator[None]:
    """Verify the repositories in these folders beside what is done meanwhile, and wait for it behind that.
    A folder of which all was verified once is not verified again. A DamagedError where one is damaged."""
    stop = _Stop()
    anew = [into for into in loaded if not (into / MARK).exists()]
    # svnadmin verify uses one core.
    with ThreadPoolExecutor(AT_ONCE) as pool, contextlib.ExitStack() as stages:
        try:
            verified = [
                pool.submit(_damaged, into, fmt, work)
                for into in anew
                for fmt in _formats(into)
                for work in _works(into, fmt, stop, stages)
            ]
            yield
            for future in verified:
                future.result()
        finally:
            stop.set()
    for into in anew:
        (into / MARK).touch()


def _formats(into: Path) -> list[str]:
    return sorted({path.name.partition(".")[0] for path in into.iterdir() if path.is_dir()})


def _works(
    into: Path, fmt: str, stop: _Stop, stages: contextlib.ExitStack
) -> list[Callable[[], None]]:
    """All that verifies what was loaded in a format, in any order; how far it is, is a stage until `stages`
    end."""
    plain, partly, packed = (into / f"{fmt}.{packing}" for packing in ("nopack", "partly", "pack"))
    path = next(path for path in (packed, partly, plain) if path.exists())
    ranges = _ranges(path)
    last = ranges[-1][-1]
    done = dict.fromkeys(ranges, 0)
    stages.enter_context(
        progress.stage("verifying", unit="revisions", look=lambda: (sum(done.values()), last))
    )

    def counts(revisions: range, reached: int) -> None:
        done[revisions] = reached - max(revisions[0] - 1, 0)

    works: list[Callable[[], None]]
    works = [partial(_whole, path, stop, one, partial(counts, one)) for one in ranges]
    if plain.exists() and packed.exists():
        works.append(partial(_against, plain, packed, stop))
    if partly.exists() and packed.exists():
        works.append(partial(_whole, partly, stop, range(last + 1), lambda _: None))
    return works


def _ranges(path: Path) -> list[range]:
    """The revisions of a repository in parts of whole shards, which svnadmin verifies as such. Several can
    be verified at once; the later ones take longer, and so there are more than cores."""
    last, size = fsfs.youngest(path), fsfs.shard_size(path) or 1
    shards = -(-(last + 1) // size)
    parts = max(1, min(PARTS, shards // SHARDS_EACH))
    edges = [shards * part // parts * size for part in range(parts)]
    return [range(*one) for one in pairwise([*edges, last + 1])]


def _damaged(into: Path, fmt: str, work: Callable[[], None]) -> None:
    try:
        work()
    except UserError as error:
        said = f"The repository that this was copied from is damaged, too: {error}"
        raise DamagedError(into, said if fmt == AS_IS else str(error)) from error


def _whole(
    path: Path,
    stop: _Stop,
    revisions: range,
    counts: Callable[[int], None],
    *options: str,
) -> None:
    """Verify these revisions of a repository by svnadmin, with these options of its own; `counts` is told
    which it has reached."""
    says = _METADATA if METADATA_ONLY in options else _VERIFIED
    stop.check()

    def hears(line: str) -> None:
        stop.check()
        if found := says.match(line):
            counts(int(found[1]))

    between = f"{revisions[0]}:{revisions[-1]}"
    svnadmin.run("verify", *options, "-r", between, path, hears=hears)


def _against(plain: Path, packed: Path, stop: _Stop) -> None:
    """Hold a repository that is not packed against the packed one that was made from it."""
    shape = fsfs.shape(packed)
    if shape.is_logical:
        last = shape.youngest
        with progress.stage("verifying", last, "revisions") as at:
            _whole(plain, stop, range(last + 1), partial(setattr, at, "done"), METADATA_ONLY)
    else:
        _same_bytes(plain, packed, shape.packed, stop)
    # Revision properties have no checksums anywhere.
    if _log(plain) != _log(packed):
        raise UserError(f"{plain} and {packed.name} differ in the properties of a revision")


def _log(path: Path) -> bytes:
    """A digest of all properties of all revisions."""

    def read(output: IO[bytes]) -> bytes:
        digest = hashlib.blake2b()
        while said := output.read(CHUNK):
            digest.update(said)
        return digest.digest()

    options = ("log", "--xml", "--quiet", "--with-all-revprops")
    return svnadmin.reading(read, *options, pegged(file_url(path)), program="svn")


def _same_bytes(plain: Path, packed: Path, shards: int, stop: _Stop) -> None:
    size, last = fsfs.shard_size(plain), fsfs.youngest(plain)
    with progress.stage("comparing", last, "revisions") as at:
        for shard in range(shards):
            stop.check()
            at.done = first = shard * size
            parts = [_file(plain, revision, size) for revision in range(first, first + size)]
            _same(parts, packed / "db" / "revs" / f"{shard}.pack" / "pack")
        for at.done in range(shards * size, last + 1):
            _same([_file(plain, at.done, size)], _file(packed, at.done, size))


def _same(parts: Sequence[Path], made: Path) -> None:
    with made.open("rb") as file:
        for part in parts:
            for chunk in chunks(str(part), part.stat().st_size):
                if file.read(len(chunk)) != chunk:
                    raise UserError(f"{part} has other bytes than {made}, which was made from it")
        if file.read(1):
            raise UserError(f"{made} holds more than what it was made from")


def _file(path: Path, revision: int, size: int) -> Path:
    return path / "db" / "revs" / str(revision // size) / str(revision)
