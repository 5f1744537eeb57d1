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
    # `now` contains the saved runs, too, if rounds were added after saving. A run must not be compared with
    # itself. So each current cell has a row, but only its added runs are compared.
    added_cells = _cells_by_key(now, runs_since(before.frame, now.frame), axes)
    ratios = [_ratio_of_cells(saved_cells.get(key), added_cells.get(key)) for key in current_cells]
    # The error of each ratio depends on the errors of all others, so all ratios are made before the rows.
    moderated_ratios = _moderate_errors(ratios)
    noise = _noisier_day(before, now, axes, block)
    rows = []
    for (key, current), ratio in zip(current_cells.items(), moderated_ratios, strict=True):
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
    """A cell of a set: its row of by_cell() with means over its rounds, and ln(seconds) of each round."""

    means: Row
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
    logs_of_cells = group_rows(rounds_with_logs, axes)["logs"].agg(list)
    means_of_cells = by_cell(rounds, axes, MEAN).to_dict("records")
    cells = {}
    # Both have the cells in the order of their first rows in `rounds`, so zip() joins the numbers of a cell.
    for means, logs in zip(means_of_cells, logs_of_cells, strict=True):
        # A cell with many clients at once has latencies instead of an elapsed time.
        if math.isnan(means[DEFAULT_METRIC]):
            continue
        key = tuple(means[axis] for axis in axes)
        result = CellResult(means["hosts"], means["work"], measured.settings_of(key))
        cells[key] = _Cell(means, logs, result)
    return cells


def _ratio_of_cells(saved: _Cell | None, added: _Cell | None) -> Estimate:
    """Return the saved time of a cell / the time of its added runs; NO_ESTIMATE if either is missing."""
    if saved is None or added is None:
        return estimates.NO_ESTIMATE
    # Rounds of two days did not run next to each other.
    return estimates.unpaired_ratio(saved.logs, added.logs)


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
    longer: 20 for 1.2 s and 1.0 s. If `refusals` has codes, the two times must not be compared. Then the row
    has neither `value` nor ratio, but the codes: in `refused` as a list, in `withheld` and `flags` as text.
    """
    numbers: dict[str, Any] = {
        **tables.share_columns(saved.means[FIXED_SHARE], added.means[FIXED_SHARE]),
        "baseline_mean": math.exp(float(np.mean(saved.logs))),
        "candidate_mean": math.exp(float(np.mean(added.logs))),
        "hosts": _all_hosts(saved.result, added.result),
        "refused": refusals.codes,
    }
    if refusals.codes:
        # No rounds are compared. rows_frame() fills the columns of the ratio with NaN.
        numbers["n"] = 0
    else:
        numbers |= tables.ratio_columns(ratio)
    row_flags = tables.flags_of_sides([saved.means["flags"], added.means["flags"]])
    value = 100 * (saved.means[DEFAULT_METRIC] / added.means[DEFAULT_METRIC] - 1)
    # With codes in `withheld`, table_row() replaces the value by NaN.
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
    row_flags = [*tables.flags_of_sides([current.means["flags"]]), code]
    return tables.table_row(point, math.nan, row_flags, numbers, withheld=code)


def _moderate_errors(ratios: Sequence[Estimate]) -> list[Estimate]:
    """Return the ratios in the same order, with standard errors that are estimated from all of them.

    A few rounds of one cell show its scatter badly. So its error is moved towards the usual error of all
    cells (moderation.py), and its degrees of freedom grow. With fewer than 8 known errors, all stay as they
    are. A ratio of fewer than two rounds keeps the error NaN.
    """
    # Errors of cells with different numbers of rounds cannot be compared, because an error shrinks with more
    # rounds. So each is converted to the variance of one round: 0.02 after 4 rounds is 4 x 0.02^2 = 0.0016.
    variances = np.array([ratio.error**2 * ratio.n for ratio in ratios], float)
    degrees_of_freedom = np.array([ratio.degrees for ratio in ratios], float)
    new_variances, new_degrees = moderation.moderate(variances, degrees_of_freedom)
    moderated = []
    for ratio, variance, degrees in zip(ratios, new_variances, new_degrees, strict=True):
        # A cell that lacks saved or added runs (NO_ESTIMATE) has 0 rounds. max() prevents the division by 0.
        error = math.sqrt(variance / max(ratio.n, 1))
        moderated.append(replace(ratio, error=error, degrees=degrees))
    return moderated


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

    In the result, `times` has a record of each baseline and of the current results (_snapshot_record), and
    `points` has their times of each cell (_history_points). `names` are the baselines that have the study. A
    baseline that cannot be read is left out, and the error is printed. Raise UserError if the current results
    cannot be read.
    """
    snapshots: list[MeasurementSet] = []
    for name in names:
        try:
            snapshots.append(load_baseline(name, study, settings.axes))
        except UserError as error:
            print(f"{error} The history is made without it.", file=sys.stderr)
    snapshots.sort(key=_time_of_snapshot)
    current = load_current(study, results)
    # Just after saving, a baseline contains all current runs, and the history would show these runs twice.
    # That baseline need not be the last one: a single old run makes its first time, by which it is sorted,
    # an early one. So all baselines are checked.
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
    """Return what to sort baselines by: the times of the first and the last run, and the name.

    Two baselines have the same first run if results were continued after the first one was saved.
    """
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
    number_by_outcome: Counter[str] = Counter()
    changes: list[str] = []
    if before:
        pairs = pair_cells(before, snapshot, settings.axes, settings.block)
        table = make_baseline_table(before.name, pairs, settings.order, settings.limits)
        for call, result in zip(table["call"], table["result"], strict=True):
            # The result counts: a certain 3 % has the call `faster` and the result `equal`. Only `different`
            # lacks a direction, so the call counts instead. A cell that is not compared has "" for both.
            outcome = call if result == Result.DIFFERENT else result
            number_by_outcome[outcome] += 1
        changes = baselines.list_changes(before.description, snapshot.description)
    return {
        "name": snapshot.name,
        "first": snapshot.description["first"],
        "last": snapshot.description["last"],
        "hosts": list(snapshot.description["hosts"]),
        "before": before.name if before else "",
        "calls": {call: number_by_outcome[call] for call in Call if number_by_outcome[call]},
        "changed": changes,
    }


def _history_points(
    snapshots: Sequence[MeasurementSet], axes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the points of a chart of times: a record per snapshot (in the order of time), cell and host.

    Example: `{"time": "before-upgrade", "host": "host#1a2b", "settings": "", "command": "log", "cache":
    "cold", "value": 1.25}`. `value` is the geometric mean of the rounds in seconds. `settings` becomes
    `settings 2`, `settings 3` and so on after each change of the cell's settings or work. Each of them is a
    separate line of the chart, because a line must only join times that are comparable.
    """
    changes = _ChangeCounter()
    points = []
    for snapshot in snapshots:
        rounds = by_round(snapshot.frame, axes, MEAN)
        rounds = rounds.assign(log=np.log(rounds[DEFAULT_METRIC]))
        for (*axis_values, host), rounds_of_cell in group_rows(rounds, [*axes, "host"]):
            cell = dict(zip(axes, axis_values, strict=True))
            # Each row has the works of all rounds of the cell, so one row is enough.
            work = rounds_of_cell["work"].iloc[0]
            result = CellResult(host, work, snapshot.settings_of(axis_values))
            number_of_changes = changes.count(cell, result)
            label = f"settings {number_of_changes + 1}" if number_of_changes else ""
            seconds = estimates.geometric_mean_interval(rounds_of_cell["log"]).value
            # Many clients at once have no elapsed time.
            if not math.isfinite(seconds):
                continue
            point = {"time": snapshot.name, "host": host, "settings": label, **cell}
            points.append({**point, "value": seconds})
    return points


class _ChangeCounter:
    """The number of changes of each cell on each host: of its settings or work, between snapshots."""

    def __init__(self) -> None:
        # Both by host and values of axes, such as ("host#1a2b", "log", "cold").
        self._last_results: dict[CellKey, CellResult] = {}
        self._changes: Counter[CellKey] = Counter()

    def count(self, cell: Mapping[str, str], result: CellResult) -> int:
        """Return the number of changes up to `result`, the cell's result in the next snapshot.

        `cell` has the values of axes: {"command": "log", "cache": "cold"}. `result` is of one host.
        """
        host_and_cell = (result.hosts, *cell.values())
        last = self._last_results.get(host_and_cell)
        if last and not _is_comparable(last, result):
            self._changes[host_and_cell] += 1
        self._last_results[host_and_cell] = result
        return self._changes[host_and_cell]


def _is_comparable(earlier: CellResult, later: CellResult) -> bool:
    """Return True if two results of a cell have the same settings and the same known work."""
    # The command would only be in the detail of the refusals, which is not used.
    return not _refusals(earlier, later, command="").codes
