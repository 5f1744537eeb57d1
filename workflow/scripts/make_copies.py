"""Make the missing copies on a storage. Write a record with all copies and their layout."""

import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_record
from vcsbench.prepare import loader, verify
from vcsbench.prepare.copies import make_copies, prove_interleaving
from vcsbench.records import CopiesRecord, LoadRecord
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import mounted_at
from vcsbench.storages.workdir import STAGING, WorkDir
from vcsbench.subjects.repository import Variant, copy_path

snakemake: Any


def main() -> None:
    """Copy, write the record, and remove loaded repositories that no storage needs any more."""
    began, params = time.monotonic(), snakemake.params
    records = [cast(LoadRecord, read_record(file)) for file in snakemake.input.loaded]
    loaded = {record["repo"]: record for record in records}
    workdir = WorkDir(params.storage, params.root)
    if any(record.get("private") for record in records):
        workdir.make()
        workdir.check_protected()
    workdir.check_reachable()
    variants = [Variant(*row) for row in params.variants]
    try:
        metadata = make_copies(
            workdir, variants, params.copies, loaded, params.fragmentation_kib, params.seed
        )
    except verify.DamagedError as error:
        repo = error.staging.name
        loader.staging_workdir(loaded[repo], params.root).remove(STAGING, repo)
        reason = str(error).removesuffix(".")
        raise UserError(f"{reason}. It is removed. Run again to load it again.") from error
    numbers = range(1, params.copies + 1)
    layout = prove_interleaving(
        {f"{v.name}.{n}": copy_path(workdir.path, v.name, n) for v in variants for n in numbers}
    )
    print(f"The copies {layout['sentence']}", file=sys.stderr, flush=True)
    record: CopiesRecord = {
        "storage": snakemake.wildcards.storage,
        "place": str(workdir.path),
        "mounted": mounted_at(workdir.path),
        "copies": params.copies,
        "made": params.rebuild_token,
        "layout": layout,
        "repositories": metadata,
        "seconds": round(time.monotonic() - began, 1),
    }
    write_record(snakemake.output[0], record)
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
    main()
