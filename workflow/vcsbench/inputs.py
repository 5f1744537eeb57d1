"""What the rules behind the measurements take in: code, definitions of tables, published numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from vcsbench.errors import UserError
from vcsbench.findings import read_findings
from vcsbench.study import Study, load_study

FINDINGS = "config/published/findings.yaml"


def code(*modules: str) -> list[str]:
    """The files of modules that a rule computes with: Snakemake does not see what a script imports."""
    return [f"workflow/vcsbench/{module}.py" for module in modules]


@cache
def study_file(name: str) -> Study:
    """A study as its file has it, measured here or not."""
    return load_study(f"config/studies/{name}.yaml")


def studies() -> list[str]:
    """The names of all studies that have a file."""
    return sorted(path.stem for path in Path("config/studies").glob("*.yaml"))


def definition_of(wildcards: Any) -> dict[str, Any]:
    """A table's definition: a change of it reruns that table alone."""
    tables = study_file(wildcards.study).tables
    if wildcards.table not in tables:
        raise UserError(
            f"config/studies/{wildcards.study}.yaml: has no table `{wildcards.table}`; "
            f"it has {', '.join(tables)}"
        )
    return tables[wildcards.table]


def axes_of(wildcards: Any) -> dict[str, Any]:
    """The axes of a study with their values."""
    return study_file(wildcards.study).axes


def caveats_of(wildcards: Any) -> dict[str, str]:
    """The caveat of each command of a study that has one."""
    commands = study_file(wildcards.study).commands
    return {name: c["caveat"] for name, c in commands.items() if "caveat" in c}


def findings_of(wildcards: Any) -> list[dict[str, Any]]:
    """The findings of a study: a change of them reruns nothing of another study."""
    return read_findings(FINDINGS, wildcards.study, list(axes_of(wildcards)))


def published_scale_of(wildcards: Any) -> float | None:
    """The scale of a study's published numbers; None if it has none."""
    return (study_file(wildcards.study).published or {}).get("scale")


def published_numbers(wildcards: Any) -> str:
    """The file of a study's published numbers."""
    published = study_file(wildcards.study).published
    if not published:
        raise UserError(
            f"config/studies/{wildcards.study}.yaml: has no `published` numbers to make tables of"
        )
    return f"config/published/{published['numbers']}"


def published_tables(study: str) -> list[str]:
    """The files of all tables that a study's published numbers make."""
    if not study_file(study).published:
        return []
    tables = study_file(study).tables
    names = [name for name, table in tables.items() if table.get("published", True)]
    return [f"results/published/{study}/{name}.{end}" for name in names for end in ("csv", "md")]


def measured_tables(study: str) -> list[str]:
    """The files of all tables of a study's measurements."""
    return [
        f"results/tables/{study}/{n}.{e}" for n in study_file(study).tables for e in ("csv", "md")
    ]
