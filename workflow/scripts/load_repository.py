"""Load a source in one format, keep the repository on a storage, and write a record with its path."""

import os
from typing import Any

from vcsbench import progress, sources
from vcsbench.files import write_json
from vcsbench.prepare import loader
from vcsbench.prepare.repositories import count_replaced_bytes, count_spacer_bytes
from vcsbench.records import LoadRequest
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import naming
from vcsbench.storages.workdir import WorkDir

snakemake: Any


def load() -> None:
    """Load a history into a repository, and write the record. `snakemake` is the job of the rule `load`."""
    params = snakemake.params
    repo, fmt = snakemake.wildcards.repo, snakemake.wildcards.format
    source = sources.open_source(repo, params.definition, root=params.root)
    # Both raise UserError: for an unusable history, and for one that has changed since the run was planned.
    source.check()
    source.check_unchanged(params.identity)

    # The repository is loaded in `workdir`, mostly in RAM, and stays in `home`, a folder on a storage. Later
    # repositories, such as copies, need space, too: {"/var/tmp": 7} in the request are 7 in this folder. So
    # do spacers, which scatter the copies on the device. Replaced repositories leave their space to new ones.
    request: LoadRequest = params.request
    scratch = WorkDir(params.scratch, params.root)
    home = WorkDir(request["home"], params.root)
    estimate = source.estimate()
    copy_counts: dict[WorkDir, int] = {}
    spacer_bytes: dict[WorkDir, int] = {}
    replaced_bytes: dict[WorkDir, int] = {}
    spacer_bytes_by_folder = count_spacer_bytes(request, fmt, estimate.revisions)
    replaced_by_folder = count_replaced_bytes(request, loader.repository_bytes(estimate))
    for folder, count in request["repositories"].items():
        storage = WorkDir(folder, params.root)
        copy_counts[storage] = count
        if folder in spacer_bytes_by_folder:
            spacer_bytes[storage] = spacer_bytes_by_folder[folder]
        if folder in replaced_by_folder:
            replaced_bytes[storage] = replaced_by_folder[folder]
    workdir = loader.choose_staging(
        estimate,
        scratch,
        copy_counts,
        spacer_bytes,
        loader.unfinished_loads(params.others, params.root),
        # With `--cores all`, so many loads run at once. With fewer, a load may avoid `scratch` without need.
        cores=len(os.sched_getaffinity(0)),
        replaced_bytes=replaced_bytes,
    )
    is_private = sources.is_private(params.definition)
    # Before the first file of the repository is written, raise UserError if other users could read it.
    if is_private:
        for work_folder in (workdir, scratch, home):
            work_folder.make()
            work_folder.check_protected()

    with loader.staging_dir(workdir, repo, fmt) as staging:
        with naming(workdir.path):
            facts = loader.load_source(source, fmt, staging)
            # A load can take hours, in which somebody commits.
            source.check_unchanged(params.identity)
        with naming(home.path):
            # The name has the format and the packing of the repository, such as f7.nopack.
            loaded = staging / f"{fmt}.{facts['packing']}"
            path = loader.keep_loaded(loaded, home, repo, fmt)
    record = {
        "repo": repo,
        "format": fmt,
        "identity": params.identity,
        "path": str(path),
        "loaded_in": str(workdir.path),
        "made": params.rebuild_token,
        "request": request,
        "private": is_private,
    }
    write_json(snakemake.output[0], {**record, **facts})


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    load()
