"""Load a source into a repository of one format, and keep it on a storage."""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.files import read_json
from vcsbench.prepare.preparation import print_progress
from vcsbench.prepare.preparations import preparation_of
from vcsbench.prepare.repositories import load_record
from vcsbench.records import LoadRecord, OtherLoad
from vcsbench.sources import SizeEstimate, Source
from vcsbench.storages.file_trees import allocated_bytes
from vcsbench.storages.filesystems import free_bytes
from vcsbench.storages.workdir import LOADED_FOLDER, STAGING, WorkDir, resolve


@contextlib.contextmanager
def staging_dir(workdir: WorkDir, repo: str, fmt: str) -> Iterator[Path]:
    """Make a folder to load into, and remove it at the end, also after an error: it may be in RAM."""
    try:
        yield workdir.make(STAGING, f"{repo}.{fmt}")
    finally:
        workdir.remove(STAGING, f"{repo}.{fmt}")


def keep_loaded(repository: Path, home: WorkDir, repo: str, fmt: str) -> Path:
    """Move a loaded repository to its folder on the storage `home`, and return that folder.

    The repository stays there until `make clean`: lost copies are made from it without loading again.
    """
    # Files in the folder were made from an earlier load.
    home.remove(LOADED_FOLDER, repo, fmt)
    folder = home.make(LOADED_FOLDER, repo, fmt)
    new = folder / f"{repository.name}.new"
    with progress.stage("storing the loaded repository"):
        shutil.move(repository, new)
        # The sync comes before the new name, so a repository without `.new` is complete after a power cut.
        os.sync()
        new.rename(folder / repository.name)
    return folder


def home_of(record: LoadRecord, root: str | Path) -> WorkDir:
    """Return the work folder of the storage that has a loaded repository."""
    # The record has the folder <storage>/vcsbench-1a2b3c4d/loaded/<repository>/<format>.
    return WorkDir(Path(record["path"]).parents[3], root)


def choose_staging(
    estimate: SizeEstimate,
    scratch: WorkDir,
    repositories: Mapping[WorkDir, int],
    spacer_bytes: Mapping[WorkDir, int] | None = None,
    others: Sequence[OtherLoad] = (),
    cores: int | None = None,
    replaced_bytes: Mapping[WorkDir, int] | None = None,
) -> WorkDir:
    """Return the work folder to load into: `scratch` (mostly in RAM), or the first storage with enough space.

    - `estimate`: the size of the loaded repository, from before the load.
    - `repositories`: how many repositories of this size each storage gets after the load: the loaded one, and
      copies of it. A copy of twice the size counts as two.
    - `spacer_bytes`: the bytes of the spacers (files that scatter the copies on the disk) of each storage.
    - `others`: the other loads of this session that have not ended (unfinished_loads).
    - `cores`: the largest number of loads that are made at the same time, with this one; None: all.
    - `replaced_bytes`: the bytes of older repositories on each storage, removed before new ones are made.

    Print the needed and the free space, and that a load is not in `scratch`. Raise UserError if a storage has
    too little space for the repositories of all loads, or if no work folder also has space for the load.
    """
    size = repository_bytes(estimate)
    # Scratch comes first, because it is the fastest.
    workdirs = list(dict.fromkeys([scratch, *repositories]))
    for workdir in workdirs:
        workdir.make()
    # Work folders on the same device share its space.
    devices = {workdir: os.stat(workdir.path).st_dev for workdir in workdirs}
    spacers = spacer_bytes or {}
    replaced = replaced_bytes or {}
    bytes_by_device = _count_later_bytes(
        size, repositories, spacers, replaced, others, root=scratch.owner
    )
    # By work folder: the bytes that will be taken later on its device, and those that are free there now.
    reserved = {workdir: bytes_by_device[device] for workdir, device in devices.items()}
    free = {workdir: free_bytes(workdir.path) for workdir in workdirs}
    _print_space(size, repositories, spacers, replaced, free)

    # Without space for the later repositories, hours of loading would be in vain.
    for workdir in repositories:
        if reserved[workdir] > free[workdir]:
            raise _too_small(workdir, reserved[workdir], free[workdir])
    storage_devices = {devices[workdir] for workdir in repositories}
    for workdir in workdirs:
        needed = reserved[workdir] + size
        # Other loads may write to `scratch` at the same time. If it is on the device of a storage, their
        # space is reserved already, because a loaded repository is one of the later repositories.
        if devices[workdir] not in storage_devices:
            needed += _bytes_at_the_same_time(others, scratch, cores)
        if needed <= free[workdir]:
            if workdir is not scratch:
                print_progress(
                    f"too large for {scratch.path}: loaded on {workdir.path}, which takes longer"
                )
            return workdir
    # No work folder has enough space. The error names the last one.
    last = workdirs[-1]
    raise _too_small(last, reserved[last] + size, free[last])


def _count_later_bytes(
    size: int,
    repositories: Mapping[WorkDir, int],
    spacer_bytes: Mapping[WorkDir, int],
    replaced_bytes: Mapping[WorkDir, int],
    others: Sequence[OtherLoad],
    *,
    root: str,
) -> Counter[int]:
    """Return the bytes that repositories and spacers take on each device after this load and the `others`.

    `size` is that of a repository of this load, and `root` is the checkout. The keys are numbers of devices.
    """
    bytes_by_device: Counter[int] = Counter()
    for workdir, number in repositories.items():
        # An older repository is removed before the new one is made.
        new_bytes = size * number - replaced_bytes.get(workdir, 0)
        bytes_by_device[os.stat(workdir.path).st_dev] += max(0, new_bytes)
    for workdir, spacers in spacer_bytes.items():
        bytes_by_device[os.stat(workdir.path).st_dev] += spacers
    for other in others:
        for folder, number_of_bytes in other["storages"].items():
            # A missing storage is an error of the load that needs it.
            with contextlib.suppress(OSError):
                device = os.stat(resolve(folder, root)).st_dev
                bytes_by_device[device] += number_of_bytes
    return bytes_by_device


def _print_space(
    size: int,
    repositories: Mapping[WorkDir, int],
    spacer_bytes: Mapping[WorkDir, int],
    replaced_bytes: Mapping[WorkDir, int],
    free: Mapping[WorkDir, int],
) -> None:
    """Print the space that the repositories of a load need, and the free bytes of each work folder."""
    total = words.count_of(sum(repositories.values()), "repository", "repositories")
    text = f"space for {total} of about {words.size(size)} each"
    if spacer_bytes:
        text += f", spacers of {words.size(sum(spacer_bytes.values()))}"
    if replaced_bytes:
        text += f", in place of {words.size(sum(replaced_bytes.values()))}"
    spaces = [f"{workdir.path} has {words.size(space)}" for workdir, space in free.items()]
    print_progress(f"{text}; {', '.join(spaces)}")


def unfinished_loads(others: Sequence[OtherLoad], root: str | Path) -> list[OtherLoad]:
    """Return the loads among `others` that have not ended in this session. `root` is the checkout."""
    unfinished = []
    for other in others:
        # A load writes its record at its end. The record of an earlier load has another value of `made`.
        record = read_json(Path(root, load_record(other["repo"], other["format"])))
        if record.get("made") != other["made"]:
            unfinished.append(other)
    return unfinished


def _bytes_at_the_same_time(
    others: Sequence[OtherLoad], scratch: WorkDir, cores: int | None
) -> int:
    """Return how many bytes other loads may still write to `scratch` while this load is made there.

    Loads have a fixed order, and each leaves space only for earlier ones (`is_earlier`). Otherwise, two loads
    that do not fit together would leave space for each other, and neither would be made in `scratch`. At most
    `cores` loads are made at the same time, with this one. So only the `cores` - 1 largest of the earlier
    loads count; None: all.
    """
    unwritten_bytes = []
    for other in others:
        if other["is_earlier"] and not _is_staged_elsewhere(other, scratch):
            # The free space has become less by these bytes already.
            written = allocated_bytes(_staging_path(scratch, other))
            unwritten_bytes.append(max(0, other["bytes"] - written))
    unwritten_bytes.sort(reverse=True)
    if cores is not None:
        unwritten_bytes = unwritten_bytes[: cores - 1]
    return sum(unwritten_bytes)


def _is_staged_elsewhere(load: OtherLoad, scratch: WorkDir) -> bool:
    """Return True if another load is made on one of its storages now, and not in `scratch`."""
    for folder in load["storages"]:
        storage = WorkDir(folder, scratch.owner)
        if storage.path != scratch.path and os.path.lexists(_staging_path(storage, load)):
            return True
    return False


def _staging_path(workdir: WorkDir, load: OtherLoad) -> Path:
    """Return the folder of another load in a work folder (staging_dir). It exists while the load is made."""
    return workdir.path / STAGING / f"{load['repo']}.{load['format']}"


def _too_small(workdir: WorkDir, needed: int, free: int) -> UserError:
    return UserError(
        f"{workdir.path}: repositories and copies need about {words.size(needed)}, and "
        f"{words.size(free)} are free. Use another folder in `storages`, or lower `copies` or the scale."
    )


def repository_bytes(estimate: SizeEstimate) -> int:
    """Return the estimated bytes on disk of a loaded repository that is not packed."""
    if not estimate.has_revision_files:
        return estimate.repository_bytes
    # Each revision has two files: its changes, and its properties. The end of a file takes a whole block.
    return estimate.repository_bytes + 2 * estimate.revisions * 4096


def load_source(source: Source, fmt: str, staging: Path) -> LoadRecord:
    """Load a source into the new repository `staging`/<format>.<state>, such as f7.nopack. Return its facts.

    Repositories of Subversion and git are verified later (verify). Raise UserError if the source cannot be
    loaded in this format.
    """
    return preparation_of(fmt).load(source, fmt, staging)
