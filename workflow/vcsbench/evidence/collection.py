"""Collect the exports and contexts of a study's cell-rounds into measurements, one row per timed run."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from vcsbench.axis_names import REPOSITORY_AXIS
from vcsbench.config.configuration import EMPTY
from vcsbench.evidence import comparison_flags, flags, judgement, run_columns, same_work
from vcsbench.evidence.column_names import (
    CONDITIONS,
    FIRST_COLUMNS,
    LAST_COLUMNS,
    STATE_COLUMN,
    TIMES,
)
from vcsbench.evidence.flags import Flag
from vcsbench.machine import host_label
from vcsbench.measure.runs import Run, read_export
from vcsbench.plan.grid import SAME_FIXED_COST
from vcsbench.plan.result_state import OUTDATED, UNMEASURED, read_context
from vcsbench.records import CellTrace, Context, Evidence, RunRecord, complete_run
from vcsbench.result_paths import CellRound

if TYPE_CHECKING:
    from vcsbench.evidence.run_columns import RunColumns

# Equal content gives equal text. The column `work` has no blanks in its JSON, all other columns have some.
_SORTED = json.JSONEncoder(sort_keys=True)
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

# The reason why a cell-round with an empty log has no result. It counts as a failure.
KILLED = "its process was killed, perhaps for lack of memory, or it still runs: see Snakemake's log"
# A run that keeps more than this share of all cores busy is limited by their number (`saturated`).
MAX_CPU_SHARE = 0.9
# For each byte that a program writes, a file system writes up to so many: data, metadata and a journal. An
# export had 3.5. A flush writes up to so much of a journal.
WRITES_PER_BYTE, BYTES_PER_FLUSH = 4, 128 << 10
# Other programs may write this to the disks of a run: four times what they may read, or so much each second.
MAX_OTHERS_WRITTEN_BYTES = 4 * judgement.MAX_OTHERS_READ_MIB * judgement.MIB
OTHERS_WRITTEN_BYTES_PER_S = judgement.MIB


class Collected(NamedTuple):
    """The results of a study, in three frames.

    - `measurements` has a row for each timed run: cell, axes, FIRST_COLUMNS ... LAST_COLUMNS.
    - `fixed_cost` has a row for each run on the empty repository: cell, axes, run, TIMES, host and flags.
    - `failures` has a row for each cell-round without a result: cell, round and reason.
    """

    measurements: pd.DataFrame
    fixed_cost: pd.DataFrame
    failures: pd.DataFrame


def collect(
    study: str,
    axes: Sequence[str],
    grid: Iterable[Mapping[str, str]],
    rounds: Mapping[str, int],
    results: Collection[CellRound],
    traces: Mapping[str, CellTrace] | None = None,
    folder: str = "results",
) -> Collected:
    """Return the results of a study from the exports and contexts of its cell-rounds.

    - `axes`: the columns of the grid that identify a cell, for example ["command", "repo", "cache"].
    - `grid`: a row for each cell: `cell` (its path), its axes, and `skip`, "" for a measured cell.
    - `rounds`: the expected number of rounds by path, for example {"log/ruby/f7/svn/cold": 10}.
    - `results`: the cell-rounds with files below `folder`. Each other expected one becomes a failure.
    - `traces`: the counts of system calls of each cell by its path; None if the study counts none.

    Raise UserError for an export of unknown schema.
    """
    cell_rounds_with_files = set(results)
    run_rows: list[RunColumns] = []
    failures: list[RunColumns] = []
    for cell in grid:
        if cell["skip"]:
            continue
        path = cell["cell"]
        cell_columns = {name: cell[name] for name in ("cell", *axes)}
        # System calls are counted once for a cell, so all of its runs have the same numbers.
        trace_columns: RunColumns = {}
        if traces is not None:
            trace_columns = run_columns.trace_columns(traces.get(path, {}))
        for number in range(1, rounds[path] + 1):
            cell_round = CellRound(study, path, number, folder)
            try:
                if cell_round not in cell_rounds_with_files:
                    raise _Failure(_why_missing(cell_round))
                runs = _read_cell_round(cell_round)
            except _Failure as failure:
                failures.append({"cell": path, "round": number, "reason": str(failure)})
                continue
            for run in runs:
                run_rows.append({**cell_columns, "round": number, **run, **trace_columns})

    measurements, fixed_cost = _make_frames(run_rows, axes)
    failure_columns = ["cell", "round", "reason"]
    return Collected(measurements, fixed_cost, pd.DataFrame(failures, columns=failure_columns))


def _make_frames(
    run_rows: Sequence[RunColumns], axes: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two frames: the runs on repositories, and the runs on the empty repository (fixed cost).

    A row of `run_rows` is a run, such as {"cell": "log/ruby", "round": 1, "run": 1, "flags": ["clock"], ...}.
    Flags from comparisons with other runs, such as `too-short`, are added, and the list becomes one text.
    """
    # Without the type object, pandas would convert whole numbers, such as a process id, to floats in a column
    # where another run has none.
    frame = pd.DataFrame(run_rows, columns=_order_columns(run_rows, axes), dtype=object)
    columns = dict(frame.items())
    # Times become floats, because medians of them are computed below.
    for name in TIMES:
        columns[name] = frame[name].astype(float)

    # The flag `libraries-differ` makes a run invalid, and all medians below leave out invalid runs. So this
    # flag is added first.
    all_runs = comparison_flags.flag_other_libraries(pd.DataFrame(columns))
    measurements, fixed_cost = separate_fixed_cost(all_runs, axes)
    # The runs on the empty repository are not compared any further.
    if not measurements.empty:
        measurements["flags"] = comparison_flags.find_all_flags(measurements, axes)
    fixed_cost = fixed_cost.assign(flags=fixed_cost["flags"].map(flags.join_flags))
    # The dropped columns only served to find comparable runs. A frame without runs lacks these columns.
    return (
        measurements.drop(columns=[STATE_COLUMN, CONDITIONS], errors="ignore"),
        fixed_cost[["cell", *axes, "run", *TIMES, "host", "flags"]],
    )


def _order_columns(run_rows: Sequence[RunColumns], axes: Sequence[str]) -> list[str]:
    """Return all columns of rows: cell, axes, FIRST_COLUMNS, all others in their order, LAST_COLUMNS."""
    first_columns = ["cell", *axes, *FIRST_COLUMNS]
    all_columns = dict.fromkeys(itertools.chain.from_iterable(run_rows))
    outer_columns = {*first_columns, *LAST_COLUMNS}
    middle_columns = [name for name in all_columns if name not in outer_columns]
    return [*first_columns, *middle_columns, *LAST_COLUMNS]


class _Failure(Exception):
    """The reason why a cell-round has no result."""


def _why_missing(cell_round: CellRound) -> str:
    """Return why a cell-round has no result: OUTDATED, UNMEASURED, KILLED, or the last line of its log.

    - OUTDATED: there is an export, but it was measured with another recipe. A workflow run that measures
      nothing leaves out such an export.
    - UNMEASURED: there is no log, because the workflow run ended before the turn of this cell-round.
    - KILLED: the log is empty.
    """
    if os.path.exists(cell_round.export):
        return OUTDATED
    try:
        text = Path(cell_round.log).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return UNMEASURED
    last_line = text.split("\n")[-1].strip()
    # The shell of the job makes an empty log, and a process that gets a SIGKILL cannot write to it.
    return last_line or KILLED


def _read_cell_round(result: CellRound) -> list[RunColumns]:
    """Return the columns of each run of a cell-round. Raise _Failure and UserError as _read_files()."""
    timed_runs, context = _read_files(result)
    records = context["runs"]
    shared_columns = _columns_of_cell_round(context)
    rows: list[RunColumns] = []
    for number, timed in enumerate(timed_runs, start=1):
        # A run without a record has no evidence, and gets the flag `uncertified`.
        record = records[number - 1] if number <= len(records) else complete_run({})
        columns = _columns_of_run(timed, record, context)
        rows.append({"run": number, **columns, **shared_columns})
    return rows


def _read_files(result: CellRound) -> tuple[list[Run], Context]:
    """Return the runs in the export of a cell-round, as hyperfine has timed them, and its context.

    Raise _Failure if a file is missing or empty, if the context is damaged, if the export has fewer runs than
    the context, or if a run has failed. Raise UserError if hyperfine cannot have written the export.
    """
    context, export = read_context(result.context), Path(result.export)
    if context is None or not export.is_file():
        raise _Failure(
            f"{export.name} or its context is missing or damaged; delete both and run again"
        )
    # A full disk can leave an empty file.
    if not export.stat().st_size:
        raise _Failure(f"{export.name} is empty; delete it and run again")
    timed_runs = read_export(export)
    # The code of a run that a signal ended is None.
    failed_codes = {timed.exit_code for timed in timed_runs} - {0}
    if failed_codes:
        codes_text = ", ".join(sorted(map(str, failed_codes)))
        raise _Failure(f"the command ended with {codes_text}, which is not 0")
    expected = len(context["runs"])
    if len(timed_runs) < expected:
        raise _Failure(
            f"{export.name} has {len(timed_runs)} runs instead of {expected}; "
            "delete it and run again"
        )
    return timed_runs, context


def _columns_of_run(timed: Run, record: RunRecord, context: Context) -> RunColumns:
    """Return the columns of a timed run: times, evidence, figures, work, state and flags.

    `timed` is hyperfine's report on the run, and `record` is vcsbench's. In the column `state`
    (STATE_COLUMN), the promises of the run are text, such as '{"os": "cold"}'. Only runs with the same text
    are compared. `flags` is a list, such as ["cache-not-cold"].
    """
    evidence = record["evidence"]
    work = record["work"]
    columns: RunColumns = {
        # The study sets the duration of traffic, so it is no result.
        "elapsed_s": None if "traffic" in record else timed.elapsed_s,
        "user_s": timed.user_s,
        "system_s": timed.system_s,
        # Without evidence, the start of the round takes the place of the start of the run.
        "started_at": evidence.get("started_at", context["started_at"]),
    }
    for name, value in evidence.items():
        # A list, such as `other_servers`, becomes a text, because a field of a CSV file has one value.
        columns[name] = _SORTED.encode(value) if isinstance(value, (dict, list)) else value
    columns |= _peak_memory_columns(timed, evidence)
    columns |= run_columns.count_columns(evidence, context)
    columns |= run_columns.client_columns(timed, record, context)
    columns |= run_columns.traffic_columns(record)
    # Only a command with a working copy has the space of one.
    space = context["working_copy"].get("space", {})
    columns |= {name: space.get(name) for name in run_columns.SPACE_COLUMNS}
    columns |= run_columns.git_columns(record, context)
    columns |= run_columns.size_columns(context)
    columns["work"] = _COMPACT.encode(work) if work else ""
    columns[STATE_COLUMN] = _SORTED.encode(record["promises"])
    columns["flags"] = _flags_of_run(timed, record, context)
    return columns


def _peak_memory_columns(timed: Run, evidence: Evidence) -> RunColumns:
    """Return the peak memory of the client, and the kind of run, timed or untimed, that it is of.

    Example: {"client_peak_memory_bytes": 52428800, "client_peak_memory_run": "timed"}.
    """
    peak_bytes, measured_in = timed.peak_memory_bytes, "timed"
    # hyperfine before version 2 does not report it. The evidence has the peak of an untimed run.
    if peak_bytes is None:
        peak_bytes = evidence.get("client_peak_memory_bytes")
        measured_in = "" if peak_bytes is None else "untimed"
    return {"client_peak_memory_bytes": peak_bytes, "client_peak_memory_run": measured_in}


def _flags_of_run(timed: Run, record: RunRecord, context: Context) -> list[str]:
    """Return the flags of a run that need no comparison with other timed runs.

    The flags are in any order, and some may be there twice.
    """
    run_flags: list[str] = [
        *judgement.judge(record, timed.elapsed_s),
        # Faults of the repository or the output, such as `nothing-packed`. The measurement stored them.
        *context["flags"],
        *run_columns.build_flags(context),
        *run_columns.traffic_flags(record),
        *_flags_of_storage(record, context),
    ]
    # hyperfine before version 2 reports only the mean of the processor times of all runs.
    if timed.mean_cpu:
        run_flags.append(Flag.MEAN_CPU)
    if _has_busy_cores(timed, record, context):
        run_flags.append(Flag.SATURATED)
    return [*run_flags, *_flags_of_work(record, context)]


def _has_busy_cores(timed: Run, record: RunRecord, context: Context) -> bool:
    """Return True if client and server kept nearly all processors busy, so that their number limits the run.

    An unknown processor time counts as 0.
    """
    cpu_s = (timed.user_s or 0.0) + (timed.system_s or 0.0)
    cpu_s += record["evidence"].get("server_cpu_s") or 0.0
    busy_cores = cpu_s / timed.elapsed_s
    return busy_cores > MAX_CPU_SHARE * context["host"]["cores"]


def _flags_of_work(record: RunRecord, context: Context) -> list[Flag]:
    """Return the flags of a timed run by a comparison with the checked run (same_work).

    A timed run that printed, read or requested something else has not done the same work.
    """
    work_flags: list[Flag] = []
    # A run with a quiet option, or one that prints saved output, shows other work only by its reads.
    has_few_reads = same_work.has_too_few_reads(record, context)
    if has_few_reads or same_work.has_other_output(record, context):
        work_flags.append(Flag.OTHER_OUTPUT)
    if same_work.lacks_counts(context):
        work_flags.append(Flag.IO_UNKNOWN)
    if same_work.has_idle_server(record, context):
        work_flags.append(Flag.SERVER_IDLE)
    return work_flags


def _flags_of_storage(record: RunRecord, context: Context) -> list[Flag]:
    """Return the flags of a run by the disks that it read and wrote.

    - `cached-below`: a cold run read a disk whose blocks are in memory, such as a RAM disk.
    - `too-few-flushes`: a load or commits flushed the disk less often than their revisions need.
    - `flushes-unknown`: the kernel does not count flushes, or sends none to this disk.
    - `io-busy`: other programs wrote much.
    """
    storage_flags: list[Flag] = []
    is_cold = record["promises"].get("os") == "cold"
    if is_cold and _is_cached_below(context):
        storage_flags.append(Flag.CACHED_BELOW)
    # Only new revisions need flushes, so the number is 0 for most commands.
    needed_flushes = same_work.count_needed_flushes(record, context)
    counted_flushes = same_work.count_flushes(record, context)
    if counted_flushes is None and needed_flushes:
        storage_flags.append(Flag.FLUSHES_UNKNOWN)
    elif counted_flushes is not None and counted_flushes < needed_flushes:
        storage_flags.append(Flag.TOO_FEW_FLUSHES)
    if _have_others_written(record, context):
        storage_flags.append(Flag.IO_BUSY)
    return storage_flags


def _have_others_written(record: RunRecord, context: Context) -> bool:
    """Return True if programs other than client and server wrote much to the disks of a run.

    The disks count the bytes of all programs. The bytes of client and server are subtracted, four times each
    (WRITES_PER_BYTE), because a file system adds metadata and a journal. The rest may be 16 MiB, and in a run
    of more than 16 s, 1 MiB for each second. Return False if a count is unknown.
    """
    evidence = record["evidence"]
    device_bytes = evidence.get("device_write_bytes")
    client_bytes = evidence.get("client_write_bytes")
    # A local command has no server, and its count is missing.
    server_bytes = evidence.get("server_write_bytes", 0)
    if device_bytes is None or client_bytes is None or server_bytes is None:
        return False
    if _may_have_late_writes(context):
        return False
    own_bytes = WRITES_PER_BYTE * (client_bytes + server_bytes)
    # A load and a commit flush the disk for each new revision, and each flush writes to the journal.
    must_flush = same_work.count_needed_flushes(record, context) > 0
    if must_flush:
        flushes = same_work.count_flushes(record, context)
        if flushes is None:
            return False
        own_bytes += BYTES_PER_FLUSH * flushes
    others_bytes = device_bytes - own_bytes
    duration_s = evidence.get("window_s") or 0.0
    allowed_bytes = max(MAX_OTHERS_WRITTEN_BYTES, OTHERS_WRITTEN_BYTES_PER_S * duration_s)
    return others_bytes > allowed_bytes


def _may_have_late_writes(context: Context) -> bool:
    """Return True if vcsbench made or removed a working copy or a clone shortly before the run.

    Some file systems write a part of that to the disk later, within the run.
    """
    if context.get("working_copy"):
        return True
    # `written` is the path of such a clone. A load has it as well, but only for a small, empty repository.
    return bool(context.get("written")) and context["work_kind"] != same_work.LOADED


def _is_cached_below(context: Context) -> bool:
    """Return True if a file system of a cell-round is on a disk whose blocks are in memory."""
    # A working copy or a tree (`read`) may have a file system of its own.
    filesystems: list[Mapping[str, object]] = [context["storage"]]
    for subject in (context["working_copy"], context.get("read", {})):
        filesystem = subject.get("filesystem")
        if isinstance(filesystem, Mapping):
            filesystems.append(filesystem)
    # The loop device of an image that vcsbench made reads it by direct I/O, so its blocks are not in memory.
    # Where direct I/O is impossible, the run has the flag `host-cached`.
    return any(each.get("cached_below") and not each.get("made") for each in filesystems)


def _columns_of_cell_round(context: Context) -> RunColumns:
    """Return the columns that all runs of a cell-round share, about programs, machine, place and time.

    For example {"copy": 2, "order": 17, "host": "localhost#0123abcd", "waited_s": 0.0, ...}.
    """
    # A context may lack numbers, which get() reads. Other parts are empty instead (records.complete_context).
    conditions = run_columns.comparable_conditions(context)
    return {
        **run_columns.build_columns(context),
        "set_aside": _describe_attempts(context),
        "copy": context.get("copy"),
        "order": context.get("order"),
        "seed": context.get("seed"),
        "scale": context["repository"].get("scale"),
        "storage_kind": run_columns.storage_label(context["storage"], context["host"]),
        "host": host_label(context["host"]),
        "cell_round_started_at": context["started_at"],
        "waited_s": context["took"].get("waited_s"),
        "cell_round_s": context["took"].get("cell_round_s"),
        CONDITIONS: _SORTED.encode(conditions) if conditions else "",
    }


def _describe_attempts(context: Context) -> str:
    """Return the flags of the attempts to measure a round that do not count; "" if there are none.

    Two attempts give, for example, "cache-not-warm, cache-not-warm clock": each has the flags that made its
    runs invalid.
    """
    texts = []
    for attempt in context["set_aside"]:
        flags_of_attempt = {flag for run in attempt["runs"] for flag in run["flags"]}
        texts.append(flags.join_flags(flags_of_attempt & flags.INVALID))
    return ", ".join(texts)


def separate_fixed_cost(
    frame: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frame of the runs on repositories, and the frame of the runs on the empty repository.

    The fixed cost of a command is its start (process, connection, handshake), and its waits for delayed
    acknowledgements of TCP, of 40 ms each. Runs on the empty repository show the start. Each cell has waits
    of its own. The first frame gets two columns, which are NaN without valid runs:

    - `fixed_cost_s`: the fixed cost in seconds, such as 0.1 for a start of 0.06 s and a wait of 0.04 s.
    - `fixed_share`: its share of the cell's median time, at most 1. For a median of 2 s, it is 0.05.

    If some runs of a cell are cold and others hot, both states have medians of their own.
    """
    # A study without the axis of repositories has no runs on the empty one.
    repositories = frame.get(REPOSITORY_AXIS, pd.Series("", frame.index))
    is_on_empty = repositories == EMPTY
    runs = frame[~is_on_empty].reset_index(drop=True)
    empty_runs = frame[is_on_empty].reset_index(drop=True)

    # An axis such as `format` does not change the start (SAME_FIXED_COST). So the empty repository was
    # measured with one of its values only, and runs with any value of it get that start.
    keys = [axis for axis in axes if axis not in SAME_FIXED_COST]
    keys.append("host")
    runs = runs.merge(_start_times(empty_runs, keys), on=keys, how="left")

    # The number of waits depends on all the work of a run, so they are measured in the cell's own runs.
    medians = _medians_of_valid(
        runs, {"waits_s": _acknowledgement_waits_s(runs), "elapsed_s": runs["elapsed_s"]}
    )
    cost_s = (runs["start_s"] + medians["waits_s"]).astype(float)
    # By noise, a very short cell can take less time than the runs on the empty repository.
    share = (cost_s / medians["elapsed_s"]).clip(upper=1.0)
    runs = runs.assign(fixed_cost_s=cost_s, fixed_share=share)
    # `start_s` was an intermediate result. The flags stay the last column.
    columns = [name for name in runs if name not in ("start_s", "flags")]
    return runs[[*columns, "flags"]], empty_runs


def _start_times(empty_runs: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return the time that commands need to start and connect: the columns `keys`, and `start_s`.

    The time is the median over valid runs on the empty repository with the same values of `keys`, without
    their waits for delayed acknowledgements of TCP.
    """
    valid_runs = empty_runs[comparison_flags.are_valid(empty_runs)]
    start_s = valid_runs["elapsed_s"] - _acknowledgement_waits_s(valid_runs)
    groups = valid_runs.assign(start_s=start_s).groupby(list(keys), as_index=False)
    return groups[["start_s"]].median()


def _medians_of_valid(runs: pd.DataFrame, columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return for each run the medians of `columns` over its cell's valid runs in the same state of caches."""
    # A median leaves out NaN, the value of invalid runs.
    valid_values = pd.DataFrame(columns).where(comparison_flags.are_valid(runs), axis=0)
    return valid_values.groupby(comparison_flags.group_by_state(runs)).transform("median")


def _acknowledgement_waits_s(frame: pd.DataFrame) -> pd.Series:
    """Return the seconds by which delayed acknowledgements of TCP add to the fixed cost of each run."""
    columns = frame.columns.intersection(list(judgement.WAIT_COLUMNS))
    waits_s = [judgement.acknowledgement_s(row) for row in frame[columns].to_dict("records")]
    return pd.Series(waits_s, index=frame.index, dtype="float64")
