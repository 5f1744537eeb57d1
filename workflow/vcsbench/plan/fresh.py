"""Whether a cell-round has a result, and what it was measured as. What was read once is noted, so that only
what has changed since is read again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vcsbench import wholefile
from vcsbench.kernelfile import read

INDEX = ".snakemake/vcsbench-read.json"
# Of a file that was changed so shortly before it was read, the kernel's times tell no second change apart.
GRAIN_NS = 2_000_000_000

Digest = Callable[[str, str], str]


class Measured(NamedTuple):
    """The study, the cell and the digest of the recipe that a cell-round was measured as."""

    study: str
    cell: str
    digest: str


class Known(NamedTuple):
    """What was read of a result, and how its two files were then: ctime, mtime, size and inode of each."""

    files: list[int]
    measured: Measured | None


class Noted(NamedTuple):
    """What a run notes for the next one: the results, by the path of the export below the checkout; and the
    moment, by ctime in ns, of which it has looked at everything that is older, Snakemake's notes too."""

    until: int = 0
    results: Mapping[str, Known] = {}


# By the path of the export.
_known: dict[str, Known] = {}
# Those that were whole as the run began: they are not looked at once more.
_whole: dict[str, Measured] = {}


def only_fresh(exports: Sequence[str], digest_of: Digest) -> list[str]:
    """Those of the exports that are fresh."""
    return [path for path in exports if is_fresh(path, digest_of)]


def is_fresh(export: str, digest_of: Digest) -> bool:
    """Whether an export existed as the run began and was measured as the configuration says now: `digest_of`
    gives the digest of a cell's recipe, by study and path."""
    measured = _whole.get(export) or measured_as(export)
    return measured is not None and measured.digest == digest_of(measured.study, measured.cell)


def export_of(path: str) -> str:
    """The export that a file of a cell-round belongs to: itself, or that beside its context."""
    return f"{path.removesuffix('.json').removesuffix('.context')}.json"


def whole(root: Path, exports: Iterable[str]) -> set[str]:
    """Those of exports, by their paths below `root`, that are whole as the run begins."""
    above = os.path.abspath(root)
    paths = {export: f"{above}/{export}" for export in exports}
    found = {path: measured for path in paths.values() if (measured := _measured_as(path))}
    _whole.update(found)
    return {export for export, path in paths.items() if path in found}


def measured_as(export: str | Path) -> Measured | None:
    """What an export was measured as; None where it or its context is missing or not whole."""
    return _measured_as(os.path.abspath(export))


def _measured_as(path: str) -> Measured | None:
    context = f"{path.removesuffix('.json')}.context.json"
    try:
        one, other = os.stat(path), os.stat(context)
        files = [one.st_ctime_ns, one.st_mtime_ns, one.st_size, one.st_ino]
        files += [other.st_ctime_ns, other.st_mtime_ns, other.st_size, other.st_ino]
        known = _known.get(path)
        if known is None or known.files != files:
            known = _known[path] = Known(files, _read(path, context))
    except OSError:
        return None
    return known.measured


def _read(export: str, context: str) -> Measured | None:
    digest = hashlib.sha256(Path(export).read_bytes()).hexdigest()
    try:
        said = json.loads(Path(context).read_bytes())
        measured = Measured(said["study"], said["cell"], said["recipe_digest"])
        return measured if said["export_sha256"] == digest else None
    except (ValueError, KeyError, TypeError):
        return None


def recall(root: Path) -> Noted:
    """Take over what an earlier run has noted of a checkout's results; returns it.

    Nothing is that was noted before this machine was started: what had reached memory may not have reached
    the disk when it went down.
    """
    try:
        said = json.loads((root / INDEX).read_bytes())
        if said["boot"] != _boot():
            return Noted()
        results = {
            path: Known(files, Measured(*measured))
            for path, (files, measured) in said["results"].items()
        }
        noted = Noted(int(said["until"]), results)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Noted()
    _known.update({f"{os.path.abspath(root)}/{path}": known for path, known in results.items()})
    return noted


def noted(root: Path, exports: Iterable[str], began: int) -> Noted:
    """What there is to note: what is known of these exports, by their paths below `root`. `began` is when
    they began to be looked at, by the clock of their file system, in ns."""
    until, above = began - GRAIN_NS, os.path.abspath(root)
    known = ((path, _known.get(f"{above}/{path}")) for path in exports)
    results = {
        path: result
        for path, result in known
        if result and result.measured and max(result.files[0], result.files[4]) < until
    }
    return Noted(until, results)


def note(root: Path, noted: Noted) -> None:
    """Note it for the next run."""
    with suppress(OSError):  # that one takes longer
        said = {"boot": _boot(), **noted._asdict()}
        wholefile.write_whole(root / INDEX, json.dumps(said).encode())


def _boot() -> str:
    # Where the kernel tells none, no two are the same.
    return read("/proc/sys/kernel/random/boot_id") or os.urandom(8).hex()
