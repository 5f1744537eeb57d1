"""Make the copies that are missing on a storage; the record says which there are."""

import json
import os
from pathlib import Path
from typing import Any

from vcsbench.repositories.copies import Variant, make_missing
from vcsbench.repositories.place import Place
from vcsbench.rulelog import logged
from vcsbench.wholefile import write_json

snakemake: Any


def main() -> None:
    """Copy, write the record, and remove what was loaded."""
    params = snakemake.params
    loaded = {record["repo"]: record for record in map(read, snakemake.input.loaded)}
    place = Place(params.storage, params.root)
    place.check_open()
    variants = [Variant(*row) for row in params.variants]
    labels = make_missing(place, variants, params.copies, loaded, params.spacer_kib, params.seed)
    record = {
        "storage": snakemake.wildcards.storage,
        "place": str(place.path),
        "copies": params.copies,
        "made": params.made,
        "repositories": labels,
    }
    write_json(snakemake.output[0], record)
    for repo, facts in loaded.items():
        Place(Path(facts["path"]).parent.parent.parent, params.root).remove("loading", repo)


def read(path: str) -> dict[str, Any]:
    """A record."""
    content: dict[str, Any] = json.loads(Path(path).read_text())
    return content


os.umask(0o022)  # the servers run as another user
with logged(snakemake.log[0]):
    main()
