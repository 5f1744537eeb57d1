"""What a study's file gives to the rules: axes, definitions of tables, findings, published numbers."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.axes import values
from vcsbench.axes.config import AXIS as SERVER_CONFIG
from vcsbench.axes.config import to_type
from vcsbench.axes.here import Here
from vcsbench.config.definitions import check_metric, read_findings, statements_in
from vcsbench.config.study import Study, load_study
from vcsbench.errors import UserError
from vcsbench.metrics import metric_in, names
from vcsbench.statistics.contract import STATISTIC

FINDINGS = "config/published/findings.yaml"


@cache
def study_file(name: str) -> Study:
    """A study as its file has it, measured here or not."""
    path = f"config/studies/{name}.yaml"
    study = load_study(path)
    for table, definition in study.tables.items():
        key = f"{path}: `tables.{table}"
        check_metric(definition.get("metric"), names(), f"{key}.metric`")
        check_metric(definition.get("compare", {}).get("metric"), names(), f"{key}.compare.metric`")
        for metric in definition.get("each", []):
            check_metric(metric, names(), f"{key}.each`")
    return study


def studies() -> list[str]:
    """The names of all studies that have a file."""
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


def made_tables(study: str, published: bool) -> list[str]:
    """The names of the tables that a study's measurements make, or its published numbers."""
    tables = study_file(study).tables
    if not published:
        return list(tables)
    has_some = bool(study_file(study).published)
    return [name for name, table in tables.items() if has_some and table.get("published", True)]


def definitions_of(wildcards: Any, here: Here, published: bool) -> dict[str, Any]:
    """Return the definitions of the tables of a study's measurements, or of its published numbers."""
    study = study_file(wildcards.study)
    tables = values.resolved_tables(study, values.values_of(study, here))
    return {name: tables[name] for name in made_tables(study.name, published)}


def terms_of(wildcards: Any, here: Here, limits: dict[str, float]) -> dict[str, Any]:
    """What a study's comparisons are counted by (statistics.budget.ComparisonSettings)."""
    return {
        "tables": comparing_tables(wildcards, here, exact=False),
        "order": order_of(wildcards, here),
        "block": study_file(wildcards.study).block,
        "limits": limits,
    }


def tables_of(wildcards: Any) -> dict[str, Any]:
    """The definitions of all of a study's tables."""
    return study_file(wildcards.study).tables


def comparing_tables(wildcards: Any, here: Here, exact: bool) -> dict[str, dict[str, Any]]:
    """Those of a study's tables, with their definitions, that compare what was counted (`exact`), or else
    what has noise."""
    study = study_file(wildcards.study)
    tables = values.resolved_tables(study, values.values_of(study, here))
    return {n: t for n, t in tables.items() if "compare" in t and metric_in(t).exact == exact}


def axes_of(wildcards: Any) -> list[str]:
    """The axes of a study."""
    return list(study_file(wildcards.study).axes)


def order_of(wildcards: Any, here: Here) -> dict[str, list[str]]:
    """Each axis of a study with its values in the one order that every table and page has."""
    study = study_file(wildcards.study)
    return values.order_of(study, here, _published_values(wildcards.study))


@cache
def _published_values(study: str) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for path in _numbers(study):
        with Path(path).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                for axis, value in row.items():
                    found[axis] |= {value: None} if value else {}
    return {axis: list(of_axis) for axis, of_axis in found.items()}


def _numbers(study: str) -> list[str]:
    """The files of a study's published numbers: none, one, or several."""
    return [f"config/published/{name}" for name in study_file(study).numbers]


def published_said(wildcards: Any) -> dict[str, Any]:
    """What the study says of its published numbers beside what their files do: `said` and `without` of
    compare.published.read_published."""
    study = study_file(wildcards.study)
    return {
        "said": {f"config/published/{name}": said for name, said in study.numbers.items()},
        "without": {
            name: command.inapplicable_axes
            for name, command in study.commands.items()
            if command.inapplicable_axes
        },
    }


def found_of(wildcards: Any, here: Here) -> list[str]:
    """What was found out of the user's own repository for a study."""
    return values.found_out(study_file(wildcards.study), here)


def typed_of(wildcards: Any, here: Here) -> dict[str, dict[str, str]]:
    """What to type for each server configuration, where a study has them as an axis, all or some."""
    if SERVER_CONFIG.name not in study_file(wildcards.study).axes:
        return {}
    return {SERVER_CONFIG.name: {name: to_type(here.root, name) for name in here.servers}}


def no_choices_of(wildcards: Any) -> dict[str, list[str]]:
    """The values of the axis that a study's commands are on which are no choice: advice leaves them out."""
    study = study_file(wildcards.study)
    names = [name for name, command in study.commands.items() if command.reference_only]
    return {study.command_axis: names} if names else {}


def findings_of(wildcards: Any) -> list[dict[str, Any]]:
    """The findings of a study: a change of them reruns nothing of another study."""
    told_by = [*axes_of(wildcards), *by_of(wildcards)]
    return [
        finding
        for name in study_file(wildcards.study).findings
        for finding in read_findings(FINDINGS, name, told_by, names())
    ]


def studies_with_findings() -> list[tuple[str, str, list[dict[str, str]]]]:
    """The name, the title and the findings (id and statement) of each study that has some, the one with most
    first."""
    found = []
    for name in studies():
        groups = study_file(name).findings
        if said := [one for group in groups for one in statements_in(FINDINGS, group)]:
            found.append((name, study_file(name).title, said))
    return sorted(found, key=lambda one: -len(one[2]))


def by_of(wildcards: Any) -> list[str]:
    """What tells a study's runs or published numbers apart beside its axes: all that a table of it names, and
    how runs were reduced, where a published file says that."""
    tables = tables_of(wildcards).values()
    named = [name for table in tables for name in table.get("by", [])]
    says = STATISTIC in _published_values(wildcards.study)
    return list(dict.fromkeys([*named, *[STATISTIC] * says]))


def published_conditions_of(wildcards: Any) -> dict[str, Any]:
    """Return the fields of statistics.findings.Conditions of a study's published numbers."""
    published = study_file(wildcards.study).published
    return {"scale": published.scale, "subversion": published.subversion} if published else {}


def published_numbers(wildcards: Any) -> list[str]:
    """The files of a study's published numbers."""
    if found := _numbers(wildcards.study):
        return found
    raise UserError(
        f"config/studies/{wildcards.study}.yaml: has no `published` numbers to make tables of"
    )


def published_tables(study: str) -> list[str]:
    """Return the folder of the tables of a study's published numbers, if it has some."""
    return [f"results/published/{study}"] if made_tables(study, published=True) else []


def if_measured(path: str, measured: Collection[str]) -> Callable[[Any], list[str]]:
    """An input that there is only where the study is among those that are measured here."""
    return lambda wildcards: [path.format(**wildcards)] if wildcards.study in measured else []
