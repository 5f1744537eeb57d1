"""Params and input files of the rules of a study."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

from vcsbench import axes as axis_table
from vcsbench.axes.axis import Environment
from vcsbench.axes.server_axes import server_settings
from vcsbench.axis_names import SERVER_AXIS
from vcsbench.config import definitions
from vcsbench.config.configuration import STUDIES, WorkloadShare, workload_of
from vcsbench.config.models import unknown_name
from vcsbench.config.study import RUN_COLUMNS, Statistic, TableDefinition
from vcsbench.config.study_reader import load_study
from vcsbench.errors import UserError
from vcsbench.evidence.column_names import MEASUREMENT_COLUMNS
from vcsbench.sources.server_log import ServerLog, read_server_log
from vcsbench.statistics.comparisons import COLUMNS, STATISTIC, WORKING_COLUMNS, Limits
from vcsbench.statistics.settings import StudySettings

# Files that rules read have paths relative to the checkout, in which Snakemake works.
PUBLISHED = Path("config", "published")
FINDINGS_FILE = str(PUBLISHED / "findings.yaml")
# An axis with one of these names would be replaced by another column of the results, or would replace it.
RESERVED_NAMES = {*MEASUREMENT_COLUMNS, *COLUMNS, *WORKING_COLUMNS, STATISTIC}
# The keys of `published` in a study's file that are fields of evaluations.Conditions, too.
CONDITION_KEYS = {
    *("scale", "revisions", "files", "limits", "subversion"),
    *("storage", "server", "system", "history"),
}


class StudyWithFindings(NamedTuple):
    """A study and its published statements, each with its id, for the index of the reports."""

    name: str
    title: str
    statements: list[dict[str, str]]


class StudyParams:
    """Params and input files of the rules of a study, which may be one that is not measured."""

    def __init__(
        self,
        name: str,
        root: Path,
        environment: Environment,
        measured_commands: Sequence[str] = (),
    ) -> None:
        """Read the file of the study `name`. Raise UserError if an axis has a reserved name.

        `measured_commands` are the commands in the study's grid; () for a study that is not measured.
        """
        self.root = root
        self.environment = environment
        self.measured_commands = measured_commands
        self.definition = load_study(root / STUDIES / f"{name}.yaml")
        self.axes = list(self.definition.axes)
        self.block = self.definition.block
        self.scenario_axes = self.definition.scenario_axes
        self.questions = self.definition.questions
        self.published_files = [str(PUBLISHED / file) for file in self.definition.numbers]
        self._check_axes()

    def _check_axes(self) -> None:
        """Raise UserError for an axis with the name of another column of the results."""
        for axis in self.axes:
            if axis in RESERVED_NAMES:
                raise UserError(
                    f"config/studies/{self.definition.name}.yaml: `axes.{axis}`: the results have "
                    f"another column of this name. Rename the axis."
                )

    @property
    def metadata(self) -> definitions.PublishedMetadata:
        """Return the metadata of the files of published numbers that rules read."""
        return self._metadata_of(self.published_files)

    def _metadata_of(self, paths: Sequence[str]) -> definitions.PublishedMetadata:
        """Return the facts of the study's file that the rows of its published numbers lack.

        `paths` are the files of published numbers, in the order of the study's file. The reader of a file
        finds its facts by this path, so it must be the path that the reader opens, absolute or relative.
        """
        # For each file, the axes for which it has no column, with their values: {"format": "f7"} for f7.csv.
        values_of_files = self.definition.numbers.values()
        # By command, such as {"dump": ["access"]}.
        inapplicable_axes = {}
        for name, command in self.definition.commands.items():
            if command.inapplicable_axes is not None:
                inapplicable_axes[name] = command.inapplicable_axes
        return definitions.PublishedMetadata(
            fixed=dict(zip(paths, values_of_files, strict=True)),
            inapplicable=inapplicable_axes,
            command_axis=self.definition.command_axis,
        )

    @property
    def reference_commands(self) -> dict[str, list[str]]:
        """Return the commands that advice leaves out, by the axis of commands; {} without any."""
        commands = self.definition.commands
        names = [name for name, command in commands.items() if command.reference_only]
        return {self.definition.command_axis: names} if names else {}

    @property
    def table_columns(self) -> list[str]:
        """Return the columns other than axes by which tables of the study group, such as "run"."""
        tables = self.definition.tables.values()
        return list(dict.fromkeys(column for table in tables for column in table.get("by", [])))

    @cached_property
    def published_rows(self) -> dict[str, list[dict[str, str]]]:
        """Return the rows of the published numbers by file: {"f7.csv": [{"command": "log", ...}]}."""
        files = [str(self.root / file) for file in self.published_files]
        # The columns that are neither axes nor numbers.
        by = list(dict.fromkeys([*self.table_columns, STATISTIC]))
        return definitions.read_published_rows(files, self.axes, by, self._metadata_of(files))

    @cached_property
    def published_values(self) -> dict[str, list[str]]:
        """Return the published values of each axis and column: {"access": ["http", "svn"], ...}."""
        values: dict[str, list[str]] = {}
        for row in chain.from_iterable(self.published_rows.values()):
            for axis, value in row.items():
                # An axis that does not apply to the command is empty.
                if not value:
                    continue
                axis_values = values.setdefault(axis, [])
                if value not in axis_values:
                    axis_values.append(value)
        return values

    @property
    def published_numbers(self) -> list[str]:
        """Return the files of published numbers. Raise UserError for a wrong file, or without any file."""
        if not self.published_files:
            file = f"config/studies/{self.definition.name}.yaml"
            raise UserError(
                f"{file}: `published`: the key is missing. Add it, or remove the study."
            )
        self.check_published()
        return self.published_files

    def check_published(self) -> None:
        """Raise UserError for a published value that its axis lacks, because no table would show it."""
        study = self.definition
        values_by_column = self._known_values()
        for path, rows in self.published_rows.items():
            for column, known_values in values_by_column.items():
                # A checkout may have no server configuration.
                if not known_values:
                    continue
                published = [row[column] for row in rows if row.get(column)]
                # The first unknown value with a remedy: "'f9'. Use one of f6, f7."; "" if all are known.
                value_and_remedy = unknown_name(published, known_values)
                if not value_and_remedy:
                    continue
                text = f"{path}: `{column}`: no value {value_and_remedy}"
                # The study's file can list more values of an axis, but not of STATISTIC.
                if column in study.axes:
                    text += f" Or list it in `published.unmeasured_values` of {study.name}."
                raise UserError(text)

    def _known_values(self) -> dict[str, list[str]]:
        """Return the values that published numbers may have, by axis: {"format": ["f6", "f7"], ...}.

        An axis that the result lacks may have any value.
        """
        study = self.definition
        # Files of published numbers have a column for the statistic, as if it were an axis.
        values_by_axis = {STATISTIC: list(get_args(Statistic))}
        for axis, names in study.axes.items():
            # `names` may be a word for values that are defined elsewhere. An axis with any other word than
            # the two below, such as "builds", stays out.
            if isinstance(names, list):
                values_by_axis[axis] = list(names)
            elif names == "commands":
                values_by_axis[axis] = list(study.commands)
            elif names == "servers":
                values_by_axis[axis] = list(self.environment.servers)
        if study.published is not None:
            for axis, names in study.published.unmeasured_values.items():
                values_by_axis[axis] = [*values_by_axis.get(axis, []), *names]
        return values_by_axis

    def check_names(self) -> None:
        """Raise UserError for a column, finding, repository or command in the study's file that is unknown.

        Also raise UserError for a finding with a key that only expectations may have, and for a published
        value that its axis lacks. Only tables and pages use these names. So without this check, a run would
        fail after it has measured.
        """
        study = self.definition
        # Tables may have rows by these columns of the measurements, and by all columns of published numbers.
        columns = [*RUN_COLUMNS, *self.published_values]
        # An error is, for example: "config/studies/x.yaml: `tables.log.by`: no column 'colour' ...".
        for name, table in study.tables.items():
            key = f"tables.{name}.by"
            self._check_name(key, fault="no column", names=table.get("by", []), known=columns)
        for finding in self.findings:
            # With these keys, the action `check` accepts an outcome of a user's expectation.
            for allowance in ("allow_inconclusive", "allow_not_measured"):
                if allowance in finding:
                    file_and_key = f"{FINDINGS_FILE}: `{finding['id']}.{allowance}`"
                    raise UserError(
                        f"{file_and_key}: only an expectation can have this. Remove it."
                    )
        if study.published is None:
            return
        self.check_published()
        self._check_name(
            "published.findings",
            fault=f"{FINDINGS_FILE} has no",
            names=study.published.findings or (),
            known=list(definitions.read_definitions(str(self.root / FINDINGS_FILE))),
        )
        counts = {"revisions": study.published.revisions, "files": study.published.files}
        for key, count_by_repository in counts.items():
            self._check_name(
                f"published.{key}",
                fault="no repository",
                names=list(count_by_repository),
                known=self.order.get("repo", []),
            )
        self._check_name(
            "published.limits",
            fault="no command",
            names=list(study.published.limits),
            known=self.order.get(study.command_axis, []),
        )

    def _check_name(
        self, key: str, *, fault: str, names: Sequence[str], known: Sequence[str]
    ) -> None:
        """Raise UserError with the first of the `names` that is not `known`, after file, key and fault."""
        unknown = unknown_name(names, known)
        if unknown:
            raise UserError(
                f"config/studies/{self.definition.name}.yaml: `{key}`: {fault} {unknown}"
            )

    @property
    def conditions(self) -> dict[str, Any]:
        """Return the fields of statistics.evaluations.Conditions of the published numbers, {} if none."""
        published = self.definition.published
        if published is None:
            return {}
        conditions = published.model_dump(include=CONDITION_KEYS)
        # The study's own commands are those that were published.
        ranges = {}
        for name, command in self.definition.commands.items():
            if command.revisions is not None:
                ranges[name] = command.revisions
        return {**conditions, "ranges": ranges}

    @property
    def published_tables(self) -> list[str]:
        """Return the folder of the published tables; [] if the study has none."""
        if self.definition.published is None or not self.published_settings.tables:
            return []
        return [f"results/published/{self.definition.name}"]

    @property
    def order(self) -> dict[str, list[str]]:
        """Return each axis with its values in order."""
        return axis_table.values_in_order(self.definition, self.environment, self.published_values)

    @property
    def by(self) -> list[str]:
        """Return the columns other than axes that tables group by, with the statistic if it was published."""
        columns = list(self.table_columns)
        if STATISTIC in self.published_values and STATISTIC not in columns:
            columns.append(STATISTIC)
        return columns

    @cached_property
    def tables(self) -> dict[str, TableDefinition]:
        values = axis_table.values_of(self.definition, self.environment)
        return axis_table.resolved_tables(self.definition, values)

    @property
    def settings(self) -> StudySettings:
        limits = replace(
            Limits.from_config(self.environment.config),
            decides_from_s=self.definition.decides_from_s,
        )
        return StudySettings(self.order, self.by, self.block, self.tables, limits)

    @property
    def published_settings(self) -> StudySettings:
        """Return the settings with only the tables that published numbers have something for."""
        tables = {name: each for name, each in self.tables.items() if each.get("published", True)}
        return replace(self.settings, tables=tables)

    @property
    def workload(self) -> list[WorkloadShare]:
        """Return the weights of the user's operations: configured, or from the log of a server."""
        if self._server_log:
            return self._server_log.shares(self.definition, self.measured_commands)
        return workload_of(self.environment.config.settings.workload, self.definition)

    @property
    def server_log_facts(self) -> list[str]:
        """Return sentences on the log that gives the weights; [] without one."""
        if self._server_log is None:
            return []
        return self._server_log.sentences(self.definition, self.measured_commands)

    @cached_property
    def _server_log(self) -> ServerLog | None:
        path = self.environment.config.settings.server_log
        return None if path is None else read_server_log(self.root / path)

    @property
    def repository_facts(self) -> list[str]:
        return axis_table.findings_of(self.definition, self.environment)

    @property
    def apply_commands(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the settings of each server configuration, by the axis; {} without the axis.

        For example: {"config": {"fast": {"svnserve": "svnserve -d -r ROOT --threads", "httpd": "..."}}}.
        """
        if SERVER_AXIS not in self.definition.axes:
            return {}
        servers = self.environment.servers
        return {SERVER_AXIS: {name: server_settings(self.root, name) for name in servers}}

    @property
    def findings(self) -> list[definitions.FindingDefinition]:
        """Return the published findings of the study.

        Raise UserError for an axis that the study lacks, and for an unknown statistic.
        """
        # The values that a finding may name on each axis or column; None for any value.
        choices: dict[str, Sequence[str] | None] = dict.fromkeys([*self.axes, *self.by])
        if STATISTIC in choices:
            choices[STATISTIC] = get_args(Statistic)
        findings: list[definitions.FindingDefinition] = []
        # A group is a key of the file, mostly the study's name.
        for group in self.definition.findings:
            findings += definitions.read_expectations([self.root / FINDINGS_FILE], group, choices)
        return findings


def study_names(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / STUDIES).glob("*.yaml"))


def find_studies_with_findings(
    root: Path, params_of: Callable[[str], StudyParams]
) -> list[StudyWithFindings]:
    """Return the studies that have published findings, those with the most findings first."""
    # By group, a key of the file. A study names the groups of its findings.
    findings_by_group = definitions.read_definitions(str(root / FINDINGS_FILE))
    studies = []
    for name in study_names(root):
        study = params_of(name).definition
        statements: list[dict[str, str]] = []
        for group in study.findings:
            for finding in findings_by_group.get(group, []):
                statements.append({"id": finding["id"], "statement": finding["statement"]})
        if statements:
            studies.append(StudyWithFindings(name, study.title, statements))
    return sorted(studies, key=lambda study: -len(study.statements))
