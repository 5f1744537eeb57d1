"""Load a source into the scratch folder, in each format, and pack; the record says where."""

import os
from pathlib import Path
from typing import Any

from vcsbench import progress, sources
from vcsbench.files import write_json
from vcsbench.run.job import job_log
from vcsbench.sources.base import is_private
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import copies, dumps, nursery, verifying
from vcsbench.subjects.repository.labels import Variant
from vcsbench.subjects.repository.loader import at_once, load_source
from vcsbench.subjects.repository.room import choose_place

snakemake: Any

OTHERWISE = "lower the scale, or name another folder in `scratch`"


def main() -> None:
    """Load, and write the record. What a load that fails made is removed."""
    params, repo = snakemake.params, snakemake.wildcards.repo
    definition = dict(params.definition)
    if "url" in definition:
        definition["url"] = snakemake.config["repositories"][repo]["url"]
    source = sources.open_source(repo, definition)
    source.check()
    scratch = Place(params.scratch, params.root)
    storages = {
        Place(folder, params.root): [
            Variant(repo, fmt, packing, params.identity) for fmt, packing in pairs
        ]
        for folder, pairs in params.storages.items()
    }
    nursery.remove_leftovers([scratch, *storages], params.root)
    for place in (scratch, *storages):
        place.remove(nursery.FOLDER, repo)
    wanted = {
        place: len(copies.missing(place.path, variants, params.copies, files=0))
        for place, variants in storages.items()
    }
    is_closed = is_private(params.definition)
    place = choose_place(source.estimate(), at_once(params.variants), scratch, wanted)
    if is_closed:
        for one in (place, scratch):
            one.make()
            one.check_protected()
    with nursery.kept_if_whole(place, repo) as into:
        with full.told(place.path, OTHERWISE):
            facts = load_source(source, params.variants, into)
            if params.dump is not None:
                # A dump is made of verified repositories only. Without a dump, the copies are verified.
                verifying.all_in(into)
        record = {"repo": repo, "identity": params.identity, "path": str(into), "made": params.made}
        record["private"] = is_closed
        if params.dump is not None:
            first = into / ".".join(params.variants[0])
            with full.told(scratch.path, OTHERWISE):
                facts["dump"] = dumps.make(first, params.dump, scratch, repo)
        with full.told(Path(snakemake.output[0]).resolve().parent):
            write_json(snakemake.output[0], {**record, **facts})
    if not storages:
        place.remove(nursery.FOLDER, repo)  # only its dump is read


os.umask(0o022)  # what is made is read by the servers, which run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    main()
