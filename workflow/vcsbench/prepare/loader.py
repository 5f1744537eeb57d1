"""Load a source once, into one repository per format at the same time, and make upgraded and packed ones."""

import contextlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, SMALL_FILE, read_bytes
from vcsbench.formats import AS_IS, NOT_PACKED, PACKED, has_memcached, parse_format
from vcsbench.processes import Program
from vcsbench.records import DumpRecord, LoadRecord
from vcsbench.sources import SizeEstimate, Source
from vcsbench.sources.base import Facts
from vcsbench.sources.dump_reader import BYPASS, WHOLE, DumpReader
from vcsbench.sources.svn_source import SvnSource, summarize_tree
from vcsbench.storages.filesystems import free_bytes, raise_write_error
from vcsbench.storages.workdir import STAGING, WorkDir
from vcsbench.subjects import fsfs
from vcsbench.subjects.repository import file_state

DUMPS = "dumps"
_COPIED = re.compile(r"\* Copied revisions? (?:from \d+ to )?(\d+)")
_PACKING = re.compile(r"Packing revisions in shard (\d+)")
_MEMCACHED = re.compile(rb"^\[memcached-servers\]", re.MULTILINE | re.IGNORECASE)
# Old histories have properties that today's Subversion refuses.
LOAD = ("svnadmin", "load", "-q", "--no-flush-to-disk", BYPASS)
REMEDIES = {
    "E160020": "It adds this path again, as a file does that has one dump twice. Make the dump again, in a "
    "new file.",
    "E160013": f"It lacks this path. {WHOLE}",
}
MEMCACHED_NOTE = "The servers of memcached in its db/fsfs.conf are not used."
Pair = Sequence[str]


@contextlib.contextmanager
def staging_dir(workdir: WorkDir, repo: str) -> Iterator[Path]:
    """Make a staging folder. It is removed after any error: it may be in RAM."""
    try:
        yield workdir.make(STAGING, repo)
    except BaseException:
        workdir.remove(STAGING, repo)
        raise


def staging_workdir(record: LoadRecord, root: str | Path) -> WorkDir:
    return WorkDir(Path(record["path"]).parents[2], root)


def choose_staging(
    estimate: SizeEstimate, repositories: int, scratch: WorkDir, copies: Mapping[WorkDir, int]
) -> WorkDir:
    """Return the work folder to load into: scratch, or the first storage with enough space.

    `repositories` of the estimated size are made there, and `copies` on each storage. Storages on one
    device share its space. Raise UserError without enough space.
    """
    size, need = repository_bytes(estimate), Counter[int]()
    devices = {workdir: os.stat(workdir.make()).st_dev for workdir in (scratch, *copies)}
    free = {workdir: free_bytes(workdir.path) for workdir in devices}
    for workdir, number in copies.items():
        need[devices[workdir]] += size * number
    _log(
        f"{words.count_of(repositories, 'repository', 'repositories')} of about {words.size(size)} each, and "
        f"{words.count_of(sum(copies.values()), 'copy', 'copies')}; "
        + ", ".join(f"{workdir.path} has {words.size(bytes_)}" for workdir, bytes_ in free.items())
    )
    loading = size * repositories
    full = [workdir for workdir in copies if need[devices[workdir]] > free[workdir]]
    fitting = [workdir for workdir in devices if need[devices[workdir]] + loading <= free[workdir]]
    if full or not fitting:
        workdir = [*full, *copies, scratch][0]
        needed = need[devices[workdir]] + (0 if full else loading)
        raise UserError(
            f"{workdir.path}: repositories and copies need about {words.size(needed)}, and "
            f"{words.size(free[workdir])} are free. Use another folder in `storages`, or lower `copies` or "
            f"the scale."
        )
    if fitting[0] is not scratch:
        _log(f"too large for {scratch.path}: loaded on {fitting[0].path}, which takes longer")
    return fitting[0]


def repository_bytes(estimate: SizeEstimate) -> int:
    return estimate.repository_bytes + 2 * estimate.revisions * 4096


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def load_source(source: Source, pairs: Sequence[Pair], staging: Path) -> LoadRecord:
    """Load `source` into `staging`/<format>.<packing> for each pair. Nothing is verified (verify).

    The user's own repository is copied first, and the others are loaded from that copy: all have the
    same revisions, although commits arrive. Return revisions, notes, load_options, tree, folder and
    odd paths (summarize_tree), seconds, and pack_seconds of the slowest `svnadmin pack`.
    """
    begun = time.monotonic()
    created = {parse_format(fmt).loaded_as for fmt, _ in pairs}
    facts = Facts()
    copied: list[Path] = []
    if AS_IS in created:
        source, facts, copied = _copy_own(source, pairs, staging)
    paths = [staging / f"{fmt}.{NOT_PACKED}" for fmt in sorted(created - {AS_IS})]
    for path in paths:
        fsfs.create(path, path.name.removesuffix(f".{NOT_PACKED}"))
    if paths:
        with progress.stage(
            source.doing,
            unit="revisions",
            look=lambda: (min(map(fsfs.youngest, paths)), source.coming()),
        ):
            streamed = _stream(source, paths)
            for path in paths:
                _delete_dates(path, streamed.bogus_dates)
        facts = replace(streamed, notes=[*facts.notes, *streamed.notes])
    loaded = words.count_of(facts.revisions, "revision")
    _log(f"loaded {loaded} in {time.monotonic() - begun:.1f} s")
    with ThreadPoolExecutor(2) as pool:
        packing_s = [*pool.map(partial(_finish, pairs=pairs), [*copied, *paths])]
    for fmt, packing in pairs:
        path = staging / f"{fmt}.{packing}"
        if mismatch := fsfs.mismatch(path, fmt, packing):
            raise UserError(f"{path}: was loaded, but {mismatch}. Use another svnadmin.")
    first = staging / ".".join(pairs[0])
    tree = source.tree(first)
    folder, odd_paths = summarize_tree(first, tree)
    return {
        "revisions": facts.revisions,
        "notes": list(facts.notes),
        "load_options": list(facts.load_options),
        "tree": tree,
        "folder": folder,
        "long_names": odd_paths.impossible,
        "reserved_names": odd_paths.reserved,
        "seconds": round(time.monotonic() - begun, 1),
        "pack_seconds": round(max(packing_s, default=0.0), 2),
    }


def simultaneous_repositories(pairs: Sequence[Pair]) -> int:
    plain = {name for fmt, _ in pairs for name in (fmt, parse_format(fmt).loaded_as)}
    return len({*map(tuple, pairs)} | {(fmt, NOT_PACKED) for fmt in plain})


def _copy_own(
    source: Source, pairs: Sequence[Pair], staging: Path
) -> tuple[Source, Facts, list[Path]]:
    if not isinstance(source, SvnSource):
        raise UserError(
            f"{source.describe()}: an exact copy needs a local repository. Use its path."
        )
    copy, facts = hotcopy(source.repository, staging)
    packing = copy.name.rpartition(".")[2]
    if {made for fmt, made in pairs if parse_format(fmt).is_as_is} - {packing, PACKED}:
        raise UserError(
            f"{source.repository}: it was packed since this run began, and is {packing} now. Run again."
        )
    return source.at(copy), facts, [copy]


def hotcopy(repository: Path, staging: Path) -> tuple[Path, Facts]:
    """Copy a repository by `svnadmin hotcopy`: deltas, packing and settings stay.

    Return the path, which is named by its packing, because a live repository may have been packed since
    the run began, and facts. The source is only read, and none of its hooks runs.
    """
    copy, view = staging / f"{AS_IS}.new", staging / f"{AS_IS}.view"
    youngest = fsfs.youngest(repository)
    # svnadmin adds missing files to `locks` of its source, and copies hooks, passwords and foreign files.
    for name in ("locks", "hooks", "conf"):
        (view / name).mkdir(parents=True)
    (view / "format").write_bytes(read_bytes(repository / "format", SMALL_FILE))
    (view / "db").symlink_to(repository / "db")
    try:
        with progress.stage("copying the repository", youngest, "revisions") as at:
            fsfs.run_svnadmin("hotcopy", view, copy, on_line=at.follow(_COPIED))
        # Before other programs open the copy.
        if uses_memcached := has_memcached(copy):
            configuration = copy / "db" / "fsfs.conf"
            text = _MEMCACHED.sub(b"[unused]", configuration.read_bytes())
            configuration.write_bytes(text)
        facts = _remove_bogus_dates(copy)
        facts.notes += [MEMCACHED_NOTE] * uses_memcached
    except UserError as error:
        reason = str(error).replace(str(view), str(repository))
        if "sqlite" in reason:
            reason += ". Move its db/rep-cache.db away: Subversion works without it."
        raise UserError(f"{repository}: {reason}") from error
    shutil.rmtree(view)
    _make_readable(copy)
    return copy.rename(staging / f"{AS_IS}.{fsfs.check_shape(copy).packing}"), facts


def _make_readable(copy: Path) -> None:
    """Give everybody the right to read a copy, whose modes are those of the user's repository.

    Links are not followed. The source had none when it was checked, but a link that was made since would
    have been copied as a link, and the mode of its target must not change.
    """
    for folder, names, files, descriptor in os.fwalk(copy, follow_symlinks=False):
        os.fchmod(descriptor, 0o755)
        for name in [*names, *files]:
            mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            path = os.path.join(folder, name)
            if stat.S_ISLNK(mode):
                raise UserError(f"{path}: this is a link in the copy of a repository. Run again.")
            if stat.S_ISREG(mode):
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=descriptor)
                os.fchmod(file, 0o644 if mode & 0o200 else 0o444)
                os.close(file)


def _delete_dates(repository: Path, revisions: Iterable[int]) -> None:
    """Delete dates that Subversion cannot read, because `svnadmin verify` and `svn log` fail there."""
    for revision in revisions:
        fsfs.run_svnadmin("delrevprop", "-r", str(revision), repository, "svn:date")


def _remove_bogus_dates(copy: Path) -> Facts:
    """Delete the dates of a copy that Subversion cannot read. Return its facts, with a note on the dates."""
    failure, remedy = f"{copy}: svnadmin dump-revprops failed", "Check it with svnadmin verify."
    with Program(["svnadmin", "dump-revprops", "-q", str(copy)], failure) as program:
        reader = DumpReader(str(copy), program.stdout, remedy=remedy)
        reader.run_on(program)
    facts = reader.facts()
    _delete_dates(copy, facts.bogus_dates)
    options = [BYPASS] if reader.oddities["bypass"] else []
    return replace(facts, notes=reader.notes(["dates"]), load_options=options)


class _Tee(io.RawIOBase):
    """Writes to several programs."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self._programs = [*programs]

    def write(self, data: Any) -> int:
        for program in self._programs:
            program.write(data)
        return len(data)


def _stream(source: Source, paths: list[Path]) -> Facts:
    facts = None
    with contextlib.ExitStack() as stack:
        loads = {
            path: stack.enter_context(
                Program([*LOAD, str(path)], f"{path}: svnadmin load failed", stdin=subprocess.PIPE)
            )
            for path in paths
        }
        with contextlib.suppress(BrokenPipeError):
            facts = source.write(cast(BinaryIO, _Tee(loads.values())))
        # The load that failed first comes first: the others then got an incomplete stream.
        in_order = sorted(loads.items(), key=lambda item: item[1].process.poll() is None)
        for load in loads.values():
            load.close_input()
        failed = [(path, load) for path, load in in_order if load.process.wait() != 0]
        for path, load in failed:
            raise_write_error(load.errors(), path)
        if failed:
            path, load = failed[0]
            reached = fsfs.youngest(path)
            place = source.place(reached + 1)
            load.failure += f" after revision {reached}" + (f" ({place})" if place else "")
            error = load.failed()
            remedy = next((text for code, text in REMEDIES.items() if code in str(error)), "")
            raise UserError(f"{error}. {remedy}") if remedy else error
    if not facts:
        raise UserError(f"{paths[0]}: svnadmin load did not read all of the history. Run again.")
    # svnadmin load may take damage for the end of the stream.
    for path in paths:
        if (loaded := fsfs.youngest(path)) != facts.revisions:
            raise UserError(
                f"{path}: svnadmin load loaded {loaded} of {facts.revisions} revisions. Check the source."
            )
    return facts


def _finish(path: Path, pairs: Sequence[Pair]) -> float:
    """Make the variants of a loaded repository. Return the seconds of its slowest `svnadmin pack`."""
    packing_s = 0.0
    created, _, packing = path.name.rpartition(".")
    needed = [(fmt, packing) for fmt, packing in pairs if parse_format(fmt).loaded_as == created]
    for fmt in dict.fromkeys(fmt for fmt, _ in needed):
        plain = path.with_name(f"{fmt}.{packing}")
        if plain != path:
            shutil.copytree(path, plain)
            fsfs.upgrade(plain, parse_format(fmt))
        packed = path.with_name(f"{fmt}.{PACKED}")
        if (fmt, PACKED) in needed and packed != plain:
            shutil.copytree(plain, packed)
            begun = time.monotonic()
            with progress.stage("packing", fsfs.check_shape(packed).full, "shards") as at:
                fsfs.run_svnadmin("pack", packed, on_line=at.follow(_PACKING))
            packing_s = max(packing_s, time.monotonic() - begun)
            _log(f"packed {fsfs.check_shape(packed).packed} shards of {packed.name}")
        if plain != path and (fmt, packing) not in needed:
            shutil.rmtree(plain)
    if (created, packing) not in needed:
        shutil.rmtree(path)
    return packing_s


def make_dump(repository: Path, revisions: int, workdir: WorkDir, name: str) -> DumpRecord:
    """Dump revisions 0 to `revisions` into a file in a work folder.

    Return its path, state, bytes and last revision. Raise UserError if svnadmin fails, OSError if the
    storage is full. No incomplete file is kept.
    """
    path = workdir.make(DUMPS) / f"{name}.dump"
    workdir.remove(DUMPS, path.name)
    try:
        last = min(revisions, fsfs.youngest(repository))
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{repository}: cannot be dumped: {error}. Run again.") from None
    try:
        with path.open("xb") as file:
            arguments = "dump", "-q", "-r", f"0:{last}", repository
            fsfs.read_output(lambda dump: shutil.copyfileobj(dump, file, CHUNK), *arguments)
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    size = path.stat().st_size
    return {"path": str(path), "state": file_state(path), "bytes": size, "last": last}
