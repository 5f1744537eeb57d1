"""Load a source into the scratch folder, in each format, and pack; the record says where."""

import os
from typing import Any

from vcsbench import sources
from vcsbench.run.rulelog import logged
from vcsbench.storages import full
from vcsbench.storages.place import Place
from vcsbench.subjects.repository import loading
from vcsbench.subjects.repository.load import load
from vcsbench.subjects.repository.room import choose_place
from vcsbench.wholefile import write_json

snakemake: Any

OTHERWISE = "lower the scale, or name another folder in `scratch`"


def main() -> None:
    """Load, and write the record. What a load that fails made is removed."""
    params, repo = snakemake.params, snakemake.wildcards.repo
    source = sources.open_source(repo, params.definition)
    source.check()
    scratch, storage = Place(params.scratch, params.root), Place(params.storage, params.root)
    loading.remove_leftovers([scratch, storage], params.root)
    for place in (scratch, storage):
        place.remove(loading.FOLDER, repo)
    place = choose_place(source.estimate(), len(params.variants), params.copies, scratch, storage)
    with loading.kept_if_whole(place, repo) as into, full.told(place.path, OTHERWISE):
        facts = load(source, params.variants, into)
        record = {"repo": repo, "identity": params.identity, "path": str(into), "made": params.made}
        write_json(snakemake.output[0], {**record, **facts})


os.umask(0o022)  # the servers run as another user
with logged(snakemake.log[0]):
    main()
