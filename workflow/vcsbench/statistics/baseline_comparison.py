"""Save measurements as baselines, and compare later ones with them: a table, and the history of all."""

import datetime
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.codes import Call, Result, WithheldCode
from vcsbench.config.study import path_part
from vcsbench.errors import OPTION_BY_KEY, UserError
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.measurements import group_rows, in_order, read_measurements
from vcsbench.external import one_line
from vcsbench.files import write_bytes, write_json
from vcsbench.metrics import DEFAULT_METRIC, METRICS
from vcsbench.plan.grid import is_duplicate
from vcsbench.statistics import baselines, calls, estimates, moderation, tables
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_cell, by_round
from vcsbench.statistics.baselines import CellSettings, Description
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.estimates import Estimate
from vcsbench.statistics.noise import CellKey, Noise, noise_by_metric
from vcsbench.statistics.settings import StudySettings

# By the code of a difference: the setting of a cell that must be equal.
SETTING_BY_CODE: dict[WithheldCode, Literal["command", "repository", "method"]] = {
    WithheldCode.OTHER_COMMAND: "command",
    WithheldCode.OTHER_REPOSITORY: "repository",
    WithheldCode.OTHER_METHOD: "method",
}
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class MeasurementSet:
    """Measurements of a study at a time: of a saved baseline, or the current ones (`now`)."""

    name: str
    frame: pd.DataFrame
    description: Description

    def settings_of(self, key: Sequence[str]) -> CellSettings | None:
        """Return the settings of a cell by its values of axes; None if this set lacks the cell.

        The path of a cell has `-` for an axis without a value: ("ls -R", "", "cold") is `ls-R/-/cold`.
        """
        path = "/".join(path_part(value) for value in key)
        return self.description["cells"].get(path)


@dataclass(frozen=True)
class CellResult:
    """A cell at a time: its hosts (separated by blanks), its work and its settings, if they are known."""

    hosts: str
    work: str
    settings: CellSettings | None


@dataclass(frozen=True)
class Refusals:
    """Why two results of a cell must not be compared.

    `codes` is empty if they may be compared. `detail` has the figures in which the work of both differs, such
    as `log: 6,000 revisions (saved) against 5,000 (now)`, or "".
    """

    codes: Sequence[WithheldCode] = ()
    detail: str = ""


def load_baseline(name: str, study: str, axes: Sequence[str]) -> MeasurementSet:
    """Return a saved baseline. Raise UserError if it is damaged, or lacks one of the study's `axes`."""
    path = baselines.csv_path(name, study)
    frame = read_measurements(path)
    baselines.check_baseline_columns(path, list(frame), axes)
    description = baselines.read_description(baselines.description_path(name, study))
    return MeasurementSet(name, frame, description)


def load_current(study: str, results: Path) -> MeasurementSet:
    """Return the current measurements of a study.

    Raise UserError if a file is missing or damaged, or a context does not fit (baselines.describe_baseline).
    """
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    starts = frame["cell_round_started_at"]
    runs = zip(frame["cell"], frame["round"].astype(int), starts, strict=True)
    description = baselines.describe_baseline(study, runs, results)
    return MeasurementSet(baselines.NOW, frame, description)


def save_baseline(name: str, studies: Sequence[str], results: Path) -> list[str]:
    """Write the files of the baseline `name`, and return a sentence for each study (_describe_saved).

    Without `studies`, all that are measured in `results` are saved. A study becomes two files in
    baselines/<name>: <study>.csv, a copy of its measurements, and <study>.json, its description. Raise
    UserError, and write nothing, if the name is not valid, or a study was not measured or is saved already.
    """
    if not baselines.BASELINE_NAME.fullmatch(name) or name == baselines.NOW:
        raise UserError(
            f"{OPTION_BY_KEY['name']}: {one_line(repr(name))}: a name has only letters, digits, `.`, "
            f"`_` and `-`, at most 200, begins with a letter or a digit, and is not {baselines.NOW}. "
            f"Use another name, such as before-upgrade."
        )
    folder = results / "measurements"
    if not studies:
        studies = sorted(path.stem for path in folder.glob("*.csv"))
    if not studies:
        raise UserError(f"{folder}: nothing has been measured. Run `make report` first.")
    # All studies are checked before one is saved. An error in the second one would leave half of a baseline,
    # whose name could not be used again, because baselines are never overwritten.
    descriptions = {study: _describe_unsaved(name, study, results) for study in studies}
    saved_at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sentences = []
    for study, description in descriptions.items():
        csv_path = baselines.csv_path(name, study)
        csv_path.parent.mkdir(parents=True, exist_ok=True)
        # A baseline is found by its CSV file, and cannot be read without its description. So the description
        # comes first, in case the command is stopped between the two files.
        write_json(baselines.description_path(name, study), {"saved_at": saved_at, **description})
        write_bytes(csv_path, (folder / csv_path.name).read_bytes())
        sentences.append(_describe_saved(csv_path, description))
    return sentences


def _describe_saved(path: Path, description: Description) -> str:
    """Return `saved baselines/old/fsfs-ssd-2014.csv: 72 cells in 5 rounds, measured on host#1a2b`."""
    # The user knows the cells themselves, but not their duplicates.
    number = sum(not is_duplicate(cell) for cell in description["cells"])
    cells = words.count_of(number, "cell")
    rounds = words.count_of(description["rounds"], "round")
    return f"saved {path}: {cells} in {rounds}, measured on {', '.join(description['hosts'])}"


def _describe_unsaved(name: str, study: str, results: Path) -> Description:
    """Return when, where and how a study was measured, and check that it can be saved as baseline `name`.

    Raise UserError if the study's name is not valid, or if the study is saved already, was not measured, or
    has damaged files (load_current).
    """
    # Both names become parts of paths, so they have the same form.
    if not baselines.BASELINE_NAME.fullmatch(study):
        raise UserError(
            f"STUDY={one_line(study)}: no such study. Use a name in results/measurements."
        )
    path = results / "measurements" / f"{study}.csv"
    # A save that was stopped between the two files has left only the description. Its study counts as saved.
    for saved in (baselines.csv_path(name, study), baselines.description_path(name, study)):
        if saved.exists():
            raise UserError(
                f"{saved}: the file exists, and a baseline is never overwritten. Use another NAME, or "
                f"remove the file."
            )
    current = load_current(study, results) if path.is_file() else None
    if current is None or current.frame.empty:
        raise UserError(f"{path}: the study has not been measured. Run `make report` first.")
    return current.description


def pair_cells(
    before: MeasurementSet, now: MeasurementSet, axes: Sequence[str], block: Sequence[str]
) -> pd.DataFrame:
    """Return a row per current cell, which compares the cell with a saved baseline.

    A row is `{"command": "log", "ratio": 1.2, "withheld": "", "hosts": ["host#1a2b"], "refused": [],
    "duplicate_sd": 0.01, ...}`, with the other columns of tables.rows_frame():

    - `ratio`: the saved time / the current one. At 1.2, the cell became faster.
    - `refused`: the codes why the cell is not compared, such as NOT_SAVED. `withheld` has them as text.
    - `hosts`: the hosts of both times.
    - `duplicate_sd`: the noise between cells with equal settings; NaN if unknown. All rows have this number.
    """
    saved_cells = _cells_by_key(before, before.frame, axes)
    current_cells = _cells_by_key(now, now.frame, axes)
    # The current runs contain the saved ones if rounds were added after saving. A run must not be compared
    # with itself.
    added_cells = _cells_by_key(now, runs_since(before.frame, now.frame), axes)
    # The error of each ratio depends on the errors of all others (_moderated). So all ratios come first.
    ratios = []
    for key in current_cells:
        ratio = estimates.NO_ESTIMATE
        if key in saved_cells and key in added_cells:
            # Rounds of two days did not run next to each other.
            ratio = estimates.unpaired_ratio(saved_cells[key].logs, added_cells[key].logs)
        ratios.append(ratio)
    noise = _noisier_day(before, now, axes, block)
    rows = []
    for (key, current), ratio in zip(current_cells.items(), _moderated(ratios), strict=True):
        point = dict(zip(axes, key, strict=True))
        saved, added = saved_cells.get(key), added_cells.get(key)
        if saved is None:
            rows.append(_row_of_one(point, current, WithheldCode.NOT_SAVED))
        elif added is None:
            # The baseline has all its valid runs: Snakemake measures no cell again that is up to date.
            rows.append(_row_of_one(point, current, WithheldCode.SAME_RUNS))
        else:
            refusals = _refusals(saved.result, added.result, same_work.name_of(point, axes))
            rows.append(_row_of_both(point, saved, added, refusals, noise.with_error(ratio)))
    pairs = tables.rows_frame(rows, axes, ["hosts", "refused"])
    return pairs.assign(duplicate_sd=math.sqrt(noise.duplicates.variance))


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Return the current runs that the saved measurements do not contain. Both frames have a row per run."""
    keys = ["host", "cell", "round", "run", "started_at"]
    is_saved = pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))
    return now[~is_saved]


@dataclass(frozen=True)
class _Cell:
    """A cell of a set: its columns of by_cell, and ln(seconds) of each of its rounds."""

    columns: Row
    logs: Sequence[float]
    result: CellResult


def _cells_by_key(
    measured: MeasurementSet, frame: pd.DataFrame, axes: Sequence[str]
) -> dict[CellKey, _Cell]:
    """Return the cells of a frame by their values of axes, such as ("log", "f6", "cold").

    `frame` has a row per run: all runs of the set `measured`, or only some of them. A cell without valid runs
    or without elapsed times is missing.
    """
    rounds = by_round(frame, axes, MEAN)
    rounds_with_logs = rounds.assign(logs=np.log(rounds[DEFAULT_METRIC]))
    logs = group_rows(rounds_with_logs, axes)["logs"].agg(list)
    # by_cell() groups the same rows by the same axes, so `records` has the cells in the order of `logs`.
    records = by_cell(rounds, axes, MEAN).to_dict("records")
    cells = {}
    for columns, logs_of_cell in zip(records, logs, strict=True):
        # Many clients at once have latencies, and no elapsed time that could be compared.
        if math.isnan(columns[DEFAULT_METRIC]):
            continue
        key = tuple(columns[axis] for axis in axes)
        result = CellResult(columns["hosts"], columns["work"], measured.settings_of(key))
        cells[key] = _Cell(columns, logs_of_cell, result)
    return cells


def _noisier_day(
    before: MeasurementSet, now: MeasurementSet, axes: Sequence[str], block: Sequence[str]
) -> Noise:
    """Return the noise of duplicates on the day on which they differ more: of `before`, or of `now`.

    A comparison of two days uses times of both, so it contains the noise of the worse day. A day without
    duplicates does not count. If neither day has duplicates, the variance is unknown (NaN).
    """
    known_variances = []
    for day in (before, now):
        noise_of_metric = noise_by_metric(day.frame, axes, block)
        duplicates = noise_of_metric(DEFAULT_METRIC).duplicates
        if not math.isnan(duplicates.variance):
            known_variances.append(duplicates)
    if not known_variances:
        return Noise()
    largest = max(known_variances, key=lambda duplicates: duplicates.variance)
    # The scatter of rounds is in the error of a ratio of two days already.
    return Noise(duplicates=largest)


def _row_of_both(
    point: Mapping[str, str], saved: _Cell, added: _Cell, refusals: Refusals, ratio: Estimate
) -> dict[str, Any]:
    """Return the table row of a cell that has saved runs, and runs that were added since then.

    `point` has the cell's values of axes. The column `value` is by how many per cent the saved time is
    longer: 20 for 1.2 s and 1.0 s. If `refusals` has codes, `value` and the ratio are NaN, and the codes are
    in the columns `refused` (as a list), `withheld` (as text) and `flags`.
    """
    numbers: dict[str, Any] = {
        **tables.share_columns(saved.columns[FIXED_SHARE], added.columns[FIXED_SHARE]),
        "baseline_mean": math.exp(float(np.mean(saved.logs))),
        "candidate_mean": math.exp(float(np.mean(added.logs))),
        "hosts": _all_hosts(saved.result, added.result),
        "refused": refusals.codes,
    }
    # rows_frame() fills the missing columns of the ratio with NaN.
    if refusals.codes:
        numbers["n"] = 0
    else:
        numbers |= tables.ratio_columns(ratio)
    row_flags = tables.flags_of_sides([saved.columns["flags"], added.columns["flags"]])
    value = 100 * (saved.columns[DEFAULT_METRIC] / added.columns[DEFAULT_METRIC] - 1)
    return tables.table_row(
        point,
        value,
        [*row_flags, *refusals.codes],
        numbers,
        withheld=" ".join(refusals.codes),
        detail=refusals.detail,
    )


def _row_of_one(point: Mapping[str, str], current: _Cell, code: WithheldCode) -> dict[str, Any]:
    """Return the row of a current cell that has nothing to be compared with: no value, and the code."""
    numbers = {"n": 0, "hosts": _all_hosts(current.result), "refused": [code]}
    row_flags = [*tables.flags_of_sides([current.columns["flags"]]), code]
    return tables.table_row(point, math.nan, row_flags, numbers, withheld=code)


def _moderated(ratios: Sequence[Estimate]) -> list[Estimate]:
    """Return the ratios in the same order, with moderated standard errors and degrees of freedom.

    With fewer than 8 known variances, errors stay as they are (moderation.py). A ratio of fewer than two
    rounds has no scatter, and keeps its error NaN.
    """
    # A squared error shrinks with the number of rounds, which may differ between cells. So the variances of
    # one round are moderated: an error of 0.02 after 4 rounds is a variance of 0.0016.
    variances = np.array([ratio.error**2 * ratio.n for ratio in ratios], float)
    degrees_of_freedom = np.array([ratio.degrees for ratio in ratios], float)
    moderated, moderated_degrees = moderation.moderate(variances, degrees_of_freedom)
    estimated = []
    for ratio, variance, new_degrees in zip(ratios, moderated, moderated_degrees, strict=True):
        # A cell without a counterpart has 0 rounds and the variance NaN. max() prevents the division by 0.
        error = math.sqrt(variance / max(ratio.n, 1))
        estimated.append(replace(ratio, error=error, degrees=new_degrees))
    return estimated


def _all_hosts(*results: CellResult) -> list[str]:
    return sorted({host for result in results for host in result.hosts.split()})


def _refusals(saved: CellResult, now: CellResult, command: str) -> Refusals:
    """Return the codes of all reasons not to compare a saved with a current result of a cell, and a detail.

    There are no codes if one host measured both, with the same command line, repository and method, and if
    both did the same known work. The detail has the difference in the work, and begins with `command`.
    """
    codes = []
    if len(_all_hosts(saved, now)) > 1:
        codes.append(WithheldCode.HOSTS_DIFFER)
    for code, name in SETTING_BY_CODE.items():
        # Unknown settings (None), of a cell that its description lacks, differ from any others.
        saved_setting = saved.settings[name] if saved.settings else None
        current_setting = now.settings[name] if now.settings else None
        if saved_setting != current_setting:
            codes.append(code)
    # refusal() returns None if both works are known and equal.
    works = {"saved": saved.work, baselines.NOW: now.work}
    refusal = same_work.refusal(command, works)
    if refusal is None:
        return Refusals(codes)
    return Refusals([*codes, WithheldCode(refusal.flag)], refusal.reason)


def make_baseline_table(
    baseline: str,
    pairs: pd.DataFrame,
    order: Mapping[str, list[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return the table of the current cells against a baseline, with a row for each row of pair_cells().

    A row is `{"table": "old-vs-now", "command": "log", "baseline": "old", "candidate": "now", "ratio": 1.2,
    "call": "faster", ...}`. `order` has the axes with their values in the order of the rows.
    """
    row_flags = []
    for own_flags, ratio, n in zip(pairs["flags"], pairs["ratio"], pairs["n"], strict=True):
        # A cell that is not compared has a flag with the reason. `low-n` would add nothing.
        has_few_rounds = not math.isnan(ratio) and limits.has_few_rounds(n)
        row_flags.append(flags.add_flag(own_flags, Flag.LOW_N, has_few_rounds))
    flagged = pairs.assign(flags=row_flags)
    called = calls.call_table(flagged, pairs["duplicate_sd"], METRICS[DEFAULT_METRIC], limits)
    named = called.assign(baseline=baseline, candidate=baselines.NOW)
    axes = list(order)
    ordered = in_order(named, order, by=axes)
    return tables.finish_table(ordered, baselines.table_name(baseline), axes)


def list_baseline_notes(
    before: MeasurementSet, now: MeasurementSet, pairs: pd.DataFrame
) -> list[str]:
    """Return sentences for readers of a baseline's table: its time, its method, and the changes since.

    `pairs` is the frame of pair_cells(), whose withheld rows are counted.
    """
    saved = before.description
    # 2026-11-21T07:00:00Z is shown as 2026-11-21 07:00.
    first = saved["first"][:16].replace("T", " ")
    last = saved["last"][:16].replace("T", " ")
    notes = [
        f"{before.name} was measured from {first} to {last} "
        f"on {', '.join(saved['hosts'])} with vcsbench {saved['vcsbench']}.",
        "Its rounds are not paired with the current ones: the intervals are Welch's, which are wider, and "
        "contain what changed between two days (load, storage). The duplicates of the noisier day count.",
    ]
    changes = baselines.list_changes(saved, now.description)
    if changes:
        notes.append(f"Changed since: {'; '.join(changes)}.")
    else:
        notes.append("Kernel, programs, storage and server configurations are unchanged.")
    number_withheld = int((pairs["withheld"] != "").sum())
    if number_withheld:
        notes.append(
            f"{number_withheld} of {len(pairs)} cells are not compared, for the reasons below."
        )
    return notes


def make_history(
    names: Sequence[str], study: str, results: Path, settings: StudySettings
) -> dict[str, list[Any]]:
    """Return the history of a study: its saved baselines in the order of time, then the current results.

    `times` has the records of _snapshot_record(), `points` those of _history_points(). `names` are the
    baselines that have the study. A baseline that cannot be read is left out, and the error is printed. Raise
    UserError if the current results cannot be read.
    """
    snapshots: list[MeasurementSet] = []
    for name in names:
        try:
            snapshots.append(load_baseline(name, study, settings.axes))
        except UserError as error:
            print(f"{error} The history is made without it.", file=sys.stderr)
    # Two baselines have the same first run if results were continued after the first one was saved. Then the
    # last run decides their order.
    snapshots.sort(key=_time_of_snapshot)
    current = load_current(study, results)
    # Just after saving, a baseline contains all current runs, and the history would show the runs twice. All
    # baselines are checked, because an old run of one cell may sort the newest baseline before others.
    has_new_runs = [not runs_since(snapshot.frame, current.frame).empty for snapshot in snapshots]
    if all(has_new_runs):
        snapshots.append(current)
    times = []
    for number, snapshot in enumerate(snapshots):
        before = _latest_of_same_host(snapshots[:number], snapshot)
        times.append(_snapshot_record(snapshot, before, settings))
    # A single time, as without any saved baseline, has no history.
    points = _history_points(snapshots, settings.axes) if len(times) > 1 else []
    return {"times": times, "points": points}


def _time_of_snapshot(snapshot: MeasurementSet) -> tuple[str, str, str]:
    """Return what to sort baselines by: the times of the first and the last run, and the name."""
    return snapshot.description["first"], snapshot.description["last"], snapshot.name


def _latest_of_same_host(
    earlier: Sequence[MeasurementSet], snapshot: MeasurementSet
) -> MeasurementSet | None:
    hosts = snapshot.description["hosts"].keys()
    for candidate in reversed(earlier):
        if hosts & candidate.description["hosts"].keys():
            return candidate
    return None


def _snapshot_record(
    snapshot: MeasurementSet,
    before: MeasurementSet | None,
    settings: StudySettings,
) -> dict[str, Any]:
    """Return the record of one baseline (or of the current results) in a history.

    Example: `{"name": "now", "first": "2026-11-21T07:00:00Z", "last": ..., "hosts": ["host#1a2b"], "before":
    "old", "calls": {"faster": 3, "equal": 60}, "changed": ["kernel 6.1.0 to 6.12"]}`. `before` is the earlier
    baseline with which `snapshot` is compared. `calls` has the number of compared cells by outcome. A certain
    difference below the margin counts as equal.
    """
    number_by_call: Counter[str] = Counter()
    changes: list[str] = []
    if before:
        pairs = pair_cells(before, snapshot, settings.axes, settings.block)
        table = make_baseline_table(before.name, pairs, settings.order, settings.limits)
        for call, result in zip(table["call"], table["result"], strict=True):
            # The call has the direction of a difference. Every other result has the name of a call, or is ""
            # for a cell that is not compared.
            number_by_call[call if result == Result.DIFFERENT else result] += 1
        changes = baselines.list_changes(before.description, snapshot.description)
    return {
        "name": snapshot.name,
        "first": snapshot.description["first"],
        "last": snapshot.description["last"],
        "hosts": list(snapshot.description["hosts"]),
        "before": before.name if before else "",
        "calls": {call: number_by_call[call] for call in Call if number_by_call[call]},
        "changed": changes,
    }


def _history_points(
    snapshots: Sequence[MeasurementSet], axes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a record per snapshot (in the order of time), cell and host: a point of a chart of times.

    Example: `{"time": "before-upgrade", "host": "host#1a2b", "settings": "", "command": "log", "cache":
    "cold", "value": 1.25}`. `value` is the geometric mean of the rounds in seconds. `settings` becomes
    `settings 2`, `settings 3` and so on after each change of the cell's settings or work.
    """
    # By host and cell, such as ("host#1a2b", "log", "cold"): the result in the last snapshot with the cell.
    last_results: dict[CellKey, CellResult] = {}
    # By host and cell. Each change begins a new line of the chart, because a line must only join times that
    # are comparable.
    changes: Counter[CellKey] = Counter()
    points = []
    for snapshot in snapshots:
        rounds = by_round(snapshot.frame, axes, MEAN)
        rounds = rounds.assign(log=np.log(rounds[DEFAULT_METRIC]))
        for group, rounds_of_cell in group_rows(rounds, [*axes, "host"]):
            *key, host = group
            cell = dict(zip(axes, key, strict=True))
            host_and_cell = (host, *key)
            # Each row has the works of all rounds of the cell, so one row is enough.
            work = rounds_of_cell["work"].iloc[0]
            result = CellResult(host, work, snapshot.settings_of(key))
            last = last_results.get(host_and_cell)
            if last and _refusals(last, result, same_work.name_of(cell, axes)).codes:
                changes[host_and_cell] += 1
            last_results[host_and_cell] = result
            number_of_changes = changes[host_and_cell]
            label = f"settings {number_of_changes + 1}" if number_of_changes else ""
            # `is_ratio` makes this the geometric mean of logarithms.
            seconds = estimates.mean_interval(rounds_of_cell["log"], is_ratio=True).value
            point = {"time": snapshot.name, "host": host, "settings": label, **cell}
            # Many clients at once have no elapsed time.
            if math.isfinite(seconds):
                points.append({**point, "value": seconds})
    return points
