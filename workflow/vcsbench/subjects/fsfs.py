"""Read FSFS repositories on disk, and run Subversion's programs on them."""

import hashlib
import os
import random
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from vcsbench import formats, processes
from vcsbench.errors import UserError
from vcsbench.external import CHUNK
from vcsbench.processes import Program
from vcsbench.storages.filesystems import raise_write_error

T = TypeVar("T")
AFTER_ALL_REVISIONS = 1 << 62
# With --config-dir, the client reads neither the user's settings nor /etc/subversion.
NO_SETTINGS = ("--config-dir", "/proc/self/no-settings")
CLIENT_OPTIONS = (
    "--non-interactive",
    "--config-option",
    "config:working-copy:exclusive-locking=yes",
)
Entries = list[tuple[str, os.stat_result]]


def youngest(path: Path) -> int:
    return int((path / "db" / "current").read_text().split()[0])


def revision_file(revision: int, size: int) -> str:
    """Return the path below db/revs of an unpacked revision. `size` is that of a shard, 0 without shards."""
    return f"{revision // size}/{revision}" if size else f"{revision}"


def check_shape(path: Path) -> formats.Shape:
    """Return the shape of a repository. Raise OSError, ValueError or UserError for inconsistent FSFS."""
    kind = (path / "db" / "fs-type").read_text().strip()
    if kind != "fsfs":
        raise ValueError(f"its file system is {kind}")
    shape = formats.read_shape(path)
    names = os.listdir(path / "db" / "revs")
    packs = {name.removesuffix(".pack") for name in names if name.endswith(".pack")}
    if packs != set(map(str, range(shape.packed))):
        raise ValueError(
            f"db/min-unpacked-rev counts {shape.packed} packed shards, and {len(packs)} are"
        )
    return shape


def mismatch(path: Path, fmt: str, packing: str, last: int | None = None) -> str:
    """Return in a clause how a repository differs from axis values and a youngest revision; "" if not."""
    try:
        shape = check_shape(path)
    except (OSError, ValueError, UserError) as error:
        return f"it cannot be read as a repository of {fmt}: {error}"
    value = formats.parse_format(fmt)
    if (not value.is_as_is or value.is_upgraded) and shape.format != value.format:
        return f"it is of format {shape.format}, not of {value.format}"
    # Only the addressing distinguishes an upgraded repository: an upgrade leaves it.
    if not value.is_as_is and shape.is_logical != value.is_logical:
        how = "logically" if shape.is_logical else "physically"
        return f"its revisions are addressed {how}, unlike those of {fmt}"
    if shape.full and shape.packing != packing:
        expected = {formats.PACKED: "all", formats.PARTLY_PACKED: "some"}.get(packing, "none")
        return (
            f"{shape.packed} of its {shape.full} full shards are packed, and {expected} should be"
        )
    settings = formats.release_settings(value)
    if settings and formats.read_settings(path) != settings:
        return f"its db/fsfs.conf has not the settings of {fmt}"
    if last not in (None, shape.youngest):
        return f"its youngest revision is {shape.youngest}, not {last}"
    return ""


def walk(repository: Path) -> Iterator[tuple[str, Entries]]:
    waiting = ["."]
    while waiting:
        folder = waiting.pop()
        entries = _entries(os.path.join(repository, folder))
        yield folder, entries
        waiting += [join(folder, name) for name, s in entries if stat.S_ISDIR(s.st_mode)]


def join(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


def _entries(folder: str) -> Entries:
    with os.scandir(folder) as entries:
        return sorted((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)


def folder_state(entries: Entries) -> str:
    """Return a digest of a folder's names, modes, sizes and times.

    Each write, replacement and chmod sets a file's ctime, which no program can set back. A device that
    returns other bytes than were written is not noticed.
    """
    text = "\n".join(
        f"{name}\0{s.st_mode} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for name, s in entries
    )
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def read_state(repository: Path) -> dict[str, str]:
    return {folder: folder_state(entries) for folder, entries in walk(repository)}


def is_shard(folder: str) -> bool:
    return folder.startswith(("db/revs/", "db/revprops/"))


def changed_folder(repository: Path, state: dict[str, str], shards: int | None = None) -> str:
    """Return the first folder that differs from a state; "" if nothing differs.

    `shards` limits the check to so many random shards. In the others, only added and removed files are
    noticed, because they change the folder above.
    """
    sampled = [folder for folder in state if is_shard(folder)]
    if shards is not None and shards < len(sampled):
        sampled = random.sample(sampled, shards)
    for folder in [*(folder for folder in state if not is_shard(folder)), *sorted(sampled)]:
        with suppress(OSError):
            if folder_state(_entries(os.path.join(repository, folder))) == state[folder]:
                continue
        return folder
    return "" if state else "."


def read_chunks(path: str, size: int) -> Iterator[bytes]:
    with open(path, "rb", buffering=0) as file:
        while size > 0 and (chunk := file.read(min(size, CHUNK))):
            yield chunk
            size -= len(chunk)


class RepositoryFile(NamedTuple):
    """A file of a repository; `name` is its path in it."""

    revision: int
    name: str
    size: int
    mode: int


def list_files(path: Path) -> list[RepositoryFile]:
    """Return the files of a repository in the order in which a server would have made them.

    A packed shard counts as its last revision. Raise OSError for anything but files and folders: Subversion
    makes nothing else, and a copy of it could not be verified.
    """
    size = formats.read_shape(path).shard or 1
    files = []
    for folder, entries in walk(path):
        for name, status in entries:
            relative = join(folder, name)
            if stat.S_ISREG(status.st_mode):
                revision = _revision(relative.split("/"), size)
                mode = status.st_mode & 0o777
                files.append(RepositoryFile(revision, relative, status.st_size, mode))
            elif not stat.S_ISDIR(status.st_mode):
                raise OSError(f"{path / relative} is neither a file nor a folder")
    return sorted(files)


def _revision(parts: Sequence[str], size: int) -> int:
    if len(parts) < 3 or parts[:1] != ["db"] or parts[1] not in ("revs", "revprops"):
        return AFTER_ALL_REVISIONS
    shard, _, packed = parts[2].partition(".")
    if not shard.isdigit():
        return AFTER_ALL_REVISIONS
    if packed == "pack":
        return (int(shard) + 1) * size - 1
    return int(parts[-1]) if parts[-1].isdigit() else AFTER_ALL_REVISIONS


def run_svnadmin(
    *arguments: str | Path, on_line: Callable[[str], None] = lambda line: None
) -> None:
    """Run svnadmin. `on_line` gets each line of its output. Raise as read_output() does."""

    def read(output: IO[bytes]) -> None:
        for line in output:
            on_line(line.decode(errors="replace"))

    read_output(read, *arguments)


def read_output(
    read: Callable[[IO[bytes]], T], *arguments: str | Path, program: str = "svnadmin"
) -> T:
    """Run a program of Subversion, and return the result of `read` on its output.

    Raise UserError with its error if it fails, or OSError for a full or read-only storage.
    """
    failure = f"{arguments[-1]}: {program} {arguments[0]} failed"
    with Program([program, *map(str, arguments)], failure, umask=0o022) as running:
        result = read(running.stdout)
        if running.process.wait() != 0:
            raise_write_error(running.errors(), Path(arguments[-1]))
            raise running.failed()
    return result


def run_client(svn: str, *arguments: str | Path, limit_s: float | None = None) -> str:
    """Run the client `svn` outside of the timed region, and return its output."""
    argv = [svn, *arguments, *CLIENT_OPTIONS, *NO_SETTINGS]
    return processes.run_program(argv, limit_s=limit_s).output.strip()


def create(path: Path, fmt: str) -> None:
    value = formats.parse_format(fmt)
    release = formats.RELEASES[value.created]
    run_svnadmin("create", "--fs-type", "fsfs", "--compatible-version", release, path)
    _write_settings(path, value._replace(format=value.created))
    if value.is_upgraded:
        upgrade(path, value)


def upgrade(path: Path, value: formats.FormatValue) -> None:
    run_svnadmin("upgrade", path)
    _write_settings(path, value)


def _write_settings(path: Path, value: formats.FormatValue) -> None:
    if settings := formats.release_settings(value):
        (path / "db" / "fsfs.conf").write_text(formats.settings_text(settings))
