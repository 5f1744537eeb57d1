"""Load a source in one format, keep the repository on a storage, and write a record with its path."""

import os
from collections.abc import Mapping
from typing import Any

from vcsbench import progress, sources
from vcsbench.files import write_json
from vcsbench.prepare import loader
from vcsbench.prepare.repositories import count_replaced_bytes, count_spacer_bytes
from vcsbench.records import LoadRequest
from vcsbench.run.job import job_log
from vcsbench.sources import SizeEstimate
from vcsbench.storages.filesystems import naming
from vcsbench.storages.workdir import WorkDir

snakemake: Any


def load_repository() -> None:
    """Load a history into a new repository of one format on a storage, and write a record.

    Copies of the loaded repository are measured later.
    """
    params = snakemake.params
    repo, fmt = snakemake.wildcards.repo, snakemake.wildcards.format
    source = sources.open_source(repo, params.definition, root=params.root)
    source.check()
    # The history may have changed since the run was planned.
    source.check_unchanged(params.identity)

    # The repository is loaded in `staging_folder`, mostly in RAM, which is faster, and moves to `home`.
    home = WorkDir(params.request["home"], params.root)
    scratch = WorkDir(params.scratch, params.root)
    staging_folder = choose_staging_folder(scratch, fmt, source.estimate())
    # A repository is private if not all users of this machine can read it.
    is_private = sources.is_private(params.definition)
    if is_private:
        for work_folder in (staging_folder, scratch, home):
            work_folder.make()
            work_folder.check_protected()

    with loader.staging_dir(staging_folder, repo, fmt) as staging:
        # Errors without a path, as of a write to a full disk, get the path of the folder.
        with naming(staging_folder.path):
            facts = loader.load_source(source, fmt, staging)
            # A load can take hours, in which somebody may commit to the user's repository.
            source.check_unchanged(params.identity)
        with naming(home.path):
            # Such as f7.nopack.
            loaded = staging / f"{fmt}.{facts['packing']}"
            path = loader.keep_loaded(loaded, home, repo, fmt)
    record = {
        "repo": repo,
        "format": fmt,
        "identity": params.identity,
        "path": str(path),
        "loaded_in": str(staging_folder.path),
        # The token is a time. Snakemake loads again if the param changes.
        "made": params.rebuild_token,
        "request": params.request,
        "private": is_private,
    }
    write_json(snakemake.output[0], {**record, **facts})


def choose_staging_folder(scratch: WorkDir, fmt: str, estimate: SizeEstimate) -> WorkDir:
    """Return the folder to load into: `scratch`, mostly in RAM, or a storage if `scratch` is too small.

    Raise UserError if a storage has too little space for all repositories that are made there later.
    """
    params = snakemake.params
    # `repositories` has the number of later repositories by folder of a storage: {"/var/tmp": 7}.
    request: LoadRequest = params.request
    # Spacers are files that scatter the copies on the device.
    spacer_bytes = count_spacer_bytes(request, fmt, estimate.revisions)
    # Older repositories are removed before new ones are made in their place.
    replaced_bytes = count_replaced_bytes(request, loader.repository_bytes(estimate))
    # Each folder is one object, because two objects for the same folder are not equal as keys.
    work_folders = {folder: WorkDir(folder, params.root) for folder in request["repositories"]}
    return loader.choose_staging(
        estimate,
        scratch,
        by_work_folder(request["repositories"], work_folders),
        by_work_folder(spacer_bytes, work_folders),
        loader.unfinished_loads(params.others, params.root),
        # With `--cores all`, so many loads run at once. With fewer cores, this load may avoid `scratch`
        # without need.
        cores=len(os.sched_getaffinity(0)),
        replaced_bytes=by_work_folder(replaced_bytes, work_folders),
    )


def by_work_folder(
    numbers: Mapping[str, int], work_folders: Mapping[str, WorkDir]
) -> dict[WorkDir, int]:
    """Return the numbers of folders of storages, such as {"/var/tmp": 7}, by vcsbench's folder in each."""
    return {
        work_folder: numbers[folder]
        for folder, work_folder in work_folders.items()
        if folder in numbers
    }


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    load_repository()
