"""Write files atomically, and read JSON and CSV."""

import csv
import errno
import fcntl
import io
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.external import open_regular, read_bytes

CSV_BYTES = 1 << 30
LOCK_RETRY_S = 0.1


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file atomically. After a kill or a power cut, the old or the new file is complete."""
    path = Path(path)
    new = path.with_name(f".{path.name}.new")
    try:
        # Another user may have put a link or a pipe in the place of the new file. The file may also be a hard
        # link to another file, which would lose its content by O_TRUNC.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(new, flags, 0o666), "wb") as file:
            if os.fstat(file.fileno()).st_nlink > 1:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(new))
            file.truncate()
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        # The errors of write() and fsync() name no file.
        error.filename = error.filename or str(path)
        raise
    # Without this, a power cut can undo the renaming.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def take_lock(descriptor: int, wait_s: float = 0.0) -> bool:
    """Take the exclusive lock of an open file, or return False if it is taken for longer than `wait_s`."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(LOCK_RETRY_S)


def why_no_file(folder: str | Path) -> str:
    """Return the kernel's reason why this process can make no file in a folder; "" if it can."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".vcsbench-"):
            return ""
    except OSError as error:
        return str(error.strerror)


def write_text(path: str | Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: str | Path, content: Any) -> None:
    write_bytes(path, json.dumps(content, indent=1).encode())


def read_json(path: str | Path) -> dict[str, Any]:
    """Return the object in a JSON file; {} if it is missing, unreadable, or no regular file."""
    try:
        with open(open_regular(path), "rb") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError, UserError):
        return {}
    return content if isinstance(content, dict) else {}


def read_record(path: str | Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raise UserError if it is missing or unreadable."""
    record = read_json(path)
    if not record:
        raise UserError(
            f"{path}: the file is missing or damaged. Run `make report` to make it again."
        )
    return record


def read_csv(
    path: str | Path, remedy: str, limit: int = CSV_BYTES, columns: Iterable[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """Read a CSV file, and return its heading and its rows, each a list of texts.

    Values stay text, because a repository may have the name `007` or `NA`. `columns` must be in the heading.
    Raise UserError with `remedy`, a sentence such as "Run `make check` to write it again.", if the file is
    missing or not CSV, if the heading has a name twice, or if a row has not one field for each name.
    """
    try:
        # Spreadsheets begin a file with a byte order mark, which would be a part of the first name.
        text = read_bytes(path, limit).decode("utf-8-sig")
        # Without `strict`, a quotation mark that is never closed hides all rows behind it.
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except (OSError, ValueError, csv.Error) as error:
        # The text of an OSError has the path as well, which the message names already.
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be read as CSV: {reason}. {remedy}") from None
    heading = lines[0] if lines else []
    for name in columns:
        if name not in heading:
            raise UserError(f"{path}: the column `{name}` is missing. {remedy}")
    for name, occurrences in Counter(heading).items():
        if occurrences > 1:
            raise UserError(f"{path}: the column `{name}` is there twice. {remedy}")
    for number, line in enumerate(lines[1:], start=1):
        # A row of another length was cut by a full disk, or has a comma without quotation marks.
        if len(line) != len(heading):
            fields = f"{len(line)} fields, and the heading {len(heading)}"
            raise UserError(f"{path}: row {number} has {fields}. {remedy}")
    return heading, lines[1:]


def read_rows(
    path: str | Path, remedy: str, limit: int = CSV_BYTES, columns: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Return each row of a CSV file as a mapping from the heading's names to texts; see read_csv()."""
    heading, lines = read_csv(path, remedy, limit, columns)
    return [dict(zip(heading, line, strict=True)) for line in lines]
