"""Remove damaged files of earlier runs, so that this run makes them again.

The caller holds the lock of the checkout, and no Snakemake works there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from vcsbench.external import printable
from vcsbench.files import read_json, write_json
from vcsbench.plan.result_state import is_intact
from vcsbench.storages.workdir import remove_path

# The digests of the files that are made of the raw data, from the end of the last run.
DIGESTS = Path(".vcsbench", "digests.json")
# The JSON files that a run reads, and the keys of each.
RECORDS = {
    "results/loaded/*.json": {"repo"},
    "results/repositories/*.json": {"storage"},
    "results/calls/**/*.json": {"digest"},
    "results/budget/*/pass*.json": {"gives", "rounds", "of"},
}
LISTED = 5


def remove_damaged(root: Path) -> str:
    """Remove the damaged files of a checkout, and return a sentence that names them; "" if there are none."""
    found = chain(_results(root), _records(root), _derived(root))
    damaged = [path for path in dict.fromkeys(found) if os.path.lexists(path)]
    for path in damaged:
        # Without a record of copies, Snakemake would measure all cells again. A damaged one is written again.
        if path.parent.name not in ("loaded", "repositories"):
            remove_path(path)
    names = [printable(os.path.relpath(path, root)) for path in damaged]
    more = [f"{len(names) - LISTED:,} more"] if len(names) > LISTED else []
    listed = ", ".join(names[:LISTED] + more)
    return f"removed damaged or changed files, to make them again: {listed}" if names else ""


def store_digests(root: Path, names: Iterable[str]) -> None:
    """Store the digests of files, and of the files in folders, for the next run."""
    known = read_json(root / DIGESTS)
    for name in names:
        files = _digests(root, name)
        if files:
            known[name] = files
        else:
            known.pop(name, None)
    write_json(root / DIGESTS, known)


def contexts(root: Path) -> Iterator[Path]:
    """Return the context files of all results of a checkout."""
    return root.glob("results/cells/*/**/round*.context.json")


def _results(root: Path) -> Iterator[Path]:
    """Yield exports and contexts that do not belong together. A killed job can leave a context alone."""
    for context in contexts(root):
        export = context.with_name(context.name.replace(".context.json", ".json"))
        if os.path.lexists(export) and not is_intact(export):
            yield from (export, context)


def _records(root: Path) -> Iterator[Path]:
    for pattern, keys in RECORDS.items():
        yield from (path for path in root.glob(pattern) if not keys <= read_json(path).keys())


def _derived(root: Path) -> Iterator[Path]:
    """Yield the files and folders that are not as the last run left them."""
    for name, files in read_json(root / DIGESTS).items():
        path = root / name
        is_ours = any(path.is_relative_to(root / folder) for folder in ("results", "reports"))
        if is_ours and ".." not in path.parts and _digests(root, name) != files:
            yield path


def _digests(root: Path, name: str) -> dict[str, str]:
    """Return the digests of a file, or of the files in a folder, by relative path."""
    path = root / name
    files = sorted(path.rglob("[!.]*")) if path.is_dir() else [path]
    return {
        os.path.relpath(file, root): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
        if file.is_file()
    }
