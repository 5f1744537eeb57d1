"""All results of a study that its page shows, and how they are read from the files of a run."""

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from vcsbench import words
from vcsbench.advice.cards import ADVICE, Advice
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, value_label
from vcsbench.axes import resolved_tables
from vcsbench.cell_rounds import CellRound
from vcsbench.config.configuration import EMPTY
from vcsbench.config.definitions import FindingDefinition
from vcsbench.config.study import Study
from vcsbench.config.validation import read_mapping
from vcsbench.errors import UserError
from vcsbench.evidence.flags import is_invalid
from vcsbench.external import open_regular
from vcsbench.files import read_rows
from vcsbench.metrics import NEEDED_COLUMNS
from vcsbench.plan.grid import is_duplicate, originals
from vcsbench.records import complete_context
from vcsbench.statistics import comparisons, verdicts
from vcsbench.statistics.baselines import table_definition, table_name
from vcsbench.statistics.texts import reason_text

Rows = Sequence[Row]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

NUMBERS = frozenset(
    [
        *comparisons.NUMBER_COLUMNS,
        *("published", "measured"),
        *("round", "run", "rounds", "runs"),
        "others_cpu_pct",
        *NEEDED_COLUMNS,
    ]
)
# A comparison and the quotient of medians that are further apart need an explanation.
NOTABLE_GAP = 1.05
# A file that has both has a number for each row.
COUNTS = {"round", "run"}
# The columns that each file has at least.
CSV_FILES = {
    "grid": ("cell", "skip"),
    "failures": ("cell", "round", "reason"),
    "findings": verdicts.OF_FINDINGS,
    "expectations": verdicts.OF_EXPECTATIONS,
}
MEASURED = ("cell", "round", "run", "elapsed_s", "host", "started_at", "flags")
AGAIN = "Delete the file and run again."
REASONS = TypeAdapter(list[verdicts.Reason])
JSON_FILES = {"account": "budget", "provenance": "provenance", "history": "history"}


@dataclass(frozen=True)
class Results:
    """The results of a study as rows (numbers as float, the rest as text). Parts may be empty.

    `order` has the axes with their values in order. `tables` and `published` map a table's name to its
    rows, `definitions` and `checks` an id to its check, `texts` a path to its content. `account` is the
    time budget, `history` the saved baselines, `moved` the lost or rejected nodes, `loads` the revisions
    and seconds of each repository's load.
    """

    study: Study
    order: Mapping[str, Sequence[str]]
    grid: Rows = ()
    measurements: Rows = ()
    failures: Rows = ()
    tables: Mapping[str, Rows] = field(default_factory=dict)
    published: Mapping[str, Rows] = field(default_factory=dict)
    findings: Rows = ()
    definitions: Mapping[str, Row] = field(default_factory=dict)
    expectations: Rows = ()
    checks: Mapping[str, Row] = field(default_factory=dict)
    advice: Advice = field(default_factory=Advice)
    account: Row = field(default_factory=dict)
    contexts: Rows = ()
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provenance: Row = field(default_factory=dict)
    history: Row = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    own_repository: str = ""
    repository_notes: Sequence[str] = ()
    moved: Sequence[str] = ()
    loads: Mapping[str, Row] = field(default_factory=dict)

    @cached_property
    def valid_runs(self) -> Rows:
        """Return the runs that count, without duplicates."""
        return [run for run in originals(self.measurements) if not is_invalid(run["flags"])]

    def configured(self, key: str) -> Any:
        """Return a key of the configuration of the run."""
        return (self.provenance.get("config") or {}).get(key) or {}

    @property
    def grid_settings(self) -> Row:
        return self.configured("grid").get(self.study.name) or {}


def grouped_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group the items by a key. Keys and items keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def unique_values(items: Iterable[Key]) -> list[Key]:
    return list(dict.fromkeys(items))


def values_in(row: Row, axes: Iterable[str]) -> tuple[str, ...]:
    """Return a row's values of axes, "" for an axis that it lacks."""
    return tuple(row.get(axis, "") for axis in axes)


def values_label(row: Row, axes: Iterable[str]) -> str:
    return ", ".join(value_label(axis, row[axis]) for axis in axes if row.get(axis))


def cell_names(results: Results) -> dict[str, str]:
    """Return the words for each cell: `cold log over http (ruby, f6, not packed, default settings)`."""
    names = {row["cell"]: case_label(row, [*results.order]) for row in results.grid}
    return {c: f"{name}, duplicate" if is_duplicate(c) else name for c, name in names.items()}


def varying(rows: Rows, axes: Iterable[str]) -> list[str]:
    return [axis for axis in axes if len({row.get(axis, "") for row in rows}) > 1]


def read_records(
    path: str | Path, columns: Iterable[str] = (), texts: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, none if it is missing. The columns `texts` stay text.

    Raise a UserError for a bad number, a missing one of the `columns`, or a file that is not CSV.
    """
    if not Path(path).exists():
        return []
    rows: list[dict[str, Any]] = [*read_rows(path, AGAIN, columns=columns)]
    finite = COUNTS if {*columns} >= COUNTS else set()
    for row in rows:
        for name in (NUMBERS & row.keys()).difference(texts):
            try:
                number = float(row[name] or "nan")
                _ = int(number) if name in finite else 0
            except (ValueError, OverflowError):
                reason = f"{path}: {name}: '{row[name]}' is not a number"
                raise UserError(f"{reason}. {AGAIN}") from None
            row[name] = number if math.isfinite(number) else None
    return rows


def read_results(
    study: Study,
    folder: Path,
    definitions: Path,
    order: Mapping[str, Sequence[str]],
    expectations: Rows = (),
    baselines: Sequence[str] = (),
    own: str = "",
    found: Sequence[str] = (),
) -> Results:
    """Return the results of a study below the folder `results`; missing files are left empty.

    `expectations` are the user's, `own` is the user's repository, `found` has notes on it.
    """
    name = study.name
    saved = {table_name(b): table_definition(study.tables, b) for b in baselines}
    study = study.model_copy(update={"tables": {**resolved_tables(study, order), **saved}})
    stems = [*(f"tables/{name}/{table}" for table in study.tables), f"measurements/{name}"]
    measurements = read_records(folder / "measurements" / f"{name}.csv", MEASURED)
    measured = unique_values((row["cell"], int(row["round"])) for row in measurements)
    paths = (Path(CellRound(name, c, n, str(folder)).context) for c, n in measured)
    records = filter(None, map(_read_json, paths))
    contexts: Iterable[Row] = map(complete_context, records)
    findings = cast(Mapping[str, list[FindingDefinition]], read_mapping(definitions))
    return Results(
        study=study,
        order=order,
        measurements=measurements,
        definitions={
            check["id"]: check for key in study.findings for check in findings.get(key, [])
        },
        checks={expectation["id"]: expectation for expectation in expectations},
        advice=read_advice(folder / "advice" / f"{name}.json") or Advice(),
        contexts=sorted(contexts, key=lambda context: context["started_at"]),
        notes={t: _read_json(folder / f"tables/{name}/{t}.json", list) or [] for t in saved},
        texts={
            f"{stem}.csv": path.read_text(encoding="utf-8")
            for stem in stems
            if (path := folder / f"{stem}.csv").exists()
        },
        own_repository=own,
        repository_notes=found,
        moved=_moved_nodes(folder / "cluster", name),
        loads=read_loads(folder),
        **_read_files(study, folder),
    )


def read_loads(folder: Path) -> dict[str, Row]:
    """Return the record of the slowest load of each repository, with the seconds of its slowest packing."""
    loads: dict[str, Row] = {}
    for path in sorted((folder / "loaded").glob("*/*.json")):
        record = _read_json(path)
        slowest = loads.get(path.parent.name, {})
        if record["seconds"] >= slowest.get("seconds", 0):
            loads[path.parent.name] = record
    for repo, record in loads.items():
        packed = [_read_json(path) for path in (folder / "packed" / repo).glob("*.json")]
        seconds = max((of_format["pack_seconds"] for of_format in packed), default=0.0)
        loads[repo] = {**record, "pack_seconds": seconds}
    return loads


def _read_files(study: Study, folder: Path) -> dict[str, Any]:
    """Return the content of CSV_FILES, JSON_FILES and tables, by their fields of Results."""
    files: dict[str, Any] = {}
    for kind, columns in CSV_FILES.items():
        path = folder / kind / f"{study.name}.csv"
        files[kind] = read_records(path, columns)
        for row in files[kind] if kind in ("findings", "expectations") else ():
            row["reasons"] = _read_reasons(row.get("reasons") or "[]", path)
    files["grid"] = [cell for cell in files["grid"] if cell.get("repo") != EMPTY]
    for kind, below in JSON_FILES.items():
        files[kind] = _read_json(folder / below / f"{study.name}.json") or {}
    for kind in ("tables", "published"):
        files[kind] = {
            table: read_records(
                folder / kind / study.name / f"{table}.csv",
                comparisons.list_columns([]),
                texts=definition.get("by", ()),
            )
            for table, definition in study.tables.items()
        }
    return files


def read_advice(path: Path) -> Advice | None:
    """Return None without the file. Raise UserError if another version of vcsbench wrote it."""
    if (content := _read_json(path)) is None:
        return None
    try:
        return ADVICE.validate_python(content)
    except ValidationError:
        raise UserError(
            f"{path}: another version of vcsbench wrote it. Delete it, or run this study again."
        ) from None


def _read_reasons(text: str, path: Path) -> list[verdicts.Reason]:
    try:
        reasons = REASONS.validate_json(text)
        _ = [reason_text(reason) for reason in reasons]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{path}: reasons: {text[:80]!r} cannot be read. {AGAIN}") from None
    return reasons


def _moved_nodes(folder: Path, study: str) -> list[str]:
    sentences = []
    for path in sorted(folder.glob("job*.assignment.json")):
        assignment = _read_json(path) or {}
        for lost in assignment.get("lost", []):
            blocks = [b.split("/", 1)[1] for b in lost["blocks"] if b.split("/", 1)[0] == study]
            if blocks:
                again = f"Measured again on {lost['to']}: {words.enumeration(blocks)}"
                sentences.append(f"{lost['node']} was lost. {again}")
        rejected = assignment.get("rejected", [])
        sentences += [f"{node['node']} was rejected: {node['reason']}" for node in rejected]
    return unique_values(sentences)


def _read_json(path: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file, None if it is missing. Raise UserError if it is damaged."""
    try:
        with open(open_regular(path), "rb") as file:
            content: Any = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, kind):
        raise UserError(f"{path}: the file is damaged. {AGAIN}")
    return content


def median_seconds(runs: Rows) -> float:
    """Return the median of a cell's rounds, as in tables; nan without a valid run."""
    valid = [
        run for run in runs if words.is_number(run["elapsed_s"]) and not is_invalid(run["flags"])
    ]
    rounds = grouped_by(valid, lambda run: run["round"]).values()
    of_rounds = [median(float(run["elapsed_s"]) for run in of) for of in rounds]
    return median(of_rounds) if of_rounds else math.nan


def contradicts_medians(ratio: float, medians: Sequence[float]) -> bool:
    """Return True if the medians of two cells differ by another factor than `ratio`, by more than 5 %."""
    return all(time > 0 for time in medians) and (
        abs(math.log(medians[0] / medians[1] / ratio)) > math.log(NOTABLE_GAP)
    )
