"""Verify loaded repositories, each item once, while copies are made, and show the layout of copies.

`svnadmin verify` takes a third of the processor time of a load, and more with 250,000 revisions. A packed
repository has the same items as its unpacked source. The packed one is verified, and the other one is
compared with it, which takes a tenth of the time:

- Logical addressing: `svnadmin verify --metadata-only` compares all bytes of each item with a checksum.
- Physical addressing has no such checksums. A packed shard is the concatenation of its revision files. This
  also finds some changed bits that verify does not find.

The extents of sampled files show whether copies are interleaved on their device. A step is a revision, or a
shard of packed copies. Its position is the first extent of its file. Two copies are together if files of the
same step are much nearer (median) than two steps of one copy. Interleaved copies form one group. Packed and
unpacked copies are compared separately.
"""

import contextlib
import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import IO

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, NOT_PACKED, PACKED, PARTLY_PACKED, read_shape
from vcsbench.records import CopyLayout
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.filesystems import mount_of
from vcsbench.subjects import fsfs

THREADS = 2
_VERIFIED = re.compile(r"\* Verified revision (\d+)")
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"
AGAIN = "Run again to make it again."
SAMPLED_STEPS = 100
# The ratio is near 0 for interleaved copies, and 3 for copies made one after another.
MAX_RATIO = 0.5
# The first byte on the device of each step, by copy. All copies are packed, or none.
Positions = Mapping[str, Mapping[int, int]]


class DamagedError(UserError):
    """A loaded repository is damaged. `staging` is the folder that has it."""

    def __init__(self, staging: Path, message: str) -> None:
        super().__init__(message)
        self.staging = staging


@contextlib.contextmanager
def verifying(staging: Sequence[Path]) -> Iterator[None]:
    """Verify the repositories in folders during the `with` block, and wait for the end.

    They are verified before each use, because they may lie on a disk for months. Raise DamagedError for a
    damaged repository.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            futures = [
                pool.submit(_run_task, folder, fmt, task)
                for folder in staging
                for fmt in sorted({path.name.partition(".")[0] for path in folder.glob("*.*")})
                for task in _tasks(folder, fmt, stop)
            ]
            yield
            for future in futures:
                future.result()
        finally:
            stop.set()


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


def prove_interleaving(copies: Mapping[str, Path]) -> CopyLayout:
    """Return the layout of copies, by name, from their extents.

    - `verdict`: interleaved, partly, apart, alone or unknown.
    - `sentence`: the text after "The copies", with the evidence.
    - `apart`: the copies outside of the largest group.
    """
    try:
        return judge_layout(_read_positions(copies))
    except ExtentsUnsupportedError as error:
        kind = mount_of(next(iter(copies.values()))).filesystem or "this file system"
        return _unknown(f"{kind} does not report where files lie ({error})")
    except OSError as error:
        return _unknown(str(error))


def judge_layout(kinds: Sequence[Positions]) -> CopyLayout:
    count = sum(len(steps) for positions in kinds for steps in positions.values())
    if not count:
        return _unknown("no file lies in an extent of its own")
    if all(len(positions) < 2 for positions in kinds):
        return {"verdict": "alone", "sentence": "are the only copies of their kind", "apart": []}
    # A copy with a single step shows nothing.
    several = [{c: steps for c, steps in p.items() if len(steps) > 1} for p in kinds]
    comparable = [positions for positions in several if len(positions) > 1]
    same = [gap for positions in comparable for gap in _gaps_to_nearest_copy(positions)]
    if not same:
        return _unknown("there are too few revisions")
    other = {
        copy: median([abs(a - b) for a, b in combinations(steps.values(), 2)])
        for positions in comparable
        for copy, steps in positions.items()
    }
    groups = [_largest_group(positions, other) for positions in comparable]
    apart = sorted(other.keys() - set[str]().union(*groups))
    evidence = (
        f"the same revision or shard of the nearest other copy is {words.size(median(same))} away, another "
        f"one of the same copy {words.size(median(other.values()))} (medians of {count} sampled files, by "
        "FIEMAP)"
    )
    if not apart:
        verdict, sentence = "interleaved", "lie interleaved"
    elif len(apart) == len(other):
        verdict, sentence = "apart", "do NOT lie interleaved"
    else:
        number = words.count_of(len(apart), "copy lies", "copies lie")
        verdict, sentence = "partly", f"lie interleaved only in part, {number} apart"
    return {"verdict": verdict, "sentence": f"{sentence}: {evidence}", "apart": apart}


def _unknown(reason: str) -> CopyLayout:
    sentence = f"cannot be shown to lie interleaved: {reason}"
    return {"verdict": "unknown", "sentence": sentence, "apart": []}


def _gaps_to_nearest_copy(positions: Positions) -> Iterator[int]:
    for step in {step for steps in positions.values() for step in steps}:
        starts = sorted(steps[step] for steps in positions.values() if step in steps)
        gaps = [after - before for before, after in pairwise(starts)]
        for i in range(len(starts) if gaps else 0):
            yield min(gaps[max(0, i - 1) : i + 1])


def _largest_group(positions: Positions, other: Mapping[str, float]) -> set[str]:
    """Return the largest group of copies that are together; no copies if all are apart."""

    def are_together(a: str, b: str) -> bool:
        shared = positions[a].keys() & positions[b].keys()
        same = [abs(positions[a][step] - positions[b][step]) for step in shared]
        return bool(same) and median(same) <= MAX_RATIO * min(other[a], other[b])

    groups: list[set[str]] = []
    for copy in sorted(positions):
        near = [group for group in groups if any(are_together(copy, c) for c in group)]
        groups = [group for group in groups if group not in near] + [{copy}.union(*near)]
    largest = max(groups, key=len)
    return largest if len(largest) > 1 else set()


def _read_positions(copies: Mapping[str, Path]) -> list[Positions]:
    """Return the positions in packed copies, and those in the others."""
    shapes = {name: fsfs.check_shape(copy) for name, copy in copies.items()}
    shards = _sample(shape.packed for shape in shapes.values())
    revisions = _sample(shape.youngest for shape in shapes.values())
    kinds: dict[bool, dict[str, dict[int, int]]] = {True: {}, False: {}}
    for name, copy in copies.items():
        shape, is_packed = shapes[name], shapes[name].packed > 0
        if is_packed:
            files = {n: f"{n}.pack/pack" for n in shards if n < shape.packed}
        else:
            unpacked = (n for n in revisions if n <= shape.youngest)
            files = {n: fsfs.revision_file(n, shape.shard) for n in unpacked}
        extents = {n: first_extent(copy / "db" / "revs" / file) for n, file in files.items()}
        kinds[is_packed][name] = {n: extent.start for n, extent in extents.items() if extent}
    return [*kinds.values()]


def _sample(ends: Iterable[int]) -> list[int]:
    return sorted({n for end in set(ends) for n in range(0, end, max(1, end // SAMPLED_STEPS))})
