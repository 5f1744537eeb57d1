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
from vcsbench.statistics import baselines, comparisons, estimates, tables
from vcsbench.statistics.aggregation import FIXED_SHARE, MEAN, by_cell, by_round
from vcsbench.statistics.baselines import CellSettings, Description
from vcsbench.statistics.comparisons import DEFAULT_LIMITS, Limits
from vcsbench.statistics.noise import Noise, noise_by_metric

# The keys of CellSettings that must be equal.
SETTINGS = {
    WithheldCode.OTHER_COMMAND: "command",
    WithheldCode.OTHER_REPOSITORY: "repository",
    WithheldCode.OTHER_METHOD: "method",
}
Key = tuple[str, ...]
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class MeasurementSet:
    """Measurements of a study at a time."""

    name: str
    frame: pd.DataFrame
    description: Description


def load_baseline(name: str, study: str) -> MeasurementSet:
    frame = read_measurements(baselines.csv_path(name, study))
    return MeasurementSet(name, frame, baselines.read_description(name, study))


def load_current(study: str, results: Path) -> MeasurementSet:
    frame = read_measurements(results / "measurements" / f"{study}.csv")
    starts = frame["cell_round_started_at"]
    rounds = zip(frame["cell"], frame["round"].astype(int), starts, strict=True)
    return MeasurementSet(baselines.NOW, frame, baselines.describe_baseline(study, rounds, results))


def save_baseline(name: str, studies: Sequence[str], results: Path) -> list[str]:
    """Save measured studies, by default all, and return a sentence for each.

    Raise UserError, and save nothing, if a study was not measured or is saved already.
    """
    if not baselines.NAME.fullmatch(name):
        raise UserError(
            f"{OPTIONS['name']}: {one_line(repr(name))}: a name has only letters, digits, `.`, `_` and `-`, "
            f"at most 200, and begins with a letter or a digit. Use another name, such as before-upgrade."
        )
    folder = results / "measurements"
    studies = list(studies) or sorted(path.stem for path in folder.glob("*.csv"))
    if not studies:
        raise UserError(f"{folder}: nothing has been measured. Run `make report` first.")
    descriptions = {}
    for study in studies:
        if not baselines.NAME.fullmatch(study):
            raise UserError(
                f"STUDY={one_line(study)}: no such study. Use a name in results/measurements."
            )
        path, saved = folder / f"{study}.csv", baselines.csv_path(name, study)
        if saved.exists() or baselines.description_path(name, study).exists():
            raise UserError(
                f"{saved}: the file exists, and a baseline is never overwritten. Use another NAME, or remove "
                f"the file."
            )
        current = load_current(study, results) if path.is_file() else None
        if current is None or current.frame.empty:
            raise UserError(f"{path}: the study has not been measured. Run `make report` first.")
        descriptions[study] = current.description
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    sentences = []
    for study, about in descriptions.items():
        saved = baselines.csv_path(name, study)
        saved.parent.mkdir(parents=True, exist_ok=True)
        write_json(baselines.description_path(name, study), {"saved_at": now, **about})
        write_bytes(saved, (folder / saved.name).read_bytes())
        number = sum(not is_duplicate(cell) for cell in about["cells"])
        cells = words.count_of(number, "cell")
        size = f"{cells} in {words.count_of(about['rounds'], 'round')}"
        sentences.append(f"saved {saved}: {size}, measured on {', '.join(about['hosts'])}")
    return sentences


def pair_cells(
    before: MeasurementSet, now: MeasurementSet, axes: Sequence[str], block: Sequence[str]
) -> pd.DataFrame:
    """Return a row per current cell with the ratio saved / now of unpaired rounds.

    Columns: as in a table without calls, `hosts`, and `refused`, the flags because of which the cells are not
    compared. Runs that the baseline contains are left out: they would be compared with themselves.
    """
    frames = before.frame, runs_since(before.frame, now.frame), now.frame
    saved, since, current = (_cells(frame, axes) for frame in frames)
    days = [noise_by_metric(side.frame, axes, block)(DEFAULT).duplicates for side in (before, now)]
    noise = Noise(duplicates=max(days, key=lambda day: np.nan_to_num(day.variance, nan=-1.0)))
    rows, ratios = [], []
    for key, cell in current.items():
        point = dict(zip(axes, key, strict=True))
        numbers: dict[str, Any] = {"n": 0}
        if key in saved and key in since:
            sides = [saved[key], since[key]]
            name = same_work.name_of(point, axes)
            path = "/".join(value or "-" for value in key)
            settings = [side.description["cells"].get(path) for side in (before, now)]
            refused, detail = _refused(settings, sides, name)
            ratios.append(estimates.unpaired_ratio(*(side["logs"] for side in sides)))
            numbers |= tables.share_columns([side[FIXED_SHARE] for side in sides])
            for name, side in zip(comparisons.MEANS, sides, strict=True):
                numbers[name] = math.exp(float(np.mean(side["logs"])))
        else:
            refused = [WithheldCode.SAME_RUNS if key in saved else WithheldCode.NOT_SAVED]
            sides, detail = [cell], ""
            ratios.append(estimates.NO_ESTIMATE)
        quotient = sides[0][DEFAULT] / sides[-1][DEFAULT]
        row_flags = [*tables.own_flags(side["flags"] for side in sides), *refused]
        numbers |= {"hosts": _hosts(sides), "refused": refused}
        value = 100 * (quotient - 1)
        rows.append(tables.table_row(point, value, row_flags, " ".join(refused), detail, numbers))
    columns = np.array([(ratio.error**2 * ratio.n, ratio.degrees) for ratio in ratios], float)
    variances = zip(*estimates.moderated(*columns.reshape(-1, 2).T), strict=True)
    for row, ratio, (variance, degrees) in zip(rows, ratios, variances, strict=True):
        error = math.sqrt(variance / max(ratio.n, 1))
        ratio = noise.with_error(replace(ratio, error=error, degrees=degrees), [])
        if not row["refused"]:
            row |= tables.ratio_columns(ratio)
    pairs = tables.rows_frame(rows, axes, ["hosts", "refused"])
    return pairs.assign(duplicate_sd=math.sqrt(noise.duplicates.variance))


def runs_since(saved: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    keys = ["host", "cell", "round", "run", "started_at"]
    return now[~pd.MultiIndex.from_frame(now[keys]).isin(pd.MultiIndex.from_frame(saved[keys]))]


def _cells(frame: pd.DataFrame, axes: Sequence[str]) -> dict[Key, Row]:
    """Return the rows of by_cell by key, with `logs`: the logarithms of the cell's times by round."""
    rounds = by_round(frame, axes, MEAN)
    logs = group_rows(rounds.assign(logs=np.log(rounds[DEFAULT])), axes)["logs"].agg(list)
    cells = by_cell(by_round(frame, axes), axes).assign(logs=[*logs])
    return {tuple(row[axis] for axis in axes): row for row in cells.to_dict("records")}


def _hosts(sides: Sequence[Row]) -> list[str]:
    return sorted({host for side in sides for host in side["hosts"].split()})


def _refused(
    settings: Sequence[CellSettings | None], sides: Sequence[Row], command: str
) -> tuple[list[WithheldCode], str]:
    """Return why a saved and a current cell are not compared, and the figures in which works differ."""
    codes = []
    if len(_hosts(sides)) > 1:
        codes.append(WithheldCode.HOSTS_DIFFER)
    before, now = (dict(side or {}) for side in settings)
    for code, key in SETTINGS.items():
        if before.get(key) != now.get(key):
            codes.append(code)
    works = {"saved": sides[0]["work"], baselines.NOW: sides[1]["work"]}
    other = same_work.refusal(command, works)
    if other:
        codes.append(WithheldCode(other.flag))
    return codes, other.reason if other else ""


def baseline_table(
    baseline: str,
    pairs: pd.DataFrame,
    order: Mapping[str, list[str]],
    limits: Limits = DEFAULT_LIMITS,
) -> pd.DataFrame:
    """Return the value 100 x (elapsed(saved) / elapsed(now) - 1) of medians; the ratio is unpaired."""
    row_flags = []
    for own_flags, ratio, n in zip(pairs["flags"], pairs["ratio"], pairs["n"], strict=True):
        has_few_rounds = not math.isnan(ratio) and limits.has_few_rounds(n)
        row_flags.append(flags.add_flag(own_flags, Flag.LOW_N, has_few_rounds))
    table = estimates.call_table(
        pairs.assign(flags=row_flags), pairs["duplicate_sd"], METRICS[DEFAULT], limits
    ).assign(baseline=baseline, candidate=baselines.NOW)
    return tables.finish_table(
        in_order(table, order, order), baselines.table_name(baseline), [*order]
    )


def baseline_notes(before: MeasurementSet, now: MeasurementSet, pairs: pd.DataFrame) -> list[str]:
    then = before.description
    first, last = (then[key][:16].replace("T", " ") for key in ("first", "last"))
    notes = [
        f"{before.name} was measured from {first} to {last} "
        f"on {', '.join(then['hosts'])} with vcsbench {then['vcsbench']}.",
        "Its rounds are not paired with the current ones: the intervals are Welch's, which are wider, and "
        "contain what changed between two days (load, storage). The duplicates of the noisier day count.",
    ]
    if changed := baselines.changes(then, now.description):
        notes.append(f"Changed since: {'; '.join(changed)}.")
    else:
        notes.append("Kernel, programs, storage and server configurations are unchanged.")
    if withheld := sum(pairs["withheld"] != ""):
        notes.append(f"{withheld} of {len(pairs)} cells are not compared, for the reasons below.")
    return notes


def history(
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
    axes, times, points = list(order), [], []
    # By host and cell: the latest settings and work, and the number of their changes.
    latest: dict[Key, tuple[CellSettings | None, Row]] = {}
    changes: Counter[Key] = Counter()
    for number, snapshot in enumerate(snapshots):
        hosts = snapshot.description["hosts"].keys()
        earlier = reversed(snapshots[:number])
        before = next((s for s in earlier if hosts & s.description["hosts"].keys()), None)
        calls: Counter[str] = Counter()
        if before:
            pairs = pair_cells(before, snapshot, axes, block)
            calls.update(baseline_table(before.name, pairs, order, limits)["call"])
        rounds = by_round(snapshot.frame, axes, MEAN)
        rounds = rounds.assign(log=np.log(rounds[DEFAULT]))
        for (*key, host), of in group_rows(rounds, [*axes, "host"]):
            cell, line = dict(zip(axes, key, strict=True)), (host, *key)
            settings = snapshot.description["cells"].get("/".join(v or "-" for v in key))
            side = {"hosts": host, "work": of["work"].iloc[0]}
            if line in latest:
                old_settings, old_side = latest[line]
                name = same_work.name_of(cell, axes)
                refused, _ = _refused([old_settings, settings], [old_side, side], name)
                changes[line] += bool(refused)
            latest[line] = settings, side
            label = f"settings {1 + changes[line]}" if changes[line] else ""
            point = {"time": snapshot.name, "host": host, "settings": label, **cell}
            points.append({**point, "value": estimates.ratio_interval(of["log"]).value})
        description = snapshot.description
        times.append(
            {
                "name": snapshot.name,
                **{key: description[key] for key in ("first", "last")},
                "hosts": list(description["hosts"]),
                "before": before.name if before else "",
                "calls": {call: calls[call] for call in Call if calls[call]},
                "changed": baselines.changes(before.description, description) if before else [],
            }
        )
    return {"times": times, "points": points if len(times) > 1 else []}
