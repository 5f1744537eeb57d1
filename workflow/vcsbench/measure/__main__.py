"""Measure one cell-round: python -m vcsbench.measure SPEC RECORD ROUND ORDER SEED EXPORT CONTEXT."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from vcsbench.errors import UserError
from vcsbench.measure import cell
from vcsbench.measure.hooks import Abandoned


def main(
    spec: str, record: str, number: str, order: str, seed: str, export: str, context: str
) -> int:
    """Measure and write both files, the export last: where it is, everything is. Returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        exported, described = cell.run(json.loads(spec), Path(record), int(number))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except Abandoned:
        print("the workflow has ended, and this measurement with it", file=sys.stderr)
        return 1
    described |= {"order": int(order), "seed": int(seed)}
    write(Path(context), json.dumps(described, indent=1).encode())
    write(Path(export), exported)
    return 0


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, after a power cut as well."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
