"""Loads a source once, into a repository per format side by side, and makes the upgraded and packed ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.formats import AS_IS, made_of
from vcsbench.processes import ended_by
from vcsbench.sources import Source
from vcsbench.sources.base import Facts
from vcsbench.storages import full
from vcsbench.subjects.progress import say
from vcsbench.subjects.repository import folders, fsfs, svnadmin
from vcsbench.subjects.repository.hotcopy import check_packing, hotcopy
from vcsbench.subjects.repository.interleave import Copying, interleave

# Linux's default limit for a pipe of an unprivileged process.
PIPE_BYTES = 1 << 20


def load_source(source: Source, variants: Sequence[Sequence[str]], into: Path) -> dict[str, Any]:
    """Load `source` into `into`/<format>.<packing> for each (format, packing) of `variants`. Nothing of it is
    verified yet (subjects.repository.verifying).

    The user's own repository is copied first, and the others are loaded from that copy: all have the same
    revisions although commits arrive. Return its revisions, notes, load_options, tree, folder
    (folders.largest) and seconds.
    """
    begun = time.monotonic()
    created = {made_of(fmt).loaded_as for fmt, _ in variants}
    facts = Facts()
    copied: list[Path] = []
    if AS_IS in created:
        source, facts, copied = _copy_own(source, variants, into)
    paths = [into / f"{fmt}.nopack" for fmt in sorted(created - {AS_IS})]
    for path in paths:
        svnadmin.create(path, path.name.removesuffix(".nopack"))
    if paths:
        with progress.stage(source.doing, unit="revisions", look=lambda: _loaded(source, paths)):
            streamed: Facts = _stream(source, paths)
        facts = replace(streamed, notes=[*facts.notes, *streamed.notes])
    say(f"loaded {facts.revisions} revisions in {time.monotonic() - begun:.1f} s")
    _finish_all([*copied, *paths], variants)
    for fmt, packing in variants:
        path = into / f"{fmt}.{packing}"
        if unlike := fsfs.unlike(path, fmt, packing):
            raise UserError(f"{path} was loaded, but {unlike}: look after svnadmin")
    loaded = into / ".".join(variants[0])
    tree = source.tree(loaded)
    return {
        "revisions": facts.revisions,
        "notes": list(facts.notes),
        "load_options": list(facts.load_options),
        "tree": tree,
        "folder": folders.largest(loaded, tree),
        "seconds": round(time.monotonic() - begun, 1),
    }


def _copy_own(
    source: Source, variants: Sequence[Sequence[str]], into: Path
) -> tuple[Source, Facts, list[Path]]:
    """Copy the user's own repository; return a source that reads the copy, its facts, and its path."""
    own = source.repository()
    if own is None:
        raise UserError(f"{source.describe()}: there is no local repository to copy as it is.")
    copy, notes = hotcopy(own, into)
    check_packing(copy, {packing for fmt, packing in variants if made_of(fmt).is_as_is})
    return source.at(copy), Facts(fsfs.youngest(copy), notes), [copy]


def at_once(variants: Sequence[Sequence[str]]) -> int:
    """How many repositories lie side by side while these are made: those that some are copies of, too."""
    needed = {tuple(variant) for variant in variants}
    needed |= {(fmt, "nopack") for fmt, _ in variants}
    return len(needed | {(made_of(fmt).loaded_as, "nopack") for fmt, _ in variants})


def _loaded(source: Source, paths: Sequence[Path]) -> tuple[int, int]:
    """How many revisions are in all of the repositories, and how many there will be."""
    return min(map(fsfs.youngest, paths)), source.coming()


class _Load:
    """An svnadmin load into a repository, and when it has ended, the lines that it said."""

    said: list[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        # In memory: the disk may be full, and that is then what has to be said.
        self._log = os.fdopen(os.memfd_create(path.name), "r+b")
        self.process = subprocess.Popen(
            # A user's history may hold properties that today's Subversion would not accept anew.
            ["svnadmin", "load", "-q", "--no-flush-to-disk", "--bypass-prop-validation", path],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            umask=0o022,
        )

    def end(self) -> None:
        """Close its pipe, and wait."""
        self.process.communicate()
        with self._log as file:
            file.seek(0)
            said = file.read().decode(errors="replace").strip().splitlines()
        ended = ended_by(self.process.returncode)
        self.said = [*said, ended] if self.process.returncode < 0 or not said else said


class _Tee:
    """Writes the same bytes to several pipes."""

    def __init__(self, loads: list[_Load]) -> None:
        self.pipes = [load.process.stdin for load in loads if load.process.stdin]
        for pipe in self.pipes:
            with contextlib.suppress(OSError):  # only slower
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def write(self, data: bytes) -> int:
        for pipe in self.pipes:
            pipe.write(data)
        return len(data)

    def flush(self) -> None:
        for pipe in self.pipes:
            pipe.flush()


def _stream(source: Source, paths: list[Path]) -> Any:
    loads = [_Load(path) for path in paths]
    facts = None
    try:
        tee: Any = _Tee(loads)
        facts = source.write(tee)
        tee.flush()
    except BrokenPipeError:
        pass  # a load ended early, and says why below
    except BaseException:
        # What they have made is removed: none may still be at it.
        for load in loads:
            load.process.kill()
        raise
    finally:
        # One that ended by itself comes first: the others were then given no more of the stream.
        loads.sort(key=lambda load: (load.process.poll() is None, load.path))
        for load in loads:
            load.end()
    failed = [load for load in loads if load.process.returncode != 0]
    for load in failed:
        full.raise_said("\n".join(load.said), load.path)
    if failed:
        path, said = failed[0].path, failed[0].said
        reached = fsfs.youngest(path)
        place = source.place(reached + 1)
        raise UserError(
            f"svnadmin load into {path} failed after revision {reached}"
            f"{f' ({place})' if place else ''}: {' '.join(said[-3:])}"
        )
    if not facts:
        raise UserError("svnadmin load did not read all of the history")
    # What svnadmin load took for the end of a stream may not be.
    for path in paths:
        if (loaded := fsfs.youngest(path)) != facts.revisions:
            raise UserError(
                f"svnadmin load into {path} loaded {loaded} of {facts.revisions} revisions"
            )
    return facts


def _finish_all(paths: Sequence[Path], variants: Sequence[Sequence[str]]) -> None:
    """Make what is wanted from what was loaded, and remove the rest."""
    # svnadmin pack uses one core.
    with ThreadPoolExecutor(2) as pool:
        for _ in pool.map(_finish, paths, repeat(variants)):
            pass


def _finish(path: Path, variants: Sequence[Sequence[str]]) -> None:
    """Make upgraded copies of a loaded repository, and of each a packed one."""
    created, _, packing = path.name.rpartition(".")
    wanted = [(fmt, packing) for fmt, packing in variants if made_of(fmt).loaded_as == created]
    for fmt in dict.fromkeys(fmt for fmt, _ in wanted):
        plain = path.with_name(f"{fmt}.{packing}")
        if plain != path:
            _copy(path, plain)
            svnadmin.upgrade(plain, made_of(fmt))
        packed = path.with_name(f"{fmt}.{fsfs.PACKED}")
        if (fmt, fsfs.PACKED) in wanted and packed != plain:
            _copy(plain, packed)
            _pack(packed)
            say(f"packed {fsfs.packed_shards(packed)} shards of {packed.name}")
        if plain != path and (fmt, packing) not in wanted:
            shutil.rmtree(plain)
    if (created, packing) not in wanted:
        shutil.rmtree(path)


def _copy(path: Path, to: Path) -> None:
    work = to.with_name(f"{to.name}.work")
    work.mkdir()
    interleave([Copying(path, to, fsfs.files(path))], work, 0, 0)
    work.rmdir()


def _pack(path: Path) -> None:
    with progress.stage("packing", fsfs.shape(path).full, "shards") as at:

        def hears(line: str) -> None:
            at.done += line.startswith("Packing")

        svnadmin.run("pack", path, hears=hears)
