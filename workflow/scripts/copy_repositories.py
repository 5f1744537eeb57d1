"""Make the missing copies on a storage, interleaved, and write a record with their layout.

Packed repositories that no storage needs any more are removed.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_json
from vcsbench.formats import PACKED
from vcsbench.prepare import loader, verify
from vcsbench.prepare.copies import make_copies
from vcsbench.prepare.repositories import load_record, pack_record
from vcsbench.records import CopiesRecord, LoadRecord
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import check_mounted
from vcsbench.storages.workdir import LOADED, WorkDir
from vcsbench.subjects.repository import Variant, copy_path

snakemake: Any
Loads = dict[tuple[str, str], LoadRecord]


def copy() -> None:
    began, params = time.monotonic(), snakemake.params
    variants = [Variant(*row) for row in params.variants]
    pairs = dict.fromkeys((variant.repo, variant.format) for variant in variants)
    loaded = {pair: cast("LoadRecord", read_record(load_record(*pair))) for pair in pairs}
    workdir = WorkDir(params.storage, params.root)
    check_mounted(workdir.storage, params.mounted, "the workflow run began")
    if any(record["private"] for record in loaded.values()):
        workdir.make()
        workdir.check_protected()
    workdir.check_reachable()
    try:
        settings = params.fragmentation_kib, params.seed, params.mounted
        metadata = make_copies(workdir, variants, params.copies, loaded, *settings)
    except verify.DamagedError as error:
        repo, fmt = error.staging.parent.name, error.staging.name
        loader.home_of(loaded[repo, fmt], params.root).remove(LOADED, repo, fmt)
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
    remove_packed(variants, loaded)


def remove_packed(variants: list[Variant], loaded: Loads) -> None:
    """Remove the packed repositories of which all storages have their copies. Loaded ones stay."""
    for variant in variants:
        record = loaded[variant.repo, variant.format]
        # The user's own repository may be packed as it is.
        if variant.packing != PACKED or record["packing"] == PACKED:
            continue
        packed = Path(pack_record(variant.repo, variant.format)).stat().st_mtime_ns
        storages = snakemake.params.others[variant.name]
        copies = [Path(f"results/repositories/{name}.json") for name in storages]
        if all(path.exists() and path.stat().st_mtime_ns > packed for path in copies):
            home = loader.home_of(record, snakemake.params.root)
            name = f"{variant.format}.{variant.packing}"
            home.remove(LOADED, variant.repo, variant.format, name)


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    copy()
