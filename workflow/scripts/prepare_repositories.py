"""Load a source in each format, and make the missing copies on a storage. Write a record of each."""

import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress, sources
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_json
from vcsbench.prepare import loader, verify
from vcsbench.prepare.copies import make_copies
from vcsbench.prepare.repositories import missing_copies
from vcsbench.records import CopiesRecord, LoadRecord, LoadRequest
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import check_mounted, naming
from vcsbench.storages.workdir import STAGING, WorkDir
from vcsbench.subjects.repository import Variant, copy_path

snakemake: Any


def load() -> None:
    """Load, pack, and write a record with the path. Nothing of a failed load is kept."""
    params, repo = snakemake.params, snakemake.wildcards.repo
    request: LoadRequest = params.request
    definitions = {repo: params.definition}
    sources.restore_urls(definitions)
    source = sources.open_source(repo, definitions[repo])
    source.check()
    source.check_unchanged(params.identity)
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
            source.check_unchanged(params.identity)
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
        write_json(snakemake.output[0], {**record, **facts})
    if not storages:
        workdir.remove(STAGING, repo)


def copy() -> None:
    """Copy, and write a record with the layout. Remove loaded repositories that no storage needs any more."""
    began, params = time.monotonic(), snakemake.params
    records = [cast(LoadRecord, read_record(file)) for file in snakemake.input.loaded]
    loaded = {record["repo"]: record for record in records}
    workdir = WorkDir(params.storage, params.root)
    check_mounted(workdir.storage, params.mounted, "the workflow run began")
    if any(record.get("private") for record in records):
        workdir.make()
        workdir.check_protected()
    workdir.check_reachable()
    variants = [Variant(*row) for row in params.variants]
    try:
        settings = params.fragmentation_kib, params.seed, params.mounted
        metadata = make_copies(workdir, variants, params.copies, loaded, *settings)
    except verify.DamagedError as error:
        repo = error.staging.name
        loader.staging_workdir(loaded[repo], params.root).remove(STAGING, repo)
        reason = str(error).removesuffix(".")
        raise UserError(f"{reason}. It is removed. Run again to load it again.") from error
    numbers = range(1, params.copies + 1)
    layout = verify.prove_interleaving(
        {f"{v.name}.{n}": copy_path(workdir.path, v.name, n) for v in variants for n in numbers}
    )
    print(f"The copies {layout['sentence']}", file=sys.stderr, flush=True)
    record: CopiesRecord = {
        "storage": snakemake.wildcards.storage,
        "place": str(workdir.path),
        "mounted": params.mounted,
        "copies": params.copies,
        "made": params.rebuild_token,
        "layout": layout,
        "repositories": metadata,
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(snakemake.output[0], record)
    for repo, facts in loaded.items():
        if not is_needed(repo):
            loader.staging_workdir(facts, params.root).remove(STAGING, repo)


def is_needed(repo: str) -> bool:
    """Return True if another storage has no copies of the loaded repository yet."""
    loaded = Path(f"results/loaded/{repo}.json").stat().st_mtime_ns
    records = [Path(f"results/repositories/{name}.json") for name in snakemake.params.others[repo]]
    return not all(record.exists() and record.stat().st_mtime_ns > loaded for record in records)


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    {"load": load, "copies": copy}[snakemake.rule]()
