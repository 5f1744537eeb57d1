"""Dump the first revisions of a loaded repository into a file, for the cells that load it."""

import os
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.files import read_record, write_json
from vcsbench.prepare import subversion_loader, verify
from vcsbench.records import LoadRecord
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import naming
from vcsbench.storages.workdir import WorkDir
from vcsbench.time_spans import span_since

snakemake: Any


def dump() -> None:
    """Verify a loaded repository, dump it, and write a record. `snakemake` is the job of the rule `dump`."""
    begun = time.monotonic()
    params = snakemake.params
    record = cast("LoadRecord", read_record(snakemake.input[0]))
    folder = Path(record["path"])
    scratch = WorkDir(params.scratch, params.root)
    if record["private"]:
        scratch.make()
        # Raise UserError if other users could read the dump.
        scratch.check_protected()
    # The loaded repository may have been on a disk for months. Raise UserError if it is damaged.
    verify.verify_all(folder)
    repository = folder / f"{record['format']}.{record['packing']}"
    with naming(scratch.path):
        made = subversion_loader.make_dump(repository, params.revisions, scratch, record["repo"])
    facts = {
        "repo": record["repo"],
        "identity": record["identity"],
        "made": params.rebuild_token,
        "load_options": record["load_options"],
        "youngest": record["revisions"],
        **span_since(begun),
    }
    write_json(snakemake.output[0], {**made, **facts})


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    dump()
