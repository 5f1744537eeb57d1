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


def dump_repository() -> None:
    """Verify a loaded repository, dump its first revisions into a file, and write a record of the file.

    Commands such as `svnadmin load`, which read a dump, are measured later.
    """
    begun = time.monotonic()
    params = snakemake.params
    load = cast("LoadRecord", read_record(snakemake.input[0]))
    scratch = WorkDir(params.scratch, params.root)
    # A repository is private if not all users of this machine can read it.
    if load["private"]:
        scratch.make()
        scratch.check_protected()
    # The loaded repository may have been on a disk for months.
    folder = Path(load["path"])
    verify.verify_all(folder)
    # Such as f7.nopack.
    repository = folder / f"{load['format']}.{load['packing']}"
    # Errors without a path, as of a write to a full disk, get the path of this folder.
    with naming(scratch.path):
        # The dump ends with the revision `params.revisions`, or with the youngest one if there are fewer.
        made = subversion_loader.make_dump(repository, params.revisions, scratch, load["repo"])
    facts = {
        "repo": load["repo"],
        # A digest of the history from which the repository was loaded.
        "identity": load["identity"],
        # The token is a time. Snakemake makes the dump again if the param changes.
        "made": params.rebuild_token,
        "load_options": load["load_options"],
        "youngest": load["revisions"],
        **span_since(begun),
    }
    write_json(snakemake.output[0], {**made, **facts})


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    dump_repository()
