"""Load a source into a repository of one format, and keep it on a storage."""

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from vcsbench import progress, words
from vcsbench.errors import UserError
from vcsbench.prepare.preparation import print_progress
from vcsbench.prepare.preparations import preparation_of
from vcsbench.records import LoadRecord
from vcsbench.sources import SizeEstimate, Source
from vcsbench.storages.filesystems import free_bytes
from vcsbench.storages.workdir import LOADED_FOLDER, STAGING, WorkDir


@contextlib.contextmanager
def staging_dir(workdir: WorkDir, repo: str, fmt: str) -> Iterator[Path]:
    """Make a folder to load into. It is removed at the end, also after an error: it may be in RAM."""
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
        # After a power cut, a repository with its name is complete.
        os.sync()
        new.rename(folder / repository.name)
    return folder


def home_of(record: LoadRecord, root: str | Path) -> WorkDir:
    """Return the work folder of the storage that has a loaded repository."""
    return WorkDir(Path(record["path"]).parents[3], root)


def choose_staging(
    estimate: SizeEstimate, scratch: WorkDir, repositories: Mapping[WorkDir, int]
) -> WorkDir:
    """Return the work folder to load into: `scratch` (mostly in RAM), or the first storage with enough space.

    `repositories` has the number of repositories that each storage gets after the load, such as copies, each
    as large as the loaded one. Print the needed and the free space, and that a load is not in `scratch`.
    Raise UserError if a storage has too little space for the repositories, or if no work folder also has
    space for the load.
    """
    size = repository_bytes(estimate)
    # Scratch comes first, because it is the fastest. It may be one of the storages, and is listed once.
    workdirs = list(dict.fromkeys([scratch, *repositories]))
    for workdir in workdirs:
        workdir.make()
    # The bytes that later repositories take on the device of each work folder. Work folders on one device
    # share its space, so each of them has the bytes of all.
    devices = {workdir: os.stat(workdir.path).st_dev for workdir in workdirs}
    bytes_by_device: Counter[int] = Counter()
    for workdir, number in repositories.items():
        bytes_by_device[devices[workdir]] += size * number
    reserved = {workdir: bytes_by_device[device] for workdir, device in devices.items()}
    free = {workdir: free_bytes(workdir.path) for workdir in workdirs}

    total = words.count_of(sum(repositories.values()), "repository", "repositories")
    spaces = [f"{workdir.path} has {words.size(space)}" for workdir, space in free.items()]
    print_progress(f"{total} of about {words.size(size)} each; {', '.join(spaces)}")
    # Without space for the later repositories, the load is useless. So the error is raised before hours of
    # loading.
    for workdir in repositories:
        if reserved[workdir] > free[workdir]:
            raise _too_small(workdir, reserved[workdir], free[workdir])

    # The load needs the space of one repository in addition.
    for workdir in workdirs:
        if reserved[workdir] + size <= free[workdir]:
            if workdir is not scratch:
                print_progress(
                    f"too large for {scratch.path}: loaded on {workdir.path}, which takes longer"
                )
            return workdir
    # No work folder has enough space. The error names the last one.
    last = workdirs[-1]
    raise _too_small(last, reserved[last] + size, free[last])


def _too_small(workdir: WorkDir, needed: int, free: int) -> UserError:
    return UserError(
        f"{workdir.path}: repositories and copies need about {words.size(needed)}, and "
        f"{words.size(free)} are free. Use another folder in `storages`, or lower `copies` or the scale."
    )


def repository_bytes(estimate: SizeEstimate) -> int:
    """Return the bytes on disk of a loaded repository. Each revision has two files with a part block."""
    return estimate.repository_bytes + 2 * estimate.revisions * 4096


def load_source(source: Source, fmt: str, staging: Path) -> LoadRecord:
    """Load a source into a new repository in the folder `staging`, and return facts about it (LoadRecord).

    The repository is `staging`/<format>.<state>, such as f7.nopack. It is not verified here (verify). Raise
    UserError if the source cannot be loaded in this format.
    """
    return preparation_of(fmt).load(source, fmt, staging)
