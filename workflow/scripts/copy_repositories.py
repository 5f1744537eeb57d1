"""Make the missing copies on a storage, interleaved, and write a record with their layout.

Packed repositories, and other made states, that no storage needs any more are removed.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_json
from vcsbench.prepare import layout, loader, verify
from vcsbench.prepare.copies import CopySettings, Loads, make_copies
from vcsbench.prepare.repositories import load_record, pack_record
from vcsbench.records import CopiesRecord, CopyLayout, LoadRecord, RepositoryFacts
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import check_mounted
from vcsbench.storages.workdir import LOADED_FOLDER, WorkDir
from vcsbench.subjects.repository import Variant, copy_path
from vcsbench.systems.base import Store
from vcsbench.time_spans import span_since

snakemake: Any


def copy_repositories() -> None:
    """Make the missing copies of repositories on a storage, and write a record of all copies there.

    The rounds of a measurement read copies in turn, so each repository has several.
    """
    begun = time.monotonic()
    params = snakemake.params
    # A row is, for example, ["ruby", "f7", "pack", "9f86..."].
    variants = [Variant(*row) for row in params.variants]
    loads = read_loads(variants)
    workdir = WorkDir(params.storage, params.root)
    # Copying may take hours, so the checks come first.
    check_storage(workdir, loads)
    facts_by_variant = make_missing_copies(workdir, variants, loads)
    copy_layout = find_layout(workdir, variants)
    print(f"The copies {copy_layout['sentence']}", file=sys.stderr, flush=True)
    record: CopiesRecord = {
        "storage": snakemake.wildcards.storage,
        "place": str(workdir.path),
        # Such as ["ext4", "/var/tmp"]. Later runs check that the mount is the same.
        "mounted": params.mounted,
        "copies": params.copies,
        # The token is a time. Snakemake makes the copies again if the param changes.
        "made": params.rebuild_token,
        "layout": copy_layout,
        "repositories": facts_by_variant,
        **span_since(begun),
    }
    write_json(snakemake.output[0], record)
    # After a crash of this job, the next run makes missing copies from packed repositories. So these are
    # removed last.
    remove_made(variants, loads)


def read_loads(variants: Sequence[Variant]) -> dict[tuple[str, str], LoadRecord]:
    """Return the record of each variant's load, by repository and format: {("ruby", "f7"): {...}}."""
    loads: dict[tuple[str, str], LoadRecord] = {}
    for variant in variants:
        record = read_record(load_record(variant.repo, variant.format))
        loads[variant.repo, variant.format] = cast("LoadRecord", record)
    return loads


def check_storage(workdir: WorkDir, loads: Loads) -> None:
    """Raise UserError if copies in vcsbench's folder on a storage would be wrong, or open to other users."""
    # If the storage was unmounted since the workflow run began, the copies would be made on another device,
    # below the mount point.
    check_mounted(workdir.storage, snakemake.params.mounted, "the workflow run began")
    # A repository is private if not all users of this machine can read it.
    if any(load["private"] for load in loads.values()):
        workdir.make()
        workdir.check_protected()
    # If this process is root's, the servers that read the copies run as another user.
    workdir.check_reachable()


def make_missing_copies(
    workdir: WorkDir, variants: Sequence[Variant], loads: Loads
) -> dict[str, RepositoryFacts]:
    """Make the missing copies of each variant, and return the facts about each: {"ruby.f7.pack": {...}}.

    Remove a damaged loaded repository, and raise UserError.
    """
    params = snakemake.params
    settings = CopySettings(params.copies, params.fragmentation_kib, params.seed, params.mounted)
    try:
        # This also verifies the loaded repositories that the copies are made from.
        return make_copies(workdir, variants, loads, settings)
    except verify.DamagedError as error:
        # `staging` is the folder of the damaged repository: loaded/<repository>/<format>.
        repo, fmt = error.staging.parent.name, error.staging.name
        # The loaded repository may be on another storage. Without it, the next run loads it again.
        loader.home_of(loads[repo, fmt], params.root).remove(LOADED_FOLDER, repo, fmt)
        reason = str(error).removesuffix(".")
        raise UserError(f"{reason}. It is removed. Run again to load it again.") from error


def find_layout(workdir: WorkDir, variants: Sequence[Variant]) -> CopyLayout:
    """Return how the copies of all variants lie on their device, with a sentence for the user.

    Rounds use the copies in turn, so no copy must have an advantage, such as fewer movements of disk heads.
    That is the case if the copies lie interleaved.
    """
    # By the path of each copy.
    stores: dict[Path, Store] = {}
    for variant in variants:
        for number in range(1, snakemake.params.copies + 1):
            stores[copy_path(workdir.path, variant.name, number)] = variant.system.store
    return layout.prove_interleaving(stores)


def remove_made(variants: Sequence[Variant], loads: Loads) -> None:
    """Remove made repositories, such as packed ones, if all storages that need them have their copies.

    Copies in the state "pack" are made from a packed repository, which was made from the loaded one
    (`is_made`) and is needed for copies only. The loaded one stays, so that lost copies can be made without
    another load.
    """
    for variant in variants:
        record = loads[variant.repo, variant.format]
        # If the user's own repository is packed, its packed variant is the loaded repository itself.
        if not variant.is_made or record["packing"] == variant.state:
            continue
        made_ns = Path(pack_record(variant.repo, variant.format)).stat().st_mtime_ns
        # `others` has the other storages with copies of the variant. If the record of their copies is older
        # than the made repository, the copies will be made again.
        has_all_copies = True
        for storage in snakemake.params.others[variant.name]:
            copies_record = Path(f"results/repositories/{storage}.json")
            if not copies_record.exists() or copies_record.stat().st_mtime_ns <= made_ns:
                has_all_copies = False
        if has_all_copies:
            home = loader.home_of(record, snakemake.params.root)
            name = f"{variant.format}.{variant.state}"
            home.remove(LOADED_FOLDER, variant.repo, variant.format, name)


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    copy_repositories()
