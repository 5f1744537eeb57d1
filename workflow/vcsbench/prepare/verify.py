"""Verify loaded repositories, each item once, while copies are made; show that copies are interleaved.

`svnadmin verify` takes a third of the processor time of a load, and more with 250,000 revisions. A packed
repository has the same items as its unpacked source. The packed one is verified, and the other one is
compared with it, which takes a tenth of the time:

- Logical addressing: `svnadmin verify --metadata-only` compares all bytes of each item with a checksum.
- Physical addressing has no such checksums. A packed shard is the concatenation of its revision files. This
  also finds some changed bits that verify does not find.

The extents of sampled files show if copies are interleaved on their device. A step is a revision, or a shard
of packed copies. Its position is the first extent of its file. Two copies are together if files of the same
step are much nearer (median) than two steps of one copy. Interleaved copies form one group. Packed and
unpacked copies are compared separately.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import IO, NamedTuple

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.external import file_url, pegged
from vcsbench.formats import AS_IS, NOT_PACKED, read_format
from vcsbench.records import CopyLayout
from vcsbench.storages.extents import ExtentsUnsupportedError, first_extent
from vcsbench.storages.filesystems import mount_of
from vcsbench.subjects import fsfs

MARK = "verified"
THREADS = 2
_VERIFIED = re.compile(r"\* Verified revision (\d+)")
_METADATA = re.compile(r"\* Verifying metadata at revision (\d+)")
METADATA_ONLY = "--metadata-only"

STEPS = 100
# The ratio is near 0 for interleaved copies, and 3 for copies made one after another.
MAX_RATIO = 0.5

# ("revision", 17) or ("shard", 3).
Step = tuple[str, int]


class DamagedError(UserError):
    """A loaded repository is damaged. `staging` is the folder that it was loaded into."""

    def __init__(self, staging: Path, message: str) -> None:
        super().__init__(message)
        self.staging = staging


class _Stop(threading.Event):
    def check(self) -> None:
        if self.is_set():
            raise CancelledError


def verify_all(staging: Path) -> None:
    with verifying([staging]):
        pass


@contextlib.contextmanager
def verifying(staging: Sequence[Path]) -> Iterator[None]:
    """Verify the repositories in staging folders during the `with` block, and wait for the end.

    Folders that were verified before are skipped. Raise DamagedError for a damaged repository.
    """
    stop = _Stop()
    unverified = [folder for folder in staging if not (folder / MARK).exists()]
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            futures = [
                pool.submit(_run_task, folder, fmt, task)
                for folder in unverified
                for fmt in sorted(
                    {p.name.partition(".")[0] for p in folder.iterdir() if p.is_dir()}
                )
                for task in _tasks(folder, fmt, stop)
            ]
            yield
            for future in futures:
                future.result()
        finally:
            stop.set()
    for folder in unverified:
        (folder / MARK).touch()


def _run_task(staging: Path, fmt: str, task: Callable[[], None]) -> None:
    try:
        task()
    except UserError as error:
        source = f"The repository that this was copied from is damaged, too: {error}"
        raise DamagedError(staging, source if fmt == AS_IS else str(error)) from error


def _tasks(staging: Path, fmt: str, stop: _Stop) -> list[Callable[[], None]]:
    plain, partly, packed = (
        staging / f"{fmt}.{packing}" for packing in (NOT_PACKED, fsfs.PARTLY_PACKED, fsfs.PACKED)
    )
    existing = [path for path in (packed, partly, plain) if path.exists()]
    verified = [path for path in existing if path != plain] or existing
    tasks: list[Callable[[], None]] = [partial(_verify, path, stop) for path in verified]
    if plain.exists() and packed.exists():
        tasks.append(partial(_compare, plain, packed, stop))
    return tasks


def _verify(path: Path, stop: _Stop, *options: str) -> None:
    pattern = _METADATA if METADATA_ONLY in options else _VERIFIED
    stop.check()
    with progress.stage("verifying", fsfs.youngest(path), "revisions") as at:
        count = at.follow(pattern)

        def on_line(line: str) -> None:
            stop.check()
            count(line)

        fsfs.run_svnadmin("verify", *options, path, on_line=on_line)


def _compare(plain: Path, packed: Path, stop: _Stop) -> None:
    shape = fsfs.check_shape(packed)
    if shape.is_logical:
        _verify(plain, stop, METADATA_ONLY)
    else:
        _compare_bytes(plain, packed, shape.packed, stop)
    # No checksum covers revision properties.
    if _log_digest(plain) != _log_digest(packed):
        raise UserError(f"{plain} and {packed.name} differ in the properties of a revision")


def _log_digest(path: Path) -> bytes:
    def read(output: IO[bytes]) -> bytes:
        digest = hashlib.blake2b()
        while chunk := output.read(fsfs.CHUNK):
            digest.update(chunk)
        return digest.digest()

    options = ("log", "--xml", "--quiet", "--with-all-revprops")
    return fsfs.read_output(read, *options, pegged(file_url(path)), program="svn")


def _compare_bytes(plain: Path, packed: Path, shards: int, stop: _Stop) -> None:
    size, last = read_format(plain).shard, fsfs.youngest(plain)

    def revision_file(path: Path, revision: int) -> Path:
        return path / "db" / "revs" / fsfs.revision_file(revision, size)

    with progress.stage("comparing", last, "revisions") as at:
        for shard in range(shards):
            stop.check()
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
                    raise UserError(f"{part} has other bytes than {whole}, which was made from it")
        if file.read(1):
            raise UserError(f"{whole} has more revisions than its source")


class Position(NamedTuple):
    """Where a step's file begins on the device, in bytes."""

    copy: str
    step: Step
    start: int


def prove_interleaving(copies: Mapping[str, Path]) -> CopyLayout:
    """Return the layout of copies, by name, from their extents.

    - `verdict`: interleaved, partly, apart, alone or unknown. `sentence`: the text after "The copies".
    - `files`: the number of sampled files. `apart`: the copies outside of the largest group.
    - `same_step_bytes`: median distance of a file to the same step in the nearest other copy.
      `other_step_bytes`: to other steps in the same copy. Both are None if unknown.
    """
    try:
        return judge_layout(list(_read_positions(copies)))
    except ExtentsUnsupportedError as error:
        kind = mount_of(next(iter(copies.values()))).filesystem or "this file system"
        reason = f"{kind} does not report where files lie ({error})"
    except OSError as error:
        reason = str(error)
    return _layout("unknown", f"cannot be asked whether they lie interleaved: {reason}", 0)


def judge_layout(positions: Sequence[Position]) -> CopyLayout:
    by_kind: dict[str, dict[str, dict[Step, int]]] = defaultdict(lambda: defaultdict(dict))
    for copy, step, start in positions:
        by_kind[step[0]][copy][step] = start
    count, unproven = len(positions), "cannot be shown to lie interleaved"
    if not by_kind:
        return _layout("unknown", f"{unproven}: no file lies in an extent of its own", count)
    kinds = [_CopiesOfKind(starts) for starts in by_kind.values() if len(starts) > 1]
    if not kinds:
        return _layout("alone", "are the only copies of their kind", count)
    comparable = [kind for kind in kinds if kind.other_step]
    if not comparable:
        return _layout("unknown", f"{unproven}: there are too few revisions", count)
    same = median([distance for kind in comparable for distance in kind.same_step()])
    other = median([distance for kind in comparable for distance in kind.other_step.values()])
    evidence = (
        f"the same revision or shard of the nearest other copy is {words.size(same)} away, another one of "
        f"the same copy {words.size(other)} (medians of {count} sampled files, by FIEMAP)"
    )
    groups = [kind.groups() for kind in comparable]
    are_all_apart = [len(of_kind) > 1 and len(of_kind[0]) == 1 for of_kind in groups]
    apart = sorted(
        copy
        for of_kind, are_apart in zip(groups, are_all_apart, strict=True)
        for group in (of_kind if are_apart else of_kind[1:])
        for copy in group
    )
    if not apart:
        verdict, sentence = "interleaved", f"lie interleaved: {evidence}"
    elif all(are_all_apart):
        verdict, sentence = "apart", f"do NOT lie interleaved: {evidence}"
    else:
        number = words.count_of(len(apart), "copy lies", "copies lie")
        verdict, sentence = "partly", f"lie interleaved only in part, {number} apart: {evidence}"
    return _layout(verdict, sentence, count, apart, same, other)


class _CopiesOfKind:
    """All packed copies, or all others. `starts` has the position of each step, by copy."""

    def __init__(self, starts: Mapping[str, Mapping[Step, int]]) -> None:
        self.starts = starts
        self.other_step = {
            copy: median([abs(a - b) for a, b in combinations(of_copy.values(), 2)])
            for copy, of_copy in starts.items()
            if len(of_copy) > 1
        }

    def same_step(self) -> list[int]:
        by_step: dict[Step, list[int]] = defaultdict(list)
        for of_copy in self.starts.values():
            for step, start in of_copy.items():
                by_step[step].append(start)
        return [
            min(abs(start - another) for another in starts[:i] + starts[i + 1 :])
            for starts in by_step.values()
            if len(starts) > 1
            for i, start in enumerate(starts)
        ]

    def groups(self) -> list[set[str]]:
        groups: list[set[str]] = []
        for copy in sorted(self.starts):
            near = [group for group in groups if any(self._together(copy, c) for c in group)]
            groups = [group for group in groups if group not in near] + [{copy}.union(*near)]
        return sorted(groups, key=lambda members: (-len(members), min(members)))

    def _together(self, a: str, b: str) -> bool:
        shared = self.starts[a].keys() & self.starts[b].keys()
        if not shared or a not in self.other_step or b not in self.other_step:
            return False
        same = median([abs(self.starts[a][step] - self.starts[b][step]) for step in shared])
        return same <= MAX_RATIO * min(self.other_step[a], self.other_step[b])


def _layout(
    verdict: str,
    sentence: str,
    files: int,
    apart: Sequence[str] = (),
    same: float | None = None,
    other: float | None = None,
) -> CopyLayout:
    return {
        "verdict": verdict,
        "sentence": sentence,
        "files": files,
        "apart": [*apart],
        "same_step_bytes": same,
        "other_step_bytes": other,
    }


def _read_positions(copies: Mapping[str, Path]) -> Iterator[Position]:
    shapes = {name: fsfs.check_shape(copy) for name, copy in copies.items()}
    shards = _sample(shape.packed for shape in shapes.values())
    revisions = _sample(shape.youngest for shape in shapes.values())
    for name, copy in copies.items():
        shape, size = shapes[name], read_format(copy).shard
        files: dict[Step, str] = {
            ("shard", n): f"{n}.pack/pack" for n in shards if n < shape.packed
        } or {
            ("revision", n): fsfs.revision_file(n, size) for n in revisions if n <= shape.youngest
        }
        for step, file in files.items():
            if extent := first_extent(copy / "db" / "revs" / file):
                yield Position(name, step, extent.start)


def _sample(ends: Iterable[int]) -> list[int]:
    return sorted({n for end in set(ends) for n in range(0, end, max(1, end // STEPS))})
