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
from vcsbench.cell_rounds import CellRound
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
from vcsbench.records import CellTrace, Context, RunRecord, complete_run

if TYPE_CHECKING:
    from vcsbench.evidence.run_columns import RunColumns

# Equal content gives equal text. The column `work` has no blanks in its JSON, all other columns have some.
_SORTED = json.JSONEncoder(sort_keys=True)
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

# The reason why a cell-round with an empty log has no result. It counts as a failure.
KILLED = "its process was killed, perhaps for lack of memory, or it still runs: see Snakemake's log"


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
    thresholds: Mapping[str, float],
    traces: Mapping[str, CellTrace] | None = None,
    folder: str = "results",
) -> Collected:
    """Return the results of a study from its files, with the flags that the present `thresholds` give.

    A cell is a command with everything that it is timed with. A cell-round is one round of a cell, and has
    two files: hyperfine's export with the times of its runs, and the context with evidence and other facts.

    - `axes` are the columns of the grid that identify a cell, for example ["command", "repo", "cache"].
    - `grid` has a row for each cell: `cell` (its path), its axes, and `skip`, "" for a measured cell.
    - `rounds` has the expected number of rounds by path, for example {"log/ruby/f7/svn/cold": 10}.
    - `results` are the cell-rounds with files below `folder`. Each other expected one becomes a failure.
    - `thresholds` are the limits of the configuration by name, for example {"min_run_s": 0.1}.
    - `traces` has the counts of system calls of each cell by its path; None if the study counts none.

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
        # A trace counts the system calls of a cell, so all of its runs have the same numbers.
        trace_columns: RunColumns = {}
        if traces is not None:
            trace_columns = run_columns.trace_columns(traces.get(path, {}))
        for number in range(1, rounds[path] + 1):
            cell_round = CellRound(study, path, number, folder)
            try:
                if cell_round not in cell_rounds_with_files:
                    raise _Failure(_why_missing(cell_round))
                # Raises _Failure for files from which no result can be taken.
                runs = _read_cell_round(cell_round, thresholds)
            except _Failure as failure:
                failures.append({"cell": path, "round": number, "reason": str(failure)})
                continue
            for run in runs:
                run_rows.append({**cell_columns, "round": number, **run, **trace_columns})

    measurements, fixed_cost = _make_frames(run_rows, axes, thresholds["min_run_s"])
    failure_columns = ["cell", "round", "reason"]
    return Collected(measurements, fixed_cost, pd.DataFrame(failures, columns=failure_columns))


def _make_frames(
    run_rows: Sequence[RunColumns], axes: Sequence[str], min_run_s: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frame `measurements`, and the frame `fixed_cost` of the runs on the empty repository.

    A row of `run_rows` is a run, such as {"cell": "log/ruby", "round": 1, "run": 1, "flags": ["clock"], ...}.
    Its list of flags is from its own evidence. Flags from comparisons with other runs are added here, and the
    list becomes one text. A cell with a median below `min_run_s` seconds gets the flag `too-short`.
    """
    # The columns that are neither first nor last, such as evidence, stay in the order of the rows.
    first_columns = ["cell", *axes, *FIRST_COLUMNS]
    all_columns = dict.fromkeys(itertools.chain.from_iterable(run_rows))
    outer_columns = {*first_columns, *LAST_COLUMNS}
    middle_columns = [name for name in all_columns if name not in outer_columns]
    columns = [*first_columns, *middle_columns, *LAST_COLUMNS]
    # The columns have the type object. pandas would otherwise convert whole numbers, such as a process id, to
    # floats in a column where another run has none.
    frame = pd.DataFrame(run_rows, columns=columns, dtype=object)
    # Medians of times are computed below, so these columns become numbers. Each stays at its place.
    times = {name: frame[name].astype(float) for name in TIMES}
    frame = pd.DataFrame(dict(frame.items()) | times)

    # The flag `libraries-differ` makes a run invalid. An invalid run does not count for the fixed cost.
    all_runs = comparison_flags.flag_other_libraries(frame)
    measurements, fixed_cost = separate_fixed_cost(all_runs, axes)
    # The lists in `flags` become texts. The runs on the empty repository are not compared any further.
    if not measurements.empty:
        measurements["flags"] = comparison_flags.find_all_flags(measurements, axes, min_run_s)
    fixed_cost = fixed_cost.assign(flags=fixed_cost["flags"].map(flags.join_flags))
    # These columns have the state of the caches and the conditions of the machine. They are only needed to
    # find the runs that are comparable. A frame without runs lacks them.
    return (
        measurements.drop(columns=[STATE_COLUMN, CONDITIONS], errors="ignore"),
        fixed_cost[["cell", *axes, "run", *TIMES, "host", "flags"]],
    )


class _Failure(Exception):
    """The reason why a cell-round has no result."""


def _why_missing(cell_round: CellRound) -> str:
    """Return why a cell-round has no result: OUTDATED, UNMEASURED, KILLED, or the last line of its log.

    - OUTDATED: there is an export, but it was measured with another recipe (the settings and programs of the
      cell). A workflow run that measures nothing leaves out such an export.
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
    # The shell of the job makes an empty log. A process that fails or gets a SIGTERM writes the reason there,
    # and one that gets a SIGKILL cannot.
    return last_line or KILLED


def _read_cell_round(result: CellRound, thresholds: Mapping[str, float]) -> list[RunColumns]:
    """Return the columns of each run of a cell-round, from its two JSON files.

    hyperfine's export (`result.export`) has the times of the runs. The context has vcsbench's records of the
    same runs, and facts that all runs share. Raise _Failure with the reason if a file is missing or empty, if
    the context is damaged, if the export has fewer runs than the context, or if a run has failed. Raise
    UserError if hyperfine cannot have written the export.
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
    # The code of a run that a signal ended is None, which counts as failed, too.
    failed_codes = {timed.exit_code for timed in timed_runs} - {0}
    if failed_codes:
        codes_text = ", ".join(sorted(map(str, failed_codes)))
        raise _Failure(f"the command ended with {codes_text}, which is not 0")
    records = context["runs"]
    if len(timed_runs) < len(records):
        raise _Failure(
            f"{export.name} has {len(timed_runs)} runs instead of {len(records)}; "
            "delete it and run again"
        )

    shared_columns = _columns_of_cell_round(context)
    rows: list[RunColumns] = []
    for number, timed in enumerate(timed_runs, start=1):
        # A run without a record has no evidence, and gets the flag `uncertified`.
        record = records[number - 1] if number <= len(records) else complete_run({})
        columns = _columns_of_run(timed, record, context, thresholds)
        rows.append({"run": number, **columns, **shared_columns})
    return rows


def _columns_of_run(
    timed: Run, record: RunRecord, context: Context, limits: Mapping[str, float]
) -> RunColumns:
    """Return the columns of a run: its times, its evidence and figures, its work, state and flags.

    `timed` is hyperfine's report on the run, `record` is vcsbench's. `limits` are the thresholds of the
    configuration. Two columns serve later steps:

    - `flags` is a list here, for example ["cache-not-cold"].
    - `state` (STATE_COLUMN) has the promises of the cell's label about the caches, as text: '{"os": "cold"}'.
      Only runs with the same text are compared.
    """
    evidence = record["evidence"]
    work = record["work"]
    columns: RunColumns = {
        # The study sets the duration of traffic, so it is no result.
        "elapsed_s": None if "traffic" in record else timed.elapsed_s,
        "user_s": timed.user_s,
        "system_s": timed.system_s,
        # The start of the run, or the start of its cell-round if there is no evidence of the run.
        "started_at": evidence.get("started_at", context["started_at"]),
    }
    for name, value in evidence.items():
        # A list, such as `other_servers`, becomes a text, because a field of a CSV file has one value.
        columns[name] = _SORTED.encode(value) if isinstance(value, (dict, list)) else value
    # The peak memory in the evidence is that of the untimed run whose output was checked. The peak of the
    # timed run replaces it, but hyperfine before version 2 does not report this.
    peak_bytes, measured_in = timed.peak_memory_bytes, "timed"
    if peak_bytes is None:
        peak_bytes = evidence.get("client_peak_memory_bytes")
        measured_in = "" if peak_bytes is None else "untimed"
    columns["client_peak_memory_bytes"] = peak_bytes
    columns["client_peak_memory_run"] = measured_in
    columns |= run_columns.count_columns(evidence, context)
    columns |= run_columns.client_columns(timed, record, context)
    columns |= run_columns.traffic_columns(record)
    # The disk space of a working copy; other cells have None in these columns.
    space = context["working_copy"].get("space", {})
    columns |= {name: space.get(name) for name in run_columns.SPACE_COLUMNS}
    columns |= run_columns.git_columns(record, context)
    columns |= run_columns.size_columns(context)
    columns["work"] = _COMPACT.encode(work) if work else ""
    columns[STATE_COLUMN] = _SORTED.encode(record["promises"])
    columns["flags"] = _flags_of_run(timed, record, context, limits)
    return columns


def _flags_of_run(
    timed: Run, record: RunRecord, context: Context, limits: Mapping[str, float]
) -> list[str]:
    """Return the flags of a run that depend on no other run, in any order, some perhaps twice.

    `timed` is hyperfine's report on the run, `record` is vcsbench's. `limits` are the thresholds of the
    configuration. For example, a run that kept 95 % of all cores busy gets `saturated`, if `max_cpu_share` is
    0.9.
    """
    run_flags: list[str] = [
        # The evidence of the run contradicts the label of its cell, or other programs disturbed it.
        *judgement.judge(record, timed.elapsed_s, limits),
        # Faults of the repository or the output, such as `nothing-packed`. The measurement stored them.
        *context["flags"],
        # Client or server loaded libraries from outside of its build, or unknown ones.
        *run_columns.build_flags(context),
        # Requests of many clients failed or had to wait. Other runs get none of these flags.
        *run_columns.traffic_flags(record),
        # The disk is in memory, or was flushed too rarely.
        *_flags_of_storage(record, context),
    ]
    # hyperfine before version 2 reports only the mean of the processor times of all runs.
    if timed.mean_cpu:
        run_flags.append(Flag.MEAN_CPU)
    # Client and server together. An unknown time counts as 0.
    cpu_s = (timed.user_s or 0.0) + (timed.system_s or 0.0)
    cpu_s += record["evidence"].get("server_cpu_s") or 0.0
    busy_cores = cpu_s / timed.elapsed_s
    if busy_cores > limits["max_cpu_share"] * context["host"]["cores"]:
        run_flags.append(Flag.SATURATED)

    # The last checks compare the run with the checked run: an untimed run of the same round, whose output was
    # read. A run with a quiet option prints nothing that could differ. Too few bytes read then show that it
    # did not do the work of the checked run, so it gets the same flag as for another output.
    has_few_reads = same_work.has_too_few_reads(record, context)
    if has_few_reads or same_work.has_other_output(record, context):
        run_flags.append(Flag.OTHER_OUTPUT)
    if same_work.lacks_counts(context):
        run_flags.append(Flag.IO_UNKNOWN)
    if same_work.has_idle_server(record, context):
        run_flags.append(Flag.SERVER_IDLE)
    return run_flags


def _flags_of_storage(record: RunRecord, context: Context) -> list[Flag]:
    """Return the flags of a run by the disks that it read and wrote.

    A cold run gets `cached-below` if the blocks of one of its disks are in memory, as for a RAM disk. A load,
    a commit, or traffic with commits gets `too-few-flushes` if it flushed the disk less often than its
    revisions need. A flush makes the disk store what is in its cache. The run gets `flushes-unknown` if the
    kernel does not count flushes, or sends none to this disk.
    """
    storage_flags: list[Flag] = []
    # The label of a cell promises a state of the operating system's caches before a run: "cold" or "hot".
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
    return storage_flags


def _is_cached_below(context: Context) -> bool:
    """Return True if a file system of a cell-round is on a disk whose blocks are in memory."""
    # A working copy or a tree may have a file system of its own, such as an image that vcsbench made. The key
    # `read` has the facts about a tree, if the command reads one.
    filesystems: list[Mapping[str, object]] = [context["storage"]]
    for subject in (context["working_copy"], context.get("read", {})):
        filesystem = subject.get("filesystem")
        if isinstance(filesystem, Mapping):
            filesystems.append(filesystem)
    # An image that vcsbench made is on a loop device, too. That device reads the image by direct I/O, so its
    # blocks are not in memory. Where direct I/O is impossible, the run has the flag `host-cached`.
    return any(each.get("cached_below") and not each.get("made") for each in filesystems)


def _columns_of_cell_round(context: Context) -> RunColumns:
    """Return the columns that all runs of a cell-round (a round of a cell) share: build, host, times, ...

    For example {"copy": 2, "order": 17, "host": "localhost#0123abcd", "waited_s": 0.0, ...}.
    """
    # If the caches were not warm in an attempt to measure a round, the round is measured again. The context
    # also has the attempts before the last one. Two of them give "cache-not-warm, cache-not-warm clock": an
    # attempt is listed with all flags that made its runs invalid.
    texts_of_attempts = []
    for attempt in context["set_aside"]:
        flags_of_attempt = {flag for run in attempt["runs"] for flag in run["flags"]}
        texts_of_attempts.append(flags.join_flags(flags_of_attempt & flags.INVALID))
    # A context may lack its conditions and any number, which get() reads. Each other part is there, perhaps
    # empty (records.complete_context).
    conditions = context.get("conditions")
    return {
        **run_columns.build_columns(context),
        "set_aside": ", ".join(texts_of_attempts),
        "copy": context.get("copy"),
        "order": context.get("order"),
        "seed": context.get("seed"),
        "scale": context["repository"].get("scale"),
        "storage_kind": run_columns.storage_label(context["storage"], context["host"]),
        "host": host_label(context["host"]),
        "cell_round_started_at": context["started_at"],
        "waited_s": context["took"].get("waited_s"),
        "cell_round_s": context["took"].get("cell_round_s"),
        # A mapping as text, so that rounds with equal conditions have equal values in this column.
        CONDITIONS: _SORTED.encode(conditions) if conditions else "",
    }


def separate_fixed_cost(
    frame: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frame of the runs on repositories, and the frame of the runs on the empty repository.

    On the empty repository, a command only starts and connects. The time for this, and the cell's own waits
    for delayed acknowledgements, are its fixed cost. The first frame gets two columns:

    - `fixed_cost_s` is the fixed cost of the cell's command in seconds.
    - `fixed_share` is the share of the fixed cost in the median time of the cell's runs in the same state,
      such as cold caches. It is 0.05 for a fixed cost of 0.1 s and a median of 2 s, and at most 1.

    Both columns are computed from valid runs, and NaN without valid runs.
    """
    # A study without the axis of repositories has no runs on the empty one.
    repositories = frame.get(REPOSITORY_AXIS, pd.Series("", frame.index))
    is_fixed = repositories == EMPTY
    runs = frame[~is_fixed].reset_index(drop=True)
    fixed_runs = frame[is_fixed].reset_index(drop=True)

    # An axis such as `format` does not change the start of a command. So the empty repository was measured
    # with one value of this axis, and its runs count for the cells with any other value, too.
    keys = [axis for axis in axes if axis not in SAME_FIXED_COST]
    keys.append("host")
    # This adds the column `fixed_cost_s`: the median time of valid runs on the empty repository, less the
    # waits there. The waits of the cell itself are added below.
    valid_fixed = fixed_runs[comparison_flags.are_valid(fixed_runs)]
    start_s = valid_fixed["elapsed_s"] - _acknowledgement_waits_s(valid_fixed)
    groups = valid_fixed.assign(fixed_cost_s=start_s).groupby(keys, as_index=False)
    runs = runs.merge(groups[["fixed_cost_s"]].median(), on=keys, how="left")

    # where() makes the values of invalid runs NaN, which a median leaves out.
    is_valid = comparison_flags.are_valid(runs)
    valid_elapsed_s = runs["elapsed_s"].where(is_valid)
    valid_waits_s = _acknowledgement_waits_s(runs).where(is_valid)
    # The columns cell, host and state. Each run gets the median of its group.
    group_columns = comparison_flags.group_by_state(runs)
    median_elapsed_s = valid_elapsed_s.groupby(group_columns).transform("median")
    median_waits_s = valid_waits_s.groupby(group_columns).transform("median")
    # TCP may acknowledge a packet 40 ms late. How often a command waits for that depends on all its work, not
    # only on its start. So the median wait of the cell counts, and not that on the empty repository.
    cost_s = (runs["fixed_cost_s"] + median_waits_s).astype(float)
    # By noise, a very short cell can take less time than the runs on the empty repository.
    share = (cost_s / median_elapsed_s).clip(upper=1.0)
    runs = runs.assign(fixed_cost_s=cost_s, fixed_share=share)
    # The flags stay the last column.
    columns = [name for name in runs if name != "flags"]
    return runs[[*columns, "flags"]], fixed_runs


def _acknowledgement_waits_s(frame: pd.DataFrame) -> pd.Series:
    """Return the seconds in which delayed acknowledgements held up each run."""
    columns = frame.columns.intersection(list(judgement.WAIT_COLUMNS))
    waits_s = [judgement.acknowledgement_s(row) for row in frame[columns].to_dict("records")]
    return pd.Series(waits_s, index=frame.index, dtype="float64")
