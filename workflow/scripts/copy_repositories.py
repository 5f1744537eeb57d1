"""Make the missing copies on a storage, interleaved, and write a record with their layout.

Packed repositories, and other made states, that no storage needs any more are removed.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_json
from vcsbench.prepare import layout, loader, verify
from vcsbench.prepare.copies import CopySettings, Loads, make_copies
from vcsbench.prepare.repositories import load_record, pack_record
from vcsbench.records import CopiesRecord, LoadRecord
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import check_mounted
from vcsbench.storages.workdir import LOADED_FOLDER, WorkDir
from vcsbench.subjects.repository import Variant, copy_path
from vcsbench.systems.base import Store
from vcsbench.time_spans import span_since

snakemake: Any


def copy() -> None:
    """Make the missing copies on a storage, and write the record of all. `snakemake` is the rule's job."""
    begun = time.monotonic()
    params = snakemake.params
    # A variant is a repository in one format and state: ["ruby", "f7", "pack", "9f86..."].
    variants = [Variant(*row) for row in params.variants]
    # The record of the load of each variant, by repository and format: {("ruby", "f7"): {"path": ..., ...}}.
    loads: dict[tuple[str, str], LoadRecord] = {}
    for variant in variants:
        record = read_record(load_record(variant.repo, variant.format))
        loads[variant.repo, variant.format] = cast("LoadRecord", record)
    workdir = WorkDir(params.storage, params.root)
    # This raises UserError if the storage was unmounted since the run began.
    check_mounted(workdir.storage, params.mounted, "the workflow run began")
    # Before the first file of a private repository is written, raise UserError if other users could read it.
    if any(load["private"] for load in loads.values()):
        workdir.make()
        workdir.check_protected()
    # Raise UserError if the servers, which run as another user, cannot enter the folder.
    workdir.check_reachable()
    settings = CopySettings(params.copies, params.fragmentation_kib, params.seed, params.mounted)
    try:
        metadata = make_copies(workdir, variants, loads, settings)
    except verify.DamagedError as error:
        # `staging` is the folder of the damaged repository: loaded/<repository>/<format>.
        repo, fmt = error.staging.parent.name, error.staging.name
        loader.home_of(loads[repo, fmt], params.root).remove(LOADED_FOLDER, repo, fmt)
        reason = str(error).removesuffix(".")
        raise UserError(f"{reason}. It is removed. Run again to load it again.") from error
    # Rounds use the copies in turn. So none should have an advantage, such as fewer movements of disk heads.
    copies: dict[Path, Store] = {}
    for variant in variants:
        for number in range(1, params.copies + 1):
            copies[copy_path(workdir.path, variant.name, number)] = variant.system.store
    copy_layout = layout.prove_interleaving(copies)
    print(f"The copies {copy_layout['sentence']}", file=sys.stderr, flush=True)
    copies_record: CopiesRecord = {
        "storage": snakemake.wildcards.storage,
        "place": str(workdir.path),
        "mounted": params.mounted,
        "copies": params.copies,
        "made": params.rebuild_token,
        "layout": copy_layout,
        "repositories": metadata,
        **span_since(begun),
    }
    write_json(snakemake.output[0], copies_record)
    remove_made(variants, loads)


def remove_made(variants: list[Variant], loads: Loads) -> None:
    """Remove the made repositories, such as packed ones, whose copies exist on all storages that need them.

    A made repository was made from a loaded one. The loaded one stays. `snakemake` is the job of the rule.
    """
    for variant in variants:
        record = loads[variant.repo, variant.format]
        # If the user's own repository is packed, its packed variant is the loaded repository itself.
        if not variant.is_made or record["packing"] == variant.state:
            continue
        made_ns = Path(pack_record(variant.repo, variant.format)).stat().st_mtime_ns
        # The caller has made the copies on its own storage. `others` are the other storages that need copies.
        other_storages = snakemake.params.others[variant.name]
        copies_records = [Path(f"results/repositories/{name}.json") for name in other_storages]
        # Copies whose record is older than the made repository will be made again from it.
        if all(path.exists() and path.stat().st_mtime_ns > made_ns for path in copies_records):
            home = loader.home_of(record, snakemake.params.root)
            name = f"{variant.format}.{variant.state}"
            home.remove(LOADED_FOLDER, variant.repo, variant.format, name)


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    copy()
