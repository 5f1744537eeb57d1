"""Params and input files of rules: of a study, its decided rounds, and the user's expectations."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Protocol, TypedDict

from vcsbench import axes as axis_table
from vcsbench.axes.axis import Environment
from vcsbench.axes.client_server import SERVER_AXIS, server_settings
from vcsbench.config.definitions import (
    FindingDefinition,
    load_glossary,
    read_definitions,
    read_expectations,
    read_findings,
)
from vcsbench.config.study import Study, TableDefinition, load_study
from vcsbench.errors import UserError
from vcsbench.external import read_bytes
from vcsbench.metrics import metric_in
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import NOTHING, UNFAILED, decision_of
from vcsbench.statistics import baselines
from vcsbench.statistics.contract import STATISTIC

FINDINGS = "config/published/findings.yaml"
PUBLISHED_BYTES = 16 << 20
# The checkpoint's `get`, which raises until the decision is made.
Decide = Callable[..., object]
Tables = dict[str, TableDefinition]


class Wildcards(Protocol):
    """The wildcards of a job with a study."""

    study: str


class PublishedMetadata(TypedDict):
    """Options of statistics.aggregation.read_published: axis values of files, and axes that commands lack."""

    fixed: dict[str, dict[str, str]]
    inapplicable: dict[str, list[str]]


@cache
def study_file(name: str) -> Study:
    return load_study(f"config/studies/{name}.yaml")


def studies() -> list[str]:
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


def table_definitions(wildcards: Wildcards, environment: Environment, published: bool) -> Tables:
    study = study_file(wildcards.study)
    tables = axis_table.resolved_tables(study, axis_table.values_of(study, environment))
    return {n: t for n, t in tables.items() if not published or t.get("published", True)}


def comparing_tables(wildcards: Wildcards, environment: Environment, exact: bool) -> Tables:
    """Return the tables that compare counts (`exact`), or times."""
    tables = table_definitions(wildcards, environment, published=False)
    return {n: t for n, t in tables.items() if "compare" in t and metric_in(t).exact == exact}


def comparison_settings(
    wildcards: Wildcards, environment: Environment, limits: dict[str, float]
) -> dict[str, object]:
    """Return the params of statistics.budget.ComparisonSettings; `limits` are the fields of Limits."""
    return {
        "tables": comparing_tables(wildcards, environment, exact=False),
        "order": axis_order(wildcards, environment),
        "block": study_file(wildcards.study).block,
        "limits": limits,
    }


def axes(wildcards: Wildcards) -> list[str]:
    return list(study_file(wildcards.study).axes)


def axis_order(wildcards: Wildcards, environment: Environment) -> dict[str, list[str]]:
    published = _published_values(wildcards.study)
    return axis_table.order_of(study_file(wildcards.study), environment, published)


@cache
def _published_values(study: str) -> dict[str, list[str]]:
    values: dict[str, dict[str, None]] = defaultdict(dict)
    for name in study_file(study).numbers:
        path = Path("config/published", name)
        try:
            text = read_bytes(path, PUBLISHED_BYTES).decode()
            rows = [*csv.DictReader(io.StringIO(text, newline=""))]
        except (OSError, ValueError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserError(f"{path}: cannot be read as CSV: {reason}. Restore the file.") from None
        for row in rows:
            for axis, value in row.items():
                values[axis] |= {value: None} if axis and value else {}
    return {axis: list(of_axis) for axis, of_axis in values.items()}


def published_numbers(wildcards: Wildcards) -> list[str]:
    if files := [f"config/published/{name}" for name in study_file(wildcards.study).numbers]:
        return files
    raise UserError(f"config/studies/{wildcards.study}.yaml: `published`: the key is missing.")


def published_options(wildcards: Wildcards) -> PublishedMetadata:
    study = study_file(wildcards.study)
    commands = study.commands.items()
    return {
        "fixed": {f"config/published/{name}": facts for name, facts in study.numbers.items()},
        "inapplicable": {name: c.inapplicable_axes for name, c in commands if c.inapplicable_axes},
    }


def published_conditions(wildcards: Wildcards) -> dict[str, float | str]:
    """Return the fields of statistics.possible_reasons.Conditions of a study's published numbers."""
    published = study_file(wildcards.study).published
    include = {"scale", "subversion", "storage", "server"}
    return published.model_dump(include=include) if published else {}


def published_tables(study: str) -> list[str]:
    definition = study_file(study)
    has_tables = any(table.get("published", True) for table in definition.tables.values())
    return [f"results/published/{study}"] if definition.published and has_tables else []


def repository_facts(wildcards: Wildcards, environment: Environment) -> list[str]:
    return axis_table.findings_of(study_file(wildcards.study), environment)


def apply_commands(
    wildcards: Wildcards, environment: Environment
) -> dict[str, dict[str, dict[str, str]]]:
    if SERVER_AXIS not in study_file(wildcards.study).axes:
        return {}
    root = environment.root
    return {SERVER_AXIS: {name: server_settings(root, name) for name in environment.servers}}


def reference_commands(wildcards: Wildcards) -> dict[str, list[str]]:
    study = study_file(wildcards.study)
    references = [name for name, command in study.commands.items() if command.reference_only]
    return {study.command_axis: references} if references else {}


def findings(wildcards: Wildcards) -> list[FindingDefinition]:
    columns = [*axes(wildcards), *group_columns(wildcards)]
    return [
        finding
        for group in study_file(wildcards.study).findings
        for finding in read_findings(FINDINGS, group, columns)
    ]


def studies_with_findings() -> list[tuple[str, str, list[dict[str, str]]]]:
    with_findings = []
    for name in studies():
        study, known = study_file(name), read_definitions(FINDINGS)
        statements = [
            {"id": finding["id"], "statement": finding["statement"]}
            for group in study.findings
            for finding in known.get(group, [])
        ]
        if statements:
            with_findings.append((name, study.title, statements))
    return sorted(with_findings, key=lambda study: -len(study[2]))


def group_columns(wildcards: Wildcards) -> list[str]:
    tables = study_file(wildcards.study).tables.values()
    columns = [column for table in tables for column in table.get("by", [])]
    has_statistic = STATISTIC in _published_values(wildcards.study)
    return list(dict.fromkeys([*columns, *[STATISTIC] * has_statistic]))


def optional_input(path: str, measured: Collection[str]) -> Callable[[Wildcards], list[str]]:
    return lambda wildcards: (
        [path.format(study=wildcards.study)] if wildcards.study in measured else []
    )


class SamplingState:
    """The rounds of each block that are decided, batch by batch, for runs with minutes.

    On a cluster the records of the nodes' jobs take the place of all results.
    """

    def __init__(self, plan: Plan, is_cluster: bool = False) -> None:
        self.plan, self.mode = plan, plan.config.settings.measure
        self.is_cluster = is_cluster
        cells = plan.cells if self.mode == UNFAILED else []
        self.failed = {
            (cell.study, cell.path): set(filter(plan.is_fresh, exports))
            for cell in cells
            if not all(map(plan.is_fresh, exports := plan.exports_of(cell)))
        }

    def exports(self, study: str, decide: Decide) -> list[str]:
        """Return the exports after the last decision.

        If a decision is missing, `decide` raises, and Snakemake calls this function again later.
        """
        if self.is_cluster:
            return []
        if self.mode == NOTHING:
            return self.plan.cell_files(study, only_fresh=True)
        if study not in self.plan.passes:
            return self.plan.cell_files(study)
        batches, has_more = self.plan.passes[study], True
        while has_more:
            decide(study=study, number=str(batches.next))
            has_more = batches.take()
        return self.exports_before(study)

    def exports_before(self, study: str, number: int | None = None) -> list[str]:
        """Return the exports of all batches before one (default: of all); of a failed cell, the existing."""
        last = None if number is None else number - 1
        return [
            export
            for cell in self.plan.measured(study)
            for export in self.plan.exports_of(cell, last)
            if export in self.failed.get((study, cell.path), (export,))
        ]

    def next_decision(self, study: str) -> list[str]:
        return [] if self.mode == NOTHING else self.decisions(study)[-1:]

    def decisions(self, study: str) -> list[str]:
        batches = self.plan.passes.get(study)
        return [decision_of(study, n) for n in range(2, batches.next + 1)] if batches else []

    def calls(self, study: str) -> list[str]:
        if self.is_cluster:
            return []
        return list(self.plan.calls_of(study, True if self.mode == NOTHING else None).values())


class Expectations:
    """The expectations in the user's files, and the saved baselines.

    Raise a UserError with the file and the key.
    """

    def __init__(self, environment: Environment) -> None:
        self.config = environment.config
        self.saved_studies = baselines.saved_baselines()
        self.by_study: dict[str, list[FindingDefinition]] = {}
        # Files that only tables and pages need are refused before a run, too.
        read_definitions(FINDINGS)
        load_glossary(environment.root)
        for study in self.config.studies:
            _published_values(study)
        files = [str(environment.root / path) for path in self.config.settings.expectations]
        for path in files:
            if not Path(path).is_file():
                text = f"no file {path}. Write it, or remove the entry."
                raise self.config.error(["expectations"], text)
        for study in dict.fromkeys(study for path in files for study in read_definitions(path)):
            if study not in (known := studies()):
                raise UserError(
                    f"{', '.join(files)}: no study `{study}`. Use one of {', '.join(known)}."
                )
            definition = study_file(study)
            values = axis_table.values_of(definition, environment)
            choices = {
                axis: None if word == "repositories" else values[axis]
                for axis, word in definition.axes.items()
            }
            self.by_study[study] = read_expectations(files, study, choices)
        for name in self.config.settings.baselines:
            if not {*self.saved_studies.get(name, [])} & {*self.config.studies}:
                raise self.config.error(
                    ["baselines"],
                    f"no baseline {name!r} of the configured studies. Use one of: "
                    f"{', '.join(self.saved_studies) or 'none'}, or save it by `make baseline NAME={name}`.",
                )

    def for_study(self, study: str) -> list[FindingDefinition]:
        return self.by_study.get(study, [])

    def of_other_studies(self) -> dict[str, list[FindingDefinition]]:
        return {s: e for s, e in self.by_study.items() if s not in self.config.studies}

    def baselines(self, study: str) -> list[str]:
        compared = [e["compare"] for e in self.for_study(study) if "compare" in e]
        expected = [sides["to"] for sides in compared if "to" in sides]
        saved = self.saved(study)
        named = dict.fromkeys([*self.config.settings.baselines, *expected])
        return [name for name in named if name in saved]

    def baseline_files(self, study: str) -> list[str]:
        return _baseline_files(study, self.baselines(study))

    def saved(self, study: str) -> list[str]:
        return [name for name, studies in self.saved_studies.items() if study in studies]

    def saved_files(self, study: str) -> list[str]:
        return [f for f in _baseline_files(study, self.saved(study)) if Path(f).exists()]


def _baseline_files(study: str, names: list[str]) -> list[str]:
    paths = (baselines.csv_path, baselines.description_path)
    return [str(path(name, study)) for name in names for path in paths]
