"""Measure a cell-round: python -m vcsbench.measure SPEC RECORD ROUND ORDER SEED THRESHOLDS EXPORT CONTEXT."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from vcsbench import judgement
from vcsbench.errors import UserError
from vcsbench.measure import cell
from vcsbench.measure.hooks import Abandoned
from vcsbench.orphans import end_when_told, end_with_workflow
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
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except Abandoned:
        print("the workflow has ended, and this measurement with it", file=sys.stderr)
        return 1
    described |= {"order": int(order), "seed": int(seed)}
    described |= {"export_sha256": hashlib.sha256(exported).hexdigest()}
    write_json(context, described)
    write_whole(export, exported)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
