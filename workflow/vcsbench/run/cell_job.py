"""Measure a cell-round: python -m vcsbench.run.cell_job ROOT RECIPE ROUND ORDER SEED EXPORT CONTEXT.

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from vcsbench import errors
from vcsbench.evidence import judgement
from vcsbench.evidence.flags import Flag
from vcsbench.external import printable
from vcsbench.files import write_bytes, write_json
from vcsbench.isolation import isolate_network
from vcsbench.machine_lock import machine_lock
from vcsbench.measure.cell_setup import SUBJECTS
from vcsbench.measure.round_measurement import RoundMeasurement
from vcsbench.measure.runs import read_export
from vcsbench.processes import last_lines
from vcsbench.run.job import end_with_shell, exit_on_signals, stop_workflow
from vcsbench.storages import filesystems
from vcsbench.storages.workdir import TARGETS, WorkDir, run_folder

if TYPE_CHECKING:
    from vcsbench.records import Context, Recipe

# The time limit of a guest, as a multiple of the time limit of one run. The guest also boots, prepares the
# round, and runs the command several times.
GUEST_TIMES = 10
# A round with this flag is measured again. Some kernels return unused memory for seconds, and a hot run in
# this time has to read from the device. Cold runs are never repeated: after the first one, layers below this
# system, such as a hypervisor, have its reads in their caches.
RETRIED_FLAG = Flag.CACHE_NOT_WARM
MAX_RETRIES = 2
CALLS, GUEST = "--calls", "--guest"
# Files of a round in a guest, in a folder that host and guest see.
GUEST_JOB, GUEST_RESULT, GUEST_EXPORT = "job.json", "result.json", "export.json"


class MeasuredRound(NamedTuple):
    """hyperfine's export of a round, byte for byte, and the context."""

    export: bytes
    context: Context


def main(
    root: Path, recipe_json: str, number: str, order: str, seed: str, export: str, context: str
) -> int:
    """Measure a round of a cell, write its two files, and return the exit code: 0, or 1 without a result.

    The arguments come from a command line. `number` is that of the round, such as "3". `order` is the
    position of this round among the rounds of all cells, which `seed` has shuffled. `export` and `context`
    are the files to write.
    """
    # An export without its context counts as out of date. So the old context is removed first: a process that
    # is killed before the end leaves no result that looks valid.
    Path(context).unlink(missing_ok=True)

    def job(recipe: Recipe) -> None:
        measured = measure_round(root, recipe, int(number))
        measured.context["order"] = int(order)
        measured.context["seed"] = int(seed)
        write_json(context, measured.context)
        write_bytes(export, measured.export)

    return run_job(root, recipe_json, job)


def write_call_counts(root: Path, recipe_json: str, digest: str, output: str) -> int:
    """Count the system calls of a cell, write the counts to the file `output`, and return the exit code.

    `digest` is of all that can change the calls, and is stored with the counts. The code is 0, or 1 after an
    error. A command that cannot be traced is no error: the file then has the reason (`why_not`).
    """
    # Only this task uses strace. An import at the top would delay each measurement.
    from vcsbench.measure import syscalls

    def job(recipe: Recipe) -> None:
        # The lock keeps measurements from running at the same time.
        with machine_lock(), run_folder(root) as folder:
            trace = syscalls.trace_cell(recipe, folder, root)
        if trace["why_not"]:
            print(trace["why_not"], file=sys.stderr)
        cell = {"study": recipe["study"], "cell": recipe["cell"], "axes": recipe["axes"]}
        write_json(output, {**cell, "digest": digest, **trace})

    return run_job(root, recipe_json, job)


def run_job(root: Path, recipe_json: str, job: Callable[[Recipe], None]) -> int:
    """Run `job` with the recipe of a cell in this process, which Snakemake started, and return the exit code.

    The code is 0, or 1 after any error, whose reason fail() prints in one sentence. After an error by a full
    disk, fail() also ends the workflow run, unless only this cell is affected (_can_run_go_on).
    """
    # The servers, which run as another user, read files that this process makes.
    os.umask(0o022)
    # If Snakemake is killed, this process ends, too. After a signal, it removes its files first.
    end_with_shell()
    exit_on_signals()
    recipe: Recipe = json.loads(recipe_json)
    try:
        isolate_network(recipe)
        job(recipe)
    except errors.UserError as error:
        sentence = _add_remedy(error, recipe)
        # A program that failed on a full disk shows that only by its message, "No space left on device".
        number = errors.full_errno(sentence)
        can_go_on = number != 0 and _can_run_go_on(root, recipe)
        return fail(root, sentence, full_errno=number, can_run_go_on=can_go_on)
    except OSError as error:
        # An error of shutil.copytree() has no number, but a list of messages.
        number = error.errno or errors.full_errno(str(error))
        # FULL has the numbers of a full disk, a quota, and a size limit.
        if number in errors.FULL:
            return _fail_on_full_disk(root, recipe, error, number)
        return fail(root, errors.sentence_of(error, "the measurement"))
    except Exception as error:
        return fail(root, errors.describe_fault(error))
    return 0


def _fail_on_full_disk(root: Path, recipe: Recipe, error: OSError, number: int) -> int:
    """Print the error of a write to a full disk by fail(), and return the exit code 1."""
    # The folder that the command writes to; "" for a command without output.
    targets = recipe["targets"]
    # A file elsewhere, such as a result, is on a disk that all cells need. Without output, the file is only
    # harmless on a file system that was made for the input: _can_run_go_on() checks that.
    may_be_own_disk = not targets or Path(str(error.filename)).is_relative_to(targets)
    can_go_on = may_be_own_disk and _can_run_go_on(root, recipe)
    # An error of write() has no path. The private files of a round are in the temporary folder.
    full_path = error.filename or tempfile.gettempdir()
    sentence = f"{full_path}: {os.strerror(number)}"
    return fail(root, sentence, full_errno=number, can_run_go_on=can_go_on)


def _add_remedy(error: errors.UserError, recipe: Recipe) -> str:
    """Return the message of an error. The message of a failed program gets a remedy: correct the command."""
    text = str(error)
    # Other messages have a remedy already, or get it from fail().
    if not isinstance(error, errors.ProgramError) or errors.full_errno(text):
        return text
    file = f"config/studies/{recipe['study']}.yaml"
    remedy = f"Correct what this names, or the command (`commands` in {file})."
    return f"{text.removesuffix('.')}. {remedy}"


def _can_run_go_on(root: Path, recipe: Recipe) -> bool:
    """Return True if the full disk that stopped this cell does not stop all further cells.

    That is so if this cell's own output filled the disk, and no other cell needs this disk.
    """
    filesystem = recipe.get("filesystem", {})
    # This file system was made for this cell-round only.
    if "guest" in filesystem or filesystem.get("make"):
        return True
    # The command writes no output, so the full disk is one for results or temporary files.
    if not recipe["targets"]:
        return False
    try:
        # The cell has removed its output by now. If the device is still full, something else fills it.
        if filesystems.is_full(recipe["targets"]):
            return False
        device = os.stat(recipe["targets"]).st_dev
        # Every cell writes results below the checkout, and temporary files.
        return all(os.stat(folder).st_dev != device for folder in (root, tempfile.gettempdir()))
    except OSError:
        # An error here would hide the reason why the cell failed.
        return False


def fail(root: Path, sentence: str, *, full_errno: int = 0, can_run_go_on: bool = False) -> int:
    """Print why a cell has no result, and return the exit code 1.

    `full_errno` is the error number of a full disk, such as ENOSPC; 0 for any other failure. A full disk ends
    the whole workflow run, because all further cells would fail. With `can_run_go_on`, only this cell needs
    that disk, so the run goes on.
    """
    ends_run = full_errno != 0 and not can_run_go_on
    if ends_run:
        sentence += (
            f"; the workflow run ends here. {errors.REMEDY_BY_ERRNO[full_errno]}, and run again."
        )
    elif full_errno == errno.EDQUOT:
        # This cell's output reached a quota, which the user can raise.
        sentence += f". {errors.REMEDY_BY_ERRNO[full_errno]}, and run again."
    streams = [sys.stderr]
    if ends_run:
        # Standard error goes to the log, which may be on the full disk.
        streams.append(sys.stdout)
    for stream in streams:
        with suppress(OSError):
            print(printable(sentence), file=stream, flush=True)
    if ends_run:
        stop_workflow(root)
    return 1


def measure_round(root: Path, recipe: Recipe, number: int) -> MeasuredRound:
    """Wait until no other measurement runs on this machine, measure round `number` of a cell, and return it.

    The context's key `took` gets the seconds of waiting (`waited_s`) and those afterwards (`cell_round_s`).
    Raise UserError or OSError after a failure.
    """
    requested = time.monotonic()
    with machine_lock() as lock, run_folder(root) as folder:
        began = time.monotonic()
        if "guest" in recipe.get("filesystem", {}):
            # A guest has a kernel of its own, so its programs cannot inherit the lock.
            measured = _measure_in_guest(root, recipe, number, folder)
        else:
            measured = _measure_here(root, recipe, number, folder, lock)
        measured.context["took"]["waited_s"] = round(began - requested, 3)
        measured.context["took"]["cell_round_s"] = round(time.monotonic() - began, 3)
    return measured


def _measure_here(
    root: Path, recipe: Recipe, number: int, folder: Path, lock: int
) -> MeasuredRound:
    """Measure a round on this machine, and check that its subjects have not changed.

    Raise ChangedError if a subject has changed, and UserError or OSError for any other failure.
    """
    cell_round = RoundMeasurement(recipe, number, folder, root)
    subjects = cell_round.cell.subjects
    try:
        measured = _measure_and_judge(cell_round, lock)
    except errors.ChangedError:
        # The error names the changed subject already.
        raise
    except (errors.UserError, OSError):
        # A changed copy or an unmounted file system may have caused the failure. With `closely`, every file
        # is checked, which takes time.
        for subject in subjects:
            subject.check_unchanged(closely=True)
        raise
    # If a subject changed in the meantime, the times of the runs are of no use.
    for subject in subjects:
        subject.check_unchanged()
    return measured


def _measure_and_judge(cell_round: RoundMeasurement, lock: int) -> MeasuredRound:
    """Measure a round, flag its runs, and return hyperfine's export with the context.

    If a hot run read from the device (RETRIED_FLAG), all runs of the round are measured again, at most
    MAX_RETRIES times. The export has the runs of the last attempt. The context also has those of earlier
    attempts (`set_aside`). hyperfine inherits the machine's lock by its descriptor `lock`, so that no other
    cell starts before hyperfine has ended.
    """
    with ExitStack() as stack:
        cell_round.open(stack)
        for attempt in range(1 + MAX_RETRIES):
            if attempt > 0:
                cell_round.set_runs_aside()
            cell_round.measure(lock)
            # `runs` has the evidence of each run, and hyperfine's export the times of the same runs.
            timed_runs = read_export(cell_round.hyperfine.export)
            for run, timed in zip(cell_round.runs, timed_runs, strict=True):
                run["flags"] = judgement.judge(run, timed.elapsed_s)
            has_retried_flag = any(RETRIED_FLAG in run["flags"] for run in cell_round.runs)
            if not has_retried_flag:
                break
        # The context has facts about the server's process, which ends with this block.
        context = cell_round.describe()
    return MeasuredRound(cell_round.hyperfine.export.read_bytes(), context)


def _measure_in_guest(root: Path, recipe: Recipe, number: int, folder: Path) -> MeasuredRound:
    """Measure round `number` in a guest (a virtual machine), and return the round.

    The guest runs this module again (guest_main), on a file system in an image. Its job and its result are in
    a subfolder of `folder` that host and guest see. Raise UserError if the guest fails.
    """
    # Few cells need the guest, and each import takes time.
    from vcsbench.storages import guest

    # 1. What the subjects need. prepare() makes templates on the host, which the guest reads. It returns the
    # size of an image for the subject's files, or 0 for the subject that has none there.
    kinds = [kind for kind in (recipe["input"], recipe["output"]) if kind]
    subjects = [SUBJECTS[kind](recipe, number, folder, root) for kind in kinds]
    image_bytes = max(subject.prepare() for subject in subjects)

    # 2. The job. With `is_in_guest`, checks that fail in a virtual machine are left out, such as that of
    # disks.
    out = folder / "out"
    out.mkdir()
    job = {"recipe": {**recipe, "is_in_guest": True}, "number": number, "root": str(root)}
    (out / GUEST_JOB).write_text(json.dumps(job))

    # 3. The command that measures. With -S, Python starts faster, because it looks for no installed packages:
    # measuring needs none.
    command = ["env", f"PYTHONPATH={Path(__file__).parents[2]}", "PYTHONDONTWRITEBYTECODE=1"]
    command += [sys.executable, "-S", "-m", "vcsbench.run.cell_job", GUEST, guest.OUT]

    # 4. The guest, with the delay of its network packets ("" for none).
    reads = _folders_for_guest(root, recipe)
    limit_s = GUEST_TIMES * recipe["time_limit_s"]
    delay = recipe.get("delay", "")
    scratch = WorkDir(recipe["filesystem"]["scratch"], root)
    with _sparse_image(scratch, image_bytes) as image:
        guest.run_in_guest(root, folder, command, image, limit_s=limit_s, delay=delay, reads=reads)
    return _read_guest_result(out, guest.GUEST_REMEDY)


def _folders_for_guest(root: Path, recipe: Recipe) -> list[str | Path]:
    """Return the folders of the host that a guest reads: for templates, repositories and programs."""
    # Of storages, these are only vcsbench's work folders. A whole storage such as /tmp would hide the guest's
    # own /tmp, to which programs write.
    storages = (recipe["storage"]["path"], recipe["filesystem"]["scratch"])
    work_folders = [_work_folder(path, root) for path in storages]
    builds = (recipe["build"]["client"], recipe["build"]["server"])
    prefixes = [build["prefix"] for build in builds if build["prefix"]]
    return [*work_folders, *prefixes]


def _work_folder(configured: str, root: Path) -> Path:
    """Return the work folder in a configured folder, with the links in its path.

    The guest has to have the folder at this path and at its real path (guest._hidden_folders).
    """
    return root / configured / WorkDir(configured, root).path.name


@contextmanager
def _sparse_image(workdir: WorkDir, size: int) -> Iterator[Path]:
    """Make an image file of `size` bytes below a work folder, and remove it after the block."""
    folder = (TARGETS, str(os.getpid()))
    # A killed process with the same id may have left this folder.
    workdir.remove(*folder)
    image = workdir.make(*folder) / "image"
    try:
        image.touch()
        # The file is sparse: it takes space on the disk only where the guest writes.
        os.truncate(image, size)
        yield image
    finally:
        workdir.remove(*folder)


def _read_guest_result(out: Path, remedy: str) -> MeasuredRound:
    """Return what guest_main() wrote. Raise a UserError with its error, or the end of the guest's log."""
    result_file = out / GUEST_RESULT
    result = json.loads(result_file.read_text()) if result_file.exists() else {}
    if "error" in result:
        raise errors.UserError(result["error"])
    if "context" not in result:
        log = " ".join(last_lines(out / "log")) or "it printed nothing"
        raise errors.UserError(f"the guest failed: {log}. {remedy}")
    return MeasuredRound((out / GUEST_EXPORT).read_bytes(), cast("Context", result["context"]))


def guest_main(out: str) -> None:
    """Measure a round in this guest, and write its result, or the error, for the host to the folder `out`.

    The host has written the job to `out`: recipe, number of the round, and checkout (_measure_in_guest).
    """
    folder = Path(out)
    job = json.loads((folder / GUEST_JOB).read_text())
    root = Path(job["root"])
    os.chdir(root)
    try:
        with run_folder(root) as private:
            cell_round = RoundMeasurement(job["recipe"], job["number"], private, root)
            # The guest runs no other measurement, so hyperfine may inherit any open file in place of a lock.
            no_lock = os.open(os.devnull, os.O_RDONLY)
            measured = _measure_and_judge(cell_round, no_lock)
    except errors.UserError as error:
        result: dict[str, object] = {"error": _add_remedy(error, job["recipe"])}
    except Exception:  # the host sees only what is written here
        result = {"error": f"in the guest: {traceback.format_exc()}"}
    else:
        (folder / GUEST_EXPORT).write_bytes(measured.export)
        result = {"context": measured.context}
    (folder / GUEST_RESULT).write_text(json.dumps(result))


if __name__ == "__main__":
    if sys.argv[1] == CALLS:
        code = write_call_counts(Path(sys.argv[2]), *sys.argv[3:])
    elif sys.argv[1] == GUEST:
        guest_main(sys.argv[2])
        code = 0
    else:
        code = main(Path(sys.argv[1]), *sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    # Tearing an interpreter down takes as long as its start.
    os._exit(code)
