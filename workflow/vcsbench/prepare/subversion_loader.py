"""Load a source into a Subversion repository, and make a packed copy or a dump of it."""

import contextlib
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, BinaryIO, cast

from vcsbench import formats, processes, progress, words
from vcsbench.errors import UserError
from vcsbench.external import CHUNK, SMALL_FILE, read_bytes
from vcsbench.prepare.preparation import Preparation, Task, print_progress
from vcsbench.prepare.subversion_verification import list_verifications
from vcsbench.processes import Program
from vcsbench.programs import Programs
from vcsbench.records import DumpRecord, LoadRecord
from vcsbench.sources import Source
from vcsbench.sources.base import Facts
from vcsbench.sources.dump_reader import BYPASS, DumpReader, Oddity
from vcsbench.sources.svn_source import SvnSource
from vcsbench.sources.svn_tree import summarize_tree
from vcsbench.storages.file_trees import remove_path
from vcsbench.storages.filesystems import raise_write_error
from vcsbench.storages.workdir import WorkDir
from vcsbench.subjects.repository import file_state
from vcsbench.systems import fsfs
from vcsbench.time_spans import span_since

DUMPS = "dumps"
_COPIED = re.compile(r"\* Copied revisions? (?:from \d+ to )?(\d+)")
_PACKING = re.compile(r"Packing revisions in shard (\d+)")
_MEMCACHED = re.compile(rb"^\[memcached-servers\]", re.MULTILINE | re.IGNORECASE)
# Old histories have properties that today's Subversion refuses.
LOAD = ("svnadmin", "load", "-q", "--no-flush-to-disk", BYPASS)
REMEDIES = {
    "E160020": "It adds this path again, as a file does that has one dump twice. Make the dump again, in a "
    "new file.",
    "E160013": "It lacks this path. Make it again from revision 0, without --incremental, with the folders "
    "above its paths.",
}
MEMCACHED_NOTE = "The servers of memcached in its db/fsfs.conf are not used."


class SubversionPreparation(Preparation):
    """The preparation of FSFS repositories: loaded or copied as they are, and packed."""

    def load(self, source: Source, fmt: str, staging: Path) -> LoadRecord:
        """Load a source into a new repository in the folder `staging`, and return facts about the repository.

        The repository depends on the format `fmt`:

        - `f7`: the history is loaded into a repository of this format, which is not packed: f7.nopack.
        - `f6-to-f8`: the repository is made in f6, and upgraded after the load.
        - `as-is`: the user's repository is copied with its packing. `as-is-to-f8` also upgrades the copy.

        Raise UserError if the source cannot be loaded, or if the repository has another format than `fmt`.
        """
        begun = time.monotonic()
        format_value = formats.parse_format(fmt)
        # The end of this function reads this source again, for the path that commands export. With `as-is`,
        # the source then reads the copy, because the user's repository may have changed.
        tree_source = source
        if format_value.is_as_is:
            tree_source, repository, facts = _copy_as_it_is(source, fmt, staging)
        else:
            repository = staging / f"{fmt}.{formats.NOT_PACKED}"
            facts = _load_stream(source, repository, format_value)
        if format_value.is_upgraded:
            fsfs.upgrade(repository, format_value)
        print_progress(
            f"loaded {words.count_of(facts.revisions, 'revision')} in {time.monotonic() - begun:.1f} s"
        )

        packing = repository.name.rpartition(".")[2]
        # An svnadmin of another release may make another format, which would be measured as `fmt`. A copy of
        # `as-is` may have any format, and one of `as-is-to-f8` has to be of f8.
        mismatch = fsfs.mismatch(repository, fmt, packing)
        if mismatch:
            raise UserError(f"{repository}: was loaded, but {mismatch}. Use another svnadmin.")

        # The path that commands export, such as trunk, and below it the folder with the most entries.
        tree = tree_source.tree(repository)
        folder, odd_paths = summarize_tree(repository, tree)
        return {
            "packing": packing,
            "revisions": facts.revisions,
            "notes": list(facts.notes),
            "load_options": list(facts.load_options),
            "tree": tree,
            "folder": folder,
            "busy_file": facts.busy_file,
            # Paths that are too long for any disk, and others that no working copy can hold (`.svn`).
            "long_names": odd_paths.impossible,
            "reserved_names": odd_paths.reserved,
            **span_since(begun),
        }

    def make_states(
        self, loaded: Path, states: Sequence[str], builds: Sequence[Programs] = ()
    ) -> dict[str, float]:
        """Pack a copy of the loaded repository: there is no other state to make."""
        return {formats.PACKED: make_packed(loaded)}

    def list_tasks(self, folder: Path, fmt: str, stop: threading.Event) -> list[Task]:
        return list_verifications(folder, fmt, stop)


def _copy_as_it_is(source: Source, fmt: str, staging: Path) -> tuple[SvnSource, Path, Facts]:
    """Copy the user's repository. Return the source that reads the copy, the path of the copy, and facts.

    Raise UserError if the source is no local repository, or if it has later commits than when the run began.
    """
    if not isinstance(source, SvnSource):
        raise UserError(
            f"{source.describe()}: an exact copy needs a local repository. Use its path."
        )
    copy, facts = hotcopy(source.repository, staging)
    # hotcopy() names the copy as-is.<packing>. With `as-is-to-f8`, it needs another name.
    packing = copy.name.rpartition(".")[2]
    repository = copy.rename(staging / f"{fmt}.{packing}")
    return source.from_copy(repository), repository, facts


def _load_stream(source: Source, repository: Path, value: formats.FormatValue) -> Facts:
    """Make a repository, load a source into it, and return the facts of the source.

    For the format `f6-to-f8`, the repository is made in f6, and the caller upgrades it.
    """
    fsfs.create(repository, value.loaded_as)

    # The progress display calls this function once a second.
    def look() -> tuple[int, int]:
        return fsfs.youngest(repository), source.expected_revisions()

    with progress.stage(source.doing, unit="revisions", look=look):
        facts = _stream(source, repository)
        _delete_dates(repository, facts.bogus_dates)
    return facts


def hotcopy(repository: Path, staging: Path) -> tuple[Path, Facts]:
    """Copy a repository to `staging`/as-is.<packing> by `svnadmin hotcopy`. Return the copy's path and facts.

    Deltas, packing and settings stay as they are, but unreadable dates and servers of memcached are removed.
    Hooks and passwords are not copied. The repository is only read. Raise UserError if svnadmin fails, or if
    the copy has a link (_make_readable).
    """
    copy = staging / f"{formats.AS_IS}.new"
    # svnadmin writes to the repository that it copies. So it copies a folder that links to the user's one.
    stand_in = staging / f"{formats.AS_IS}.view"
    youngest = fsfs.youngest(repository)
    _make_view(repository, stand_in)
    try:
        with progress.stage("copying the repository", youngest, "revisions") as stage:
            show_revision = stage.follow(_COPIED)
            fsfs.run_svnadmin("hotcopy", stand_in, copy, on_line=show_revision)
        notes = []
        if formats.has_memcached(copy):
            # Programs that open the copy would connect to the user's servers, and could read revisions of
            # another repository with the same UUID there.
            configuration = copy / "db" / "fsfs.conf"
            configuration.write_bytes(_MEMCACHED.sub(b"[unused]", configuration.read_bytes()))
            notes.append(MEMCACHED_NOTE)
        facts = _remove_bogus_dates(copy)
        facts.notes.extend(notes)
    except UserError as error:
        # svnadmin's message names the folder `stand_in`, which the user does not know.
        reason = str(error).replace(str(stand_in), str(repository))
        if "sqlite" in reason:
            reason += ". Move its db/rep-cache.db away: Subversion works without it."
        raise UserError(f"{repository}: {reason}") from error
    shutil.rmtree(stand_in)
    _make_readable(copy)
    # The user's repository may have been packed since the run began, so the packing is read from the copy.
    packing = fsfs.check_shape(copy).packing
    return copy.rename(staging / f"{formats.AS_IS}.{packing}"), facts


def _make_view(repository: Path, view: Path) -> None:
    """Make a folder that svnadmin can copy in place of the user's repository.

    svnadmin would add missing files to `locks` of its source, and copy hooks and passwords. So `view` has
    empty folders in place of these, and a link to `db`.
    """
    for name in ("locks", "hooks", "conf"):
        (view / name).mkdir(parents=True)
    (view / "format").write_bytes(read_bytes(repository / "format", SMALL_FILE))
    (view / "db").symlink_to(repository / "db")


def _make_readable(copy: Path) -> None:
    """Give all users the right to read a copy, because the servers run as another user.

    The modes come from the user's repository, which may keep others out. Raise UserError for a link, which
    somebody may have made since the repository was checked.
    """
    # Links are not followed, because the mode of a file outside of the copy must not change.
    for folder, subfolders, files, descriptor in os.fwalk(copy, follow_symlinks=False):
        os.fchmod(descriptor, 0o755)
        # fwalk() lists a link to a folder among the subfolders.
        for name in [*subfolders, *files]:
            mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            path = os.path.join(folder, name)
            if stat.S_ISLNK(mode):
                raise UserError(f"{path}: this is a link in the copy of a repository. Run again.")
            # fwalk() visits the subfolders later.
            if stat.S_ISREG(mode):
                # The name may be a link by now. So the mode is set on an opened file, not on the name.
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=descriptor)
                is_writable = bool(mode & 0o200)
                os.fchmod(file, 0o644 if is_writable else 0o444)
                os.close(file)


def _delete_dates(repository: Path, revisions: Iterable[int]) -> None:
    """Delete dates that Subversion cannot read, because `svnadmin verify` and `svn log` fail there."""
    for revision in revisions:
        fsfs.run_svnadmin("delrevprop", "-r", str(revision), repository, "svn:date")


def _remove_bogus_dates(copy: Path) -> Facts:
    """Delete the dates of a copy that Subversion cannot read. Return its facts, with a note on the dates."""
    failure = f"{copy}: svnadmin dump-revprops failed"
    remedy = "Check it with svnadmin verify."
    with Program(["svnadmin", "dump-revprops", "-q", str(copy)], failure) as program:
        reader = DumpReader(str(copy), program.stdout, remedy=remedy)
        reader.run_on(program)
    facts = reader.facts()
    _delete_dates(copy, facts.bogus_dates)
    return replace(facts, notes=reader.notes([Oddity.DATE]))


def _stream(source: Source, path: Path) -> Facts:
    """Load a source into the repository at `path`: `svnadmin load` reads what the source writes.

    Return the facts of the source. Raise UserError if the load fails or does not load all revisions, and
    OSError if the storage is full.
    """
    # `facts` stays None if svnadmin ends before the source has written everything.
    facts = None
    failure = f"{path}: svnadmin load failed"
    with Program([*LOAD, str(path)], failure, stdin=processes.PIPE) as load:
        # If svnadmin fails, it ends early. The reason is in its messages, which are read below.
        with contextlib.suppress(BrokenPipeError):
            facts = source.write(cast("BinaryIO", load.process.stdin))
        load.close_input()
        if load.process.wait() != 0:
            raise_write_error(load.errors(), path)
            raise _load_error(load, source, path)
    # svnadmin ended early, but its exit code is 0.
    if facts is None:
        raise UserError(f"{path}: svnadmin load did not read all of the history. Run again.")
    # svnadmin load may take damage for the end of the stream, and end without an error.
    loaded = fsfs.youngest(path)
    if loaded != facts.revisions:
        raise UserError(
            f"{path}: svnadmin load loaded {loaded} of {facts.revisions} revisions. Check the source."
        )
    return facts


def _load_error(load: Program, source: Source, path: Path) -> UserError:
    """Return the error of a failed `svnadmin load`, with the revision, its place in the source and a remedy.

    Example: `... svnadmin load failed after revision 7 (revision 8 of a.dump, at byte 4,096 of the stream):
    ...`. `path` is the repository into which the program loaded.
    """
    last_loaded = fsfs.youngest(path)
    # In the error of load.failed(), the last messages of the program follow after `failure`.
    load.failure += f" after revision {last_loaded}"
    place = source.describe_place(last_loaded + 1)
    if place:
        load.failure += f" ({place})"
    error = load.failed()
    for code, remedy in REMEDIES.items():
        if code in str(error):
            return UserError(f"{error}. {remedy}")
    return error


def make_packed(repository: Path) -> float:
    """Make a packed copy of a loaded repository next to it, and return the seconds of `svnadmin pack`.

    f7.nopack gets the copy f7.pack. Do nothing and return 0.0 if the repository is packed already, as a copy
    of the user's repository can be. After an error, no incomplete copy is left.
    """
    fmt = repository.name.rpartition(".")[0]
    packed = repository.with_name(f"{fmt}.{formats.PACKED}")
    if packed == repository:
        return 0.0
    new = packed.with_name(f"{packed.name}.new")
    # A killed job may have left `new`, and `packed` may come from an earlier load.
    for path in (packed, new):
        remove_path(path)
    try:
        # svnadmin packs in place, and the loaded repository is needed as it is, too.
        shutil.copytree(repository, new)
        begun = time.monotonic()
        # Only full shards, which are folders of usually 1,000 revisions, are packed.
        full_shards = fsfs.check_shape(new).full
        with progress.stage("packing", full_shards, "shards") as stage:
            show_shard = stage.follow(_PACKING)
            fsfs.run_svnadmin("pack", new, on_line=show_shard)
        seconds = time.monotonic() - begun
    except BaseException:
        remove_path(new)
        raise
    new.rename(packed)
    print_progress(f"packed {fsfs.check_shape(packed).packed} shards of {packed.name}")
    return seconds


def make_dump(repository: Path, revisions: int, workdir: WorkDir, name: str) -> DumpRecord:
    """Dump revision 0 to revision `revisions`, or to the youngest if that is less, into dumps/`name`.dump.

    Return facts about the file. Raise UserError if svnadmin fails, and OSError if the storage is full. No
    incomplete file is kept.
    """
    path = workdir.make(DUMPS) / f"{name}.dump"
    # An earlier dump, or a file that somebody has put there.
    workdir.remove(DUMPS, path.name)
    try:
        last = min(revisions, fsfs.youngest(repository))
    except (OSError, ValueError, IndexError) as error:
        # db/current is missing, empty, or has no number.
        raise UserError(f"{repository}: cannot be dumped: {error}. Run again.") from None
    try:
        # An existing file may be somebody's hard link to a file that must not be overwritten ("x").
        with path.open("xb") as file:

            def write(output: IO[bytes]) -> None:
                shutil.copyfileobj(output, file, CHUNK)

            fsfs.read_output(write, "dump", "-q", "-r", f"0:{last}", repository)
            # The caller writes a record later. So after a power cut, a dump with a record is complete.
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return {
        "path": str(path),
        "state": file_state(path),
        "bytes": path.stat().st_size,
        "last": last,
    }
