"""Make a packed copy of a loaded repository, or other states, next to it, and write a record."""

import os
import time
from pathlib import Path
from typing import Any, cast

from vcsbench import progress
from vcsbench.errors import UserError
from vcsbench.files import read_record, write_json
from vcsbench.prepare.preparations import preparation_of
from vcsbench.prepare.repositories import loaded_path
from vcsbench.programs import Programs
from vcsbench.records import LoadRecord, PackRecord
from vcsbench.run.job import job_log
from vcsbench.storages.filesystems import naming
from vcsbench.time_spans import span_since

snakemake: Any


def pack_repository() -> None:
    """Make other states of a loaded repository, such as a packed copy, and write a record of them.

    The only state that is made for Subversion is packed, and git has several, such as one pack with a bitmap.
    """
    begun = time.monotonic()
    load = cast("LoadRecord", read_record(snakemake.input[0]))
    repository = loaded_path(load)
    if not repository:
        # Without the record, the next workflow run loads the repository again.
        Path(snakemake.input[0]).unlink()
        raise UserError(
            f"{load['path']}: the loaded repository is gone or was changed. Run again to load it again."
        )
    # Errors without a path, as of a write to a full disk, get the path of this folder.
    with naming(repository.parent):
        preparation = preparation_of(load["format"])
        # The result has the seconds of an administrator's wait, without the time of copies: {"pack": 4.2}.
        builds = [Programs(*place) for place in snakemake.params.builds]
        seconds_by_state = preparation.make_states(repository, snakemake.params.states, builds)
    pack_record: PackRecord = {
        "repo": load["repo"],
        "format": load["format"],
        # The token is a time. Snakemake makes the states again if the param changes.
        "made": snakemake.params.rebuild_token,
        "seconds_by_state": {
            state: round(seconds, 2) for state, seconds in seconds_by_state.items()
        },
        **span_since(begun),
    }
    write_json(snakemake.output[0], pack_record)


os.umask(0o022)  # the servers run as another user
with job_log(snakemake.log[0]), progress.report_progress(snakemake.log[0]):
    pack_repository()
