"""All that a page shows of one study, and how it is read from the files of a run."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.axes.table import resolved_tables
from vcsbench.config.configuration import EMPTY
from vcsbench.config.definitions import Glossary, load_glossary
from vcsbench.config.study import Study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.metrics import metric_of, names
from vcsbench.report.records import Record, distinct
from vcsbench.statistics import contract
from vcsbench.statistics.baselines import table_name

Records = list[dict[str, Any]]

# Columns that hold numbers, whatever the file; a field that is empty becomes None.
NUMBERS = frozenset(
    [
        *contract.NUMBERS,
        *("round", "run", "twins", "rounds", "differed", "chance", "spread", "runs"),
        *(column for name in names() for column in metric_of(name).needs),
    ]
)

# What is kept as rows, in a folder of its name.
ROWS = ("grid", "failures", "noise", "findings", "expectations")
# What is kept as JSON, and in which folder.
KEPT = {
    "advice": "advice",
    "account": "budget",
    "ceiling": "machine-limits",
    "provenance": "provenance",
    "history": "history",
}


@dataclass(frozen=True)
class Results:
    """One study's results as records (a dict per row, numbers as float, the rest as text).

    `order` has the study's axes with their values in order. `tables` and `published` map a table's name to
    its rows, `definitions` and `checks` the id of a finding or an expectation to how it is judged, `texts` a
    file's name to what it holds, for the downloads; `ceiling` is the machine's (measure.ceiling),
    `provenance` what put the measurements together (run.provenance), `history` what they were over the
    saved baselines (compare.history), `own` the user's repository where it was measured instead of those of
    the study, `found` sentences on what was found out of that; `moved` says which nodes of a cluster were
    lost or refused. All but study and order may be empty.
    """

    study: Study
    order: Mapping[str, Sequence[str]]
    grid: Records = field(default_factory=list)
    measurements: Records = field(default_factory=list)
    fixed_cost: Records = field(default_factory=list)
    failures: Records = field(default_factory=list)
    tables: dict[str, Records] = field(default_factory=dict)
    published: dict[str, Records] = field(default_factory=dict)
    findings: Records = field(default_factory=list)
    noise: Records = field(default_factory=list)
    definitions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    expectations: Records = field(default_factory=list)
    checks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    advice: Mapping[str, Any] = field(default_factory=dict)
    account: Mapping[str, Any] = field(default_factory=dict)
    ceiling: Mapping[str, Any] = field(default_factory=dict)
    contexts: list[Mapping[str, Any]] = field(default_factory=list)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    glossary: Glossary = field(default_factory=Glossary)
    own: str = ""
    found: Sequence[str] = ()
    moved: list[str] = field(default_factory=list)

    @property
    def tables_in_order(self) -> list[str]:
        """The names of the study's tables as they stand on the page: those that lead, then the others."""
        return distinct([*self.study.featured_tables, *self.study.tables])


def read_records(path: str | Path, texts: Collection[str] = ()) -> Records:
    """The rows of a CSV file; none where the file is missing or has no rows. The columns `texts` stay text.

    Raises a UserError where a number is none, or the file is not UTF-8.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            return [_typed(row, path, texts) for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8; delete it and run again to make it anew") from None


def _typed(row: Mapping[str, str], path: str | Path, texts: Collection[str]) -> dict[str, Any]:
    record: dict[str, Any] = dict(row)
    for name in (NUMBERS & row.keys()).difference(texts):
        try:
            number = float(row[name]) if row[name] else math.nan
        except ValueError:
            raise UserError(
                f"{path}: `{name}`: {row[name]!r} is not a number; delete the file and run again"
            ) from None
        record[name] = number if math.isfinite(number) else None
    return record


def read_results(
    study: Study,
    folder: Path,
    definitions: Path,
    order: Mapping[str, Sequence[str]],
    expectations: Sequence[Mapping[str, Any]] = (),
    baselines: Sequence[str] = (),
    own: str = "",
    found: Sequence[str] = (),
) -> Results:
    """Read what there is of a study below the folder `results`, and its findings from the file
    `definitions`; what is missing is left empty. `expectations` are the user's, `baselines` the names of
    those that have a table, `own` is the user's repository, `found` what was found out of it. The glossary is
    that of the checkout that has `definitions`."""
    name = study.name
    compared = _compared(study, baselines)
    study = replace(study, tables={**resolved_tables(study, order), **compared})
    tables = {table: f"tables/{name}/{table}" for table in study.tables}
    measurements = read_records(folder / "measurements" / f"{name}.csv")
    return Results(
        study=study,
        order=order,
        measurements=measurements,
        fixed_cost=read_records(folder / "fixed-cost" / f"{name}.csv"),
        tables=_tables(study, folder / "tables" / name),
        published=_tables(study, folder / "published" / name),
        definitions=_definitions(study, definitions),
        checks={expectation["id"]: expectation for expectation in expectations},
        **_kept(folder, name),
        contexts=_contexts(folder / "cells" / name, measurements),
        notes={table: _read_json(folder / f"{tables[table]}.json") or [] for table in compared},
        texts=_texts(folder, [*tables.values(), f"measurements/{name}"]),
        glossary=load_glossary(definitions.parents[2]),
        own=own,
        found=found,
        moved=_moved(folder / "cluster", name),
    )


def _kept(folder: Path, study: str) -> dict[str, Any]:
    """What has a folder of its own: rows, and JSON."""
    rows = {name: read_records(folder / name / f"{study}.csv") for name in ROWS}
    rows["grid"] = [cell for cell in rows["grid"] if not _is_empty(cell)]
    told = {n: _read_json(folder / below / f"{study}.json") or {} for n, below in KEPT.items()}
    return {**rows, **told}


def _is_empty(row: Record) -> bool:
    """Return True for a cell of the empty repository, which measures the fixed cost only."""
    return row.get("repo") == EMPTY


def _definitions(study: Study, path: Path) -> dict[str, Mapping[str, Any]]:
    """The study's findings by their ids."""
    defined = read_yaml(path)
    return {one["id"]: one for under in study.findings for one in defined.get(under, [])}


def _tables(study: Study, folder: Path) -> dict[str, Records]:
    """The rows of each table that there is a file of."""
    return {
        table: read_records(folder / f"{table}.csv", definition.get("by", ()))
        for table, definition in study.tables.items()
    }


def _compared(study: Study, baselines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The definitions of the baselines' tables, by name."""
    if not baselines:
        return {}
    from vcsbench.statistics import (
        baseline_comparison,  # imports pandas, which nothing else of a page needs
    )

    return {table_name(b): baseline_comparison.table_definition(study.tables, b) for b in baselines}


def _contexts(folder: Path, measurements: Iterable[Record]) -> list[Mapping[str, Any]]:
    """The context beside each measured cell-round, in the order in which they were measured."""
    measured = distinct((row["cell"], int(row["round"])) for row in measurements)
    paths = (folder / cell / f"round{number}.context.json" for cell, number in measured)
    contexts = [context for path in paths if isinstance(context := _read_json(path), dict)]
    return sorted(contexts, key=lambda context: str(context.get("started_at", "")))


def _moved(folder: Path, study: str) -> list[str]:
    """What became of nodes of a cluster, in sentences: those that were lost with blocks of a study, and those
    that were refused."""
    said = []
    for path in sorted(folder.glob("job*.assignment.json")):
        pin = _read_json(path) or {}
        for lost in pin.get("lost", []):
            named = (block.split("/", 1) for block in lost["blocks"])
            if blocks := [block for of, block in named if of == study]:
                what = f"{words.enumeration(blocks)} {'was' if len(blocks) == 1 else 'were'}"
                again = f"measured again from the start on {lost['to']}"
                said.append(f"{lost['node']} was lost before {what} whole, {again}")
        said += [f"{one['node']} was rejected: {one['reason']}" for one in pin.get("rejected", [])]
    return distinct(said)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise UserError(f"{path}: is not JSON; delete it and run again to make it anew") from None


def _texts(folder: Path, stems: Iterable[str]) -> dict[str, str]:
    names = (f"{stem}.csv" for stem in stems)
    return {
        name: (folder / name).read_text(encoding="utf-8")
        for name in names
        if (folder / name).exists()
    }
