"""Measure a cell-round: python -m vcsbench.run.cell ROOT RECIPE ROUND ORDER SEED THRESHOLDS EXPORT CONTEXT.

`--calls ROOT RECIPE DIGEST OUTPUT` counts the system calls of a cell in an untimed run. A recipe may demand a
User Mode Linux guest: there, `--guest FOLDER` measures.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from vcsbench import errors
from vcsbench.evidence import judgement
from vcsbench.evidence.flags import Flag
from vcsbench.external import printable
from vcsbench.files import write_bytes, write_json
from vcsbench.isolation import isolate_network, machine_lock
from vcsbench.measure.cell_round import RoundMeasurement
from vcsbench.measure.prepared_cell import SUBJECTS
from vcsbench.measure.runs import read_export
from vcsbench.processes import last_lines
from vcsbench.run.job import end_with_shell, exit_on_signals, stop_workflow
from vcsbench.storages import filesystems
from vcsbench.storages.workdir import TARGETS, WorkDir, run_folder

if TYPE_CHECKING:
    from vcsbench.records import Context, Recipe

GUEST_TIMES = 10
# The round is measured again: some kernels return unused memory for seconds. No cold run: layers below this
# system have cached its reads.
RETRIED_FLAG = Flag.CACHE_NOT_WARM
MAX_RETRIES = 2
CALLS, GUEST = "--calls", "--guest"


def run_job(root: Path, recipe_json: str, job: Callable[[Recipe], None]) -> int:
    os.umask(0o022)  # the servers, which run as another user, read the files
    end_with_shell()
    exit_on_signals()
    recipe: Recipe = json.loads(recipe_json)
    try:
        isolate_network(recipe)
        job(recipe)
    except errors.UserError as error:
        # A program reports a full disk by its message only.
        sentence = _with_remedy(error, recipe)
        return fail(root, sentence, errors.full_errno(sentence), writes_apart(root, recipe))
    except OSError as error:
        # That of shutil.copytree() has no number, but a list of messages.
        number = error.errno or errors.full_errno(str(error))
        if number not in errors.FULL:
            return fail(root, errors.sentence_of(error, "the measurement"))
        is_alone = writes_apart(root, recipe) and str(error.filename).startswith(recipe["targets"])
        place = error.filename or tempfile.gettempdir()
        return fail(root, f"{place}: {os.strerror(number)}", number, is_alone)
    except Exception as error:
        return fail(root, errors.describe_fault(error))
    return 0


def _with_remedy(error: errors.UserError, recipe: Recipe) -> str:
    text = str(error)
    if not isinstance(error, errors.ProgramError) or errors.full_errno(text):
        return text
    file = f"config/studies/{recipe['study']}.yaml"
    remedy = f"Correct what this names, or the command (`commands` in {file})."
    return f"{text.removesuffix('.')}. {remedy}"


def main(
    root: Path,
    recipe_json: str,
    number: str,
    order: str,
    seed: str,
    thresholds: str,
    export: str,
    context: str,
) -> int:
    Path(context).unlink(missing_ok=True)

    def job(recipe: Recipe) -> None:
        exported, described = measure_round(root, recipe, int(number), json.loads(thresholds))
        described |= {"order": int(order), "seed": int(seed)}
        write_json(context, cast("dict[str, object]", described))
        write_bytes(export, exported)

    return run_job(root, recipe_json, job)


def write_call_counts(root: Path, recipe_json: str, digest: str, output: str) -> int:
    """Write the number of system calls of a cell with a digest of its command, or why it is unknown."""
    from vcsbench.measure import syscalls

    def job(recipe: Recipe) -> None:
        with machine_lock(), run_folder(root) as folder:
            trace = syscalls.trace_cell(recipe, folder, root)
        if trace["why_not"]:
            print(trace["why_not"], file=sys.stderr)
        cell = {"study": recipe["study"], "cell": recipe["cell"], "axes": recipe["axes"]}
        write_json(output, {**cell, "digest": digest, **trace})

    return run_job(root, recipe_json, job)


def measure_round(
    root: Path, recipe: Recipe, number: int, thresholds: dict[str, float]
) -> tuple[bytes, Context]:
    """Return hyperfine's export of a round, byte for byte, and the context.

    No other measurement runs on this machine. Raise a UserError with the reason of a failure.
    """
    requested = time.monotonic()
    with machine_lock() as lock, run_folder(root) as folder:
        began = time.monotonic()
        if "guest" in recipe.get("filesystem", {}):
            exported, described = _measure_in_guest(root, recipe, number, thresholds, folder)
        else:
            exported, described = _measure_here(root, recipe, number, thresholds, folder, lock)
        described["took"]["waited_s"] = round(began - requested, 3)
        described["took"]["cell_round_s"] = round(time.monotonic() - began, 3)
    return exported, described | {"thresholds": thresholds}


def _measure_here(
    root: Path,
    recipe: Recipe,
    number: int,
    thresholds: Mapping[str, float],
    folder: Path,
    lock: int,
) -> tuple[bytes, Context]:
    cell_round = RoundMeasurement(recipe, number, folder, root)
    subjects = cell_round.cell.subjects
    try:
        measured = _measure_and_judge(cell_round, thresholds, lock)
    except errors.ChangedError:
        raise
    except (errors.UserError, OSError):
        # An unmounted file system or a changed copy is the cause: it has the better message.
        for subject in subjects:
            subject.check_unchanged(closely=True)
        raise
    for subject in subjects:
        subject.check_unchanged()
    return measured


def _measure_and_judge(
    cell_round: RoundMeasurement, thresholds: Mapping[str, float], lock: int
) -> tuple[bytes, Context]:
    """Return the export and the context of a round, which is measured again if its caches were not warm."""
    with ExitStack() as stack:
        cell_round.open(stack)
        cell_round.measure(lock)
        _judge_runs(cell_round, thresholds)
        for _ in range(MAX_RETRIES):
            if not any(RETRIED_FLAG in run["flags"] for run in cell_round.runs):
                break
            cell_round.set_runs_aside()
            cell_round.measure(lock)
            _judge_runs(cell_round, thresholds)
        context = cell_round.describe()
    return cell_round.hyperfine.export.read_bytes(), context


def _judge_runs(cell_round: RoundMeasurement, thresholds: Mapping[str, float]) -> None:
    timed_runs = read_export(cell_round.hyperfine.export)
    for run, timed in zip(cell_round.runs, timed_runs, strict=True):
        run["flags"] = judgement.judge(run, timed.elapsed_s, thresholds)


def _measure_in_guest(
    root: Path, recipe: Recipe, number: int, thresholds: Mapping[str, float], folder: Path
) -> tuple[bytes, Context]:
    from vcsbench.storages import guest

    kinds = [kind for kind in (recipe["input"], recipe["output"]) if kind]
    image_bytes = max(SUBJECTS[kind](recipe, number, folder, root).prepare() for kind in kinds)
    out = folder / "out"
    out.mkdir()
    job = {"recipe": {**recipe, "is_in_guest": True}, "number": number, "thresholds": thresholds}
    (out / "job.json").write_text(json.dumps({**job, "root": str(root)}))
    command = [
        *("env", f"PYTHONPATH={Path(__file__).parents[2]}", "PYTHONDONTWRITEBYTECODE=1"),
        *(sys.executable, "-S", "-m", "vcsbench.run.cell", GUEST, guest.OUT),
    ]
    scratch, limit_s = recipe["filesystem"]["scratch"], GUEST_TIMES * recipe["time_limit_s"]
    sides = recipe["build"]["client"], recipe["build"]["server"]
    prefixes = [side["prefix"] for side in sides if side["prefix"]]
    reads = [recipe["storage"]["path"], scratch, *prefixes]
    workdir, place = WorkDir(scratch, root), (TARGETS, str(os.getpid()))
    workdir.remove(*place)
    images = workdir.make(*place)
    try:
        image = images / "image"
        image.touch()
        os.truncate(image, image_bytes)
        guest.run_in_guest(
            root, folder, command, image, limit_s, recipe.get("delay", ""), reads=reads
        )
    finally:
        workdir.remove(*place)
    result_file = out / "result.json"
    result = json.loads(result_file.read_text()) if result_file.exists() else {}
    if "context" not in result:
        log = " ".join(last_lines(out / "log")) or "it printed nothing"
        raise errors.UserError(result.get("error") or f"the guest failed: {log}. {guest.REMEDY}")
    return (out / "export.json").read_bytes(), result["context"]


def guest_main(out: str) -> int:
    folder = Path(out)
    job = json.loads((folder / "job.json").read_text())
    os.chdir(job["root"])
    try:
        with run_folder(job["root"]) as private:
            cell_round = RoundMeasurement(job["recipe"], job["number"], private, Path(job["root"]))
            no_lock = os.open(os.devnull, os.O_RDONLY)
            exported, context = _measure_and_judge(cell_round, job["thresholds"], no_lock)
    except errors.UserError as error:
        result: dict[str, object] = {"error": _with_remedy(error, job["recipe"])}
    except Exception:  # the host cannot see it otherwise
        result = {"error": f"in the guest: {traceback.format_exc()}"}
    else:
        (folder / "export.json").write_bytes(exported)
        result = {"context": context}
    (folder / "result.json").write_text(json.dumps(result))
    return 0


def writes_apart(root: Path, recipe: Recipe) -> bool:
    """Return True if only this cell writes to the device of its output, and it has room again."""
    filesystem = recipe.get("filesystem", {})
    if "guest" in filesystem or filesystem.get("make"):
        return True
    if not recipe["targets"] or filesystems.is_full(recipe["targets"]):
        return False
    device = os.stat(recipe["targets"]).st_dev
    return all(os.stat(folder).st_dev != device for folder in (root, tempfile.gettempdir()))


def fail(root: Path, sentence: str, full: int = 0, is_alone: bool = False) -> int:
    """Print why there is no result, and return the exit code.

    A full disk, with the error number `full`, ends the run, unless the failure concerns this cell alone.
    """
    ends_run = full != 0 and not is_alone
    if ends_run:
        sentence += f"; the workflow run ends here. {errors.REMEDIES[full]}, and run again."
    elif full == errno.EDQUOT:
        sentence += f". {errors.REMEDIES[full]}, and run again."
    # The log may be on the full disk.
    for file in (sys.stderr, *[sys.stdout] * ends_run):
        with suppress(OSError):
            print(printable(sentence), file=file, flush=True)
    if ends_run:
        stop_workflow(root)
    return 1


if __name__ == "__main__":
    if sys.argv[1] == CALLS:
        code = write_call_counts(Path(sys.argv[2]), *sys.argv[3:])
    elif sys.argv[1] == GUEST:
        code = guest_main(*sys.argv[2:])
    else:
        code = main(Path(sys.argv[1]), *sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Tearing an interpreter down takes as long as its start.
    os._exit(code)
