"""Make templates on a storage: trees and working copies that are made once, and copied for each run."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench import processes
from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.folder_states import folder_state, read_state

if TYPE_CHECKING:
    from vcsbench.records import TreeRecord

TEMPORARY_PREFIX = "making-"
# Mean overhead of a file on disk: half a block and an inode.
OVERHEAD_BYTES = 4096
PYTHONPATH = str(Path(__file__).parents[2])
RUN_SOURCES = "import sys; from vcsbench import sources; sources.main(*sys.argv[1:])"


def make_template(
    path: Path,
    make: Callable[[Path, Path], TreeRecord],
    *,
    check_state: bool = True,
    check_sizes: bool = False,
) -> TreeRecord:
    """Make the template at `path` if it is not complete, and return its record.

    A template is a tree or file that is made once, and copied for each run. `make(path, temporary)` makes it,
    with a private folder `temporary`, and returns further facts for the record: {"path": ..., "entries": 500,
    "bytes": 4096, "state": "9f86...", ...}. The record of trees/0123-tree is in trees/0123-tree.json.

    A template that somebody has changed is made again. By default, its state is compared with the record: a
    digest of names, sizes and times. Without `check_state`, it is not: in a guest, for example, files have
    other times. With `check_sizes`, the sizes are compared. After an error, nothing of the template stays.
    """
    record_file = _record_file(path)
    record = cast("TreeRecord", read_json(record_file))
    is_complete = path.exists() and "entries" in record
    if is_complete:
        # The sizes are a part of the record: {"entries": 500, ...}. A subset (<=) has equal values.
        has_same_sizes = not check_sizes or _measure_sizes(path).items() <= record.items()
        has_same_state = not check_state or _read_state(path) == record.get("state")
        if has_same_sizes and has_same_state:
            return record

    # A template with a record counts as complete. This process may be killed, so the old record goes first.
    record_file.unlink(missing_ok=True)
    remove_path(path)
    # Killed processes left these. Only the process with the machine's lock makes templates.
    for leftover in path.parent.glob(f"{TEMPORARY_PREFIX}*"):
        remove_path(leftover)
    try:
        with tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=path.parent) as temporary:
            facts = make(path, Path(temporary))
        sizes = _measure_sizes(path)
        record = {"path": str(path), **sizes, "state": _read_state(path), **facts}
        write_json(record_file, record)
    except BaseException:
        # A part of a template would keep a full disk full. If it cannot be removed, the first error counts.
        with suppress(UserError, OSError):
            remove_path(path)
        raise
    return record


def refresh_template_state(path: Path) -> None:
    """Store the present state of a template in its record, after runs that wrote to the template itself.

    Otherwise make_template() would notice another state, and make the template again.
    """
    record_file = _record_file(path)
    record = read_json(record_file)
    if record:
        write_json(record_file, {**record, "state": _read_state(path)})


def _record_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _read_state(path: Path) -> str:
    """Return a digest of the names, modes, sizes and times of a template's files; "" if one is unreadable.

    The contents are not read. For 50,000 files, this takes some tenths of a second.
    """
    try:
        # Some templates are a single file.
        if not path.is_dir():
            return folder_state([(path.name, os.lstat(path))])
        states = read_state(path)
    except OSError:
        return ""
    lines = [f"{folder}\0{state}" for folder, state in sorted(states.items())]
    text = "\n".join(lines).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]


def _measure_sizes(path: Path) -> TreeRecord:
    """Return the number of files and folders, the approximate bytes on disk, and the bytes of contents."""
    entries = 0
    content_bytes = 0
    all_bytes = 0
    for status in _list_states(path):
        entries += 1
        all_bytes += status.st_size + OVERHEAD_BYTES
        if stat.S_ISREG(status.st_mode):
            content_bytes += status.st_size
    return {"entries": entries, "bytes": all_bytes, "content_bytes": content_bytes}


def _list_states(path: Path) -> list[os.stat_result]:
    """Return the states of everything below a folder, or the state of a file."""
    if not path.is_dir():
        return [os.lstat(path)]
    states = []
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            states.append(os.lstat(os.path.join(folder, name)))
    return states


def run_sources(*arguments: str) -> list[str]:
    """Run a task of sources.main() in another process, and return the lines that it prints.

    Example: run_sources("git", "/src/ruby", folder, commit). If this process imported the module, a change of
    its code would make results out of date. Raise UserError with the last line of the errors if it fails.
    """
    done = processes.run_program(
        [sys.executable, "-c", RUN_SOURCES, *arguments],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        may_fail=True,
    )
    if done.code:
        lines = done.errors.strip().splitlines()
        raise UserError(lines[-1] if lines else f"{arguments[0]}: exit code {done.code}")
    return done.output.splitlines()
