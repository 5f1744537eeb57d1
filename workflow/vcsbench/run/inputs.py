"""Params and input files of rules, from the file of a study and from the user's expectations."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from vcsbench.axes import table as axis_table
from vcsbench.axes.axis import Environment
from vcsbench.axes.client_server import SERVER_AXIS, server_settings
from vcsbench.config.definitions import (
    Statement,
    check_metric,
    read_expectations,
    read_findings,
    statements_in,
    studies_of,
)
from vcsbench.config.study import Study, load_study
from vcsbench.config.study_models import FindingDefinition, TableDefinition
from vcsbench.errors import UserError
from vcsbench.metrics import metric_in, names
from vcsbench.statistics import baselines
from vcsbench.statistics.contract import STATISTIC

if TYPE_CHECKING:
    from vcsbench.statistics.budget import ComparisonParams, LimitParams

FINDINGS = "config/published/findings.yaml"


class Wildcards(Protocol):
    """The wildcards of a job with a study."""

    @property
    def study(self) -> str:
        """Return the name of the study."""


class PublishedMetadata(TypedDict):
    """Options of statistics.published.read_published: axis values of files, and axes that commands lack."""

    fixed: dict[str, dict[str, str]]
    inapplicable: dict[str, list[str]]


@cache
def study_file(name: str) -> Study:
    """Return a study as its file defines it."""
    path = f"config/studies/{name}.yaml"
    study = load_study(path)
    for table, definition in study.tables.items():
        key = f"{path}: `tables.{table}"
        check_metric(definition.get("metric"), names(), f"{key}.metric`")
        if compare := definition.get("compare"):
            check_metric(compare.get("metric"), names(), f"{key}.compare.metric`")
        for metric in definition.get("each", []):
            check_metric(metric, names(), f"{key}.each`")
    return study


def studies() -> list[str]:
    """Return the names of all studies that have a file."""
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


def table_names(study: str, published: bool) -> list[str]:
    """Return the tables of a study's measurements or published numbers."""
    definition = study_file(study)
    if not published:
        return list(definition.tables)
    if not definition.published:
        return []
    return [name for name, table in definition.tables.items() if table.get("published", True)]


def table_definitions(
    wildcards: Wildcards, here: Environment, published: bool
) -> dict[str, TableDefinition]:
    """Return the definitions of the tables of a study's measurements, or of its published numbers."""
    tables = _resolved_tables(wildcards, here)
    return {name: tables[name] for name in table_names(wildcards.study, published)}


def comparing_tables(
    wildcards: Wildcards, here: Environment, exact: bool
) -> dict[str, TableDefinition]:
    """Return the definitions of the tables that compare counts (`exact`), or times."""
    tables = _resolved_tables(wildcards, here)
    return {n: t for n, t in tables.items() if "compare" in t and metric_in(t).exact == exact}


def _resolved_tables(wildcards: Wildcards, here: Environment) -> dict[str, TableDefinition]:
    study = study_file(wildcards.study)
    return axis_table.resolved_tables(study, axis_table.values_of(study, here))


def comparison_settings(
    wildcards: Wildcards, here: Environment, limits: LimitParams
) -> ComparisonParams:
    """Return the params of statistics.budget.ComparisonSettings."""
    return {
        "tables": comparing_tables(wildcards, here, exact=False),
        "order": axis_order(wildcards, here),
        "block": study_file(wildcards.study).block,
        "limits": limits,
    }


def axes(wildcards: Wildcards) -> list[str]:
    """Return the axes of a study."""
    return list(study_file(wildcards.study).axes)


def axis_order(wildcards: Wildcards, here: Environment) -> dict[str, list[str]]:
    """Return each axis of a study with its values, in the order of all tables and pages."""
    study = study_file(wildcards.study)
    return axis_table.order_of(study, here, _published_values(wildcards.study))


@cache
def _published_values(study: str) -> dict[str, list[str]]:
    values: dict[str, dict[str, None]] = defaultdict(dict)
    for path in _number_files(study):
        with Path(path).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                for axis, value in row.items():
                    values[axis] |= {value: None} if value else {}
    return {axis: list(of_axis) for axis, of_axis in values.items()}


def _number_files(study: str) -> list[str]:
    return [f"config/published/{name}" for name in study_file(study).numbers]


def published_numbers(wildcards: Wildcards) -> list[str]:
    """Return the files of a study's published numbers."""
    if files := _number_files(wildcards.study):
        return files
    raise UserError(f"config/studies/{wildcards.study}.yaml: `published`: the key is missing.")


def published_metadata(wildcards: Wildcards) -> PublishedMetadata:
    """Return facts about the published numbers that their files lack."""
    study = study_file(wildcards.study)
    commands = study.commands.items()
    return {
        "fixed": {f"config/published/{name}": facts for name, facts in study.numbers.items()},
        "inapplicable": {name: c.inapplicable_axes for name, c in commands if c.inapplicable_axes},
    }


def published_conditions(wildcards: Wildcards) -> dict[str, float | str]:
    """Return the fields of statistics.findings.Conditions of a study's published numbers."""
    published = study_file(wildcards.study).published
    if published is None:
        return {}
    return {
        "scale": published.scale,
        "subversion": published.subversion,
        "storage": published.storage,
    }


def published_tables(study: str) -> list[str]:
    """Return the folder of the tables of a study's published numbers, if it has any."""
    return [f"results/published/{study}"] if table_names(study, published=True) else []


def repository_facts(wildcards: Wildcards, here: Environment) -> list[str]:
    """Return facts about the user's own repository that the study chose its values by."""
    return axis_table.findings_of(study_file(wildcards.study), here)


def apply_commands(wildcards: Wildcards, here: Environment) -> dict[str, dict[str, str]]:
    """Return the commands that apply each server configuration, if the study has an axis of them."""
    if SERVER_AXIS not in study_file(wildcards.study).axes:
        return {}
    return {SERVER_AXIS: {name: server_settings(here.root, name) for name in here.servers}}


def non_choices(wildcards: Wildcards) -> dict[str, list[str]]:
    """Return the reference commands of a study by their axis. Advice leaves them out."""
    study = study_file(wildcards.study)
    references = [name for name, command in study.commands.items() if command.reference_only]
    return {study.command_axis: references} if references else {}


def findings(wildcards: Wildcards) -> list[FindingDefinition]:
    """Return the definitions of a study's findings."""
    columns = [*axes(wildcards), *group_columns(wildcards)]
    return [
        finding
        for group in study_file(wildcards.study).findings
        for finding in read_findings(FINDINGS, group, columns, names())
    ]


def studies_with_findings() -> list[tuple[str, str, list[Statement]]]:
    """Return the name, title and findings (id and statement) of each study with findings, most first."""
    with_findings = []
    for name in studies():
        study = study_file(name)
        statements = [each for group in study.findings for each in statements_in(FINDINGS, group)]
        if statements:
            with_findings.append((name, study.title, statements))
    return sorted(with_findings, key=lambda study: -len(study[2]))


def group_columns(wildcards: Wildcards) -> list[str]:
    """Return the columns besides the axes that distinguish runs or published numbers of a study."""
    tables = study_file(wildcards.study).tables.values()
    columns = [column for table in tables for column in table.get("by", [])]
    has_statistic = STATISTIC in _published_values(wildcards.study)
    return list(dict.fromkeys([*columns, *[STATISTIC] * has_statistic]))


def optional_input(path: str, measured: Collection[str]) -> Callable[[Wildcards], list[str]]:
    """Return an input function: the path for the studies that are measured here, otherwise nothing."""
    return lambda wildcards: (
        [path.format(study=wildcards.study)] if wildcards.study in measured else []
    )


class Expectations:
    """The expectations in the user's files, and the saved baselines that results are compared with."""

    def __init__(self, here: Environment) -> None:
        """Read and check them. Raise a UserError with the file and the key."""
        self.here, self.config = here, here.config
        self.files = [str(here.root / path) for path in self.config.settings.expectations]
        where = self.config.where(["expectations"])
        for path in self.files:
            if not Path(path).is_file():
                raise UserError(
                    f"{where}: `expectations`: no file {path}. Write it, or remove the entry."
                )
        self.by_study: dict[str, list[FindingDefinition]] = {}
        for study in studies_of(self.files):
            if study not in (known := studies()):
                raise UserError(
                    f"{', '.join(self.files)}: no study `{study}`. Use one of {', '.join(known)}."
                )
            known_values = self._axis_values(study)
            self.by_study[study] = read_expectations(self.files, study, known_values, names())
        self._check_baselines()

    def _axis_values(self, study: str) -> dict[str, list[str] | None]:
        """Return each axis with its values, or None if all are allowed: a repository may have any name."""
        definition = study_file(study)
        values = axis_table.values_of(definition, self.here)
        return {
            axis: None if word == "repositories" else values[axis]
            for axis, word in definition.axes.items()
        }

    def _check_baselines(self) -> None:
        saved = baselines.saved_baselines()
        for name in self.config.settings.baselines:
            if not {*saved.get(name, [])} & {*self.config.studies}:
                raise UserError(
                    f"{self.config.where(['baselines'])}: `baselines`: no baseline {name!r} of the "
                    f"configured studies. Use one of: {', '.join(saved) or 'none'}, or save it by "
                    f"`make baseline NAME={name}`."
                )

    def for_study(self, study: str) -> list[FindingDefinition]:
        """Return the expectations of a study."""
        return self.by_study.get(study, [])

    def of_other_studies(self) -> dict[str, list[FindingDefinition]]:
        """Return the expectations of studies that are not run."""
        return {s: e for s, e in self.by_study.items() if s not in self.config.studies}

    def baselines(self, study: str) -> list[str]:
        """Return the baselines that a study is compared with, of the configuration or of expectations."""
        compared = [e["compare"] for e in self.for_study(study) if "compare" in e]
        expected = [sides["to"] for sides in compared if "to" in sides]
        saved = baselines.saved_baselines()
        named = dict.fromkeys([*self.config.settings.baselines, *expected])
        return [name for name in named if study in saved.get(name, [])]

    def baseline_files(self, study: str) -> list[str]:
        """Return the files of the baselines that a study is compared with."""
        return _baseline_files(study, self.baselines(study))

    def saved(self, study: str) -> list[str]:
        """Return all saved baselines of a study."""
        return [name for name, saved in baselines.saved_baselines().items() if study in saved]

    def saved_files(self, study: str) -> list[str]:
        """Return the existing files of all saved baselines of a study."""
        files = _baseline_files(study, self.saved(study))
        return [file for file in files if Path(file).exists()]

    def history(self, study: str) -> list[str]:
        """Return the file of a study's history, if it has saved baselines."""
        return [f"results/history/{study}.json"] if self.saved(study) else []


def _baseline_files(study: str, saved: list[str]) -> list[str]:
    paths = (baselines.csv_path, baselines.description_path)
    return [str(path(name, study)) for name in saved for path in paths]
