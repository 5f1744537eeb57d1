"""Measures a cell-round: python -m vcsbench.run.cell SPEC RECORD ROUND ORDER SEED LIMITS EXPORT CONTEXT."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.evidence import judgement
from vcsbench.measure import cell
from vcsbench.measure.hooks import Abandoned
from vcsbench.run.orphans import FULL, end_when_told, end_with_workflow, stop_workflow
from vcsbench.wholefile import write_json, write_whole


def main(
    spec: str,
    record: str,
    number: str,
    order: str,
    seed: str,
    thresholds: str,
    export: str,
    context: str,
) -> int:
    """Measure and write both files, the export last: where it is, everything is. Returns the exit code."""
    limits = judgement.unpack(thresholds)
    end_when_told()
    end_with_workflow()
    try:
        exported, described = cell.run(json.loads(spec), Path(record), int(number), limits)
        described |= {"order": int(order), "seed": int(seed)}
        described |= {"export_sha256": hashlib.sha256(exported).hexdigest()}
        write_json(context, described)
        write_whole(export, exported)
    except UserError as error:
        return fail(str(error))
    except Abandoned:
        return fail("the workflow has ended, and this measurement with it")
    except OSError as error:
        # shutil's says it in words only.
        why = [os.strerror(number) for number in FULL if os.strerror(number) in str(error)]
        if not why:
            raise
        return fail(f"{error.filename or tempfile.gettempdir()}: {why[0]}")
    return 0


def fail(sentence: str) -> int:
    """Say why there is no result. On a full disk no other cell would have one: the run ends."""
    full = any(os.strerror(number) in sentence for number in FULL)
    if full:
        sentence += "; the run ends here: free some space and run again"
    # The log may lie on the disk that is full.
    for file in (sys.stderr, *[sys.stdout] * full):
        with suppress(OSError):
            print(sentence, file=file, flush=True)
    if full:
        stop_workflow()
    return 1


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(
        code
    )  # nothing is left to do, and to take an interpreter apart takes as long as to start it
