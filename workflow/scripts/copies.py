"""Make the copies that are missing on a storage; the record says which there are, and how they lie."""

import os
import time
from pathlib import Path
from typing import Any

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_json, write_json
from vcsbench.run.job import job_log
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.progress import say
from vcsbench.subjects.repository import layout, nursery, verifying
from vcsbench.subjects.repository.labels import Variant, copy_of
from vcsbench.subjects.repository.making import make_missing

snakemake: Any


def main() -> None:
    """Copy, write the record, and remove what was loaded."""
    began = time.monotonic()
    params = snakemake.params
    loaded = {record["repo"]: record for record in map(read_json, snakemake.input.loaded)}
    place = Place(params.storage, params.root)
    if any(record.get("private") for record in loaded.values()):
        place.make()
        place.check_protected()
    place.check_open()
    variants = [Variant(*row) for row in params.variants]
    try:
        labels = make_missing(
            place, variants, params.copies, loaded, params.fragmentation_kib, params.seed
        )
    except verifying.DamagedError as error:
        repo = error.into.name
        nursery.place_of(loaded[repo], params.root).remove(nursery.FOLDER, repo)
        raise UserError(f"{error}; it is removed: run again, and it is loaded anew") from error
    names = [(v.name, n) for v in variants for n in range(1, params.copies + 1)]
    proof = layout.prove({f"{name}.{n}": copy_of(place.path, name, n) for name, n in names})
    say(f"The copies {proof['sentence']}")
    record = {
        "storage": snakemake.wildcards.storage,
        "place": str(place.path),
        "copies": params.copies,
        "made": params.made,
        "layout": proof,
        "repositories": labels,
        "seconds": round(time.monotonic() - began, 1),
    }
    with full.told(Path(snakemake.output[0]).resolve().parent):
        write_json(snakemake.output[0], record)
    for repo, facts in loaded.items():
        source = nursery.place_of(facts, params.root)
        if not still_wanted(repo):
            source.remove(nursery.FOLDER, repo)
        nursery.remove_leftovers([source, place], params.root)


def still_wanted(repo: str) -> bool:
    """Whether another storage has yet to be given its copies of what was loaded."""
    loaded = Path(f"results/loaded/{repo}.json").stat().st_mtime_ns
    records = [Path(f"results/repositories/{name}.json") for name in snakemake.params.others[repo]]
    return not all(record.exists() and record.stat().st_mtime_ns > loaded for record in records)


os.umask(0o022)  # what is made is read by the servers, which run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    main()
