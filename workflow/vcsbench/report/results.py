"""All results of a study that its page shows, and how they are read from the files of a run."""

import json
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from vcsbench import words
from vcsbench.advice.cards import ADVICE, Advice
from vcsbench.advice.decision import Row
from vcsbench.advice.labels import case_label, value_label
from vcsbench.axes import resolved_tables
from vcsbench.axes.cache_states import cache_state
from vcsbench.axis_names import CACHE_AXIS
from vcsbench.config.configuration import EMPTY
from vcsbench.config.definitions import FindingDefinition
from vcsbench.config.study import Study
from vcsbench.config.validation import read_mapping
from vcsbench.errors import UserError
from vcsbench.evidence.column_names import RUN_COLUMNS_NEEDED, RUN_NUMBERS
from vcsbench.evidence.flags import is_invalid
from vcsbench.evidence.typed_columns import is_number_column, read_columns
from vcsbench.external import open_regular
from vcsbench.plan.grid import is_duplicate, originals
from vcsbench.plan.result_state import PENDING
from vcsbench.records import complete_context
from vcsbench.report.account import ACCOUNT, Account
from vcsbench.report.make_command import MakeCommand, parse_command
from vcsbench.result_paths import CellRound
from vcsbench.statistics import comparisons, verdicts
from vcsbench.statistics.baselines import table_definition, table_name
from vcsbench.statistics.texts import reason_text

Rows = Sequence[Row]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)

# The columns that each file has at least.
REQUIRED_COLUMNS = {
    "grid": ("cell", "skip"),
    "failures": ("cell", "round", "reason"),
    "findings": verdicts.FINDING_COLUMNS,
    "expectations": verdicts.EXPECTATION_COLUMNS,
}
DELETE_AND_RUN = "Delete the file and run again."
REASONS = TypeAdapter(list[verdicts.Reason])


@dataclass(frozen=True)
class Provenance:
    """The origin of a report (run.provenance): version, commit, command line and configuration of its run.

    `changed` are the files that differ from the commit.
    """

    vcsbench: str = ""
    commit: str = ""
    changed: Sequence[str] = ()
    command: str = ""
    config_digest: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


PROVENANCE = TypeAdapter(Provenance)


@dataclass(frozen=True)
class Results:
    """The results of a study as rows (numbers as float, the rest as text). Any part may be empty.

    Terms such as cell, round and duplicate are in docs/concepts.md. A row of `tables` is described in
    statistics.comparisons, one of `findings` in statistics.verdicts.
    """

    study: Study
    order: Mapping[str, Sequence[str]]  # the values of each axis in the order of the study
    grid: Rows = ()  # cells
    measurements: Rows = ()  # timed runs
    failures: Rows = ()  # cell-rounds without a result
    tables: Mapping[str, Rows] = field(default_factory=dict)  # by the name of the table
    published: Mapping[str, Rows] = field(default_factory=dict)
    findings: Rows = ()  # verdicts on published statements
    definitions: Mapping[str, Row] = field(default_factory=dict)  # the statements, by id
    expectations: Rows = ()  # verdicts on the user's statements
    checks: Mapping[str, Row] = field(default_factory=dict)  # the statements, by id
    advice: Advice = field(default_factory=Advice)
    account: Account = field(default_factory=Account)
    contexts: Rows = ()  # of cell-rounds (records.Context), the oldest first
    # On each table that compares with a saved baseline, by its name.
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    history: Row = field(default_factory=dict)  # the saved baselines
    texts: Mapping[str, str] = field(default_factory=dict)  # the contents of CSV files, by path
    own_repository: str = ""  # the user's repository, "" without one
    repository_notes: Sequence[str] = ()
    server_log_notes: Sequence[str] = ()
    moved: Sequence[str] = ()  # sentences on lost or rejected nodes of a cluster
    loads: Mapping[str, Row] = field(default_factory=dict)  # by repository: revisions, seconds, ...

    @cached_property
    def valid_runs(self) -> Rows:
        """Return the runs that are valid, and no duplicates."""
        return [run for run in originals(self.measurements) if not is_invalid(run["flags"])]

    @cached_property
    def comparable_runs(self) -> Rows:
        """Return the valid runs with a time above 0: a time of 0 has neither a logarithm nor a rate."""
        runs = self.valid_runs
        return [run for run in runs if words.is_number(run["elapsed_s"]) and run["elapsed_s"] > 0]

    @cached_property
    def grid_values(self) -> dict[str, list[str]]:
        """Return the values of each axis in the grid, in the grid's order: `{"format": ["f6", "f7"]}`."""
        return {
            axis: unique_values(cell[axis] for cell in self.grid if cell.get(axis))
            for axis in self.order
        }

    @property
    def has_cold_cells(self) -> bool:
        """Return True if the grid has a cell that begins with empty caches."""
        return any(cache_state(cell.get(CACHE_AXIS)).is_cold for cell in self.grid)

    @property
    def failed_rounds(self) -> Rows:
        """Return the cell-rounds that failed. Others without a result are outdated or not measured yet."""
        return [row for row in self.failures if row["reason"] not in PENDING]

    @property
    def command(self) -> MakeCommand:
        """Return the command of make that measures this study again as its last run did."""
        command = parse_command(self.provenance.command)
        config = self.provenance.config
        # The stored command may have been on another repository, or in another folder, where relative paths
        # meant other files. The configuration of this page is used. No shell expands a quoted `~`.
        if config:
            command = replace(
                command,
                repository=os.path.expanduser(config.get("repository") or ""),
                tree=config.get("tree") or "",
                server_log=os.path.expanduser(config.get("server_log") or ""),
            )
        return replace(command, study=self.study.name)

    @property
    def thresholds(self) -> Row:
        """Return the thresholds that the run's configuration sets, by name."""
        thresholds: Row = self.provenance.config.get("thresholds", {})
        return thresholds


def grouped_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group the items by a key. Keys and items keep their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def unique_values(items: Iterable[Key]) -> list[Key]:
    """Return the items in their order, each once."""
    return list(dict.fromkeys(items))


def values_in(row: Row, axes: Iterable[str]) -> tuple[str, ...]:
    """Return a row's values of axes in their order, "" for an axis that it lacks: `("log", "cold", "")`."""
    return tuple(row.get(axis, "") for axis in axes)


def values_label(row: Row, axes: Iterable[str]) -> str:
    """Return the words for a row's values of axes: `log, cold, not packed`."""
    return ", ".join(value_label(axis, row[axis]) for axis in axes if row.get(axis))


def name_cells(results: Results) -> dict[str, str]:
    """Return labels of cells by their path: `cold log over http (ruby, f6, not packed, default
    settings)`.

    The label of a duplicate ends with `, duplicate`.
    """
    names = {}
    for row in results.grid:
        cell = row["cell"]
        name = case_label(row, list(results.order))
        names[cell] = f"{name}, duplicate" if is_duplicate(cell) else name
    return names


def varying(rows: Rows, axes: Iterable[str]) -> list[str]:
    """Return the axes on which the rows have at least two different values, in the order of `axes`."""
    return [axis for axis in axes if len({row.get(axis, "") for row in rows}) > 1]


def read_records(
    path: str | Path,
    required: Iterable[str] = (),
    complete: Collection[str] = (),
    texts: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, [] if it is missing: `{"repo": "007", "ratio": 1.5, "low": None}`.

    The columns NUMBER_COLUMNS have numbers, except for the columns `texts`. An unknown or infinite number is
    None. Raise UserError, with the advice to delete the file, if it is damaged, if it lacks one of the
    columns `required`, or if a number in the columns `complete` is None.
    """
    if not Path(path).exists():
        return []
    columns = read_columns(path, DELETE_AND_RUN, required, complete, texts)
    known_values: list[list[Any]] = []
    for name, values in columns.items():
        if is_number_column(name, texts):
            known_values.append([value if words.is_number(value) else None for value in values])
        else:
            known_values.append([*values])
    return [dict(zip(columns, row, strict=True)) for row in zip(*known_values, strict=True)]


def read_results(
    study: Study,
    folder: Path,
    findings_file: Path,
    order: Mapping[str, Sequence[str]],
    expectations: Rows = (),
    baselines: Sequence[str] = (),
    own_repository: str = "",
    repository_notes: Sequence[str] = (),
    server_log_notes: Sequence[str] = (),
) -> Results:
    """Return the results of a study from its files in `folder`. The fields of missing files stay empty.

    `folder` is the folder `results`, and `findings_file` is config/published/findings.yaml. `order` has the
    values of each axis in their order: `{"format": ["f6", "f7"]}`. `expectations` are the user's statements:
    `{"id": "hot-log", "statement": "...", ...}`. `baselines` are the names of the saved baselines. The two
    lists of notes are sentences on the user's repository, and on the log of the user's server. Raise
    UserError for a damaged file.
    """
    name = study.name
    # In a study file, a table may compare the value "first" of an axis with the "rest". Here it has the
    # values themselves.
    tables = resolved_tables(study, order)
    for baseline in baselines:
        # The table of a baseline is laid out as the study's table of elapsed time.
        tables[table_name(baseline)] = table_definition(study.tables, baseline)
    # A copy, because the caller's study keeps its own tables.
    study = study.model_copy(update={"tables": tables})
    measurements = read_records(
        folder / "measurements" / f"{name}.csv", RUN_COLUMNS_NEEDED, complete=RUN_NUMBERS
    )
    contexts = _read_contexts(folder, name, measurements)
    return Results(
        study=study,
        order=order,
        grid=read_cells(folder, name),
        measurements=measurements,
        failures=read_failures(folder, name),
        tables=_read_tables(folder / "tables" / name, study),
        published=_read_tables(folder / "published" / name, study),
        findings=read_verdicts(folder, "findings", name),
        definitions=read_statements(findings_file, study),
        # The field `expectations` has the verdicts, and `checks` has the statements that they are about.
        expectations=read_verdicts(folder, "expectations", name),
        checks={statement["id"]: statement for statement in expectations},
        advice=read_advice(folder / "advice" / f"{name}.json") or Advice(),
        account=read_account(folder, name),
        contexts=contexts,
        notes=_read_baseline_notes(folder / "tables" / name, baselines),
        provenance=read_provenance(folder, name),
        history=_read_json(folder / "history" / f"{name}.json") or {},
        texts=_read_downloads(folder, study),
        own_repository=own_repository,
        repository_notes=repository_notes,
        server_log_notes=server_log_notes,
        moved=_read_node_changes(folder / "cluster", name),
        loads=_read_loads(folder, contexts),
    )


def read_cells(folder: Path, study: str) -> list[dict[str, Any]]:
    """Return the cells of a study: `{"cell": "log/svn/...", "skip": "", "command": "log", ...}`.

    `skip` is "" for a cell that can be measured. Cells of the empty repository are left out: they only
    measure the fixed cost of other cells.
    """
    cells = read_records(folder / "grid" / f"{study}.csv", REQUIRED_COLUMNS["grid"])
    return [cell for cell in cells if cell.get("repo") != EMPTY]


def read_failures(folder: Path, study: str) -> list[dict[str, Any]]:
    """Return a row for each cell-round of a study without a result: the columns cell, round and reason."""
    return read_records(folder / "failures" / f"{study}.csv", REQUIRED_COLUMNS["failures"])


def _read_tables(folder: Path, study: Study) -> dict[str, Rows]:
    """Return the rows of each table of a study, [] for a table without a file."""
    tables: dict[str, Rows] = {}
    for name, definition in study.tables.items():
        # The table uses the columns `by`, such as ["run"], like axes, so their values stay texts.
        like_axes = definition.get("by", ())
        tables[name] = read_records(
            folder / f"{name}.csv", comparisons.list_columns([]), texts=like_axes
        )
    return tables


def read_statements(path: Path, study: Study) -> dict[str, Row]:
    """Return the definitions of the study's published findings by id, from the file of all studies."""
    # The keys of a study are mostly only its own name.
    by_key = cast(Mapping[str, list[FindingDefinition]], read_mapping(path))
    definitions = [each for key in study.findings for each in by_key.get(key, [])]
    return {definition["id"]: definition for definition in definitions}


def read_verdicts(folder: Path, kind: str, study: str) -> list[dict[str, Any]]:
    """Return the verdicts on findings or expectations, with their `reasons` as a list of Reason.

    `kind` is "findings" or "expectations". Return [] without the file. Raise UserError if it is damaged.
    """
    path = folder / kind / f"{study}.csv"
    rows = read_records(path, REQUIRED_COLUMNS[kind])
    for row in rows:
        text = row["reasons"] or "[]"
        try:
            row["reasons"] = REASONS.validate_json(text)
            # The page makes the texts later, where an error could not name the damaged file. So each text is
            # made here and dropped.
            for reason in row["reasons"]:
                reason_text(reason)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UserError(
                f"{path}: reasons: {text[:80]!r} cannot be read. {DELETE_AND_RUN}"
            ) from None
    return rows


def read_advice(path: Path) -> Advice | None:
    """Return the advice from its JSON file, None without the file.

    Raise UserError if the file is damaged or another version of vcsbench wrote it.
    """
    content = _read_json(path)
    if content is None:
        return None
    try:
        return ADVICE.validate_python(content)
    except ValidationError:
        raise UserError(
            f"{path}: another version of vcsbench wrote it. Delete it, or run this study again."
        ) from None


def read_account(folder: Path, study: str) -> Account:
    """Return the account of a study. Raise UserError if its file is damaged."""
    return _read_typed(folder / "budget" / f"{study}.json", ACCOUNT)


def read_provenance(folder: Path, study: str) -> Provenance:
    """Return the provenance of a study's report. Raise UserError if its file is damaged."""
    return _read_typed(folder / "provenance" / f"{study}.json", PROVENANCE)


def _read_typed(path: Path, adapter: TypeAdapter[Item]) -> Item:
    """Return the content of a JSON file as a type such as Account, the defaults of all fields without a file.

    Raise UserError if the file is damaged.
    """
    try:
        return adapter.validate_python(_read_json(path) or {})
    except ValidationError:
        raise UserError(f"{path}: the file is damaged. {DELETE_AND_RUN}") from None


def _read_contexts(folder: Path, study: str, measurements: Rows) -> list[Row]:
    """Return the record of each measured cell-round (records.Context), the oldest first."""
    contexts: list[Row] = []
    # The folder may have files of other cell-rounds, which are out of date.
    for cell, number in unique_values((row["cell"], int(row["round"])) for row in measurements):
        record = _read_json(Path(CellRound(study, cell, number, str(folder)).context))
        if record is not None:
            # Most missing parts become empty, so that readers need no checks. Missing numbers stay missing.
            contexts.append(complete_context(record))
    return sorted(contexts, key=lambda context: context["started_at"])


def _read_baseline_notes(folder: Path, baselines: Iterable[str]) -> dict[str, list[str]]:
    """Return the sentences on each table that compares with a saved baseline, by the name of the table."""
    notes: dict[str, list[str]] = {}
    for baseline in baselines:
        table = table_name(baseline)
        notes[table] = _read_json(folder / f"{table}.json", list) or []
    return notes


def _read_downloads(folder: Path, study: Study) -> dict[str, str]:
    """Return the content of each CSV file that a reader can save from the page, by its path below `results`.

    Example: `{"measurements/builds.csv": "cell,round,..."}`. A missing file is left out.
    """
    paths = [f"tables/{study.name}/{table}.csv" for table in study.tables]
    paths.append(f"measurements/{study.name}.csv")
    present = [path for path in paths if (folder / path).exists()]
    return {path: (folder / path).read_text(encoding="utf-8") for path in present}


def _read_loads(folder: Path, contexts: Rows) -> dict[str, Row]:
    """Return the record of each repository's slowest load (records.LoadRecord), by the repository's name.

    A repository is loaded once in each format, such as f7. From a loaded one, other states are made, such as
    a packed one. Below `folder`, both have a record for each repository and format:

    - loaded/ruby/f7.json: `{"identity": "9f86...", "revisions": 5526, "seconds": 40.1, ...}`,
    - packed/ruby/f7.json: `{"seconds_by_state": {"pack": 2.0}, ...}`, missing if no state was made.

    The result has both: `{"ruby": {"seconds": 40.1, "seconds_by_state": {"pack": 2.0}, ...}}`.
    """
    repositories = [context["repository"] for context in contexts]
    named = [facts for facts in repositories if facts.get("name")]
    loads: dict[str, Row] = {}
    for repository, facts_of_rounds in grouped_by(named, lambda facts: str(facts["name"])).items():
        records = _read_measured_loads(folder / "loaded" / repository, facts_of_rounds)
        if not records:
            continue
        # All formats load at the same time, so the slowest one gives the time of the whole load. Records
        # by an earlier version of vcsbench lack times.
        slowest = max(records.values(), key=lambda record: record.get("seconds", 0))
        pack_files = [folder / "packed" / repository / f"{name}.json" for name in records]
        loads[repository] = {
            **slowest,
            "seconds_by_state": _read_state_seconds(pack_files, facts_of_rounds),
        }
    return loads


def _read_measured_loads(folder: Path, repositories: Rows) -> dict[str, Row]:
    """Return the records of a repository's loads, by format, without those that no cell-round measured.

    `folder` keeps records of earlier runs, too, such as of another scale. A load counts if some cell-round
    has its identity and its format. `repositories` are the facts of the repository in each cell-round.
    """
    # The identity is a digest of the source, which differs by scale.
    identities = {facts.get("identity") for facts in repositories}
    # The facts of a dump file have no format. If no facts have one, the loads of all formats count.
    formats = {facts["format"] for facts in repositories if facts.get("format")}
    records: dict[str, Row] = {}
    for path in sorted(folder.glob("*.json")):
        loaded_format = path.stem
        record = _read_json(path)
        has_format = not formats or loaded_format in formats
        if record.get("identity") in identities and has_format:
            records[loaded_format] = record
    return records


def _read_state_seconds(pack_files: Iterable[Path], repositories: Rows) -> dict[str, float]:
    """Return the longest seconds in which each state was made, from files of all formats: `{"pack": 2.0}`.

    `repositories` are the facts of the repository in each cell-round. A state that none of them has is left
    out: its time may be of an earlier run.
    """
    # The state is the packing of a repository of Subversion, and the upkeep of one of git.
    states = {facts.get(key) for facts in repositories for key in ("packing", "upkeep")}
    longest: dict[str, float] = {}
    for path in pack_files:
        # The file is missing if no state was made from this format.
        record = _read_json(path) or {}
        for state, seconds in record.get("seconds_by_state", {}).items():
            if state in states:
                longest[state] = max(seconds, longest.get(state, 0.0))
    return longest


def _read_node_changes(folder: Path, study: str) -> list[str]:
    """Return sentences on the nodes of a cluster that were lost or rejected.

    Example: `n2 was lost. Measured again on n1: log/ruby`. Blocks, such as `log/ruby`, of other studies are
    left out. Rejected nodes are listed for each study.
    """
    # A file has {"lost": [{"node": "n2", "to": "n1", "blocks": ["builds/log/ruby"]}], "rejected": [...]}.
    prefix = f"{study}/"
    sentences = []
    for path in sorted(folder.glob("job*.assignment.json")):
        assignment = _read_json(path) or {}
        for lost in assignment.get("lost", []):
            names = [name for name in lost["blocks"] if name.startswith(prefix)]
            if names:
                blocks = words.enumeration([name.removeprefix(prefix) for name in names])
                again = f"Measured again on {lost['to']}: {blocks}"
                sentences.append(f"{lost['node']} was lost. {again}")
        for rejected in assignment.get("rejected", []):
            sentences.append(f"{rejected['node']} was rejected: {rejected['reason']}")
    # Several jobs can have lost the same node.
    return unique_values(sentences)


def _read_json(path: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file, None if it is missing.

    Raise UserError if it is damaged, if its content is not of this `kind` (dict or list), or if the path
    leads to a pipe or folder (open_regular).
    """
    try:
        with open(open_regular(path), "rb") as file:
            content: Any = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        # RecursionError: the content has thousands of nested brackets.
        content = None
    if not isinstance(content, kind):
        raise UserError(f"{path}: the file is damaged. {DELETE_AND_RUN}")
    return content
