"""Write files atomically, list trees, and compute digests of configured files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vcsbench.errors import UserError
from vcsbench.external import open_regular, printable, read_bytes

if TYPE_CHECKING:
    from vcsbench.records import Recipe

# Not part of a tree: Subversion cannot check out .svn.
ADMINISTRATIVE = {".svn", ".git", ".hg", ".bzr", ".jj", "_darcs", "CVS", "_FOSSIL_", ".fslckout"}
NAME_BYTES = 255
# svn export and checkout first write a link under its name with `.tmp`.
LINK_NAME_BYTES = NAME_BYTES - len(".tmp")
# Linux's limit, without the folder of an export.
PATH_BYTES = 3500
# shutil.rmtree and os.walk of Python 3.11 recurse once per folder.
MAX_DEPTH = 256
IMPOSSIBLE_PATHS = (
    f"that no disk can hold (a name over {NAME_BYTES} bytes; a path over {PATH_BYTES:,} bytes; over "
    f"{MAX_DEPTH} folders)"
)
RESERVED_PATHS = "named .svn, which a working copy cannot hold"
CONFIGURATION_BYTES = 1 << 20
CSV_BYTES = 1 << 30
DEFAULTS = "default"
SEAL = "seal"


class OddPaths(NamedTuple):
    """The numbers of a tree's IMPOSSIBLE_PATHS, and of its other RESERVED_PATHS."""

    impossible: int = 0
    reserved: int = 0


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically. After a kill or a power cut, the old or the new file is complete."""
    path = Path(path)
    new = path.with_name(f".{path.name}.new")
    try:
        with open(new, "wb", opener=_open_new) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        error.filename = error.filename or str(path)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _open_new(path: str, flags: int) -> int:
    # Somebody may have put a link or a pipe there.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: str | Path, content: Any) -> None:
    write_bytes(path, json.dumps(content, indent=1).encode())


def write_record(path: str | Path, content: Mapping[str, object]) -> None:
    """Write a JSON object with a seal: read_json() returns {} if it was altered later."""
    # As it is read again: JSON has no numbers as keys, no tuples.
    record = json.loads(json.dumps(content))
    write_json(path, {**record, SEAL: seal_of(record)})


def seal_of(record: Mapping[str, object]) -> str:
    content = {key: value for key, value in record.items() if key != SEAL}
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def is_altered(record: Mapping[str, object]) -> bool:
    """Return True if a record with a seal was altered. Records of earlier versions have none."""
    return SEAL in record and record[SEAL] != seal_of(record)


def read_json(path: str | Path, *, follow_links: bool = True) -> dict[str, Any]:
    """Return the object in a JSON file; {} if it is missing, damaged, altered, or no regular file."""
    try:
        with open(open_regular(path, follow_links=follow_links), "rb") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError, UserError):
        return {}
    return content if isinstance(content, dict) and not is_altered(content) else {}


def read_sealed(path: str | Path) -> dict[str, Any]:
    """Return the object in a file of write_record(); {} as read_json() does, and without its seal.

    So all of its keys have the types that were written.
    """
    record = read_json(path)
    return record if SEAL in record else {}


def read_record(path: str | Path) -> dict[str, Any]:
    """Return the object in a file of write_record(). Raise UserError if it is missing or damaged."""
    if not (record := read_sealed(path)):
        raise UserError(
            f"{path}: the file is missing or damaged. Run `make report` to make it again."
        )
    return record


def read_rows(
    path: str | Path, remedy: str, limit: int = CSV_BYTES, columns: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Return the rows of a CSV file.

    Raise UserError if it is missing, not CSV or too large, or if a row lacks one of the columns.
    """
    try:
        text = io.StringIO(read_bytes(path, limit).decode(), newline="")
        rows = list(csv.DictReader(text))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be read as CSV: {reason}. {remedy}") from None
    for name in columns:
        if any(row.get(name) is None for row in rows):
            raise UserError(f"{path}: the column `{name}` is missing. {remedy}")
    return rows


def entries(
    root: Path, left_out: Counter[str] | None = None
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of everything below a folder, folders before their content, sorted by name.

    Administrative folders are left out, and counted by name in `left_out`. Raise UserError if folders are
    nested deeper than MAX_DEPTH.
    """
    waiting = [_scan(os.fspath(root))]
    while waiting:
        entry = next(waiting[-1], None)
        if entry is None:
            waiting.pop()
        elif entry.name in ADMINISTRATIVE:
            if left_out is not None:
                left_out[entry.name] += 1
        else:
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                if len(waiting) > MAX_DEPTH:
                    raise UserError(
                        f"{printable(os.fspath(root))}: folders are nested deeper than {MAX_DEPTH}. Choose a "
                        "folder further down, or remove the deepest folders."
                    )
                waiting.append(_scan(entry.path))


def _scan(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as scanned:
        return iter(sorted(scanned, key=lambda entry: os.fsencode(entry.name)))


def files_digest(folder: Path, names: Sequence[str]) -> str:
    return _digest(_list(folder, names))


def server_files(folder: Path, names: Sequence[str]) -> dict[str, Path]:
    return {**dict(_list(folder.parent / DEFAULTS, names)), **dict(_list(folder, names))}


def server_file(folder: Path, name: str) -> Path:
    return server_files(folder, [name]).get(name, folder / name)


def server_files_digest(folder: Path, names: Sequence[str]) -> str:
    return _digest([*server_files(folder, names).items()])


def read_arguments(path: Path) -> list[str]:
    """Return the options in a file of a server configuration. A # starts a comment."""
    try:
        return shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        raise missing_server_file(path) from None
    except ValueError as error:
        raise UserError(f"{path}: cannot be read as options: {error}. Correct the file.") from None


def missing_server_file(path: Path) -> UserError:
    """Return the error about a missing file of a server configuration."""
    return UserError(f"{path}: no such file, but a server configuration needs it")


def _list(folder: Path, names: Sequence[str]) -> list[tuple[str, Path]]:
    paths: list[Path] = []
    for name in names:
        path = folder / name
        if os.path.lexists(path) and not path.is_file() and not path.is_dir():
            raise UserError(f"{path}: this is not a regular file. Replace it, or remove it.")
        paths += path.rglob("*") if path.is_dir() else [path]
    return [(str(path.relative_to(folder)), path) for path in paths if path.is_file()]


def _digest(files: Sequence[tuple[str, Path]]) -> str:
    total = hashlib.sha256()
    for name, path in sorted(files):
        content = read_bytes(path, CONFIGURATION_BYTES)
        try:
            is_text = "\0" not in content.decode()
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise UserError(f"{path}: the file is not text in UTF-8. Save it as UTF-8.")
        total.update(f"{name}\0".encode() + content + b"\0")
    return total.hexdigest()[:16]


def older_revision(youngest: int, behind: int) -> int:
    """Return the revision of a working copy that is `behind` the youngest revision."""
    return max(min(2, youngest), youngest - behind)


def why_not_on_disk(recipe: Recipe, count: Callable[[], OddPaths], behind: int = 0) -> str:
    """Return in a clause why a cell cannot write the tree of its repository; "" if it can.

    `count` is called only if the cell writes it. An export writes RESERVED_PATHS. `behind`: the tree is that
    of an older revision.
    """
    subjects = {recipe["input"], recipe["output"]}
    exports = "target" in subjects and "{tree}" in recipe["argv"]
    if not exports and not subjects & {"working_copy", "tree", "built_tree"}:
        return ""
    (number, reserved), kind, done = count(), IMPOSSIBLE_PATHS, "written"
    checks_out = exports and {"checkout", "co"} & {*recipe["argv"].split()}
    if not number and ("working_copy" in subjects or checks_out):
        number, kind, done = reserved, RESERVED_PATHS, "checked out"
    paths = "1 path" if number == 1 else f"{number:,} paths"
    name = recipe["repository"]["name"]
    if behind:
        name += f", {behind:,} revisions before its youngest,"
    return f"{name} has {paths} {kind}, so its tree cannot be {done}" if number else ""
