"""Load a source into a staging folder, in each format, and pack. Write a record with its path."""

import os
from typing import Any

from vcsbench import progress, sources
from vcsbench.files import write_record
from vcsbench.prepare import loader, verify
from vcsbench.prepare.repositories import missing_copies
from vcsbench.records import LoadRequest
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import naming
from vcsbench.storages.workdir import STAGING, WorkDir
from vcsbench.subjects.repository import Variant

snakemake: Any


def main() -> None:
    """Load, and write the record. Nothing of a failed load is kept."""
    params, repo = snakemake.params, snakemake.wildcards.repo
    request: LoadRequest = params.request
    definitions = {repo: params.definition}
    sources.restore_urls(definitions)
    source = sources.open_source(repo, definitions[repo])
    source.check()
    scratch = WorkDir(params.scratch, params.root)
    storages = {
        WorkDir(folder, params.root): [
            Variant(repo, fmt, packing, params.identity) for fmt, packing in pairs
        ]
        for folder, pairs in request["storages"].items()
    }
    for workdir in (scratch, *storages):
        workdir.remove(STAGING, repo)
    copies = {
        workdir: len(missing_copies(workdir.path, variants, request["copies"], files=0))
        for workdir, variants in storages.items()
    }
    private = sources.is_private(params.definition)
    repositories = loader.simultaneous_repositories(request["variants"])
    workdir = loader.choose_staging(source.estimate(), repositories, scratch, copies)
    if private:
        for folder in (workdir, scratch):
            folder.make()
            folder.check_protected()
    with loader.staging_dir(workdir, repo) as staging:
        with naming(workdir.path):
            facts = loader.load_source(source, request["variants"], staging)
            if request["dump"] is not None:
                # Verified before the dump. Without a dump, it is verified while it is copied.
                verify.verify_all(staging)
        record = {
            "repo": repo,
            "identity": params.identity,
            "path": str(staging),
            "made": params.rebuild_token,
            "request": request,
            "private": private,
        }
        if request["dump"] is not None:
            first = staging / ".".join(request["variants"][0])
            with naming(scratch.path):
                facts["dump"] = loader.make_dump(first, request["dump"], scratch, repo)
        write_record(snakemake.output[0], {**record, **facts})
    if not storages:
        workdir.remove(STAGING, repo)


os.umask(0o022)
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    main()
