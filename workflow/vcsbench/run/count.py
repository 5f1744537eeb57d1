"""Counts the system calls of a cell: python -m vcsbench.run.count RECIPE OUTPUT."""

from __future__ import annotations

import json
import os
import sys

from vcsbench.files import write_json
from vcsbench.measure.counting import count
from vcsbench.measure.isolation import begin
from vcsbench.measure.lock import machine_lock
from vcsbench.plan.counted import digest_of
from vcsbench.run.orphans import end_when_told, end_with_workflow
from vcsbench.storages.runfolder import run_folder


def main(recipe: str, output: str) -> int:
    """Count and write; returns the exit code. What cannot be counted is written with the reason."""
    os.umask(0o022)  # what is made for the servers is read by another user
    what = json.loads(recipe)
    end_when_told()
    begin(what)
    end_with_workflow()
    with machine_lock(), run_folder(os.getcwd()) as folder:
        found = count(what, folder)
    if found["why_not"]:
        print(found["why_not"], file=sys.stderr)
    about = {key: what[key] for key in ("study", "cell", "axes")}
    write_json(output, {**about, "digest": digest_of(what), **found})
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
