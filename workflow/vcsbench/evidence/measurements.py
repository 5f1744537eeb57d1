"""Read exports and contexts into measurements (one row per timed run), and account for the time they took.

Frames are CSV files. Axis values stay text, even if they look like numbers.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

import numpy as np
import pandas as pd

from vcsbench.cell_rounds import CellRound
from vcsbench.config.configuration import EMPTY
from vcsbench.errors import UserError
from vcsbench.evidence import flags, judgement, run_columns, same_work
from vcsbench.evidence.flags import Flag
from vcsbench.external import open_regular
from vcsbench.files import read_json, read_rows, write_text
from vcsbench.machine import host_label
from vcsbench.measure.runs import Run, read_export
from vcsbench.metrics import METRICS
from vcsbench.plan.grid import NOT_FIXED, REPOSITORY_AXIS
from vcsbench.plan.result_state import OUTDATED, block_name, read_context
from vcsbench.records import CellTrace, Context, RunRecord, complete_run

if TYPE_CHECKING:
    from vcsbench.evidence.run_columns import Columns

TIMES = ("elapsed_s", "user_s", "system_s", "server_cpu_s")
NUMBERS = (
    *("round", "run", *TIMES, *run_columns.COUNT_COLUMNS, *run_columns.CLIENT_COLUMNS),
    *(*run_columns.TRACE_COLUMNS, *run_columns.SPACE_COLUMNS, "fixed_cost_s", "fixed_share"),
    *("sync_s", "scale", "waited_s", "cell_round_s"),
    # The columns of a new metric are numbers without an entry here.
    *(column for metric in METRICS.values() for column in metric.needs),
)
# The published tables define these limits, so they are no thresholds.
OUTLIERS = {"outlier-10": 0.1, "outlier-20": 0.2}
# Cell-rounds with a longer gap belong to different sessions, unless one waited for another measurement.
PAUSE_S = 60.0
RESTORE = "Restore the file, or make it again."
# The promises of a run while measurements are collected: the first run of a series is cold, the others hot.
STATE = "state"
# The conditions of a cell-round as JSON, also while measurements are collected.
CONDITIONS = "conditions"
EPOCH = pd.Timestamp(0, tz="UTC")
_SORTED = json.JSONEncoder(sort_keys=True)
_COMPACT = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def read_frame(path: str | Path | TextIO, numbers: Collection[str] = ()) -> pd.DataFrame:
    """Return a CSV file: the columns `numbers` as floats (NaN if empty), all others as text.

    Raise UserError if the file is missing, is no CSV, or has text in a column of numbers.
    """
    try:
        file = open_regular(path) if isinstance(path, str | Path) else path
        with open(file, "rb") if isinstance(file, int) else nullcontext(file) as csv_file:
            # A repository may have the name `NA` or `007`.
            frame = pd.read_csv(csv_file, dtype=str, keep_default_na=False, encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. {RESTORE}") from None
    except (ValueError, pd.errors.ParserError) as error:
        reason = f"is not a CSV file with a heading: {error}"
        raise UserError(f"{path}: {reason}. {RESTORE}") from None
    columns = dict(frame.items())
    for name in frame.columns.intersection(list(numbers)):
        columns[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
        for text in frame[name][columns[name].isna() & (frame[name] != "")]:
            raise UserError(f"{path}: `{name}`: {text!r} is not a number. {RESTORE}")
    # At once: pandas is slow with many columns that were replaced one by one.
    return pd.DataFrame(columns)


def write_frame(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file: UTF-8, LF, numbers unrounded, an empty field for a missing value."""
    write_text(path, frame.to_csv(index=False, lineterminator="\n"))


def in_order(
    frame: pd.DataFrame, order: Mapping[str, Sequence[str]], by: Iterable[str]
) -> pd.DataFrame:
    """Sort rows by columns with an order of values: empty values first, unknown ones last."""
    ranks = pd.DataFrame(index=frame.index)
    for name in by:
        known = {value: rank for rank, value in enumerate(["", *order[name]])}
        ranks[name] = frame[name].map(known).fillna(len(known))
    if ranks.columns.empty:
        return frame
    return frame.loc[ranks.sort_values(list(ranks.columns), kind="stable").index]


def group_rows(frame: pd.DataFrame, keys: Iterable[str]) -> Any:
    return frame.groupby(list(keys) or np.zeros(len(frame)), sort=False, dropna=False)


class Collected(NamedTuple):
    """The results of a study: a row per run, per run on the empty repository (cell, axes, run, TIMES,
    host, flags), and per failure (cell, round, reason)."""

    measurements: pd.DataFrame
    fixed_cost: pd.DataFrame
    failures: pd.DataFrame


def read_grid(path: str | Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the axes of a grid and its rows. Raise UserError if it is damaged."""
    rows = read_rows(path, "Delete the file, and run again.", columns=("cell", "skip"))
    return [name for row in rows[:1] for name in row if name not in ("cell", "skip")], rows


def collect(
    study: str,
    axes: Sequence[str],
    grid: Iterable[Mapping[str, str]],
    rounds: int | Mapping[str, int],
    results: Collection[CellRound],
    thresholds: Mapping[str, float],
    traces: Mapping[str, CellTrace] | None = None,
    folder: str = "results",
) -> Collected:
    """Read the exports and contexts of the cell-rounds that have results.

    `rounds` is the expected number of rounds, of all cells or by cell. A cell-round that the grid does
    not skip and that has no result is a failure, with the reason from its log. `thresholds` judge the
    evidence again; other flags of a context stay. `traces` come from read_traces; None if the study has
    none. `folder` has the results. Raise UserError for an export of unknown schema.
    """
    by_round = {(result.cell, result.number): result for result in results}
    runs: list[Columns] = []
    failures: list[Columns] = []
    for cell in grid:
        path = cell["cell"]
        expected = 0 if cell["skip"] else rounds if isinstance(rounds, int) else rounds[path]
        for number in range(1, expected + 1):
            common = {name: cell[name] for name in ("cell", *axes)} | {"round": number}
            try:
                if (path, number) not in by_round:
                    raise _Failure(_why_missing(CellRound(study, path, number, folder)))
                of_cell_round = _read_cell_round(by_round[path, number], thresholds)
            except _Failure as failure:
                failures.append({"cell": path, "round": number, "reason": str(failure)})
                continue
            if traces is not None:
                for run in of_cell_round:
                    run |= run_columns.trace_columns(traces.get(path, {}))
            runs += [common | run for run in of_cell_round]
    frame, fixed = separate_fixed_cost(_flag_other_libraries(_frame_of_runs(runs, axes)), axes)
    if not frame.empty:
        frame["flags"] = _flags(frame, axes, thresholds["min_run_s"])
    fixed = fixed.assign(flags=fixed["flags"].map(flags.joined))
    return Collected(
        frame.drop(columns=[STATE, CONDITIONS], errors="ignore"),
        fixed[["cell", *axes, "run", *TIMES, "host", "flags"]],
        pd.DataFrame(failures, columns=["cell", "round", "reason"]),
    )


class _Failure(Exception):
    """The reason why a cell-round has no result."""


def _frame_of_runs(runs: Sequence[Columns], axes: Sequence[str]) -> pd.DataFrame:
    """Return a row per run, with these columns in order:

    cell, the axes, round, run, TIMES, client_peak_memory_bytes; the evidence and run_columns; work
    (JSON, equal text for equal work, "" if unknown), the columns of the build, set_aside (flags of
    invalid attempts before this run, a comma between attempts), copy, order (position among all
    cell-rounds), seed (of that order), scale, storage_kind, host, started_at (of the run, or of its
    cell-round in contexts of earlier versions), cell_round_started_at, waited_s (seconds, for other
    measurements on the machine), cell_round_s (seconds), flags.
    """
    first = ["cell", *axes, "round", "run", *TIMES, "client_peak_memory_bytes"]
    last = ["work", "client", "client_version", "server", "server_version", "binaries"]
    last += ["client_mapped", "server_mapped"]
    last += ["set_aside", "copy", "order", "seed", "scale", "storage_kind", "host", "started_at"]
    last += ["cell_round_started_at", "waited_s", "cell_round_s", "flags"]
    names = dict.fromkeys(itertools.chain.from_iterable(runs))
    middle = [name for name in names if name not in first and name not in last]
    # As objects: a process id stays a whole number where another run has none.
    frame = pd.DataFrame(runs, columns=[*first, *middle, *last], dtype=object)
    times = {name: frame[name].astype(float) for name in TIMES}
    return pd.DataFrame(dict(frame.items()) | times)


def read_measurements(path: str | Path | TextIO) -> pd.DataFrame:
    """Raise UserError like read_frame(), and for a run without cell, host, round, number or start."""
    frame = read_frame(path, NUMBERS)
    for name in ("cell", "host", "round", "run", "started_at"):
        if name not in frame or (name in NUMBERS and not np.isfinite(frame[name]).all()):
            raise UserError(f"{path}: `{name}` is missing. {RESTORE}")
    if "cell_round_started_at" not in frame:
        # In files of earlier versions, `started_at` is the start of the cell-round.
        frame = frame.assign(cell_round_started_at=frame["started_at"])
    return frame


def as_read(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return measurements of collect() with the types that read_measurements() reads from their CSV file."""
    columns: dict[Any, Any] = {}
    for name, column in measurements.items():
        if name in NUMBERS:
            columns[name] = pd.to_numeric(column, errors="coerce").astype(float)
        else:
            columns[name] = ["" if pd.isna(value) else str(value) for value in column]
    return pd.DataFrame(columns)


def _read_cell_round(result: CellRound, thresholds: Mapping[str, float]) -> list[Columns]:
    context, export = read_context(result.context), Path(result.export)
    if not (context and export.is_file()):
        raise _Failure(
            f"{export.name} or its context is missing or damaged; delete both and run again"
        )
    if not export.stat().st_size:
        raise _Failure(f"{export.name} is empty; delete it and run again")
    runs = read_export(export)
    if codes := {run.exit_code for run in runs} - {0}:
        codes_text = ", ".join(sorted(map(str, codes)))
        raise _Failure(f"the command ended with {codes_text}, which is not 0")
    evidenced = len(context["runs"])
    if len(runs) < evidenced:
        raise _Failure(
            f"{export.name} has {len(runs)} runs instead of {evidenced}; delete it and run again"
        )
    of_cell_round = _columns_of_cell_round(context)
    without_evidence = complete_run({})
    records = itertools.chain(context["runs"], itertools.repeat(without_evidence))
    return [
        {"run": index, **_columns_of_run(run, record, context, thresholds), **of_cell_round}
        for index, (run, record) in enumerate(zip(runs, records, strict=False), start=1)
    ]


def _columns_of_run(
    run: Run, of_run: RunRecord, context: Context, limits: Mapping[str, float]
) -> Columns:
    evidence = of_run["evidence"]
    busy_s = (run.user_s, run.system_s, evidence.get("server_cpu_s"))
    share = sum(seconds or 0.0 for seconds in busy_s) / run.elapsed_s
    words: list[str] = [
        *judgement.judge(of_run, run.elapsed_s, limits),
        *context["flags"],
        *run_columns.build_flags(context),
        *_storage_flags(of_run, context),
        *["mean-cpu"] * run.mean_cpu,
        *["saturated"] * (share > limits["max_cpu_share"] * context["host"]["cores"]),
    ]
    if same_work.has_other_output(of_run, context):
        words.append(Flag.OTHER_OUTPUT)
    if same_work.lacks_counts(context):
        words.append(Flag.IO_UNKNOWN)
    if same_work.has_idle_server(of_run, context):
        words.append(Flag.SERVER_IDLE)
    timed, untimed = run.peak_memory_bytes, evidence.get("client_peak_memory_bytes")
    work, working_copy = of_run["work"], context.get("working_copy")
    space = working_copy["space"] if working_copy else {}
    return {
        "elapsed_s": run.elapsed_s,
        "user_s": run.user_s,
        "system_s": run.system_s,
        "started_at": context["started_at"],
        **{
            name: _SORTED.encode(value) if isinstance(value, (dict, list)) else value
            for name, value in evidence.items()
        },
        "client_peak_memory_bytes": untimed if timed is None else timed,
        "client_peak_memory_run": (
            "timed" if timed is not None else "untimed" if untimed is not None else ""
        ),
        **run_columns.count_columns(evidence, context),
        **run_columns.client_columns(run, of_run, context),
        **{name: space.get(name) for name in run_columns.SPACE_COLUMNS},
        "work": _COMPACT.encode(work) if work else "",
        STATE: _SORTED.encode(of_run["promises"]),
        "flags": words,
    }


def _storage_flags(run: RunRecord, context: Context) -> list[str]:
    """Return the flags of a run by the disks below its storage, its working copy or tree, and its output."""
    words: list[str] = []
    subjects: list[Mapping[str, Any]] = [context["working_copy"], context["tree"]]
    places = [context["storage"], *(subject.get("filesystem", {}) for subject in subjects)]
    is_cold = run["promises"].get("os") == "cold"
    # A file system that vcsbench made has a flag of its own: its image is read without the page cache.
    if is_cold and any(place.get("cached_below") and not place.get("made") for place in places):
        words.append(flags.Flag.CACHED_BELOW)
    least, flushes = same_work.least_flushes(run, context), same_work.flushes(run, context)
    if least and flushes is None:
        words.append(flags.Flag.FLUSHES_UNKNOWN)
    elif flushes is not None and flushes < least:
        words.append(flags.Flag.TOO_FEW_FLUSHES)
    return words


def _columns_of_cell_round(context: Context) -> Columns:
    took, storage = context["took"], context["storage"]
    attempts = [attempt["runs"] for attempt in context["set_aside"]]
    flagged = [{flag for run in runs for flag in run["flags"]} for runs in attempts]
    return {
        **run_columns.build_columns(context),
        "set_aside": ", ".join(flags.joined(words & flags.INVALID) for words in flagged),
        **{name: context.get(name) for name in ("copy", "order", "seed")},
        "scale": context["repository"].get("scale"),
        "storage_kind": run_columns.storage_label(storage, context["host"]),
        "host": host_label(context["host"]),
        "cell_round_started_at": context["started_at"],
        "waited_s": took.get("waited_s"),
        "cell_round_s": took.get("cell_round_s"),
        CONDITIONS: _SORTED.encode(context["conditions"]) if "conditions" in context else "",
    }


def _why_missing(cell_round: CellRound) -> str:
    if os.path.exists(cell_round.export):
        return OUTDATED
    try:
        text = Path(cell_round.log).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        text = ""
    return text.split("\n")[-1].strip() or "it was not measured: the workflow ended before its turn"


def _flag_other_libraries(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a flag to runs whose client or server had other libraries than most runs of their cell.

    Without a majority, all of them get it: nobody knows which ones the label means.
    """
    others: set[object] = set()
    for _, rows in frame.groupby(["cell", "host"], sort=False):
        for name in ("client_mapped", "server_mapped"):
            known = rows[name][rows[name] != ""]
            if known.nunique() > 1:
                others.update(known.index.difference(list(same_work.majority(known.to_dict()))))
    words = [
        [*before, flags.Flag.LIBRARIES_DIFFER] if index in others else before
        for index, before in frame["flags"].items()
    ]
    return frame.assign(flags=pd.Series(words, index=frame.index, dtype=object))


def _flags(frame: pd.DataFrame, axes: Sequence[str], min_run_s: float) -> list[str]:
    """Return the flags of each run, some by the median of its cell's valid runs in the same state, or by
    the work of most runs of its command on its subject."""
    elapsed = frame["elapsed_s"].where(_is_valid(frame))
    median = elapsed.groupby(_alike(frame)).transform("median")
    deviation = (elapsed / median - 1).abs()
    groups = group_rows(frame, same_work.work_axes(axes))
    alike = set().union(*(same_work.majority(rows["work"].to_dict()) for _, rows in groups))
    other, is_known = ~frame.index.isin(alike), frame["work"] != ""
    other &= ~frame["work"].map(same_work.is_unchecked).astype(bool)
    flagged = {word: deviation > limit for word, limit in OUTLIERS.items()} | {
        "too-short": median < min_run_s,
        same_work.OTHER: other & is_known,
        same_work.UNKNOWN: other & ~is_known,
        "mostly-fixed-cost": frame["fixed_share"] > flags.FLAGGED_SHARE,
        Flag.CONDITIONS_DIFFER: _have_other_conditions(frame),
    }
    rows = pd.DataFrame(flagged).to_numpy(bool).tolist()
    return [
        flags.joined([*before, *itertools.compress(flagged, row)])
        for before, row in zip(frame["flags"], rows, strict=True)
    ]


def _have_other_conditions(frame: pd.DataFrame) -> pd.Series:
    """Return which runs were measured under other conditions than most rounds of their cell.

    If no conditions are those of most rounds, all runs of the cell are.
    """
    differ = pd.Series(False, index=frame.index)
    if CONDITIONS not in frame:
        return differ
    for _, rows in frame[frame[CONDITIONS] != ""].groupby(["cell", "host"]):
        rounds = rows.drop_duplicates(["round"])[CONDITIONS].value_counts()
        if len(rounds) > 1:
            is_tie = rounds.iloc[0] == rounds.iloc[1]
            differ[rows.index] = (rows[CONDITIONS] != rounds.index[0]) | is_tie
    return differ


def _alike(frame: pd.DataFrame) -> list[pd.Series]:
    return [frame[name] for name in ("cell", "host", STATE) if name in frame]


def _is_valid(frame: pd.DataFrame) -> pd.Series:
    """Return which runs are valid, by their lists of flags."""
    return frame["flags"].map(flags.INVALID.isdisjoint).astype(bool)


def separate_fixed_cost(
    frame: pd.DataFrame, axes: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs on repositories, and those on the empty one, which measure the fixed cost.

    The first have the columns `fixed_cost_s` (seconds: median of the command's fixed-cost runs on the host,
    plus waits for late acknowledgements) and `fixed_share` (of the median time of the cell in this state),
    both of valid runs.
    Unknown values are empty.
    """
    is_fixed = frame.get(REPOSITORY_AXIS, pd.Series("", frame.index)) == EMPTY
    runs, fixed = (frame[rows].reset_index(drop=True) for rows in (~is_fixed, is_fixed))
    keys = [axis for axis in axes if axis not in NOT_FIXED]
    valid = fixed[_is_valid(fixed)]
    valid = valid.assign(fixed_cost_s=valid["elapsed_s"] - _acknowledgement_s(valid))
    known = valid.groupby([*keys, "host"], as_index=False)["fixed_cost_s"].median()
    known["fixed_cost_s"] = known["fixed_cost_s"].astype(float)
    merged = runs.merge(known, on=[*keys, "host"], how="left")
    cell = _alike(merged)
    is_valid = _is_valid(merged)
    waits = _acknowledgement_s(merged).where(is_valid).groupby(cell).transform("median")
    cost = (merged["fixed_cost_s"] + waits).astype(float)
    median = merged["elapsed_s"].where(is_valid).groupby(cell).transform("median")
    merged = merged.assign(fixed_cost_s=cost, fixed_share=(cost / median).clip(upper=1.0))
    return merged[[*(name for name in merged if name != "flags"), "flags"]], fixed


def _acknowledgement_s(frame: pd.DataFrame) -> pd.Series:
    rows = frame[frame.columns.intersection(list(judgement.WAIT_COLUMNS))].to_dict("records")
    waits = [judgement.acknowledgement_s(row) for row in rows]
    return pd.Series(waits, index=frame.index, dtype="float64")


class BlockTime(NamedTuple):
    """The rounds of a block, the seconds of its cell-rounds, and the seconds of a round with waiting."""

    rounds: int
    seconds: float
    round_s: float


class TimeBreakdown(NamedTuple):
    """The seconds of a run. `waiting_s` lies between cell-rounds: Snakemake, process starts, decisions.
    `timed_s` is the time of the timed commands, which `measuring_s` includes."""

    preparation_s: float
    measuring_s: float
    waiting_s: float
    timed_s: float
    blocks: Mapping[str, BlockTime]

    @property
    def round_s(self) -> dict[str, float]:
        return {name: block.round_s for name, block in self.blocks.items()}

    @property
    def total_s(self) -> float:
        return self.preparation_s + self.measuring_s + self.waiting_s


def time_breakdown(
    frame: pd.DataFrame, block: Sequence[str], records: Iterable[str | Path]
) -> TimeBreakdown:
    """Return the time of measurements, without replaced results; of an interrupted run both parts.

    `block` has the axes of a block, `records` are the records of prepared repositories.
    """
    preparation_s = sum(float(read_json(path).get("seconds") or 0) for path in records)
    runs = frame.dropna(subset=["cell_round_s"])
    cell_rounds = runs.drop_duplicates(["cell", "round"])
    if cell_rounds.empty:
        return TimeBreakdown(preparation_s, 0.0, 0.0, 0.0, {})
    cells = cast("list[dict[str, object]]", cell_rounds[list(block)].to_dict("records"))
    started = pd.to_datetime(cell_rounds["cell_round_started_at"], utc=True) - EPOCH
    cell_rounds = cell_rounds.assign(
        block=[block_name(block, axes) for axes in cells], began=started / pd.Timedelta(seconds=1)
    ).sort_values("began")
    began = cell_rounds["began"]
    gaps = (began.shift(-1) - began - cell_rounds["cell_round_s"]).clip(lower=0)
    waits = (gaps - cell_rounds["waited_s"].shift(-1)).clip(lower=0)
    waits = waits[waits <= PAUSE_S]
    wait_s = float(waits.median()) if len(waits) else 0.0
    blocks = {}
    for name, rows in cell_rounds.groupby("block", sort=False):
        rounds, seconds = rows["round"].nunique(), float(rows["cell_round_s"].sum())
        round_s = seconds / rounds + wait_s * len(rows) / rounds
        blocks[str(name)] = BlockTime(rounds, seconds, round_s)
    measuring_s = sum(block.seconds for block in blocks.values())
    timed_s = float(runs["elapsed_s"].sum())
    return TimeBreakdown(preparation_s, measuring_s, float(waits.sum()), timed_s, blocks)
