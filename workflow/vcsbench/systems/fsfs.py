"""Read FSFS repositories on disk, and run Subversion's programs on them."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar

from vcsbench import formats, processes
from vcsbench.errors import UserError
from vcsbench.processes import Program
from vcsbench.programs import Programs
from vcsbench.storages.filesystems import raise_write_error
from vcsbench.storages.folder_states import StoredFile
from vcsbench.systems.base import regular_files

T = TypeVar("T")
# The revision of a file that belongs to no revision, such as db/current: it is written last.
AFTER_ALL_REVISIONS = 1 << 62
# With --config-dir, the client reads neither the user's settings nor /etc/subversion.
NO_SETTINGS = ("--config-dir", "/proc/self/no-settings")
CLIENT_OPTIONS = (
    "--non-interactive",
    "--config-option",
    "config:working-copy:exclusive-locking=yes",
)


def youngest(path: Path) -> int:
    """Return the youngest revision of a repository."""
    # Up to format 2, the next identifiers of a node and a copy follow the number.
    return int((path / "db" / "current").read_text().split()[0])


def revision_file(revision: int, size: int) -> str:
    """Return the path of an unpacked revision below db/revs: 1/1234. `size`: revisions per shard; 0: none."""
    return f"{revision // size}/{revision}" if size else f"{revision}"


def check_shape(path: Path) -> formats.Shape:
    """Return the shape of a repository on disk, such as its format and youngest revision.

    Raise ValueError if the repository is not FSFS, or if other shards are packed than its file
    min-unpacked-rev states. Raise OSError, ValueError or UserError if a file cannot be read.
    """
    kind = (path / "db" / "fs-type").read_text().strip()
    if kind != "fsfs":
        raise ValueError(f"its file system is {kind}")
    shape = formats.read_shape(path)
    names = os.listdir(path / "db" / "revs")
    # The oldest shards are packed first: `0.pack`, `1.pack`, and so on.
    packed_shards = {name.removesuffix(".pack") for name in names if name.endswith(".pack")}
    expected_shards = {str(shard) for shard in range(shape.packed)}
    if packed_shards != expected_shards:
        raise ValueError(
            f"db/min-unpacked-rev counts {shape.packed} packed shards, but packed are "
            f"{', '.join(sorted(packed_shards)) or 'none'}"
        )
    return shape


def mismatch(path: Path, fmt: str, packing: str, last: int | None = None) -> str:
    """Return the first difference between a repository and its label, as a clause; "" if there is none.

    The label is the format `fmt`, such as f6-to-f8, and the `packing`, such as nopack. `last` is the expected
    youngest revision.
    """
    try:
        shape = check_shape(path)
    except (OSError, ValueError, UserError) as error:
        return f"it cannot be read as a repository of {fmt}: {error}"
    label = formats.parse_format(fmt)
    # A copy of the user's repository (as-is) may have any format, unless it was upgraded (as-is-to-f8).
    has_known_format = not label.is_as_is or label.is_upgraded
    if has_known_format and shape.format != label.format:
        return f"it is of format {shape.format}, not of {label.format}"
    # An f8 upgraded from f6 has the format number of a new f8. But its revisions are still addressed
    # physically, by bytes. Since f7, those of new repositories are addressed logically, by numbers of items.
    if not label.is_as_is and shape.is_logical != label.is_logical:
        how = "logically" if shape.is_logical else "physically"
        return f"its revisions are addressed {how}, unlike those of {fmt}"
    # A repository without a full shard fits any packing.
    if shape.full and shape.packing != packing:
        expected = {formats.PACKED: "all", formats.PARTLY_PACKED: "some"}.get(packing, "none")
        return (
            f"{shape.packed} of its {shape.full} full shards are packed, and {expected} should be"
        )
    # For some formats, vcsbench writes no settings, so db/fsfs.conf may have any.
    settings = formats.release_settings(label)
    if settings and formats.read_settings(path) != settings:
        return f"its db/fsfs.conf has not the settings of {fmt}"
    if last is not None and shape.youngest != last:
        return f"its youngest revision is {shape.youngest}, not {last}"
    return ""


def is_shard(folder: str) -> bool:
    """Return True for a path below db/revs or db/revprops, such as the folder of revisions db/revs/3."""
    return folder.startswith(("db/revs/", "db/revprops/"))


def list_files(path: Path) -> list[StoredFile]:
    """Return the files of a repository, sorted by the revision with which a server would have made them.

    A packed shard counts as its last revision. Files of no revision, such as db/current, come last. Raise
    OSError for a link, a pipe or a device.
    """
    shard_size = formats.read_shape(path).shard
    files = []
    for name, status in regular_files(path):
        revision = _find_revision(name.split("/"), shard_size)
        files.append(StoredFile(revision, name, status.st_size, status.st_mode & 0o777))
    return sorted(files)


def _find_revision(parts: Sequence[str], shard_size: int) -> int:
    """Return the revision of a file: 1234 of ["db", "revs", "1", "1234"], and 999 of db/revs/0.pack/pack.

    A file of no revision has AFTER_ALL_REVISIONS.
    """
    if len(parts) < 3 or parts[0] != "db" or parts[1] not in ("revs", "revprops"):
        return AFTER_ALL_REVISIONS
    shard, _, suffix = parts[2].partition(".")
    if not shard.isdigit():
        return AFTER_ALL_REVISIONS
    if suffix == "pack":
        # The last revision of the packed shard.
        return (int(shard) + 1) * shard_size - 1
    name = parts[-1]
    return int(name) if name.isdigit() else AFTER_ALL_REVISIONS


def run_svnadmin(*arguments: str | Path, on_line: Callable[[str], None] | None = None) -> None:
    """Run svnadmin. `on_line` gets each line of its output. Raise as read_output() does."""

    def read_lines(output: IO[bytes]) -> None:
        for line in output:
            if on_line:
                on_line(line.decode(errors="replace"))

    read_output(read_lines, *arguments)


def read_output(
    read: Callable[[IO[bytes]], T], *arguments: str | Path, program: str = "svnadmin"
) -> T:
    """Run a program of Subversion, and return the result of the function `read` for its output.

    Raise UserError with the program's message if it fails, or OSError if the storage is full or read-only.
    """
    # Errors name the subcommand, such as "verify", and the last argument, which mostly is the repository.
    subcommand, place = arguments[0], arguments[-1]
    failure = f"{place}: {program} {subcommand} failed"
    argv = [program, *map(str, arguments)]
    # The servers, which run as another user, have to read the files that the program makes.
    with Program(argv, failure, umask=0o022) as running:
        result = read(running.stdout)
        if running.process.wait() != 0:
            raise_write_error(running.errors(), Path(place))
            raise running.failed()
    return result


def run_client(client: Programs, *arguments: str | Path, limit_s: float | None = None) -> str:
    """Run svn of a build, with the build's libraries, outside of the timed region. Return its output."""
    argv = [client.get("svn"), *arguments, *CLIENT_OPTIONS, *NO_SETTINGS]
    return processes.run_program(argv, env=client.environment(), limit_s=limit_s).output.strip()


def create(path: Path, fmt: str) -> None:
    """Create a repository of a format: f7, or f6-to-f8, which is created as f6 and upgraded."""
    value = formats.parse_format(fmt)
    release = formats.RELEASES[value.created]
    run_svnadmin("create", "--fs-type", "fsfs", "--compatible-version", release, path)
    _write_settings(path, value._replace(format=value.created))
    if value.is_upgraded:
        upgrade(path, value)


def upgrade(path: Path, value: formats.FormatValue) -> None:
    """Upgrade a repository to the newest format, with the settings of the release that introduced it."""
    run_svnadmin("upgrade", path)
    _write_settings(path, value)


def _write_settings(path: Path, value: formats.FormatValue) -> None:
    settings = formats.release_settings(value)
    if settings:
        (path / "db" / "fsfs.conf").write_text(formats.settings_text(settings))
