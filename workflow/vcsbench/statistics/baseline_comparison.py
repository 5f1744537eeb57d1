"""Save measurements as baselines, and compare later ones with them: a table, and the history of all."""

import datetime
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from vcsbench import words
from vcsbench.codes import Call, WithheldCode
from vcsbench.errors import OPTIONS, UserError
from vcsbench.evidence import flags, same_work
from vcsbench.evidence.flags import Flag
from vcsbench.evidence.measurements import group_rows, in_order, read_measurements
from vcsbench.external import one_line
from vcsbench.files import write_bytes, write_json
from vcsbench.metrics import DEFAULT, METRICS
from vcsbench.plan.grid import is_duplicate
from vcsbench.statistics import baselines, calls, estimates, moderation, tables
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_cell, by_round
from vcsbench.statistics.baselines import CellSettings, Description
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.estimates import Estimate
from vcsbench.statistics.noise import Key, Noise, noise_by_metric

# Settings of a cell that must be equal.
SETTING_CODES = (
    WithheldCode.OTHER_COMMAND,
    WithheldCode.OTHER_REPOSITORY,
    WithheldCode.OTHER_METHOD,
)
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class MeasurementSet:
    """Measurements of a study at a time: of a saved baseline, or the current ones (`now`)."""

    name: str
    frame: pd.DataFrame
    description: Description

    def settings_of(self, key: Sequence[str]) -> CellSettings | None:
        """Return the settings of a cell by its values of axes; None if this set lacks the cell."""
        path = "/".join(value or "-" for value in key)
        return self.description["cells"].get(path)


@dataclass(frozen=True)
class CellResult:
    """A cell at a time: its hosts (separated by blanks), its work and its settings, if they are known."""

    hosts: str
    work: str
    settings: CellSettings | None


@dataclass(frozen=True)
class Refusals:
    """Why two results of a cell are not compared (empty: they are), and the figures in which works differ."""

    codes: Sequence[WithheldCode] = ()
    detail: str = ""


def load_baseline(name: str, study: str) -> MeasurementSet:
    frame = read_measurements(baselines.csv_path(name, study))
    return MeasurementSet(
        name, frame, baselines.read_description(baselines.description_path(name, study))
    )


def load_current(study: str, results: Path) -> MeasurementSet:
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    starts = frame["cell_round_started_at"]
    rounds = zip(frame["cell"], frame["round"].astype(int), starts, strict=True)
    return MeasurementSet(baselines.NOW, frame, baselines.describe_baseline(study, rounds, results))


def save_baseline(name: str, studies: Sequence[str], results: Path) -> list[str]:
    """Save measured studies, by default all, and return a sentence for each.

    Example: `saved baselines/old/fsfs-ssd-2014.csv: 72 cells in 5 rounds, measured on host#1a2b`. Raise
    UserError, and save nothing, if a study was not measured or is saved already.
    """
    if not baselines.NAME.fullmatch(name):
        raise UserError(
            f"{OPTIONS['name']}: {one_line(repr(name))}: a name has only letters, digits, `.`, `_` and `-`, "
            f"at most 200, and begins with a letter or a digit. Use another name, such as before-upgrade."
        )
    folder = results / "measurements"
    if not studies:
        studies = sorted(path.stem for path in folder.glob("*.csv"))
    if not studies:
        raise UserError(f"{folder}: nothing has been measured. Run `make report` first.")
    # All are checked before the first is saved: half of a baseline would be in the way of the next try.
    descriptions = {study: _describe_unsaved(name, study, results) for study in studies}
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sentences = []
    for study, description in descriptions.items():
        saved = baselines.csv_path(name, study)
        saved.parent.mkdir(parents=True, exist_ok=True)
        # The CSV file comes last, because a baseline without its description cannot be read.
        write_json(baselines.description_path(name, study), {"saved_at": now, **description})
        write_bytes(saved, (folder / saved.name).read_bytes())
        number = sum(not is_duplicate(cell) for cell in description["cells"])
        cells = words.count_of(number, "cell")
        rounds = words.count_of(description["rounds"], "round")
        hosts = ", ".join(description["hosts"])
        sentences.append(f"saved {saved}: {cells} in {rounds}, measured on {hosts}")
    return sentences


def _describe_unsaved(name: str, study: str, results: Path) -> Description:
    """Return the description of a measured study that the baseline `name` does not have yet."""
    if not baselines.NAME.fullmatch(study):
        raise UserError(
            f"STUDY={one_line(study)}: no such study. Use a name in results/measurements."
        )
    path = results / "measurements" / f"{study}.csv"
    saved = baselines.csv_path(name, study)
    if saved.exists() or baselines.description_path(name, study).exists():
        raise UserError(
            f"{saved}: the file exists, and a baseline is never overwritten. Use another NAME, or remove "
            f"the file."
        )
    current = load_current(study, results) if path.is_file() else None
    if current is None or current.frame.empty:
        raise UserError(f"{path}: the study has not been measured. Run `make report` first.")
    return current.description


def pair_cells(
    before: MeasurementSet, now: MeasurementSet, axes: Sequence[str], block: Sequence[str]
) -> pd.DataFrame:
    """Return a row per current cell with the ratio saved / now of unpaired rounds.

    Columns: as in a table without calls, `hosts`, and `refused`, the codes because of which the cells are not
    compared. Runs that the baseline contains are left out: they would be compared with themselves.
    """
    saved_cells = _cells_by_key(before, before.frame, axes)
    added_cells = _cells_by_key(now, runs_since(before.frame, now.frame), axes)
    noise = _noisier_day(before, now, axes, block)
    rows = []
    # Ratios come into the rows last, because their variances are moderated over all cells.
    ratios = []
    for key, current in _cells_by_key(now, now.frame, axes).items():
        point = dict(zip(axes, key, strict=True))
        saved, added = saved_cells.get(key), added_cells.get(key)
        if saved and added:
            refusals = _refusals(saved.result, added.result, same_work.name_of(point, axes))
            ratios.append(estimates.unpaired_ratio(saved.logs, added.logs))
            rows.append(_row_of_both(point, saved, added, refusals))
        else:
            # A cell that is up to date was not measured again: all of its runs are saved ones.
            code = WithheldCode.SAME_RUNS if saved else WithheldCode.NOT_SAVED
            ratios.append(estimates.NO_ESTIMATE)
            rows.append(_row_of_one(point, current, code))
    for row, ratio in zip(rows, _moderated(ratios), strict=True):
        if not row["refused"]:
            row |= tables.ratio_columns(noise.with_error(ratio))
    pairs = tables.rows_frame(rows, axes, ["hosts", "refused"])
    return pairs.assign(duplicate_sd=math.sqrt(noise.duplicates.variance))


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """Return the current runs that the saved measurements do not contain."""
    keys = ["host", "cell", "round", "run", "started_at"]
    is_saved = pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))
    return now[~is_saved]


@dataclass(frozen=True)
class _Cell:
    """A cell of a set: its columns of by_cell, and the logarithms of its times by round."""

    columns: Row
    logs: Sequence[float]
    result: CellResult


def _cells_by_key(
    measured: MeasurementSet, frame: pd.DataFrame, axes: Sequence[str]
) -> dict[Key, _Cell]:
    """Return the cells of a frame, which has all or some runs of a set."""
    rounds = by_round(frame, axes, MEAN)
    logs = group_rows(rounds.assign(logs=np.log(rounds[DEFAULT])), axes)["logs"].agg(list)
    # Times are printed as medians, and compared as geometric means. Both have the cells in the same order.
    medians = by_cell(by_round(frame, axes), axes)
    cells = {}
    for columns, logs_of_cell in zip(medians.to_dict("records"), logs, strict=True):
        key = tuple(columns[axis] for axis in axes)
        result = CellResult(columns["hosts"], columns["work"], measured.settings_of(key))
        cells[key] = _Cell(columns, logs_of_cell, result)
    return cells


def _noisier_day(
    before: MeasurementSet, now: MeasurementSet, axes: Sequence[str], block: Sequence[str]
) -> Noise:
    """Return the noise of duplicates of the day on which they differ more.

    A ratio of two days contains the differences of both. A day without duplicates (NaN) is used only if the
    other one has none either.
    """
    variances = []
    for day in (before, now):
        duplicates = noise_by_metric(day.frame, axes, block)(DEFAULT).duplicates
        if not math.isnan(duplicates.variance):
            variances.append(duplicates)
    if not variances:
        return Noise()
    return Noise(duplicates=max(variances, key=lambda duplicates: duplicates.variance))


def _row_of_both(
    point: Mapping[str, str], saved: _Cell, added: _Cell, refusals: Refusals
) -> dict[str, Any]:
    """Return the row of a cell that both sets have, without its ratio."""
    numbers: dict[str, Any] = {
        "n": 0,
        **tables.share_columns(saved.columns[FIXED_SHARE], added.columns[FIXED_SHARE]),
        "baseline_mean": math.exp(float(np.mean(saved.logs))),
        "candidate_mean": math.exp(float(np.mean(added.logs))),
        "hosts": _all_hosts(saved.result, added.result),
        "refused": refusals.codes,
    }
    row_flags = tables.flags_of_sides([saved.columns["flags"], added.columns["flags"]])
    row_flags += refusals.codes
    value = 100 * (saved.columns[DEFAULT] / added.columns[DEFAULT] - 1)
    withheld = " ".join(refusals.codes)
    return tables.table_row(point, value, row_flags, withheld, refusals.detail, numbers)


def _row_of_one(point: Mapping[str, str], current: _Cell, code: WithheldCode) -> dict[str, Any]:
    """Return the row of a current cell without a counterpart."""
    numbers = {"n": 0, "hosts": _all_hosts(current.result), "refused": [code]}
    row_flags = [*tables.flags_of_sides([current.columns["flags"]]), code]
    return tables.table_row(point, math.nan, row_flags, code, "", numbers)


def _moderated(ratios: Sequence[Estimate]) -> list[Estimate]:
    """Return unpaired ratios whose variances are moderated over all cells, as those of paired ones are.

    A variance is of one round, because cells may have different numbers of rounds.
    """
    variances = np.array([ratio.error**2 * ratio.n for ratio in ratios], float)
    degrees = np.array([ratio.degrees for ratio in ratios], float)
    moderated, moderated_degrees = moderation.moderate(variances, degrees)
    estimated = []
    for ratio, variance, own_degrees in zip(ratios, moderated, moderated_degrees, strict=True):
        # A cell without a counterpart has no rounds, and its variance is NaN.
        error = math.sqrt(variance / max(ratio.n, 1))
        estimated.append(replace(ratio, error=error, degrees=own_degrees))
    return estimated


def _all_hosts(*results: CellResult) -> list[str]:
    return sorted({host for result in results for host in result.hosts.split()})


def _refusals(saved: CellResult, now: CellResult, command: str) -> Refusals:
    """Return why a saved and a current result of a cell are not compared."""
    codes = []
    if len(_all_hosts(saved, now)) > 1:
        codes.append(WithheldCode.HOSTS_DIFFER)
    old, new = _settings_by_code(saved.settings), _settings_by_code(now.settings)
    for code in SETTING_CODES:
        if old.get(code) != new.get(code):
            codes.append(code)
    works = {"saved": saved.work, baselines.NOW: now.work}
    other_work = same_work.refusal(command, works)
    if not other_work:
        return Refusals(codes)
    return Refusals([*codes, WithheldCode(other_work.flag)], other_work.reason)


def _settings_by_code(settings: CellSettings | None) -> dict[WithheldCode, object]:
    """Return the settings of a cell by the code of a difference. Without settings, all of them differ."""
    if settings is None:
        return {}
    return {
        WithheldCode.OTHER_COMMAND: settings["command"],
        WithheldCode.OTHER_REPOSITORY: settings["repository"],
        WithheldCode.OTHER_METHOD: settings["method"],
    }


def make_baseline_table(
    baseline: str,
    pairs: pd.DataFrame,
    order: Mapping[str, list[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return the table of pair_cells() against a baseline, with calls.

    `value` is 100 x (elapsed(saved) / elapsed(now) - 1) of medians; the ratio is unpaired.
    """
    row_flags = []
    for own_flags, ratio, n in zip(pairs["flags"], pairs["ratio"], pairs["n"], strict=True):
        has_few_rounds = not math.isnan(ratio) and limits.has_few_rounds(n)
        row_flags.append(flags.add_flag(own_flags, Flag.LOW_N, has_few_rounds))
    table = pairs.assign(flags=row_flags)
    table = calls.call_table(table, pairs["duplicate_sd"], METRICS[DEFAULT], limits)
    table = table.assign(baseline=baseline, candidate=baselines.NOW)
    table = in_order(table, order, order)
    return tables.finish_table(table, baselines.table_name(baseline), list(order))


def list_baseline_notes(
    before: MeasurementSet, now: MeasurementSet, pairs: pd.DataFrame
) -> list[str]:
    """Return sentences for readers of a baseline's table: its time, its method, and the changes since."""
    saved = before.description
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
    names: Sequence[str],
    study: str,
    results: Path,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits,
) -> dict[str, list[Any]]:
    """Return the history of a study: baselines by date, and the current results if runs were added.

    `times` has a record per baseline: `before` is the latest earlier one of the same host, `calls` counts
    the calls against it, `changed` has the changed conditions. `points` has a record per cell and time:
    `value` in seconds, and `settings`, which differs after a change of the cell's settings. Numbers of one
    host and of the same settings are comparable. A baseline that cannot be read is left out, and printed.
    """
    snapshots = _load_snapshots(names, study, results)
    times = []
    for number, snapshot in enumerate(snapshots):
        before = _latest_of_same_host(snapshots[:number], snapshot)
        times.append(_time_record(snapshot, before, order, block, limits))
    # A single time has no history.
    points = _history_points(snapshots, list(order)) if len(times) > 1 else []
    return {"times": times, "points": points}


def _load_snapshots(names: Sequence[str], study: str, results: Path) -> list[MeasurementSet]:
    """Return the baselines of a study by their first run, and the current results if they have other runs."""
    snapshots: list[MeasurementSet] = []
    for name in names:
        try:
            snapshots.append(load_baseline(name, study))
        except UserError as error:
            print(f"{error} The history is made without it.", file=sys.stderr)
    snapshots.sort(key=lambda snapshot: (snapshot.description["first"], snapshot.name))
    current = load_current(study, results)
    if not snapshots or not runs_since(snapshots[-1].frame, current.frame).empty:
        snapshots.append(current)
    return snapshots


def _latest_of_same_host(
    earlier: Sequence[MeasurementSet], snapshot: MeasurementSet
) -> MeasurementSet | None:
    hosts = snapshot.description["hosts"].keys()
    for candidate in reversed(earlier):
        if hosts & candidate.description["hosts"].keys():
            return candidate
    return None


def _time_record(
    snapshot: MeasurementSet,
    before: MeasurementSet | None,
    order: Mapping[str, list[str]],
    block: Sequence[str],
    limits: Limits,
) -> dict[str, Any]:
    """Return the record of a time in a history, with its calls against the time `before`."""
    numbers: Counter[str] = Counter()
    changes: list[str] = []
    if before:
        pairs = pair_cells(before, snapshot, list(order), block)
        numbers.update(make_baseline_table(before.name, pairs, order, limits)["call"])
        changes = baselines.list_changes(before.description, snapshot.description)
    return {
        "name": snapshot.name,
        "first": snapshot.description["first"],
        "last": snapshot.description["last"],
        "hosts": list(snapshot.description["hosts"]),
        "before": before.name if before else "",
        "calls": {call: numbers[call] for call in Call if numbers[call]},
        "changed": changes,
    }


def _history_points(
    snapshots: Sequence[MeasurementSet], axes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a record per snapshot, cell and host with its time in seconds.

    `settings` is empty at first. After each change of the cell's settings or work, it has another number,
    such as `settings 2`, so that a chart does not join times that are not comparable.
    """
    latest: dict[Key, CellResult] = {}
    changes: Counter[Key] = Counter()
    points = []
    for snapshot in snapshots:
        rounds = by_round(snapshot.frame, axes, MEAN)
        rounds = rounds.assign(log=np.log(rounds[DEFAULT]))
        for (*key, host), rounds_of_cell in group_rows(rounds, [*axes, "host"]):
            cell = dict(zip(axes, key, strict=True))
            work = rounds_of_cell["work"].iloc[0]
            result = CellResult(host, work, snapshot.settings_of(key))
            line = (host, *key)
            if line in latest:
                refusals = _refusals(latest[line], result, same_work.name_of(cell, axes))
                if refusals.codes:
                    changes[line] += 1
            latest[line] = result
            seconds = estimates.ratio_interval(rounds_of_cell["log"]).value
            label = f"settings {1 + changes[line]}" if changes[line] else ""
            point = {"time": snapshot.name, "host": host, "settings": label, **cell}
            points.append({**point, "value": seconds})
    return points
