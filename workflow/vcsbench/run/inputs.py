"""Params and input files of rules: of a study, its decided rounds, and the user's expectations."""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from vcsbench import axes as axis_table
from vcsbench.axes.axis import Environment
from vcsbench.axes.server_axes import server_settings
from vcsbench.axis_names import SERVER_AXIS
from vcsbench.config.configuration import WorkloadShare, workload_of
from vcsbench.config.definitions import (
    FindingDefinition,
    read_definitions,
    read_expectations,
    read_published_rows,
)
from vcsbench.config.models import unknown_name
from vcsbench.config.study import RUN_COLUMNS, Statistic, TableDefinition, load_study
from vcsbench.errors import UserError
from vcsbench.plan.plan import Plan
from vcsbench.plan.result_state import NOTHING, decision_of
from vcsbench.statistics import baselines
from vcsbench.statistics.comparisons import STATISTIC, Limits
from vcsbench.statistics.settings import StudySettings

FINDINGS = "config/published/findings.yaml"
# The checkpoint's `get`, which raises until the decision is made.
Decide = Callable[..., object]
Tables = dict[str, TableDefinition]


def study_names() -> list[str]:
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


class StudyParams:
    """Params and input files of the rules of a study, which may be one that is not measured."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.definition = load_study(f"config/studies/{name}.yaml")
        self.environment = environment
        self.axes = list(self.definition.axes)
        self.block = self.definition.block
        self.scenario_axes = self.definition.scenario_axes
        self.questions = self.definition.questions
        self.published_files = [f"config/published/{name}" for name in self.definition.numbers]
        numbers, commands = self.definition.numbers.values(), self.definition.commands.items()
        # For read_published(): the axis values of files, and the axes that commands lack.
        self.metadata: dict[str, Any] = {
            "fixed": dict(zip(self.published_files, numbers, strict=True)),
            "inapplicable": {n: c.inapplicable_axes for n, c in commands if c.inapplicable_axes},
            "command_axis": self.definition.command_axis,
        }
        references = [name for name, command in commands if command.reference_only]
        self.reference_commands = {self.definition.command_axis: references} if references else {}

    @property
    def table_columns(self) -> list[str]:
        columns = (table.get("by", []) for table in self.definition.tables.values())
        return list(dict.fromkeys(itertools.chain(*columns)))

    @cached_property
    def published_rows(self) -> dict[str, list[dict[str, str]]]:
        by = list(dict.fromkeys([*self.table_columns, STATISTIC]))
        return read_published_rows(self.published_files, self.axes, by, **self.metadata)

    @cached_property
    def published_values(self) -> dict[str, list[str]]:
        values: dict[str, dict[str, None]] = defaultdict(dict)
        for row in itertools.chain(*self.published_rows.values()):
            for axis, value in row.items():
                values[axis] |= {value: None} if value else {}
        return {axis: list(of_axis) for axis, of_axis in values.items() if of_axis}

    @property
    def published_numbers(self) -> list[str]:
        """Return the files of published numbers. Raise UserError for a wrong file, and without any."""
        if self.published_files:
            self.check_published()
            return self.published_files
        name = self.definition.name
        raise UserError(
            f"config/studies/{name}.yaml: `published`: the key is missing. Add it, or remove the study."
        )

    def check_published(self) -> None:
        """Raise UserError for a published value that an axis lacks, because no table would have it."""
        study, known = self.definition, {STATISTIC: list(get_args(Statistic))}
        known |= {axis: [*names] for axis, names in study.axes.items() if isinstance(names, list)}
        known |= {axis: list(study.commands) for axis in study.axes_of("commands")}
        known |= dict.fromkeys(study.axes_of("servers"), self.environment.servers)
        for axis, names in study.published.unmeasured_values.items() if study.published else ():
            known[axis] = [*known.get(axis, ()), *names]
        for path, rows in self.published_rows.items():
            for axis, names in known.items():
                values = filter(None, (row.get(axis) for row in rows))
                if names and (unknown := unknown_name(values, names)):
                    text = f"{path}: `{axis}`: no value {unknown}"
                    if axis in study.axes:
                        text += f" Or list it in `published.unmeasured_values` of {study.name}."
                    raise UserError(text)

    def check_names(self) -> None:
        """Raise UserError for a name that only tables and pages use, if nothing has it."""
        study, published = self.definition, self.definition.published
        columns, tables = [*RUN_COLUMNS, *self.published_values], study.tables.items()
        named = [(f"tables.{n}.by", "no column", t.get("by", []), columns) for n, t in tables]
        for finding in self.findings:
            for key in ("allow_inconclusive", "allow_not_measured"):
                if key in finding:
                    place = f"{FINDINGS}: `{finding['id']}.{key}`"
                    raise UserError(f"{place}: only an expectation can have this. Remove it.")
        if published:
            self.check_published()
            findings, groups = published.findings or [], [*read_definitions(FINDINGS)]
            named.append(("published.findings", f"{FINDINGS} has no", findings, groups))
            repositories = self.order.get("repo", [])
            revisions = [*published.revisions]
            named.append(("published.revisions", "no repository", revisions, repositories))
        for key, fault, names, known in named:
            if unknown := unknown_name(names, known):
                raise UserError(f"config/studies/{study.name}.yaml: `{key}`: {fault} {unknown}")

    @property
    def conditions(self) -> dict[str, float | str]:
        """Return the fields of statistics.finding_checks.Conditions of the published numbers."""
        include = {"scale", "subversion", "storage", "server", "system"}
        published = self.definition.published
        return published.model_dump(include=include) if published else {}

    @property
    def published_tables(self) -> list[str]:
        """Return the folder of the published tables; [] if the study has none."""
        is_made = self.definition.published and self.published_settings.tables
        return [f"results/published/{self.definition.name}"] if is_made else []

    @property
    def order(self) -> dict[str, list[str]]:
        """Return each axis with its values in order."""
        return axis_table.order_of(self.definition, self.environment, self.published_values)

    @property
    def by(self) -> list[str]:
        """Return the columns that tables group by."""
        has_statistic = STATISTIC in self.published_values
        return list(dict.fromkeys([*self.table_columns, *[STATISTIC] * has_statistic]))

    @cached_property
    def tables(self) -> Tables:
        values = axis_table.values_of(self.definition, self.environment)
        return axis_table.resolved_tables(self.definition, values)

    @property
    def settings(self) -> StudySettings:
        limits = Limits.from_config(self.environment.config)
        return StudySettings(self.order, self.by, self.block, self.tables, limits)

    @property
    def published_settings(self) -> StudySettings:
        """Return the settings with the tables that are made of published numbers, too."""
        tables = {n: table for n, table in self.tables.items() if table.get("published", True)}
        return replace(self.settings, tables=tables)

    @property
    def workload(self) -> list[WorkloadShare]:
        return workload_of(self.environment.config.settings.workload, self.definition)

    @property
    def repository_facts(self) -> list[str]:
        return axis_table.findings_of(self.definition, self.environment)

    @property
    def apply_commands(self) -> dict[str, dict[str, dict[str, str]]]:
        if SERVER_AXIS not in self.definition.axes:
            return {}
        root, servers = self.environment.root, self.environment.servers
        return {SERVER_AXIS: {name: server_settings(root, name) for name in servers}}

    @property
    def findings(self) -> list[FindingDefinition]:
        columns = {
            name: get_args(Statistic) if name == STATISTIC else None
            for name in (*self.axes, *self.by)
        }
        groups = (read_expectations([FINDINGS], name, columns) for name in self.definition.findings)
        return [finding for group in groups for finding in group]


def studies_with_findings(
    params_of: Callable[[str], StudyParams],
) -> list[tuple[str, str, list[dict[str, str]]]]:
    """Return the name, the title and the findings of each study, the one with the most first."""
    known, with_findings = read_definitions(FINDINGS), []
    for name in study_names():
        study = params_of(name).definition
        statements = [
            {"id": finding["id"], "statement": finding["statement"]}
            for group in study.findings
            for finding in known.get(group, [])
        ]
        if statements:
            with_findings.append((name, study.title, statements))
    return sorted(with_findings, key=lambda study: -len(study[2]))


class SamplingState:
    """The rounds of each block that are decided, batch by batch, for runs with minutes.

    On a cluster the records of the nodes' jobs take the place of all results.
    """

    def __init__(self, plan: Plan, is_cluster: bool = False) -> None:
        self.plan, self.mode = plan, plan.config.settings.measure
        self.is_cluster = is_cluster

    def exports(self, study: str, decide: Decide) -> list[str]:
        """Return the exports after the last decision.

        If a decision is missing, `decide` raises, and Snakemake calls this function again later.
        """
        if self.is_cluster:
            return []
        if self.mode == NOTHING:
            return self.plan.cell_files(study, only_fresh=True)
        if study not in self.plan.batches:
            return self.plan.cell_files(study)
        batches = self.plan.batches[study]
        decided = 0
        while decided != batches.next:
            # After a decision without rounds, the next one stays the same.
            decided = batches.next
            decide(study=study, number=str(decided))
        return self.exports_before(study)

    def exports_before(self, study: str, number: int | None = None) -> list[str]:
        """Return the exports of all batches before one (default: of all)."""
        last = None if number is None else number - 1
        return [
            export
            for cell in self.plan.measured(study)
            for export in self.plan.exports_of(cell, last)
        ]

    def next_decision(self, study: str) -> list[str]:
        return [] if self.mode == NOTHING else self.decisions(study)[-1:]

    def decisions(self, study: str) -> list[str]:
        batches = self.plan.batches.get(study)
        return [decision_of(study, n) for n in range(2, batches.next + 1)] if batches else []

    def traces(self, study: str) -> list[str]:
        if self.is_cluster:
            return []
        return list(self.plan.traces_of(study, True if self.mode == NOTHING else None).values())


class Expectations:
    """The expectations in the user's files, and the saved baselines.

    Raise a UserError with the file and the key.
    """

    def __init__(self, environment: Environment, params_of: Callable[[str], StudyParams]) -> None:
        self.config = environment.config
        self.saved_studies = baselines.saved_baselines()
        self.by_study: dict[str, list[FindingDefinition]] = {}
        # A file that only tables and pages need is refused before a run, too.
        read_definitions(FINDINGS)
        for study in self.config.studies:
            params_of(study).check_names()
        files = [str(environment.root / path) for path in self.config.settings.expectations]
        if missing := next((path for path in files if not Path(path).is_file()), ""):
            text = f"no file {missing}. Write it, or remove the entry."
            raise self.config.error(["expectations"], text)
        places = {study: path for path in files for study in read_definitions(path)}
        for study, path in places.items():
            if study not in (known := study_names()):
                raise UserError(f"{path}: no study `{study}`. Use one of {', '.join(known)}.")
            definition = params_of(study).definition
            values = axis_table.values_of(definition, environment)
            # They may concern repositories of other sessions.
            settings = self.config.settings
            is_elsewhere = settings.repository is not None or study not in self.config.studies
            others = definition.axes_of("repositories") if is_elsewhere else ()
            choices = {**values, **dict.fromkeys(others)}
            self.by_study[study] = read_expectations(files, study, choices, self.saved(study))
        for name in self.config.settings.baselines:
            if not {*self.saved_studies.get(name, [])} & {*self.config.studies}:
                raise self.config.error(
                    ["baselines"],
                    f"no baseline {name!r} of the configured studies. Use one of: "
                    f"{', '.join(self.saved_studies) or 'none'}, or save it by `make baseline NAME={name}`.",
                )

        for study in self.config.studies:
            for name in self.baselines(study):
                baselines.read_description(name, study)

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
