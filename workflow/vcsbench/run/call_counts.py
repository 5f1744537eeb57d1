"""Count the system calls of a cell in an untimed run.

python -m vcsbench.run.call_counts OUTPUT RECIPE
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from vcsbench.files import write_json
from vcsbench.isolation import enter_user_namespace, machine_lock
from vcsbench.measure import syscalls
from vcsbench.plan.recipe import call_digest
from vcsbench.run.job import exit_on_signals, watch_parents
from vcsbench.storages.workdir import run_folder

if TYPE_CHECKING:
    from vcsbench.records import CellCalls, Recipe


def count_calls(recipe: Recipe) -> CellCalls:
    """Count the system calls of a cell. The result has a reason if they cannot be counted."""
    os.umask(0o022)  # the servers, which run as another user, read the files
    # A namespace is entered before the first thread starts.
    enter_user_namespace(recipe)
    watch_parents()
    with machine_lock(), run_folder(os.getcwd()) as folder:
        calls = syscalls.count_calls(recipe, folder)
    if calls["why_not"]:
        print(calls["why_not"], file=sys.stderr)
    return {
        "study": recipe["study"],
        "cell": recipe["cell"],
        "axes": recipe["axes"],
        "digest": call_digest(recipe),
        **calls,
    }


if __name__ == "__main__":
    exit_on_signals()
    write_json(sys.argv[1], count_calls(json.loads(sys.argv[2])))
