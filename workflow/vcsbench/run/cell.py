"""Measures a cell-round: python -m vcsbench.run.cell RECIPE ROUND ORDER SEED THRESHOLDS EXPORT."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from vcsbench.errors import ChangedError, UserError
from vcsbench.evidence import judgement
from vcsbench.external import printable
from vcsbench.files import write_bytes, write_json
from vcsbench.measure.cell import CellRound
from vcsbench.measure.hooks import Abandoned
from vcsbench.measure.isolation import begin
from vcsbench.measure.lock import machine_lock
from vcsbench.processes import how_it_ended
from vcsbench.run.judging import judge_by
from vcsbench.run.orphans import FULL, end_when_told, end_with_workflow, stop_workflow
from vcsbench.run.within import measure_within
from vcsbench.storages import full
from vcsbench.storages.runfolder import run_folder


def main(recipe: str, number: str, order: str, seed: str, thresholds: str, export: str) -> int:
    """Measure and write the export and its context, the export last: where it is, everything is. Returns the
    exit code."""
    os.umask(0o022)  # what is made for the servers is read by another user
    limits = judgement.unpack(thresholds)
    context = Path(export).with_suffix(".context.json")
    context.unlink(missing_ok=True)  # that of an earlier result
    end_when_told()
    what = json.loads(recipe)
    try:
        begin(what)
        end_with_workflow()
        exported, described = measure(what, int(number), limits)
        described |= {"order": int(order), "seed": int(seed)}
        described |= {"export_sha256": hashlib.sha256(exported).hexdigest()}
        write_json(context, described)
        write_bytes(export, exported)
    except UserError as error:
        return fail(str(error), others=not writes_apart(what))
    except Abandoned:
        return fail("the workflow has ended, and this measurement with it")
    except subprocess.CalledProcessError as error:
        return fail(f"{printable(error.cmd[0])} {how_it_ended(error.returncode)}.")
    except OSError as error:
        # shutil's says it in words only.
        why = [os.strerror(number) for number in FULL if os.strerror(number) in str(error)]
        if not why:
            return fail(
                f"{printable(error.filename or 'the measurement')}: {error.strerror or error}."
            )
        apart = writes_apart(what) and str(error.filename).startswith(what["targets"])
        return fail(f"{error.filename or tempfile.gettempdir()}: {why[0]}", others=not apart)
    return 0


def measure(
    recipe: dict[str, Any], number: int, thresholds: dict[str, float]
) -> tuple[bytes, dict[str, Any]]:
    """Measure round `number` of a cell while no other measurement runs on this machine.

    Returns hyperfine's export, byte for byte, and the context. A UserError says why it failed.
    """
    asked = time.monotonic()
    with machine_lock() as lock, run_folder(os.getcwd()) as folder:
        began = time.monotonic()
        if recipe.get("within"):
            measure_there = measure_within(recipe["within"])
            exported, described = measure_there(recipe, number, thresholds, Path.cwd(), folder)
        else:
            exported, described = _measure_here(recipe, number, thresholds, folder, lock)
        described["took"] |= {
            "waited_s": round(began - asked, 3),
            "cell_round_s": round(time.monotonic() - began, 3),
        }
    return exported, described | {"thresholds": thresholds}


def _measure_here(
    recipe: dict[str, Any], number: int, thresholds: dict[str, float], folder: Path, lock: int
) -> tuple[bytes, dict[str, Any]]:
    """Measure on this system, in a private folder.

    The cause of a failure goes first: a file system that was unmounted, or a copy that was changed.
    """
    of_round = CellRound(recipe, number, folder, judge_by(recipe, thresholds))
    try:
        found = of_round.measure(lock)
    except ChangedError:
        raise
    except (UserError, OSError, subprocess.CalledProcessError):
        for subject in of_round.stage.subjects:
            subject.check_place()
            subject.check_unchanged(closely=True)
        raise
    for subject in of_round.stage.subjects:
        subject.check_unchanged()
    return found


def writes_apart(recipe: dict[str, Any]) -> bool:
    """Whether a cell wrote on a device where the run writes nothing else, and which has room again: what it
    has written is gone when it has failed."""
    if recipe.get("within") or recipe.get("filesystem", {}).get("make"):
        return True
    if not recipe["targets"] or full.takes_no_more(recipe["targets"]):
        return False
    device = os.stat(recipe["targets"]).st_dev
    return all(os.stat(folder).st_dev != device for folder in (os.getcwd(), tempfile.gettempdir()))


def fail(sentence: str, others: bool = True) -> int:
    """Say why there is no result. On a full disk no `others` of the cells would have one: the run ends."""
    ends = others and any(os.strerror(number) in sentence for number in FULL)
    if ends:
        sentence += "; the run ends here: free some space and run again"
    # The log may lie on the disk that is full.
    for file in (sys.stderr, *[sys.stdout] * ends):
        with suppress(OSError):
            print(printable(sentence), file=file, flush=True)
    if ends:
        stop_workflow()
    return 1


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left to do, and to take an interpreter apart takes as long as to start it.
    os._exit(code)
